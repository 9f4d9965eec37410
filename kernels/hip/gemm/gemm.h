// GEMM for AMD GPUs with a matrix unit: MFMA (CDNA) or WMMA (RDNA). Every layout, every alignment.
//
// Configuration, defined in namespace ts::cfg before this file is included (constexpr; int unless said otherwise; the
// numbers are those of gpu/gemm/words.h):
//   kTypeA, kTypeD           A and B have one type
//   kRowMajorA, kRowMajorB (bool)
//   kTileM, kTileN, kTileK   the tile of a block; kWavesM, kWavesN: waves along each
//   kStages                  tiles of A and B in local memory: 1, or 2, which saves one barrier a step
//   kWavesOfSimd             waves that a SIMD has at least (bounds the registers)
//   kAligned (bool)          pointers and strides of a and b are multiples of 16 bytes
//   kWide (bool)             D and what the epilogue reads are accessed by kRun elements, behind a gate by half as
//                            many: n is a multiple of kRun, pointers and strides are of a run's bytes
//   kLanes                   of a wave; and the instruction, see common/matrix.h: TS_MATRIX_BUILTIN, kOperand,
//                            kOperandWords, kFragment, kGroupsK, kRunOfResults, kIntegers (bool)
//   kFnuz (bool)             the matrix unit takes fp8 in the encoding fnuz
//   kEpilogueLength, kEpilogue[], kEpilogueTypes[]
//
// Launch: kThreads threads (tile.h), no dynamic local memory, a grid of batch * ceil(m / kTileM) * ceil(n / kTileN)
// blocks.
//
// The instruction gets B's fragment as its rows and A's as its columns, so that a lane's results are of one row of D.
// Which column of D is which row of the fragment is free as well: they are numbered so that a lane's results lie beside
// one another.
#pragma once

#include "../common/matrix.h"
#include "epilogue.h"
#include "tile.h"

namespace ts::gemm {

constexpr int kFragment = cfg::kFragment;
constexpr int kFragmentsM = cfg::kTileM / cfg::kWavesM / kFragment;
constexpr int kFragmentsN = cfg::kTileN / cfg::kWavesN / kFragment;
constexpr int kHalves = cfg::kLanes / kFragment;  // lanes that have results of one row of D
// What a lane reads at a time, in chunks of 16 bytes, and how many instructions that is.
constexpr int kLaneChunks = imax(1, cfg::kOperandWords / 4);
constexpr int kInstructions = imax(1, 4 / cfg::kOperandWords);
constexpr int kStepChunks = cfg::kGroupsK * kLaneChunks;
constexpr int kRun = 4;  // results that pass the epilogue together

static_assert(kFragmentsM > 0 && kFragmentsN > 0 && cfg::kTileM % (cfg::kWavesM * kFragment) == 0 &&
                  cfg::kTileN % (cfg::kWavesN * kFragment) == 0,
              "a wave has whole fragments");
static_assert(kRowChunks % kStepChunks == 0, "a tile has whole steps of the instruction");
static_assert(kResults % kRun == 0, "results go in runs");

using CopyA = TileCopy<cfg::kTileM, cfg::kRowMajorA>;
using CopyB = TileCopy<cfg::kTileN, !cfg::kRowMajorB>;
constexpr int kStageBytes = CopyA::kBytes + CopyB::kBytes;

// The column of D, within the fragment, that row `row` of the instruction stands for: result r of the lanes of half h
// is row (r / run * kHalves + h) * run + r % run, and column h * kResults + r.
TS_DEVICE int column_of_fragment_row(int row) {
  constexpr int kRunOf = cfg::kRunOfResults;
  const int half = row / kRunOf % kHalves;
  return half * kResults + row / (kRunOf * kHalves) * kRunOf + row % kRunOf;
}

class Gemm {
 public:
  TS_DEVICE Gemm(const TsHipGemmArgs& args, TS_LDS u8* shared) : args_(args), shared_(shared) {
    const int wave = uniform(thread_index() / cfg::kLanes);
    lane_ = thread_index() % cfg::kLanes;
    wave_row_ = wave / cfg::kWavesN * (kFragmentsM * kFragment);
    wave_column_ = wave % cfg::kWavesN * (kFragmentsN * kFragment);
    place_block();
  }

  TS_DEVICE void run() {
    Sums sums[kFragmentsM][kFragmentsN] = {};
    const i64 batch = batch_;
    CopyA a(static_cast<const u8*>(args_.a.data) + batch * args_.a.batch * kElementBytes, args_.a.leading, row_,
            args_.m);
    CopyB b(static_cast<const u8*>(args_.b.data) + batch * args_.b.batch * kElementBytes, args_.b.leading, column_,
            args_.n);
    const int whole = args_.k / cfg::kTileK, steps = imax(ceil_div(args_.k, cfg::kTileK), 1);
    load(a, b, 0, whole);
    store(a, b, 0);
    block_barrier();
    for (int step = 0; step + 1 < steps; ++step) {
      const int stage = cfg::kStages == 2 ? step & 1 : 0;
      load(a, b, step + 1, whole);
      multiply(stage, sums);
      if constexpr (cfg::kStages == 1) block_barrier();
      store(a, b, cfg::kStages == 2 ? 1 - stage : 0);
      block_barrier();
    }
    multiply(cfg::kStages == 2 ? (steps - 1) & 1 : 0, sums);
    end(sums);
  }

 private:
  // Blocks that run at the same time share rows of A and columns of B: a band is walked across first.
  TS_DEVICE void place_block() {
    const int tiles_m = ceil_div(args_.m, cfg::kTileM), tiles_n = ceil_div(args_.n, cfg::kTileN);
    const int tiles = tiles_m * tiles_n, index = block_index() % tiles;
    batch_ = block_index() / tiles;
    const int band = index / (args_.band * tiles_n), first = band * args_.band;
    const int width = imin(args_.band, tiles_m - first), rest = index - first * tiles_n;
    row_ = (first + rest % width) * cfg::kTileM;
    column_ = rest / width * cfg::kTileN;
  }

  TS_DEVICE void load(CopyA& a, CopyB& b, int step, int whole) const {
    if (step < whole) {
      a.load<true>(cfg::kTileK);
      b.load<true>(cfg::kTileK);
    } else {
      a.load<false>(args_.k - step * cfg::kTileK);
      b.load<false>(args_.k - step * cfg::kTileK);
    }
  }
  TS_DEVICE void store(const CopyA& a, const CopyB& b, int stage) const {
    a.store(shared_ + stage * kStageBytes);
    b.store(shared_ + stage * kStageBytes + CopyA::kBytes);
  }

  // The lane's share of a fragment of `row`s, of one step of the instruction.
  TS_DEVICE void read(const TS_LDS u8* tile, int row, int step, u32 (&words)[4 * kLaneChunks]) const {
    const int group = cfg::kGroupsK == 1 ? 0 : lane_ / kFragment;
#pragma unroll
    for (int c = 0; c < kLaneChunks; ++c) {
      const int chunk = (step * cfg::kGroupsK + group) * kLaneChunks + c;
      const Words4 read = *reinterpret_cast<const TS_LDS Words4*>(tile + chunk_offset(row, chunk));
#pragma unroll
      for (int w = 0; w < 4; ++w) words[4 * c + w] = read[w];
    }
  }

  TS_DEVICE void multiply(int stage, Sums (&sums)[kFragmentsM][kFragmentsN]) const {
    const TS_LDS u8* const a_tile = shared_ + stage * kStageBytes;
    const TS_LDS u8* const b_tile = a_tile + CopyA::kBytes;
    const int row = lane_ % kFragment, column = column_of_fragment_row(row);
#pragma unroll
    for (int step = 0; step < kRowChunks / kStepChunks; ++step) {
      u32 a[kFragmentsM][4 * kLaneChunks], b[kFragmentsN][4 * kLaneChunks];
#pragma unroll
      for (int i = 0; i < kFragmentsM; ++i) read(a_tile, wave_row_ + i * kFragment + row, step, a[i]);
#pragma unroll
      for (int j = 0; j < kFragmentsN; ++j) read(b_tile, wave_column_ + j * kFragment + column, step, b[j]);
#pragma unroll
      for (int p = 0; p < kInstructions; ++p) {
#pragma unroll
        for (int i = 0; i < kFragmentsM; ++i) {
#pragma unroll
          for (int j = 0; j < kFragmentsN; ++j) multiply_add(part(b[j], p), part(a[i], p), sums[i][j]);
        }
      }
    }
  }

  using Operand = u32[cfg::kOperandWords];
  TS_DEVICE static const Operand& part(const u32 (&words)[4 * kLaneChunks], int index) {
    return *reinterpret_cast<const Operand*>(words + index * cfg::kOperandWords);
  }

  TS_DEVICE void end(const Sums (&sums)[kFragmentsM][kFragmentsN]) const {
    float factor = args_.alpha * kOfHalves;
    float most = 0.0f;
    if (args_.scale_a.data != nullptr) factor *= *static_cast<const float*>(args_.scale_a.data);
    if (args_.scale_b.data != nullptr) factor *= *static_cast<const float*>(args_.scale_b.data);
#pragma unroll
    for (int i = 0; i < kFragmentsM; ++i) {
      const int row = row_ + wave_row_ + i * kFragment + lane_ % kFragment;
      if (row >= args_.m) continue;
#pragma unroll
      for (int j = 0; j < kFragmentsN; ++j) {
        const int column = column_ + wave_column_ + j * kFragment + lane_ / kFragment * kResults;
#pragma unroll
        for (int r = 0; r < kResults; r += kRun) {
          float v[kRun];
#pragma unroll
          for (int e = 0; e < kRun; ++e) {
            // Clang 22 takes element 0 where an element of a vector is cast in its place.
            const auto sum = sums[i][j][r + e];
            if constexpr (cfg::kTypeD == TS_GEMM_S32)
              v[e] = __builtin_bit_cast(float, sum);
            else
              v[e] = static_cast<float>(sum) * factor;
          }
          finish<0, kRun>(args_, {row, column + r, args_.n, batch_}, v, most);
        }
      }
    }
    if constexpr (kAmax)
      atomic_max(static_cast<float*>(const_cast<void*>(args_.epilogue[cfg::kEpilogueLength - 1].data)), most);
  }

  const TsHipGemmArgs& args_;
  TS_LDS u8* const shared_;
  int lane_, wave_row_, wave_column_;
  int row_, column_, batch_;
};

}  // namespace ts::gemm

#ifndef TS_ENTRY
#define TS_ENTRY ts_gemm
#endif

TS_KERNEL(ts::gemm::kThreads, ts::cfg::kWavesOfSimd) TS_ENTRY(const TsHipGemmArgs args) {
  TS_LDS_ARRAY ts::u8 shared[ts::cfg::kStages * ts::gemm::kStageBytes] __attribute__((aligned(16)));
  ts::gemm::Gemm(args, shared).run();
}
