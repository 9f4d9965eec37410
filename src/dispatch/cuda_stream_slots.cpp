#include "dispatch/cuda_stream_slots.hpp"

#include <fmt/format.h>

namespace tilesmith {

Result<std::size_t> CudaStreamSlots::of(cu::Stream stream) {
  const CudaDriver& driver = context_.driver();
  std::uint64_t identity = 0;
  TS_TRY(cuda_status(driver, driver.stream_get_id(stream, &identity), "asking for the stream's identity"));
  const std::uint64_t mine = identity + 1;
  for (std::size_t probe = 0; probe < kStreams; ++probe) {
    const std::size_t slot = (identity * 0x9e3779b97f4a7c15u + probe) % kStreams;
    std::uint64_t found = streams_[slot].load(std::memory_order_relaxed);
    if (found == 0 && streams_[slot].compare_exchange_strong(found, mine, std::memory_order_relaxed)) found = mine;
    if (found == mine) return slot;
  }
  return fail(ErrorCode::out_of_memory, fmt::format("more than {} streams ran kernels that keep memory", kStreams),
              "use streams again instead of making new ones");
}

}  // namespace tilesmith
