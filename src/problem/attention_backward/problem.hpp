// From an attention-backward problem to the signature of the kernels that compute it, and to the arguments a kernel
// reads.
#pragma once

#include "kernels/cpu/attention_backward/abi.h"
#include "problem/fields.hpp"
#include "tilesmith/attention_backward.hpp"
#include "tilesmith/device.hpp"
#include "vocabulary/signature.hpp"

namespace tilesmith {

/// The signature of the kernels for dq, dk and dv that carry exactly the problem's traits. Causal masks and windows are
/// the generic mask, whose bounds are run-time numbers.
[[nodiscard]] AttentionSignature signature_of(const AttentionBackwardProblem& problem);

/// Floating-point operations of the five products over the pairs that the mask leaves visible.
[[nodiscard]] double flops_of(const AttentionBackwardProblem& problem);
/// Bytes of q, k, v, o, do, dq, dk and dv, each once.
[[nodiscard]] double bytes_of(const AttentionBackwardProblem& problem);

/// Checks one call's arguments against its problem, as for attention forward.
[[nodiscard]] Status validate(const AttentionBackwardProblem& problem, const AttentionBackwardArguments& arguments,
                              DeviceKind device = DeviceKind::cpu);

/// The gradients as kernels of every backend read them; those that are not wanted are null.
[[nodiscard]] TsAttentionGradients kernel_gradients(const AttentionBackwardProblem& problem,
                                                    const AttentionBackwardArguments& arguments);

/// The structure a CPU kernel reads. `workspace` is shared by all tasks.
[[nodiscard]] TsAttentionBackwardArgs cpu_arguments(const AttentionBackwardProblem& problem,
                                                    const AttentionBackwardArguments& arguments, void* workspace);

}  // namespace tilesmith
