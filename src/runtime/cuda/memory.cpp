#include "runtime/cuda/memory.hpp"

#include <fmt/core.h>

namespace tilesmith {
namespace {

double mebibytes(std::size_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

cu::DevicePointer address(const void* pointer) {
  return reinterpret_cast<cu::DevicePointer>(pointer);
}

/// Queues one transfer; `queue` is called with the context current. `doing` has a place for the count.
template <class Queue>
Status transfer(const CudaContext& context, std::size_t count, std::string_view doing, const Queue& queue) {
  if (count == 0) return {};
  const CudaCurrent current(context);
  TS_TRY(current.status());
  const cu::Code code = queue(context.driver());
  if (code == cu::Code::success) return {};
  return std::unexpected(cuda_error(context.driver(), code, fmt::format(fmt::runtime(doing), count)));
}

}  // namespace

Result<CudaBuffer> CudaBuffer::allocate(const CudaContext& context, std::size_t bytes) {
  if (bytes == 0) return CudaBuffer();
  const CudaCurrent current(context);
  TS_TRY(current.status());
  cu::DevicePointer pointer = 0;
  const cu::Code code = context.driver().mem_alloc(&pointer, bytes);
  if (code == cu::Code::success) return CudaBuffer(context, pointer, bytes);
  std::string doing = fmt::format("allocating {:.1f} MiB on {}", mebibytes(bytes), context.device().name);
  if (const auto memory = context.memory())
    doing += fmt::format(", where {:.1f} of {:.1f} MiB are free", mebibytes(memory->free_bytes),
                         mebibytes(memory->total_bytes));
  return std::unexpected(cuda_error(context.driver(), code, doing));
}

Result<CudaHostBuffer> CudaHostBuffer::allocate(const CudaContext& context, std::size_t bytes) {
  if (bytes == 0) return CudaHostBuffer();
  const CudaCurrent current(context);
  TS_TRY(current.status());
  void* pointer = nullptr;
  const cu::Code code = context.driver().mem_host_alloc(&pointer, bytes, 0);
  if (code == cu::Code::success) return CudaHostBuffer(context, pointer, bytes);
  return std::unexpected(
      cuda_error(context.driver(), code, fmt::format("pinning {:.1f} MiB of host memory", mebibytes(bytes))));
}

Status copy_to_device(const CudaContext& context, void* device, const void* host, std::size_t bytes,
                      cu::Stream stream) {
  return transfer(context, bytes, "copying {} bytes to the device",
                  [&](const CudaDriver& driver) { return driver.memcpy_htod(address(device), host, bytes, stream); });
}

Status copy_to_host(const CudaContext& context, void* host, const void* device, std::size_t bytes, cu::Stream stream) {
  return transfer(context, bytes, "copying {} bytes from the device",
                  [&](const CudaDriver& driver) { return driver.memcpy_dtoh(host, address(device), bytes, stream); });
}

Status copy_on_device(const CudaContext& context, void* to, const void* from, std::size_t bytes, cu::Stream stream) {
  return transfer(context, bytes, "copying {} bytes on the device", [&](const CudaDriver& driver) {
    return driver.memcpy_dtod(address(to), address(from), bytes, stream);
  });
}

Status copy_anywhere(const CudaContext& context, void* to, const void* from, std::size_t bytes, cu::Stream stream) {
  return transfer(context, bytes, "copying {} bytes", [&](const CudaDriver& driver) {
    return driver.memcpy_any(address(to), address(from), bytes, stream);
  });
}

Status fill_bytes(const CudaContext& context, void* device, std::uint8_t value, std::size_t bytes, cu::Stream stream) {
  return transfer(context, bytes, "filling {} bytes on the device",
                  [&](const CudaDriver& driver) { return driver.memset_d8(address(device), value, bytes, stream); });
}

Status fill_words(const CudaContext& context, void* device, std::uint32_t value, std::size_t words, cu::Stream stream) {
  return transfer(context, words, "filling {} words on the device",
                  [&](const CudaDriver& driver) { return driver.memset_d32(address(device), value, words, stream); });
}

}  // namespace tilesmith
