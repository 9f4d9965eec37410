// Thin names for the Hopper instructions that only GEMM uses: copies of three-dimensional tensors, clusters.
#pragma once

#include "../../attention/hopper/ptx.cuh"
#include "../../common/launch.cuh"

namespace ts::gemm {

TS_DEVICE void load_box(u32 destination, const void* map, u32 barrier, int c0, int c1, int c2) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::
          "r"(destination),
      "l"(map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2)
      : "memory");
}
// The box and its bytes' completion arrive at the same place in every block of `mask`.
TS_DEVICE void load_box_multicast(u32 destination, const void* map, u32 barrier, int c0, int c1, int c2, u32 mask) {
  asm volatile(
      "{ .reg .b16 m; cvt.u16.u32 m, %6;\n"
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, "
      "%4, %5}], [%2], m; }" ::"r"(destination),
      "l"(map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(mask)
      : "memory");
}
TS_DEVICE void store_box(const void* map, u32 source, int c0, int c1, int c2) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
               "r"(source), "r"(c0), "r"(c1), "r"(c2)
               : "memory");
}
TS_DEVICE void store_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Waits until at most kPending of this thread's stores still read shared memory.
template <int kPending>
TS_DEVICE void store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}
TS_DEVICE void store_wait_done() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

TS_DEVICE u32 cluster_rank() {
  u32 r;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}
TS_DEVICE u32 cluster_blocks() {
  u32 n;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(n));
  return n;
}
TS_DEVICE u32 cluster_index() {
  u32 i;
  asm volatile("mov.u32 %0, %%clusterid.x;" : "=r"(i));
  return i;
}
// Shows the other blocks only what a fence has released, such as fence_mbarrier_init: an arrival that releases puts a
// memory barrier of the whole chip into the start of each block.
TS_DEVICE void cluster_sync_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
// Without .release.cluster, which would put a memory barrier of the whole chip into the main loop: the consumer only
// says that its reads are done.
TS_DEVICE void mbarrier_arrive_at(u32 barrier, u32 block) {
  asm volatile(
      "{ .reg .b32 r; mapa.shared::cluster.u32 r, %0, %1; mbarrier.arrive.shared::cluster.b64 _, [r]; }" ::"r"(barrier),
      "r"(block)
      : "memory");
}

}  // namespace ts::gemm
