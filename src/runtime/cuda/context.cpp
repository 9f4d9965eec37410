#include "runtime/cuda/context.hpp"

#include <fmt/core.h>

#include <map>
#include <mutex>

namespace tilesmith {

Result<std::unique_ptr<const CudaContext>> CudaContext::retain(const CudaDriver& driver, int device_index) {
  TS_ASSIGN(std::vector<CudaDeviceInfo> devices, cuda_devices(driver));
  if (device_index < 0 || device_index >= static_cast<int>(devices.size()))
    return fail(ErrorCode::invalid_argument, fmt::format("there is no CUDA device {}", device_index),
                devices.size() == 1 ? std::string("the only one is 0")
                                    : fmt::format("a number from 0 to {}", devices.size() - 1));
  const std::string doing = fmt::format("taking the context of CUDA device {}", device_index);
  cu::Device id = 0;
  TS_TRY(cuda_status(driver, driver.device_get(&id, device_index), doing));
  cu::Context handle = nullptr;
  TS_TRY(cuda_status(driver, driver.primary_ctx_retain(&handle, id), doing));
  return std::unique_ptr<const CudaContext>(
      new CudaContext(driver, std::move(devices[static_cast<std::size_t>(device_index)]), id, handle));
}

Result<const CudaContext*> CudaContext::of(int device_index) {
  if (cuda_is_lost()) return std::unexpected(cuda_lost_error());
  static std::mutex mutex;
  static auto* contexts = new std::map<int, std::unique_ptr<const CudaContext>>;
  const std::lock_guard guard(mutex);
  if (const auto found = contexts->find(device_index); found != contexts->end()) return found->second.get();
  TS_ASSIGN(const CudaDriver* driver, cuda_driver());
  TS_ASSIGN(auto context, retain(*driver, device_index));
  return contexts->emplace(device_index, std::move(context)).first->second.get();
}

CudaContext::~CudaContext() {
  driver_.primary_ctx_release(id_);
}

Status CudaContext::synchronize() const {
  const CudaCurrent current(*this);
  TS_TRY(current.status());
  return cuda_status(driver_, driver_.ctx_synchronize(), "synchronising the device");
}

Result<CudaMemoryInfo> CudaContext::memory() const {
  const CudaCurrent current(*this);
  TS_TRY(current.status());
  CudaMemoryInfo info;
  TS_TRY(cuda_status(driver_, driver_.mem_get_info(&info.free_bytes, &info.total_bytes), "asking for free memory"));
  return info;
}

}  // namespace tilesmith
