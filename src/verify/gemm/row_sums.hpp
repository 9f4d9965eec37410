// All rows of D at the cost of a few: sums of each row's elements over blocks of columns, with random signs s. Since
// (A B) s = A (B s), they are known without D (Freivalds, "Probabilistic machines can use less running time", 1977, of
// whole rows). An element that is off by more than the limits of its block's elements together cannot hide in the sum,
// unless another one's error cancels it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/element_type.hpp"
#include "verify/gemm/tensors.hpp"

namespace tilesmith {

class GemmRowSums {
 public:
  /// Whether D is linear in A x B, and rounded to a float whose range is no limit: the epilogue is empty or adds.
  [[nodiscard]] static bool apply_to(const GemmTensors& tensors, ElementType output_type);

  /// Of all rows, whatever the tensors' sample is. `accumulator_roundoff` is the tolerance's. threads = 0: as many as
  /// the machine has.
  GemmRowSums(const GemmTensors& tensors, ElementType output_type, double accumulator_roundoff, unsigned threads);

  /// What is wrong with a dense D: nothing, or where the first block is that is not finite or whose sum is off.
  [[nodiscard]] std::optional<std::string> refusal(std::span<const double> d) const;

 private:
  struct Sum {
    double value = 0;
    double error = 0;  ///< of the block's elements together, before their last rounding
  };

  void add_products(const GemmTensors& tensors, double accumulator_roundoff, unsigned threads);
  void add_operand(const TensorView& operand, double factor, unsigned threads);
  [[nodiscard]] std::optional<std::string> refusal_of_row(std::span<const double> d, std::int64_t line) const;

  ElementType output_type_;
  std::int64_t batch_, m_, n_, blocks_;
  std::vector<double> signs_;  ///< of the columns
  std::vector<Sum> sums_;      ///< batch x m x blocks
};

}  // namespace tilesmith
