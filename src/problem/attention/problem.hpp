// From an attention problem to the signature of the kernels that compute it, and to the arguments a kernel reads.
#pragma once

#include <cstdint>

#include "kernels/cpu/attention/abi.h"
#include "problem/fields.hpp"
#include "tilesmith/attention.hpp"
#include "tilesmith/device.hpp"
#include "vocabulary/signature.hpp"

namespace tilesmith {

/// The signature of the CPU kernels that carry exactly the problem's traits. Causal masks and windows are the generic
/// mask, whose bounds are run-time numbers.
[[nodiscard]] AttentionSignature signature_of(const AttentionProblem& problem);

/// The window a kernel is given: a causal mask bounds the right side.
struct MaskWindow {
  std::int64_t left = -1;
  std::int64_t right = -1;
  bool bottom_right = false;
  std::int64_t diagonal = 0;  ///< what it is moved by
};
[[nodiscard]] MaskWindow window_of(const AttentionProblem& problem);

/// Query-key pairs the mask leaves visible, over all batches and heads: the work of the problem. Group mode counts the
/// longest sequences.
[[nodiscard]] double visible_pairs(const AttentionProblem& problem);
/// 2 (head_dim_qk + head_dim_v) floating-point operations for each visible pair.
[[nodiscard]] double flops_of(const AttentionProblem& problem);
/// Bytes of one element of q, and of k and v but for caches that have elements of their own.
[[nodiscard]] std::int64_t input_bytes(DataType type);
/// Bytes of one element of k and v.
[[nodiscard]] std::int64_t cache_bytes(const AttentionProblem& problem);
/// Bytes of q, k, v and o, each once; o is counted as wide as q.
[[nodiscard]] double bytes_of(const AttentionProblem& problem);

/// Checks one call's arguments against its problem: pointers that must be there, strides whose furthest element
/// overflows, numbers out of range.
/// The offsets of group mode are read on the CPU only: on a device they are device memory.
[[nodiscard]] Status validate(const AttentionProblem& problem, const AttentionArguments& arguments,
                              DeviceKind device = DeviceKind::cpu);

/// Of 65536 draws of a pair's 16 bits, those that drop it.
[[nodiscard]] std::uint32_t drop_threshold(const AttentionArguments& arguments);

/// The structure a CPU kernel reads. `workspace` is shared by all tasks.
[[nodiscard]] TsAttentionArgs cpu_arguments(const AttentionProblem& problem, const AttentionArguments& arguments,
                                            std::int64_t splits, void* workspace);

}  // namespace tilesmith
