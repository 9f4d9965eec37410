// Two files of results side by side: for each problem of both the fastest good row of each, and whether the difference
// is more than noise.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sweep/results.hpp"
#include "vocabulary/enum_table.hpp"

namespace tilesmith {

enum class CompareVerdict : std::uint8_t {
  same,    ///< within noise
  faster,  ///< B is faster beyond noise
  slower,  ///< B is slower beyond noise
  lost,    ///< A has a good row, B has rows, and none of them is good
  gained,  ///< the other way round
};
template <>
struct EnumTable<CompareVerdict> {
  static constexpr std::string_view kWhat = "verdict";
  static constexpr auto kNames = enum_names<CompareVerdict>({{CompareVerdict::same, "same"},
                                                             {CompareVerdict::faster, "faster"},
                                                             {CompareVerdict::slower, "slower"},
                                                             {CompareVerdict::lost, "lost"},
                                                             {CompareVerdict::gained, "gained"}});
};

struct ComparedProblem {
  std::string problem, line;
  int threads = 0;
  std::string kernel_a, kernel_b;  ///< of the rows that are compared
  double a_s = 0, b_s = 0;         ///< medians; 0 where there is no good row
  double ratio = 0;                ///< b over a: above 1 B is slower
  double noise = 0;                ///< by so much, as a share, medians may differ by chance
  CompareVerdict verdict = CompareVerdict::same;
};

struct Comparison {
  std::vector<ComparedProblem> problems;  ///< the slowest of B first
  std::size_t only_a = 0, only_b = 0;     ///< problems of one file alone
  double geometric_mean = 1;              ///< of the ratios

  [[nodiscard]] std::size_t count(CompareVerdict verdict) const;
  /// Whether B lost something or is slower somewhere.
  [[nodiscard]] bool is_worse() const { return count(CompareVerdict::slower) + count(CompareVerdict::lost) > 0; }
};

/// `by_kernel`: rows of the same kernel are compared, instead of each file's fastest. `least`: a smaller share than
/// this is noise. Noise is three standard errors of the difference of medians; a median's standard error is 0.93
/// interquartile ranges over the root of the number of samples (of a normal distribution: 1.2533 sigma / sqrt(n),
/// sigma = IQR / 1.349).
[[nodiscard]] Comparison compare_results(const ResultFile& a, const ResultFile& b, bool by_kernel, double least);

}  // namespace tilesmith
