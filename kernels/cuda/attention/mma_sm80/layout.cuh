// Sizes and the shared-memory map of the mma_sm80 template: queries, one block of keys, one block of values.
//
// A row is its head dimension rounded up to 16 elements (the depth of an mma; the surplus is zero) and 16 bytes
// more: with an odd number of 16-byte chunks, eight consecutive rows of a column of chunks fall into eight different
// bank groups.
#pragma once

#include "../../common/mma_sm80.h"
#include "ptx.cuh"

namespace ts {

constexpr int kWarpRows = 16;
constexpr int kTileM = kWarpRows * cfg::kWarps;
constexpr int kThreads = 32 * cfg::kWarps;
constexpr int kDepthQk = round_up(cfg::kHeadDimQk, 16);
constexpr int kOutputColumns = round_up(cfg::kHeadDimV, 16);
constexpr int kPitchQk = 2 * kDepthQk + 16;
constexpr int kPitchV = 2 * kOutputColumns + 16;
constexpr int kKeyOffset = kTileM * kPitchQk;
constexpr int kValueOffset = kKeyOffset + cfg::kTileN * kPitchQk;
constexpr int kSharedBytes = kValueOffset + cfg::kTileN * kPitchV;

static_assert(cfg::kTileN % 16 == 0, "keys of a block: a multiple of 16");
static_assert(cfg::kUnaligned || (cfg::kHeadDimQk % 8 == 0 && cfg::kHeadDimV % 8 == 0),
              "rows are copied 16 bytes at a time, unless kUnaligned");
static_assert(kSharedBytes <= TS_MMA_SM80_SHARED_BYTES, "what a block may have on every chip from sm_80 on");

// Copies `kRows` rows from row `first` of a sequence of `length`; rows and columns outside it become zeros.
template <int kRows, int kHeadDim, int kPitch>
TS_DEVICE void load_rows(u32 destination, const char* base, i64 row_bytes, int first, int length) {
  if constexpr (cfg::kUnaligned) {
    constexpr int kPairs = (kPitch - 16) / 4;
    for (int i = threadIdx.x; i < kRows * kPairs; i += kThreads) {
      const int row = i / kPairs, column = i % kPairs * 2;
      const auto* const from = reinterpret_cast<const unsigned short*>(base + (first + row) * row_bytes) + column;
      const bool inside = first + row < length;
      const u32 low = inside && column < kHeadDim ? from[0] : 0;
      const u32 high = inside && column + 1 < kHeadDim ? from[1] : 0;
      asm volatile("st.shared.b32 [%0], %1;" ::"r"(destination + row * kPitch + column * 2), "r"(low | high << 16)
                   : "memory");
    }
    return;
  }
  constexpr int kChunks = (kPitch - 16) / 16;
  for (int i = threadIdx.x; i < kRows * kChunks; i += kThreads) {
    const int row = i / kChunks, chunk = i % kChunks;
    const bool valid = first + row < length && chunk * 8 < kHeadDim;
    copy_async(destination + row * kPitch + chunk * 16, valid ? base + (first + row) * row_bytes + chunk * 16 : base,
               valid);
  }
}

}  // namespace ts
