// What the attention functions have in common: sizes, the words and numbers that name features, and what stands for the
// tensors that they do not take.
#pragma once

#include <cstddef>
#include <cstdint>

#include "drop_in/memory.hpp"
#include "tilesmith/attention.hpp"

namespace tilesmith::drop_in {

struct AttentionSizes {
  int batch, heads_q, heads_kv, seqlen_q, seqlen_k, head_dim_qk, head_dim_v;
};

struct AttentionFeatures {
  const char* data_type = nullptr;
  int mask = 0, window_left = -1, window_right = -1;
  int bias = 0;
  int group = 0, lse = 0, dropout = 0, soft_cap = 0, sink = 0;
};

// Composable Kernel's library leaves these to no caller.
inline constexpr float kDropoutProbability = 0.2F;
inline constexpr std::uint64_t kSeed = 1;
/// It caps logits at 0, which divides by 0.
inline constexpr float kSoftCap = 30;

/// A validated problem. Errors: invalid_argument, unsupported.
[[nodiscard]] Result<AttentionProblem> problem_of(const AttentionSizes& sizes, const AttentionFeatures& features);

/// Of batch * heads * rows * dim elements.
[[nodiscard]] std::size_t tensor_bytes(std::int64_t batch, std::int64_t heads, std::int64_t rows, std::int64_t dim,
                                       DataType type);

/// Numbers of the call, zeros for what it has no pointers to, offsets of sequences of one length.
[[nodiscard]] Status set_features(const AttentionProblem& problem, float scale, Memory& memory,
                                  AttentionArguments& arguments);

[[nodiscard]] constexpr AttentionLayout layout_of(int perm) {
  return perm != 0 ? AttentionLayout::bhsd : AttentionLayout::bshd;
}

/// Error: unsupported, where values are not row-major.
[[nodiscard]] Status check_v_is_rows(int is_v_rowmajor);

}  // namespace tilesmith::drop_in
