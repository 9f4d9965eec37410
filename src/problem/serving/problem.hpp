// The checks of serving's calls on a device. Those of the CPU read every number; of a CUDA device's memory nothing is
// read.
#pragma once

#include "tilesmith/device.hpp"
#include "tilesmith/serving.hpp"

namespace tilesmith {

/// Errors: invalid_argument, unsupported.
[[nodiscard]] Status validate(const MergeStates& call, DeviceKind device);
[[nodiscard]] Status validate(const AppendKv& call, DeviceKind device);

/// Rows of all sequences' new tokens: group mode says how many its tensors have.
[[nodiscard]] constexpr std::int64_t total_tokens(const AppendKv& call) {
  return call.mode == SequenceMode::group ? call.total : call.batch * call.seqlen;
}

/// A sequence's new tokens: how many, the first one's row of q, k and v, and the row of the sequence that it goes to.
struct NewTokens {
  std::int64_t count, first, row;
};
/// Reads offsets and lengths: of a call on the CPU, whose sequences have no fewer keys than new tokens.
[[nodiscard]] inline NewTokens new_tokens(const AppendKv& call, std::int64_t b) {
  const bool group = call.mode == SequenceMode::group;
  NewTokens out{call.seqlen, group ? call.cu_seqlens[b] : b * call.seqlen, 0};
  if (group) out.count = call.cu_seqlens[b + 1] - out.first;
  if (call.pages.lengths == nullptr) return out;
  out.row = call.pages.lengths[b];
  if (call.lengths_after && out.row == 0) out.count = 0;  // padding
  if (call.lengths_after) out.row -= out.count;
  return out;
}

/// Elements of a cache that have 16 bytes: the unit of vectorized pages.
[[nodiscard]] std::int64_t page_vector(const AppendKv& call);

}  // namespace tilesmith
