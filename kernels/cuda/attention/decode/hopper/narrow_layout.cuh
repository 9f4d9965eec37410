// Sizes and the shared-memory map of decode on latent rows of 8 bits for Hopper.
//
// clang-format off
//   queries        [column of 128 bytes][kTileM rows][128 bytes], with the swizzle, in the order of narrow.cuh
//   probabilities  [half of a step][kTileM rows of queries][128 bytes: 64 keys], with the swizzle
//   rows           [unit][32 rows][kRowPitch bytes], as they are in memory
//   the queries' tables; maxima and sums of each warp's keys; barriers; flag and lists; the scales of queries
// clang-format on
#pragma once

#include "latent_sizes.cuh"

namespace ts {

constexpr int kConsumerWarps = kConsumerThreads / 32;
constexpr int kProducerWarps = kProducerThreads / 32;
constexpr Element kElement = Element::f16;

constexpr int kProbabilitiesOffset = kColumnsQk * kQueryColumnBytes;
constexpr int kProbabilitiesBytes = kTileM * kColumnBytes;  // of a half

// Rows come in units, which are free as soon as they are widened. Sixteen bytes more than a multiple of 32: eight rows'
// chunks of 16 bytes are in different banks.
constexpr int kUnitKeys = 32;
constexpr int kUnitsOfStep = kTileKeys / kUnitKeys;
constexpr int kRowPitch = kColumnsQk * kColumn + 16;
constexpr int kUnitBytes = kUnitKeys * kRowPitch;
constexpr int kRowsOffset = kProbabilitiesOffset + kHalves * kProbabilitiesBytes;
constexpr int kMostUnits = 12, kMostRowBytes = (220 << 10) - kRowsOffset;
constexpr int kUnits = kMostRowBytes / kUnitBytes < kMostUnits ? kMostRowBytes / kUnitBytes : kMostUnits;

constexpr int kSeenOffset = kRowsOffset + kUnits * kUnitBytes;  // [row of queries]: its first key and one past its last
constexpr int kAlibiOffset = kSeenOffset + 8 * kTileM;          // [row]: slope and the key at distance zero
constexpr int kBiasOffset = kAlibiOffset + 8 * kTileM;          // [row]: where its bias begins
constexpr int kBasesOffset = kBiasOffset + 8 * kTileM;          // [row]
constexpr int kFactorsOffset = kBasesOffset + 4 * kTileM;       // [row]
constexpr int kOfWarpsOffset = kFactorsOffset + 4 * kTileM;     // [warp][row]: maxima, and at the end sums
constexpr int kBarrierOffset = kOfWarpsOffset + 4 * kConsumerWarps * kTileM;
constexpr int kBarriers = 2 + 2 * kUnits;
constexpr int kFlagOffset = kBarrierOffset + 8 * kBarriers;
constexpr int kNumberOffset = kFlagOffset + 8;  // of the next piece
constexpr int kListOffset = kFlagOffset + 16;
constexpr int kProducerListOffset = kListOffset + kConsumerThreads / 4;
constexpr int kRowScalesOffset = kProducerListOffset + kProducerThreads / 4;  // of queries
constexpr int kSharedBytes = kRowScalesOffset + (kScaledQueries ? 4 * kTileM : 0);

constexpr int kResultBytes = kSeenOffset;  // that a piece's outputs may take
constexpr int kClusterPartOffset = 0;      // none

constexpr int kProducerRegisters = 40;
constexpr int kConsumerRegisters = consumer_registers(kProducerRegisters);

static_assert(cfg::kTileN == 64, "a warpgroup's keys of a step are the rows of one product");
static_assert(kUnits > kUnitsOfStep, "rows are on their way while a step is multiplied");
static_assert(kHalves * kOutputColumns <= kColumnsQk * kColumn, "values are columns of the rows");
static_assert(!kScoresBf16 && !kValuesBf16, "rows are widened to fp16");

enum NamedBarrier { kConsumersMeet = 1, kProducersMeet, kQueriesUnderWay, kFirstHasRead, kSecondHasRead, kFirstTurns, kSecondTurns };

using UnitRing = RingPlace<kUnits>;

// Addresses, all from the one base.
struct SharedMap {
  u32 base;

  TS_DEVICE u32 queries() const { return base; }
  TS_DEVICE u32 probabilities(int half) const { return base + kProbabilitiesOffset + half * kProbabilitiesBytes; }
  TS_DEVICE u32 row(u32 unit, int row) const { return base + kRowsOffset + unit * kUnitBytes + row * kRowPitch; }
  TS_DEVICE u32 number_told() const { return base + kBarrierOffset; }
  TS_DEVICE u32 number_heard() const { return number_told() + 8; }
  TS_DEVICE u32 full(u32 unit) const { return base + kBarrierOffset + 16 + 16 * unit; }
  TS_DEVICE u32 empty(u32 unit) const { return full(unit) + 8; }

  TS_DEVICE void init_barriers() const {
    mbarrier_init(number_told(), 1);
    mbarrier_init(number_heard(), kThreads / 32);
    for (int i = 0; i < kUnits; ++i) {
      mbarrier_init(full(i), 32);
      mbarrier_init(empty(i), kConsumerWarps);
    }
    fence_mbarrier_init();
  }
};

// What a row of shared memory has behind a row's last element, up to a column's end: zeros, which no copy reaches.
TS_DEVICE void clear_ends_of_rows(u32 shared) {
  for (int i = threadIdx.x; i < kUnits * kUnitKeys; i += kThreads)
    for (int at = cfg::kHeadDimQk; at < kColumnsQk * kColumn; at += 4) store_word(SharedMap{shared}.row(0, i) + at, 0);
}

}  // namespace ts

#include "teams.cuh"
