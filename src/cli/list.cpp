// tilesmith list: the instances of an architecture, in the vendor's order.
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <memory>

#include "cli/verbs.hpp"
#include "enumerate/listing_output.hpp"
#include "kernel/name.hpp"

namespace tilesmith::cli {
namespace {

struct ListOptions {
  ListRequest request;
  std::string operation = "attention";
  std::string mode = "rules";
  std::vector<std::string> head_dims;
  std::string import_file;
  bool count = false, names = false, json = false, ndjson = false, csv = false, stats = false;
};

Result<std::pair<int, int>> parse_head_dims(const std::string& text) {
  int qk = 0, v = 0, used = 0;
  if (std::sscanf(text.c_str(), "%5dx%5d%n", &qk, &v, &used) == 2 && static_cast<std::size_t>(used) == text.size())
    return std::pair(qk, v);
  if (std::sscanf(text.c_str(), "%5d%n", &qk, &used) == 1 && static_cast<std::size_t>(used) == text.size())
    return std::pair(qk, qk);
  return fail(ErrorCode::invalid_argument, fmt::format("--head-dim {}", text),
              "one figure, or two joined by x: 192x128");
}

ListFormat format_of(const ListOptions& options) {
  if (options.count) return ListFormat::count;
  if (options.ndjson) return ListFormat::ndjson;
  if (options.json) return ListFormat::json;
  if (options.csv) return ListFormat::csv;
  return ListFormat::names;
}

/// Names or the count of an exported list, after checking every kernel of it.
Status list_imported(const ListOptions& options) {
  std::ifstream in(options.import_file, std::ios::binary);
  if (!in) return fail(ErrorCode::not_found, fmt::format("cannot open {}", options.import_file));
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  TS_ASSIGN(const std::vector<KernelConfig> kernels, import_listing(options.import_file, text));
  if (options.count)
    fmt::print("{}\n", kernels.size());
  else
    for (const KernelConfig& kernel : kernels) fmt::print("{}\n", kernel_name(kernel));
  return {};
}

Status list(ListOptions options) {
  if (!options.import_file.empty()) return list_imported(options);
  if (options.request.arch.empty())
    return fail(ErrorCode::invalid_argument, "--arch is missing", "tilesmith arch names the architectures");
  TS_ASSIGN(options.request.operation, parse_enum<Operation>(options.operation));
  TS_ASSIGN(options.request.mode, parse_enum<EnumerationMode>(options.mode));
  for (const std::string& text : options.head_dims) {
    TS_ASSIGN(const auto dims, parse_head_dims(text));
    options.request.head_dims.push_back(dims);
  }
  TS_ASSIGN(const Listing listing, Listing::prepare(options.request));
  if (options.stats || (options.count && options.json)) {
    ListStatistics statistics;
    TS_TRY(listing.walk([](const KernelConfig&) { return true; }, statistics));
    if (!options.json)
      fmt::print("{}", statistics_text(statistics));
    else
      fmt::print("{}\n",
                 options.stats ? statistics_json(statistics) : fmt::format("{{\"count\":{}}}", statistics.listed));
    return {};
  }
  std::fflush(stdout);
  TS_TRY(write_listing(listing, format_of(options), STDOUT_FILENO));
  return {};
}

}  // namespace

void add_list(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("list", "The instances of an architecture");
  auto options = std::make_shared<ListOptions>();
  ListRequest& request = options->request;
  verb->add_option("config", request.sweep_file, "Sweep file (JSON): a variant and allow-lists of traits");
  verb->add_option("--arch", request.arch, "Architecture, for example gfx950 or x86_64_v4");
  verb->add_option("--op", options->operation, "attention, gemm or conv")->capture_default_str();
  verb->add_option("--variant", request.variant, "One variant of the operation; all when absent");
  verb->add_option("--receipt", request.receipt, "Attention: a receipt's number, or the name of a profile")
      ->capture_default_str();
  verb->add_option("--mode", options->mode, "rules, exhaustive, tables or sound")->capture_default_str();
  verb->add_option("--dtype", request.data_types, "Data types; all when absent")->delimiter(',');
  verb->add_option("--head-dim", options->head_dims, "Attention: head dims, 128 or 192x128; all when absent")
      ->delimiter(',');
  verb->add_option("--ndim", request.spatial_dims, "Conv: spatial dimensions; those of the rule set when absent")
      ->delimiter(',');
  verb->add_option("--layout", request.layout, "GEMM: layouts of A, B and C")->capture_default_str();
  verb->add_option("--rule-set", request.rule_set, "Conv: full, full-tests, tiny or default; GEMM: a preselected set");
  verb->add_option("--filter", request.filters, "Keep what the expression holds for: \"c.hdim_q == 128 and c.lse\"")
      ->allow_extra_args(false);
  verb->add_option("--filter-file", request.filter_files, "The same, from a file")->allow_extra_args(false);
  verb->add_option("--import", options->import_file, "List what an earlier --json or --ndjson exported, checked");
  verb->add_flag("--count", options->count, "One integer");
  verb->add_flag("--names", options->names, "One name a line (the default)");
  verb->add_flag("--json", options->json, "One JSON document");
  verb->add_flag("--ndjson", options->ndjson, "One JSON object a line");
  verb->add_flag("--csv", options->csv, "One row a kernel");
  verb->add_flag("--stats", options->stats,
                 "Counts by family, and in mode sound by the rule that refused, instead of the instances");
  verb->callback([options, &exit_code] { exit_code = exit_code_of(list(*options)); });
}

}  // namespace tilesmith::cli
