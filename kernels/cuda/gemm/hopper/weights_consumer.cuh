// A consumer warpgroup beside integer weights: it computes the tile transposed, d^T = b^T x a^T. Its 64 columns of b
// are the operand that wgmma takes from registers, into which they are unpacked, and the rows of a lie in shared
// memory. The weights of the next 64 elements of k are unpacked while these are multiplied; a thread has the weights of
// two columns, so that it needs two scales. The end of the tile is that
// of any transposed tile.
#pragma once

#include "../weights.cuh"
#include "consumer.cuh"

namespace ts::gemm {

struct WeightsConsumer : Consumer {
  using Sums = float[kSums];
  using Fragments = u32[4][4];  // of 64 of k: four steps of 16

  // Of the thread's two columns, for both halves of 64 of k.
  struct BoxScales {
    StoredScale at[2][2];
  };

  // Beyond the matrix scales are any: what a has there is zeros, and such columns of d are not stored.
  TS_DEVICE ScaleLine line_of(const Tile& t, int r) const {
    return {args, t.batch, imin(t.column + 64 * warpgroup + 16 * warp() + group() + 8 * r, args.n - 1)};
  }
  TS_DEVICE void load_scales(BoxScales& x, const ScaleLine (&lines)[2], int k) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      x.at[r][0] = lines[r].load(args, imin(k, args.k - 1));
      x.at[r][1] = args.scale_shift == 5 ? lines[r].load(args, imin(k + 32, args.k - 1)) : x.at[r][0];
    }
  }
  // The scales of the TMA box at k, when those of the box before it are known.
  TS_DEVICE void load_next_scales(BoxScales& x, const BoxScales& before, const ScaleLine (&lines)[2], int k) const {
    if ((k >> args.scale_shift) == (k - 1 >> args.scale_shift))
      x = before;
    else
      load_scales(x, lines, k);
  }

  // Two neighbours along k from a word of eight int4: those of byte `byte`.
  static TS_DEVICE u32 neighbours(u32 word, u32 byte, const Scale& scale) {
    const u32 twice_apart = __byte_perm(word, 0, 0x4440 | byte) * 0x1001u;
    return scaled(fma_pair(raised<0x000f000fu>(twice_apart), kOne, scale.minus), scale.factor);
  }

  // The operands of the wgmma with TMA box `box` of the stage.
  TS_DEVICE void unpack(Fragments& w, u32 stage, int box, const BoxScales& scales) const {
    constexpr int kChunks = 4 * bits_of_type(cfg::kTypeB) / 8;  // 16 bytes each, of a box
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = 64 * warpgroup + 16 * warp() + group() + 8 * r;
      const u32 line = shared.tile_b(stage) + row * kRowBytesB;
      const int turn = swizzle<kRowBytesB>(row);
      const Scale scale[2] = {Scale(scales.at[r][0]), Scale(scales.at[r][1])};
      u32 words[kChunks][4];
#pragma unroll
      for (int c = 0; c < kChunks; ++c) load_shared(words[c], line + ((box * kChunks + c ^ turn) << 4));
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        const Scale& s = scale[step / 2];
        if constexpr (cfg::kTypeB == TS_GEMM_S4) {
          w[step][r] = neighbours(words[step / 2][step % 2 * 2], quad(), s);
          w[step][r + 2] = neighbours(words[step / 2][step % 2 * 2 + 1], quad(), s);
        } else {
          // Of each eight bytes the two at 2 quad; the pairs are interleaved, as they come apart.
          const bool far = quad() >= 2;
          const u32 low = far ? words[step][1] : words[step][0], high = far ? words[step][3] : words[step][2];
          const u32 both = __byte_perm(low, high, quad() & 1 ? 0x7362 : 0x5140);
          w[step][r] = scaled(pair_of_int8<0>(both, s.minus), s.factor);
          w[step][r + 2] = scaled(pair_of_int8<1>(both, s.minus), s.factor);
        }
      }
    }
  }

  TS_DEVICE void issue_box(Sums& sums, Fragments& w, u32 stage, int box, int accumulate) const {
    const u64 a = descriptor_k_major(uniform(shared.tile_a(stage) + box * cfg::kTileM * 128));
    pin_sums(sums);
#pragma unroll
    for (int step = 0; step < 4; ++step) pin(w[step]);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4; ++step)
      RegisterProduct<cfg::kTileM>::multiply(sums, w[step], a + step * 2, step == 0 ? accumulate : 1);
    wgmma_commit();
    pin_sums(sums);
  }

  // What is to be multiplied next, and the scales of the two TMA boxes after it.
  struct Boxes {
    RingPlace place;
    int box, k, accumulate;  // box of the stage; k of the box behind `after`
    const ScaleLine (&lines)[2];
    BoxScales next, after;
  };

  // Multiplies a TMA box, and unpacks the next one meanwhile.
  TS_DEVICE void pass(Boxes& at, Sums& sums, Fragments& w, Fragments& coming) const {
    at.next = at.after;
    load_next_scales(at.after, at.next, at.lines, at.k);
    at.k += 64;
    issue_box(sums, w, at.place.index, at.box, at.accumulate);
    at.accumulate = 1;
    RingPlace ahead = at.place;
    const bool crosses = ++at.box == cfg::kTmaBoxes;
    if (crosses) {
      at.box = 0;
      ahead.advance();
      mbarrier_wait(shared.full(ahead.index), ahead.phase);
    }
    unpack(coming, ahead.index, at.box, at.next);
    wgmma_wait<0>();
    pin_sums(sums);
    if (crosses) release(at.place.index);
    at.place = ahead;
  }

  // All TMA boxes of a tile, two at a time: the registers that running wgmma read are not those being filled, which the
  // compiler sees in straight code alone.
  TS_DEVICE void multiply_weights(const Tile& t, Sums& sums) {
    const int boxes = t.steps * cfg::kTmaBoxes;
    const ScaleLine lines[2] = {line_of(t, 0), line_of(t, 1)};
    const int k = t.step * kTileK;
    Boxes at{place, 0, k + 128, 0, lines, {}, {}};
    load_scales(at.next, lines, k);
    load_scales(at.after, lines, k + 64);
    Fragments even, odd;
    mbarrier_wait(shared.full(place.index), place.phase);
    unpack(even, place.index, 0, at.next);
    int left = boxes;
    for (; left > 2; left -= 2) {
      pass(at, sums, even, odd);
      pass(at, sums, odd, even);
    }
    if (left == 2) {
      pass(at, sums, even, odd);
      issue_box(sums, odd, at.place.index, at.box, 1);
      wgmma_wait<0>();
      pin_sums(sums);
    } else {
      issue_box(sums, even, at.place.index, at.box, at.accumulate);
      wgmma_wait<0>();
      pin_sums(sums);
    }
    release(at.place.index);
    place = at.place;
    place.advance();
  }

  TS_DEVICE void run() {
    factor = args.alpha;
    TileWalk walk(args);
    Tile t, next;
    int item = blockIdx.x;
    bool more = walk.find(item, 0, t);
    while (more) {
      Sum sums[1][kSums];
      multiply_weights(t, sums[0]);
      more = walk.find(item += gridDim.x, 0, next);
      bool mine = true;
      if constexpr (cfg::kSplitK)
        mine = join_partials<128>(
            args, t.index * cfg::kWarpgroups + warpgroup, t.split, thread(), ~0u, shared.flag(warpgroup),
            [this] { named_barrier_sync(barrier(), 128); }, sums);
      SumOperands none;
      if (mine) finish_transposed(t, sums, factor, none);
      t = next;
    }
  }
};

}  // namespace ts::gemm
