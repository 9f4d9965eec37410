// Problems drawn at random: valid, each once, the same for a seed.
#include "tune/random_shapes.hpp"

#include <gtest/gtest.h>

#include <set>

#include "problem/attention/problem.hpp"
#include "problem/conv/problem.hpp"
#include "problem/gemm/problem.hpp"

namespace tilesmith {
namespace {

template <class Op>
void expect_draws(const SampleOptions& options) {
  const auto drawn = draw_problems<Op>(options);
  ASSERT_TRUE(drawn) << drawn.error().text();
  EXPECT_GT(drawn->size(), static_cast<std::size_t>(options.count) * 9 / 10);
  std::set<std::string> families, identities;
  for (const DrawnProblem<Op>& each : *drawn) {
    EXPECT_TRUE(validate(each.problem));
    EXPECT_LE(flops_of(each.problem), options.most_flops);
    EXPECT_LE(bytes_of(each.problem), options.most_bytes);
    families.insert(each.family);
    identities.insert(identity_of(each.problem));
  }
  EXPECT_EQ(families.size(), ShapeFamilies<Op>::families().size());
  EXPECT_EQ(identities.size(), drawn->size());

  // A larger sample begins with the smaller; another seed has others.
  SampleOptions more = options;
  more.count *= 2;
  const auto larger = draw_problems<Op>(more).value();
  for (std::size_t i = 0; i < drawn->size(); ++i) EXPECT_EQ(larger[i].problem, (*drawn)[i].problem);
  SampleOptions other = options;
  other.seed += 1;
  std::size_t same = 0;
  const auto others = draw_problems<Op>(other).value();  // not in the loop's head, where the result would be gone
  for (const DrawnProblem<Op>& each : others) same += identities.contains(identity_of(each.problem)) ? 1 : 0;
  EXPECT_LT(same, identities.size() / 10);
}

TEST(RandomShapes, OfEachOperationAreValidAndTheSameForASeed) {
  expect_draws<Gemm>({.count = 200, .seed = 3, .types = {DataType::bf16, DataType::fp8}, .most_flops = 1e12});
  expect_draws<Gemm>({.count = 80, .most_flops = 1e9, .most_bytes = 2.5e8});
  expect_draws<AttentionFwd>({.count = 100, .most_flops = 1e12});
  expect_draws<Conv>({.count = 100, .types = {DataType::fp32, DataType::int8, DataType::fp8}, .most_flops = 1e12});
}

TEST(RandomShapes, OneFamilyAloneHasTheDrawsThatItHasAmongAll) {
  const SampleOptions alone{.count = 3, .families = {"long_k"}};
  std::vector<GemmProblem> among;
  const auto all = draw_problems<Gemm>({.count = 24}).value();
  for (const auto& each : all)
    if (each.family == "long_k") among.push_back(each.problem);
  const auto drawn = draw_problems<Gemm>(alone).value();
  ASSERT_EQ(drawn.size(), among.size());
  for (std::size_t i = 0; i < drawn.size(); ++i) EXPECT_EQ(drawn[i].problem, among[i]);
}

TEST(RandomShapes, AFamilyThatIsNotKnownIsAnErrorWithThoseThatAre) {
  const auto drawn = draw_problems<Gemm>({.families = {"round"}});
  ASSERT_FALSE(drawn);
  EXPECT_NE(drawn.error().text().find("few_rows"), std::string::npos);
}

TEST(RandomShapes, SizesStayWithinTheirBoundsAndSteps) {
  ShapeRandom random(7);
  for (int i = 0; i < 10000; ++i) {
    const std::int64_t size = random.size(17, 1000, 8);
    EXPECT_GE(size, 24);
    EXPECT_LE(size, 1000);
    EXPECT_EQ(size % 8, 0);
  }
}

}  // namespace
}  // namespace tilesmith
