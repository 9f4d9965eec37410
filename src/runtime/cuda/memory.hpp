// Device and pinned host memory, and what is done to it in a stream.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/error.hpp"
#include "runtime/cuda/owned.hpp"

namespace tilesmith {

/// Memory of a device, given back at the end of its life. Giving back waits for the device.
class CudaBuffer {
 public:
  /// 0 bytes are an empty buffer. Error: `out_of_memory` with what was asked for and what is free.
  [[nodiscard]] static Result<CudaBuffer> allocate(const CudaContext& context, std::size_t bytes);

  CudaBuffer() = default;

  /// At least 256-byte aligned; a device address, which the host must not follow.
  [[nodiscard]] void* data() const { return reinterpret_cast<void*>(owned_.handle()); }
  [[nodiscard]] std::size_t bytes() const { return data() == nullptr ? 0 : bytes_; }

 private:
  CudaBuffer(const CudaContext& context, cu::DevicePointer pointer, std::size_t bytes)
      : owned_(context, pointer), bytes_(bytes) {}

  CudaOwned<cu::DevicePointer, &CudaDriver::mem_free> owned_;
  std::size_t bytes_ = 0;
};

/// Pinned memory of the host: copies from and to it run beside the host's work.
class CudaHostBuffer {
 public:
  [[nodiscard]] static Result<CudaHostBuffer> allocate(const CudaContext& context, std::size_t bytes);

  CudaHostBuffer() = default;

  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(owned_.handle()); }
  [[nodiscard]] std::size_t bytes() const { return data() == nullptr ? 0 : bytes_; }

 private:
  CudaHostBuffer(const CudaContext& context, void* pointer, std::size_t bytes)
      : owned_(context, pointer), bytes_(bytes) {}

  CudaOwned<void*, &CudaDriver::mem_free_host> owned_;
  std::size_t bytes_ = 0;
};

// Work in a stream: each returns when it is queued. A copy from or to pageable memory may wait for the device instead;
// its memory may be changed when the call returns (from) or the stream was synchronised (to).
[[nodiscard]] Status copy_to_device(const CudaContext& context, void* device, const void* host, std::size_t bytes,
                                    cu::Stream stream = nullptr);
[[nodiscard]] Status copy_to_host(const CudaContext& context, void* host, const void* device, std::size_t bytes,
                                  cu::Stream stream = nullptr);
[[nodiscard]] Status copy_on_device(const CudaContext& context, void* to, const void* from, std::size_t bytes,
                                    cu::Stream stream = nullptr);
/// Between memories of either, told apart by their addresses.
[[nodiscard]] Status copy_anywhere(const CudaContext& context, void* to, const void* from, std::size_t bytes,
                                   cu::Stream stream = nullptr);
[[nodiscard]] Status fill_bytes(const CudaContext& context, void* device, std::uint8_t value, std::size_t bytes,
                                cu::Stream stream = nullptr);
/// `device` is 4-byte aligned, `words` counts 32-bit words.
[[nodiscard]] Status fill_words(const CudaContext& context, void* device, std::uint32_t value, std::size_t words,
                                cu::Stream stream = nullptr);

}  // namespace tilesmith
