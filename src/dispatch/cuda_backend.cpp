#include "dispatch/cuda_backend.hpp"

#include <fmt/format.h>

#include "runtime/cuda/device.hpp"

namespace tilesmith {

Result<CudaDeviceProperties> cuda_device_properties(int device_index) {
  const Result<std::vector<CudaDeviceInfo>>& devices = cuda_devices();
  if (!devices) return std::unexpected(devices.error());
  if (device_index < 0 || static_cast<std::size_t>(device_index) >= devices->size())
    return fail(ErrorCode::not_found, fmt::format("there is no device cuda:{}", device_index),
                fmt::format("cuda:0 to cuda:{}", devices->size() - 1));
  const CudaDeviceInfo& device = (*devices)[static_cast<std::size_t>(device_index)];
  return CudaDeviceProperties{device.compute_major, device.compute_minor, device.sm_count, device.l2_bytes,
                              device.memory_bytes_per_second};
}

Result<std::unique_ptr<CudaBackend>> CudaBackend::make(int device_index, const CudaDeviceProperties& facts) {
  TS_ASSIGN(const std::vector<CudaSpec> specs, load_cuda_specs());
  TS_ASSIGN(const CudaSpec* known, spec_for(specs, facts.compute_major, facts.compute_minor));
  CudaSpec spec = *known;
  spec.reference.sms = facts.sm_count;
  if (facts.l2_bytes > 0) spec.reference.l2_bytes = static_cast<long>(facts.l2_bytes);
  if (facts.memory_bytes_per_second > 0) spec.reference.bytes_per_second = facts.memory_bytes_per_second;
  return std::unique_ptr<CudaBackend>(new CudaBackend(device_index, std::move(spec)));
}

}  // namespace tilesmith
