// GEMM of at most 16 rows for sm_80 and newer (fp8: sm_89): a stream through b, bound by memory.
//
// Configuration, defined in namespace ts::cfg before this file is included (constexpr; int unless said otherwise; the
// numbers are those of gemm/abi.h):
//   kTypeA, kTypeB, kTypeD   16-bit types, fp8 or s8; a and b of one type, or b of integer weights
//   kRowMajorA, kRowMajorB (bool)   a row-major, b column-major: both along k
//   kRows                    8 or 16: at least m
//   kColumns                 columns of a group, a multiple of 8: what a block works on at a time
//   kWarps                   warps of a block; each has its own share of k
//   kStages                  steps in flight
//   kBlocksPerSm             blocks that share an SM
//   kPairs (bool)            n is even and d's and the epilogue's pointers and strides are multiples of two elements
//   kSplitK (bool)           k may be split over blocks (args.splits)
//   kSplitKAtomic (bool)         with kSplitK: partials are added as they are ready (partials.cuh)
//   kScaling, kGrouping      tensor scales or weights, no groups
//   kTypeScale, kZeroPoints (bool)   of weights' scales, and whether there are zero points beside them
//   kEpilogueLength, kEpilogue[], kEpilogueTypes[]; kStagedTensors (bool) is false
//
// Launch: kThreads threads, kSharedBytes of dynamic shared memory, a grid of min(work items, SMs * kBlocksPerSm)
// blocks; work items: splits * batch * ceil(n / kColumns). Split k: partials [column group][split][16 *
// kColumns], one counter a column group. Pointers of a and b and their strides are multiples of 16 bytes, k of the
// elements of b in 16 bytes. The kernel may be launched to overlap the kernel before it.
//
// A lane copies 16 bytes of a row of b and reads them back itself as its share of an mma's operand: the order of k
// inside an mma is free as long as a's is the same. So there is no barrier between copying and multiplying, and as many
// bytes are in flight as shared memory holds. Warps share a group by k and add up once per group.
#pragma once

#include "../../attention/mma_sm80/copy.cuh"
#include "../epilogue.cuh"
#include "../../common/launch.cuh"
#include "../mma.cuh"
#include "../partials.cuh"
#include "../weights.cuh"

namespace ts::gemm {

constexpr int kThreads = 32 * cfg::kWarps;
constexpr int kElementBytes = bytes_of(cfg::kTypeA);
constexpr int kBitsB = bits_of_type(cfg::kTypeB);
constexpr int kLaneK = 128 / kBitsB;                      // of k in the 16 bytes of b that a lane has of a step
constexpr int kStepK = 4 * kLaneK;                        // four lanes share a row
constexpr int kChunksA = kLaneK * kElementBytes / 16;     // of 16 bytes of a beside them
constexpr int kTiles = cfg::kColumns / 8;   // mma side by side
constexpr int kTogether = kWeights && kTiles % 2 == 0 ? 2 : 1;  // tiles whose mma take turns
constexpr int kStepBytes = kTiles * 512;    // of a warp
constexpr int kLaneSums = cfg::kRows / 4;  // of an mma of 16 rows, those of rows that exist
constexpr int kGroupSums = cfg::kColumns * 16;
constexpr int kWarpSumsBytes = cfg::kColumns * cfg::kRows * 4;
constexpr int kSumsOffset = cfg::kWarps * cfg::kStages * kStepBytes;
constexpr int kFlagOffset = kSumsOffset + cfg::kWarps * kWarpSumsBytes;
constexpr int kSharedBytes = kFlagOffset + 16;

static_assert(cfg::kRowMajorA && !cfg::kRowMajorB, "few rows: both operands must lie along k; take another template");
static_assert(cfg::kRows == 8 || cfg::kRows == 16, "8 or 16 rows");
static_assert(!cfg::kMmPlusMm, "mm_plus_mm with few rows takes another template");
static_assert((cfg::kTypeA == cfg::kTypeB && kElementBytes <= 2) || kWeights, "operands of one 8-bit or 16-bit type");
static_assert(cfg::kColumns % 8 == 0, "columns come in eights");
static_assert(cfg::kGrouping == TS_GEMM_UNGROUPED && cfg::kScaling != TS_GEMM_SCALE_BLOCK,
              "no groups, no block scales");
static_assert(kSharedBytes <= 232448, "shared memory of a block");

struct Skinny {
  const TsCudaGemmArgs& args;
  u32 shared;
  int column_groups, all_steps;  // steps of a whole column over all warps, rounded up

  TS_DEVICE int lane() const { return threadIdx.x & 31; }
  TS_DEVICE int warp() const { return threadIdx.x >> 5; }

  // A block's stream: step `step` (of this warp) of item `item`. `end` is the item's number of steps for this warp.
  struct Cursor {
    int item, step, end;
    const char*
        row;      // b at the lane's row and the warp's first k; the lane's row of the next 8-column tile is 8 rows on
    int k;        // the lane's k in the first step
    int k_limit;  // where the item's share of k ends
    int columns;  // of the group's that exist, from the lane's on
  };

  TS_DEVICE void start(Cursor& c) const {
    const int splits = cfg::kSplitK ? args.splits : 1;
    const int group = c.item / splits;
    const int split = c.item - group * splits;
    const int batch = group / column_groups;
    const int first = (group - batch * column_groups) * cfg::kColumns;
    const int steps = all_steps;
    const int from = steps * split / splits;
    const int to = steps * (split + 1) / splits;
    const int mine = to - from;
    // Warps take the steps of the item's share of k in turn, so that a block reads long runs of a row.
    c.step = 0;
    c.end = mine > warp() ? (mine - warp() + cfg::kWarps - 1) / cfg::kWarps : 0;
    c.k = (from + warp()) * kStepK + (lane() & 3) * kLaneK;
    c.k_limit = imin(args.k, to * kStepK);
    const int column = first + lane() / 4;
    c.columns = args.n - column;
    c.row = static_cast<const char*>(args.b) + bytes_b(batch * args.b_batch_stride + column * args.b_stride + c.k);
  }

  // Starts the copy of the cursor's step into stage `stage` and moves the cursor on; items that are over are passed.
  TS_DEVICE void copy(Cursor& c, int items, int stage) const {
    while (c.item < items && c.step >= c.end) {
      c.item += gridDim.x;
      if (c.item < items) start(c);
    }
    if (c.item < items) {
      const u32 to = shared + (warp() * cfg::kStages + stage) * kStepBytes + lane() * 16;
      const int offset = c.step * cfg::kWarps * kStepK;
      const bool inside = c.k + offset < c.k_limit;
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
        const bool valid = inside && 8 * j < c.columns;
        copy_async(to + 512 * j, valid ? c.row + bytes_b(8 * j * args.b_stride + offset) : args.b, valid);
      }
      ++c.step;
    }
    copy_commit();
  }

  // What a lane multiplies beside its 16 bytes of b: the same k of rows g and g + 8 of a.
  struct Beside {
    u32 low[kChunksA][4], high[kChunksA][4];
  };

  TS_DEVICE void load_beside(Beside& x, const char* a, int k, int limit) const {
    const int row = lane() / 4;
    const bool inside = k < limit;
#pragma unroll
    for (int c = 0; c < kChunksA; ++c) {
      const char* const at = a + (row * args.a_stride + k) * kElementBytes + 16 * c;
      load_chunk(x.low[c], at, row < args.m && inside);
      if constexpr (cfg::kRows == 16)
        load_chunk(x.high[c], at + 8 * args.a_stride * kElementBytes, row + 8 < args.m && inside);
      else
        x.high[c][0] = x.high[c][1] = x.high[c][2] = x.high[c][3] = 0;
    }
  }

  // The scale of the lane's row of b in tile j, at k. Beyond the matrix any value will do: a has zeros there, or d has
  // no such columns.
  TS_DEVICE StoredScale scale_of(int batch, int column, int j, int k) const {
    return ScaleLine(args, batch, imin(column + 8 * j, args.n - 1)).load(args, imin(k, args.k - 1));
  }

  // Brings a's pairs of neighbours into the order in which weights come out of their words.
  static TS_DEVICE void pair_up(u32 (&x)[4]) {
    if constexpr (!kWeights) return;
    constexpr int kFar = cfg::kTypeB == TS_GEMM_S4 ? 2 : 1;  // words between the elements of a pair
    u32 y[4];
    y[0] = __byte_perm(x[0], x[kFar], 0x5410);
    y[1] = __byte_perm(x[0], x[kFar], 0x7632);
    y[2] = __byte_perm(x[3 - kFar], x[3], 0x5410);
    y[3] = __byte_perm(x[3 - kFar], x[3], 0x7632);
#pragma unroll
    for (int i = 0; i < 4; ++i) x[i] = y[i];
  }

  // The weights beside chunk c of a.
  template <int C>
  static TS_DEVICE void unpack_weights(u32 (&w)[4], const u32 (&b)[4], const Scale& scale) {
    if constexpr (cfg::kTypeB == TS_GEMM_S4) {
      w[0] = pair_of_int4<0>(b[C], scale.minus);
      w[1] = pair_of_int4<1>(b[C], scale.minus);
      w[2] = pair_of_int4<2>(b[C], scale.minus);
      w[3] = pair_of_int4<3>(b[C], scale.minus);
    } else {
      w[0] = pair_of_int8<0>(b[2 * C], scale.minus);
      w[1] = pair_of_int8<1>(b[2 * C], scale.minus);
      w[2] = pair_of_int8<0>(b[2 * C + 1], scale.minus);
      w[3] = pair_of_int8<1>(b[2 * C + 1], scale.minus);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) w[i] = scaled(w[i], scale.factor);
  }

  static TS_DEVICE void multiply_chunk(Sum (&d)[4], const u32 (&low)[4], const u32 (&high)[4], const u32 (&b)[4]) {
    multiply_add(d, low[0], high[0], low[1], high[1], b[0], b[1]);
    multiply_add(d, low[2], high[2], low[3], high[3], b[2], b[3]);
  }

  // kTogether tiles take turns, because an mma waits for the one before it that has the same sums.
  template <int C = 0>
  static TS_DEVICE void multiply_weights(Sum (*d)[4], const Beside& x, const u32 (&b)[kTogether][4],
                                         const Scale (&scales)[kTogether]) {
    if constexpr (C < kChunksA) {
      u32 w[kTogether][4];
#pragma unroll
      for (int t = 0; t < kTogether; ++t) unpack_weights<C>(w[t], b[t], scales[t]);
#pragma unroll
      for (int half = 0; half < 4; half += 2) {
#pragma unroll
        for (int t = 0; t < kTogether; ++t)
          multiply_add(d[t], x.low[C][half], x.high[C][half], x.low[C][half + 1], x.high[C][half + 1], w[t][half],
                       w[t][half + 1]);
      }
      multiply_weights<C + 1>(d, x, b, scales);
    }
  }

  static TS_DEVICE i64 bytes_b(i64 elements) { return elements * kBitsB / 8; }

  TS_DEVICE void run() {
    column_groups = ceil_div(args.n, cfg::kColumns);
    all_steps = ceil_div(args.k, kStepK);
    const int splits = cfg::kSplitK ? args.splits : 1;
    const int items = column_groups * args.batch * splits;
    float factor = args.alpha;
    Cursor ahead{static_cast<int>(blockIdx.x)};
    if (ahead.item < items) start(ahead);
    wait_for_previous_kernel();
    let_next_kernel_start();
#pragma unroll
    for (int s = 0; s < cfg::kStages - 1; ++s) copy(ahead, items, s);
    if constexpr (!kWeights) {
      if (args.scale_a != nullptr) factor *= *static_cast<const float*>(args.scale_a);
      if (args.scale_b != nullptr) factor *= *static_cast<const float*>(args.scale_b);
    }
    int stage = 0, finisher = 0;
    for (Cursor c{static_cast<int>(blockIdx.x)}; c.item < items; c.item += gridDim.x) {
      start(c);
      const int group = c.item / splits;
      const int batch = group / column_groups;
      const char* const a = static_cast<const char*>(args.a) + batch * args.a_batch_stride * kElementBytes;
      Sum sums[kTiles][4];
#pragma unroll
      for (int j = 0; j < kTiles; ++j) sums[j][0] = sums[j][1] = sums[j][2] = sums[j][3] = 0;
      const int column = args.n - c.columns;
      Beside now, next;
      StoredScale scales[kTiles];
      if (c.end > 0) {
        load_beside(now, a, c.k, c.k_limit);
        if constexpr (kWeights) {
#pragma unroll
          for (int j = 0; j < kTiles; ++j) scales[j] = scale_of(batch, column, j, c.k);
        }
      }
      for (; c.step < c.end; ++c.step) {
        const int k = c.k + (c.step + 1) * cfg::kWarps * kStepK;
        load_beside(next, a, k, c.step + 1 < c.end ? c.k_limit : 0);
#pragma unroll
        for (int i = 0; i < kChunksA; ++i) {
          pair_up(now.low[i]);
          pair_up(now.high[i]);
        }
        copy_wait_for<cfg::kStages - 2>();
        const u32 from = shared + (warp() * cfg::kStages + stage) * kStepBytes + lane() * 16;
#pragma unroll
        for (int j = 0; j < kTiles; j += kTogether) {
          u32 b[kTogether][4];
#pragma unroll
          for (int t = 0; t < kTogether; ++t) load_shared(b[t], from + 512 * (j + t));
          if constexpr (kWeights) {
            Scale together[kTogether];
#pragma unroll
            for (int t = 0; t < kTogether; ++t) {
              together[t] = Scale(scales[j + t]);
              scales[j + t] = scale_of(batch, column, j + t, k);  // of the next step
            }
            multiply_weights(sums + j, now, b, together);
          } else {
            multiply_chunk(sums[j], now.low[0], now.high[0], b[0]);
          }
        }
        // The stage read one step ago is free: its reads are done, for their values have been used.
        copy(ahead, items, stage == 0 ? cfg::kStages - 1 : stage - 1);
        stage = stage + 1 == cfg::kStages ? 0 : stage + 1;
        now = next;
      }
      if (c.item != static_cast<int>(blockIdx.x)) __syncthreads();  // what was left before has been added up
      leave(sums);
      __syncthreads();
      if (warp() == finisher) finish(c.item, factor);
      finisher = finisher + 1 == cfg::kWarps ? 0 : finisher + 1;
    }
  }

  // A warp's sums to shared memory.
  TS_DEVICE void leave(const Sum (&sums)[kTiles][4]) const {
    const u32 to = shared + kSumsOffset + warp() * kWarpSumsBytes + lane() * kLaneSums * 4;
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      u32 words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) words[i] = bits_of(sums[j][i]);
      if constexpr (kLaneSums == 4)
        store_shared(to + 512 * j, words);
      else
        asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(to + 256 * j), "r"(words[0]), "r"(words[1]) : "memory");
    }
  }

  // One warp adds up what all have left and writes the group's results.
  TS_DEVICE void finish(int item, float factor) const {
    const int splits = cfg::kSplitK ? args.splits : 1;
    const int group = item / splits;
    const int split = item - group * splits;
    const int batch = group / column_groups;
    const int first = (group - batch * column_groups) * cfg::kColumns;
    Sum sums[kTiles][4];
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      sums[j][0] = sums[j][1] = sums[j][2] = sums[j][3] = 0;
#pragma unroll
      for (int w = 0; w < cfg::kWarps; ++w) {
        u32 words[4] = {};
        const u32 from = shared + kSumsOffset + w * kWarpSumsBytes + (32 * j + lane()) * kLaneSums * 4;
        if constexpr (kLaneSums == 4)
          load_shared(words, from);
        else
          asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(words[0]), "=r"(words[1]) : "r"(from) : "memory");
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[j][i] += sum_of_bits(words[i]);
      }
    }
    if constexpr (cfg::kSplitK) {
      if (!join_partials<32>(
              args, group, split, lane(), ~0u, shared + kFlagOffset, [] { __syncwarp(); }, sums))
        return;
    }
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      const Place place{lane() / 4, first + 8 * j + 2 * (lane() & 3), args.m, args.n, batch, batch};
      Operands<0, 8> operands;
      operands.load(args, place);
      float v[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) v[i] = result_of(sums[j][i], factor);
      operands.apply(args, place, v, {});
      store_slab<8>(args, place, v);
    }
  }
};

}  // namespace ts::gemm

#ifndef TS_ENTRY
#define TS_ENTRY ts_gemm
#endif

extern "C" __global__ void __launch_bounds__(ts::gemm::kThreads, ts::cfg::kBlocksPerSm)
    TS_ENTRY(const __grid_constant__ TsCudaGemmArgs args) {
  extern __shared__ __align__(16) unsigned char dynamic_shared[];
  ts::gemm::Skinny skinny{args, ts::smem_address(dynamic_shared)};
  skinny.run();
}
