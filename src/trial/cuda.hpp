// Trials on a CUDA device: a stream of their own, copies of the inputs, outputs that travel there and back.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "measure/cuda.hpp"
#include "runtime/cuda/memory.hpp"
#include "runtime/cuda/stream.hpp"
#include "trial/device.hpp"

namespace tilesmith {

class CudaTrialDevice final : public TrialDevice {
 public:
  /// Copies the inputs. Errors: not_found (no driver), invalid_argument (no such device), out_of_memory.
  [[nodiscard]] static Result<std::unique_ptr<TrialDevice>> create(int device_index,
                                                                   std::span<const NamedInput> inputs);

  [[nodiscard]] DeviceKind kind() const override { return DeviceKind::cuda; }
  [[nodiscard]] Status run(std::span<const OutputMemory> outputs, std::size_t workspace, BindCall bind) override;
  [[nodiscard]] Status keep_inputs() override { return {}; }  // the host's are beyond a kernel's reach
  [[nodiscard]] Result<std::optional<ChangedInput>> changed_input() override;
  [[nodiscard]] Result<Timing> time(std::span<const OutputSpec> outputs, BindCall bind,
                                    const MeasureOptions& options) override;

 private:
  CudaTrialDevice(const CudaContext& context, CudaStream stream, std::span<const NamedInput> originals)
      : context_(&context), stream_(std::move(stream)), originals_(originals.begin(), originals.end()) {}

  /// The inputs where they lie on the device.
  [[nodiscard]] CallMemory inputs_there() const;

  const CudaContext* context_;
  CudaStream stream_;
  std::vector<NamedInput> originals_;  ///< the inputs on the host
  std::map<std::string, CudaBuffer> inputs_;
};

}  // namespace tilesmith
