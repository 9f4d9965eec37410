// Sizes and the shared-memory map of the decode template: queries, then a ring of stages. A stage has a block of keys
// and its values, in parts: a team of warps has a part of its own, and copies and reads no other. So teams need no
// common barrier while they walk over keys. At a piece's end the ring gives its place to the warps' results.
//
// A row is its head dimension rounded up to 16 elements, of narrow keys to 32 (the surplus is zero), and 16 bytes more:
// with an odd number of 16-byte chunks, eight consecutive rows of a column of chunks fall into eight different bank
// groups. Behind a part's values come the scales of its keys and of its values, where each has its own.
#pragma once

#include "../../common/mma_sm80.h"
#include "../mma_sm80/ptx.cuh"
#include "abi.h"
#include "narrow.cuh"

namespace ts {

constexpr int kWarpRows = 16;
constexpr int kTileM = kWarpRows * cfg::kRowWarps;
constexpr int kTileKeys = cfg::kTileN * cfg::kKeyWarps;  // of a block of threads
constexpr int kTeamThreads = 32 * cfg::kRowWarps;        // warps that share keys
constexpr int kThreads = kTeamThreads * cfg::kKeyWarps;
constexpr int kDepthQk = round_up(cfg::kHeadDimQk, kProductColumns);
constexpr int kOutputColumns = round_up(cfg::kHeadDimV, kProductColumns);
constexpr int kPitchQ = 2 * kDepthQk + 16;

// Narrow rows of whole spans of 128 bytes have no more: of row r, chunk c of a span stands at c ^ (r % 8).
constexpr bool kSwizzled = kNarrow && kDepthQk % 128 == 0 && kOutputColumns % 128 == 0;
constexpr int kRowPad = kSwizzled ? 0 : 16;
constexpr int kPitchK = kKeyBytes * kDepthQk + kRowPad;
constexpr int kPitchV = kKeyBytes * kOutputColumns + kRowPad;

// Values of vectorized pages lie as columns: bytes of one, and where its vector of eight keys begins. Eight neighbouring
// columns' vectors of the same keys fall into different bank groups. They take no more than rows would. Wider heads and
// longer steps leave no registers for it: up to 48 bytes were spilled.
constexpr bool kReadsVectors =
    cfg::kPaged && !kNarrow && cfg::kTileN <= 64 && kDepthQk <= 192 && kOutputColumns <= 192;
constexpr int kColumnOfValues = 2 * cfg::kTileN;
constexpr int kSwizzledVectors = cfg::kTileN % 64 == 0 ? 8 : cfg::kTileN % 32 == 0 ? 4 : 2;
TS_DEVICE int place_of_vector(int column, int vector) {
  return column * kColumnOfValues + 16 * (vector ^ (column / (8 / kSwizzledVectors) & (kSwizzledVectors - 1)));
}

constexpr int kValuesOfPart = cfg::kTileN * kPitchK;
constexpr int kScalesOfPart = kValuesOfPart + cfg::kTileN * kPitchV;
constexpr int kPartBytes = kScalesOfPart + (kScaledRows ? 8 * cfg::kTileN : 0);
constexpr int kStageBytes = kPartBytes * cfg::kKeyWarps;
constexpr int kRingOffset = kTileM * kPitchQ;
constexpr int kRingBytes = kStageBytes * cfg::kStages;

// The results of all warps: rows of floats, of such a pitch that a half-warp's pairs fall into different banks, and
// behind them each row's base and sum.
constexpr int kPitchO = kOutputColumns + 8;
constexpr int kStatesOffset = 4 * cfg::kKeyWarps * kTileM * kPitchO;
constexpr int kResultBytes = kStatesOffset + 8 * cfg::kKeyWarps * kTileM;
// Behind them, where the ring has room, the block's partial for its cluster: rows of values and a state. 0: there is none.
constexpr int kClusterPartBytes = 4 * kTileM * (cfg::kHeadDimV + TS_DECODE_STATE_FLOATS);
constexpr int kClusterPartOffset =
    !cfg::kGroupMode && kTileM == 16 && kResultBytes + kClusterPartBytes <= kRingBytes ? kRingOffset + kResultBytes : 0;
constexpr int kFlagOffset = kRingOffset + (kRingBytes > kResultBytes ? kRingBytes : kResultBytes);
constexpr int kListOffset = kFlagOffset + 16;  // eight bytes for each warp
constexpr int kRowScalesOffset = kListOffset + kThreads / 4;  // of queries
constexpr int kSharedBytes = kRowScalesOffset + (kScaledQueries ? 4 * kTileM : 0);

// Calls that append write into pages of the queries' type. More rows take a block longer to turn than a kernel of its own.
constexpr bool kAppends = cfg::kPaged && !kNarrow && kTileM == 16;

// Lists of pages are worked out before the launch before has ended, where launches overlap.
#if __CUDA_ARCH__ >= 900
constexpr bool kStartsEarly = cfg::kPaged && !cfg::kGroupMode;
#else
constexpr bool kStartsEarly = false;
#endif
constexpr bool kClusters = false;
constexpr bool kLongFirst = cfg::kTakesFromQueue;  // of a queue (list.cuh)
constexpr bool kLongestFirst = false;
constexpr bool kFindsEven = !cfg::kGroupMode;  // that all sequences of a list are of one length

static_assert(cfg::kTileN % 16 == 0, "a warp's keys of a step: products of depth 16");
static_assert(cfg::kStages >= 2, "keys arrive while others are multiplied");
static_assert(cfg::kHeadDimQk * kKeyBytes % 16 == 0 && cfg::kHeadDimV * kKeyBytes % 16 == 0,
              "rows are copied 16 bytes at a time");

}  // namespace ts
