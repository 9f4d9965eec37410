// Sizes and the shared-memory map of the mma_sm80 template: queries, one block of keys, one block of values.
//
// Head dimensions that shared memory cannot hold come in chunks, queries and keys alike, once for each block of keys
// (kChunks); values that registers cannot hold are shared out to kColumnBlocks blocks of threads, which score the same
// rows.
//
// A row is its head dimension (or a chunk) rounded up to 16 elements (the surplus is zero) and 16 bytes more: with an
// odd number of 16-byte chunks, eight consecutive rows of a column of chunks fall into eight different bank groups.
#pragma once

#include "../../common/mma_sm80.h"
#include "ptx.cuh"

namespace ts {

constexpr int kWarpRows = 16;
constexpr int kTileM = kWarpRows * cfg::kWarps;
constexpr int kThreads = 32 * cfg::kWarps;
constexpr int kElementBytes = cfg::kFp32 ? 4 : 2;
constexpr int kChunks = ceil_div(cfg::kHeadDimQk, cfg::kChunkQk);
constexpr int kDepthQk = kChunks > 1 ? cfg::kChunkQk : round_up(cfg::kHeadDimQk, 16);
constexpr int kOutputColumns = round_up(ceil_div(cfg::kHeadDimV, cfg::kColumnBlocks), 16);
constexpr int kPitchQk = kElementBytes * kDepthQk + 16;
constexpr int kPitchV = kElementBytes * kOutputColumns + 16;
constexpr int kKeyOffset = kTileM * kPitchQk;
constexpr int kValueOffset = kKeyOffset + cfg::kTileN * kPitchQk;
constexpr int kSharedBytes = kValueOffset + cfg::kTileN * kPitchV;

static_assert(cfg::kTileN % 16 == 0, "keys of a block: a multiple of 16");
static_assert(cfg::kChunkQk % 16 == 0, "chunks: a multiple of 16 elements");
static_assert(cfg::kUnaligned || (cfg::kHeadDimQk * kElementBytes % 16 == 0 && cfg::kHeadDimV * kElementBytes % 16 == 0),
              "rows are copied 16 bytes at a time, unless kUnaligned");
static_assert(kSharedBytes <= TS_MMA_SM80_SHARED_BYTES, "what a block may have on every chip from sm_80 on");

// Copies `kRows` rows from row `first` of a sequence of `length`, the first `columns` elements of each; rows and
// columns outside become zeros.
template <int kRows, int kPitch>
TS_DEVICE void load_rows(u32 destination, const char* base, i64 row_bytes, int first, int length, int columns) {
  constexpr int kRowBytes = kPitch - 16;
  if constexpr (cfg::kUnaligned && cfg::kFp32) {
    constexpr int kWords = kRowBytes / 4;
    for (int i = threadIdx.x; i < kRows * kWords; i += kThreads) {
      const int row = i / kWords, column = i % kWords;
      const bool valid = first + row < length && column < columns;
      copy_async_word(destination + row * kPitch + column * 4,
                      valid ? base + (first + row) * row_bytes + column * 4 : base, valid);
    }
  } else if constexpr (cfg::kUnaligned) {
    constexpr int kPairs = kRowBytes / 4;
    for (int i = threadIdx.x; i < kRows * kPairs; i += kThreads) {
      const int row = i / kPairs, column = i % kPairs * 2;
      const auto* const from = reinterpret_cast<const unsigned short*>(base + (first + row) * row_bytes) + column;
      const bool inside = first + row < length;
      const u32 low = inside && column < columns ? from[0] : 0;
      const u32 high = inside && column + 1 < columns ? from[1] : 0;
      asm volatile("st.shared.b32 [%0], %1;" ::"r"(destination + row * kPitch + column * 2), "r"(low | high << 16)
                   : "memory");
    }
  } else {
    constexpr int kPieces = kRowBytes / 16;
    for (int i = threadIdx.x; i < kRows * kPieces; i += kThreads) {
      const int row = i / kPieces, piece = i % kPieces;
      const bool valid = first + row < length && piece * (16 / kElementBytes) < columns;
      copy_async(destination + row * kPitch + piece * 16, valid ? base + (first + row) * row_bytes + piece * 16 : base,
                 valid);
    }
  }
}

}  // namespace ts
