// Tensors named on the command line: "x.npy", "model.safetensors:layer0.q", or "model.safetensors" when it holds one tensor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/host_array.hpp"

namespace tilesmith::cli {

[[nodiscard]] Result<HostArray> read_tensor(const std::string& argument);
/// A rank-1 array of integers that fit 32 bits.
[[nodiscard]] Result<std::vector<std::int32_t>> read_offsets(const std::string& argument);
/// By its extension: .npy, or .safetensors[:name] (the name defaults to `name`).
[[nodiscard]] Status write_tensor(const std::string& argument, const std::string& name, const HostArray& array);

}  // namespace tilesmith::cli
