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

/// Elements of a cache that have 16 bytes: the unit of vectorized pages.
[[nodiscard]] std::int64_t page_vector(const AppendKv& call);

}  // namespace tilesmith
