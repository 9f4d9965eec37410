// The pieces of sequences that differ in length, as one list that every block of threads works out for itself from the
// lengths: so nothing of it is known to the host, and a captured launch serves other lengths too.
//
// A sequence has as many pieces as its longest item, for every tile of rows and key head; a tile that sees fewer keys
// skips the rest. The order is that of sequences; within one, pieces, then heads, then tiles of rows.
#pragma once

#include "pieces.cuh"

namespace ts {

struct SequencePieces {
  int row_blocks, pieces;
  TS_DEVICE int count(const TsCudaDecodeArgs& args) const {
    return row_blocks * static_cast<int>(args.heads_kv) * pieces;
  }
};

TS_DEVICE SequencePieces pieces_of_sequence(const TsCudaDecodeArgs& args, int batch) {
  const Lengths length = item_of(args, batch, 0, 0).length;
  if (length.q <= 0) return {0, 0};
  const int begin = key_begin(args, length, 0), end = key_end(args, length, length.q - 1);
  return {ceil_div(length.q * args.group, kTileM), pieces_between(args, begin, end)};
}

class WorkList {
 public:
  struct Work {
    int batch;
    int place;  // within the sequence
  };

  // Threads take sequences side by side, and a scan over the threads gives each its place in the list.
  TS_DEVICE void start(const TsCudaDecodeArgs& args, u32 shared) {
    const int batch = static_cast<int>(args.batch), share = ceil_div(batch, kThreads);
    first_batch_ = threadIdx.x * share;
    end_batch_ = imin(batch, first_batch_ + share);
    count_ = 0;
    for (int b = first_batch_; b < end_batch_; ++b) count_ += pieces_of_sequence(args, b).count(args);
    int sum = count_;
    const int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const int before = __shfl_up_sync(0xffffffffu, sum, step);
      if (lane >= step) sum += before;
    }
    if (lane == 31) asm volatile("st.shared.b32 [%0], %1;" ::"r"(shared + 4 * warp), "r"(sum) : "memory");
    __syncthreads();
    total_ = 0;
    first_ = sum - count_;
#pragma unroll
    for (int w = 0; w < kThreads / 32; ++w) {
      int of_warp;
      asm volatile("ld.shared.b32 %0, [%1];" : "=r"(of_warp) : "r"(shared + 4 * w) : "memory");
      if (w < warp) first_ += of_warp;
      total_ += of_warp;
    }
    __syncthreads();
  }

  TS_DEVICE int total() const { return total_; }

  // The thread that has the sequence tells the others.
  TS_DEVICE Work find(const TsCudaDecodeArgs& args, int number, u32 shared) const {
    if (number >= first_ && number < first_ + count_) {
      int rest = number - first_, b = first_batch_;
      for (; b < end_batch_; ++b) {
        const int count = pieces_of_sequence(args, b).count(args);
        if (rest < count) break;
        rest -= count;
      }
      asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(shared), "r"(b), "r"(rest) : "memory");
    }
    __syncthreads();
    Work work;
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(work.batch), "=r"(work.place) : "r"(shared) : "memory");
    __syncthreads();
    return work;
  }

 private:
  int first_batch_, end_batch_;  // the thread's sequences
  int first_, count_;            // its pieces
  int total_;
};

}  // namespace ts
