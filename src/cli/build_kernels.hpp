// Kernels into the store, with progress and what went wrong.
#pragma once

#include <span>

#include "base/error.hpp"
#include "dispatch/kernel_builder.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith::cli {

/// Prints how many kernels are in the store, and why the others are not; each reason once. Instances that have no
/// source are counted by reason. Error: compile_failed, when a kernel that has one could not be built or
/// kept.
[[nodiscard]] Status build_kernels(KernelBuilder& builder, std::span<const KernelConfig> configs, int workers);

}  // namespace tilesmith::cli
