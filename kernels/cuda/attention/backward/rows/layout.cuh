// What the rows template is made of: sizes, the shared-memory map, barriers.
//
// An item computes one gradient of 128 rows or two of 64, and streams the rows on the other side of the scores past them, 64 a
// step:
// clang-format off
//   gradient  rows     resident: first, second   streamed: first, second    sums += weights * streamed
//   dk        keys     k, v                      q, do                      dS^T * q
//   dv        keys     k, -                      q, do                      P^T * do
//   dk, dv    64 keys  k, v                      q, do                      dS^T * q, P^T * do
//   dq        queries  q, do                     k, v                       dS * k
// clang-format on
// "First" operands have head_dim_qk columns and give scores, "second" ones head_dim_v and the products of do and v.
//
// Shared memory, every operand in columns of 128 bytes (64 elements), swizzled:
// clang-format off
//   resident first   [column][128 rows][128 bytes]            resident second   the same
//   streamed first   [2 stages][column][64 rows][128 bytes]   streamed second   [kSecondStages] the same
//   lse, delta       [2 stages][64 floats], with the streamed queries and do
//   words            [warp][512 bytes]                        the dropout stream of 16 pairs by 16
//   barriers, then the ring of work items
// clang-format on
// An item of dv has no resident second operand: its place is the second stage of the streamed one. An item of dk and dv has
// 64 rows of each: probabilities lie behind the first, and the second behind the second stage of the streamed one.
#pragma once

#include "../hopper/wgmma.cuh"
#include "item.cuh"

namespace ts {

constexpr int kRows = 128;  // of an item, 64 for each warpgroup
constexpr int kWarpgroups = 2;
constexpr int kStep = 64;  // streamed rows
constexpr int kFirstColumns = ceil_div(cfg::kHeadDimQk, 64);
constexpr int kSecondColumns = ceil_div(cfg::kHeadDimV, 64);
constexpr int kStepsQk = ceil_div(cfg::kHeadDimQk, 16);  // missing head columns are loaded as zeros
constexpr int kStepsV = ceil_div(cfg::kHeadDimV, 16);
constexpr int kWidthQk = 16 * kStepsQk;
constexpr int kWidthV = 16 * kStepsV;

constexpr int kResidentFirst = kFirstColumns * kRows * 128;  // bytes
constexpr int kResidentSecond = kSecondColumns * kRows * 128;
constexpr int kStreamedFirst = kFirstColumns * kStep * 128;
constexpr int kStreamedSecond = kSecondColumns * kStep * 128;
constexpr int kStatisticBytes = kStep * 4;
constexpr int kStages = 2;  // of the first streamed operand, and of the statistics

constexpr int kFirstOffset = kResidentFirst + kResidentSecond;
constexpr int kSecondOffset = kFirstOffset + kStages * kStreamedFirst;
constexpr int kLseOffset = kSecondOffset + kStreamedSecond;
constexpr int kDeltaOffset = kLseOffset + kStages * kStatisticBytes;
constexpr int kWordOffset = kDeltaOffset + kStages * kStatisticBytes;
constexpr int kBarrierOffset = kWordOffset + (cfg::kDropout ? 8 * 512 : 0);
constexpr int kItemSlots = 2;
constexpr int kBarriers = 4 + 4 * kStages + 2 * kItemSlots;
constexpr int kItemBytes = 16;
constexpr int kItemOffset = round_up(kBarrierOffset + kBarriers * 8, 16);
// 1024 bytes for aligning the base to the swizzle pattern.
constexpr int kSharedBytes = kItemOffset + kItemSlots * kItemBytes + 1024;

// Whether dk and dv of 64 keys are an item, one of them of each warpgroup: probabilities pass from one to the other.
// Not with a soft cap, whose slope would have to pass too.
constexpr bool kPaired = !cfg::kSoftCap;

// Whether the kernel can pass the gradients of scores to items of dq through memory (score_gradients.cuh). A window's would be few
// among tiles of all queries and keys, a dbias is added where they are computed for dq, and beside a bias or slopes' gradients it
// spills. Two tiles of 8 KB take the place of a stage of the second streamed operand.
constexpr bool kPassesGradients =
    kPaired && !cfg::kBias && !cfg::kAlibi && !cfg::kMaskLeft && kStreamedSecond >= 2 * 8192;

constexpr int kThreads = 128 * (kWarpgroups + 1);

static_assert(cfg::kHeadDimQk % 8 == 0 && cfg::kHeadDimV % 8 == 0 && cfg::kHeadDimQk <= 256 && cfg::kHeadDimV <= 256,
              "head dimensions");
static_assert(kSharedBytes <= 232448, "shared memory of sm_90: 227 KB a block");

// Stages of the second streamed operand: as many as an item has room for.
TS_DEVICE constexpr u32 second_stages(Gradient gradient) {
  return gradient == Gradient::dv || gradient == Gradient::dk_dv ? 2 : 1;
}

struct Shared {
  u32 base;

  TS_DEVICE u32 resident_first() const { return base; }
  TS_DEVICE u32 resident_second() const { return base + kResidentFirst; }
  TS_DEVICE u32 first(u32 stage) const { return base + kFirstOffset + stage * kStreamedFirst; }
  TS_DEVICE u32 second(u32 stage) const { return stage == 0 ? base + kSecondOffset : resident_second(); }
  // Of an item of dk and dv.
  TS_DEVICE u32 paired_second() const { return resident_second() + kStreamedSecond; }
  TS_DEVICE u32 probabilities() const { return base + kStreamedFirst; }
  TS_DEVICE u32 probabilities_full() const { return barrier(2 + 4 * kStages + 2 * kItemSlots); }
  TS_DEVICE u32 probabilities_empty() const { return barrier(3 + 4 * kStages + 2 * kItemSlots); }
  TS_DEVICE u32 lse(u32 stage) const { return base + kLseOffset + stage * kStatisticBytes; }
  TS_DEVICE u32 delta(u32 stage) const { return base + kDeltaOffset + stage * kStatisticBytes; }
  TS_DEVICE u32 words(int warp) const { return base + kWordOffset + warp * 512; }
  TS_DEVICE u32 barrier(u32 i) const { return base + kBarrierOffset + i * 8; }
  TS_DEVICE u32 resident_full() const { return barrier(0); }
  TS_DEVICE u32 resident_empty() const { return barrier(1); }
  TS_DEVICE u32 first_full(u32 stage) const { return barrier(2 + stage); }
  TS_DEVICE u32 first_empty(u32 stage) const { return barrier(2 + kStages + stage); }
  TS_DEVICE u32 second_full(u32 stage) const { return barrier(2 + 2 * kStages + stage); }
  TS_DEVICE u32 second_empty(u32 stage) const { return barrier(2 + 3 * kStages + stage); }
  TS_DEVICE u32 item_full(u32 slot) const { return barrier(2 + 4 * kStages + slot); }
  TS_DEVICE u32 item_empty(u32 slot) const { return barrier(2 + 4 * kStages + kItemSlots + slot); }
  TS_DEVICE u32 item(u32 slot) const { return base + kItemOffset + slot * kItemBytes; }

  TS_DEVICE void init_barriers() const {
    mbarrier_init(resident_full(), 1);
    mbarrier_init(resident_empty(), 4 * kWarpgroups);
    for (int s = 0; s < kStages; ++s) {
      mbarrier_init(first_full(s), 1);
      mbarrier_init(first_empty(s), 4 * kWarpgroups);
      mbarrier_init(second_full(s), 1);
      mbarrier_init(second_empty(s), 4 * kWarpgroups);
    }
    for (int s = 0; s < kItemSlots; ++s) {
      mbarrier_init(item_full(s), 1);
      mbarrier_init(item_empty(s), 4 * kWarpgroups);
    }
    mbarrier_init(probabilities_full(), 4);
    mbarrier_init(probabilities_empty(), 4);
    fence_mbarrier_init();
  }
};

// A place in a ring whose length differs from item to item: each barrier has a parity of its own, a bit of `parities`.
// Both sides begin an item at place 0.
struct Place2 {
  u32 index = 0, parities = 0;

  TS_DEVICE u32 parity() const { return parities >> index & 1; }
  TS_DEVICE void advance(u32 length) {
    parities ^= 1u << index;
    index = index + 1 == length ? 0 : index + 1;
  }
};

}  // namespace ts
