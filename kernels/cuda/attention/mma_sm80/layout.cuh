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
#include "load_rows.cuh"

namespace ts {

constexpr int kWarpRows = 16;
constexpr int kTileM = kWarpRows * cfg::kWarps;
constexpr int kThreads = 32 * cfg::kWarps;
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

}  // namespace ts
