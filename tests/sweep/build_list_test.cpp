#include "sweep/build_list.hpp"

#include <gtest/gtest.h>

#include "sweep/sample_row.hpp"

namespace tilesmith {
namespace {

TEST(BuildList, EveryStepIsBuiltOnce) {
  const Recipe two = testing::sample_row_of_two_steps().recipe;
  const Recipe one = two.steps[1].config, other = testing::sample_row().recipe;
  BuildList list;
  for (const Recipe& recipe : {one, two, other, two}) list.add(recipe);
  ASSERT_EQ(list.configs().size(), 3u);
  EXPECT_EQ(list.configs()[0], one.main());
  EXPECT_EQ(list.configs()[1], two.steps[0].config);
  EXPECT_EQ(list.configs()[2], other.main());
}

TEST(BuildList, ARecipeFailsWithItsFirstStepThatFails) {
  const Recipe two = testing::sample_row_of_two_steps().recipe;
  const Recipe first = two.steps[0].config, second = two.steps[1].config;
  BuildList list;
  list.add(two);
  const auto broken = [](const char* why) { return Status(fail(ErrorCode::compile_failed, why)); };
  EXPECT_TRUE(list.built({Status(), Status()}));
  EXPECT_TRUE(list.of(two));
  EXPECT_TRUE(list.built({Status(), broken("no")})) << "a kernel that is not built is known";
  EXPECT_TRUE(list.of(first));
  EXPECT_EQ(list.of(second).error().message, "no");
  EXPECT_EQ(list.of(two).error().code, ErrorCode::compile_failed);
  EXPECT_TRUE(list.of(two).error().message.starts_with("step 2 of 2 (gemm_")) << list.of(two).error().message;
  EXPECT_TRUE(list.built({broken("never"), broken("no")}));
  EXPECT_TRUE(list.of(two).error().message.starts_with("step 1 of 2 (pack_b:gemm_")) << list.of(two).error().message;
}

TEST(BuildList, SaysNothingOfKernelsWhenBuildingWasCancelled) {
  BuildList list;
  list.add(testing::sample_row_of_two_steps().recipe);
  const Status status = list.built(
      {Status(fail(ErrorCode::compile_failed, "no")), Status(fail(ErrorCode::cancelled, "it was cancelled"))});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "it was cancelled");
}

}  // namespace
}  // namespace tilesmith
