// What trials need of a device, whatever the operation: the inputs of a case lie there, outputs travel there and back,
// calls are timed.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/function_ref.hpp"
#include "measure/measure.hpp"
#include "tilesmith/device.hpp"
#include "tilesmith/dispatcher.hpp"
#include "trial/call_memory.hpp"

namespace tilesmith {

/// An output in memory of the host, perhaps between red zones, which travel with it.
struct OutputMemory {
  const OutputSpec* spec = nullptr;
  std::span<std::byte> storage{};
  std::size_t offset = 0;  ///< of the output's first element in the storage, in bytes
};

/// A call that is ready to run, any number of times.
using ReadyCall = std::function<Status()>;
/// Makes the call on tensors that lie where `memory` says.
using BindCall = FunctionRef<ReadyCall(const CallMemory& memory, const RunOptions& options)>;

struct ChangedInput {
  std::string name;
  std::size_t byte = 0;  ///< the first that differs
};

/// The first byte in which two memories of this size differ.
[[nodiscard]] std::optional<std::size_t> first_difference(const void* left, const void* right, std::size_t bytes);

class TrialDevice {
 public:
  TrialDevice() = default;
  TrialDevice(const TrialDevice&) = delete;
  TrialDevice& operator=(const TrialDevice&) = delete;
  virtual ~TrialDevice() = default;

  [[nodiscard]] virtual DeviceKind kind() const = 0;
  /// Runs the call once on these outputs, with the contents that they have, on a CPU in a workspace of this many bytes
  /// full of NaNs. What the call leaves in the storage, outside the outputs too, is there when this returns.
  [[nodiscard]] virtual Status run(std::span<const OutputMemory> outputs, std::size_t workspace, BindCall bind) = 0;
  /// Keeps the inputs as they are now, where the device works on the host's own, for `changed_input`.
  [[nodiscard]] virtual Status keep_inputs() = 0;
  /// Compares every input bit for bit with what it was when `keep_inputs` was called, or with what it was said to
  /// become; says which one a call changed otherwise.
  [[nodiscard]] virtual Result<std::optional<ChangedInput>> changed_input() = 0;
  [[nodiscard]] virtual Result<Timing> time(std::span<const OutputSpec> outputs, BindCall bind,
                                            const MeasureOptions& options) = 0;
};

/// Copies the inputs to the device where it has memory of its own. They must outlive the trial. Errors:
/// not_found (no driver), invalid_argument (no such device), out_of_memory.
[[nodiscard]] Result<std::unique_ptr<TrialDevice>> open_trial_device(Device device, std::vector<NamedInput> inputs);

}  // namespace tilesmith
