// What follows from the tile configuration: sizes, the shared-memory map, the block's threads and registers.
//
// Shared memory, every operand in columns of 128 bytes, the swizzle's span (64 elements, 128 of fp8):
// clang-format off
//   queries  [warpgroup][stage][column][64 rows][128 bytes]    each warpgroup has its own 64 rows and its own barriers
//   keys     [stage][column][kTileN rows][128 bytes]
//   values   [stage][column][kTileN rows][128 bytes]           in fp8 transposed:
//            [stage][column of 128 keys][head dimension][128 bytes]
//   raw      [stage][column][kTileN rows][128 bytes]           fp8: the values before they are transposed
//   bias     [warpgroup][stage][column of 32 keys][64 rows][128 bytes]    float32
//   words    [warp][32 * kTileN bytes]                         the dropout stream of a block
//   barriers, then the ring of tiles that the producer hands to the consumers
// clang-format on
#pragma once

#include "ring_place.cuh"
#include "wgmma.cuh"

namespace ts {

constexpr int kWarpgroupRows = 64;
constexpr int kTileM = kWarpgroupRows * cfg::kWarpgroups;
constexpr Element kElement = cfg::kFp8 ? Element::e4m3 : (cfg::kBf16 ? Element::bf16 : Element::f16);
constexpr int kColumnBytes = 128;  // of one row of a column of shared memory
constexpr int kColumn = kColumnBytes / (cfg::kFp8 ? 1 : 2);  // elements
constexpr int kDepth = 32 / (cfg::kFp8 ? 1 : 2);             // of a wgmma, in elements
constexpr int kColumnsQk = ceil_div(cfg::kHeadDimQk, kColumn);
constexpr int kColumnsV = ceil_div(cfg::kHeadDimV, kColumn);
constexpr int kStepsQk = ceil_div(cfg::kHeadDimQk, kDepth);  // missing head columns are loaded as zeros
constexpr int kStepsPv = cfg::kTileN / kDepth;
constexpr int kOutputColumns = round_up(cfg::kHeadDimV, 16);  // N of P x V

// Boxes of tensors end where rows do: a box that the copy engine would have to fill with zeros takes it up to 1.7 times as
// long (docs/log/2026-11-cuda-attention.md). A narrower box has its rows in the places of the swizzle's whole span (CUDA
// C++ Programming Guide, "TMA swizzle").
constexpr bool kExactBoxes = !cfg::kPaged && !cfg::kFp8;
constexpr int copied_bytes(int rows, int head_dim, int columns) {
  return kExactBoxes ? rows * head_dim * 2 : rows * columns * kColumnBytes;
}
constexpr bool is_rest(int column, int head_dim) { return kExactBoxes && (column + 1) * kColumn > head_dim; }
// Then the 8 columns of queries and keys that their products' depth has beyond an odd multiple of 8 are cleared once.
constexpr bool kPadded = kExactBoxes && cfg::kHeadDimQk % kDepth != 0;

constexpr int kQueryBytes = kColumnsQk * kWarpgroupRows * kColumnBytes;  // one warpgroup's rows
constexpr int kKeysBytes = kColumnsQk * cfg::kTileN * kColumnBytes;
constexpr int kLoadedBytes = kColumnsV * cfg::kTileN * kColumnBytes;  // of values, as they come
constexpr int kValueBytes =
    cfg::kFp8 ? ceil_div(cfg::kTileN, kColumn) * kOutputColumns * kColumnBytes : kLoadedBytes;
// Keys and values of 8 bits in pages come narrow, and are widened to the queries' type (page_widener.cuh).
constexpr bool kWidens = cfg::kPaged && (cfg::kCacheFp8 || cfg::kCacheInt8);
constexpr int kRawStages = cfg::kFp8 || kWidens ? 2 : 0;
constexpr int kRawKeyBytes = kWidens ? ceil_div(cfg::kHeadDimQk, kColumnBytes) * cfg::kTileN * kColumnBytes : 0;
constexpr int kRawValueBytes =
    kWidens ? ceil_div(cfg::kHeadDimV, kColumnBytes) * cfg::kTileN * kColumnBytes : cfg::kFp8 ? kLoadedBytes : 0;

// The bias comes through the copy engine, or is read element by element from any strides.
constexpr bool kSharedBias = cfg::kBias && cfg::kBiasStages > 0;
constexpr int kBiasStages = kSharedBias ? cfg::kBiasStages : 0;
constexpr int kBiasColumn = 32;  // keys in a column of shared memory
constexpr int kBiasBytes = cfg::kTileN / kBiasColumn * kWarpgroupRows * kColumnBytes;  // one warpgroup's rows
constexpr int kWordBytes = cfg::kDropout ? 32 * cfg::kTileN : 0;                       // one warp's rows

constexpr int kTileSlots = 4;
constexpr int kTileInts = 12;
constexpr int kBiasBarrier = 4 * cfg::kStages + 2 * cfg::kWarpgroups * cfg::kQStages;
constexpr int kRawBarrier = kBiasBarrier + 2 * cfg::kWarpgroups * kBiasStages;
constexpr int kTileBarrier = kRawBarrier + (kWidens ? 4 : 2) * kRawStages;
constexpr int kBarriers = kTileBarrier + 2 * kTileSlots;

constexpr int kQueryOffset = 0;
constexpr int kKeyOffset = kQueryOffset + cfg::kWarpgroups * cfg::kQStages * kQueryBytes;
constexpr int kValueOffset = kKeyOffset + cfg::kStages * kKeysBytes;
constexpr int kRawOffset = kValueOffset + cfg::kStages * kValueBytes;
constexpr int kBiasOffset = kRawOffset + kRawStages * (kRawKeyBytes + kRawValueBytes);
constexpr int kWordOffset = kBiasOffset + cfg::kWarpgroups * kBiasStages * kBiasBytes;
constexpr int kBarrierOffset = kWordOffset + 4 * cfg::kWarpgroups * kWordBytes;
constexpr int kTileOffset = kBarrierOffset + round_up(kBarriers * 8, 16);
// 1024 bytes for aligning the base to the swizzle pattern.
constexpr int kScratchOffset = kTileOffset + kTileSlots * kTileInts * 4;
constexpr int kSharedBytes = kScratchOffset + 16 + 1024;

constexpr int kThreads = 128 * (cfg::kWarpgroups + 1);
// Warps that copy pages, at most: beside a copied bias one is left.
constexpr int kMostPageWarps = !cfg::kPaged || kWidens ? 0 : kSharedBias ? 1 : 3;
// Warps of the producer's warpgroup, its last ones, that neither the values of 8 bits, pages nor a copied bias need, where a
// right bound may hide queries.
constexpr int kFreeWarps = cfg::kPaged || cfg::kFp8 || !cfg::kMaskRight ? 0 : kSharedBias ? 3 - cfg::kWarpgroups : 3;
// Registers the block is launched with, and their redistribution: the producer keeps what addresses need, the consumers
// share the rest. The sum may not exceed what the launch allotted, or setmaxnreg waits for ever.
constexpr int kEntryRegisters = 65536 / (kThreads * cfg::kBlocksPerSm) / 8 * 8;
constexpr bool kWideProducer = cfg::kFp8;  // one that transposes
// Beside three warpgroups with wide outputs it gets by with fewer, one unit of its work at a time.
constexpr bool kNarrowProducer = kWideProducer && cfg::kWarpgroups == 3 && cfg::kHeadDimV > 64;
constexpr int kProducerRegisters =
    cfg::kWarpgroups == 3   ? (kNarrowProducer ? 56 : kWideProducer ? 72 : 32)
    : cfg::kWarpgroups == 2 ? (cfg::kBlocksPerSm > 1 ? 24 : kWideProducer ? 72 : kWidens ? 56 : 40)
                            : (cfg::kBlocksPerSm > 2 ? (cfg::kPaged ? 40 : 24) : 56);
constexpr int kConsumerBudget =
    (kEntryRegisters * (cfg::kWarpgroups + 1) - kProducerRegisters) / cfg::kWarpgroups / 8 * 8;
constexpr int kConsumerRegisters = kConsumerBudget > 240 ? 240 : kConsumerBudget;

// Queries as the A operand from registers spare the tensor cores a third of what Q x K^T reads of shared memory. Two
// warpgroups and up to 128 columns leave the registers, unless a bias or dropout takes them.
constexpr bool kQueryRegisters = cfg::kWarpgroups == 2 && !cfg::kFp8 && cfg::kHeadDimQk > 64 &&
                                 cfg::kHeadDimQk <= 128 && cfg::kHeadDimV <= 128 && cfg::kTileN <= 128 &&
                                 !cfg::kBias && !cfg::kDropout;

// With a right or left bound a warpgroup passes over the blocks that only the others' rows see. Two passed blocks are
// as many as fit between a tile's last wgmma and the next tile's first ones without waiting for a value that is
// loaded later.
constexpr bool kBounded = cfg::kMaskRight || cfg::kMaskLeft;
constexpr int kMostPassed =
    ceil_div(kTileM - kWarpgroupRows, cfg::kTileN) * ((cfg::kMaskRight ? 1 : 0) + (cfg::kMaskLeft ? 1 : 0));
// Widened values come before the keys behind them, and take a place of the ring more.
constexpr bool kPassBlocks = kBounded && kMostPassed + (kWidens ? 1 : 0) <= cfg::kStages;
static_assert(!cfg::kPaged || !cfg::kFp8, "pages have keys and values of 16 bits, or narrower ones than the queries");
static_assert(kWidens || !(cfg::kCacheFp8 || cfg::kCacheInt8), "narrow keys lie in pages");
static_assert(!kWidens || (!kSharedBias && cfg::kHeadDimQk % 16 == 0 && cfg::kHeadDimV % 16 == 0),
              "narrow pages: all warps widen, and head dimensions are multiples of 16");
static_assert(!cfg::kPaged || !kSharedBias || cfg::kWarpgroups < 3, "pages: a warp is left for the values");

static_assert(cfg::kTileN % 16 == 0 && cfg::kTileN <= 256, "the tile's keys are a multiple of 16, at most 256");
static_assert(kOutputColumns <= 256 && cfg::kHeadDimQk % 8 == 0 && cfg::kHeadDimV % 8 == 0,
              "head dimensions: multiples of 8 up to 256");
static_assert(!cfg::kFp8 || (cfg::kTileN % 32 == 0 && cfg::kHeadDimQk % 16 == 0 && cfg::kHeadDimV % 16 == 0),
              "fp8: the tile's keys are a multiple of 32, the head dimensions of 16");
static_assert(!cfg::kFp8 || cfg::kPackGqa == 1, "fp8: heads are not packed, for their queries' scales may differ");
static_assert(!cfg::kFp8 || !kSharedBias, "fp8: a bias is read by elements (kBiasStages = 0)");
static_assert(!cfg::kBlockScale || cfg::kFp8, "block scales are for fp8");
static_assert(!cfg::kBlockScale || TS_SCALE_BLOCK % cfg::kTileN == 0,
              "block scales: the tile's keys divide the scales' block");
static_assert(!cfg::kBlockScale || !cfg::kAlibi, "block scales: no alibi, for the scores' unit changes with the block");
static_assert(kWarpgroupRows % cfg::kPackGqa == 0, "packed heads divide 64");
static_assert(!kSharedBias || cfg::kTileN % kBiasColumn == 0, "with bias stages kTileN is a multiple of 32");
static_assert(kSharedBytes * cfg::kBlocksPerSm <= 233472 - 1024 * cfg::kBlocksPerSm,
              "shared memory of sm_90: 228 KB, 1 KB kept per block");

// Addresses of the barriers; all are derived from the one base.
struct Shared {
  u32 base;

  TS_DEVICE u32 query(int warpgroup, u32 buffer) const {
    return base + kQueryOffset + (warpgroup * cfg::kQStages + buffer) * kQueryBytes;
  }
  TS_DEVICE u32 key(u32 stage) const { return base + kKeyOffset + stage * kKeysBytes; }
  TS_DEVICE u32 value(u32 stage) const { return base + kValueOffset + stage * kValueBytes; }
  TS_DEVICE u32 raw(u32 stage) const { return base + kRawOffset + stage * kRawValueBytes; }
  TS_DEVICE u32 raw_keys(u32 stage) const { return base + kRawOffset + kRawStages * kRawValueBytes + stage * kRawKeyBytes; }
  TS_DEVICE u32 bias(int warpgroup, u32 stage) const {
    return base + kBiasOffset + (warpgroup * kBiasStages + stage) * kBiasBytes;
  }
  TS_DEVICE u32 words(int warp) const { return base + kWordOffset + warp * kWordBytes; }
  TS_DEVICE u32 barrier(u32 i) const { return base + kBarrierOffset + i * 8; }
  TS_DEVICE u32 key_full(u32 stage) const { return barrier(stage); }
  TS_DEVICE u32 key_empty(u32 stage) const { return barrier(cfg::kStages + stage); }
  TS_DEVICE u32 value_full(u32 stage) const { return barrier(2 * cfg::kStages + stage); }
  TS_DEVICE u32 value_empty(u32 stage) const { return barrier(3 * cfg::kStages + stage); }
  TS_DEVICE u32 query_full(int warpgroup, u32 buffer) const {
    return barrier(4 * cfg::kStages + 2 * (warpgroup * cfg::kQStages + buffer));
  }
  TS_DEVICE u32 query_empty(int warpgroup, u32 buffer) const { return query_full(warpgroup, buffer) + 8; }
  TS_DEVICE u32 bias_full(int warpgroup, u32 stage) const {
    return barrier(kBiasBarrier + 2 * (warpgroup * kBiasStages + stage));
  }
  TS_DEVICE u32 bias_empty(int warpgroup, u32 stage) const { return bias_full(warpgroup, stage) + 8; }
  TS_DEVICE u32 raw_full(u32 stage) const { return barrier(kRawBarrier + 2 * stage); }
  TS_DEVICE u32 raw_empty(u32 stage) const { return raw_full(stage) + 8; }
  TS_DEVICE u32 raw_keys_full(u32 stage) const { return raw_full(kRawStages + stage); }
  TS_DEVICE u32 raw_keys_empty(u32 stage) const { return raw_keys_full(stage) + 8; }
  TS_DEVICE u32 tile_full(u32 slot) const { return barrier(kTileBarrier + 2 * slot); }
  TS_DEVICE u32 tile_empty(u32 slot) const { return tile_full(slot) + 8; }
  TS_DEVICE u32 tile(u32 slot) const { return base + kTileOffset + slot * kTileInts * 4; }
  TS_DEVICE u32 tile_again(u32 slot) const { return tile(slot) + 40; }
  TS_DEVICE u32 tile_careful(u32 slot, int warpgroup) const { return tile(slot) + 36 + warpgroup; }
  // Words of the producer's that would take registers.
  TS_DEVICE u32 careful() const { return base + kScratchOffset + 4; }
  TS_DEVICE u32 look() const { return base + kScratchOffset + 8; }

  // A block's copies are reported by so many threads; so many warps follow the producer's thread.
  TS_DEVICE void init_barriers(int copiers, int followers) const {
    for (int s = 0; s < cfg::kStages; ++s) {
      mbarrier_init(key_full(s), kWidens ? 4 : copiers);
      mbarrier_init(key_empty(s), cfg::kWarpgroups);
      mbarrier_init(value_full(s), cfg::kFp8 || kWidens ? 4 : copiers);
      mbarrier_init(value_empty(s), cfg::kWarpgroups);
    }
    for (int w = 0; w < cfg::kWarpgroups; ++w) {
      for (int b = 0; b < cfg::kQStages; ++b) {
        mbarrier_init(query_full(w, b), 1);
        mbarrier_init(query_empty(w, b), kQueryRegisters ? 4 : 1);
      }
      for (int b = 0; b < kBiasStages; ++b) {
        mbarrier_init(bias_full(w, b), 1);
        mbarrier_init(bias_empty(w, b), 4);
      }
    }
    for (int s = 0; s < (kWidens ? 2 : 1) * kRawStages; ++s) {
      mbarrier_init(raw_full(s), kWidens ? copiers : 1);
      mbarrier_init(raw_empty(s), 4);
    }
    for (int s = 0; s < kTileSlots; ++s) {
      store_word(tile_again(s), 0);
      mbarrier_init(tile_full(s), 1);
      mbarrier_init(tile_empty(s), (kSharedBias ? 5 : 4) * cfg::kWarpgroups + (cfg::kFp8 || kWidens ? 4 : 0) + followers);
    }
    store_word(careful(), 0);
    store_word(look(), 0);
    fence_mbarrier_init();
  }

  // All threads; a barrier follows.
  TS_DEVICE void clear_pads() const {
    if constexpr (kPadded) {
      constexpr int kChunk = cfg::kHeadDimQk % kColumn / 8;
      clear_chunks<kWarpgroupRows, kChunk>(query(0, 0), cfg::kWarpgroups * cfg::kQStages);
      clear_chunks<cfg::kTileN, kChunk>(key(0), cfg::kStages);
      fence_proxy_async();
    }
  }
  // A chunk of 16 bytes of the last column of each row of so many blocks.
  template <int kRows, int kChunk>
  static TS_DEVICE void clear_chunks(u32 first_block, int blocks) {
    constexpr int kBlockBytes = kColumnsQk * kRows * kColumnBytes;
    for (int i = static_cast<int>(threadIdx.x); i < blocks * kRows; i += kThreads) {
      const int row = i % kRows;
      const u32 column = first_block + i / kRows * kBlockBytes + (kColumnsQk - 1) * kRows * kColumnBytes;
      asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(column + row * kColumnBytes +
                                                                    (kChunk ^ (row & 7)) * 16),
                   "r"(0)
                   : "memory");
    }
  }
};

}  // namespace ts
