// What every operation of `tilesmith run` shares: where and with which kernel it runs, and what is printed of it.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tilesmith/dispatcher.hpp"
#include "trial/report.hpp"

namespace tilesmith::cli {

struct RunSettings {
  std::string device = "cpu";
  std::string kernel;
  std::string determinism = "bitwise";
  int threads = 0;
  bool verify = false;
  bool no_time = false;
  bool no_build = false;
  bool as_json = false;
  std::string command;  ///< what was typed, for who wants to repeat it

  void add_to(CLI::App& operation);
  [[nodiscard]] Result<DispatcherOptions> dispatcher_options() const;
  /// " --device cuda:0 --verify": the settings that decide what a run does, as they would be typed.
  [[nodiscard]] std::string typed() const;
};

/// The command line that was parsed into this verb: its words, and each option that was given, quoted for a shell.
[[nodiscard]] std::string command_of(const CLI::App& verb);

struct RunReport {
  std::string operation;
  nlohmann::json problem;
  std::string description;
  const Plan* plan = nullptr;
  std::optional<TrialTiming> timing{};
  std::optional<Verdict> verdict{};
};

/// Prints the report; an error when the result is wrong.
[[nodiscard]] Status print_report(const RunSettings& options, const RunReport& report);

}  // namespace tilesmith::cli
