// What follows from the tile configuration: sizes, the shared-memory map, the block's threads and registers.
//
// Shared memory: a ring of stages, each a tile of a and a tile of b, 128 bytes of k (or, MN-major, columns of 128
// bytes of m or n by as many elements of k); then each consumer warpgroup's slabs of output, if there is room; then the barriers. A
// tensor of the epilogue that the copy engine brings travels in the ring too, behind the steps of its tile: column
// after column of slabs.
#pragma once

#include "../epilogue.cuh"
#include "../walk.cuh"
#include "ptx.cuh"
#include "stream_k.cuh"
#include "wgmma.cuh"

namespace ts::gemm {

constexpr int kElementBytes = bytes_of(cfg::kTypeA);
constexpr int kTileK = 128 / kElementBytes * (kWeights ? cfg::kTmaBoxes : 1);
// What lies along m or n comes as it lies. Tensor cores multiply 16 bits so; others are transposed in their stages.
constexpr bool kMnMajorA = !cfg::kRowMajorA;
constexpr bool kMnMajorB = cfg::kRowMajorB;
constexpr bool kTransposeA = kMnMajorA && kElementBytes != 2;
constexpr bool kTransposeB = kMnMajorB && kElementBytes != 2;
constexpr bool kTransposes = kTransposeA || kTransposeB;
constexpr int kTransposers = 3;  // warps
constexpr int kStepsOfTile = 4;  // steps of 32 bytes of k in a stage

// What the 64 rows of wgmma are: rows of the tile, or, where it is computed transposed (d^T = b^T x a^T), its columns.
// Beside weights it always is, because wgmma takes only the operand with the 64 rows from registers.
constexpr bool kTransposed = kWeights || cfg::kTransposed;
constexpr int kTileWarpgroups = cfg::kPingPong ? 1 : cfg::kWarpgroups;  // that work on one tile
// Two warpgroups that cannot have whole 64s of a transposed tile's columns each share its rows instead, all columns each.
constexpr int kAcross = kTransposed && !kWeights && kTileWarpgroups == 2 && cfg::kTileN % 128 != 0 ? 2 : 1;
constexpr int kWarpgroupRows =  // transposed: columns
    (kTransposed ? cfg::kTileN : cfg::kTileM) / (kTileWarpgroups / kAcross);
constexpr int kRowBlocks = kWarpgroupRows / 64;
constexpr int kSums = (kTransposed ? cfg::kTileM : cfg::kTileN) / kAcross / 2;  // of a thread in a row block

constexpr int kCluster = cfg::kClusterM * cfg::kClusterN;  // blocks that share what they copy
constexpr int kClusterBlocks = kCluster * cfg::kClusterK;
// What a block finishes of a tile (its warpgroups, where they share wgmma's columns): all of it, or the share of these that
// its cluster leaves it (exchange.cuh).
// Transposed tiles have no equal shares where their eights of rows are no multiple: the last blocks have less.
constexpr int kOwnSums = 4 * ceil_div(kSums, 4 * cfg::kClusterK);
constexpr int kOwnRows = kTransposed ? 2 * kOwnSums : cfg::kTileM;
constexpr int kOwnColumns = kTransposed ? cfg::kTileN : cfg::kTileN / cfg::kClusterK;
// With groups only the rows of a's tile that the group has are copied, kCopyRows at a time.
constexpr bool kCopiesRows = cfg::kCopyRows < cfg::kTileM / cfg::kClusterN;
// Whether edge maps may cut a and b. Along m or n the last of a tile's boxes would be a second size of them, where the
// tile is no multiple of theirs.
constexpr bool kCutsA = cfg::kGrouping == TS_GEMM_UNGROUPED && (!kMnMajorA || cfg::kTileM % kTileK == 0);
constexpr bool kCutsB = cfg::kGrouping == TS_GEMM_UNGROUPED && !kWeights && (!kMnMajorB || cfg::kTileN % kTileK == 0);
constexpr int kColumnBytes = kTileK * 128;  // MN-major: squares of kTileK elements
constexpr int kColumnsA = ceil_div(cfg::kTileM, kTileK);
constexpr int kColumnsB = ceil_div(cfg::kTileN, kTileK);
// Of a row of an MN-major b's column: fewer where the file that includes this one copies columns so.
#ifndef TS_COLUMN_ROW_BYTES
#define TS_COLUMN_ROW_BYTES 128
#endif
constexpr int kColumnRowBytesB = TS_COLUMN_ROW_BYTES;
// What lies along k is one region of 128 bytes of each row in a stage, or, where the file that includes this one says so,
// several, behind each other, whose rows are as many times shorter.
#ifndef TS_REGIONS
#define TS_REGIONS 1
#endif
constexpr int kRegionRowBytes = 128 / TS_REGIONS;
// Where a step of 32 bytes of k begins in regions of so many rows, in units of 16 bytes.
TS_DEVICE constexpr int within_regions(int step, int rows) {
  return (32 * step / kRegionRowBytes * rows * kRegionRowBytes + 32 * step % kRegionRowBytes) / 16;
}
constexpr int kRowsA = kMnMajorA ? kColumnsA * kTileK : cfg::kTileM;  // that a stage has places for
constexpr int kRowsB = kMnMajorB ? kColumnsB * kTileK : cfg::kTileN;
constexpr int kRowBytesB = kTileK * bits_of_type(cfg::kTypeB) / 8;
constexpr int kBytesA = kMnMajorA ? kColumnsA * kColumnBytes : cfg::kTileM * kTileK * kElementBytes;
constexpr int kBytesB = kMnMajorB ? kColumnsB * kColumnBytes : cfg::kTileN * kRowBytesB;
constexpr int kStageBytes = kBytesA + kBytesB;

// Whether a transposed tile's epilogue is applied to the sums as they lie, before they are turned: 16-bit results, and
// operations that read vectors at most.
constexpr int kBytesD = bytes_of(cfg::kTypeD);
constexpr bool reads_vectors_alone() {
  for (int i = 0; i < cfg::kEpilogueLength; ++i) {
    if (is_tensor(cfg::kEpilogue[i]) || is_gate(cfg::kEpilogue[i])) return false;
  }
  return true;
}
constexpr bool kEpilogueOnSums = kTransposed && !kWeights && cfg::kStoreTmaBox && kBytesD == 2 &&
                                 cfg::kEpilogueLength > 0 && cfg::kGrouping == TS_GEMM_UNGROUPED &&
                                 reads_vectors_alone();

// Columns of a x b that are finished together, and the bytes of a row of them in d. At most 64 columns, 32 when several
// operations keep something for every column, for the registers' sake.
constexpr int kTurnRows = kOwnRows <= 16 ? 16 : kOwnRows <= 32 ? 32 : 64;  // transposed: that are turned together
constexpr int kSlabSpan = kTransposed ? kTurnRows : kOwnColumns;           // columns that slabs divide
constexpr int slab_columns() {
  for (int columns = column_readers() > 1 && !kEpilogueOnSums ? 32 : 64; columns > 16; columns /= 2) {
    if (kSlabSpan % columns == 0 && columns * kBytesD / (kGated ? 2 : 1) <= 128) return columns;
  }
  return 16;
}
constexpr int kSlabColumns = slab_columns();
constexpr int kSlabs = kSlabSpan / kSlabColumns;
constexpr int kSlabRowBytes = kSlabColumns * kBytesD / (kGated ? 2 : 1);
constexpr int kSlabBytes = 64 * kSlabRowBytes;
constexpr int kSlabBuffers = cfg::kStoreTmaBox ? 2 : 0;  // per warpgroup
// Rows of d that a copy takes: what is turned last of a transposed tile may be fewer than 64.
constexpr int kBoxRows = !kTransposed || kOwnRows % 64 == 0 ? 64
                         : kOwnRows % 32 == 0               ? 32
                         : kOwnRows % 16 == 0               ? 16
                                                            : 8;
// Transposed 16-bit results are turned by the store of matrices where nothing is left of the epilogue; what else is, as
// floats.
constexpr bool kTurnsMatrices = kTransposed && cfg::kStoreTmaBox && kBytesD == 2 && kSlabColumns == 64 &&
                                (cfg::kEpilogueLength == 0 || kEpilogueOnSums);
constexpr bool kTurnsFloats = kTransposed && (!kTurnsMatrices || cfg::kGrouping != TS_GEMM_UNGROUPED);

// The tensor that the copy engine brings: a TMA box has a slab's columns and the rows of a tile; kCopiedStages hold
// them.
constexpr int kCopiedTmaBoxBytes = cfg::kTileM * kSlabRowBytes;
constexpr int kCopiedTmaBoxes = kStageBytes / kCopiedTmaBoxBytes < kSlabs ? kStageBytes / kCopiedTmaBoxBytes : kSlabs;
constexpr int kCopiedStages = kCopiedTensor < 0 ? 0 : ceil_div(kSlabs, kCopiedTmaBoxes);

constexpr int kTurnPitch = 64 + 4;  // floats: the eight rows of a matrix begin in different banks
constexpr int kTurnBytes = kTurnsFloats ? kTurnRows * kTurnPitch * 4 : 0;  // of a warpgroup
// Where the blocks of a cluster leave each other partials: for each warpgroup its rows of the tile.
constexpr int kExchanges = cfg::kClusterK > 1 ? cfg::kWarpgroups : 0;
constexpr int kExchangeBytes = cfg::kClusterK * kRowBlocks * kOwnSums * 128 * 4;
constexpr int kBarriers = (kTransposes ? 3 : 2) * cfg::kStages + 2 + kExchanges;
// 16 bytes for flags, 1024 for aligning the base to the swizzle pattern.
constexpr int kBytesBesideSlabs = cfg::kStages * kStageBytes + cfg::kWarpgroups * kTurnBytes +
                                  kExchanges * kExchangeBytes + 8 * kBarriers + 16 + 1024;
constexpr int kMostSharedBytes = 227 << 10;  // of a block
// Slabs that find no room beside the ring lie in the stages that their tile has multiplied last: of the operand with the
// 64 rows a part of each stage is the warpgroup's own. It keeps one stage, or, where two slabs do not fit that part,
// two, until it has issued the first step of its next tile. An epilogue by slabs would leave no registers for that.
constexpr int kSlabsBytes = cfg::kWarpgroups * kSlabBuffers * round_up(kSlabBytes, 1024);
constexpr bool kIsPlain = cfg::kStoreTmaBox && kBytesD == 2 && (cfg::kEpilogueLength == 0 || kEpilogueOnSums) &&
                          !kMnMajorA && !kMnMajorB && !kWeights && !cfg::kMmPlusMm &&
                          cfg::kGrouping == TS_GEMM_UNGROUPED && cfg::kScaling == TS_GEMM_SCALE_TENSOR;
constexpr bool kSlabsInRing = kBytesBesideSlabs + kSlabsBytes > kMostSharedBytes && kIsPlain && cfg::kWarpgroups > 1 &&
                              (kTransposed || cfg::kWarpgroups == 3) && !cfg::kPingPong && cfg::kStages >= 3 &&
                              cfg::kStages <= 6 && !cfg::kSplitK && !cfg::kStreamK && !cfg::kPromote &&
                              cfg::kClusterK == 1;
constexpr int kOwnStageBytes = (kAcross > 1 ? 2 * kSums : kRowBlocks * 64) * 128;
constexpr int kHeldStages = !kSlabsInRing ? 0 : 2 * round_up(kSlabBytes, 1024) <= kOwnStageBytes ? 1 : 2;

// Whether a stage still holds its tile of a, of b, when the ring comes round to it: nothing else is written there.
constexpr bool kKeepsStages = !kTransposes && !kWeights && !cfg::kMmPlusMm && cfg::kGrouping == TS_GEMM_UNGROUPED &&
                              !cfg::kSplitK && !cfg::kStreamK && kCluster == 1 && cfg::kClusterK == 1 &&
                              kCopiedTensor < 0;
constexpr bool kKeepsA = kKeepsStages && ((kTransposed && kAcross == 1) || !kSlabsInRing);
constexpr bool kKeepsB = kKeepsStages && !(kTransposed && kAcross == 1 && kSlabsInRing);

constexpr int kRingOffset = 0;
constexpr int kSlabOffset = cfg::kStages * kStageBytes;
constexpr int kTurnOffset = kSlabOffset + (kSlabsInRing ? 0 : kSlabsBytes);
constexpr int kExchangeOffset = kTurnOffset + cfg::kWarpgroups * kTurnBytes;
constexpr int kBarrierOffset = kExchangeOffset + kExchanges * kExchangeBytes;
constexpr int kFlagOffset = kBarrierOffset + 8 * kBarriers;
constexpr int kSharedBytes = kFlagOffset + 16 + 1024;

constexpr int kThreads = 128 * (cfg::kWarpgroups + 1);
// Registers the block is launched with, and their redistribution; the sum may not exceed what the launch allotted, or
// setmaxnreg waits for ever.
constexpr int kEntryRegisters = 65536 / (kThreads * cfg::kBlocksPerSm) / 8 * 8;
constexpr int kConsumerBudget =
    ((kEntryRegisters > 248 ? 248 : kEntryRegisters) * (cfg::kWarpgroups + 1) - cfg::kProducerRegisters) /
    cfg::kWarpgroups / 8 * 8;
constexpr int kConsumerRegisters = kConsumerBudget > 240 ? 240 : kConsumerBudget;

constexpr bool kIntegers = cfg::kTypeA == TS_GEMM_S8;
// Whether sums leave the tensor cores every 128 of k.
constexpr bool kPromote = cfg::kPromote || cfg::kScaling == TS_GEMM_SCALE_BLOCK;

static_assert(kColumnRowBytesB == 128 || (kMnMajorB && kElementBytes == 2 && !kTransposed &&
                                          (kColumnRowBytesB == 32 || kColumnRowBytesB == 64)),
              "narrow columns are those that a swizzle has");
static_assert(kRegionRowBytes == 128 || (!kTransposes && !kWeights && !kSlabsInRing),
              "regions are copied as they are multiplied, and a warpgroup has no part of a stage in one piece");
static_assert(kWeights || bytes_of(cfg::kTypeA) == bytes_of(cfg::kTypeB), "operands of one size");
static_assert((!kTransposeA || cfg::kTileM % kTileK == 0) && (!kTransposeB || cfg::kTileN % kTileK == 0),
              "what is transposed consists of whole squares: 128 of m or n in 8 bits, 32 in tf32");
static_assert(!kTransposes || !cfg::kStreamK, "stream-K multiplies operands as they lie");
static_assert(!kWeights || (cfg::kRowMajorA && !cfg::kRowMajorB && !cfg::kPingPong && !cfg::kStreamK && kCluster == 1),
              "weights lie along k, and warpgroups share a tile without clusters and stream-K");
static_assert(!kWeights || (cfg::kTileN == 64 * cfg::kWarpgroups && kRowBytesB <= 128),
              "a warpgroup unpacks 64 columns of weights, a stage has at most 128 bytes of each");
static_assert(!kTransposed || (cfg::kTileM % (kIntegers || kWeights || cfg::kTileM < 80 ? 16 : 8) == 0 &&
                                 (!cfg::kStoreTmaBox || kTurnRows == 64)),
              "rows of transposed tiles come in 16, from 80 on, of floats, in 8; more than 32 are copied out");
static_assert(kWeights || !kTransposed ||
                  (cfg::kGrouping == TS_GEMM_UNGROUPED && cfg::kScaling == TS_GEMM_SCALE_TENSOR && !cfg::kStagedTensors),
              "transposed tiles without weights have neither groups, block scales nor staged tensors");
static_assert(cfg::kTileN % 16 == 0 && cfg::kTileN <= 256, "the tile's columns are a multiple of 16, at most 256");
static_assert(cfg::kTileM <= 256, "one copy covers at most 256 rows");
static_assert(kAcross == 1 || (cfg::kTileM % 16 == 0 && !kMnMajorA && !cfg::kSplitK && !cfg::kStreamK && cfg::kClusterK == 1),
              "warpgroups share whole eights of rows that lie along k, of tiles that no other block has a part of");
static_assert(kRowBlocks >= 1 && kWarpgroupRows == 64 * kRowBlocks, "each warpgroup has 64 or more whole rows of 64, transposed columns");
static_assert(!cfg::kPingPong || cfg::kWarpgroups == 2, "two warpgroups take turns");
static_assert(cfg::kStages >= 2, "at least two stages: one is multiplied while another arrives");
// The engine swizzles by the address in shared memory, so that a share may begin at any row of a pattern.
static_assert(cfg::kTileN % (kMnMajorB && cfg::kClusterM > 1 ? kTileK * cfg::kClusterM : cfg::kClusterM) == 0 &&
                  cfg::kTileM % (kMnMajorA && cfg::kClusterN > 1 ? kTileK * cfg::kClusterN : cfg::kClusterN) == 0,
              "the blocks of a cluster load equal shares, of what does not lie along k whole squares");
static_assert(!kGated || kSlabRowBytes >= 32 || !cfg::kStoreTmaBox, "a gated slab stored as a box has rows of 32 bytes");
static_assert(!kPromote || (is_fp8(cfg::kTypeA) && is_fp8(cfg::kTypeB)), "promotion and block scales are for fp8");
static_assert(!cfg::kStagedTensors || (cfg::kStoreTmaBox && kBytesD == 2 && !kGated),
              "tensors are staged where 16-bit results are staged");
static_assert(kWeights || kIntegers == (cfg::kTypeB == TS_GEMM_S8), "s8 goes with s8");
static_assert(kCopiedStages <= cfg::kStages, "a tile of the copied tensor fits the ring");
static_assert(cfg::kGrouping == TS_GEMM_UNGROUPED || cfg::kGrouping == TS_GEMM_MASKED || cfg::kRowMajorA,
              "contiguous groups need a row-major a");
static_assert((!kCopiesRows || cfg::kCopyRows % 8 == 0) && cfg::kTileM / cfg::kClusterN % cfg::kCopyRows == 0,
              "rows are copied by whole swizzle patterns that make up the tile");
static_assert(!kCopiesRows || (cfg::kGrouping != TS_GEMM_UNGROUPED && cfg::kRowMajorA && !kWeights && kCluster == 1),
              "rows are left out where groups end, of an a along k, without clusters and weights");
static_assert(cfg::kClusterK == 1 || (kCluster == 1 && cfg::kGrouping == TS_GEMM_UNGROUPED && !cfg::kPingPong &&
                                     !cfg::kSplitKAtomic && !cfg::kStreamK && !kPromote && !kWeights),
              "a cluster that shares a tile by k shares nothing else, and its tiles are neither grouped nor weights");
static_assert(cfg::kClusterK == 1 || !cfg::kSplitK || kOwnSums * cfg::kClusterK == kSums,
              "of parts of k that clusters share each block has as many sums to join");
static_assert(kTransposed ? !cfg::kStoreTmaBox || kOwnRows * cfg::kClusterK * kAcross == cfg::kTileM
                          : cfg::kTileN % (16 * cfg::kClusterK) == 0,
              "blocks of a cluster finish whole slabs of 16 columns, or equal shares of rows where the copy engine stores");
static_assert(!cfg::kSplitKAtomic || cfg::kSplitK, "partials are added where k is split");
static_assert(!cfg::kStreamK || (!cfg::kSplitK && cfg::kGrouping == TS_GEMM_UNGROUPED),
              "stream-K shares tiles that are neither split nor grouped");
static_assert(!cfg::kMmPlusMm || (cfg::kGrouping == TS_GEMM_UNGROUPED && cfg::kScaling == TS_GEMM_SCALE_TENSOR),
              "mm_plus_mm goes with neither groups nor block scales");
static_assert(kSharedBytes * cfg::kBlocksPerSm <= 233472 - 1024 * cfg::kBlocksPerSm,
              "shared memory of sm_90: 228 KB, 1 KB kept per block");

template <bool kShared, int... kShape>
struct WalkOf {
  using Type = Walk<kShape...>;
};
template <int... kShape>
struct WalkOf<true, kShape...> {
  using Type = SharedWalk<kShape...>;
};
// The walk may be of the file that includes this one.
#ifdef TS_WALK
using TileWalk = TS_WALK;
#else
using TileWalk =
    typename WalkOf<cfg::kStreamK, cfg::kTileM, cfg::kTileN, kTileK, cfg::kClusterM, cfg::kClusterN>::Type;
#endif

// Addresses; all are derived from the one base.
struct Shared {
  u32 base;

  TS_DEVICE u32 tile_a(u32 stage) const { return base + kRingOffset + stage * kStageBytes; }
  TS_DEVICE u32 tile_b(u32 stage) const { return tile_a(stage) + kBytesA; }
  TS_DEVICE u32 slab(int warpgroup, int buffer) const {
    return base + kSlabOffset + (warpgroup * kSlabBuffers + buffer) * round_up(kSlabBytes, 1024);
  }
  // The part of a stage that only this one of the tile's warpgroups reads.
  TS_DEVICE u32 own(u32 stage, int warpgroup) const {
    return (kTransposed && kAcross == 1 ? tile_b(stage) : tile_a(stage)) + warpgroup * kOwnStageBytes;
  }
  TS_DEVICE u32 turned(int warpgroup) const { return base + kTurnOffset + warpgroup * kTurnBytes; }
  TS_DEVICE u32 full(u32 stage) const { return base + kBarrierOffset + stage * 8; }
  TS_DEVICE u32 empty(u32 stage) const { return full(cfg::kStages + stage); }
  TS_DEVICE u32 turn(int warpgroup) const { return full(2 * cfg::kStages + warpgroup); }
  // The bytes of a stage are there; what is not to be transposed is then full.
  TS_DEVICE u32 arrived(u32 stage) const { return kTransposes ? full(2 * cfg::kStages + 2 + stage) : full(stage); }
  TS_DEVICE u32 exchange(int warpgroup) const { return base + kExchangeOffset + warpgroup * kExchangeBytes; }
  TS_DEVICE u32 exchanged(int warpgroup) const { return full(kBarriers - kExchanges + warpgroup); }
  TS_DEVICE u32 flag(int warpgroup) const { return base + kFlagOffset + 4 * warpgroup; }

  TS_DEVICE void init_barriers() const {
    for (int s = 0; s < cfg::kStages; ++s) {
      mbarrier_init(arrived(s), 1);
      if (kTransposes) mbarrier_init(full(s), kTransposers);
      // Each block that receives from this one frees the stage here too.
      mbarrier_init(empty(s), kTileWarpgroups * (cfg::kClusterM + cfg::kClusterN - 1));
    }
    mbarrier_init(turn(0), 4);
    mbarrier_init(turn(1), 4);
    for (int w = 0; w < kExchanges; ++w) mbarrier_init(exchanged(w), 1);
    fence_mbarrier_init();
  }
};

// A launch may begin several clusters by k as one, so that neighbours among its blocks read the same part of k of
// neighbouring tiles: block `part` * `tiles` + `tile` of it has that part of that tile.
TS_DEVICE u32 tiles_together() {
  return cluster_blocks() / cfg::kClusterK;
}
// The block's number among those that share its tile by k, or among those that copy for each other.
TS_DEVICE u32 rank_of_block() {
  if constexpr (kClusterBlocks == 1) return 0;
  return cfg::kClusterK > 1 ? cluster_rank() / tiles_together() : cluster_rank();
}
TS_DEVICE u32 block_of_part(u32 part, u32 rank) {
  return cluster_rank() + (part - rank) * tiles_together();
}
TS_DEVICE int first_item(u32 rank) {
  if constexpr (cfg::kClusterK == 1) return blockIdx.x / kClusterBlocks;
  const u32 tiles = tiles_together();
  return cluster_index() * tiles + cluster_rank() - rank * tiles;
}

// The part of a tile that a block of a cluster finishes.
TS_DEVICE Tile own_part(const Tile& t, u32 rank) {
  Tile part = t;
  if constexpr (cfg::kClusterK > 1) {
    part.row += kTransposed ? static_cast<int>(rank) * kOwnRows : 0;
    part.row_limit = imin(t.row_limit, t.row + cfg::kTileM);
    part.column += kTransposed ? 0 : static_cast<int>(rank) * kOwnColumns;
  }
  return part;
}

// Stages of the ring that a tile takes behind its steps.
TS_DEVICE int copied_stages(const TsCudaGemmArgs& args) {
  if constexpr (kCopiedTensor >= 0) {
    if (cfg::kEpilogue[kCopiedTensor] != TS_GEMM_ADD || args.epilogue[kCopiedTensor].value != 0.0f)
      return kCopiedStages;
  }
  return 0;
}

// A place in the ring and the parity of its current round; it runs on from tile to tile.
struct RingPlace {
  u32 index = 0, phase = 0;

  TS_DEVICE void advance() {
    if (++index == cfg::kStages) {
      index = 0;
      phase ^= 1;
    }
  }
  TS_DEVICE void skip(int stages) {
    const u32 to = index + stages;
    phase ^= to / cfg::kStages & 1;
    index = to % cfg::kStages;
  }
};

}  // namespace ts::gemm
