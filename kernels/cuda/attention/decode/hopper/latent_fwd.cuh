// Attention forward on latent rows for Hopper (sm_90a): each row of the cache is a key, and its first elements the value
// of that key. What latent_fwd.cuh computes, with products of 64 rows, on operands that nothing but copies touches: a row
// lies in shared memory once, and is an operand of both products there, K-major for scores, N-major for values. Rows of 8
// bits are another file's (narrow_latent_fwd.cuh).
//
// Configuration, beside what attention_fwd.cuh defines but for kRowWarps and kKeyWarps:
//   kTileN                  keys that a warpgroup scores in a step, 32 or 64
//   kStages                 steps of twice as many keys in the ring
//   kHeadDimQk, kHeadDimV   multiples of 8; half of the values, rounded up to 64, has at most 256 columns
//   kLateWait (bool)        the second warpgroup scores before it waits for the first's probabilities (consumer.cuh)
// Launch: as there.
#pragma once

namespace ts::cfg {
constexpr bool kFp8 = false, kFp32 = false, kTf32x3 = false;
}

#include "../../../common/launch.cuh"
#include "consumer.cuh"
#include "producer.cuh"

namespace ts {
using LatentConsumer = Consumer;
TS_DEVICE void clear_memory(u32) {}
TS_DEVICE void produce(const TsCudaKeyMaps& maps, const TsCudaDecodeArgs& args, u32 shared) {
  Producer(maps.k, args, shared).run();
  copy_wait();
}
}  // namespace ts

#include "latent_entry.cuh"
