// A CUDA device: one registry of loaded kernels for all its operations.
#pragma once

#include "choose/device_class.hpp"
#include "dispatch/attention/cuda.hpp"
#include "dispatch/attention_backward/cuda.hpp"
#include "dispatch/backend.hpp"
#include "dispatch/conv/cuda.hpp"
#include "dispatch/cuda_registry.hpp"
#include "dispatch/gemm/cuda.hpp"
#include "dispatch/gemm/cuda_list.hpp"
#include "dispatch/serving/cuda.hpp"
#include "runtime/cuda/driver.hpp"
#include "spec/cuda/spec.hpp"

namespace tilesmith {

/// What choosing among kernels needs to know of a device: plain figures, so that a process that must not touch the
/// driver itself (because it forks workers that do) can be told them.
struct CudaDeviceProperties {
  int compute_major = 0;
  int compute_minor = 0;
  int sm_count = 0;
  std::int64_t l2_bytes = 0;
  double memory_bytes_per_second = 0;  ///< 0: unknown
};

/// Asks the driver. Errors: not_found (no driver, no such device), unsupported.
[[nodiscard]] Result<CudaDeviceProperties> cuda_device_properties(int device_index);

class CudaBackend final : public Backend {
 public:
  /// Does not touch the device. Errors: unsupported when its architecture is not known.
  [[nodiscard]] static Result<std::unique_ptr<CudaBackend>> make(int device_index, const CudaDeviceProperties& facts);

  /// With the figures of the device at hand.
  [[nodiscard]] const CudaSpec& spec() const { return spec_; }

  [[nodiscard]] std::string device_class() const override { return tilesmith::device_class(spec_); }
  [[nodiscard]] std::string compiler() override { return registry_.compiler(); }
  [[nodiscard]] std::vector<Status> build(std::span<const KernelConfig> configs, int workers,
                                          const BuildCounter& progress) override {
    return registry_.build(configs, workers, progress);
  }

  [[nodiscard]] Status check_usable() const override {
    if (cuda_is_lost()) return std::unexpected(cuda_lost_error());
    return {};
  }

 private:
  CudaBackend(int device_index, CudaSpec spec)
      : Backend({DeviceKind::cuda, device_index}),
        spec_(std::move(spec)),
        registry_(spec_),
        attention_(device_index, spec_, registry_, append_kv_),
        attention_backward_(device_index, spec_, registry_),
        gemm_(device_index, spec_, registry_),
        conv_(device_index, spec_, registry_, gemm_),
        gemm_list_(device_index, spec_, registry_),
        merge_states_(device_index, spec_, registry_),
        append_kv_(device_index, spec_, registry_) {
    add<AttentionFwd>(attention_);
    add<AttentionBwd>(attention_backward_);
    add<Conv>(conv_);
    add<Gemm>(gemm_);
    add<ListOf<Gemm>>(gemm_list_);
    add<MergeStatesCall>(merge_states_);
    add<AppendKvCall>(append_kv_);
  }

  CudaSpec spec_;
  CudaRegistry registry_;
  CudaAttention attention_;
  CudaAttentionBackward attention_backward_;
  CudaGemm gemm_;
  CudaConv conv_;
  CudaGemmList gemm_list_;
  CudaMergeStates merge_states_;
  CudaAppendKv append_kv_;
};

}  // namespace tilesmith
