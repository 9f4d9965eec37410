// An AMD GPU: one registry of loaded kernels for all its operations.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "choose/device_class.hpp"
#include "dispatch/attention/hip.hpp"
#include "dispatch/backend.hpp"
#include "dispatch/gemm/hip.hpp"
#include "dispatch/hip_registry.hpp"
#include "runtime/hip/library.hpp"
#include "spec/hip/spec.hpp"

namespace tilesmith {

/// What choosing among kernels needs to know of a device: a process that must not touch the runtime itself (because it
/// forks workers that do) can be told it.
struct HipDeviceProperties {
  std::string arch;  ///< "gfx942"
  int compute_units = 0;
};

/// Asks the HIP runtime. Errors: not_found (no runtime, no such device), unsupported.
[[nodiscard]] Result<HipDeviceProperties> hip_device_properties(int device_index);

class HipBackend final : public Backend {
 public:
  /// Does not touch the device. Errors: unsupported when there are no kernels for its architecture.
  [[nodiscard]] static Result<std::unique_ptr<HipBackend>> make(int device_index, const HipDeviceProperties& facts);

  /// With the figures of the device at hand.
  [[nodiscard]] const HipSpec& spec() const { return spec_; }

  [[nodiscard]] std::string device_class() const override { return tilesmith::device_class(spec_); }
  [[nodiscard]] std::string compiler() override { return registry_.compiler(); }
  [[nodiscard]] std::vector<Status> build(std::span<const KernelConfig> configs, int workers,
                                          const BuildCounter& progress) override {
    return registry_.build(configs, workers, progress);
  }

  [[nodiscard]] Status check_usable() const override {
    if (hip_is_lost()) return std::unexpected(hip_lost_error());
    return {};
  }

 private:
  HipBackend(int device_index, HipSpec spec)
      : Backend({DeviceKind::hip, device_index}),
        spec_(std::move(spec)),
        registry_(spec_),
        attention_(device_index, spec_, registry_),
        gemm_(device_index, spec_, registry_) {
    add<AttentionFwd>(attention_);
    add<Gemm>(gemm_);
  }

  HipSpec spec_;
  HipRegistry registry_;
  HipAttention attention_;
  HipGemm gemm_;
};

}  // namespace tilesmith
