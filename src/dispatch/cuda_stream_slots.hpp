// A number for each stream, so that what launches in one stream share can be kept in an array.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/error.hpp"
#include "runtime/cuda/context.hpp"

namespace tilesmith {

class CudaStreamSlots {
 public:
  static constexpr std::size_t kStreams = 1024;  ///< streams that can have a number

  explicit CudaStreamSlots(const CudaContext& context) : context_(context) {}

  /// The stream's number, below kStreams, by its identity, which the driver never gives twice. Takes no lock and
  /// allocates nothing. Error: out_of_memory when all numbers are given away.
  [[nodiscard]] Result<std::size_t> of(cu::Stream stream);

 private:
  const CudaContext& context_;
  std::array<std::atomic<std::uint64_t>, kStreams> streams_{};  ///< identity + 1; 0 is free
};

}  // namespace tilesmith
