// The verbs of the program. Each file adds one subcommand: its options, and a callback that does the work through the
// library and sets the exit code.
#pragma once

#include <CLI/CLI.hpp>

#include <nlohmann/json_fwd.hpp>

#include "base/error.hpp"

namespace tilesmith::cli {

/// Exit codes other programs rely on. A usage error is a mistake in what a person wrote: the command line, a variable
/// of the environment, the text of a sweep, of shapes or of facts. What is right, but cannot be had here
/// (no such file, no such device, no kernel), or went wrong, is a failure.
inline constexpr int kSuccess = 0;
inline constexpr int kFailure = 1;
inline constexpr int kUsage = 2;

void add_arch(CLI::App& app, int& exit_code);
void add_bench(CLI::App& app, int& exit_code);
void add_build(CLI::App& app, int& exit_code);
void add_compare(CLI::App& app, int& exit_code);
void add_db(CLI::App& app, int& exit_code);
void add_explain(CLI::App& app, int& exit_code);
void add_generate(CLI::App& app, int& exit_code);
void add_list(CLI::App& app, int& exit_code);
void add_report(CLI::App& app, int& exit_code);
void add_run(CLI::App& app, int& exit_code);
void add_store(CLI::App& app, int& exit_code);
void add_sweep(CLI::App& app, int& exit_code);
void add_tune(CLI::App& app, int& exit_code);

/// The document as text, ending in a line break. What is no UTF-8 in it (a path, a compiler's words) is replaced.
[[nodiscard]] std::string json_text(const nlohmann::json& document);

/// Prints an error as "error: ..." and "hint: ..." on standard error; the exit code that says its kind.
[[nodiscard]] int exit_code_of(const Status& status);

}  // namespace tilesmith::cli
