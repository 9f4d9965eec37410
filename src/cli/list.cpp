// tilesmith list: the instances of an architecture, in the vendor's order.
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.hpp"
#include "base/json.hpp"
#include "catalog/listing_output.hpp"
#include "cli/list_candidates.hpp"
#include "cli/selection.hpp"
#include "cli/verbs.hpp"
#include "jit/store.hpp"
#include "spec/architectures.hpp"
#include "vocabulary/names/name.hpp"

namespace tilesmith::cli {
namespace {

// A list of every gfx942 attention kernel (2.86 million names) as JSON is larger: what is read back is a selection.
constexpr std::uint64_t kLargestImport = 512ull << 20;

struct ListOptions {
  Selection selection;
  CandidateOptions candidates;
  std::string import_file;
  bool count = false, names = false, json = false, ndjson = false, csv = false, stats = false, built = false;
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
  TS_ASSIGN(const std::string text, read_file(options.import_file, kLargestImport));
  auto kernels = import_listing(options.import_file, text);
  if (!kernels) {
    // A program wrote the list: what is wrong in it is damage, and no mistake in what the user wrote.
    if (kernels.error().code == ErrorCode::parse) kernels.error().code = ErrorCode::corrupt;
    return std::unexpected(std::move(kernels.error()));
  }
  if (options.count)
    fmt::print("{}\n", kernels->size());
  else
    for (const KernelConfig& kernel : *kernels) fmt::print("{}\n", kernel_name(kernel));
  return {};
}

/// Refuses every option beside `main` that is not among `together`.
Status check_goes_with(const CLI::App& verb, std::string_view main, std::span<const std::string_view> together) {
  for (const CLI::Option* option : verb.get_options())
    if (option->count() > 0 && option->get_name() != main &&
        std::ranges::find(together, option->get_name()) == together.end())
      return fail(ErrorCode::invalid_argument, fmt::format("{} does not go with {}", option->get_name(), main),
                  fmt::format("{} do", fmt::join(together, ", ")));
  return {};
}

/// There is one output, in one form; a count and statistics are also JSON.
Status check_form(const CLI::App& verb) {
  const CLI::Option* first = nullptr;
  for (const char* name : {"--count", "--stats", "--names", "--json", "--ndjson", "--csv"}) {
    const CLI::Option* option = verb.get_option(name);
    if (option->count() == 0) continue;
    const bool figures_as_json = option->get_name() == "--json" && first != nullptr &&
                                 (first->get_name() == "--count" || first->get_name() == "--stats");
    if (first != nullptr && !figures_as_json)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("{} does not go with {}", option->get_name(), first->get_name()),
                  "one of --names, --json, --ndjson, --csv, --count and --stats; the last two may be --json as well");
    if (first == nullptr) first = option;
  }
  return {};
}

/// What narrows instances says nothing about stored kernels and exported lists.
Status check(const CLI::App& verb, const ListOptions& options) {
  constexpr std::array<std::string_view, 3> kBesideBuilt = {"--arch", "--count", "--json"};
  constexpr std::array<std::string_view, 2> kBesideImport = {"--count", "--names"};
  for (const char* name : {"--refused", "--threads"})
    if (verb.get_option(name)->count() > 0)
      return fail(ErrorCode::invalid_argument, fmt::format("{} goes with --candidates", name),
                  "tilesmith list --arch sm_90a --op gemm --candidates -m 256 -n 512 -k 1024");
  if (options.built) TS_TRY(check_goes_with(verb, "--built", kBesideBuilt));
  if (!options.import_file.empty()) TS_TRY(check_goes_with(verb, "--import", kBesideImport));
  return check_form(verb);
}

std::string count_text(std::uint64_t count, bool as_json) {
  return as_json ? fmt::format("{{\"count\":{}}}\n", count) : fmt::format("{}\n", count);
}

/// The kernel of the symbol; where that is a host's function, the one with the most registers.
const FunctionResources* main_kernel(const ResourceReport& report, std::string_view symbol) {
  if (const FunctionResources* kernel = report.kernel(symbol)) return kernel;
  const auto most = std::ranges::max_element(report.functions, {}, &FunctionResources::registers);
  return most == report.functions.end() ? nullptr : &*most;
}

/// What is compiled and kept in the store; --arch narrows it.
Status list_built(const ListOptions& options) {
  TS_ASSIGN(const std::unique_ptr<Store> store, Store::open());
  std::vector<StoredEntry> entries = store->entries();
  const std::string& arch = options.selection.request.arch;
  std::erase_if(entries, [&](const StoredEntry& entry) { return !arch.empty() && entry.arch != arch; });
  if (entries.empty() && !arch.empty()) {
    TS_ASSIGN(const std::vector<std::string> known, known_archs());
    if (std::ranges::find(known, arch) == known.end()) return std::unexpected(no_own_kernels(arch, "nothing is built"));
  }
  if (options.count) {
    const auto kernels = std::ranges::count_if(entries, [](const StoredEntry& entry) { return !entry.failure; });
    fmt::print("{}", count_text(static_cast<std::uint64_t>(kernels), options.json));
    return {};
  }
  nlohmann::json document = nlohmann::json::array();
  for (const StoredEntry& entry : entries) {
    const Binary& binary = entry.binary;
    const FunctionResources* kernel = binary.resources ? main_kernel(*binary.resources, binary.entry_symbol) : nullptr;
    if (options.json) {
      nlohmann::json item = {{"name", entry.name}, {"arch", entry.arch}};
      if (entry.failure) {
        item["failure"] = entry.failure->text();
      } else {
        item["bytes"] = binary.bytes;
        item["sha256"] = to_hex(binary.digest);
        item["entry_symbol"] = binary.entry_symbol;
        if (binary.resources) item["resources"] = to_json(*binary.resources);
      }
      document.push_back(std::move(item));
    } else if (entry.failure) {
      const std::string& message = entry.failure->message;
      fmt::print("{:16} {}  refused: {}\n", entry.arch, entry.name, message.substr(0, message.find('\n')));
    } else if (kernel != nullptr) {
      fmt::print("{:16} {}  {} bytes, {} registers, {} bytes shared, {} bytes spilled\n", entry.arch, entry.name,
                 binary.bytes, kernel->registers, kernel->shared_bytes, binary.resources->spill_bytes());
    } else {
      fmt::print("{:16} {}  {} bytes\n", entry.arch, entry.name, binary.bytes);
    }
  }
  if (options.json) fmt::print("{}", json_text(document));
  return {};
}

Status list(const ListOptions& options) {
  if (options.built) return list_built(options);
  if (!options.import_file.empty()) return list_imported(options);
  TS_ASSIGN(const Listing listing, options.selection.prepare());
  if (options.stats || (options.count && options.json)) {
    ListStatistics statistics;
    TS_TRY(listing.walk([](const KernelConfig&) { return true; }, statistics));
    if (options.count)
      fmt::print("{}", count_text(statistics.listed, true));
    else if (options.json)
      fmt::print("{}\n", statistics_json(statistics));
    else
      fmt::print("{}", statistics_text(statistics));
    return {};
  }
  std::fflush(stdout);
  TS_TRY(write_listing(listing, format_of(options), STDOUT_FILENO));
  return {};
}

}  // namespace

void add_list(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("list", "The instances of an architecture: list [CONFIG.json] --arch ARCH");
  auto options = std::make_shared<ListOptions>();
  options->selection.add_to(*verb);
  // The sweep file is read from the words that no option takes: as a positional argument it would take the value of an
  // option that --candidates alone knows.
  verb->remove_option(verb->get_option("config"));
  options->candidates.add_to(*verb);
  verb->add_option("--import", options->import_file, "List what an earlier --json or --ndjson exported, checked");
  verb->add_flag("--built", options->built,
                 "Instead: what is compiled and kept in the store, with what each kernel takes");
  verb->add_flag("--count", options->count, "One integer");
  verb->add_flag("--names", options->names, "One name a line (the default)");
  verb->add_flag("--json", options->json, "One JSON document");
  verb->add_flag("--ndjson", options->ndjson, "One JSON object a line");
  verb->add_flag("--csv", options->csv, "One row a kernel");
  verb->add_flag("--stats", options->stats,
                 "Counts by family, and in mode sound by the rule that refused, instead of the instances");
  verb->callback([verb, options, &exit_code] {
    if (options->candidates.wanted) {
      exit_code = exit_code_of(list_candidates_of(*verb, options->candidates));
      return;
    }
    std::vector<std::string> words = verb->remaining();
    if (!words.empty() && !words.front().starts_with('-')) {
      options->selection.request.sweep_file = words.front();
      words.erase(words.begin());
    }
    if (!words.empty()) throw CLI::ExtrasError(verb->get_name(), words);
    const Status fits = check(*verb, *options);
    exit_code = exit_code_of(fits ? list(*options) : fits);
  });
}

}  // namespace tilesmith::cli
