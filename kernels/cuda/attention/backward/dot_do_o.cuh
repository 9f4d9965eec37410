// The first kernel of attention backward: delta_i = dot(do_i, o_i) - dlse_i and the lse in units of log2, both with
// whole blocks of rows, the rows' share of dsink, and the zeroing of what later kernels add to.
//
// Configuration (namespace ts::cfg): kFp32, kBf16, kUnaligned, kGroupMode, kDbias, kDeterministic (bool), kHeadDimV (up to
//   256; of 16-bit elements a multiple of 8 unless kUnaligned),
//   kSumColumns (columns of dq_sum, a multiple of 4; 0: there is none).
// Launch: 256 threads, a grid of (blocks of TS_CUDA_BACKWARD_ROWS rows of the longest sequence, heads_q, batch).
#pragma once

#include "../../common/launch.cuh"
#include "block_sum.cuh"
#include "unpack.cuh"
#include "workspace.cuh"

namespace ts {

// Float32, and rows of no whole 16 bytes, are read element by element.
constexpr bool kByElements = cfg::kFp32 || cfg::kUnaligned;
constexpr int kRowLanes = kByElements ? 32 : cfg::kHeadDimV > 128 ? 32 : cfg::kHeadDimV > 64 ? 16 : cfg::kHeadDimV > 32 ? 8 : 4;
constexpr int kRowsAtOnce = 256 / kRowLanes;
// Turns of a thread, each a row, that are taken together: loads would wait for the stores of the turn before.
constexpr int kTurns = TS_CUDA_BACKWARD_ROWS / kRowsAtOnce, kAtOnce = kTurns < 8 ? kTurns : 8;
static_assert(kAtOnce <= kRowLanes && kTurns % kAtOnce == 0, "a lane has the statistics of a turn");

TS_DEVICE float dot_8(uint4 a, uint4 b) {
  const u32 x[4] = {a.x, a.y, a.z, a.w}, y[4] = {b.x, b.y, b.z, b.w};
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 p = unpack<cfg::kBf16>(x[i]), q = unpack<cfg::kBf16>(y[i]);
    sum = fmaf(p.x, q.x, fmaf(p.y, q.y, sum));
  }
  return sum;
}

TS_DEVICE float element(const void* row, int column) {
  if constexpr (cfg::kFp32) return static_cast<const float*>(row)[column];
  return unpack<cfg::kBf16>(static_cast<const unsigned short*>(row)[column]).x;
}

struct DotDoO {
  const TsCudaAttentionBackwardArgs& args;

  TS_DEVICE void zero_sum(const Sequence& sequence, int first_row, int head, int batch) const {
    if (kMayStoreDq && args.dq_sum == nullptr) return;
    if constexpr (cfg::kSumColumns > 0 && !cfg::kDeterministic) {
      float4* const to = reinterpret_cast<float4*>(
          args.dq_sum + (workspace_row(args, sequence, batch, head) + first_row) * i64{cfg::kSumColumns});
      constexpr int kChunks = TS_CUDA_BACKWARD_ROWS * cfg::kSumColumns / 4;
      for (int i = threadIdx.x; i < kChunks; i += 256) to[i] = float4{0.0f, 0.0f, 0.0f, 0.0f};
    }
    if constexpr (cfg::kDeterministic) {
      constexpr int kCounts = 2 * TS_CUDA_BACKWARD_ROWS / TS_CUDA_BACKWARD_TURN_ROWS;
      if (threadIdx.x < kCounts) turns_of(args, sequence, batch, head, first_row)[threadIdx.x] = 0;
    }
  }

  TS_DEVICE void zero_progress() const {
    if (args.progress == nullptr || blockIdx.x + blockIdx.y + blockIdx.z > 0) return;
    for (int i = threadIdx.x; i < args.progress_counts; i += 256) args.progress[i] = 0;
  }

  // The block's rows of dbias, over the whole of (seqlen_q, seqlen_k) in group mode too. Of a dimension that is summed
  // (stride 0) the first block zeroes the one element.
  TS_DEVICE void zero_dbias(int first_row, int head, int batch) const {
    if constexpr (cfg::kDbias) {
      const TsStrides& s = args.grad.dbias_strides;
      if (args.grad.dbias == nullptr) return;
      if ((batch > 0 && s.batch == 0) || (head > 0 && s.head == 0) || (first_row > 0 && s.row == 0)) return;
      const int last_row = imin(first_row + (s.row == 0 ? 1 : TS_CUDA_BACKWARD_ROWS), static_cast<int>(args.seqlen_q));
      const int columns = s.column == 0 ? imin(1, static_cast<int>(args.seqlen_k)) : static_cast<int>(args.seqlen_k);
      for (int row = first_row; row < last_row; ++row) {
        float* const to = args.grad.dbias + batch * s.batch + head * s.head + row * s.row;
        for (int column = threadIdx.x; column < columns; column += 256) to[column * s.column] = 0.0f;
      }
    }
  }

  // The row of a thread's turn. Beyond the sequence it stands for the last row, whose results are not used.
  TS_DEVICE static int row_of_turn(const Sequence& sequence, int first, int turn) {
    return imin(first + turn * kRowsAtOnce, sequence.length_q - 1);
  }

  // The lane's shares of dot(do, o), of kAtOnce turns. All their elements are on their way at once: there is no branch and no
  // store between the loads.
  TS_DEVICE void dots_of_lane(const Sequence& sequence, int batch, int head, int first, int lane,
                              float (&sums)[kAtOnce]) const {
    constexpr int kBytes = cfg::kFp32 ? 4 : 2;
    const auto find = [&](const void* tensor, const TsStrides& s, int turn) {
      const char* const base = static_cast<const char*>(tensor);
      return base + kBytes * (row_of(base, s, batch, head, row_of_turn(sequence, first, turn), sequence.offset_q) - base);
    };
    const auto o = [&](int turn) { return find(args.o, args.o_strides, turn); };
    const auto dout = [&](int turn) { return find(args.grad.dout, args.grad.dout_strides, turn); };
    if constexpr (kByElements) {
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) sums[i] = 0.0f;
      for (int column = lane; column < cfg::kHeadDimV; column += kRowLanes) {
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) sums[i] = fmaf(element(o(i), column), element(dout(i), column), sums[i]);
      }
    } else {
      const bool has_columns = 8 * lane < cfg::kHeadDimV;
      const int at = has_columns ? 16 * lane : 0;
      uint4 x[kAtOnce], y[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        x[i] = *reinterpret_cast<const uint4*>(o(i) + at);
        y[i] = *reinterpret_cast<const uint4*>(dout(i) + at);
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) sums[i] = has_columns ? dot_8(x[i], y[i]) : 0.0f;
    }
  }

  TS_DEVICE void run() const {
    const int head = blockIdx.y, batch = blockIdx.z;
    const int first_row = blockIdx.x * TS_CUDA_BACKWARD_ROWS;
    const int lane = threadIdx.x % kRowLanes;
    Sequence sequence;
    sequence.find(args, batch);
    zero_dbias(first_row, head, batch);
    zero_progress();
    const bool has_sink = args.grad.dsink != nullptr;
    float& of_block = args.dsink_parts[(i64{batch} * gridDim.x + blockIdx.x) * args.heads_q + head];
    if (first_row >= sequence.length_q) {
      if (has_sink && threadIdx.x == 0) of_block = 0.0f;
      return;
    }
    const float sink2 = has_sink ? args.sink[head] * kLog2e : 0.0f;
    float of_sink = 0.0f;
    float* const lse2 = lse_rows(args, sequence, batch, head);
    float* const delta = delta_rows(args, sequence, batch, head);
    // A lane has the statistics of one turn; several may have the same, and store the same.
    const int own_turn = lane % kAtOnce;
    for (int r = threadIdx.x / kRowLanes; r < TS_CUDA_BACKWARD_ROWS; r += kAtOnce * kRowsAtOnce) {
      const int first = first_row + r, row = first + own_turn * kRowsAtOnce;
      const auto own = [&](const float* tensor, const TsStrides& s) {
        return *row_of(tensor, s, batch, head, row_of_turn(sequence, first, own_turn), sequence.offset_q);
      };
      const float lse = own(args.lse, args.lse_strides);
      const float dlse = args.grad.dlse != nullptr ? own(args.grad.dlse, args.grad.dlse_strides) : 0.0f;
      float sums[kAtOnce];
      dots_of_lane(sequence, batch, head, first, lane, sums);
      float sum = 0.0f;
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
#pragma unroll
        for (int lanes = kRowLanes / 2; lanes > 0; lanes /= 2) sums[i] += __shfl_xor_sync(0xffffffffu, sums[i], lanes);
        if (i == own_turn) sum = sums[i] - dlse;
      }
      const float base = row < sequence.length_q && !TS_LSE_LOST(lse) ? lse * kLog2e : kInfinity;
      // A row that adds nothing: its o may be zero, but not what do and dlse say.
      if (base == kInfinity) sum = 0.0f;
      lse2[row] = base;
      delta[row] = sum;
      if (has_sink && lane == own_turn) of_sink = fmaf(exp2_approx(sink2 - base), sum, of_sink);
    }
    zero_sum(sequence, first_row, head, batch);
    if (has_sink) {
      of_sink = sum_of_block(of_sink);
      if (threadIdx.x == 0) of_block = -of_sink;
    }
  }
};

}  // namespace ts

#ifndef TS_ENTRY
#define TS_ENTRY ts_attention_dot_do_o
#endif

// Two blocks an SM: for more of them the compiler saves registers, and asks for a row when it has multiplied the one before.
extern "C" __global__ void __launch_bounds__(256, 2) TS_ENTRY(const __grid_constant__ TsCudaAttentionBackwardArgs args) {
  ts::wait_for_previous_kernel();
  ts::let_next_kernel_start();
  ts::DotDoO{args}.run();
}
