// One result of a bench: a recipe on a problem, what came of it, and enough to rebuild its kernels and repeat the run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "sweep/operation.hpp"
#include "trial/report.hpp"
#include "vocabulary/enum_table.hpp"
#include "vocabulary/recipe.hpp"

namespace tilesmith {

/// What came of a recipe on a problem.
enum class RowStatus : std::uint8_t {
  correct,     ///< ran, and its result was verified
  unverified,  ///< ran; verification was not asked for
  wrong,       ///< ran, and its result is wrong
  compile,     ///< did not compile
  runtime,     ///< crashed, or could not be loaded or run
  timeout,     ///< gave no result in time
  compiled,    ///< compiled; running was not asked for
};
template <>
struct EnumTable<RowStatus> {
  static constexpr std::string_view kWhat = "row status";
  static constexpr auto kNames = enum_names<RowStatus>({{RowStatus::correct, "correct"},
                                                        {RowStatus::unverified, "unverified"},
                                                        {RowStatus::wrong, "wrong"},
                                                        {RowStatus::compile, "compile"},
                                                        {RowStatus::runtime, "runtime"},
                                                        {RowStatus::timeout, "timeout"},
                                                        {RowStatus::compiled, "compiled"}});
};

/// Figures of one verified output.
struct RowError {
  std::string output{};  ///< its name: "o", "d"
  double max_abs = 0, max_rel = 0, rms = 0, max_ratio = 0;
};

/// Figures of every verified output, the operation's result first; none where nothing was verified.
struct RowErrors {
  std::vector<RowError> outputs{};
  std::size_t worst_place = 0;  ///< the place of the worst output

  /// The worst output is the one that failed; without a failure the one whose error is the largest multiple of the
  /// naive computation's, which compares outputs of different sizes; the first of equal ones.
  [[nodiscard]] static RowErrors of(const Verdict& verdict);
  /// Null where nothing was verified.
  [[nodiscard]] const RowError* worst() const { return outputs.empty() ? nullptr : &outputs[worst_place]; }
};

/// What every identity starts with, and so what tells a file's version. Raised when an identity's ingredients change:
/// the form of kernels' keys (kCanonicalVersion), of recipes' keys (key_of), or a problem's text
/// (identity_of). Version 1 had no prefix.
inline constexpr std::string_view kIdentityVersion = "v2:";

struct BenchRow {
  BenchProblem problem;
  Recipe recipe;
  int rank = 0;  ///< its place among the problem's candidates before the sweep's allow-lists, the policy's first is 0
  RowStatus status = RowStatus::runtime;
  std::string message;  ///< why, when the status is none of the good ones
  std::optional<TrialTiming> timing;
  RowErrors errors;
  double roofline_percent = 0;  ///< of the machine's measured peak for this problem; 0 when unknown
  double naive_s = 0;           ///< the naive computation's time on as many threads; 0 when not measured
  int threads = 0;
  bool noisy = false;  ///< the spread of its time stayed above the bench's limit

  /// "v2:" and 32 hexadecimal digits that identify problem, recipe and threads: what a resumed bench looks for.
  [[nodiscard]] std::string identity() const;
  /// The call that was measured, as `run` and files of test cases take it: "gemm -m 256 -n 512 -k 1024 --dtype bf16".
  [[nodiscard]] std::string line() const;
};

/// "kernel" and "key" are the recipe's; "steps" has each step's kernel, by the name that parse_kernel_name reads, and
/// role; "config" is that of the main kernel. "errors" has the figures of every verified output by name, "error" those
/// of the worst.
[[nodiscard]] nlohmann::json to_json(const BenchRow& row);

/// "64x128"; of a GEMM "96x528x512".
[[nodiscard]] std::string tile_text(const KernelConfig& config);

/// The texts of each step, joined by + as in the recipe's name: of a recipe of one step, its text.
template <class Text>
[[nodiscard]] std::string text_of_steps(const Recipe& recipe, Text text) {
  std::string out;
  for (const Step& step : recipe.steps) {
    if (!out.empty()) out += '+';
    out += text(step.config);
  }
  return out;
}

/// The columns of a CSV file of an operation's results, by the operation's name ("gemm"), and a row's cells. Each field
/// of the problem has a column; figures of errors are the worst output's.
[[nodiscard]] std::string csv_header(std::string_view operation);
[[nodiscard]] std::string csv_line(const BenchRow& row);

/// The cells of one line, quotes undone; nothing for a line that is not a whole one of that operation's file (the torn
/// end of a killed run).
[[nodiscard]] std::optional<std::vector<std::string>> parse_csv_line(std::string_view operation, std::string_view line);

}  // namespace tilesmith
