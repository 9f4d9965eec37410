#include "trial/tf32.hpp"

#include <vector>

#include "base/float_types.hpp"

namespace tilesmith {

void round_to_tf32(HostArray& array) {
  constexpr FloatFormat kTf32{.exponent_bits = 8, .mantissa_bits = 10, .has_infinity = true, .saturates = false};
  std::vector<float> values = array.to_floats();
  for (float& value : values) value = decode_float(kTf32, encode_float(kTf32, static_cast<double>(value)));
  store_elements(array.type, values, array.data.data());
}

}  // namespace tilesmith
