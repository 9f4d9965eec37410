// The reference of a GEMM: outputs "d" and, where the call asks for it, "amax".
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "verify/gemm/float64.hpp"
#include "verify/gemm/row_sums.hpp"
#include "verify/gemm/tensors.hpp"
#include "verify/reference.hpp"
#include "verify/tolerance.hpp"

namespace tilesmith {

class GemmReference final : public Reference {
 public:
  /// What `tensors` point to must outlive the reference. threads = 0: as many as the machine has.
  [[nodiscard]] static Result<GemmReference> make(const GemmTensors& tensors, ElementType output_type,
                                                  unsigned threads = 0);

  /// One that a large GEMM has sooner: it judges one random row in 16, the first and the last by every check, and all
  /// rows by sums over blocks of their columns. The whole reference where GemmRowSums do not apply.
  [[nodiscard]] static Result<GemmReference> make_sampled(const GemmTensors& tensors, ElementType output_type,
                                                          unsigned threads = 0);

  [[nodiscard]] Verdict judge(std::span<const OutputValues> outputs) const override;
  /// Judges a dense D: batch x m x columns, of groups the rows they have; and amax.
  [[nodiscard]] Verdict judge(std::span<const double> d, std::optional<float> amax = {}) const;

  /// Check E of D. For inputs whose sums are exact: exact_magnitude.
  [[nodiscard]] Verdict judge_exact(std::span<const double> d) const;

  [[nodiscard]] const Float64Gemm& float64() const { return float64_; }

 protected:
  [[nodiscard]] std::vector<ReferenceTensor> tensors() const override;
  [[nodiscard]] bool check_guards(const OutputValues& output, Verdict& verdict) const override;
  [[nodiscard]] bool check_bounds(const OutputValues& output, Verdict& verdict) const override;
  [[nodiscard]] std::string position(std::string_view output, std::size_t element) const override;

 private:
  using Values = std::span<const double>;

  GemmReference(GemmTensors tensors, ElementType output_type, const GemmTolerance& tolerance)
      : tensors_(std::move(tensors)), output_type_(output_type), tolerance_(tolerance) {}

  /// What check G counts in some elements; the first that says enough alone.
  struct Guards {
    std::optional<std::size_t> suspect;
    std::size_t zeros = 0, wanted_zeros = 0, stray_zeros = 0, computed = 0, without_terms = 0, saturated = 0;
  };
  [[nodiscard]] Guards guards_of(Values d, std::size_t begin, std::size_t end) const;
  [[nodiscard]] bool refuse_suspect(double got, std::size_t at, Verdict& verdict) const;
  [[nodiscard]] bool check_bound(Values d, Verdict& verdict) const;
  /// Check R of the rows that stand together from `first` on in member b: empty, or what is wrong.
  [[nodiscard]] std::string refusal_of_rows(Values d, std::int64_t b, std::int64_t first) const;
  [[nodiscard]] bool check_relative(Values d, Verdict& verdict) const;
  [[nodiscard]] bool check_norm_wise(Values d, Verdict& verdict) const;
  /// Of the errors, and of what they are compared with.
  [[nodiscard]] std::pair<double, double> squares_of(Values d, std::size_t begin, std::size_t end) const;
  [[nodiscard]] bool check_amax(double amax, Verdict& verdict) const;
  /// The reference of an element, limited to the range of an integer output.
  [[nodiscard]] double wanted(std::size_t element) const;
  [[nodiscard]] double limit_of(std::size_t element) const;
  [[nodiscard]] std::string place(std::size_t element) const;

  GemmTensors tensors_;
  ElementType output_type_;
  GemmTolerance tolerance_;
  Float64Gemm float64_;
  std::vector<double> naive_;  ///< empty where check R does not apply
  ErrorFigures naive_errors_;
  std::optional<GemmRowSums> row_sums_;  ///< where the tensors have a sample of the rows
};

/// The output a kernel wrote by strides, as a dense array.
[[nodiscard]] std::vector<double> read_output(const GemmTensors& tensors, const TensorView& output);

/// The largest r for which sums of k products of whole numbers in -r .. r are exact in fp32, at most 3; 0 when there is
/// none.
[[nodiscard]] int exact_magnitude(std::int64_t k);

}  // namespace tilesmith
