// Attention forward for few queries on caches of 8 bits on Hopper (sm_90a): what attention_fwd.cuh computes, where producers
// widen keys and values to fp16 on their way to the operands of wgmma. A tile of 64 rows widens each key once so, where
// tiles of 16 rows by mma.sync would four times.
//
// Configuration and launch: as there, but
//   kStages                 of the ring of keys as they are in memory
//   kCacheFp8, kCacheInt8   one of them
#pragma once

namespace ts::cfg {
constexpr bool kFp8 = false, kFp32 = false, kTf32x3 = false;
}

#include "../../../common/launch.cuh"
#include "key_widener.cuh"

namespace ts {
using Producer = KeyWidener;
}  // namespace ts

#include "key_entry.cuh"
