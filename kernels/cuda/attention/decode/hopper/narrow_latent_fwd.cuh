// Attention forward on latent rows of 8 bits for Hopper (sm_90a): what latent_fwd.cuh computes, with products whose rows
// are keys and values. There rows of the cache are operands in shared memory, and of 8 bits would have to be written there
// once more, widened; here they become operands in registers.
//
// Configuration and launch: as there, but
//   kTileN     64
//   kStages    1: rows come in units of 32 keys (narrow_layout.cuh)
//   kLateWait  false
#pragma once

namespace ts::cfg {
constexpr bool kFp8 = false, kFp32 = false, kTf32x3 = false;
}

#include "../../../common/launch.cuh"
#include "narrow_consumer.cuh"
#include "narrow_producer.cuh"

namespace ts {
using LatentConsumer = NarrowConsumer;
TS_DEVICE void clear_memory(u32 shared) {
  clear_ends_of_rows(shared);
}
TS_DEVICE void produce(const TsCudaKeyMaps& maps, const TsCudaDecodeArgs& args, u32 shared) {
  NarrowProducer(maps.k, args, shared).run();
}
}  // namespace ts

#include "latent_entry.cuh"
