// Error figures of a result against a reference, and the verdict of a check: what failed, by how much, where.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tilesmith {

struct ErrorFigures {
  std::size_t count = 0;  ///< elements compared
  double max_abs = 0;
  double max_rel = 0;  ///< over elements whose reference is not zero
  double mean_abs = 0;
  double rms = 0;
  double norm_wise = 0;   ///< |x - y|^2 / (|x|^2 + |y|^2) = 1 - 2 <x,y> / (<x,x> + <y,y>)
  double max_ratio = 0;   ///< max_abs over the naive computation's; 0 when there is none to compare with
  double mean_ratio = 0;  ///< mean_abs over the naive computation's
  std::size_t worst = 0;  ///< index of max_abs
  double worst_got = 0, worst_want = 0;
};

/// The figures of `got` against `want`. Equal infinities are no error; the error of any other element that is not
/// finite is infinite.
[[nodiscard]] ErrorFigures measure_errors(std::span<const double> got, std::span<const double> want,
                                          unsigned threads = 0);

/// The checks that docs/verification.md explains.
enum class Check : std::uint8_t { none, exact, bound, relative, norm_wise, sums, guards };
[[nodiscard]] std::string_view to_string(Check check);

enum class Outcome : std::uint8_t {
  pass,
  fail,
  mistrusted,  ///< no error was seen, but these inputs could not have shown one
};
[[nodiscard]] std::string_view to_string(Outcome outcome);

struct TensorErrors {
  std::string name;
  ErrorFigures figures;
};

struct Verdict {
  Outcome outcome = Outcome::pass;
  Check check = Check::none;          ///< the one that failed
  std::string tensor;                 ///< the output that failed, or whose inputs prove nothing
  std::string reason;                 ///< a sentence: check, figure, limit, position; empty when the result passed
  std::vector<TensorErrors> tensors;  ///< figures of every output that was judged

  [[nodiscard]] bool passed() const { return outcome == Outcome::pass; }
  /// The figures of an output; zeros when it was not judged.
  [[nodiscard]] const ErrorFigures& errors_of(std::string_view name) const;
  /// The figures of the operation's result: its first output.
  [[nodiscard]] const ErrorFigures& result_errors() const;
};

/// Fills in a failed check. Always false, so that checks chain with &&.
bool fails(Verdict& verdict, Check check, std::string_view reason);
void mistrusts(Verdict& verdict, std::string reason);

/// A comparison proves little when a larger share of its reference is zeros (benchdnn's zero_trust_percent).
inline constexpr double kTrustedZeros = 0.3;
/// The share of zeros that a result may have where the reference has none: rounding makes an exact zero now and then.
inline constexpr double kStrayZeros = 0.01;

}  // namespace tilesmith
