#include "verify/product64.hpp"

#include "base/clones.hpp"

namespace tilesmith {
namespace {

using Vector8 = double __attribute__((vector_size(64), aligned(8), may_alias));

constexpr std::int64_t kPanelDepth = 128;  // of k in a panel: 16 KiB, half of a small L1 cache

}  // namespace

TS_CLONES void multiply_add64(const double* a, std::int64_t a_stride, const double* b, double* c, std::int64_t depth,
                              std::int64_t columns) {
  // Rows of b are often a power of two apart, which is few of a cache's sets: so the columns at work are copied.
  alignas(64) double panel[kPanelDepth * kProductColumns];
  for (std::int64_t first = 0; first < depth; first += kPanelDepth) {
    const std::int64_t deep = depth - first < kPanelDepth ? depth - first : kPanelDepth;
    for (std::int64_t column = 0; column < columns; column += kProductColumns) {
      auto* const packed = reinterpret_cast<Vector8*>(panel);
      for (std::int64_t k = 0; k < deep; ++k) {
        const auto* right = reinterpret_cast<const Vector8*>(b + (first + k) * columns + column);
        packed[2 * k] = right[0];
        packed[2 * k + 1] = right[1];
      }
      for (std::int64_t row = 0; row < kProductRows; row += 4) {
        Vector8 sum[4][2] = {};
        for (std::int64_t k = 0; k < deep; ++k) {
          for (std::int64_t r = 0; r < 4; ++r) {
            const double left = a[(row + r) * a_stride + first + k];
            sum[r][0] += left * packed[2 * k];
            sum[r][1] += left * packed[2 * k + 1];
          }
        }
        for (std::int64_t r = 0; r < 4; ++r) {
          auto* out = reinterpret_cast<Vector8*>(c + (row + r) * columns + column);
          out[0] += sum[r][0];
          out[1] += sum[r][1];
        }
      }
    }
  }
}

}  // namespace tilesmith
