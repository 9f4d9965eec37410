#include "measure/measure.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace tilesmith {
namespace {

TEST(Timing, MedianAndSpreadOfKnownSamples) {
  const Timing timing{{1, 2, 3, 4, 5}};
  EXPECT_DOUBLE_EQ(timing.median(), 3);
  EXPECT_DOUBLE_EQ(timing.spread(), 2.0 / 3.0);
  EXPECT_DOUBLE_EQ(timing.best(), 1);
  EXPECT_DOUBLE_EQ((Timing{{4}}.median()), 4);
  EXPECT_DOUBLE_EQ((Timing{{4}}.spread()), 0);
}

TEST(Measure, TakesAtLeastTheMinimumAndAtMostTheMaximum) {
  int calls = 0;
  MeasureOptions options;
  options.min_samples = 5;
  options.max_samples = 9;
  options.target_spread = 0;
  const Timing timing = measure([&] { ++calls; }, {}, options);
  EXPECT_EQ(timing.samples.size(), 9u);
  EXPECT_EQ(calls, 10);  // one untimed
  EXPECT_TRUE(std::is_sorted(timing.samples.begin(), timing.samples.end()));
}

TEST(Measure, GivesUpOnAHopelessCandidate) {
  MeasureOptions options;
  options.give_up_above = 1e-12;
  const Timing timing = measure([] {}, {}, options);
  EXPECT_EQ(timing.samples.size(), 1u);
}

TEST(Measure, ProcessorTimeLeavesSleepOut) {
  MeasureOptions options;
  options.min_samples = options.max_samples = 3;
  const auto sleep = [] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); };
  EXPECT_GE(measure(sleep, {}, options).best(), 0.05);
  options.processor_time = true;
  EXPECT_LT(measure(sleep, {}, options).best(), 0.05);
}

TEST(Measure, EvictingLeavesMemoryAsItWas) {
  std::vector<int> data(10000, 7);
  evict({data.data(), data.size() * sizeof(int)});
  evict({data.data(), 0});
  for (const int value : data) ASSERT_EQ(value, 7);
}

}  // namespace
}  // namespace tilesmith
