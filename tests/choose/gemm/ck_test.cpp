// Choosing among Composable Kernel's GEMM instances: what is chosen serves the problem, by the test that generated
// libraries make at run time (kernels/ck); how stream-K shares tiles out, by figures computed by hand.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "choose/ck_choice.hpp"
#include "choose/gemm/ck.hpp"
#include "choose/gemm/stream_k_model.hpp"
#include "choose/random_problem.hpp"
#include "problem/gemm/transpose.hpp"
#include "tilesmith_ck/gemm.h"

namespace tilesmith {
namespace {

tilesmith_ck::GemmType gemm_type(DataType type) {
  using T = tilesmith_ck::GemmType;
  switch (type) {
    case DataType::fp32:
    case DataType::tf32:
      return T::fp32;
    case DataType::fp16:
      return T::fp16;
    case DataType::bf16:
      return T::bf16;
    case DataType::fp8:
      return T::fp8;
    case DataType::bf8:
      return T::bf8;
    case DataType::int8:
      return T::int8;
    default:
      return T::int32;
  }
}

TEST(CkGemm, InstancesServeTheProblem) {
  std::size_t instances = 0;
  std::map<GemmFamily, std::size_t> met;
  for (const std::string_view arch : testing::kCkChips) {
    const CkFacts chip = testing::ck_facts(arch);
    for (unsigned seed = 0; seed < 24; ++seed) {
      GemmProblem asked = testing::random_gemm(seed);
      std::mt19937 random(seed);
      asked.beta = asked.packed_b = asked.unaligned = false;
      asked.grouping = GemmGrouping::none;
      asked.k2 = 0;
      if (asked.group_size != 0) continue;
      asked.epilogue = {};
      if (asked.type_a == DataType::fp8) asked.type_d = DataType::fp16;
      asked.type_c = asked.type_d;
      asked.batch = random() % 4 == 0 ? 3 : 1;
      for (auto i = random() % 3; i > 0 && asked.type_d != DataType::int32; --i)
        asked.epilogue.push_back(EpilogueOp::add);
      if (seed % 3 == 0) {  // whole tiles, every other time of a list
        asked.type_a = asked.type_b = asked.type_c = asked.type_d = DataType::bf16;
        if (seed % 2 == 0) asked.epilogue = {};
        asked.batch = seed % 2 == 0 ? 3 : 1;
        asked.m = 64 * (1 + static_cast<std::int64_t>(random() % 40));
        asked.n = asked.k = 512;
      }
      if (seed % 6 == 3) {  // one product, every other time with B in the order of fragments
        asked.packed_b = seed % 4 == 3;
        asked.epilogue = {};
        asked.order_a = asked.order_d = MatrixOrder::row;
        asked.order_b = MatrixOrder::column;
      }
      SCOPED_TRACE(fmt::format("{} seed {}", arch, seed));
      const GemmProblem p = with_row_d(asked);
      instances += testing::check_ck_choice(chip, asked, [&](const KernelConfig& config) {
        const auto& s = std::get<GemmSignature>(config.signature);
        const Algorithm& g = config.algorithm;
        const tilesmith_ck::GemmRecord r{.a = gemm_type(s.a),
                                         .b = gemm_type(s.b),
                                         .c = gemm_type(s.c),
                                         .a_by_rows = s.layout_a == MatrixOrder::row,
                                         .b_by_rows = s.layout_b == MatrixOrder::row,
                                         .tile_m = g.tile[0],
                                         .tile_n = g.tile[1],
                                         .tile_k = g.tile[2],
                                         .pad_m = g.pad[0] != 0,
                                         .pad_n = g.pad[1] != 0,
                                         .pad_k = g.pad[2] != 0,
                                         .preshuffle = g.preshuffle,
                                         .num_d = s.num_d,
                                         .elementwise = s.num_d > 0 ? tilesmith_ck::Elementwise::multi_d_add
                                                                    : tilesmith_ck::Elementwise::pass_through,
                                         .stream_k = static_cast<tilesmith_ck::StreamK>(s.stream_k_reduction),
                                         .grouped = s.family == GemmFamily::grouped_gemm};
        tilesmith_ck::GemmArguments a;
        a.type_a = gemm_type(p.type_a);
        a.type_b = gemm_type(p.type_b);
        a.type_c = gemm_type(p.type_d);
        a.a_by_rows = p.order_a == MatrixOrder::row;
        a.b_by_rows = p.order_b == MatrixOrder::row;
        a.num_d = static_cast<int>(p.epilogue.size());
        if (a.num_d > 0) a.elementwise = tilesmith_ck::Elementwise::multi_d_add;
        a.m = static_cast<int>(p.m);
        a.n = static_cast<int>(p.n);
        a.k = static_cast<int>(p.k);
        const tilesmith_ck::GemmGroup group{.m = a.m, .n = a.n, .k = a.k};
        if (p.batch > 1) {
          a.groups = &group;
          a.num_groups = 1;
        }
        a.preshuffled_b = p.packed_b;
        a.stream_k = r.stream_k;  // a call asks for it
        ++met[s.family];
        return tilesmith_ck::serves(r, a);
      });
    }
  }
  EXPECT_GT(instances, 1000u);
  using F = GemmFamily;
  for (const F family : {F::standard, F::preshuffle, F::multi_d, F::stream_k, F::grouped_gemm})
    EXPECT_GT(met[family], 0u) << name_of(family);
}

// 304 compute units hold 608 blocks.
TEST(CkGemm, StreamKSharesTilesOut) {
  const auto shares = [](std::int64_t tiles, std::int64_t steps, std::int64_t blocks) {
    const StreamKShares s = stream_k_shares(tiles, steps, blocks);
    return std::array{s.whole, s.shared, s.parts};
  };
  using Figures = std::array<std::int64_t, 3>;
  EXPECT_EQ(shares(608, 64, 608), (Figures{608, 0, 0}));                   // one round
  EXPECT_EQ(shares(1216, 64, 608), (Figures{1216, 0, 0}));                 // two
  EXPECT_EQ(shares(32, 512, 608), (Figures{0, 32, 608 - 32}));             // 19 blocks a tile, of which one begins it
  EXPECT_EQ(shares(609, 64, 608), (Figures{0, 609, 607}));                 // each but the first begins within a tile
  EXPECT_EQ(shares(1824 + 152, 8, 608), (Figures{1216, 760, 608 - 152}));  // 760 / 608 = 5 / 4: every fourth begins one
  EXPECT_EQ(shares(32, 18, 608), (Figures{32, 0, 0}));                     // 576 steps are fewer than the blocks
  EXPECT_EQ(shares(32, 19, 608), (Figures{0, 32, 576}));
  EXPECT_EQ(shares(0, 0, 608), (Figures{0, 0, 0}));
}

// What the model is for: a few tiles of a long k go to stream-K, whole rounds of tiles do not.
TEST(CkGemm, StreamKIsForTilesThatLeaveUnitsIdle) {
  const CkFacts chip = testing::ck_facts("gfx942");
  const auto family = [&](const GemmProblem& p) {
    return std::get<GemmSignature>(rank(chip, p)->candidates.front().recipe.main().signature).family;
  };
  EXPECT_EQ(family(gemm_problem(DataType::bf16, 256, 512, 32768)), GemmFamily::stream_k);
  EXPECT_EQ(family(gemm_problem(DataType::bf16, 128 * 16, 64 * 38, 512)), GemmFamily::standard);
  // Which way parts are joined is no matter where there are none, else a tree has fewer turns than a line.
  const ComputeUnitTile tile{.m = 128, .n = 128, .k = 64, .waves_m = 2, .waves_n = 2, .element_bytes = 2};
  const auto seconds = [&](std::int64_t n, std::int64_t k, StreamKReduction reduction) {
    return stream_k_seconds(tile, chip.reference, DataType::bf16, {128, n, k, 1, 0}, reduction, 2);
  };
  EXPECT_LT(seconds(256, 65536, StreamKReduction::tree), seconds(256, 65536, StreamKReduction::linear));
  EXPECT_EQ(seconds(128 * 304, 4096, StreamKReduction::tree), seconds(128 * 304, 4096, StreamKReduction::linear));
  // Twice the k of shared tiles is twice the steps.
  const double one = seconds(256, 65536, StreamKReduction::tree), two = seconds(256, 131072, StreamKReduction::tree);
  const double join = 2 * one - two;
  EXPECT_GT(join, 0);
  EXPECT_LT(join, one);
}

TEST(CkGemm, UpstreamTakesTheFirstOfItsListThatSupportsTheSizes) {
  const CkFacts chip = testing::ck_facts("gfx942");
  const GemmProblem whole = gemm_problem(DataType::fp16, 4096, 4096, 4096);
  const auto first = upstream_ranking(chip, whole)->candidates.front().recipe.main();
  EXPECT_EQ(first.algorithm.pad, (std::array<std::uint8_t, 4>{}));
  // No tile of the sweep has 40 columns or divides them: only the preselected sets pad.
  const auto padded = upstream_ranking(chip, gemm_problem(DataType::fp16, 4096, 4000, 4096));
  ASSERT_TRUE(padded.has_value()) << padded.error().text();
  const Ranking odd = upstream_ranking(chip, gemm_problem(DataType::fp16, 4090, 4096, 4096)).value();
  for (const Candidate& candidate : odd.candidates) EXPECT_EQ(candidate.recipe.main().algorithm.pad[0], 1);
  for (const Candidate& candidate : upstream_ranking(chip, whole)->candidates)
    EXPECT_EQ(std::get<GemmSignature>(candidate.recipe.main().signature).family, GemmFamily::standard)
        << kernel_name(candidate.recipe.main());
}

TEST(CkGemm, SaysWhyThereIsNone) {
  const auto text = [](const GemmProblem& p) { return rank(testing::ck_facts("gfx950"), p).error().text(); };
  GemmProblem p = gemm_problem(DataType::bf16, 512, 512, 512);
  p.epilogue = {EpilogueOp::gelu};
  EXPECT_NE(text(p).find("epilogue"), std::string::npos) << text(p);
  p = gemm_problem(DataType::bf16, 512, 511, 512);
  EXPECT_NE(text(p).find("vectors"), std::string::npos) << text(p);
  p = gemm_problem(DataType::bf16, 512, 512, 512);
  p.packed_b = true;
  EXPECT_TRUE(rank(testing::ck_facts("gfx950"), p).has_value());
  p.batch = 2;
  EXPECT_NE(text(p).find("neither a batch"), std::string::npos) << text(p);
  p.batch = 1;
  p.order_b = MatrixOrder::row;
  EXPECT_NE(text(p).find("none of family preshuffle"), std::string::npos) << text(p);
}

}  // namespace
}  // namespace tilesmith
