// What the bindings of CUDA's serving kernels share.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "base/error.hpp"
#include "kernels/contract/attention.h"
#include "runtime/cuda/kernel.hpp"
#include "tilesmith/attention.hpp"

namespace tilesmith {

[[nodiscard]] constexpr TsStrides kernel_strides(const AttentionStrides& s) {
  return {s.batch, s.head, s.row, 1};
}

/// Whether a tensor's rows are whole groups of so many elements, each at a multiple of the group's bytes.
[[nodiscard]] inline bool in_groups(const void* data, const AttentionStrides& s, std::int64_t dim,
                                    std::int64_t element_bytes, std::int64_t group) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  return address % static_cast<std::uintptr_t>(group * element_bytes) == 0 &&
         (dim | s.batch | s.head | s.row) % group == 0;
}

/// Blocks along x. Error: unsupported, for more than a launch can have.
[[nodiscard]] Result<CudaLaunch> serving_launch(std::int64_t work, std::int64_t of_block, int major, void* stream);

}  // namespace tilesmith
