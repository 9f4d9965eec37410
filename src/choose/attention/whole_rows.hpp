// Attention whose rows begin anywhere, by kernels that take rows of whole 16 bytes: its tensors are copied to such rows
// in front, with zeros behind the true columns, and its results copied back. Zeros add nothing to a score, and give
// columns that are not copied back.
#pragma once

#include <cstdint>

#include "choose/padded_rows.hpp"
#include "spec/cuda/spec.hpp"
#include "tilesmith/attention.hpp"
#include "tilesmith/attention_backward.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// The rows of q, k, v or o, and of their gradients.
struct HeadRows {
  std::int64_t batch = 1, heads = 1, rows = 1;
  std::int64_t row_bytes = 0;

  /// Of the row that a kernel takes.
  [[nodiscard]] std::int64_t whole_bytes() const { return (row_bytes + 15) / 16 * 16; }
  [[nodiscard]] PaddedRows copied() const { return {.batch = batch * heads, .rows = rows, .row_bytes = whole_bytes()}; }
};

struct AttentionRows {
  HeadRows q, k, v, o;
  /// Of copies of all four.
  [[nodiscard]] std::int64_t bytes() const;
};
[[nodiscard]] AttentionRows rows_of(const AttentionProblem& problem);

/// Whether copies in front may serve a problem whose rows begin anywhere: of 16 bits, all sequences of one length, not
/// in a cache, and no more of them than a launch copies.
[[nodiscard]] bool may_copy_rows(const AttentionProblem& problem);
[[nodiscard]] bool may_copy_rows(const AttentionBackwardProblem& problem);

/// The problem of the copies.
[[nodiscard]] AttentionProblem with_whole_rows(AttentionProblem problem);
[[nodiscard]] AttentionBackwardProblem with_whole_rows(AttentionBackwardProblem problem);

/// Whether the kernel of a problem with whole rows is one to copy for: one that the copy engine feeds. The others read
/// rows that begin anywhere themselves.
[[nodiscard]] bool is_worth_copies(const KernelConfig& config);

/// Whether the kernel computes the problem on copies, given that it computes it at all.
[[nodiscard]] bool copies_rows(const KernelConfig& config, const AttentionProblem& problem);
[[nodiscard]] bool copies_rows(const KernelConfig& config, const AttentionBackwardProblem& problem);

/// What the launches in front and behind take. They copy what has rows of no whole 16 bytes; where all have such, the
/// pointers or strides are at fault, so all.
[[nodiscard]] double copy_seconds(const CudaSpec& spec, const AttentionProblem& problem);
[[nodiscard]] double copy_seconds(const CudaSpec& spec, const AttentionBackwardProblem& problem);

}  // namespace tilesmith
