// Trials on a CUDA device.
#pragma once

#include <memory>
#include <span>

#include "trial/device.hpp"

namespace tilesmith {

/// Copies the inputs. Errors: not_found (no driver), invalid_argument (no such device), out_of_memory.
[[nodiscard]] Result<std::unique_ptr<TrialDevice>> open_cuda_trial_device(int device_index,
                                                                          std::span<const NamedInput> inputs);

}  // namespace tilesmith
