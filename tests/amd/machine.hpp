// Runs a kernel of a code object: workgroups one after another, the waves of each in a random order that changes at any
// instruction. Registers, local memory and what is not set of the initial state hold poison; memory outside the given
// buffers cannot be touched.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "amd/device_memory.hpp"
#include "amd/program.hpp"
#include "base/error.hpp"

namespace tilesmith::amdgpu {

struct Grid {
  std::array<std::uint32_t, 3> blocks{1, 1, 1};
  std::array<std::uint32_t, 3> threads{1, 1, 1};  ///< of a block
};

struct RunOptions {
  std::uint32_t seed = 1;  ///< of the order of waves and of how early memory instructions are done; 0: one after
                           ///< another up to barriers, everything as late as it may be
  std::uint64_t most_instructions = std::uint64_t{1} << 28;  ///< of all waves together
};

struct RunReport {
  std::uint64_t instructions = 0;    ///< of all waves
  std::vector<std::uint64_t> times;  ///< that each instruction of the program was executed
};

/// `arguments` are the kernel's explicit ones, as its metadata lays them out. Errors: what the program did that it must
/// not, with the instruction, the wave and the workgroup.
[[nodiscard]] Result<RunReport> run(const Program& program, std::string_view kernel, std::string_view arguments,
                                    const Grid& grid, const DeviceMemory& memory, const RunOptions& options = {});

}  // namespace tilesmith::amdgpu
