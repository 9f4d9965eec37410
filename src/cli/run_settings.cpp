#include "cli/run_settings.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "cli/verbs.hpp"
#include "runtime/cpu/machine.hpp"
#include "vocabulary/traits.hpp"

namespace tilesmith::cli {

void RunSettings::add_to(CLI::App& operation) {
  operation.add_option("--device", device, "Where to run: cpu, cuda:N or hip:N")->capture_default_str();
  operation.add_option("--threads", threads, "Threads (default: every processor this process may use)");
  operation.add_option("--kernel", kernel, "Use this kernel, by its name");
  operation
      .add_option("--determinism", determinism,
                  "What may differ from run to run: bitwise, nothing; tolerant, the order and so the rounding of sums")
      ->capture_default_str();
  operation.add_flag("--verify", verify, "Compare with a float64 reference");
  operation.add_flag("--keep-wrong", keep_wrong, "Write output files even when --verify finds them wrong");
  operation.add_flag("--no-time", no_time, "Run once, without timing");
  operation.add_flag("--no-build", no_build, "Use only kernels that need no compilation");
  operation.add_flag("--json", as_json, "One JSON document on standard output");
}

Result<DispatcherOptions> RunSettings::dispatcher_options() const {
  TS_ASSIGN(const Device where, parse_device(device));
  if (threads < 0 || threads > 4096)
    return fail(ErrorCode::invalid_argument, fmt::format("--threads {}", threads),
                "1 to 4096, or 0 for every processor");
  TS_ASSIGN(const Determinism wanted, parse_enum<Determinism>(determinism));
  return DispatcherOptions{.device = where,
                           .threads = threads,
                           .build = no_build ? BuildPolicy::never : BuildPolicy::allowed,
                           .determinism = wanted,
                           .kernel = kernel};
}

std::string RunSettings::typed() const {
  const RunSettings usual;
  std::string out;
  if (device != usual.device) out += " --device " + device;
  if (threads != usual.threads) out += fmt::format(" --threads {}", threads);
  if (!kernel.empty()) out += " --kernel " + kernel;
  if (determinism != usual.determinism) out += " --determinism " + determinism;
  for (const auto& [set, name] : {std::pair{verify, " --verify"},
                                  {keep_wrong, " --keep-wrong"},
                                  {no_time, " --no-time"},
                                  {no_build, " --no-build"}})
    if (set) out += name;
  return out;
}

namespace {

std::string quoted(const std::string& word) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || std::string_view("_-+./:,=@%").contains(c);
  };
  if (!word.empty() && std::ranges::all_of(word, plain)) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace

std::string typed_options(const CLI::App& verb, FunctionRef<bool(const CLI::Option&)> is_wanted) {
  std::string out;
  for (const CLI::Option* option : verb.get_options()) {
    if (option->count() == 0 || !is_wanted(*option)) continue;
    out += " " + option->get_name();
    if (option->get_expected_max() == 0) continue;  // a flag
    const std::string value = fmt::to_string(fmt::join(option->results(), ","));
    out += (value.starts_with('-') ? "=" : " ") + quoted(value);  // what begins with - may be read as an option
  }
  return out;
}

Status print_report(const RunSettings& options, const RunReport& report, const std::string& command) {
  const Plan& plan = *report.plan;
  const auto& [timing, verdict] = std::tie(report.timing, report.verdict);
  if (options.as_json) {
    const int threads = is_gpu(plan.device().kind) ? 0
                        : options.threads > 0      ? options.threads
                                                   : this_cpu_machine()->threads;
    nlohmann::json out = {{"operation", report.operation},
                          {"problem", report.problem},
                          {"device", to_string(plan.device())},
                          {"kernel", plan.kernel_name()},
                          {"reason", plan.reason()},
                          {"workspace_bytes", plan.workspace_bytes()},
                          {"threads", threads}};
    if (timing) out["timing"] = to_json(*timing);
    if (verdict) out["verify"] = to_json(*verdict);
    fmt::print("{}", json_text(out));
  } else {
    fmt::print("problem  {}\n", report.description);
    fmt::print("kernel   {}\n", plan.kernel_name());
    fmt::print("chosen   {}\n", plan.reason());
    if (timing)
      fmt::print(
          "time     {:.4f} ms median of {}, best {:.4f}, spread {:.1f} %, cold caches\nrate     {:.1f} GFLOP/s, {:.1f} "
          "GB/s\n",
          timing->median_s * 1e3, timing->samples, timing->best_s * 1e3, timing->spread * 100, timing->gflops(),
          timing->gbps());
    if (verdict) {
      for (std::size_t i = 0; i < verdict->tensors.size(); ++i) {
        const auto& [name, e] = verdict->tensors[i];
        fmt::print("error    max abs {:.3g}, max rel {:.3g}, RMS {:.3g}", e.max_abs, e.max_rel, e.rms);
        if (i == 0)
          fmt::print(", {:.2f} of the naive computation's: {}\n", e.max_ratio, to_string(verdict->outcome));
        else
          fmt::print(" of {}\n", name);
      }
      if (!verdict->reason.empty()) fmt::print("         {}\n", verdict->reason);
    }
  }
  if (verdict && verdict->outcome == Outcome::fail)
    return fail(ErrorCode::wrong_result,
                fmt::format("the result of {} is wrong: {}", plan.kernel_name(), verdict->reason),
                fmt::format("repeat with: {}", command));
  return {};
}

}  // namespace tilesmith::cli
