#include "problem/overlap.hpp"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <set>

namespace tilesmith {
namespace {

alignas(8) std::array<std::byte, 4096> memory;

using Dimensions = std::array<SizeAndStride, 3>;

std::set<std::int64_t> bytes_of(std::int64_t at, std::int64_t element, const Dimensions& d) {
  std::set<std::int64_t> bytes;
  for (std::int64_t i = 0; i < d[0].size; ++i)
    for (std::int64_t j = 0; j < d[1].size; ++j)
      for (std::int64_t k = 0; k < d[2].size; ++k)
        for (std::int64_t b = 0; b < element; ++b)
          bytes.insert(at + (i * d[0].stride + j * d[1].stride + k * d[2].stride) * element + b);
  return bytes;
}

bool may_share(std::int64_t at_x, std::int64_t element_x, const Dimensions& x, std::int64_t at_y,
               std::int64_t element_y, const Dimensions& y) {
  return may_overlap({memory.data() + at_x, element_x, x}, {memory.data() + at_y, element_y, y});
}

TEST(Overlap, IsFoundWhereverAByteIsShared) {
  std::mt19937 random(3);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution(low, high)(random); };
  int shared = 0, apart_in_one_buffer = 0;
  for (int round = 0; round < 20'000; ++round) {
    const auto tensor = [&] {
      Dimensions d;
      for (SizeAndStride& each : d) each = {draw(0, 4), draw(0, 3) == 0 ? draw(0, 24) : draw(0, 6) * draw(1, 4)};
      return d;
    };
    const Dimensions x = tensor(), y = tensor();
    const std::int64_t element_x = 1 << draw(0, 2), element_y = 1 << draw(0, 2), at_x = draw(0, 300),
                       at_y = draw(0, 300);
    const auto of_x = bytes_of(at_x, element_x, x), of_y = bytes_of(at_y, element_y, y);
    const bool is_shared = std::ranges::any_of(of_x, [&](std::int64_t byte) { return of_y.contains(byte); });
    const bool found = may_share(at_x, element_x, x, at_y, element_y, y);
    EXPECT_TRUE(found || !is_shared) << "round " << round;
    EXPECT_EQ(found, may_share(at_y, element_y, y, at_x, element_x, x));
    shared += is_shared ? 1 : 0;
    apart_in_one_buffer +=
        !found && !of_x.empty() && !of_y.empty() && *of_x.begin() <= *of_y.rbegin() && *of_y.begin() <= *of_x.rbegin()
            ? 1
            : 0;
  }
  EXPECT_GT(shared, 1000);
  EXPECT_GT(apart_in_one_buffer, 10);
}

TEST(Overlap, PartsOfOneBufferThatLieSideBySideAreApart) {
  // Two of five channels of 3 x 4 pixels, as they lie last and first, and every other column.
  const Dimensions last{{{3, 20}, {4, 5}, {2, 1}}}, first{{{3, 60}, {2, 12}, {12, 1}}},
      columns{{{3, 8}, {4, 2}, {1, 1}}};
  EXPECT_FALSE(may_share(0, 4, last, 8, 4, last));
  EXPECT_FALSE(may_share(0, 4, last, 12, 4, last));
  EXPECT_TRUE(may_share(0, 4, last, 16, 4, last));
  EXPECT_FALSE(may_share(0, 4, first, 96, 4, first));
  EXPECT_TRUE(may_share(0, 4, first, 92, 4, first));
  EXPECT_FALSE(may_share(0, 4, columns, 4, 4, columns));
  EXPECT_TRUE(may_share(0, 4, columns, 8, 4, columns));
}

}  // namespace
}  // namespace tilesmith
