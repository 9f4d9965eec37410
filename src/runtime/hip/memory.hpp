// Memory of AMD GPUs and pinned memory of the host, and what is done to it in a stream.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/error.hpp"
#include "runtime/hip/owned.hpp"

namespace tilesmith {

/// Memory of a device, given back at the end of its life. Giving back waits for the device.
class HipBuffer {
 public:
  /// 0 bytes are an empty buffer. Error: `out_of_memory` with what was asked for and what is free.
  [[nodiscard]] static Result<HipBuffer> allocate(const HipDevice& device, std::size_t bytes);

  HipBuffer() = default;

  /// At least 256-byte aligned; a device address, which the host must not follow.
  [[nodiscard]] void* data() const { return owned_.handle(); }
  [[nodiscard]] std::size_t bytes() const { return data() == nullptr ? 0 : bytes_; }

 private:
  HipBuffer(const HipDevice& device, void* pointer, std::size_t bytes) : owned_(device, pointer), bytes_(bytes) {}

  HipOwned<void*, &HipLibrary::free> owned_;
  std::size_t bytes_ = 0;
};

/// Pinned memory of the host: copies from and to it run beside the host's work.
class HipHostBuffer {
 public:
  [[nodiscard]] static Result<HipHostBuffer> allocate(const HipDevice& device, std::size_t bytes);

  HipHostBuffer() = default;

  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(owned_.handle()); }
  [[nodiscard]] std::size_t bytes() const { return data() == nullptr ? 0 : bytes_; }

 private:
  HipHostBuffer(const HipDevice& device, void* pointer, std::size_t bytes) : owned_(device, pointer), bytes_(bytes) {}

  HipOwned<void*, &HipLibrary::host_free> owned_;
  std::size_t bytes_ = 0;
};

// Work in a stream: each returns when it is queued. The host's memory may be changed when the stream was synchronised.
[[nodiscard]] Status copy_to_device(const HipDevice& device, void* to, const void* host, std::size_t bytes,
                                    hip::Stream stream = nullptr);
[[nodiscard]] Status copy_to_host(const HipDevice& device, void* host, const void* from, std::size_t bytes,
                                  hip::Stream stream = nullptr);
[[nodiscard]] Status copy_on_device(const HipDevice& device, void* to, const void* from, std::size_t bytes,
                                    hip::Stream stream = nullptr);
/// Between memories of either, told apart by their addresses.
[[nodiscard]] Status copy_anywhere(const HipDevice& device, void* to, const void* from, std::size_t bytes,
                                   hip::Stream stream = nullptr);
[[nodiscard]] Status fill_bytes(const HipDevice& device, void* to, std::uint8_t value, std::size_t bytes,
                                hip::Stream stream = nullptr);
/// `to` is 4-byte aligned, `words` counts 32-bit words.
[[nodiscard]] Status fill_words(const HipDevice& device, void* to, std::uint32_t value, std::size_t words,
                                hip::Stream stream = nullptr);

}  // namespace tilesmith
