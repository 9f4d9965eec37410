#include "trial/attention/data.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "tilesmith/attention.hpp"

namespace tilesmith {

float loudness(std::int64_t head, std::int64_t row) {
  constexpr std::int64_t kRowsOfAVoice = 16, kVoices = 4;
  constexpr float kLoud = 8;
  return (row / kRowsOfAVoice + head) % kVoices == kVoices - 1 ? kLoud : 1.0F;
}

float size_in_block(std::int64_t row) {
  constexpr std::array<float, 3> kSizes{1, 2, 0.5F};
  return kSizes[static_cast<std::size_t>(row / kScaleBlock) % kSizes.size()];
}

float sink_size(std::int64_t keys) {
  return std::log(static_cast<float>(std::max<std::int64_t>(1, keys)));
}

}  // namespace tilesmith
