// What a correct fused kernel does, in plain code: blocks of keys, an online softmax in fp32, weights rounded to the
// type of the values, optionally splits of the keys that are combined at the end. The checks must accept it; with a
// fault inside they must not.
#pragma once

#include <cstdint>
#include <vector>

#include "verify/attention/tensors.hpp"

namespace tilesmith {

enum class KernelFault {
  none,
  last_block_dropped,   ///< the loop over key blocks ends one early
  rescale_missing,      ///< the output is not rescaled when the maximum grows
  stale_split,          ///< the last split's part is that of the first
  split_weights_equal,  ///< splits are averaged instead of weighted by their sums
  tail_key_unmasked,    ///< keys beyond the end count as zeros with weight exp(0 - max)
  scale_missing,        ///< logits are not scaled
  low_precision_sum,    ///< the output is accumulated in the type of the values
};

struct EmulatedOptions {
  std::int64_t block = 32;
  std::int64_t splits = 1;
  KernelFault fault = KernelFault::none;
};

struct EmulatedResult {
  std::vector<float> o, lse;
};

[[nodiscard]] EmulatedResult emulate_kernel(const AttentionTensors& tensors, ElementType output_type,
                                            const EmulatedOptions& options);

}  // namespace tilesmith
