// Thin names for the instructions of sm_80 that bring operands to the mma: asynchronous copies, ldmatrix.
#pragma once

#include "../../common/matrices.cuh"

namespace ts {

// Sixteen bytes from global to shared memory; zeros when `valid` is false (the address is then not read).
TS_DEVICE void copy_async(u32 destination, const void* source, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(destination), "l"(source), "r"(valid ? 16 : 0)
               : "memory");
}
// The same for the first `bytes` of the sixteen; the rest becomes zeros.
TS_DEVICE void copy_async_part(u32 destination, const void* source, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(destination), "l"(source), "r"(bytes) : "memory");
}
// Four bytes.
TS_DEVICE void copy_async_word(u32 destination, const void* source, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(destination), "l"(source), "r"(valid ? 4 : 0)
               : "memory");
}
TS_DEVICE void copy_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Waits until at most kPending of this thread's newest groups of copies are under way.
template <int kPending>
TS_DEVICE void copy_wait_for() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}
TS_DEVICE void copy_wait() {
  copy_wait_for<0>();
}
// Arrives at an mbarrier when all copies of this thread so far have arrived.
TS_DEVICE void arrive_after_copies(u32 barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

// Two neighbouring words of shared memory.
TS_DEVICE void load_pair(u32& first, u32& second, u32 address) {
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(first), "=r"(second) : "r"(address) : "memory");
}

}  // namespace ts
