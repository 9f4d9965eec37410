// tilesmith list: the instances of an architecture, in the vendor's order.
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <memory>

#include "cli/selection.hpp"
#include "cli/verbs.hpp"
#include "enumerate/listing_output.hpp"
#include "kernel/name.hpp"

namespace tilesmith::cli {
namespace {

struct ListOptions {
  Selection selection;
  std::string import_file;
  bool count = false, names = false, json = false, ndjson = false, csv = false, stats = false;
};

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

Status list(const ListOptions& options) {
  if (!options.import_file.empty()) return list_imported(options);
  TS_ASSIGN(const Listing listing, options.selection.prepare());
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
  options->selection.add_to(*verb);
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
