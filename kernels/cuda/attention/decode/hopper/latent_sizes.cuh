// Sizes that latent rows of 8 and of 16 bits have in common in decode on Hopper.
#pragma once

#include "../../hopper/ring_place.cuh"
#include "../../hopper/wgmma.cuh"
#include "../../mma_sm80/copy.cuh"
#include "../narrow.cuh"

namespace ts {

constexpr int kTileM = cfg::kTileM;
constexpr int kHalves = 2;  // of a step: a warpgroup scores one each, and sums up half of the values' columns of both
constexpr int kTileKeys = kHalves * cfg::kTileN;
constexpr int kConsumerThreads = 128 * kHalves;
constexpr int kProducerThreads = 128;
constexpr int kThreads = kConsumerThreads + kProducerThreads;

constexpr int kColumnBytes = 128;  // of a row
constexpr int kColumn = kColumnBytes / 2;
constexpr int kColumnsQk = ceil_div(cfg::kHeadDimQk, kColumn);
constexpr int kColumnsOfHalf = ceil_div(cfg::kHeadDimV, kHalves * kColumn);  // of values, of a warpgroup
constexpr int kOutputColumns = kColumnsOfHalf * kColumn;                     // the same in elements
constexpr int kQueryColumnBytes = kTileM * kColumnBytes;

// Registers that a thread keeps of what the block is launched with.
constexpr int kEntryRegisters = 65536 / kThreads / 8 * 8;
constexpr int consumer_registers(int of_producer) {
  return (3 * kEntryRegisters - of_producer) / kHalves / 8 * 8;
}

static_assert(kOutputColumns <= 256, "values of a warpgroup: registers of its threads, or columns of one product");
static_assert(cfg::kBlocksPerSm == 1, "a block fills an SM");

constexpr bool kStartsEarly = false;
constexpr bool kClusters = cfg::kPaged && !cfg::kGroupMode;  // may join an item's pieces (cluster_join.cuh)
constexpr bool kLooksLate = false;  // at the numbers of pages: there is no register for it (PagesOfStep)
constexpr bool kLongFirst = false;  // of a queue, where registers do not spill for it (list.cuh)
constexpr bool kLongestFirst = !cfg::kGroupMode;  // the same
constexpr bool kFindsEven = !cfg::kGroupMode;  // that all sequences of a list are of one length

}  // namespace ts
