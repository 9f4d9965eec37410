// One result of a bench: a kernel on a problem, what came of it, and enough to rebuild the kernel and repeat the run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "sweep/operation.hpp"
#include "trial/report.hpp"
#include "vocabulary/config.hpp"
#include "vocabulary/enum_table.hpp"

namespace tilesmith {

/// What came of a kernel on a problem.
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

/// Figures of the verified result.
struct RowError {
  double max_abs = 0, max_rel = 0, rms = 0, max_ratio = 0;
};

/// What every identity starts with, and so what tells a file's version. Raised when an identity's ingredients change:
/// the form of kernels' keys (kCanonicalVersion) or a problem's JSON. Version 1 had no prefix.
inline constexpr std::string_view kIdentityVersion = "v2:";

struct BenchRow {
  BenchProblem problem;
  KernelConfig config;
  int rank = 0;  ///< its place among the problem's candidates before the sweep's allow-lists, the policy's first is 0
  RowStatus status = RowStatus::runtime;
  std::string message;  ///< why, when the status is none of the good ones
  std::optional<TrialTiming> timing;
  std::optional<RowError> error;
  double roofline_percent = 0;  ///< of the machine's measured peak for this problem; 0 when unknown
  double naive_s = 0;           ///< the naive computation's time on as many threads; 0 when not measured
  int threads = 0;

  /// "v2:" and 32 hexadecimal digits that identify problem, kernel and threads: what a resumed bench looks for.
  [[nodiscard]] std::string identity() const;
};

[[nodiscard]] nlohmann::json to_json(const BenchRow& row);

/// "64x128"; of a GEMM "96x528x512".
[[nodiscard]] std::string tile_text(const KernelConfig& config);

/// The columns of a CSV file of an operation's results, by the operation's name ("gemm"), and a row's cells. Each field
/// of the problem has a column.
[[nodiscard]] std::string csv_header(std::string_view operation);
[[nodiscard]] std::string csv_line(const BenchRow& row);

/// The cells of one line, quotes undone; nothing for a line that is not a whole one of that operation's file (the torn
/// end of a killed run).
[[nodiscard]] std::optional<std::vector<std::string>> parse_csv_line(std::string_view operation, std::string_view line);

}  // namespace tilesmith
