// What a kernel finds when it begins: its arguments in memory, and the registers that the hardware sets (AMDGPU usage
// guide of LLVM, "Initial Kernel Execution State").
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "amd/machine.hpp"
#include "amd/wave.hpp"

namespace tilesmith::amdgpu {

/// Explicit arguments, and the hidden ones that follow from the grid; what is left is poison. Fault: their size is
/// wrong.
[[nodiscard]] std::vector<char> kernel_arguments(const Kernel& kernel, std::string_view given, const Grid& grid);

struct Launch {
  const Program& program;
  const Kernel& kernel;
  const Grid& grid;
  const DeviceMemory& memory;
  const std::vector<char>& arguments;
};

/// Of the wave whose first thread is thread `first` of the block. Fault: the kernel asks for something that own kernels
/// do not (a dispatch pointer, scratch, ...).
void set_initial_state(Wave& wave, const Launch& launch, std::array<std::uint32_t, 3> block, int first);

}  // namespace tilesmith::amdgpu
