// Rotary position embeddings: elements of a head turned by angles that follow from its position.
#pragma once

#include <cstdint>

namespace tilesmith {

/// Which elements of a head are turned together, x and y into (x cos - y sin, y cos + x sin).
enum class RotaryStyle : std::uint8_t {
  half,        ///< i and i + dim / 2, as in GPT-NeoX and Llama
  interleaved  ///< 2 i and 2 i + 1, as in GPT-J
};

/// A table of (positions, dim / 2) cosines and sines. The elements of a head from `dim` on stay as they are.
struct Rotary {
  std::int64_t dim = 0;  ///< even; 0: nothing is turned
  RotaryStyle style = RotaryStyle::half;
  const float* cos = nullptr;
  const float* sin = nullptr;
  std::int64_t row_stride = 0;  ///< of both tables, in elements
  std::int64_t positions = 0;   ///< rows of both tables
};

}  // namespace tilesmith
