// Sizes and the shared-memory map of decode on latent rows for Hopper.
//
// Every operand lies in columns of 128 bytes, the swizzle's span (64 elements):
// clang-format off
//   queries        [column][64 rows][128 bytes]
//   rows of keys   [stage][half of a step][column][kTileN rows][128 bytes]
//   probabilities  [64 rows][128 bytes], of which a half's keys fill as much as they are; the second half's may lie in a
//                  column of its keys (kApart)
//   barriers, of the queries and of each column of the ring; the rows' bases, factors and sums; flag and lists
// clang-format on
#pragma once

#include "latent_sizes.cuh"

namespace ts {

constexpr Element kElement = kScoresBf16 ? Element::bf16 : Element::f16;
constexpr int kColumnsV = kHalves * kColumnsOfHalf;

constexpr int kKeyColumnBytes = cfg::kTileN * kColumnBytes;
constexpr int kRingOffset = kColumnsQk * kQueryColumnBytes;
constexpr int kHalfBytes = kColumnsQk * kKeyColumnBytes;
constexpr int kProbabilitiesOffset = kRingOffset + cfg::kStages * kHalves * kHalfBytes;

constexpr int kBarrierOffset = kProbabilitiesOffset + kTileM * kColumnBytes;
constexpr int kRingBarriers = cfg::kStages * kHalves * kColumnsQk;  // pairs
constexpr int kBarriers = 2 + 2 * kRingBarriers;
constexpr int kStatesOffset = kBarrierOffset + 8 * kBarriers;         // [half][row]: a base and a factor
constexpr int kSumsOffset = kStatesOffset + 8 * kHalves * kTileM;     // [half][row]
constexpr int kFlagOffset = kSumsOffset + 4 * kHalves * kTileM;
constexpr int kNumberOffset = kFlagOffset + 8;  // of the next piece
constexpr int kListOffset = kFlagOffset + 16;
constexpr int kProducerListOffset = kListOffset + kConsumerThreads / 4;
constexpr int kRowScalesOffset = 0;  // none
constexpr int kSharedBytes = kProducerListOffset + kProducerThreads / 4;

constexpr int kResultBytes = kProbabilitiesOffset;  // that a piece's outputs may take
constexpr int kClusterPartOffset = 0;               // none

constexpr int kProducerRegisters = 56;
constexpr int kConsumerRegisters = consumer_registers(kProducerRegisters);

static_assert(cfg::kTileN % 32 == 0 && cfg::kTileN <= kColumn, "a half's probabilities are one column of shared memory");
static_assert(kColumnsV <= kColumnsQk, "values are columns of the rows");
static_assert(!kNarrow, "narrow_layout.cuh");
static_assert(kTileM == 64, "queries are the rows of a product");
static_assert(kScoresBf16 == kValuesBf16, "a row is an operand of both products");

enum NamedBarrier { kConsumersMeet = 1, kProducersMeet, kFirstIsReady, kSecondIsReady, kQueriesUnderWay, kFirstHasScored };

// The second half's probabilities have a place of their own: the first column of its keys that is no value, once it is
// scored. There both warpgroups can leave probabilities whether or not the other's have been read.
constexpr bool kApart = cfg::kTileN == kColumn && kColumnsV < kColumnsQk;

// The n-th column of a half to be copied and scored, in the order in which columns come free: those that are no values with
// the scores, then the first warpgroup's, then the second's. Where probabilities lie in one it comes free with the first's.
constexpr int kColumnsNoValue = kColumnsQk - kColumnsV;
constexpr int kEarlyColumns = kColumnsNoValue + kColumnsOfHalf;  // all but the second warpgroup's
TS_DEVICE constexpr int column_of(int half, int n) {
  if (n >= kEarlyColumns) return n - kColumnsNoValue;
  if (kApart && half == 1) return n < kColumnsOfHalf ? n : kColumnsV + n - kColumnsOfHalf;
  return n < kColumnsNoValue ? kColumnsV + n : n - kColumnsNoValue;
}

using KeyRing = RingPlace<cfg::kStages>;

// Addresses, all from the one base.
struct SharedMap {
  u32 base;

  TS_DEVICE u32 queries() const { return base; }
  TS_DEVICE u32 keys(u32 stage, int half) const { return base + kRingOffset + (stage * kHalves + half) * kHalfBytes; }
  TS_DEVICE u32 probabilities() const { return base + kProbabilitiesOffset; }
  TS_DEVICE u32 state(int half, int row) const { return base + kStatesOffset + 8 * (half * kTileM + row); }
  TS_DEVICE u32 sum(int half, int row) const { return base + kSumsOffset + 4 * (half * kTileM + row); }
  TS_DEVICE u32 number_told() const { return base + kBarrierOffset; }
  TS_DEVICE u32 number_heard() const { return number_told() + 8; }
  TS_DEVICE u32 full(u32 stage, int half, int column) const {
    return base + kBarrierOffset + 16 + 16 * ((stage * kHalves + half) * kColumnsQk + column);
  }
  TS_DEVICE u32 empty(u32 stage, int half, int column) const { return full(stage, half, column) + 8; }

  // What copies fill, each thread of the producer reports; what consumers have read, each of their warps that read it.
  TS_DEVICE void init_barriers() const {
    mbarrier_init(number_told(), 1);
    mbarrier_init(number_heard(), kThreads / 32);
    for (int i = 0; i < kRingBarriers; ++i) {
      mbarrier_init(full(0, 0, i), kProducerThreads);
      mbarrier_init(empty(0, 0, i), 4);
    }
    fence_mbarrier_init();
  }
};

}  // namespace ts

#include "teams.cuh"
