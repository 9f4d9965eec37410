#include "cli/tensor_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "base/npy.hpp"
#include "base/safetensors.hpp"

namespace tilesmith::cli {
namespace {

constexpr std::string_view kSafetensors = ".safetensors";

struct FileAndName {
  std::string file;
  std::string name;
};

/// Splits "file.safetensors:name"; a colon elsewhere belongs to the path.
FileAndName split(const std::string& argument) {
  const auto at = argument.find(std::string(kSafetensors) + ":");
  if (at == std::string::npos) return {argument, {}};
  return {argument.substr(0, at + kSafetensors.size()), argument.substr(at + kSafetensors.size() + 1)};
}

Error wrong_extension(const std::string& argument) {
  return {ErrorCode::invalid_argument, fmt::format("{} is neither a .npy nor a .safetensors file", argument), "x.npy, or x.safetensors:tensor_name"};
}

}  // namespace

Result<HostArray> read_tensor(const std::string& argument) {
  const auto [file, name] = split(argument);
  if (file.ends_with(".npy")) return read_npy(file);
  if (!file.ends_with(kSafetensors)) return std::unexpected(wrong_extension(argument));
  TS_ASSIGN(const SafetensorsFile tensors, SafetensorsFile::open(file));
  if (!name.empty()) return tensors.read(name);
  if (tensors.entries().size() == 1) return tensors.read(tensors.entries().begin()->first);
  std::vector<std::string> names;
  for (const auto& [known, entry] : tensors.entries())
    if (names.size() < 20) names.push_back(known);
  return fail(ErrorCode::invalid_argument, fmt::format("{} holds {} tensors and none is named", file, tensors.entries().size()),
              fmt::format("{}:NAME with one of {}", file, fmt::join(names, ", ")));
}

Result<std::vector<std::int32_t>> read_offsets(const std::string& argument) {
  TS_ASSIGN(const HostArray array, read_tensor(argument));
  if (array.shape.size() != 1 || is_floating(array.type))
    return fail(ErrorCode::invalid_argument, fmt::format("{} has shape {} and type {}", argument, shape_text(array.shape), to_string(array.type)),
                "batch + 1 integers");
  std::vector<std::int32_t> offsets;
  for (std::size_t i = 0; i < array.count(); ++i) {
    const double value = load_element(array.type, array.data.data(), i);
    if (value < 0 || value > INT32_MAX) return fail(ErrorCode::invalid_argument, fmt::format("{}[{}] is {}", argument, i, value), "0 to 2147483647");
    offsets.push_back(static_cast<std::int32_t>(value));
  }
  return offsets;
}

Status write_tensor(const std::string& argument, const std::string& name, const HostArray& array) {
  const auto [file, given] = split(argument);
  if (file.ends_with(".npy")) return write_npy(file, array);
  if (file.ends_with(kSafetensors)) return write_safetensors(file, {{given.empty() ? name : given, array}});
  return std::unexpected(wrong_extension(argument));
}

}  // namespace tilesmith::cli
