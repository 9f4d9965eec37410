// NumPy's .npy files: one array, a small header before its bytes.
//
// Source: the format's own document, numpy/lib/format (versions 1.0 and 2.0): magic, version, header length, a Python
// dictionary literal with descr, fortran_order and shape, then the elements. Little-endian files in either memory order
// are read; arrays come out row-major.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "base/host_array.hpp"

namespace tilesmith {

inline constexpr std::uint64_t kNpyReadLimit = 16ull << 30;

/// The array in the bytes of a .npy file.
[[nodiscard]] Result<HostArray> parse_npy(std::string_view file);
[[nodiscard]] Result<HostArray> read_npy(const std::filesystem::path& path, std::uint64_t limit = kNpyReadLimit);

/// Writes version 1.0, complete or not at all. bf16 and fp8, which NumPy does not have, are written as float32: no
/// value changes.
[[nodiscard]] Result<std::string> npy_content(const HostArray& array);
[[nodiscard]] Status write_npy(const std::filesystem::path& path, const HostArray& array);

}  // namespace tilesmith
