// All rows of o at the cost of the logits: sums of each row's elements over blocks of columns, with random signs. A row
// of o is the row's weights times V, so they are the weights times V's sums. Whatever moves elements of a row by more
// than their limits together cannot hide in the sums, unless another error cancels it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "verify/attention/float64.hpp"
#include "verify/attention/tensors.hpp"
#include "verify/tolerance.hpp"

namespace tilesmith {

class AttentionRowSums {
 public:
  /// Whether the arithmetic of the type bounds every element, and o is rounded to 16 bits.
  [[nodiscard]] static bool apply_to(const AttentionTolerance& tolerance, ElementType output_type);

  /// Of tensors in batch mode without pages. threads = 0: as many as the machine has.
  [[nodiscard]] static Result<AttentionRowSums> make(const AttentionTensors& tensors, ElementType output_type,
                                                     const AttentionTolerance& tolerance, unsigned threads);

  /// What is wrong with a dense o: nothing, or where the first block is that is not finite or whose sum is off.
  [[nodiscard]] std::optional<std::string> refusal(std::span<const double> o) const;

  /// lse and magnitude of all rows; o and spread are those of the sums.
  [[nodiscard]] const Float64Attention& float64() const { return float64_; }

 private:
  AttentionRowSums(const AttentionTensors& tensors, ElementType output_type, const AttentionTolerance& tolerance);
  [[nodiscard]] std::optional<std::string> refusal_of_row(std::span<const double> o, std::int64_t row) const;

  AttentionTensors tensors_;
  ElementType output_type_;
  AttentionTolerance tolerance_;
  std::int64_t blocks_;
  std::vector<double> signs_;  ///< of the columns
  Float64Attention float64_;
};

}  // namespace tilesmith
