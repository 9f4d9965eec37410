// A code object as a loader lays it out in memory: its segments at their addresses, its kernels with their descriptors
// and the layout of their arguments.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tilesmith::amdgpu {

/// One entry of a kernel's arguments (AMDGPU usage guide of LLVM, "Code Object V5 Metadata").
struct KernelArgument {
  std::string kind;  ///< "by_value", "global_buffer", "hidden_block_count_x", ...
  std::size_t offset = 0, bytes = 0;
};

/// The descriptor of 64 bytes at the symbol NAME.kd (AMDGPU usage guide, "Kernel Descriptor").
struct KernelDescriptor {
  std::uint32_t group_segment_bytes, private_segment_bytes, kernarg_bytes;
  std::uint8_t reserved0[4];
  std::int64_t entry_offset;  ///< from the descriptor
  std::uint8_t reserved1[20];
  std::uint32_t resources3, resources1, resources2;
  std::uint16_t properties, kernarg_preload;
  std::uint8_t reserved2[4];
};
static_assert(sizeof(KernelDescriptor) == 64);

struct Kernel {
  std::string name;
  KernelDescriptor descriptor{};
  std::uint64_t entry = 0;  ///< address within the image
  std::vector<KernelArgument> arguments;
  int lanes = 64;  ///< of a wave
};

class CodeObjectImage {
 public:
  /// Fault: it is no code object, or needs what no own kernel does.
  explicit CodeObjectImage(std::string_view bytes);

  [[nodiscard]] const std::string& chip() const { return chip_; }
  [[nodiscard]] const Kernel& kernel(std::string_view name) const;
  [[nodiscard]] const std::vector<Kernel>& kernels() const { return kernels_; }
  /// Where address 0 of the image lies, and how long it is.
  [[nodiscard]] const char* memory() const { return memory_.data(); }
  [[nodiscard]] std::size_t bytes() const { return memory_.size(); }

 private:
  std::string chip_;
  std::vector<char> memory_;
  std::vector<Kernel> kernels_;
};

}  // namespace tilesmith::amdgpu
