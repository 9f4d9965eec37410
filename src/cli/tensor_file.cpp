#include "cli/tensor_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/file.hpp"
#include "base/npy.hpp"
#include "base/safetensors.hpp"
#include "cli/output_place.hpp"

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
  return {ErrorCode::invalid_argument, fmt::format("{} is neither a .npy nor a .safetensors file", argument),
          "x.npy, or x.safetensors:tensor_name"};
}

Result<HostArray> read_any(const std::string& argument) {
  const auto [file, name] = split(argument);
  if (file.ends_with(".npy")) return read_npy(file);
  if (!file.ends_with(kSafetensors)) return std::unexpected(wrong_extension(argument));
  TS_ASSIGN(const SafetensorsFile tensors, SafetensorsFile::open(file));
  if (!name.empty()) return tensors.read(name);
  if (tensors.entries().size() == 1) return tensors.read(tensors.entries().begin()->first);
  std::vector<std::string> names;
  for (const auto& [known, entry] : tensors.entries())
    if (names.size() < 20) names.push_back(known);
  return fail(ErrorCode::invalid_argument,
              fmt::format("{} holds {} tensors and none is named", file, tensors.entries().size()),
              fmt::format("{}:NAME with one of {}", file, fmt::join(names, ", ")));
}

}  // namespace

Result<HostArray> read_tensor(const std::string& argument) {
  Result<HostArray> array = read_any(argument);
  // Nobody wrote the bytes of a tensor by hand: where they are wrong, the file is damaged.
  if (!array && array.error().code == ErrorCode::parse) array.error().code = ErrorCode::corrupt;
  return array;
}

Result<std::vector<std::int32_t>> read_offsets(const std::string& argument) {
  TS_ASSIGN(const HostArray array, read_tensor(argument));
  if (array.shape.size() != 1 || array.shape[0] == 0 || is_floating(array.type) || array.type == ElementType::boolean)
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} has shape {} and type {}", argument, shape_text(array.shape), to_string(array.type)),
                "batch + 1 integers");
  std::vector<std::int32_t> offsets;
  for (std::size_t i = 0; i < array.count(); ++i) {
    const double value = load_element(array.type, array.data.data(), i);
    if (value < 0 || value > INT32_MAX)
      return fail(ErrorCode::invalid_argument, fmt::format("{}[{}] is {}", argument, i, value), "0 to 2147483647");
    offsets.push_back(static_cast<std::int32_t>(value));
  }
  return offsets;
}

Status check_targets(std::span<const TensorTarget> targets) {
  std::map<std::string, std::vector<std::string>> names;  // by file
  for (const TensorTarget& target : targets) {
    if (target.argument.empty()) continue;
    const auto [file, given] = split(target.argument);
    const bool npy = file.ends_with(".npy");
    if (!npy && !file.ends_with(kSafetensors)) return std::unexpected(wrong_extension(target.argument));
    TS_TRY(check_output_place(file));
    std::vector<std::string>& taken = names[file];
    const std::string name = npy ? std::string() : given.empty() ? target.default_name : given;
    if (std::ranges::find(taken, name) != taken.end())
      return fail(ErrorCode::invalid_argument, fmt::format("two tensors are to be written to {}", target.argument),
                  "a place for each");
    taken.push_back(name);
  }
  return {};
}

Status write_tensors(std::span<const TensorTarget> targets, std::span<const HostArray> arrays) {
  std::map<std::string, std::vector<std::pair<std::string, HostArray>>> files;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (targets[i].argument.empty()) continue;
    const auto [file, given] = split(targets[i].argument);
    files[file].emplace_back(given.empty() ? targets[i].default_name : given, arrays[i]);
  }
  std::vector<std::string> contents;
  for (const auto& [file, tensors] : files) {
    TS_ASSIGN(std::string content,
              file.ends_with(".npy") ? npy_content(tensors.front().second) : safetensors_content(tensors));
    contents.push_back(std::move(content));
  }
  std::vector<FileContent> together;
  for (const auto& [file, tensors] : files) together.push_back({file, contents[together.size()]});
  return write_files_atomic(together);
}

}  // namespace tilesmith::cli
