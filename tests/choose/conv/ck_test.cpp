// Choosing among Composable Kernel's convolutions: what is chosen serves the problem, by the test that generated
// libraries make at run time (kernels/ck).
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "choose/ck_choice.hpp"
#include "choose/conv/ck.hpp"
#include "choose/random_problem.hpp"
#include "tilesmith_ck/conv.h"

namespace tilesmith {
namespace {

TEST(CkConv, InstancesServeTheProblem) {
  std::size_t instances = 0, depthwise = 0, three = 0, two_stage = 0, stream_k = 0;
  for (const std::string_view arch : testing::kCkChips) {
    const CkFacts chip = testing::ck_facts(arch);
    for (unsigned seed = 0; seed < 24; ++seed) {
      std::mt19937 random(seed);
      const auto any = [&](std::initializer_list<std::int64_t> values) {
        return testing::detail::pick(random, values);
      };
      ConvProblem p;
      p.direction = testing::detail::pick(
          random, {ConvDirection::forward, ConvDirection::backward_data, ConvDirection::backward_weight});
      p.data_type = p.type_out = testing::detail::pick(random, {DataType::bf16, DataType::fp16});
      p.batch = any({1, 2, 32});
      p.groups = any({1, 1, 4, 32});
      p.c = any({1, 3, 8, 64, 256});
      p.k = any({1, 8, 64, 130});
      p.in_h = p.in_w = any({7, 28, 56});
      p.filter_h = p.filter_w = any({1, 3, 5});
      p.stride_h = p.stride_w = any({1, 1, 2});
      p.pad_h = p.pad_w = p.pad_high_h = p.pad_high_w = any({0, (p.filter_h - 1) / 2});
      if (seed % 4 == 1) p.in_d = 8;
      if (seed % 4 == 2) {  // what a depthwise kernel takes
        p.direction = ConvDirection::forward;
        p.data_type = p.type_out = DataType::fp16;
        p.c = p.k = 1;
        p.filter_h = p.filter_w = 3;
        p.pad_h = p.pad_w = p.pad_high_h = p.pad_high_w = 1;
      }
      SCOPED_TRACE(fmt::format("{} seed {}", arch, seed));
      const auto ranking = rank(chip, p);
      if (!ranking) {
        EXPECT_EQ(ranking.error().code, ErrorCode::unsupported);
        continue;
      }
      EXPECT_TRUE(std::ranges::is_sorted(ranking->candidates, {}, &Candidate::predicted_seconds));
      std::set<Key128> keys;
      for (const Candidate& candidate : ranking->candidates) {
        const KernelConfig& config = candidate.recipe.main();
        const auto& s = std::get<ConvSignature>(config.signature);
        const Algorithm& g = config.algorithm;
        EXPECT_TRUE(keys.insert(key_of(config)).second) << kernel_name(config);
        const tilesmith_ck::ConvRecord r{
            .direction = static_cast<tilesmith_ck::ConvDirection>(s.direction),
            .type = s.data_type == DataType::fp16 ? tilesmith_ck::ConvType::fp16 : tilesmith_ck::ConvType::bf16,
            .dims = s.spatial_dims,
            .filter = static_cast<tilesmith_ck::ConvFilter>(s.specialization),
            .groups_merged = g.groups_merged,
            .two_stage = s.two_stage,
            .stream_k = s.stream_k_reduction != StreamKReduction::none,
            .depthwise = s.depthwise,
            .filter_size = s.filter[0],
            .stride_h = s.stride[0],
            .stride_w = s.stride[1],
            .pad = s.padding[0],
            .images = s.depthwise ? g.images : 1};
        tilesmith_ck::ConvArguments a;
        a.direction = static_cast<tilesmith_ck::ConvDirection>(p.direction);
        a.type = p.data_type == DataType::fp16 ? tilesmith_ck::ConvType::fp16 : tilesmith_ck::ConvType::bf16;
        a.depthwise = s.depthwise;
        a.two_stage = s.two_stage;  // a call asks for these
        a.stream_k = r.stream_k;
        a.k_batch = static_cast<int>(ck_k_batch(chip, config, p));
        a.dims = p.in_d > 1 ? 3 : 2;
        a.groups = static_cast<int>(p.groups);
        a.n = static_cast<int>(p.batch);
        a.c = static_cast<int>(p.c);
        a.k = static_cast<int>(p.k);
        for (int i = 0; i < a.dims; ++i) {
          const auto at = static_cast<std::size_t>(3 - a.dims + i);
          a.input[i] = static_cast<int>(p.in()[at]);
          a.filter[i] = static_cast<int>(p.filter()[at]);
          a.stride[i] = static_cast<int>(p.stride()[at]);
          a.left_pad[i] = static_cast<int>(p.pad()[at]);
          a.right_pad[i] = static_cast<int>(p.pad_high()[at]);
        }
        EXPECT_TRUE(tilesmith_ck::serves(r, a)) << kernel_name(config);
        ++instances;
        depthwise += s.depthwise;
        three += s.spatial_dims == 3;
        two_stage += s.two_stage;
        stream_k += r.stream_k;
      }
      EXPECT_TRUE(serves(chip, ranking->candidates.front().recipe, p).has_value());
    }
  }
  EXPECT_GT(instances, 500u);
  EXPECT_GT(depthwise, 0u);
  EXPECT_GT(three, 0u);
  EXPECT_GT(two_stage, 0u);
  EXPECT_GT(stream_k, 0u);
}

// The gradient of few filters over many pixels: two tiles, and a sum that is worth cutting up.
TEST(CkConv, LongSumsOfFewFiltersAreCutUp) {
  const CkFacts chip = testing::ck_facts("gfx942");
  ConvProblem p;
  p.direction = ConvDirection::backward_weight;
  p.data_type = p.type_out = DataType::bf16;
  p.batch = 64;
  p.c = p.k = 64;
  p.in_h = p.in_w = 56;
  p.filter_h = p.filter_w = 1;
  const Ranking ranking = rank(chip, p).value();
  const auto best = [&](auto wanted) {
    return std::ranges::find_if(ranking.candidates, [&](const Candidate& candidate) {
      return wanted(std::get<ConvSignature>(candidate.recipe.main().signature));
    });
  };
  const auto two_stage = best([](const ConvSignature& s) { return s.two_stage; });
  const auto stream_k = best([](const ConvSignature& s) { return s.stream_k_reduction != StreamKReduction::none; });
  const auto plain =
      best([](const ConvSignature& s) { return !s.two_stage && s.stream_k_reduction == StreamKReduction::none; });
  ASSERT_NE(two_stage, ranking.candidates.end());
  ASSERT_NE(stream_k, ranking.candidates.end());
  ASSERT_NE(plain, ranking.candidates.end());
  EXPECT_GT(ck_k_batch(chip, two_stage->recipe.main(), p), 1);
  EXPECT_EQ(ck_k_batch(chip, plain->recipe.main(), p), 1);
  EXPECT_LT(two_stage->predicted_seconds, plain->predicted_seconds / 4);
  EXPECT_LT(stream_k->predicted_seconds, plain->predicted_seconds / 4);
  // No more parts than steps, and none where one pixel is all there is.
  p.batch = 1;
  p.in_h = p.in_w = 1;
  EXPECT_EQ(ck_k_batch(chip, two_stage->recipe.main(), p), 1);
  // Many filters fill the chip: nothing is cut up.
  p = ConvProblem();
  p.direction = ConvDirection::backward_weight;
  p.data_type = p.type_out = DataType::bf16;
  p.batch = 2;
  p.c = p.k = 2048;
  p.in_h = p.in_w = 14;
  p.filter_h = p.filter_w = 3;
  EXPECT_FALSE(std::get<ConvSignature>(rank(chip, p)->candidates.front().recipe.main().signature).two_stage);
}

}  // namespace
}  // namespace tilesmith
