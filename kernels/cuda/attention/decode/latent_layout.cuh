// Sizes and the shared-memory map of decode on latent rows: queries, then a ring of stages, each a block of rows that
// all warps read, as keys and as values. Behind it lie a block's probabilities and the maxima that warps tell one
// another. At a piece's end queries and ring give their place to the results.
//
// A row of shared memory is as in layout.cuh. Behind a stage's rows come their scales, where each has its own.
#pragma once

#include "../../common/mma_sm80.h"
#include "../mma_sm80/ptx.cuh"
#include "narrow.cuh"

namespace ts {

constexpr int kWarpRows = 16;
constexpr int kTileM = kWarpRows * cfg::kRowWarps;
constexpr int kTileKeys = cfg::kTileN * cfg::kColumnWarps;
constexpr int kWarps = cfg::kRowWarps * cfg::kColumnWarps;
constexpr int kThreads = 32 * kWarps;
constexpr int kDepthQk = round_up(cfg::kHeadDimQk, kProductColumns);
constexpr int kOutputColumns = round_up(cfg::kHeadDimV, kProductColumns * cfg::kColumnWarps);
constexpr int kWarpColumns = kOutputColumns / cfg::kColumnWarps;
constexpr int kPitchQ = 2 * kDepthQk + 16;
constexpr int kPitchK = kKeyBytes * kDepthQk + 16;
constexpr int kPitchP = 2 * kTileKeys + 16;
constexpr bool kSwizzled = false;

constexpr int kScalesOfStage = kTileKeys * kPitchK;
constexpr int kStageBytes = kScalesOfStage + (kScaledRows ? 4 * kTileKeys : 0);
constexpr int kRingOffset = kTileM * kPitchQ;
constexpr int kWalkBytes = kRingOffset + cfg::kStages * kStageBytes;

constexpr int kPitchO = kOutputColumns + 8;
constexpr int kStatesOffset = 4 * kTileM * kPitchO;  // of results: a row's base, and each warp's sum
constexpr int kStatePitch = 4 * (1 + cfg::kColumnWarps);
constexpr int kResultBytes = round_up(kStatesOffset + kTileM * kStatePitch, 16);

constexpr int kProbabilitiesOffset = kWalkBytes > kResultBytes ? kWalkBytes : kResultBytes;
constexpr int kPeaksOffset = kProbabilitiesOffset + kTileM * kPitchP;
constexpr int kFlagOffset = kPeaksOffset + 4 * kTileM * cfg::kColumnWarps;
constexpr int kListOffset = kFlagOffset + 16;
constexpr int kRowScalesOffset = kListOffset + kThreads / 4;  // of queries
constexpr int kSharedBytes = kRowScalesOffset + (kScaledQueries ? 4 * kTileM : 0);

constexpr bool kStartsEarly = false;
constexpr bool kClusters = false;
constexpr bool kLongFirst = false;  // (list.cuh)
constexpr bool kLongestFirst = true;
constexpr bool kFindsEven = !cfg::kGroupMode;  // that all sequences of a list are of one length
constexpr int kClusterPartOffset = 0;  // none

static_assert(cfg::kTileN % 16 == 0, "a warp's keys of a step: products of depth 16");
static_assert(cfg::kStages >= 2, "rows arrive while others are multiplied");
static_assert(kOutputColumns <= kDepthQk, "values are columns of the rows");

}  // namespace ts
