// The bias through shared memory. For each consumer warpgroup a warp of the producer's warpgroup loads the bias of its
// 64 rows and of one key block after another, a ring of its own ahead of it: rings of their own keep a warpgroup that
// waits for its bias from holding up the other's keys.
#pragma once

#include "../logits.cuh"
#include "scheduler.cuh"

namespace ts {

struct BiasProducer {
  const Shared& shared;
  const TsCudaTensorMaps& maps;
  const int warpgroup;
  RingPlace<kSharedBias ? kBiasStages : 1> place;

  TS_DEVICE void load(const Tile& t, int n) {
    const u32 full = shared.bias_full(warpgroup, place.index);
    mbarrier_wait(shared.bias_empty(warpgroup, place.index), place.phase ^ 1);
    mbarrier_expect(full, kBiasBytes);
    for (int c = 0; c < cfg::kTileN / kBiasColumn; ++c) {
      tma_load_5d(shared.bias(warpgroup, place.index) + c * kWarpgroupRows * kColumnBytes, &maps.bias, full,
                  n * cfg::kTileN + c * kBiasColumn, 0, (t.row + warpgroup * kWarpgroupRows) / cfg::kPackGqa,
                  t.head, t.batch);
    }
    place.advance();
  }

  TS_DEVICE void run(const TsCudaAttentionArgs& args) {
    TileRing ring;
    Tile t;
    while (true) {
      const u32 slot = ring.pop(shared, t);
      mbarrier_arrive(shared.tile_empty(slot));
      if (t.n_end == 0) return;
      if (args.bias == nullptr || !has_rows(t, warpgroup)) continue;
      const BlockRange blocks = own_blocks(args, t, warpgroup);
      for (int n = blocks.end - 1; n >= blocks.begin; --n) load(t, n);
    }
  }
};

// A block of the bias in shared memory, as the copy engine's 128-byte swizzle leaves it: 16-byte chunk c of row r is at
// chunk c ^ (r % 8). A thread's two columns of a tile of eight are eight bytes. Rows of odd number read two tiles in
// the other order, which spreads a half-warp's reads over all banks.
struct SharedBias {
  struct Pair {
    float x, y;
  };
  const u32 address;

  static TS_DEVICE Pair load(u32 from) {
    Pair v;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(from) : "memory");
    return v;
  }
  TS_DEVICE void add(float factor, float (&s)[kScores]) const {
    const u32 lane = threadIdx.x & 31, group = lane >> 2, odd = group & 1;
    const u32 row = address + ((threadIdx.x >> 5 & 3) * 16 + group) * kColumnBytes + (lane & 1) * 8;
    const u32 chunk = (lane >> 1 & 1) ^ group ^ (odd << 2);
#pragma unroll
    for (int c = 0; c < cfg::kTileN / kBiasColumn; ++c) {
#pragma unroll
      for (int half = 0; half < 4; ++half) {
        const int tile = half & 1, r = half >> 1;
        const u32 from = row + c * kWarpgroupRows * kColumnBytes + r * 8 * kColumnBytes;
        const Pair a = load(from + ((2 * tile) ^ chunk) * 16);
        const Pair b = load(from + ((2 * tile + 4) ^ chunk) * 16);
        const int i = 4 * (4 * c + tile) + 2 * r, j = i + 8;
        s[i] = fmaf(s[i], factor, odd ? b.x : a.x);
        s[i + 1] = fmaf(s[i + 1], factor, odd ? b.y : a.y);
        s[j] = fmaf(s[j], factor, odd ? a.x : b.x);
        s[j + 1] = fmaf(s[j + 1], factor, odd ? a.y : b.y);
      }
    }
  }
};

}  // namespace ts
