// The essential set: the CPU instances compiled ahead into the library, so that Tilesmith works on a machine without a
// compiler and the first call on one with a compiler need not wait. Attention carries every trait, general rather than
// fastest.
#pragma once

#include <span>
#include <vector>

#include "kernels/cpu/abi.h"
#include "spec/cpu/spec.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// The set's members of one level, in a fixed order.
[[nodiscard]] std::vector<KernelConfig> essential_configs(const CpuSpec& spec);

/// The compiled set, all levels. The table is generated when the library is built (essential_generator.cpp).
[[nodiscard]] std::span<const TsCpuKernel* const> essential_kernels();

}  // namespace tilesmith
