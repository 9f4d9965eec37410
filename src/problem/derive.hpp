// What of a problem follows from the arguments of a call: signs and alignment. Whoever plans a problem to call it with
// these arguments plans the derived one.
#pragma once

#include "tilesmith/attention.hpp"
#include "tilesmith/attention_backward.hpp"
#include "tilesmith/conv.hpp"
#include "tilesmith/gemm.hpp"

namespace tilesmith {

/// Sets negative_scale from the scale, `unaligned` and `unaligned_bias` from the strides; what the problem says already
/// stays: a plan for unaligned memory serves aligned memory too. Pointers are taken for multiples of 16 bytes.
[[nodiscard]] AttentionProblem derived(const AttentionProblem& problem, const AttentionArguments& arguments);

/// The same of attention backward, whose `unaligned` covers the gradients too.
[[nodiscard]] AttentionBackwardProblem derived(const AttentionBackwardProblem& problem,
                                               const AttentionBackwardArguments& arguments);

/// Sets `unaligned` where the problem says so already, or (and `aligned_d` then, as D is dense) a row or member of A,
/// B, A2 or B2 begins off multiples of 16 bytes; a packed B does not count. Pointers are taken for multiples of 16
/// bytes.
[[nodiscard]] GemmProblem derived(const GemmProblem& problem, const GemmArguments& arguments);

/// Sets `unaligned` where the problem says so already, or the strides do not permit what conv.hpp says of it, or a
/// pointer is no multiple of 16 bytes.
[[nodiscard]] ConvProblem derived(const ConvProblem& problem, const ConvArguments& arguments);

/// The same for dense tensors of the usual layout and scale. A problem that validate() refuses stays as it is.
[[nodiscard]] AttentionProblem with_derived_fields(const AttentionProblem& problem);
[[nodiscard]] AttentionBackwardProblem with_derived_fields(const AttentionBackwardProblem& problem);
[[nodiscard]] GemmProblem with_derived_fields(const GemmProblem& problem);

}  // namespace tilesmith
