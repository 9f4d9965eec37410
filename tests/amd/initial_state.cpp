#include "amd/initial_state.hpp"

#include <algorithm>
#include <cstring>

#include "amd/fault.hpp"

namespace tilesmith::amdgpu {
namespace {

// Of KernelDescriptor::properties.
constexpr int kPrivateBuffer = 0, kKernargPointer = 3, kWave32 = 10;
constexpr std::uint16_t kKnownProperties = 1 << kPrivateBuffer | 1 << kKernargPointer | 1 << kWave32;

std::uint64_t hidden_value(std::string_view kind, const Grid& grid) {
  constexpr std::string_view kAxes = "xyz";
  const std::size_t axis = kAxes.find(kind.back());
  if (kind.starts_with("hidden_block_count_")) return grid.blocks[axis];
  if (kind.starts_with("hidden_group_size_")) return grid.threads[axis];
  if (kind.starts_with("hidden_remainder_") || kind.starts_with("hidden_global_offset_")) return 0;
  if (kind == "hidden_grid_dims") return 3;
  fault("the argument {} is not emulated", kind);
}

}  // namespace

std::vector<char> kernel_arguments(const Kernel& kernel, std::string_view given, const Grid& grid) {
  std::vector<char> all(kernel.descriptor.kernarg_bytes);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<char>(kPoison >> (8 * (i % 4)));
  std::size_t wanted = 0;
  for (const KernelArgument& argument : kernel.arguments) {
    if (argument.offset > all.size() || argument.bytes > all.size() - argument.offset)
      fault("an argument lies outside of the {} bytes of arguments", all.size());
    if (!argument.kind.starts_with("hidden_")) {
      wanted = std::max(wanted, argument.offset + argument.bytes);
    } else {
      const std::uint64_t value = hidden_value(argument.kind, grid);
      std::memcpy(all.data() + argument.offset, &value, std::min(argument.bytes, sizeof value));
    }
  }
  if (given.size() != wanted) fault("the kernel takes {} bytes of arguments, not {}", wanted, given.size());
  std::memcpy(all.data(), given.data(), given.size());
  return all;
}

void set_initial_state(Wave& wave, const Launch& launch, std::array<std::uint32_t, 3> block, int first) {
  const KernelDescriptor& d = launch.kernel.descriptor;
  for (int i = 0; i < kScalars; ++i) wave.set_scalar(i, kPoison);
  for (int i = 0; i < 2 * kAccumulation; ++i) wave.row(i).fill(kPoison);
  wave.image = reinterpret_cast<std::uint64_t>(launch.program.image().memory());

  if ((d.properties & ~kKnownProperties) != 0)
    fault("the kernel asks for initial registers that are not emulated (properties {:#x})", d.properties);
  if ((d.properties >> kWave32 & 1) != (wave.lanes == 32 ? 1 : 0)) fault("the size of a wave is told in two ways");
  // Kernels without memory of their own for each lane do not use its buffer, which stays poison.
  const int pointer = (d.properties >> kPrivateBuffer & 1) != 0 ? 4 : 0;
  if ((d.properties >> kKernargPointer & 1) != 0)
    wave.set_scalar_pair(pointer, reinterpret_cast<std::uint64_t>(launch.arguments.data()));
  if (d.kernarg_preload != 0) fault("arguments in registers are not emulated");
  int next = static_cast<int>(d.resources2 >> 1 & 31);  // user registers
  if (launch.program.chip().family == Family::rdna4) {
    wave.set_scalar(kTtmp + 9, block[0]);
    wave.set_scalar(kTtmp + 7, block[1] | block[2] << 16);
  } else {
    for (int axis = 0; axis < 3; ++axis)
      if ((d.resources2 >> (7 + axis) & 1) != 0) wave.set_scalar(next++, block[static_cast<std::size_t>(axis)]);
  }

  const auto& threads = launch.grid.threads;
  const int count = static_cast<int>(threads[0] * threads[1] * threads[2]);
  std::uint64_t exec = 0;
  for (int lane = 0; lane < wave.lanes && first + lane < count; ++lane) {
    const auto thread = static_cast<std::uint32_t>(first + lane);
    const std::uint32_t x = thread % threads[0], y = thread / threads[0] % threads[1],
                        z = thread / (threads[0] * threads[1]);
    wave.row(0)[static_cast<std::size_t>(lane)] = x | y << 10 | z << 20;
    exec |= std::uint64_t{1} << lane;
  }
  wave.set_mask(kExec, exec);
}

}  // namespace tilesmith::amdgpu
