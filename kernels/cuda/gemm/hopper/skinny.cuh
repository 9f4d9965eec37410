// GEMM of at most 64 rows for Hopper (sm_90a): a stream through b by the copy engine, multiplied by mma.sync or wgmma.
//
// Configuration, defined in namespace ts::cfg before this file is included (constexpr; int unless said otherwise; the
// numbers are those of gemm/abi.h):
//   kTypeA, kTypeB, kTypeD   16-bit types, fp8 or s8; a and b of one size
//   kRowMajorA, kRowMajorB (bool)   a row-major, b column-major: both along k
//   kRows                    a multiple of 8 up to 64: at least m
//   kColumns                 columns that a block works on at a time, a multiple of 8 up to 256; the best is what
//                            gives each SM one group: ceil(n / SMs) rounded up
//   kTmaBoxes                TMA boxes of 128 bytes of k in a stage
//   kTransposed (bool)       by wgmma, as d^T = b^T x a^T: 64 columns of b are wgmma's rows, the rows of a its columns.
//                            kColumns is a multiple of 64 then, which kWarps / 4 warpgroups share
//   kWarps                   consumer warps; by mma.sync a divisor of 4 * kTmaBoxes: each has its own share of a stage's
//                            k
//   kStages                  stages in flight
//   kBlocksPerSm             blocks that share an SM
//   kPairs (bool)            n is even and d's and the epilogue's pointers and strides are multiples of two elements
//   kSplitK (bool)           k may be split over blocks (args.splits)
//   kSplitKAtomic (bool)         with kSplitK: partials are added as they are ready (partials.cuh)
//   kPrefetchWeights (bool)  the preceding kernel does not write b (weights): the first copies of b do not wait for it
//   kMmPlusMm (bool)         the sums of A2 x B2 are added to those of A x B
//   kScaling, kGrouping      tensor scales only, no groups
//   kEpilogueLength, kEpilogue[], kEpilogueTypes[]; kStagedTensors (bool) is false
//
// Launch: kThreads threads, kSharedBytes of dynamic shared memory, a grid of min(work items, SMs * kBlocksPerSm)
// blocks; work items: splits * batch * ceil(n / kColumns). Split k: partials [group][split][kTeam * kOwnTiles *
// 4], one counter a group. Tensor maps (128-byte swizzle, zero fill), dimensions innermost first:
//   a  {k, m, batch}, box {kBoxK, min(kRows, m), 1};  b  {k, n, batch}, box {kBoxK, kColumns, 1}; a2, b2
//   (kMmPlusMm) as a and b, with k2; none of d.
// Pointers and strides of a and b are multiples of 16 bytes. The kernel may be launched to overlap the one before.
#pragma once

#include "../../attention/mma_sm80/copy.cuh"
#include "../epilogue.cuh"
#include "../mma.cuh"
#include "../partials.cuh"
#include "ptx.cuh"
#include "wgmma.cuh"

namespace ts::gemm {

constexpr int kTeam = 32 * cfg::kWarps;
constexpr int kThreads = kTeam + 32;
constexpr int kElementBytes = bytes_of(cfg::kTypeA);
constexpr int kBoxK = 128 / kElementBytes;
constexpr int kStageK = cfg::kTmaBoxes * kBoxK;
constexpr int kBoxBytesA = cfg::kRows * 128, kBoxBytesB = cfg::kColumns * 128;
constexpr int kStageBytes = cfg::kTmaBoxes * (kBoxBytesA + kBoxBytesB);
constexpr int kRowTiles = ceil_div(cfg::kRows, 16), kColumnTiles = cfg::kColumns / 8;
constexpr int kTiles = kRowTiles * kColumnTiles;          // of 16 x 8, rows outermost
constexpr int kOwnTiles = ceil_div(kTiles, cfg::kWarps);  // that a warp finishes
constexpr int kWarpSteps = 4 * cfg::kTmaBoxes / cfg::kWarps;  // steps of 32 bytes of k for a warp in a stage
// kTransposed: blocks of 64 columns of a warpgroup, a thread's sums in each, and floats from one row of d to the next
// where sums are turned (no two lanes of a store meet in a bank).
constexpr int kWarpgroups = cfg::kWarps / 4;
constexpr int kColumnBlocks = cfg::kTransposed ? kColumnTiles / 8 / kWarpgroups : 1;
constexpr int kBlockSums = cfg::kRows / 2;
constexpr int kTurnPitch = cfg::kColumns + 4;
// The copy engine works in order: a's first copies come after b's early ones, and nothing is multiplied before those of
// a are there. So the last 96 KB of the stages of b are not copied early but while others are multiplied (64 to 96 KB
// were the fastest of those measured: docs/log/2026-11-cuda-gemm.md).
constexpr int kLateSteps = ceil_div(96 << 10, cfg::kTmaBoxes * kBoxBytesB);
constexpr int kSumsOffset = cfg::kStages * kStageBytes;
constexpr int kSumsBytes = cfg::kTransposed ? 4 * cfg::kRows * kTurnPitch : cfg::kWarps * kTiles * 512;
constexpr int kBarrierOffset = kSumsOffset + kSumsBytes;
constexpr int kFlagOffset = kBarrierOffset + 16 * cfg::kStages;
constexpr int kSharedBytes = kFlagOffset + 16 + 1024;

static_assert(cfg::kRowMajorA && !cfg::kRowMajorB, "few rows: both operands must lie along k; take another template");
static_assert(cfg::kRows % 8 == 0 && cfg::kRows >= 8 && cfg::kRows <= 64, "rows: a multiple of 8, at most 64");
static_assert(bytes_of(cfg::kTypeB) == kElementBytes && kElementBytes <= 2, "operands of one size, 8 or 16 bits");
static_assert(cfg::kColumns % 8 == 0 && cfg::kColumns <= 256, "columns: a multiple of 8, at most 256");
static_assert(cfg::kTransposed || 4 * cfg::kTmaBoxes % cfg::kWarps == 0, "warps share a stage's k evenly");
static_assert(!cfg::kTransposed || (cfg::kWarps % 4 == 0 && cfg::kColumns % (64 * kWarpgroups) == 0),
              "warpgroups share blocks of 64 columns evenly");
static_assert(cfg::kGrouping == TS_GEMM_UNGROUPED && cfg::kScaling == TS_GEMM_SCALE_TENSOR,
              "no groups, no block scales");
static_assert(kSharedBytes * cfg::kBlocksPerSm <= 233472 - 1024 * cfg::kBlocksPerSm,
              "shared memory of sm_90: 228 KB, 1 KB kept per block");

struct Skinny {
  const TsCudaGemmMaps& maps;
  const TsCudaGemmArgs& args;
  u32 base;
  u32 stage = 0, phase = 0;

  struct Item {
    int group, split, batch, column, step, steps;
  };

  TS_DEVICE u32 full(u32 s) const { return base + kBarrierOffset + 16 * s; }
  TS_DEVICE u32 empty(u32 s) const { return full(s) + 8; }
  TS_DEVICE int lane() const { return threadIdx.x & 31; }
  TS_DEVICE int warp() const { return threadIdx.x >> 5; }
  TS_DEVICE void advance() {
    if (++stage == cfg::kStages) {
      stage = 0;
      phase ^= 1;
    }
  }

  TS_DEVICE int first_steps() const { return ceil_div(args.k, kStageK); }  // the steps of k2 follow them
  TS_DEVICE bool is_second(int step) const { return cfg::kMmPlusMm && step >= first_steps(); }
  TS_DEVICE int k_of(int step) const { return (step - (is_second(step) ? first_steps() : 0)) * kStageK; }

  TS_DEVICE bool find(int index, Item& t) const {
    const int splits = cfg::kSplitK ? args.splits : 1;
    const int groups = ceil_div(args.n, cfg::kColumns);
    const int all_steps = first_steps() + (cfg::kMmPlusMm ? ceil_div(args.k2, kStageK) : 0);
    t.group = index / splits;
    t.split = index - t.group * splits;
    t.batch = t.group / groups;
    t.column = (t.group - t.batch * groups) * cfg::kColumns;
    t.step = all_steps * t.split / splits;
    t.steps = all_steps * (t.split + 1) / splits - t.step;
    return t.batch < args.batch;
  }

  TS_DEVICE void load_b(const Item& t, int step, u32 to_stage) const {
    // Rows of a that do not exist are not asked for: the copy engine would fill them with zeros one by one. What lies
    // in their place is multiplied into rows that are not stored.
    mbarrier_expect(full(to_stage), cfg::kTmaBoxes * (imin(args.m, cfg::kRows) * 128 + kBoxBytesB));
    const u32 to = base + to_stage * kStageBytes + cfg::kTmaBoxes * kBoxBytesA;
    const int k = k_of(t.step + step);
    const TsCudaTensorMap* const map = is_second(t.step + step) ? &maps.b2 : &maps.b;
#pragma unroll
    for (int box = 0; box < cfg::kTmaBoxes; ++box)
      load_box(to + box * kBoxBytesB, map, full(to_stage), k + box * kBoxK, t.column, t.batch);
  }
  TS_DEVICE void load_a(const Item& t, int step, u32 to_stage) const {
    const u32 to = base + to_stage * kStageBytes;
    const int k = k_of(t.step + step);
    const TsCudaTensorMap* const map = is_second(t.step + step) ? &maps.a2 : &maps.a;
#pragma unroll
    for (int box = 0; box < cfg::kTmaBoxes; ++box)
      load_box(to + box * kBoxBytesA, map, full(to_stage), k + box * kBoxK, 0, t.batch);
  }

  TS_DEVICE void produce() {
    prefetch_tensor_map(&maps.a);
    prefetch_tensor_map(&maps.b);
    if constexpr (cfg::kMmPlusMm) {
      prefetch_tensor_map(&maps.a2);
      prefetch_tensor_map(&maps.b2);
    }
    Item t;
    int index = blockIdx.x, early = 0;
    if (cfg::kPrefetchWeights && find(index, t)) {
      early = imin(imax(imin(t.steps - kLateSteps, cfg::kStages), 1), t.steps);
      for (int s = 0; s < early; ++s) load_b(t, s, s);
    }
    wait_for_previous_kernel();
    for (; find(index, t); index += gridDim.x) {
      for (int s = 0; s < t.steps; ++s) {
        if (early > 0) {
          --early;
        } else {
          mbarrier_wait(empty(stage), phase ^ 1);
          load_b(t, s, stage);
        }
        load_a(t, s, stage);
        advance();
      }
    }
  }

  // Multiplies this warp's share of one stage.
  TS_DEVICE void multiply(Sum (&sums)[kTiles][4]) const {
    const u32 from = base + stage * kStageBytes;
    const int row = lane() & 7, half = lane() >> 3 & 1, quarter = lane() >> 4;
#pragma unroll
    for (int i = 0; i < kWarpSteps; ++i) {
      const int step = warp() * kWarpSteps + i;
      const int box = step >> 2, chunk = (step & 3) * 2;
      const u32 a_box = from + box * kBoxBytesA;
      const u32 b_box = from + cfg::kTmaBoxes * kBoxBytesA + box * kBoxBytesB;
      u32 a[kRowTiles][4];
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
        const u32 tile = a_box + r * 2048;
        if (16 * r + 8 < cfg::kRows) {
          load_matrices(a[r], tile + (half * 8 + row) * 128 + ((chunk + quarter ^ row) << 4));
        } else {
          // Rows 8 and on do not exist: the same two matrices are loaded twice, and zeros are multiplied.
          load_matrices(a[r], tile + row * 128 + ((chunk + quarter ^ row) << 4));
          a[r][1] = a[r][3] = 0;
        }
      }
#pragma unroll
      for (int j = 0; j < kColumnTiles; j += 2) {
        const bool is_pair = j + 1 < kColumnTiles;  // else the same two matrices are loaded twice
        u32 b[4];
        load_matrices(b, b_box + ((is_pair ? quarter * 8 : 0) + 8 * j + row) * 128 + ((chunk + half ^ row) << 4));
#pragma unroll
        for (int r = 0; r < kRowTiles; ++r) {
          Sum(&to)[4] = sums[r * kColumnTiles + j];
          multiply_add(to, a[r][0], a[r][1], a[r][2], a[r][3], b[0], b[1]);
          if (is_pair)
            multiply_add(sums[r * kColumnTiles + j + 1], a[r][0], a[r][1], a[r][2], a[r][3], b[2], b[3]);
        }
      }
    }
  }

  TS_DEVICE void team_sync() const {
    named_barrier_sync(1, kTeam);
  }

  TS_DEVICE void consume() {
    wait_for_previous_kernel();
    float factor = args.alpha;
    if (args.scale_a != nullptr) factor *= *static_cast<const float*>(args.scale_a);
    if (args.scale_b != nullptr) factor *= *static_cast<const float*>(args.scale_b);
    Item t;
    for (int index = blockIdx.x; find(index, t); index += gridDim.x) {
      if constexpr (cfg::kTransposed)
        multiply_transposed(t);
      else
        multiply_by_warps(t);
      finish(t, factor);
    }
  }

  // Leaves what each warp has of the sums in shared memory.
  TS_DEVICE void multiply_by_warps(const Item& t) {
    Sum sums[kTiles][4];
#pragma unroll
    for (int j = 0; j < kTiles; ++j) sums[j][0] = sums[j][1] = sums[j][2] = sums[j][3] = 0;
    for (int s = 0; s < t.steps; ++s) {
      mbarrier_wait(full(stage), phase);
      multiply(sums);
      // Ordinary reads before the copy engine's writes.
      fence_proxy_async();
      __syncwarp();
      if (lane() == 0) mbarrier_arrive(empty(stage));
      advance();
    }
    const u32 place = base + kSumsOffset + lane() * 16;
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      const u32 words[4] = {bits_of(sums[j][0]), bits_of(sums[j][1]), bits_of(sums[j][2]), bits_of(sums[j][3])};
      store_shared(place + (warp() * kTiles + j) * 512, words);
    }
  }
  // A tile's sums of all warps.
  TS_DEVICE void add_up(int tile, Sum (&own)[4]) const {
    own[0] = own[1] = own[2] = own[3] = 0;
#pragma unroll
    for (int w = 0; w < cfg::kWarps; ++w) {
      u32 words[4];
      load_shared(words, base + kSumsOffset + lane() * 16 + (w * kTiles + tile) * 512);
#pragma unroll
      for (int e = 0; e < 4; ++e) own[e] += sum_of_bits(words[e]);
    }
  }

  // Leaves the sums in shared memory as d has them.
  TS_DEVICE void multiply_transposed(const Item& t) {
    Sum sums[kColumnBlocks][kBlockSums];
    u32 previous = stage;
    for (int s = 0; s < t.steps; ++s) {
      mbarrier_wait(full(stage), phase);
      issue(sums, s != 0);
      if (s > 0) {
        wgmma_wait<1>();
        if (lane() == 0) mbarrier_arrive(empty(previous));
      }
      previous = stage;
      advance();
    }
    wgmma_wait<0>();
#pragma unroll
    for (int i = 0; i < kColumnBlocks; ++i) pin_sums(sums[i]);
    if (lane() == 0) mbarrier_arrive(empty(previous));
    // Of 64 columns a warp has 16, of which a lane has two, eight apart, in two rows of each eight.
    const int row = 2 * (lane() & 3);
    const int column = warp() / 4 * kColumnBlocks * 64 + warp() % 4 * 16 + lane() / 4;
    const u32 to = base + kSumsOffset + 4 * (row * kTurnPitch + column);
#pragma unroll
    for (int i = 0; i < kColumnBlocks; ++i) {
#pragma unroll
      for (int e = 0; e < kBlockSums; ++e)
        store_word(to + 4 * ((e / 4 * 8 + (e & 1)) * kTurnPitch + i * 64 + (e >> 1 & 1) * 8), bits_of(sums[i][e]));
    }
  }
  static TS_DEVICE void store_word(u32 to, u32 x) {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(x) : "memory");
  }
  // The wgmma of one stage.
  TS_DEVICE void issue(Sum (&sums)[kColumnBlocks][kBlockSums], int accumulate) const {
    const u32 from = __shfl_sync(0xffffffff, base + stage * kStageBytes, 0);
    const u32 from_b = __shfl_sync(
        0xffffffff, from + cfg::kTmaBoxes * kBoxBytesA + warp() / 4 * kColumnBlocks * 64 * 128, 0);
    const u64 a = descriptor_k_major(from), b = descriptor_k_major(from_b);
#pragma unroll
    for (int i = 0; i < kColumnBlocks; ++i) pin_sums(sums[i]);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4 * cfg::kTmaBoxes; ++step) {
      const int box = step / 4, chunk = step % 4 * 2;  // descriptors count 16 bytes
#pragma unroll
      for (int i = 0; i < kColumnBlocks; ++i)
        Product<cfg::kRows>::multiply(sums[i], b + (box * kBoxBytesB / 16 + i * 512 + chunk),
                                      a + (box * kBoxBytesA / 16 + chunk), step == 0 ? accumulate : 1);
    }
    wgmma_commit();
#pragma unroll
    for (int i = 0; i < kColumnBlocks; ++i) pin_sums(sums[i]);
  }
  // A tile's sums as mma.sync has them: two columns of two rows, eight apart.
  TS_DEVICE void load_turned(int tile, Sum (&own)[4]) const {
    const int row = 16 * (tile / kColumnTiles) + lane() / 4, column = 8 * (tile % kColumnTiles) + 2 * (lane() & 3);
    const u32 from = base + kSumsOffset + 4 * (row * kTurnPitch + column);
    own[0] = load_word(from), own[1] = load_word(from + 4);
    const bool is_there = tile / kColumnTiles * 16 + 8 < cfg::kRows;  // the second row
    own[2] = is_there ? load_word(from + 32 * kTurnPitch) : Sum{0};
    own[3] = is_there ? load_word(from + 32 * kTurnPitch + 4) : Sum{0};
  }
  static TS_DEVICE Sum load_word(u32 from) {
    u32 x;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(x) : "r"(from) : "memory");
    return sum_of_bits(x);
  }

  // Each warp finishes its own share of the tiles and writes the results.
  TS_DEVICE void finish(const Item& t, float factor) const {
    team_sync();
    Sum own[kOwnTiles][4];
    u32 wanted = 0;
#pragma unroll
    for (int i = 0; i < kOwnTiles; ++i) {
      const int j = i * cfg::kWarps + warp();
      own[i][0] = own[i][1] = own[i][2] = own[i][3] = 0;
      if (j >= kTiles) continue;
      wanted |= 1u << i;
      if constexpr (cfg::kTransposed)
        load_turned(j, own[i]);
      else
        add_up(j, own[i]);
    }
    bool mine = true;
    if constexpr (cfg::kSplitK)
      mine = join_partials<kTeam>(
          args, t.group, t.split, static_cast<int>(threadIdx.x), wanted, base + kFlagOffset, [this] { team_sync(); },
          own);
    if (mine) {
#pragma unroll
      for (int i = 0; i < kOwnTiles; ++i) {
        const int j = i * cfg::kWarps + warp();
        if (j >= kTiles) continue;
        const Place at{16 * (j / kColumnTiles) + lane() / 4, t.column + 8 * (j % kColumnTiles) + 2 * (lane() & 3),
                       args.m, args.n, t.batch, t.batch};
        Operands<0, 8> operands;
        operands.load(args, at);
        float v[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) v[e] = result_of(own[i][e], factor);
        operands.apply(args, at, v, {});
        store_slab<8>(args, at, v);
      }
    }
    team_sync();
  }
};

}  // namespace ts::gemm

#ifndef TS_ENTRY
#define TS_ENTRY ts_gemm
#endif

extern "C" __global__ void __launch_bounds__(ts::gemm::kThreads, ts::cfg::kBlocksPerSm)
    TS_ENTRY(const __grid_constant__ TsCudaGemmMaps maps, const __grid_constant__ TsCudaGemmArgs args) {
  extern __shared__ unsigned char dynamic_shared[];
  using namespace ts::gemm;
  ts::let_next_kernel_start();
  Skinny skinny{maps, args, (ts::smem_address(dynamic_shared) + 1023u) & ~1023u};
  if (threadIdx.x == 0) {
    for (int s = 0; s < ts::cfg::kStages; ++s) {
      ts::mbarrier_init(skinny.full(s), 1);
      ts::mbarrier_init(skinny.empty(s), ts::cfg::kWarps);
    }
    ts::fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x < kTeam)
    skinny.consume();
  else if (threadIdx.x == kTeam)
    skinny.produce();
}
