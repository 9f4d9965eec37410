// Whether strided tensors share memory.
#pragma once

#include <cstdint>
#include <span>

#include "problem/argument_checks.hpp"

namespace tilesmith {

/// A tensor in memory. Strides are in elements and not negative; that of an only member may be anything.
struct StridedMemory {
  const void* data = nullptr;
  std::int64_t element_bytes = 1;
  std::span<const SizeAndStride> dimensions;
};

/// Whether the two may share a byte. Tensors that lie beside one another in each period of one buffer, such as channels
/// of the same pixels or images, do not.
[[nodiscard]] bool may_overlap(const StridedMemory& x, const StridedMemory& y);

}  // namespace tilesmith
