// The two sides of a block of decode's kernels for Hopper. The first producer takes pieces from the queue and tells all
// threads of the block their numbers, each once all have heard the one before.
//
// Needs of a layout: kConsumerThreads, kProducerThreads, kListOffset, kProducerListOffset, kNumberOffset, kConsumersMeet and
// kProducersMeet, and a map of shared memory with number_told() and number_heard().
#pragma once

namespace ts {

TS_DEVICE void tell_number(u32 shared, int number, u32 parity) {
  const SharedMap map{shared};
  mbarrier_wait(map.number_heard(), parity ^ 1);
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(shared + kNumberOffset), "r"(number) : "memory");
  mbarrier_arrive(map.number_told());
}
TS_DEVICE int hear_number(u32 shared, u32& parity) {
  const SharedMap map{shared};
  mbarrier_wait(map.number_told(), parity);
  int number;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(number) : "r"(shared + kNumberOffset) : "memory");
  __syncwarp();
  if (threadIdx.x % 32 == 0) mbarrier_arrive(map.number_heard());
  parity ^= 1;
  return number;
}

struct Consumers {
  static constexpr bool kTakesFromQueue = cfg::kTakesFromQueue;
  static constexpr int kThreads = kConsumerThreads;
  static constexpr bool kStartsEarly = ts::kStartsEarly, kClusters = ts::kClusters;
  static constexpr int kListOffset = ts::kListOffset;
  TS_DEVICE static int thread() { return threadIdx.x; }
  TS_DEVICE static void sync() { named_barrier_sync(kConsumersMeet, kThreads); }
  TS_DEVICE static bool all(bool holds) { return named_barrier_all(kConsumersMeet, kThreads, holds); }
  TS_DEVICE static bool is_first_of_block() { return false; }
  TS_DEVICE static int tell(u32 shared, int, u32& parity) { return hear_number(shared, parity); }
};

struct Producers {
  static constexpr bool kTakesFromQueue = cfg::kTakesFromQueue;
  static constexpr int kThreads = kProducerThreads;
  static constexpr bool kStartsEarly = ts::kStartsEarly, kClusters = ts::kClusters;
  static constexpr int kListOffset = kProducerListOffset;
  TS_DEVICE static int thread() { return threadIdx.x - kConsumerThreads; }
  TS_DEVICE static void sync() { named_barrier_sync(kProducersMeet, kThreads); }
  TS_DEVICE static bool all(bool holds) { return named_barrier_all(kProducersMeet, kThreads, holds); }
  TS_DEVICE static bool is_first_of_block() { return thread() == 0; }
  TS_DEVICE static int tell(u32 shared, int number, u32& parity) {
    if (is_first_of_block()) tell_number(shared, number, parity);
    return hear_number(shared, parity);
  }
};

}  // namespace ts
