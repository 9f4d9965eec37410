#include "choose/overlapped.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace tilesmith {
namespace {

TEST(Overlapped, WholePowersOfTwoTakeWhatThePowerFunctionSays) {
  for (const double power : {1.0, 2.0, 2.6, 3.0, 4.0, 8.0, 16.0})
    for (double shorter = 1e-9; shorter <= 1; shorter *= 1.37) {
      const double expected = std::pow(1 + std::pow(shorter, power), 1 / power);
      EXPECT_NEAR(overlapped(shorter, 1, power), expected, 4e-16 * power * expected) << shorter << " by " << power;
      EXPECT_EQ(overlapped(shorter, 1, power), overlapped(1, shorter, power));
    }
}

TEST(Overlapped, NothingTakesNoTimeAndHidesNothing) {
  for (const double power : {1.0, 2.6, 8.0}) {
    EXPECT_EQ(overlapped(0, 0, power), 0);
    EXPECT_EQ(overlapped(0, 3, power), 3);
  }
}

}  // namespace
}  // namespace tilesmith
