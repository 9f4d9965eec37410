// The last kernel of attention backward where blocks of keys add to dq in float32: times the scale, rounded, stored by
// the strides of dq.
//
// It also adds up, in a fixed order, what the blocks of the kernels before it have of dsink and of the slopes' gradient, and the
// parts of dk and dv.
//
// Configuration (namespace ts::cfg): kBf16, kGroupMode (bool), kHeadDimQk, kHeadDimV, kTileM and kSumColumns as in the kernel that
//   added; kSumColumns 0: none did, and dq is not touched.
// Launch: 256 threads, a grid of (tiles of kTileM rows, at least 1, of the longest sequence; heads_q; batch).
#pragma once

#include "../../common/launch.cuh"
#include "block_sum.cuh"
#include "workspace.cuh"

namespace ts {

struct ConvertDq {
  const TsCudaAttentionBackwardArgs& args;

  TS_DEVICE void sum_dsink(int head) const {
    const int parts = static_cast<int>(args.batch) * ceil_div(static_cast<int>(args.seqlen_q), TS_CUDA_BACKWARD_ROWS);
    float sum = 0.0f;
    for (int i = threadIdx.x; i < parts; i += 256) sum += args.dsink_parts[i * args.heads_q + head];
    sum = sum_of_block(sum);
    if (threadIdx.x == 0) args.grad.dsink[head] = sum;
  }

  // Of sequences begin .. end - 1.
  TS_DEVICE void sum_dalibi(int head, int begin, int end) const {
    float sum = 0.0f;
    for (int batch = begin; batch < end; ++batch) {
      Sequence sequence;
      sequence.find(args, batch);
      const int parts = ceil_div(sequence.length_k, 16);
      for (int i = threadIdx.x; i < parts; i += 256) sum += dalibi_parts_of(args, batch, head)[i];
    }
    sum = sum_of_block(sum);
    if (threadIdx.x == 0) args.grad.dalibi[begin * args.grad.dalibi_batch_stride + head] = -sum;
  }

  TS_DEVICE void run() const {
    const int head = blockIdx.y, batch = blockIdx.z;
    if (blockIdx.x == 0) {
      if (args.grad.dsink != nullptr && batch == 0) sum_dsink(head);
      if (args.grad.dalibi != nullptr && args.grad.dalibi_batch_stride != 0) sum_dalibi(head, batch, batch + 1);
      if (args.grad.dalibi != nullptr && args.grad.dalibi_batch_stride == 0 && batch == 0)
        sum_dalibi(head, 0, static_cast<int>(args.batch));
    }
    if constexpr (cfg::kSumColumns > 0) {
      if (!kMayStoreDq || args.dq_sum != nullptr) store_dq<cfg::kSumColumns>(head, batch);
    }
    if constexpr (!cfg::kFp32)
      if (args.key_parts != nullptr) sum_key_parts(batch);
  }

  // The sequence's blocks of threads share the slices of its blocks of keys out. A thread has the same place in each part.
  TS_DEVICE void sum_key_parts(int batch) const {
    Sequence sequence;
    sequence.find(args, batch);
    const int heads = static_cast<int>(args.heads_kv), parts = args.head_parts * args.tile_parts;
    const int slices = ceil_div(sequence.length_k, 128) * heads * kSlices;
    const int thread = threadIdx.x;
    for (int i = blockIdx.y * gridDim.x + blockIdx.x; i < slices; i += gridDim.x * gridDim.y) {
      const int slice = i % kSlices, head = i / kSlices % heads, first_key = i / kSlices / heads * 128;
      const float* const from = key_parts_of(args, batch, head, first_key) + slice * kPartSlice + thread * 4;
      float sums[8] = {};
#pragma unroll 4
      for (int part = 0; part < parts; ++part) {
#pragma unroll
        for (int j = 0; j < 8; j += 4) {
          const float4 x = *reinterpret_cast<const float4*>(from + part * part_stride(args) + j * (kPartSlice / 8));
          sums[j] += x.x;
          sums[j + 1] += x.y;
          sums[j + 2] += x.z;
          sums[j + 3] += x.w;
        }
      }
      const bool is_k = slice < kSlicesQk;
      const int column = 16 * (is_k ? slice : slice - kSlicesQk);
      unsigned short* const gradient = static_cast<unsigned short*>(is_k ? args.grad.dk : args.grad.dv);
      const TsStrides& strides = is_k ? args.grad.dk_strides : args.grad.dv_strides;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int key = first_key + thread / 32 * 16 + thread % 32 / 4 + 8 * r;
        char* const out = key < sequence.length_k
                              ? reinterpret_cast<char*>(row_of(gradient, strides, batch, head, key, sequence.offset_k) + column)
                              : nullptr;
        store_row<cfg::kBf16>(out, sums, r, 1.0f, (is_k ? cfg::kHeadDimQk : cfg::kHeadDimV) - column);
      }
    }
  }

  template <int kSumColumns>
  TS_DEVICE void store_dq(int head, int batch) const {
    Sequence sequence;
    sequence.find(args, batch);
    const int first_row = blockIdx.x * cfg::kTileM;
    if (first_row >= sequence.length_q) return;
    const int warpgroup = threadIdx.x / 128, thread = threadIdx.x % 128;
    const float4* const from =
        reinterpret_cast<const float4*>(args.dq_sum + (workspace_row(args, sequence, batch, head) + first_row) *
                                                          i64{kSumColumns}) +
        warpgroup * (cfg::kTileM * kSumColumns / 8) + thread;
    // A warpgroup has 64 rows: the other rows of a tile of 128, else the other half of the columns.
    constexpr bool kSharesRows = cfg::kTileM == 128;
    // With ordered additions nothing has been zeroed: a tile that no block of keys has added to is anything.
    const bool added = args.turns == nullptr || turns_of(args, sequence, batch, head, first_row)[warpgroup] > 0;
    constexpr int kColumns = kSharesRows ? kSumColumns : kSumColumns / 2;
    float d[kColumns / 2];
#pragma unroll
    for (int i = 0; i < kColumns / 8; ++i) {
      const float4 x = from[i * 128];
      d[4 * i] = added ? x.x : 0.0f;
      d[4 * i + 1] = added ? x.y : 0.0f;
      d[4 * i + 2] = added ? x.z : 0.0f;
      d[4 * i + 3] = added ? x.w : 0.0f;
    }
    const int column = kSharesRows ? 0 : kColumns * warpgroup;
    const int row = first_row + (kSharesRows ? 64 * warpgroup : 0) + (thread / 32) * 16 + thread % 32 / 4;
    unsigned short* const dq = static_cast<unsigned short*>(args.grad.dq);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int query = row + 8 * r;
      char* const out = query < sequence.length_q
                            ? reinterpret_cast<char*>(
                                  row_of(dq, args.grad.dq_strides, batch, head, query, sequence.offset_q) + column)
                            : nullptr;
      store_row<cfg::kBf16>(out, d, r, args.scale, cfg::kHeadDimQk - column);
    }
  }
};

}  // namespace ts

#ifndef TS_ENTRY
#define TS_ENTRY ts_attention_convert_dq
#endif

extern "C" __global__ void __launch_bounds__(256) TS_ENTRY(const __grid_constant__ TsCudaAttentionBackwardArgs args) {
  ts::wait_for_previous_kernel();
  ts::let_next_kernel_start();
  ts::ConvertDq{args}.run();
}
