// New keys and values that decode's kernels write themselves: of which calls, and what the kernel is told.
#pragma once

#include "instances/attention/cuda_resources.hpp"
#include "kernels/cuda/attention/decode/abi.h"
#include "tilesmith/attention.hpp"

namespace tilesmith {

/// Whether the kernel can write the new keys of a call: they follow from the lengths, and all moves by chunks of 16
/// bytes. If not, or where queries are turned in place, append_kv writes them.
[[nodiscard]] bool new_keys_in_chunks(const AttentionProblem& problem, const AttentionArguments& arguments);

[[nodiscard]] TsCudaNewKeys cuda_new_keys(const AttentionAppend& append);

}  // namespace tilesmith
