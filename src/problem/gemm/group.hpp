// The groups of a grouped GEMM, each as a call of its own.
#pragma once

#include <cstdint>

#include "tilesmith/gemm.hpp"

namespace tilesmith {

/// Rows `first` .. `end` - 1 of group `index`, in the matrices of all groups (contiguous) or in its own (masked).
struct GemmGroup {
  std::int64_t index = 0, first = 0, end = 0;

  [[nodiscard]] std::int64_t rows() const { return end - first; }
};

/// Group `index`, by the ends of all.
[[nodiscard]] GemmGroup group_of(const GemmProblem& problem, const std::int32_t* ends, std::int64_t index);

/// The product of one group of `rows` rows, by itself.
[[nodiscard]] GemmProblem problem_of_group(const GemmProblem& problem, std::int64_t rows);

/// The call of one group: every pointer at the group's first row, or at what is its own.
[[nodiscard]] GemmArguments arguments_of_group(const GemmProblem& problem, const GemmArguments& arguments,
                                               const GemmGroup& group);

}  // namespace tilesmith
