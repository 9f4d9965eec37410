// What follows from the tile of the five-product kernel: sizes, the shared-memory map, the block's threads.
//
// Shared memory, every operand in columns of 128 bytes (64 elements), swizzled:
// clang-format off
//   keys     [item][column][128 rows][128 bytes]       values the same
//   queries  [stage][column][kTileM rows][128 bytes]       dout the same
//   ds       [buffer][column of 64 keys][kTileM rows][128 bytes]
//   lse, delta [stage][kTileM floats]
//   dq       [buffer][warpgroup][registers 4i .. 4i + 3][thread][4 floats]   on its way to memory, with ordered additions
//   words    [warp][512 bytes]                   the dropout stream of 16 pairs by 16
//   barriers, where dq goes, the ring of work items
// clang-format on
#pragma once

#include "../../hopper/ring_place.cuh"
#include "wgmma.cuh"

namespace ts {

constexpr int kKeys = 128;  // of a block, 64 for each warpgroup
constexpr int kWarpgroups = 2;
constexpr int kTileM = cfg::kTileM;  // queries of a tile
constexpr int kColumnsQk = ceil_div(cfg::kHeadDimQk, 64);
constexpr int kColumnsV = ceil_div(cfg::kHeadDimV, 64);
constexpr int kStepsQk = ceil_div(cfg::kHeadDimQk, 16);  // missing head columns are loaded as zeros
constexpr int kStepsV = ceil_div(cfg::kHeadDimV, 16);
constexpr int kWidthQk = 16 * kStepsQk;
constexpr int kWidthV = 16 * kStepsV;
constexpr int kSumColumns = 64 * kColumnsQk;  // of dq_sum

constexpr int kKeyBytes = kColumnsQk * kKeys * 128;
constexpr int kValueBytes = kColumnsV * kKeys * 128;
constexpr int kQueryBytes = kColumnsQk * kTileM * 128;
constexpr int kDoutBytes = kColumnsV * kTileM * 128;
constexpr int kDsBytes = 2 * kTileM * 128;
constexpr int kRowBytes = kTileM * 4;  // of statistics

constexpr int kDqBytes = kTileM * kSumColumns * 4;  // of both warpgroups
constexpr int kSharedLimit = 232448;                // of sm_90: 227 KB a block
// Whether so many items' keys and values and so many tiles of dq have room; `kSmall` is for what else there is.
constexpr int kSmall = 3072;
constexpr bool has_room(int residents, int dq_buffers) {
  return residents * (kKeyBytes + kValueBytes) + cfg::kStages * (kQueryBytes + kDoutBytes) + 2 * kDsBytes +
             dq_buffers * kDqBytes + (cfg::kDropout ? 4096 : 0) + kSmall <=
         kSharedLimit;
}
// Items whose keys and values are there. With two, the next one's come while the last tiles of the one before are walked;
// of tiles of 64 queries that costs more than it gives.
constexpr int kResidents = kTileM == 128 && has_room(2, cfg::kDeterministic ? 1 : 0) ? 2 : 1;
// With ordered additions dq leaves through shared memory, one tile while the next comes where there is room for two.
constexpr int kDqBuffers = !cfg::kDeterministic ? 0 : has_room(kResidents, 2) ? 2 : 1;

constexpr int kKeyOffset = 0;
constexpr int kValueOffset = kKeyOffset + kResidents * kKeyBytes;
constexpr int kQueryOffset = kValueOffset + kResidents * kValueBytes;
constexpr int kDoutOffset = kQueryOffset + cfg::kStages * kQueryBytes;
constexpr int kDsOffset = kDoutOffset + cfg::kStages * kDoutBytes;
constexpr int kDqOffset = kDsOffset + 2 * kDsBytes;
constexpr int kLseOffset = kDqOffset + kDqBuffers * kDqBytes;
constexpr int kDeltaOffset = kLseOffset + cfg::kStages * kRowBytes;
constexpr int kWordOffset = kDeltaOffset + cfg::kStages * kRowBytes;
constexpr int kBarrierOffset = kWordOffset + (cfg::kDropout ? 8 * 512 : 0);
constexpr int kItemSlots = 2;
// Whether the ring of work items has what a packed sequence's offsets in memory say, 48 bytes an item, instead of a number: a
// consumer that read them itself would begin each item by waiting for them. Beside tiles of 64 it gains nothing.
constexpr bool kSendsItems = cfg::kGroupMode && cfg::kTileM == 128;
constexpr int kItemBytes = kSendsItems ? 48 : 4;
constexpr int kPlaceBytes = 24;  // where a part of dq goes
constexpr int kParts = kDqBuffers * kWarpgroups;
constexpr int kBarriers = 2 + 3 * kResidents + 4 * cfg::kStages + 2 * kItemSlots + 2 * kParts;
constexpr int kPlaceOffset = kBarrierOffset + kBarriers * 8;
constexpr int kItemOffset = round_up(kPlaceOffset + kParts * kPlaceBytes, kSendsItems ? 16 : 4);
constexpr int kSharedBytes = round_up(kItemOffset + kItemSlots * kItemBytes, 16);

constexpr int kThreads = 128 * (kWarpgroups + 1);

// Each warpgroup has half of a tile of dq: 64 of its rows where the tile has 128, else half of its columns.
constexpr bool kSharesRows = kTileM == 128;
constexpr int kShareColumns = kSharesRows ? kSumColumns : kSumColumns / 2;
constexpr int kShareRegisters = kShareColumns / 2;
static_assert((kTileM == 128 && kSumColumns == 64) || (kTileM == 64 && kSumColumns <= 128),
              "128 queries with head_dim_qk up to 64, 64 queries with up to 128");
static_assert(cfg::kHeadDimQk % 8 == 0 && cfg::kHeadDimV % 8 == 0 && cfg::kHeadDimV <= 128, "head dimensions");
static_assert(kSharedBytes <= kSharedLimit, "shared memory of sm_90: 227 KB a block");

struct Shared {
  u32 base;

  TS_DEVICE u32 keys(u32 resident) const { return base + kKeyOffset + resident * kKeyBytes; }
  TS_DEVICE u32 values(u32 resident) const { return base + kValueOffset + resident * kValueBytes; }
  TS_DEVICE u32 queries(u32 stage) const { return base + kQueryOffset + stage * kQueryBytes; }
  TS_DEVICE u32 dout(u32 stage) const { return base + kDoutOffset + stage * kDoutBytes; }
  TS_DEVICE u32 ds(u32 buffer) const { return base + kDsOffset + buffer * kDsBytes; }
  TS_DEVICE u32 lse(u32 stage) const { return base + kLseOffset + stage * kRowBytes; }
  TS_DEVICE u32 delta(u32 stage) const { return base + kDeltaOffset + stage * kRowBytes; }
  TS_DEVICE u32 dq(u32 part) const { return base + kDqOffset + part * (kDqBytes / kWarpgroups); }
  TS_DEVICE u32 place(u32 part) const { return base + kPlaceOffset + part * kPlaceBytes; }
  TS_DEVICE u32 words(int warp) const { return base + kWordOffset + warp * 512; }
  TS_DEVICE u32 barrier(u32 i) const { return base + kBarrierOffset + i * 8; }
  TS_DEVICE u32 query_full(u32 stage) const { return barrier(stage); }
  TS_DEVICE u32 query_empty(u32 stage) const { return barrier(cfg::kStages + stage); }
  TS_DEVICE u32 dout_full(u32 stage) const { return barrier(2 * cfg::kStages + stage); }
  TS_DEVICE u32 dout_empty(u32 stage) const { return barrier(3 * cfg::kStages + stage); }
  TS_DEVICE u32 item_full(u32 slot) const { return barrier(4 * cfg::kStages + slot); }
  TS_DEVICE u32 item_empty(u32 slot) const { return barrier(4 * cfg::kStages + kItemSlots + slot); }
  TS_DEVICE u32 ds_full(u32 buffer) const { return barrier(4 * cfg::kStages + 2 * kItemSlots + buffer); }
  // Of a part of dq: a buffer's share of a warpgroup, number buffer * kWarpgroups + warpgroup.
  TS_DEVICE u32 dq_full(u32 part) const { return barrier(2 + 4 * cfg::kStages + 2 * kItemSlots + part); }
  TS_DEVICE u32 dq_empty(u32 part) const { return barrier(2 + 4 * cfg::kStages + 2 * kItemSlots + kParts + part); }
  TS_DEVICE u32 keys_full(u32 resident) const { return barrier(kBarriers - 3 * kResidents + resident); }
  TS_DEVICE u32 values_full(u32 resident) const { return barrier(kBarriers - 2 * kResidents + resident); }
  TS_DEVICE u32 keys_empty(u32 resident) const { return barrier(kBarriers - kResidents + resident); }  // and values
  TS_DEVICE u32 item(u32 slot) const { return base + kItemOffset + slot * kItemBytes; }

  TS_DEVICE void init_barriers() const {
    for (int i = 0; i < kResidents; ++i) {
      mbarrier_init(keys_full(i), 1);
      mbarrier_init(values_full(i), 1);
      mbarrier_init(keys_empty(i), kWarpgroups);
    }
    for (int s = 0; s < cfg::kStages; ++s) {
      mbarrier_init(query_full(s), 1);
      mbarrier_init(query_empty(s), kWarpgroups);
      mbarrier_init(dout_full(s), 1);
      mbarrier_init(dout_empty(s), kWarpgroups);
    }
    for (int s = 0; s < kItemSlots; ++s) {
      mbarrier_init(item_full(s), 1);
      mbarrier_init(item_empty(s), 4 * kWarpgroups);
    }
    for (int i = 0; i < 2; ++i) mbarrier_init(ds_full(i), 4 * kWarpgroups);
    for (int i = 0; i < kParts; ++i) {
      mbarrier_init(dq_full(i), 4);
      mbarrier_init(dq_empty(i), 1);
    }
    fence_mbarrier_init();
  }
};

}  // namespace ts
