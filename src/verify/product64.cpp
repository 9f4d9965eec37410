#include "verify/product64.hpp"

#include "base/clones.hpp"

namespace tilesmith {
namespace {

using Vector8 = double __attribute__((vector_size(64), aligned(8), may_alias));

}  // namespace

TS_CLONES void multiply_add64(const double* a, std::int64_t a_stride, const double* b, double* c, std::int64_t depth,
                              std::int64_t columns) {
  for (std::int64_t column = 0; column < columns; column += kProductColumns) {
    for (std::int64_t row = 0; row < kProductRows; row += 4) {
      Vector8 sum[4][2] = {};
      for (std::int64_t k = 0; k < depth; ++k) {
        const auto* right = reinterpret_cast<const Vector8*>(b + k * columns + column);
        for (std::int64_t r = 0; r < 4; ++r) {
          const double left = a[(row + r) * a_stride + k];
          sum[r][0] += left * right[0];
          sum[r][1] += left * right[1];
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

}  // namespace tilesmith
