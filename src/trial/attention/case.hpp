// One attention problem with data: inputs (random or given), the arguments of a call on them, and the same call as the
// checks see it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/host_array.hpp"
#include "measure/measure.hpp"
#include "runtime/aligned_buffer.hpp"
#include "tilesmith/attention.hpp"
#include "verify/attention/tensors.hpp"

namespace tilesmith {

[[nodiscard]] ElementType input_element_type_of(const AttentionProblem& problem);
[[nodiscard]] ElementType output_element_type_of(const AttentionProblem& problem);

/// Memory for one call's results.
struct AttentionOutputs {
  AlignedBuffer o;
  std::vector<float> lse;
};

/// The run-time numbers of a call, and which inputs are given instead of random.
struct AttentionInputs {
  AttentionLayout layout = AttentionLayout::bhsd;
  std::optional<float> scale{};  ///< absent: 1 / sqrt(head_dim_qk)
  float soft_cap = 0;
  float dropout_probability = 0;
  std::uint64_t seed = 0;
  /// Empty: random, normally distributed. fp8 inputs that are not fp8 already are quantised, with a scale that makes
  /// the largest value of the tensor (or, with block scales, of the block) the type's largest.
  HostArray q{}, k{}, v{};
  HostArray bias{}, alibi{}, sink{};                         ///< empty: random when the problem has the trait
  std::vector<std::int32_t> cu_seqlens_q{}, cu_seqlens_k{};  ///< empty in group mode: random lengths up to the maxima
};

class AttentionCase {
 public:
  /// Fills what is not given. Errors: a given array whose shape or type does not fit the problem, memory.
  [[nodiscard]] static Result<AttentionCase> create(const AttentionProblem& problem, AttentionInputs inputs);

  [[nodiscard]] const AttentionProblem& problem() const { return problem_; }
  [[nodiscard]] AttentionLayout layout() const { return inputs_.layout; }

  [[nodiscard]] AttentionOutputs make_outputs() const;
  /// The call that writes into `outputs`.
  [[nodiscard]] AttentionArguments arguments(AttentionOutputs& outputs) const;
  /// The same call for references and checks.
  [[nodiscard]] AttentionTensors tensors() const;
  /// The memory of every input.
  [[nodiscard]] std::vector<MemoryRange> inputs() const;

  /// The output as an array of shape (batch, heads, seqlen, dim) or (batch, seqlen, heads, dim) by layout; in group
  /// mode without the batch.
  [[nodiscard]] HostArray output_array(const AttentionOutputs& outputs) const;
  [[nodiscard]] HostArray lse_array(const AttentionOutputs& outputs) const;

  /// Visible query-key pairs over all heads and sequences, at their true lengths.
  [[nodiscard]] double visible_pairs() const;
  [[nodiscard]] double flops() const {
    return 2.0 * static_cast<double>(problem_.head_dim_qk + problem_.head_dim_v) * visible_pairs();
  }
  /// Bytes of q, k, v and o, each once.
  [[nodiscard]] double bytes() const;

 private:
  struct Scales {
    std::vector<float> values;
    std::int64_t batch = 0, head = 0, block = 0;  ///< strides
  };
  [[nodiscard]] Status quantise(HostArray& array, std::int64_t heads, std::int64_t rows,
                                const std::vector<std::int32_t>& offsets, Scales& scales) const;

  AttentionCase(const AttentionProblem& problem, AttentionInputs inputs)
      : problem_(problem), inputs_(std::move(inputs)) {}

  AttentionProblem problem_;
  AttentionInputs inputs_;
  std::int64_t total_q_ = 0;  ///< rows of q over the batch
  std::int64_t total_k_ = 0;
  BiasStrides bias_strides_{};
  Scales q_scale_, k_scale_, v_scale_;
  std::int64_t alibi_batch_stride_ = 0;
};

}  // namespace tilesmith
