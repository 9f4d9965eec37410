// Inputs for check E: every query matches one visible key so well that its weight is exactly 1 and all others vanish,
// and values are small whole numbers. Whatever the order of the sums, the right output is then a copy of rows of v, bit
// for bit: any mistake in indices, masks, tails, splits or head mapping shows as a wrong number, and no tolerance can
// hide it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.hpp"
#include "verify/attention/tensors.hpp"

namespace tilesmith {

/// Values for q, k and v, dense: q in output_row order (rows x head_dim_qk), k and v likewise with heads_kv and
/// seqlen_k.
struct OneHotInputs {
  std::vector<float> q, k, v;
};

/// Inputs for the problem `tensors` describes; its q, k and v are not read, their types are. An error (unsupported)
/// when no such inputs exist: a soft cap or a type's range that keeps logits too close together, fewer dimensions than
/// bits in a key's number, scale 0, or dropout, whose factor is rounded.
[[nodiscard]] Result<OneHotInputs> one_hot_inputs(const AttentionTensors& tensors, std::uint64_t seed);

}  // namespace tilesmith
