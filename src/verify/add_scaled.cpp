#include "verify/add_scaled.hpp"

#include "verify/clones.hpp"

namespace tilesmith {

TS_VERIFY_CLONES void add_scaled(float* target, const float* source, float weight, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) target[i] += weight * source[i];
}

}  // namespace tilesmith
