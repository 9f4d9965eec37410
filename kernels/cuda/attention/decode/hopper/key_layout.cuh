// Sizes and the shared-memory map of decode on keys and values for Hopper.
//
// Every operand lies in columns of 128 bytes, the swizzle's span (64 elements):
// clang-format off
//   queries   [column][64 rows][128 bytes]
//   keys      [place][column][kTileN rows][128 bytes]
//   values    [place][column][kTileN rows][128 bytes]
//   keys, then values, of 8 bits as they are in memory: [stage][column of 128 elements][kTileN rows][128 bytes]
//   barriers, of the queries, of each place's keys and values, of each stage's of 8 bits; flag and lists; scales of queries
// clang-format on
//
// Of 16 bits a place is a stage of the ring. Of 8 bits there is one place, for producers widen what is in the ring.
#pragma once

#include "../../hopper/ring_place.cuh"
#include "../../hopper/wgmma.cuh"
#include "../../mma_sm80/copy.cuh"
#include "../narrow.cuh"

namespace ts {

constexpr int kTileM = 64;
constexpr int kTileKeys = cfg::kTileN;
constexpr int kConsumerThreads = 128;
constexpr int kProducerThreads = 128;
constexpr int kThreads = kConsumerThreads + kProducerThreads;
constexpr Element kElement = kScoresBf16 ? Element::bf16 : Element::f16;

constexpr int kColumnBytes = 128;  // of a row
constexpr int kColumn = kColumnBytes / 2;
constexpr int kColumnsQk = ceil_div(cfg::kHeadDimQk, kColumn);
constexpr int kColumnsV = ceil_div(cfg::kHeadDimV, kColumn);
constexpr int kStepsQk = ceil_div(cfg::kHeadDimQk, 16);
constexpr int kOutputColumns = round_up(cfg::kHeadDimV, 16);

constexpr int kQueryColumnBytes = kTileM * kColumnBytes;
constexpr int kKeyColumnBytes = cfg::kTileN * kColumnBytes;
constexpr int kPlaces = kNarrow ? 1 : cfg::kStages;
constexpr int kKeysOffset = kColumnsQk * kQueryColumnBytes;
constexpr int kValuesOffset = kKeysOffset + kPlaces * kColumnsQk * kKeyColumnBytes;

constexpr int kCopyingWarps = 2, kWideningWarps = 2;  // of the producers' of 8 bits
constexpr int kNarrowStages = kNarrow ? cfg::kStages : 0;
constexpr int kNarrowColumnsQk = ceil_div(cfg::kHeadDimQk, kColumnBytes);
constexpr int kNarrowColumnsV = ceil_div(cfg::kHeadDimV, kColumnBytes);
constexpr int kNarrowKeysOffset = kValuesOffset + kPlaces * kColumnsV * kKeyColumnBytes;
constexpr int kNarrowValuesOffset = kNarrowKeysOffset + kNarrowStages * kNarrowColumnsQk * kKeyColumnBytes;

constexpr int kBarrierOffset = kNarrowValuesOffset + kNarrowStages * kNarrowColumnsV * kKeyColumnBytes;
constexpr int kBarriers = 2 + 4 * (kPlaces + kNarrowStages);
constexpr int kFlagOffset = kBarrierOffset + 8 * kBarriers;
constexpr int kLostOffset = kFlagOffset + 4;    // a word for each of two pieces, 8 bytes apart
constexpr int kNumberOffset = kFlagOffset + 8;  // of the next piece
constexpr int kListOffset = kFlagOffset + 16;
constexpr int kProducerListOffset = kListOffset + kConsumerThreads / 4;
constexpr int kRowScalesOffset = kProducerListOffset + kProducerThreads / 4;  // of queries
constexpr int kSharedBytes = kRowScalesOffset + (kScaledQueries ? 4 * kTileM : 0);

constexpr int kClusterPartOffset = 0;  // none

// Registers that a thread keeps of what the block is launched with.
constexpr int kEntryRegisters = 65536 / (kThreads * cfg::kBlocksPerSm) / 8 * 8;
constexpr int kProducerRegisters = cfg::kBlocksPerSm > 1 ? 72 : 136;
constexpr int kConsumerBudget = 2 * kEntryRegisters - kProducerRegisters;
constexpr int kConsumerRegisters = kConsumerBudget > 240 ? 240 : kConsumerBudget;

static_assert(cfg::kTileN % 32 == 0, "pages are looked up by whole warps");
static_assert(kOutputColumns <= 256, "values: the columns of one product");
static_assert(kProducerThreads == 32 * (kCopyingWarps + kWideningWarps), "each warp has one work");
static_assert(!kScaledRows, "scales of rows have no place");
static_assert(kScoresBf16 == kValuesBf16, "keys and values are operands of one type");

// Lists of pages are worked out before the launch before has ended, where there are registers for it.
constexpr bool kStartsEarly = cfg::kPaged && !cfg::kGroupMode && cfg::kBlocksPerSm == 1;
constexpr bool kClusters = false;
constexpr bool kLooksLate = true;  // at the numbers of pages (PagesOfStep)
constexpr bool kLongFirst = true;  // of a queue (list.cuh)
constexpr bool kLongestFirst = false;
// Whether a list finds out that all its sequences are of one length: packed ones have other numbers of items, and of two
// blocks long steps, or a window on both sides, leave no register for it.
constexpr bool kFindsEven =
    !cfg::kGroupMode && (cfg::kBlocksPerSm == 1 || (cfg::kTileN <= 64 && !(cfg::kMaskLeft && cfg::kMaskRight)));

enum NamedBarrier { kConsumersMeet = 1, kProducersMeet, kQueriesUnderWay, kLostAreKnown, kLostOfNextAreKnown };

using KeyRing = RingPlace<kPlaces>;

// Addresses, all from the one base.
struct SharedMap {
  u32 base;

  TS_DEVICE u32 queries() const { return base; }
  TS_DEVICE u32 keys(u32 stage) const { return base + kKeysOffset + stage * kColumnsQk * kKeyColumnBytes; }
  TS_DEVICE u32 values(u32 stage) const { return base + kValuesOffset + stage * kColumnsV * kKeyColumnBytes; }
  TS_DEVICE u32 barrier(int i) const { return base + kBarrierOffset + 8 * i; }
  TS_DEVICE u32 number_told() const { return barrier(0); }
  TS_DEVICE u32 number_heard() const { return barrier(1); }
  TS_DEVICE u32 key_full(u32 place) const { return barrier(2 + 4 * place); }
  TS_DEVICE u32 key_empty(u32 place) const { return barrier(3 + 4 * place); }
  TS_DEVICE u32 value_full(u32 place) const { return barrier(4 + 4 * place); }
  TS_DEVICE u32 value_empty(u32 place) const { return barrier(5 + 4 * place); }

  // Of 8 bits, a stage's keys or values and their barriers.
  template <bool kKeys>
  TS_DEVICE u32 narrow(u32 stage) const {
    return base + (kKeys ? kNarrowKeysOffset : kNarrowValuesOffset) +
           stage * (kKeys ? kNarrowColumnsQk : kNarrowColumnsV) * kKeyColumnBytes;
  }
  template <bool kKeys>
  TS_DEVICE u32 narrow_full(u32 stage) const {
    return barrier((kKeys ? 2 : 4) + 4 * (kPlaces + stage));
  }
  template <bool kKeys>
  TS_DEVICE u32 narrow_empty(u32 stage) const {
    return barrier((kKeys ? 3 : 5) + 4 * (kPlaces + stage));
  }

  // What copies fill, each thread that copies it reports; what is read or widened, each warp of those who do it.
  TS_DEVICE void init_barriers() const {
    mbarrier_init(number_told(), 1);
    mbarrier_init(number_heard(), kThreads / 32);
    for (int i = 2; i < kBarriers; i += 2) {
      const bool narrow = i >= 2 + 4 * kPlaces;
      mbarrier_init(barrier(i), narrow ? 32 : kNarrow ? kWideningWarps : kProducerThreads);
      mbarrier_init(barrier(i + 1), narrow ? kWideningWarps : kConsumerThreads / 32);
    }
    fence_mbarrier_init();
  }
};

}  // namespace ts

#include "teams.cuh"
