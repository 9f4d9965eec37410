// A consumer warpgroup beside integer weights: it computes the tile transposed, d^T = b^T x a^T. Its 64 columns of b
// are the operand that wgmma takes from registers, into which they are unpacked, and the rows of a lie in shared
// memory. The weights of the next 64 elements of k are unpacked while these are multiplied; a thread has the weights of
// two columns, so that it needs two scales. The sums are transposed before the epilogue, which sees them as in
// gemm.cuh.
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

  TS_DEVICE int warp() const { return thread() / 32; }
  TS_DEVICE int group() const { return thread() % 32 / 4; }
  TS_DEVICE int quad() const { return thread() & 3; }

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

  // Of the rows of d that are transposed together each of the four warps finishes 16, with a share of the columns.
  TS_DEVICE int turned_row() const { return warp() % (kTurnRows / 16) * 16; }
  TS_DEVICE int turned_column() const { return warp() / (kTurnRows / 16) * kTurnRows; }

  // Where the thread's rows of slab `slab_index` lie: slabs divide the rows that are turned together.
  TS_DEVICE Place place_of_slab(const Tile& t, int slab_index) const {
    const int row = t.row_offset + t.row + slab_index / kSlabs * kTurnRows + turned_row();
    const int column = t.column + turned_column() + slab_index % kSlabs * kSlabColumns;
    const i64 batch = cfg::kGrouping == TS_GEMM_CONTIGUOUS ? 0 : t.batch;
    return {row + group(), column + 2 * quad(), t.row_offset + t.row_limit, args.n, batch, t.batch};
  }

  // Leaves rows of the tile in shared memory as d has them.
  TS_DEVICE void turn(const float* sums) const {
    const u32 to = shared.turned(warpgroup) + (2 * quad() * kTurnPitch + 16 * warp() + group()) * 4;
#pragma unroll
    for (int i = 0; i < kTurnRows / 2; ++i) {
      const int row = i / 4 * 8 + (i & 1), column = (i >> 1 & 1) * 8;
      asm volatile("st.shared.f32 [%0], %1;" ::"r"(to + (row * kTurnPitch + column) * 4), "f"(sums[i]) : "memory");
    }
  }
  TS_DEVICE void load_turned(float (&v)[kSlabColumns / 2], int slab) const {
    const u32 from = shared.turned(warpgroup) +
                     ((turned_row() + group()) * kTurnPitch + turned_column() + slab * kSlabColumns + 2 * quad()) * 4;
#pragma unroll
    for (int i = 0; i < kSlabColumns / 2; i += 2)
      asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                   : "=f"(v[i]), "=f"(v[i + 1])
                   : "r"(from + (i / 4 * 8 + (i >> 1 & 1) * 8 * kTurnPitch) * 4)
                   : "memory");
  }

  // 16-bit results without an epilogue are turned by the store of matrices. The slab has all 64 columns.
  TS_DEVICE void store_turned(const Tile& t, int rows, const float* sums) {
    const u32 slab = shared.slab(warpgroup, slab_count & 1);
    ++slab_count;
    const int lane = thread() % 32;
    const int row = lane / 16 * 8 + lane % 8, chunk = 2 * warp() + (lane >> 3 & 1);
    const u32 to = slab + row * 128 + ((chunk ^ (row & 7)) << 4);
#pragma unroll
    for (int i = 0; i < 32; i += 8) {
      u32 pairs[4];
#pragma unroll
      for (int e = 0; e < 4; ++e)
        pairs[e] = pack_pair<cfg::kTypeD>(sums[i + 2 * e] * factor, sums[i + 2 * e + 1] * factor).words[0];
      asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to + i / 4 * 8 * 128),
                   "r"(pairs[0]), "r"(pairs[1]), "r"(pairs[2]), "r"(pairs[3])
                   : "memory");
    }
    send_slab(t, slab, rows * kSlabs);
  }

  TS_DEVICE void finish_turned(const Tile& tile, const Sums& sums) {
    constexpr bool kPlain = cfg::kStoreTmaBox && cfg::kEpilogueLength == 0 && kBytesD == 2 && kSlabColumns == 64;
    constexpr int kSlabCount = cfg::kTileM / kTurnRows * kSlabs;
    Tile t = tile;
    t.column += 64 * warpgroup;
    const bool whole = cfg::kGrouping == TS_GEMM_UNGROUPED || t.row + cfg::kTileM <= t.row_limit;
    if (kPlain && whole) {
#pragma unroll
      for (int rows = 0; rows < cfg::kTileM / kTurnRows; ++rows) store_turned(t, rows, sums + rows * kTurnRows / 2);
      return;
    }
    Operands<0, kSlabColumns> operands;
    operands.load(args, place_of_slab(t, 0));
#pragma unroll
    for (int slab_index = 0; slab_index < kSlabCount; ++slab_index) {
      Operands<0, kSlabColumns> next;
      if (slab_index + 1 < kSlabCount) next.load(args, place_of_slab(t, slab_index + 1));
      if (slab_index % kSlabs == 0) {
        named_barrier_sync(barrier(), 128);  // what was turned before has been read
        turn(sums + slab_index / kSlabs * kTurnRows / 2);
        named_barrier_sync(barrier(), 128);
      }
      float v[kSlabColumns / 2];
      load_turned(v, slab_index % kSlabs);
#pragma unroll
      for (int i = 0; i < kSlabColumns / 2; ++i) v[i] = result_of(v[i], factor);
      const Place here = place_of_slab(t, slab_index);
      operands.apply(args, here, v, Staging{});
      if (cfg::kStoreTmaBox && whole)
        store_as_tma_box(t, slab_index, v);
      else
        store_slab<kSlabColumns>(args, here, v);
      operands = next;
    }
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
      if (mine) finish_turned(t, sums[0]);
      t = next;
    }
  }
};

}  // namespace ts::gemm
