// GEMM of at most 16 rows for sm_80 and newer (fp8: sm_89): a stream through b, bound by memory.
//
// Configuration, defined in namespace ts::cfg before this file is included (constexpr; int unless said otherwise; the
// numbers are those of gemm_abi.h):
//   kTypeA, kTypeB, kTypeD   16-bit types, fp8 or s8; a and b of one type
//   kRowMajorA, kRowMajorB (bool)   a row-major, b column-major: both along k
//   kRows                    8 or 16: at least m
//   kColumns                 columns of a group, a multiple of 8: what a block works on at a time
//   kWarps                   warps of a block; each has its own part of k
//   kStages                  steps in flight
//   kBlocksPerSm             blocks that share an SM
//   kPairs (bool)            n is even and d's and the epilogue's pointers and strides are multiples of two elements
//   kSplitK (bool)           k may be split over blocks (args.splits)
//   kScaling, kGrouping      tensor scales only, no groups
//   kEpilogueLength, kEpilogue[], kEpilogueTypes[]; kStagedTensors (bool) is false
//
// Launch facts: kThreads threads, kSharedBytes of dynamic shared memory, a grid of min(work items, SMs * kBlocksPerSm)
// blocks; work items: splits * batch * ceil(n / kColumns). Split products: partials [column group][split][16 *
// kColumns], one counter a column group. Pointers of a and b and their strides are multiples of 16 bytes, k of the
// elements in 16 bytes. The kernel may be launched to overlap the kernel before it.
//
// A lane copies 16 bytes of a row of b and reads them back itself as its part of a product's operand: the order of k
// inside a product is free as long as a's is the same. So there is no barrier between copying and multiplying, and as
// many bytes are in flight as shared memory holds. Warps share a group by k and add up once per group.
#pragma once

#include "../../portable/copy.cuh"
#include "../epilogue.cuh"
#include "../launch.cuh"
#include "../mma.cuh"
#include "../partials.cuh"

namespace ts::gemm {

constexpr int kThreads = 32 * cfg::kWarps;
constexpr int kElementBytes = bytes_of(cfg::kTypeA);
constexpr int kStepK = 64 / kElementBytes;  // of k in a step: 16 bytes for each lane of four
constexpr int kTiles = cfg::kColumns / 8;   // products side by side
constexpr int kStepBytes = kTiles * 512;    // of a warp
constexpr int kGroupSums = cfg::kColumns * 16;
constexpr int kSumsOffset = cfg::kWarps * cfg::kStages * kStepBytes;
constexpr int kSumsBytes = cfg::kWarps * kGroupSums * 4;  // one of two buffers
constexpr int kFlagOffset = kSumsOffset + 2 * kSumsBytes;
constexpr int kSharedBytes = kFlagOffset + 16;

static_assert(cfg::kRowMajorA && !cfg::kRowMajorB, "few rows: both operands must lie along k; take another template");
static_assert(cfg::kRows == 8 || cfg::kRows == 16, "8 or 16 rows");
static_assert(cfg::kTypeA == cfg::kTypeB && kElementBytes <= 2, "operands of one 8-bit or 16-bit type");
static_assert(cfg::kColumns % 8 == 0, "columns come in eights");
static_assert(cfg::kGrouping == TS_GEMM_UNGROUPED && cfg::kScaling == TS_GEMM_SCALE_TENSOR,
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
    int k_limit;  // where the item's part of k ends
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
    // Warps take the part's steps in turn, so that a block reads long runs of a row.
    c.step = 0;
    c.end = mine > warp() ? (mine - warp() + cfg::kWarps - 1) / cfg::kWarps : 0;
    c.k = (from + warp()) * kStepK + (lane() & 3) * (16 / kElementBytes);
    c.k_limit = imin(args.k, to * kStepK);
    const int column = first + lane() / 4;
    c.columns = args.n - column;
    c.row =
        static_cast<const char*>(args.b) + (batch * args.b_batch_stride + column * args.b_stride + c.k) * kElementBytes;
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
        copy_async(to + 512 * j, valid ? c.row + (8 * j * args.b_stride + offset) * kElementBytes : args.b, valid);
      }
      ++c.step;
    }
    copy_commit();
  }

  // The lane's 16 bytes of rows g and g + 8 of a.
  TS_DEVICE void load_a(u32 (&low)[4], u32 (&high)[4], const char* a, int k, int limit) const {
    const int row = lane() / 4;
    load_chunk(low, a + (row * args.a_stride + k) * kElementBytes, row < args.m && k < limit);
    if constexpr (cfg::kRows == 16)
      load_chunk(high, a + ((row + 8) * args.a_stride + k) * kElementBytes, row + 8 < args.m && k < limit);
    else
      high[0] = high[1] = high[2] = high[3] = 0;
  }

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
    if (args.scale_a != nullptr) factor *= *args.scale_a;
    if (args.scale_b != nullptr) factor *= *args.scale_b;
    int stage = 0, buffer = 0, finisher = 0;
    for (Cursor c{static_cast<int>(blockIdx.x)}; c.item < items; c.item += gridDim.x) {
      start(c);
      const int group = c.item / splits;
      const int batch = group / column_groups;
      const char* const a = static_cast<const char*>(args.a) + batch * args.a_batch_stride * kElementBytes;
      Sum sums[kTiles][4];
#pragma unroll
      for (int j = 0; j < kTiles; ++j) sums[j][0] = sums[j][1] = sums[j][2] = sums[j][3] = 0;
      u32 low[4], high[4], next_low[4], next_high[4];
      if (c.end > 0) load_a(low, high, a, c.k, c.k_limit);
      for (; c.step < c.end; ++c.step) {
        const int k = c.k + (c.step + 1) * cfg::kWarps * kStepK;
        load_a(next_low, next_high, a, k, c.step + 1 < c.end ? c.k_limit : 0);
        copy_wait_for<cfg::kStages - 2>();
        const u32 from = shared + (warp() * cfg::kStages + stage) * kStepBytes + lane() * 16;
#pragma unroll
        for (int j = 0; j < kTiles; ++j) {
          u32 b[4];
          load_shared(b, from + 512 * j);
          multiply_add(sums[j], low[0], high[0], low[1], high[1], b[0], b[1]);
          multiply_add(sums[j], low[2], high[2], low[3], high[3], b[2], b[3]);
        }
        // The stage read one step ago is free: its reads are done, for their values have been used.
        copy(ahead, items, stage == 0 ? cfg::kStages - 1 : stage - 1);
        stage = stage + 1 == cfg::kStages ? 0 : stage + 1;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          low[i] = next_low[i];
          high[i] = next_high[i];
        }
      }
      leave(sums, buffer);
      __syncthreads();
      if (warp() == finisher) finish(c.item, factor, buffer);
      finisher = finisher + 1 == cfg::kWarps ? 0 : finisher + 1;
      buffer ^= 1;
    }
  }

  // A warp's sums to shared memory.
  TS_DEVICE void leave(const Sum (&sums)[kTiles][4], int buffer) const {
    const u32 to = shared + kSumsOffset + buffer * kSumsBytes + warp() * kGroupSums * 4 + lane() * 16;
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      u32 words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) words[i] = bits_of(sums[j][i]);
      store_shared(to + 512 * j, words);
    }
  }

  // One warp adds up what all have left and writes the group's results.
  TS_DEVICE void finish(int item, float factor, int buffer) const {
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
        u32 words[4];
        load_shared(words, shared + kSumsOffset + buffer * kSumsBytes + w * kGroupSums * 4 + 512 * j + lane() * 16);
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[j][i] += sum_of_bits(words[i]);
      }
    }
    if constexpr (cfg::kSplitK) {
      if (!join_parts<32>(
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
      operands.apply(args, place, v, 0);
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
