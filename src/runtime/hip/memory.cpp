#include "runtime/hip/memory.hpp"

#include <fmt/core.h>

namespace tilesmith {
namespace {

/// A call of the library with the device current.
template <class Call>
Status on_device(const HipDevice& device, std::string_view doing, const Call& call) {
  const HipCurrent current(device);
  TS_TRY(current.status());
  return hip_status(device.library(), call(device.library()), doing);
}

Error not_allocated(const HipDevice& device, hip::Code code, std::size_t bytes, std::string_view what) {
  std::string doing = fmt::format("allocating {} bytes of {}", bytes, what);
  if (const auto memory = device.memory(); code == hip::Code::out_of_memory && memory)
    doing += fmt::format(", with {} of {} free on {}", memory->free_bytes, memory->total_bytes, device.info().name);
  return hip_error(device.library(), code, doing);
}

}  // namespace

Result<HipBuffer> HipBuffer::allocate(const HipDevice& device, std::size_t bytes) {
  if (bytes == 0) return HipBuffer();
  const HipCurrent current(device);
  TS_TRY(current.status());
  void* pointer = nullptr;
  if (const hip::Code code = device.library().malloc(&pointer, bytes); code != hip::Code::success)
    return std::unexpected(not_allocated(device, code, bytes, "device memory"));
  return HipBuffer(device, pointer, bytes);
}

Result<HipHostBuffer> HipHostBuffer::allocate(const HipDevice& device, std::size_t bytes) {
  if (bytes == 0) return HipHostBuffer();
  const HipCurrent current(device);
  TS_TRY(current.status());
  void* pointer = nullptr;
  if (const hip::Code code = device.library().host_malloc(&pointer, bytes, 0); code != hip::Code::success)
    return std::unexpected(not_allocated(device, code, bytes, "pinned memory"));
  return HipHostBuffer(device, pointer, bytes);
}

Status copy_to_device(const HipDevice& device, void* to, const void* host, std::size_t bytes, hip::Stream stream) {
  if (bytes == 0) return {};
  return on_device(device, "copying to the device",
                   [&](const HipLibrary& library) { return library.memcpy_htod(to, host, bytes, stream); });
}

Status copy_to_host(const HipDevice& device, void* host, const void* from, std::size_t bytes, hip::Stream stream) {
  if (bytes == 0) return {};
  return on_device(device, "copying from the device", [&](const HipLibrary& library) {
    return library.memcpy_dtoh(host, const_cast<void*>(from), bytes, stream);
  });
}

Status copy_on_device(const HipDevice& device, void* to, const void* from, std::size_t bytes, hip::Stream stream) {
  if (bytes == 0) return {};
  return on_device(device, "copying on the device", [&](const HipLibrary& library) {
    return library.memcpy_dtod(to, const_cast<void*>(from), bytes, stream);
  });
}

Status copy_anywhere(const HipDevice& device, void* to, const void* from, std::size_t bytes, hip::Stream stream) {
  if (bytes == 0) return {};
  return on_device(device, "copying", [&](const HipLibrary& library) {
    return library.memcpy_any(to, from, bytes, hip::CopyKind::by_address, stream);
  });
}

Status fill_bytes(const HipDevice& device, void* to, std::uint8_t value, std::size_t bytes, hip::Stream stream) {
  if (bytes == 0) return {};
  return on_device(device, "filling device memory",
                   [&](const HipLibrary& library) { return library.memset_d8(to, value, bytes, stream); });
}

Status fill_words(const HipDevice& device, void* to, std::uint32_t value, std::size_t words, hip::Stream stream) {
  if (words == 0) return {};
  return on_device(device, "filling device memory", [&](const HipLibrary& library) {
    return library.memset_d32(to, static_cast<int>(value), words, stream);
  });
}

}  // namespace tilesmith
