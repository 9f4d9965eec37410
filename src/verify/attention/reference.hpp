// The reference of an attention-forward problem: outputs "o" and "lse".
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "verify/attention/float64.hpp"
#include "verify/attention/row_sums.hpp"
#include "verify/attention/tensors.hpp"
#include "verify/reference.hpp"
#include "verify/tolerance.hpp"

namespace tilesmith {

class AttentionReference final : public Reference {
 public:
  /// `tensors` and what they point to must outlive the reference. threads = 0: as many as the machine has.
  [[nodiscard]] static Result<AttentionReference> make(const AttentionTensors& tensors, ElementType output_type,
                                                       unsigned threads = 0);

  /// One that a large problem has sooner: it judges one random block of 32 queries in 16, the first and the last by
  /// every check, and all rows by sums over blocks of their columns and by their lse. The whole reference where
  /// AttentionRowSums do not apply, where rows depend on their number by more than what they see, and where every block
  /// would be chosen.
  [[nodiscard]] static Result<AttentionReference> make_sampled(const AttentionTensors& tensors, ElementType output_type,
                                                               unsigned threads = 0);

  [[nodiscard]] Verdict judge(std::span<const OutputValues> outputs) const override;
  /// Judges dense arrays in output_row order (see read_output below), the lse where the kernel writes one.
  [[nodiscard]] Verdict judge(std::span<const float> o, std::span<const float> lse = {}) const;

  /// Check E of the output. For inputs made by one_hot_inputs.
  [[nodiscard]] Verdict judge_exact(std::span<const float> o) const;

  [[nodiscard]] const Float64Attention& float64() const { return float64_; }
  [[nodiscard]] const std::vector<float>& naive() const { return naive_; }

 protected:
  [[nodiscard]] std::vector<ReferenceTensor> tensors() const override;
  [[nodiscard]] bool check_guards(const OutputValues& output, Verdict& verdict) const override;
  [[nodiscard]] bool check_bounds(const OutputValues& output, Verdict& verdict) const override;
  [[nodiscard]] std::string position(std::string_view output, std::size_t element) const override;

 private:
  using Values = std::span<const double>;

  /// Queries that stand together, of all heads and sequences.
  struct Block {
    std::int64_t first = 0;
    std::vector<AttentionReference> reference{};  ///< one
  };
  /// What the checks of a whole reference see of the block's rows. `width` elements are a row's.
  [[nodiscard]] std::vector<double> rows_of(Values output, const Block& block, std::int64_t width) const;

  AttentionReference(const AttentionTensors& tensors, ElementType output_type, const AttentionTolerance& tolerance)
      : tensors_(tensors), output_type_(output_type), tolerance_(tolerance) {}

  /// What check G counts in some elements; the first that says enough alone.
  struct Guards {
    std::optional<std::size_t> suspect;
    std::size_t seeing = 0, zeros = 0, wanted_zeros = 0, stray_zeros = 0;
  };
  [[nodiscard]] Guards guards_of(Values o, double largest, std::size_t begin, std::size_t end) const;
  [[nodiscard]] bool refuse_suspect(double got, std::size_t at, Verdict& verdict) const;
  [[nodiscard]] bool check_bound(Values o, Verdict& verdict) const;
  [[nodiscard]] bool check_relative(Values o, Verdict& verdict) const;
  [[nodiscard]] bool check_largest(Values o, Verdict& verdict) const;
  [[nodiscard]] bool check_mean(Values o, Verdict& verdict) const;
  [[nodiscard]] bool check_norm_wise(Values o, Verdict& verdict) const;
  /// Of the errors, and of what they are compared with.
  [[nodiscard]] std::pair<double, double> squares_of(Values o, std::size_t begin, std::size_t end) const;
  [[nodiscard]] bool norm_wise_rows(Values o, std::int64_t first, std::int64_t rows, std::string_view what,
                                    Verdict& verdict) const;
  [[nodiscard]] bool check_lse(Values lse, Verdict& verdict) const;
  [[nodiscard]] std::int64_t keys_seen(std::int64_t row) const;
  [[nodiscard]] std::string place(std::size_t element) const;

  AttentionTensors tensors_;
  ElementType output_type_;
  AttentionTolerance tolerance_;
  Float64Attention float64_;
  std::vector<float> naive_;
  ErrorFigures naive_errors_;
  std::vector<Block> blocks_;                 ///< of a sample; the members before are then empty
  std::optional<AttentionRowSums> row_sums_;  ///< beside a sample
};

/// The output a kernel wrote by strides, as a dense array in output_row order; `columns` is head_dim_v, or 1 for an
/// lse.
[[nodiscard]] std::vector<float> read_output(const AttentionTensors& tensors, const TensorView& output,
                                             std::int64_t columns);

}  // namespace tilesmith
