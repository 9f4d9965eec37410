// One self-contained text out of files that include each other: what a compiler without a file system is given.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/embedded.hpp"
#include "base/error.hpp"

namespace tilesmith {

/// The files of kernels/, named by their paths below it: "cuda/gemm/walk.cuh".
[[nodiscard]] std::span<const EmbeddedFile> embedded_kernels();

/// The file at `entry` with every #include "..." replaced by the file it names, relative to the including one, each
/// file once and #pragma once left out. Errors: internal, for a file that is not among `files` and for #include <...>.
[[nodiscard]] Result<std::string> flatten_includes(std::span<const EmbeddedFile> files, std::string_view entry);

}  // namespace tilesmith
