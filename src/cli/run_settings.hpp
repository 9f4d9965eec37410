// What every operation of `tilesmith run` shares: where and with which kernel it runs, and what is printed of it.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "base/function_ref.hpp"
#include "base/json.hpp"
#include "tilesmith/dispatcher.hpp"
#include "trial/report.hpp"

namespace tilesmith::cli {

struct RunSettings {
  std::string device = "cpu";
  std::string kernel;
  std::string determinism = "bitwise";
  int threads = 0;
  bool verify = false;
  bool keep_wrong = false;
  bool no_time = false;
  bool no_build = false;
  bool as_json = false;

  void add_to(CLI::App& operation);
  [[nodiscard]] Result<DispatcherOptions> dispatcher_options() const;
  /// " --device cuda:0 --verify": the settings that decide what a run does, as they would be typed.
  [[nodiscard]] std::string typed() const;
};

/// " --a x.npy --out 'my d.npy'": the options of the verb that were given and that `is_wanted` wants, quoted for a
/// shell.
[[nodiscard]] std::string typed_options(const CLI::App& verb, FunctionRef<bool(const CLI::Option&)> is_wanted);

struct RunReport {
  std::string operation;
  nlohmann::json problem;
  std::string description;
  const Plan* plan = nullptr;
  std::optional<TrialTiming> timing{};
  std::optional<Verdict> verdict{};
};

/// Prints the report; an error when the result is wrong, whose hint is the command that repeats it.
[[nodiscard]] Status print_report(const RunSettings& options, const RunReport& report, const std::string& command);

}  // namespace tilesmith::cli
