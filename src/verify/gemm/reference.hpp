// Judging a GEMM's result. The expectation of a problem (reference and naive computation) is made once and judges the
// results of any number of kernels.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "verify/compare.hpp"
#include "verify/gemm/float64.hpp"
#include "verify/gemm/tensors.hpp"
#include "verify/tolerance.hpp"

namespace tilesmith {

class GemmReference {
 public:
  /// What `tensors` point to must outlive the expectation. threads = 0: as many as the machine has.
  [[nodiscard]] static Result<GemmReference> make(const GemmTensors& tensors, ElementType output_type,
                                                    unsigned threads = 0);

  /// Checks G, B, R, N on the output, dense: batch x m x columns of D; then amax, where the call asks for it.
  [[nodiscard]] Verdict judge(std::span<const double> output, std::optional<float> amax = {}) const;

  /// Check E: every bit of the output must be that of the rounded reference. For inputs whose sums are exact:
  /// exact_magnitude.
  [[nodiscard]] Verdict judge_exact(std::span<const double> output) const;

  [[nodiscard]] const Float64Gemm& reference() const { return reference_; }

 private:
  GemmReference(GemmTensors tensors, ElementType output_type, const GemmTolerance& tolerance)
      : tensors_(std::move(tensors)), output_type_(output_type), tolerance_(tolerance) {}

  [[nodiscard]] bool check_guards(std::span<const double> output, Verdict& verdict) const;
  [[nodiscard]] bool check_bound(std::span<const double> output, Verdict& verdict) const;
  [[nodiscard]] bool check_relative(std::span<const double> output, Verdict& verdict) const;
  [[nodiscard]] bool check_norm_wise(std::span<const double> output, Verdict& verdict) const;
  [[nodiscard]] bool check_amax(float amax, Verdict& verdict) const;
  /// What an output of the type can hold of a value.
  [[nodiscard]] double wanted(std::size_t element) const;
  [[nodiscard]] double limit_of(std::size_t element) const;
  [[nodiscard]] std::string position(std::size_t element) const;

  GemmTensors tensors_;
  ElementType output_type_;
  GemmTolerance tolerance_;
  Float64Gemm reference_;
  std::vector<double> naive_;  ///< empty where check R does not apply
};

/// The output a kernel wrote by strides, as a dense array.
[[nodiscard]] std::vector<double> read_output(const GemmTensors& tensors, const TensorView& output);

/// The largest r for which sums of k products of whole numbers in -r .. r are exact in fp32, at most 3; 0 when there is
/// none.
[[nodiscard]] int exact_magnitude(std::int64_t k);

}  // namespace tilesmith
