#include "runtime/aligned_buffer.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace tilesmith {
namespace {

std::size_t place(const AlignedBuffer& buffer) {
  return reinterpret_cast<std::size_t>(buffer.data());
}

TEST(AlignedBuffer, GrowsByReplacementAndKeepsWhatIsLargeEnough) {
  AlignedBuffer buffer;
  EXPECT_EQ(buffer.bytes(), 0u);
  buffer.reserve(65);
  EXPECT_EQ(buffer.bytes(), 128u);
  EXPECT_EQ(place(buffer) % 64, 0u);
  const std::byte* before = buffer.data();
  buffer.reserve(128);
  EXPECT_EQ(buffer.data(), before);
}

TEST(AlignedBuffer, HugePagesAreWholeAndForLargeBuffersOnly) {
  constexpr std::size_t kHuge = std::size_t{2} << 20;
  AlignedBuffer small;
  small.reserve(kHuge / 2 - 1, Pages::huge);
  EXPECT_EQ(small.bytes(), kHuge / 2);
  for (const std::size_t bytes : {kHuge / 2, kHuge, kHuge + 1}) {
    AlignedBuffer large;
    large.reserve(bytes, Pages::huge);
    EXPECT_EQ(place(large) % kHuge, 0u) << bytes;
    EXPECT_EQ(large.bytes(), (bytes + kHuge - 1) / kHuge * kHuge) << bytes;
    std::memset(large.data(), 1, large.bytes());
  }
}

}  // namespace
}  // namespace tilesmith
