// GEMM for sm_80 and newer (fp8: sm_89): mma.sync, ldmatrix, cp.async. Every layout, every alignment, every epilogue;
// the Hopper template is faster where it applies.
//
// Configuration, defined in namespace ts::cfg before this file is included (constexpr; int unless said otherwise; the
// numbers are those of gemm/abi.h):
//   kTypeA, kTypeB, kTypeD
//   kRowMajorA, kRowMajorB (bool)
//   kTileM, kTileN           the tile; kWarpsM, kWarpsN: warps along each, with at least 16 x 16 of it
//   kStages                  steps of 64 bytes of k in shared memory
//   kBlocksPerSm             blocks that share an SM (bounds the registers)
//   kAligned (bool)          pointers and strides of a and b are multiples of 16 bytes
//   kPairs (bool)            n is even and d's and the epilogue's pointers and strides are multiples of two elements
//   kTf32x3 (bool)           float32: each operand is split into two tf32 numbers that are multiplied in three ways (3xTF32),
//                            which is about as exact as float32; else operands are rounded to tf32
//   kMmPlusMm (bool)         the sums of A2 x B2 are added to those of A x B
//   kSplitK, kSplitKAtomic (bool), kClusterK (1), kScaling, kGrouping; kTypeScale and kZeroPoints (bool): of weights' scales
//   kEpilogueLength, kEpilogue[], kEpilogueTypes[]; kStagedTensors (bool) is false
//
// Launch: kThreads threads, kSharedBytes of dynamic shared memory (layout.cuh), a grid of at most one block per
// work item: splits * batch * ceil(m / kTileM) * ceil(n / kTileN); with groups the sum over the groups, or any larger
// number. A smaller grid walks the items. Split tiles have one counter a tile.
#pragma once

#include "../../common/launch.cuh"
#include "../partials.cuh"
#include "multiply.cuh"

namespace ts::gemm {

struct Gemm {
  const TsCudaGemmArgs& args;
  u32 shared;

  TS_DEVICE void copy(const Tile& t, int step, int stage) const {
    const i64 batch_a = cfg::kGrouping == TS_GEMM_CONTIGUOUS ? 0 : t.batch;
    const int first_steps = ceil_div(args.k, kTileK);
    const bool second = cfg::kMmPlusMm && t.step + step >= first_steps;
    const int k = (t.step + step - (second ? first_steps : 0)) * kTileK, k_end = second ? args.k2 : args.k;
    const u32 to = shared + stage * kStageBytes;
    const void* const a = second ? args.a2 : args.a;
    copy_operand<LayoutA, cfg::kTileM, cfg::kRowMajorA>(
        to,
        static_cast<const char*>(a) + batch_a * (second ? args.a2_batch_stride : args.a_batch_stride) * kElementBytes,
        second ? args.a2_stride : args.a_stride, t.row_offset + t.row, t.row_offset + t.row_limit, k, k_end);
    if constexpr (!kWeights) {
      const void* const b = second ? args.b2 : args.b;
      copy_operand<LayoutB, cfg::kTileN, !cfg::kRowMajorB>(
          to + LayoutA::kBytes,
          static_cast<const char*>(b) + t.batch * (second ? args.b2_batch_stride : args.b_batch_stride) * kElementBytes,
          second ? args.b2_stride : args.b_stride, t.column, args.n, k, k_end);
    }
  }
  // Weights go through registers: they are loaded before another step is multiplied and stored after it.
  TS_DEVICE void load(WeightsOnTheWay& weights, const Tile& t, int step) const {
    weights.load(args, t.batch, t.column, (t.step + step) * kTileK);
  }
  TS_DEVICE void leave(const WeightsOnTheWay& weights, int stage) const {
    weights.leave(shared + stage * kStageBytes + LayoutA::kBytes);
  }

  // Multiplies a step and adds it to the sums, times the scales of its block of k.
  TS_DEVICE void add_scaled(const Tile& t, int step, const Sum (&fresh)[kBlocksM][4 * kTilesN],
                            Sum (&sums)[kBlocksM][4 * kTilesN]) const {
    const i64 batch = cfg::kGrouping == TS_GEMM_CONTIGUOUS ? 0 : t.batch;
    const i64 block = (t.step + step) * kTileK / 128;
    const float column = __ldg(static_cast<const float*>(args.scale_b) + t.batch * args.scale_b_batch_stride +
                               t.column / 128 * args.scale_b_row_stride + block * args.scale_b_block_stride);
#pragma unroll
    for (int i = 0; i < kBlocksM; ++i) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int row = t.row + warp_row() + 16 * i + 8 * r + static_cast<int>(threadIdx.x & 31) / 4;
        const float scale = row < t.row_limit ? column * __ldg(static_cast<const float*>(args.scale_a) + batch * args.scale_a_batch_stride +
                                                               (t.row_offset + row) * args.scale_a_row_stride +
                                                               block * args.scale_a_block_stride)
                                              : 0.0f;
#pragma unroll
        for (int e = 2 * r; e < 4 * kTilesN; e += 4) {
          sums[i][e] = fmaf(fresh[i][e], scale, sums[i][e]);
          sums[i][e + 1] = fmaf(fresh[i][e + 1], scale, sums[i][e + 1]);
        }
      }
    }
  }

  TS_DEVICE void finish(const Tile& t, const Sum (&sums)[kBlocksM][4 * kTilesN], float factor) const {
    const int lane = threadIdx.x & 31;
    const i64 batch = cfg::kGrouping == TS_GEMM_CONTIGUOUS ? 0 : t.batch;
    constexpr int kColumns = kWarpN % 32 == 0 ? 32 : 16;  // finished together
#pragma unroll
    for (int i = 0; i < kBlocksM; ++i) {
#pragma unroll
      for (int c = 0; c < kWarpN; c += kColumns) {
        const Place place{t.row_offset + t.row + warp_row() + 16 * i + lane / 4,
                          t.column + warp_column() + c + 2 * (lane & 3),
                          t.row_offset + t.row_limit,
                          args.n,
                          batch,
                          t.batch};
        Operands<0, kColumns> operands;
        operands.load(args, place);
        float v[kColumns / 2];
#pragma unroll
        for (int e = 0; e < kColumns / 2; ++e) v[e] = result_of(sums[i][c / 2 + e], factor);
        operands.apply(args, place, v, {});
        store_slab<kColumns>(args, place, v);
      }
    }
  }

  // A walk may change args for the tile it finds (list.cuh does).
  template <class W>
  TS_DEVICE void run(W walk) const {
    wait_for_previous_kernel();
    let_next_kernel_start();
    Tile t;
    for (int item = blockIdx.x; walk.find(item, 0, t); item += gridDim.x) {
      float factor = args.alpha;
      if constexpr (cfg::kScaling == TS_GEMM_SCALE_TENSOR) {
        if (args.scale_a != nullptr) factor *= *static_cast<const float*>(args.scale_a);
        if (args.scale_b != nullptr) factor *= *static_cast<const float*>(args.scale_b);
      }
      Sum sums[kBlocksM][4 * kTilesN];
#pragma unroll
      for (int i = 0; i < kBlocksM; ++i) {
#pragma unroll
        for (int e = 0; e < 4 * kTilesN; ++e) sums[i][e] = 0;
      }
#pragma unroll
      for (int s = 0; s < cfg::kStages - 1; ++s) {
        if (s < t.steps) {
          copy(t, s, s);
          if constexpr (kWeights) {
            WeightsOnTheWay weights;
            load(weights, t, s);
            leave(weights, s);
          }
        }
        copy_commit();
      }
      int stage = 0;
      for (int s = 0; s < t.steps; ++s) {
        copy_wait_for<cfg::kStages - 2>();
        __syncthreads();
        const int next = s + cfg::kStages - 1;
        const int next_stage = stage == 0 ? cfg::kStages - 1 : stage - 1;
        if (next < t.steps) copy(t, next, next_stage);
        copy_commit();
        if constexpr (kWeights) {
          WeightsOnTheWay weights;
          if (next < t.steps) load(weights, t, next);
          multiply(shared + stage * kStageBytes, sums);
          if (next < t.steps) leave(weights, next_stage);
        } else if constexpr (cfg::kScaling == TS_GEMM_SCALE_BLOCK) {
          Sum fresh[kBlocksM][4 * kTilesN] = {};
          multiply(shared + stage * kStageBytes, fresh);
          add_scaled(t, s, fresh, sums);
        } else if constexpr (cfg::kTf32x3) {
          // The tensor cores cut off what they add up; float32 registers round it.
          Sum fresh[kBlocksM][4 * kTilesN] = {};
          multiply(shared + stage * kStageBytes, fresh);
#pragma unroll
          for (int i = 0; i < kBlocksM; ++i) {
#pragma unroll
            for (int e = 0; e < 4 * kTilesN; ++e) sums[i][e] += fresh[i][e];
          }
        } else {
          multiply(shared + stage * kStageBytes, sums);
        }
        stage = stage + 1 == cfg::kStages ? 0 : stage + 1;
      }
      __syncthreads();
      if constexpr (cfg::kSplitK) {
        if (!join_partials<kThreads>(
                args, t.index, t.split, static_cast<int>(threadIdx.x), ~0u, shared + kFlagOffset,
                [] { __syncthreads(); }, sums))
          continue;
      }
      finish(t, sums, factor);
    }
  }
};

}  // namespace ts::gemm

#ifndef TS_ENTRY
#define TS_ENTRY ts_gemm
#endif

#ifndef TS_GEMM_OWN_ENTRY  // list.cuh has another
extern "C" __global__ void __launch_bounds__(ts::gemm::kThreads, ts::cfg::kBlocksPerSm)
    TS_ENTRY(const __grid_constant__ TsCudaGemmArgs args) {
  extern __shared__ __align__(16) unsigned char dynamic_shared[];
  const ts::gemm::Gemm gemm{args, ts::smem_address(dynamic_shared)};
  gemm.run(ts::gemm::TileWalk(args));
}
#endif
