#include "cli/serving/run.hpp"

#include <fmt/core.h>

#include <memory>
#include <string>

#include "base/json.hpp"
#include "cli/run_settings.hpp"
#include "cli/serving/append_kv_words.hpp"
#include "cli/verbs.hpp"
#include "trial/serving/merge_states_case.hpp"
#include "vocabulary/data_type.hpp"
#include "vocabulary/traits.hpp"

namespace tilesmith::cli {
namespace {

struct MergeStatesWords {
  MergeStatesSizes sizes;
  std::string data_type = "bf16";

  void add_to(CLI::App& verb) {
    verb.add_option("--states", sizes.states, "Partial results (default 2)");
    verb.add_option("--batch", sizes.batch, "Sequences (default 1)");
    verb.add_option("--heads", sizes.heads, "Query heads (default 1)");
    verb.add_option("--seqlen", sizes.seqlen, "Queries of a sequence (default 1)");
    verb.add_option("--head-dim", sizes.head_dim, "Elements of a row (default 128)");
    verb.add_option("--dtype", data_type, "Of the outputs: fp32, fp16 or bf16 (the default)");
    verb.add_option("--seed", sizes.seed, "Of the random data (default 0)");
  }
  [[nodiscard]] Result<std::unique_ptr<const DirectCase>> make() {
    TS_ASSIGN(sizes.data_type, parse_enum<DataType>(data_type));
    return merge_states_case(sizes);
  }
};

Status print(const DirectReport& report, const std::string& command, const Device& device, bool as_json) {
  if (as_json) {
    nlohmann::json out = {{"call", command}, {"device", to_string(device)}};
    if (report.timing) out["timing"] = to_json(*report.timing);
    if (report.fault) out["verify"] = {{"outcome", report.fault->empty() ? "pass" : "fail"}, {"reason", *report.fault}};
    fmt::print("{}", json_text(out));
  } else {
    if (report.timing)
      fmt::print("time     {:.4f} ms median of {}, best {:.4f}, spread {:.1f} %, cold caches\nrate     {:.1f} GB/s\n",
                 report.timing->median_s * 1e3, report.timing->samples, report.timing->best_s * 1e3,
                 report.timing->spread * 100, report.timing->gbps());
    if (report.fault) fmt::print("verified {}\n", report.fault->empty() ? "pass" : *report.fault);
  }
  if (!report.fault || report.fault->empty()) return {};
  return fail(ErrorCode::wrong_result, fmt::format("the result is wrong: {}", *report.fault),
              fmt::format("repeat with: {}", command));
}

template <class Words>
void add_direct(CLI::App& run, const char* name, const char* about, int& exit_code) {
  CLI::App* verb = run.add_subcommand(name, about);
  auto words = std::make_shared<Words>();
  auto settings = std::make_shared<RunSettings>();
  words->add_to(*verb);
  settings->add_to(*verb);
  verb->callback([words, settings, verb, name, &exit_code] {
    exit_code = exit_code_of([&]() -> Status {
      TS_ASSIGN(const DispatcherOptions options, settings->dispatcher_options());
      TS_ASSIGN(const auto direct, words->make());
      Dispatcher dispatcher(options);
      TS_ASSIGN(const DirectReport report, try_direct(*direct, dispatcher, settings->verify, !settings->no_time));
      const std::string typed = typed_options(*verb, [](const CLI::Option&) { return true; });
      return print(report, fmt::format("tilesmith run {}{}", name, typed), dispatcher.device(), settings->as_json);
    }());
  });
}

}  // namespace

void add_serving(CLI::App& run, int& exit_code) {
  add_direct<AppendKvWords>(run, "append_kv", "New keys and values, turned by their positions, into a cache of pages",
                            exit_code);
  add_direct<MergeStatesWords>(run, "merge_states", "Partial results of attention merged into one", exit_code);
}

}  // namespace tilesmith::cli
