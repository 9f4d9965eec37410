// Joins items' partial results in a launch of its own, where most items of a list may have one piece: PartsJoin's blocks, of
// which there is one for each share of an item's rows, would come and go for nothing, and each fills an SM by its registers.
// So it is an entry of its own, with the registers that it takes, and so many blocks as the device holds look all items through.
//
// Launch: kThreads threads, ts_decode_join_bytes of dynamic shared memory, any number of blocks.
#pragma once

#include "parts_join.cuh"

namespace ts {

struct FoundJoin : PartsJoin {
  using PartsJoin::PartsJoin;

  TS_DEVICE void run() {
    let_next_kernel_start();
    wait_for_previous_kernel();
    const int items = static_cast<int>(args.batch * args.heads_kv) * args.row_blocks;
#pragma unroll 1
    for (int first = 0; first < items; first += kThreads) {
      const int own = first + static_cast<int>(threadIdx.x);
      const int count = list_cut(own, own < items && take_item(own) > 1);
      // Blocks share out what each of the items takes.
#pragma unroll 1
      for (int at = blockIdx.x; at < count * args.join_blocks; at += gridDim.x) {
        const int number = load_number(found() + 4 * (at / args.join_blocks));
        join_units(number, take_item(number), at % args.join_blocks);
        __syncthreads();
      }
      __syncthreads();
    }
  }

 private:
  // The item of a number, and how many pieces it has; none where it has no rows.
  TS_DEVICE int take_item(int item_number) {
    const int of_batch = args.row_blocks * static_cast<int>(args.heads_kv), of_item = item_number % of_batch;
    item = item_of(args, item_number / of_batch, of_item / args.row_blocks, of_item % args.row_blocks);
    return item.rows(args) > 0 ? piece_count(item_number) : 0;
  }

  // Behind the lanes' results: the items that are cut, of as many as there are threads, and how many each warp has found.
  TS_DEVICE u32 found() const { return shared + kThreads * TS_DECODE_JOIN_LANE_BYTES; }
  TS_DEVICE u32 count_of(int warp) const { return found() + 4 * (kThreads + warp); }

  // Leaves the items that are cut in order, and tells how many.
  TS_DEVICE int list_cut(int own, bool cut) const {
    const int warp = threadIdx.x / 32;
    const u32 of_warp = __ballot_sync(0xffffffffu, cut);
    if (lane() == 0) store_number(count_of(warp), __popc(of_warp));
    __syncthreads();
    int count = 0, before = __popc(of_warp & ((1u << lane()) - 1));
#pragma unroll 1
    for (int w = 0; w < kThreads / 32; ++w) {
      const int of_other = load_number(count_of(w));
      before += w < warp ? of_other : 0;
      count += of_other;
    }
    if (cut) store_number(found() + 4 * before, own);
    __syncthreads();
    return count;
  }

  TS_DEVICE static void store_number(u32 to, int number) {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(number) : "memory");
  }
  TS_DEVICE static int load_number(u32 from) {
    int number;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(number) : "r"(from) : "memory");
    return number;
  }
};

}  // namespace ts

// The entry's name follows from that of the kernel that leaves the parts.
#define TS_FOUND_JOIN_OF(entry) entry##_found_join
#define TS_FOUND_JOIN(entry) TS_FOUND_JOIN_OF(entry)

extern "C" __global__ void __launch_bounds__(ts::kThreads)
    TS_FOUND_JOIN(TS_ENTRY)(const __grid_constant__ TsCudaDecodeArgs args) {
  extern __shared__ __align__(1024) unsigned char dynamic_shared[];
  ts::FoundJoin(args, ts::smem_address(dynamic_shared)).run();
}
