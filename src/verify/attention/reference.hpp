// Judging an attention-forward result. The expectation of a problem (reference and naive computation) is made once and
// judges the results of any number of kernels.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "verify/attention/float64.hpp"
#include "verify/attention/tensors.hpp"
#include "verify/compare.hpp"
#include "verify/tolerance.hpp"

namespace tilesmith {

class AttentionReference {
 public:
  /// `tensors` and what they point to must outlive the expectation. threads = 0: as many as the machine has.
  [[nodiscard]] static Result<AttentionReference> make(const AttentionTensors& tensors, ElementType output_type,
                                                         unsigned threads = 0);

  /// Checks G, B, R, N on the output, then the lse when the kernel writes one. Both are dense, in output_row order; see
  /// read_output.
  [[nodiscard]] Verdict judge(std::span<const float> output, std::span<const float> lse = {}) const;

  /// Check E: every bit of the output must be that of the rounded reference. For inputs made by fill_one_hot.
  [[nodiscard]] Verdict judge_exact(std::span<const float> output) const;

  [[nodiscard]] const Float64Attention& reference() const { return reference_; }
  [[nodiscard]] const std::vector<float>& naive() const { return naive_; }

 private:
  AttentionReference(const AttentionTensors& tensors, ElementType output_type, const AttentionTolerance& tolerance)
      : tensors_(tensors), output_type_(output_type), tolerance_(tolerance) {}

  [[nodiscard]] bool check_guards(std::span<const float> output, Verdict& verdict) const;
  [[nodiscard]] bool check_bound(std::span<const float> output, Verdict& verdict) const;
  [[nodiscard]] bool check_relative(std::span<const float> output, Verdict& verdict) const;
  [[nodiscard]] bool check_largest(std::span<const float> output, Verdict& verdict) const;
  [[nodiscard]] bool check_mean(std::span<const float> output, Verdict& verdict) const;
  [[nodiscard]] bool check_norm_wise(std::span<const float> output, Verdict& verdict) const;
  [[nodiscard]] bool norm_wise_rows(std::span<const float> output, std::int64_t first, std::int64_t rows,
                                    std::string_view what, Verdict& verdict) const;
  [[nodiscard]] bool check_lse(std::span<const float> lse, Verdict& verdict) const;
  [[nodiscard]] std::int64_t keys_seen(std::int64_t row) const;
  [[nodiscard]] std::string position(std::size_t element) const;
  [[nodiscard]] std::string row_text(std::int64_t row) const;

  AttentionTensors tensors_;
  ElementType output_type_;
  AttentionTolerance tolerance_;
  Float64Attention reference_;
  std::vector<float> naive_;
};

/// The output a kernel wrote by strides, as a dense array in output_row order; `columns` is head_dim_v, or 1 for an
/// lse.
[[nodiscard]] std::vector<float> read_output(const AttentionTensors& tensors, const TensorView& output,
                                             std::int64_t columns);

}  // namespace tilesmith
