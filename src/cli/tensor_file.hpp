// Tensors named on the command line: "x.npy", "model.safetensors:layer0.q", or "model.safetensors" when it holds one
// tensor.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/host_array.hpp"

namespace tilesmith::cli {

[[nodiscard]] Result<HostArray> read_tensor(const std::string& argument);
/// A rank-1 array of integers that fit 32 bits.
[[nodiscard]] Result<std::vector<std::int32_t>> read_offsets(const std::string& argument);

/// Whether tensors can be written to these places: .npy, or .safetensors[:name]; several in one .safetensors file need
/// names of their own. Empty arguments are skipped.
struct TensorTarget {
  std::string argument;
  std::string default_name;
};
[[nodiscard]] Status check_targets(std::span<const TensorTarget> targets);
/// Writes each array to its target. All files appear together, or none does.
[[nodiscard]] Status write_tensors(std::span<const TensorTarget> targets, std::span<const HostArray> arrays);

}  // namespace tilesmith::cli
