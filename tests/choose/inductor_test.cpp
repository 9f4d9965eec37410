// Inductor's tables as data, and its way from a table to candidates. The counts were computed by a second reading of
// the tables, with product formulas and no code in common.
#include "choose/inductor.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "choose/attention/cuda.hpp"
#include "choose/gemm/cuda.hpp"
#include "spec/cuda/spec.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

const InductorTables& tables() {
  return InductorTables::built_in();
}

std::size_t left_of(std::string_view id, const InductorFit& fit) {
  return fitted(tables().rows(id), fit).size();
}

InductorDevice cuda(int major, int minor, long shared) {
  return {.name = "cuda", .major = major, .minor = minor, .shared_bytes = shared};
}

constexpr std::int64_t kLarge = 8192;

TEST(InductorTables, HaveTheRowsThatTheySayEachOnce) {
  std::size_t rows = 0;
  ASSERT_EQ(tables().all().size(), 24u);
  for (const InductorTable& table : tables().all()) {
    EXPECT_EQ(table.rows.size(), table.count) << table.id;
    for (std::size_t i = 0; i < table.rows.size() && table.rows.size() < 200; ++i)
      EXPECT_EQ(std::ranges::count(table.rows, table.rows[i]), 1) << table.id << " row " << i;
    rows += table.rows.size();
  }
  EXPECT_EQ(rows, 9108u);
  EXPECT_EQ(tables().rows("mm").size(), 19u);
  EXPECT_EQ(tables().rows("mm").front(),
            (InductorConfig{.block_m = 32, .block_n = 32, .block_k = 16, .stages = 1, .warps = 2, .group_m = 8}));
  EXPECT_EQ(tables().rows("rocm_mm").front().stages, 2);  // the back end's default
  EXPECT_TRUE(tables().rows("no such table").empty());
}

TEST(InductorTables, DefaultsOfFlexAttentionAreTheFirstRuleThatHolds) {
  const auto forward = [](DataType type, int head_dim, int major, int minor = 0) {
    const auto config = tables().flex_default(
        "flex_attention_fwd", {.device = "cuda", .type = type, .head_dim = head_dim, .major = major, .minor = minor});
    return config ? std::array{config->block_m, config->block_n, config->stages, config->warps} : std::array<int, 4>{};
  };
  EXPECT_EQ(forward(DataType::bf16, 128, 9), (std::array{128, 64, 3, 8}));
  EXPECT_EQ(forward(DataType::fp16, 128, 9), (std::array{128, 128, 3, 8}));
  EXPECT_EQ(forward(DataType::bf16, 64, 8), (std::array{128, 64, 3, 4}));
  EXPECT_EQ(forward(DataType::bf16, 96, 9), (std::array{128, 64, 3, 4}));
  EXPECT_EQ(forward(DataType::fp32, 96, 9), (std::array{64, 64, 3, 4}));
  EXPECT_EQ(forward(DataType::bf16, 512, 9), (std::array{64, 32, 3, 4}));
  EXPECT_EQ(forward(DataType::fp32, 128, 8, 6), (std::array{128, 32, 3, 4}));
  EXPECT_EQ(forward(DataType::fp32, 128, 7, 5), (std::array{64, 64, 3, 4}));
  const auto decode = [](DataType type, int head_dim, int major) {
    return tables()
        .flex_default("flex_decoding", {.device = "cuda", .type = type, .head_dim = head_dim, .major = major})
        ->stages;
  };
  EXPECT_EQ(decode(DataType::fp32, 256, 9), 1);
  EXPECT_EQ(decode(DataType::fp32, 128, 9), 3);
  EXPECT_EQ(decode(DataType::bf16, 128, 8), 1);
  EXPECT_EQ(
      tables().flex_default("flex_attention_bwd", {.device = "cuda", .head_dim = 128, .major = 8, .minor = 6})->stages,
      2);
  EXPECT_EQ(
      tables().flex_default("flex_attention_bwd", {.device = "cuda", .head_dim = 128, .major = 8, .minor = 0})->stages,
      3);
  EXPECT_EQ(tables().flex_default("flex_attention_fwd", {.device = "rocm", .head_dim = 128})->kpack, 2);
  EXPECT_FALSE(tables().flex_default("conv2d", {}));
}

TEST(InductorTables, WhatCannotBeReadIsAnError) {
  const auto error = [](std::string_view text) { return InductorTables::parse("a.json", text).error().message; };
  EXPECT_NE(error("{"), "");
  EXPECT_NE(
      error(
          R"({"tables": [{"id": "a", "template": "a", "device": "d", "space": "s", "count": 2, "fields": ["block_m"], "rows": [[1]]}],
                      "keyed_defaults": [], "fallback_rules": []})")
          .find("says that it has 2"),
      std::string::npos);
  EXPECT_NE(
      error(
          R"({"tables": [], "keyed_defaults": [], "fallback_rules": [{"template": "a", "device": "cuda", "fields": ["block_m"],
                      "first_match": [{"when": "moon is full", "config": [1]}]}]})")
          .find("moon is full"),
      std::string::npos);
}

TEST(InductorFit, PrunesTheExhaustiveSpaceBySharedMemoryAndRegisters) {
  const auto pruned = [](int bits, long shared) {
    return left_of(
        "mm_exhaustive",
        {.device = cuda(9, 0, shared), .m = kLarge, .n = kLarge, .k = kLarge, .element_bits = bits, .prunes = true});
  };
  // Before the warps are clamped, which makes some equal: the published counts are those of pruning alone.
  std::size_t kept = 0;
  for (const InductorConfig& config : tables().rows("mm_exhaustive"))
    kept +=
        fitted({config}, {.device = cuda(9, 0, 232'448), .m = kLarge, .n = kLarge, .k = kLarge, .prunes = true}).size();
  EXPECT_EQ(kept, 1431u);
  const auto counted = [](int bits, long shared) {
    std::size_t count = 0;
    for (const InductorConfig& config : tables().rows("mm_exhaustive"))
      count += fitted({config}, {.device = cuda(8, 0, shared),
                                 .m = kLarge,
                                 .n = kLarge,
                                 .k = kLarge,
                                 .element_bits = bits,
                                 .prunes = true})
                   .size();
    return count;
  };
  EXPECT_EQ(counted(16, 166'912), 1350u);
  EXPECT_EQ(counted(16, 101'376), 1165u);
  EXPECT_EQ(counted(32, 232'448), 1199u);
  EXPECT_EQ(counted(32, 166'912), 1097u);
  EXPECT_EQ(counted(32, 101'376), 876u);
  EXPECT_EQ(counted(8, 232'448), 1571u);
  EXPECT_EQ(counted(8, 166'912), 1519u);
  EXPECT_EQ(counted(8, 101'376), 1397u);
  EXPECT_LE(pruned(16, 232'448), 1431u);
}

TEST(InductorFit, ScalesToTheSizesAndTakesEachOnce) {
  const auto left = [](std::string_view id, std::int64_t m, std::int64_t n, std::int64_t k) {
    return left_of(id, {.device = cuda(9, 0, 232'448), .m = m, .n = n, .k = k});
  };
  for (const std::int64_t m : {1, 16, 64}) EXPECT_EQ(left("mm", m, 4096, 4096), 17u) << m;
  EXPECT_EQ(left("mm", 64, 64, 64), 15u);
  EXPECT_EQ(left("mm", kLarge, kLarge, kLarge), 19u);
  for (const std::int64_t m : {1, 7, 16}) EXPECT_EQ(left("scaled_mm", m, 4096, 4096), 48u) << m;
  for (const InductorConfig& config :
       fitted(tables().rows("mm"), {.device = cuda(9, 0, 0), .m = 20, .n = 4096, .k = 24})) {
    EXPECT_GE(config.block_m, 16);
    EXPECT_LE(config.block_m, 32);
    EXPECT_LE(config.block_k, 32);
    EXPECT_LE(config.warps, config.block_m * config.block_n / 256);
  }
  for (const InductorConfig& config :
       fitted(tables().rows("int8_mm"),
              {.device = cuda(9, 0, 0), .m = 64, .n = 64, .k = 8, .element_bits = 8, .has_int8 = true}))
    EXPECT_EQ(config.block_k, 32);
  // mm + mm is not scaled, and a block of k as long as k is none.
  for (const InductorConfig& config :
       fitted(tables().rows("mm_plus_mm"), {.device = cuda(9, 0, 0), .m = 8, .n = 8, .k = 64, .scales = false}))
    EXPECT_LT(config.block_k, 64);
  EXPECT_EQ(left_of("rocm_mm_exhaustive", {.device = {.name = "rocm"}, .m = kLarge, .n = kLarge, .k = kLarge}), 5280u);
  // The CPU halves blocks and leaves out the large ones.
  for (const InductorConfig& config :
       fitted(tables().rows("mm"), {.device = {}, .m = kLarge, .n = kLarge, .k = kLarge})) {
    EXPECT_LE(config.block_m, 64);
    EXPECT_LE(config.block_m * config.block_n, 1 << 13);
  }
}

TEST(InductorPolicy, EveryPreselectedConfigHasAKernelOfOursThatTheRulesAccept) {
  const auto specs = load_cuda_specs().value();
  std::size_t rankings = 0;
  for (const CudaSpec& spec : specs)
    for (const DataType type : {DataType::bf16, DataType::fp16, DataType::fp32, DataType::int8, DataType::fp8})
      for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{1, 4096, 4096}, {300, 1024, 512}, {4096, 4096, 4096}}) {
        const GemmProblem problem = gemm_problem(type, m, n, k);
        auto ranking = rank(spec, problem);
        if (!ranking) continue;
        ++rankings;
        const std::vector<Candidate> all = ranking->candidates;
        const InductorDevice device = inductor_device(spec.arch);
        EXPECT_EQ(device.name, "cuda");
        EXPECT_GT(device.shared_bytes, 0);
        EXPECT_FALSE(inductor_configs(tables(), device, problem, false).empty()) << spec.arch.text();
        select(SelectionPolicy::inductor, problem, *ranking);
        EXPECT_EQ(ranking->policy, "inductor");
        ASSERT_FALSE(ranking->candidates.empty()) << spec.arch.text() << " " << name_of(type);
        std::set<std::string> names;
        for (const Candidate& candidate : ranking->candidates) {
          EXPECT_TRUE(serves(spec, candidate.recipe.main(), problem)) << recipe_name(candidate.recipe);
          EXPECT_TRUE(names.insert(recipe_name(candidate.recipe)).second) << recipe_name(candidate.recipe);
        }
      }
  EXPECT_GT(rankings, 10u);
}

TEST(ModelPolicy, TakesAllByPredictedSeconds) {
  const auto specs = load_cuda_specs().value();
  std::size_t reordered = 0;
  for (const CudaSpec& spec : specs) {
    const GemmProblem problem = gemm_problem(DataType::bf16, 300, 1024, 4096);
    auto ranking = rank(spec, problem);
    if (!ranking) continue;
    const std::vector<Candidate> all = ranking->candidates;
    select(SelectionPolicy::model, problem, *ranking);
    EXPECT_EQ(ranking->policy, "model");
    EXPECT_EQ(ranking->candidates.size(), all.size());
    EXPECT_TRUE(std::ranges::is_sorted(ranking->candidates, {}, &Candidate::predicted_seconds)) << spec.arch.text();
    reordered += !std::ranges::equal(ranking->candidates, all, {}, &Candidate::recipe, &Candidate::recipe);
    EXPECT_TRUE(std::ranges::is_permutation(ranking->candidates, all, {}, &Candidate::recipe, &Candidate::recipe));
  }
  EXPECT_GT(reordered, 0u) << "no table orders otherwise than the model";
}

TEST(InductorPolicy, TakesTheNearestTileAndTheEarlierOfEqualOnes) {
  const auto specs = load_cuda_specs().value();
  const auto spec = std::ranges::find(specs, "sm_90a", [](const CudaSpec& each) { return each.arch.text(); });
  ASSERT_NE(spec, specs.end());
  const GemmProblem problem = gemm_problem(DataType::bf16, 4096, 4096, 4096);
  const std::vector<Candidate> candidates = rank(*spec, problem)->candidates;
  const auto places = nearest_candidates(candidates, {{.block_m = 128, .block_n = 256, .block_k = 64, .stages = 4},
                                                      {.block_m = 128, .block_n = 250, .block_k = 64, .stages = 4},
                                                      {.block_m = 64, .block_n = 64, .block_k = 64, .stages = 12}});
  ASSERT_EQ(places.size(), 2u);  // the first two have one kernel
  const auto tile_of = [&](std::size_t place) { return candidates[place].recipe.main().algorithm.tile; };
  EXPECT_EQ(tile_of(places[0])[0], 128);
  EXPECT_EQ(tile_of(places[0])[1], 256);
  EXPECT_EQ(tile_of(places[1])[0], 64);
  EXPECT_EQ(tile_of(places[1])[1], 64);
  for (std::size_t i = 0; i < places[0]; ++i)
    EXPECT_FALSE(tile_of(i) == tile_of(places[0]) &&
                 candidates[i].recipe.main().algorithm.stages == candidates[places[0]].recipe.main().algorithm.stages);
  EXPECT_TRUE(nearest_candidates({}, {{.block_m = 16}}).empty());
}

TEST(InductorPolicy, FewQueriesGoToTheTableOfDecoding) {
  AttentionProblem problem;
  problem.heads_q = 8;
  problem.heads_kv = 1;
  problem.seqlen_k = 1024;
  const InductorDevice device = cuda(9, 0, 232'448);
  const auto decode = inductor_configs(tables(), device, problem, false);
  ASSERT_EQ(decode.size(), 3u);  // the default is one of the three
  for (const InductorConfig& config : decode) EXPECT_EQ(config.block_m, 16);
  problem.seqlen_q = 1024;
  const auto forward = inductor_configs(tables(), device, problem, false);
  EXPECT_EQ(forward.size(), 6u);  // five, and the default of head dim 128
  EXPECT_EQ(inductor_configs(tables(), device, problem, true).size(), 144u);
}

}  // namespace
}  // namespace tilesmith
