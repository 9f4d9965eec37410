// A consumer warpgroup: multiplies the stages of one tile after another and finishes the tiles.
//
// Cooperative warpgroups share a tile by rows (transposed: by columns); with kPingPong each has every second tile of the
// block for itself, and one finishes its tile while the other multiplies.
#pragma once

#include "../partials.cuh"
#include "exchange.cuh"
#include "layout.cuh"
#include "transposed.cuh"

// With stream-K: groups in which many partials of a tile are added (partials.cuh). The file that includes this one may
// ask for some.
#ifndef TS_PART_GROUPS
#define TS_PART_GROUPS 1
#endif
// With split k: whether partials stay where they are, for a later launch to add.
#ifndef TS_LEAVES_PARTIALS
#define TS_LEAVES_PARTIALS 0
#endif

namespace ts::gemm {

struct Consumer : TransposedSlabs {
  RingPlace place;
  float factor;  // alpha and the tensors' scales

  TS_DEVICE int tile_warpgroup() const { return cfg::kPingPong ? 0 : warpgroup; }

  TS_DEVICE void release(u32 stage) const {
    if constexpr (kCluster == 1) {
      if (thread() == 0) mbarrier_arrive(shared.empty(stage));
    } else {
      // To every block that copies into this one: those of its row and column of the cluster.
      const u32 to = thread();
      if (to < kCluster &&
          (to % cfg::kClusterM == rank % cfg::kClusterM || to / cfg::kClusterM == rank / cfg::kClusterM))
        mbarrier_arrive_at(shared.empty(stage), to);
    }
  }

  TS_DEVICE void wait_for_stage(const RingPlace& at) const {
    mbarrier_wait(shared.full(at.index), at.phase);
    // What the copy engine wrote and nobody transposed this thread has not waited for yet.
    if constexpr (kTransposes) mbarrier_wait(shared.arrived(at.index), at.phase);
  }

  // The wgmma of one stage, issued and committed. `accumulate`: whether the first one adds to the sums.
  TS_DEVICE void issue(Sum (&sums)[kRowBlocks][kSums], u32 stage, int accumulate) const {
    // The operand with the 64 rows is a, transposed b; the other one all warpgroups have in common.
    const u32 own = kTransposed ? shared.tile_b(stage) : shared.tile_a(stage);
    const u32 common = kTransposed ? shared.tile_a(stage) : shared.tile_b(stage);
    constexpr bool kAsItLiesA = kMnMajorA && !kTransposeA, kAsItLiesB = kMnMajorB && !kTransposeB;
    constexpr bool kOwnAsItLies = kTransposed ? kAsItLiesB : kAsItLiesA;
    constexpr bool kCommonAsItLies = kTransposed ? kAsItLiesA : kAsItLiesB;
    constexpr int kOwnRow = kOwnAsItLies ? 128 : kRegionRowBytes;
    constexpr int kCommonRow = !kCommonAsItLies ? kRegionRowBytes : kTransposed ? 128 : kColumnRowBytesB;
    const u32 address_own = uniform(own + (kAcross > 1 ? 0 : tile_warpgroup()) * kRowBlocks * 64 * kOwnRow);
    const u32 address_common = uniform(common + (kAcross > 1 ? tile_warpgroup() * 2 * kSums * kCommonRow : 0));
    const u64 a = descriptor_of_rows<kOwnRow>(address_own, kOwnAsItLies ? kColumnBytes : 0);
    const u64 b = descriptor_of_rows<kCommonRow>(address_common, kCommonAsItLies ? kTileK * kCommonRow : 0);
    // Where a step of 32 bytes of k begins, in units of 16 bytes.
    constexpr auto at_own = [](int step) {
      return kOwnAsItLies ? step * kOwnRow : within_regions(step, kTransposed ? kRowsB : kRowsA);
    };
    constexpr auto at_common = [](int step) {
      return kCommonAsItLies ? step * kCommonRow : within_regions(step, kTransposed ? kRowsA : kRowsB);
    };
#pragma unroll
    for (int rb = 0; rb < kRowBlocks; ++rb) pin_sums(sums[rb]);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < kStepsOfTile; ++step) {
#pragma unroll
      for (int rb = 0; rb < kRowBlocks; ++rb) {
        Product<2 * kSums>::multiply(sums[rb], a + at_own(step) + rb * 4 * kOwnRow, b + at_common(step),
                                       step == 0 ? accumulate : 1);
      }
    }
    wgmma_commit();
#pragma unroll
    for (int rb = 0; rb < kRowBlocks; ++rb) pin_sums(sums[rb]);
  }

  // All steps of a tile but for the last wait; returns the stage that is still being read.
  TS_DEVICE u32 multiply(const Tile& t, Sum (&sums)[kRowBlocks][kSums]) {
    u32 previous = place.index;
    for (int s = 0; s < t.steps; ++s) {
      wait_for_stage(place);
      issue(sums, place.index, s != 0);
      if (s == 0) {
        if constexpr (kSlabsInRing) release_held();
        if constexpr (kHeldStages == 2) held[1] = place.index;
      } else {
        wgmma_wait<1>();
        if (kHeldStages < 2 || s + 1 < t.steps)
          release(previous);
        else
          held[1] = previous;
      }
      previous = place.index;
      place.advance();
    }
    return previous;
  }

  // Frees the stages where the last tile's slabs were, once the copy engine has read them.
  TS_DEVICE void release_held() {
    if (!holds) return;
    holds = false;
    if (thread() >= 32) return;
    if (thread() == 0) store_wait_read<0>();
    __syncwarp();
    release(held[0]);
    if (kHeldStages == 2 && held[1] != held[0]) release(held[1]);
  }

  // The same with sums that leave the tensor cores after every step, which is 128 of k: the tensor cores add fp8 up
  // with fewer bits than float32 has. With block scales each step is scaled when it is added.
  TS_DEVICE void multiply_promoted(const Tile& t, Sum (&sums)[kRowBlocks][kSums]) {
    constexpr bool kBlocks = cfg::kScaling == TS_GEMM_SCALE_BLOCK;
    static_assert(!kBlocks || 128 % cfg::kTileN == 0, "block scales: the tile's columns divide 128");
    const float* scale_a[kRowBlocks][2];
    const float* scale_b = nullptr;
    bool inside[kRowBlocks][2];
    if constexpr (kBlocks) {
      const i64 batch_a = cfg::kGrouping == TS_GEMM_CONTIGUOUS ? 0 : t.batch;
      scale_b = static_cast<const float*>(args.scale_b) + t.batch * args.scale_b_batch_stride +
                t.column / 128 * args.scale_b_row_stride + t.step * args.scale_b_block_stride;
#pragma unroll
      for (int i = 0; i < 2 * kRowBlocks; ++i) {
        const int row =
            t.row + tile_warpgroup() * kWarpgroupRows + i / 2 * 64 + thread() / 32 * 16 + i % 2 * 8 + thread() % 32 / 4;
        inside[i / 2][i % 2] = row < t.row_limit;
        scale_a[i / 2][i % 2] = static_cast<const float*>(args.scale_a) + batch_a * args.scale_a_batch_stride +
                                (t.row_offset + row) * args.scale_a_row_stride + t.step * args.scale_a_block_stride;
      }
    }
    // The scales of `step`'s block: the scale of each of the thread's rows times that of the columns.
    auto scales_of = [&](int step, float(&scale)[2 * kRowBlocks + 1]) {
      if constexpr (kBlocks) {
        const bool there = step < t.steps;
        scale[2 * kRowBlocks] = there ? __ldg(scale_b + step * args.scale_b_block_stride) : 0.0f;
#pragma unroll
        for (int i = 0; i < 2 * kRowBlocks; ++i) {
          scale[i] =
              there && inside[i / 2][i % 2] ? __ldg(scale_a[i / 2][i % 2] + step * args.scale_a_block_stride) : 0.0f;
        }
      }
    };
#pragma unroll
    for (int rb = 0; rb < kRowBlocks; ++rb) {
#pragma unroll
      for (int i = 0; i < kSums; ++i) sums[rb][i] = 0;
    }
    // Scales are asked for a group of steps ahead: with the copy engine at work, memory takes longer than a step.
    constexpr int kAhead = kBlocks ? 4 : 1;
    float now[kAhead][2 * kRowBlocks + 1], next[kAhead][2 * kRowBlocks + 1];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) scales_of(i, now[i]);
    for (int first = 0; first < t.steps; first += kAhead) {
#pragma unroll
      for (int i = 0; i < kAhead; ++i) scales_of(first + kAhead + i, next[i]);
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (first + i < t.steps) add_step(now[i], sums);
      }
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
#pragma unroll
        for (int e = 0; e <= 2 * kRowBlocks; ++e) now[i][e] = next[i][e];
      }
    }
  }

  // One step of promoted sums.
  TS_DEVICE void add_step(const float (&scale)[2 * kRowBlocks + 1], Sum (&sums)[kRowBlocks][kSums]) {
    Sum fresh[kRowBlocks][kSums];
    wait_for_stage(place);
    issue(fresh, place.index, 0);
    wgmma_wait<0>();
#pragma unroll
    for (int rb = 0; rb < kRowBlocks; ++rb) pin_sums(fresh[rb]);
    release(place.index);
    place.advance();
#pragma unroll
    for (int rb = 0; rb < kRowBlocks; ++rb) {
      if constexpr (cfg::kScaling == TS_GEMM_SCALE_BLOCK) {
        const float both[2] = {scale[2 * rb] * scale[2 * kRowBlocks], scale[2 * rb + 1] * scale[2 * kRowBlocks]};
#pragma unroll
        for (int i = 0; i < kSums; ++i) sums[rb][i] = fmaf(fresh[rb][i], both[i >> 1 & 1], sums[rb][i]);
      } else {
#pragma unroll
        for (int i = 0; i < kSums; ++i) sums[rb][i] += fresh[rb][i];
      }
    }
  }

  TS_DEVICE Place place_of(const Tile& t, int slab_index) const {
    int row = t.row_offset + t.row + tile_warpgroup() * kWarpgroupRows + slab_index / kSlabs * 64 + thread() / 32 * 16;
    // In long lists each slab finds its addresses anew: all slabs' together would not fit the registers.
    if (cfg::kEpilogueLength > 3) asm volatile("" : "+r"(row));
    const i64 batch = cfg::kGrouping == TS_GEMM_CONTIGUOUS ? 0 : t.batch;
    return {row + thread() % 32 / 4,
            t.column + slab_index % kSlabs * kSlabColumns + 2 * (thread() & 3),
            t.row_offset + t.row_limit,
            args.n,
            batch,
            t.batch};
  }

  // Waits for the copied tensor's slabs with this index; returns where they are.
  TS_DEVICE u32 copied_slab(const RingPlace& copied, int stages, int slab_index) const {
    if (kCopiedStages == 0 || stages == 0) return 0;
    RingPlace at = copied;
    at.skip(slab_index % kSlabs / kCopiedTmaBoxes);
    if (slab_index < kSlabs && slab_index % kCopiedTmaBoxes == 0) wait_for_stage(at);
    return shared.tile_a(at.index) + slab_index % kSlabs % kCopiedTmaBoxes * kCopiedTmaBoxBytes +
           (tile_warpgroup() * kWarpgroupRows + slab_index / kSlabs * 64 + thread() / 32 * 16) * kSlabRowBytes;
  }
  // Frees a stage of the copied tensor after the last slab that reads it.
  TS_DEVICE void release_copied(const RingPlace& copied, int stages, int slab_index) const {
    if (kCopiedStages == 0 || stages == 0 || slab_index < (kRowBlocks - 1) * kSlabs) return;
    const int slab = slab_index % kSlabs;
    if (slab % kCopiedTmaBoxes != kCopiedTmaBoxes - 1 && slab != kSlabs - 1) return;
    RingPlace at = copied;
    at.skip(slab / kCopiedTmaBoxes);
    fence_proxy_async();  // ordinary reads before the copy engine's writes
    named_barrier_sync(barrier(), 128);
    release(at.index);
  }

  // Another team finishes the tile: the copied tensor's stages are freed unread.
  TS_DEVICE void drop_copied(RingPlace at) const {
    for (int stages = copied_stages(args); stages > 0; --stages, at.advance()) {
      wait_for_stage(at);
      release(at.index);
    }
  }

  // `copied`: where the copied tensor's stages begin.
  TS_DEVICE void finish(const Tile& t, const Sum (&sums)[kRowBlocks][kSums], Operands<0, kSlabColumns>& operands,
                        const RingPlace& copied) {
    const int stages = copied_stages(args);
    // The rows after a group's last row may be another group's, which a TMA box would overwrite.
    const bool whole = cfg::kGrouping == TS_GEMM_UNGROUPED || t.row + cfg::kTileM <= t.row_limit;
#pragma unroll
    for (int slab_index = 0; slab_index < kRowBlocks * kSlabs; ++slab_index) {
      Operands<0, kSlabColumns> next;
      if (slab_index + 1 < kRowBlocks * kSlabs) next.load(args, place_of(t, slab_index + 1));
      const Place here = place_of(t, slab_index);
      float v[kSlabColumns / 2];
#pragma unroll
      for (int i = 0; i < kSlabColumns / 2; ++i) {
        const Sum sum = sums[slab_index / kSlabs][slab_index % kSlabs * (kSlabColumns / 2) + i];
        v[i] = result_of(sum, factor);
      }
      const Staging staging{shared.slab(warpgroup, slab_count & 1) + thread() / 32 * 16 * kSlabRowBytes,
                            copied_slab(copied, stages, slab_index)};
      operands.apply(args, here, v, staging);
      release_copied(copied, stages, slab_index);
      if (cfg::kStoreTmaBox && whole)
        store_as_tma_box(t, t.row_offset + t.row + tile_warpgroup() * kWarpgroupRows + slab_index / kSlabs * 64,
                         t.column + slab_index % kSlabs * kSlabColumns, v);
      else
        store_slab<kSlabColumns>(args, here, v);
      operands = next;
    }
  }

  // Whether this warpgroup has the whole sums of its rows of the tile: where the tile has partials, the last team has
  // them. A template, for what one of the walks does not have.
  template <class W>
  TS_DEVICE bool join(const W& walk, const Tile& t, Sum (&sums)[kRowBlocks][kSums]) const {
    const int first_row = t.row + tile_warpgroup() * kWarpgroupRows + thread() / 32 * 16;
    u32 wanted = 0;
    for (int rb = 0; rb < kRowBlocks; ++rb) wanted |= kTransposed || first_row + 64 * rb < t.row_limit ? 1u << rb : 0u;
    const auto sync = [this] { named_barrier_sync(barrier(), 128); };
    constexpr int kKept = cfg::kWarpgroups == 3 ? 32 : 64;  // a third warpgroup leaves each thread 128 registers
    const auto unit_of = [this](int index) {
      return (index * kClusterBlocks + static_cast<int>(rank)) * kTileWarpgroups + tile_warpgroup();
    };
    if constexpr (cfg::kStreamK) {
      if (t.steps == walk.all_steps) return true;
      const auto partials = walk.partials_of(t);
      const int unit = unit_of(t.index - walk.whole);
      const auto place_of = [&](int part) { return unit_of(partials.place(part)); };
      if constexpr (TS_PART_GROUPS > 1)
        return join_in_groups<128, TS_PART_GROUPS, kKept>(args, args.counters + (1 + TS_PART_GROUPS) * unit,
                                                          partials.count, partials.own, place_of, thread(), wanted,
                                                          shared.flag(warpgroup), sync, sums);
      return join_partials<128, kKept>(args, args.counters + unit, partials.count, partials.own, place_of, thread(),
                                       wanted, shared.flag(warpgroup), sync, sums);
    } else if constexpr (TS_LEAVES_PARTIALS) {
      const i64 partial = static_cast<i64>(unit_of(t.index)) * args.splits + t.split;
      leave_partial<128>(args.partials + partial * (128 * kRowBlocks * kSums) + thread() * 4, wanted, sums);
      return false;
    } else if constexpr (cfg::kSplitKAtomic) {
      return add_partials<128>(args, unit_of(t.index), thread(), wanted, shared.flag(warpgroup), sync, sums);
    } else if constexpr (cfg::kClusterK > 1) {  // the block has whole sums of its cluster for a share of the tile
      const int unit = unit_of(t.index);
      Sum own[kRowBlocks][kOwnSums];
#pragma unroll
      for (int rb = 0; rb < kRowBlocks; ++rb) {
#pragma unroll
        for (int i = 0; i < kOwnSums; ++i) own[rb][i] = sums[rb][i];
      }
      const bool last = join_few_sums<128>(
          args, args.counters + unit, args.splits, t.split, [&](int part) { return unit * args.splits + part; },
          thread(), wanted, shared.flag(warpgroup), sync, own);
#pragma unroll
      for (int rb = 0; rb < kRowBlocks; ++rb) {
#pragma unroll
        for (int i = 0; i < kOwnSums; ++i) sums[rb][i] = own[rb][i];
      }
      return last;
    } else {
      const int unit = unit_of(t.index);
      u32* const counters = args.counters + (1 + TS_GEMM_PART_GROUPS) * unit;
      const auto place_of = [&](int part) { return part + unit * args.splits; };
      if constexpr (kRowBlocks * kSums <= TS_GEMM_GROUPED_SUMS)
        return join_in_rounds<128, TS_GEMM_PART_GROUPS, kKept>(args, counters, args.splits, t.split, place_of, thread(),
                                                               wanted, shared.flag(warpgroup), sync, sums);
      return join_partials<128, kKept>(args, counters, args.splits, t.split, place_of, thread(), wanted,
                                       shared.flag(warpgroup), sync, sums);
    }
  }

  TS_DEVICE bool find_next(TileWalk& walk, int& item, Tile& t) {
    const int stride = gridDim.x / kClusterBlocks;
    if constexpr (cfg::kPingPong) {
      if (!walk.find(item += stride, rank, t)) return false;
      place.skip(t.steps + copied_stages(args));
    }
    return walk.find(item += stride, rank, t);
  }

  TS_DEVICE void run() {
    factor = args.alpha;
    if constexpr (cfg::kScaling == TS_GEMM_SCALE_TENSOR) {
      if (args.scale_a != nullptr) factor *= *static_cast<const float*>(args.scale_a);
      if (args.scale_b != nullptr) factor *= *static_cast<const float*>(args.scale_b);
    }
    TileWalk walk(args);
    Tile t, next;
    int item = first_item(rank);
    bool more = walk.find(item, rank, t);
    if (cfg::kPingPong && warpgroup == 1 && more) {
      place.skip(t.steps + copied_stages(args));
      more = walk.find(item += gridDim.x / kClusterBlocks, rank, t);
    }
    u32 turn = 0;
    while (more) {
      if constexpr (cfg::kPingPong) {
        // The first warpgroup's first turn is free; afterwards each waits until the other has issued its last wgmma.
        mbarrier_wait(shared.turn(warpgroup), warpgroup == 0 ? turn ^ 1 : turn);
        turn ^= 1;
      }
      Sum sums[kRowBlocks][kSums];
      Operands<0, kSlabColumns> operands;
      u32 last = 0;
      if constexpr (kPromote)
        multiply_promoted(t, sums);
      else
        last = multiply(t, sums);
      if (cfg::kPingPong && thread() % 32 == 0) mbarrier_arrive(shared.turn(1 - warpgroup));
      const RingPlace copied = place;
      place.skip(copied_stages(args));
      // The next tile, and what the end of this one needs, are worked out while the last wgmma run.
      Tile part = own_part(t, rank);
      if constexpr (kAcross > 1) part.row += tile_warpgroup() * kOwnRows;
      SumOperands on_sums;
      if constexpr (kTransposed)
        load_ahead(part, 0, 0, on_sums);
      else
        operands.load(args, place_of(part, 0));
      more = find_next(walk, item, next);
      if constexpr (!kPromote) {
        wgmma_wait<0>();
#pragma unroll
        for (int rb = 0; rb < kRowBlocks; ++rb) pin_sums(sums[rb]);
        if constexpr (kSlabsInRing) {
          held[0] = last;
          holds = true;
        } else {
          release(last);
        }
      }
      bool mine = true;
      if constexpr (cfg::kClusterK > 1)
        exchange_sums(shared.exchange(warpgroup), shared.exchanged(warpgroup), rank, thread(), sums);
      if constexpr (cfg::kSplitK || cfg::kStreamK) mine = join(walk, t, sums);
      if constexpr (kTransposed) {
        if (mine) finish_transposed(part, sums, factor, on_sums);
      } else if (mine) {
        finish(part, sums, operands, copied);
      } else {
        drop_copied(copied);
      }
      t = next;
    }
    if constexpr (kSlabsInRing && kCluster > 1) release_held();  // the blocks that copy into this one wait for it
  }
};

}  // namespace ts::gemm
