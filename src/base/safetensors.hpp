// safetensors files: named tensors behind a JSON header.
//
// Source: the format section of the safetensors project's README: eight bytes of header length, a JSON object name ->
// {dtype, shape, data_offsets}, then the bytes of all tensors without gaps. Opening reads the header alone, so one
// tensor of a large model costs one read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.hpp"
#include "base/host_array.hpp"

namespace tilesmith {

class SafetensorsFile {
 public:
  struct Entry {
    ElementType type = ElementType::fp32;
    std::vector<std::int64_t> shape;
    std::uint64_t begin = 0, end = 0;  ///< bytes, counted from the end of the header
  };

  [[nodiscard]] static Result<SafetensorsFile> open(const std::filesystem::path& path);

  [[nodiscard]] const std::map<std::string, Entry, std::less<>>& entries() const { return entries_; }
  /// The tensor with this name; the error suggests the nearest names.
  [[nodiscard]] Result<HostArray> read(std::string_view name) const;

 private:
  SafetensorsFile(FileDescriptor file, std::filesystem::path path) : file_(std::move(file)), path_(std::move(path)) {}
  [[nodiscard]] Status read_header();

  FileDescriptor file_;
  std::filesystem::path path_;
  std::uint64_t data_start_ = 0;
  std::map<std::string, Entry, std::less<>> entries_;
};

/// Writes the tensors in this order, complete or not at all.
[[nodiscard]] Result<std::string> safetensors_content(const std::vector<std::pair<std::string, HostArray>>& tensors);
[[nodiscard]] Status write_safetensors(const std::filesystem::path& path,
                                       const std::vector<std::pair<std::string, HostArray>>& tensors);

}  // namespace tilesmith
