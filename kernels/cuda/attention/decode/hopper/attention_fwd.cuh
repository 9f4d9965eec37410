// Attention forward for few queries and many keys on Hopper (sm_90a): what ../attention_fwd.cuh computes, by products of
// 64 rows, which leave room for large groups of query heads. A producer warpgroup copies keys and values into a ring that
// a second warpgroup multiplies from.
//
// Configuration, beside what ../attention_fwd.cuh defines but for kRowWarps and kKeyWarps:
//   kTileN                  keys of a step, 32, 64, 96 or 128
//   kStages                 of the ring
//   kHeadDimQk, kHeadDimV   multiples of 8 up to 256
//   kCacheFp8, kCacheInt8, kPageScale, kLateWait (bool): false
// Launch: as there.
#pragma once

namespace ts::cfg {
constexpr bool kFp8 = false, kFp32 = false, kTf32x3 = false;
}

#include "../../../common/launch.cuh"
#include "key_producer.cuh"

namespace ts {
using Producer = KeyProducer;
}  // namespace ts

#include "key_entry.cuh"
