// One attention problem with data: its inputs (random or given), a call on them, and the same call as the checks see
// it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/host_array.hpp"
#include "problem/line.hpp"
#include "tilesmith/attention.hpp"
#include "tilesmith/dispatcher.hpp"
#include "trial/attention/append.hpp"
#include "trial/attention/pages.hpp"
#include "trial/call_memory.hpp"
#include "trial/case.hpp"
#include "verify/attention/reference.hpp"
#include "verify/attention/tensors.hpp"

namespace tilesmith {

[[nodiscard]] ElementType input_element_type_of(const AttentionProblem& problem);
/// Of k and v.
[[nodiscard]] ElementType cache_element_type_of(const AttentionProblem& problem);
[[nodiscard]] ElementType output_element_type_of(const AttentionProblem& problem);

/// The inputs that are given instead of random ones. Of a problem with pages, k and v are random, where the call
/// appends q too.
struct AttentionInputs {
  /// Empty: random, normally distributed; a quarter of the rows of q is eight times as large, so that the maxima of
  /// their logits rise from key block to key block; blocks of k and v that have scales of their own differ in size. fp8
  /// inputs that are not fp8 already are quantised, with a scale that makes the largest value of the tensor (or, with
  /// block scales, of the block) the type's largest; so are keys and values of an 8-bit cache, with a scale for each
  /// head (or, with page scales, for each row of a page).
  HostArray q{}, k{}, v{};
  HostArray bias{}, alibi{}, sink{};                         ///< empty: random when the problem has the trait; a sink
                                                             ///< is about log(seqlen_k)
  std::vector<std::int32_t> cu_seqlens_q{}, cu_seqlens_k{};  ///< empty in group mode: random lengths up to the maxima
};

template <>
class Case<AttentionFwd> {
 public:
  using Inputs = AttentionInputs;
  using Plan = AttentionPlan;

  /// Fills inputs that are not given with random numbers. Errors: invalid_argument, for a given array whose shape or
  /// type does not fit the problem.
  [[nodiscard]] static Result<Case> create(const RandomCall<AttentionFwd>& call, AttentionInputs given = {});

  /// The problem that was asked for, with what follows from its tensors and scale (problem/derive.hpp).
  [[nodiscard]] const AttentionProblem& problem() const { return problem_; }
  [[nodiscard]] AttentionLayout layout() const { return numbers_.layout; }

  /// Attention packs nothing: there is nothing to do before the calls.
  [[nodiscard]] Status prepare(Dispatcher&) { return {}; }

  /// q, k, v and, where the problem has them, bias, alibi, sink, cu_seqlens_q, cu_seqlens_k, q_scale, k_scale, v_scale,
  /// seqlens_k, page_numbers, and those of RandomAppend. With pages k and v are (pages, heads, page_size, dim) or
  /// (pages, page_size, heads, dim).
  [[nodiscard]] std::vector<NamedInput> inputs() const;
  /// "o", and "lse" where the problem has it. As arrays: (batch, heads, seqlen, dim) or (batch, seqlen, heads, dim) by
  /// layout, in group mode without the batch; the lse without the dim.
  [[nodiscard]] std::vector<OutputSpec> outputs() const;
  [[nodiscard]] std::vector<OutputSpec> guarded_outputs(DeviceKind) const { return outputs(); }

  [[nodiscard]] AttentionArguments arguments(const CallMemory& memory) const;
  /// The call on the host's inputs; its outputs are still to be set.
  [[nodiscard]] AttentionArguments arguments() const { return arguments(CallMemory(inputs())); }
  /// The same call for references and checks.
  [[nodiscard]] AttentionTensors tensors() const;

  /// The case must outlive its reference. threads = 0: as many as the machine has.
  [[nodiscard]] Result<std::unique_ptr<const Reference>> reference(unsigned threads = 0) const;
  /// Of much work AttentionReference::make_sampled, else the whole one.
  [[nodiscard]] Result<std::unique_ptr<const Reference>> sampled_reference(unsigned threads = 0) const;
  [[nodiscard]] Status run_naive(unsigned threads) const;

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
  // The steps of create(), in their order.
  [[nodiscard]] Status take_lengths();  ///< and pages
  /// Checks the numbers of a call, before memory and time go into its tensors.
  [[nodiscard]] Status check_numbers() const;
  [[nodiscard]] Status take_rows();      ///< of q, k and v, and what is appended
  [[nodiscard]] Status quantise_rows();  ///< to 8 bits, with scales
  [[nodiscard]] Status take_bias_and_sink();
  void lay_out_pages();  ///< without what is still to be appended

  /// `sequences` of `rows` rows each; with offsets, `rows` is the rows of all.
  [[nodiscard]] Status quantise(HostArray& array, ElementType to, std::int64_t sequences, std::int64_t heads,
                                std::int64_t rows, const std::vector<std::int32_t>& offsets, Scales& scales) const;
  [[nodiscard]] bool paged() const { return problem_.page_size > 0; }
  /// Of a page, or of k over the batch.
  [[nodiscard]] std::int64_t rows_k() const { return paged() ? problem_.page_size : total_k_; }

  Case(const RandomCall<AttentionFwd>& call, AttentionInputs given)
      : problem_(call.problem), numbers_(call.numbers), inputs_(std::move(given)) {}

  AttentionProblem problem_;
  AttentionNumbers numbers_;
  AttentionInputs inputs_;
  std::int64_t total_q_ = 0;  ///< rows of q over the batch
  std::int64_t total_k_ = 0;  ///< with pages: their lengths' sum
  RandomPages pages_;
  std::vector<std::byte> vectorized_k_, vectorized_v_;  ///< k and v as a call of vectorized pages has them
  RandomAppend append_;                                 ///< where the call appends: k and v are what it leaves
  BiasStrides bias_strides_{};
  Scales q_scale_, k_scale_, v_scale_;
  std::int64_t alibi_batch_stride_ = 0;
};

using AttentionCase = Case<AttentionFwd>;

}  // namespace tilesmith
