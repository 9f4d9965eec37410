#include "choose/attention/cpu.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "choose/random_problem.hpp"
#include "instances/attention/cpu.hpp"
#include "problem/attention/problem.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

const CpuFacts& every_level() {
  static const CpuFacts facts = testing::every_level(1);
  return facts;
}

TEST(CpuAttentionRank, CarryTheProblemsTraitsAndPassEveryRule) {
  for (const DataType type : {DataType::fp32, DataType::bf16, DataType::fp16})
    for (std::uint64_t traits = 0; traits < 96; traits += 5) {
      AttentionProblem problem{
          .data_type = type, .mode = traits % 2 == 0 ? SequenceMode::batch : SequenceMode::group, .head_dim_qk = 192};
      problem.bias = std::array{BiasKind::none, BiasKind::elementwise, BiasKind::alibi}[traits % 3];
      problem.mask = traits % 7 < 3 ? MaskKind::bottom_right : MaskKind::none;
      problem.soft_cap = (traits & 1) != 0;
      problem.sink = (traits & 2) != 0;
      problem.dropout = (traits & 4) != 0;
      problem.lse = (traits & 8) != 0;
      const auto ranking = rank(every_level(), problem);
      ASSERT_TRUE(ranking) << ranking.error().text();
      std::set<Key128> keys;
      std::set<std::string> levels;
      for (const Candidate& candidate : ranking->candidates) {
        EXPECT_EQ(candidate.recipe.main().attention(), signature_of(problem));
        const CpuAttentionSubject subject{candidate.recipe.main(), *every_level().level(candidate.recipe.main().arch)};
        EXPECT_EQ(first_refusal(cpu_attention_rules(), subject), nullptr);
        EXPECT_TRUE(serves(every_level(), candidate.recipe.main(), problem));
        keys.insert(key_of(candidate.recipe.main()));
        levels.insert(std::string(candidate.recipe.main().arch.text()));
      }
      EXPECT_EQ(keys.size(), ranking->candidates.size()) << "no candidate twice";
      EXPECT_EQ(levels.size(), type == DataType::bf16 ? 4u : 2u) << "bf16 has instructions of its own on two levels";
    }
}

TEST(CpuAttentionRank, OfBatchInvariantProblemsNothingBesideASequenceDecides) {
  const auto order = [](AttentionProblem problem, int threads) {
    CpuFacts facts = every_level();
    facts.threads = threads;
    std::vector<std::string> names;
    const Ranking ranking = rank(facts, problem).value();
    for (const Candidate& candidate : ranking.candidates) names.push_back(native_name(candidate.recipe.main()));
    return names;
  };
  for (const std::int64_t page : {0, 16})
    for (const SequenceMode mode : {SequenceMode::batch, SequenceMode::group})
      for (const std::int64_t rows : {1, 64}) {
        AttentionProblem alone{.mode = mode, .heads_q = 8, .heads_kv = 2, .seqlen_q = rows, .seqlen_k = 100};
        alone.mask = MaskKind::bottom_right;
        alone.page_size = page;
        alone.batch_invariant = true;
        const std::vector<std::string> expected = order(alone, 1);
        AttentionProblem beside = alone;
        beside.batch = 300;
        beside.seqlen_k = 30000;
        if (page > 0) beside.page_size = 1;
        if (mode == SequenceMode::group) beside.seqlen_q = 2000;
        EXPECT_EQ(order(beside, 64), expected);
        beside.batch_invariant = false;
        if (mode == SequenceMode::group) {
          EXPECT_NE(order(beside, 64), expected) << "the model has nothing to decide: this test shows nothing";
        }
      }
}

TEST(CpuAttentionRank, HeadDimsOfNoOtherKernelAreTheGenericOnes) {
  for (const DataType type : {DataType::fp32, DataType::bf16, DataType::fp16})
    for (const auto& [qk, v] : {std::pair{36, 36}, {4, 4}, {12, 24}, {584, 584}, {128, 20}, {65535, 64}}) {
      const AttentionProblem problem{.data_type = type, .head_dim_qk = qk, .head_dim_v = v};
      const auto ranking = rank(every_level(), problem);
      ASSERT_TRUE(ranking) << ranking.error().text();
      EXPECT_EQ(ranking->candidates.size(), every_level().levels.size());
      for (const Candidate& candidate : ranking->candidates) {
        EXPECT_EQ(candidate.recipe.main().algorithm.pipeline, Pipeline::generic);
        EXPECT_TRUE(serves(every_level(), candidate.recipe.main(), problem));
      }
      const auto refused = refusals(every_level(), problem);
      ASSERT_TRUE(refused) << refused.error().text();
      EXPECT_FALSE(refused->empty()) << "the others say why not";
    }
}

TEST(CpuAttentionRank, AKernelWithAnotherFieldServesNothing) {
  const AttentionProblem plain{.head_dim_qk = 64, .head_dim_v = 64};
  const std::set<std::string_view> neutral{"bias", "lse", "dropout", "sink"};
  const AttentionSignature exact = signature_of(plain);
  AttentionSignature::fields(exact, [&](std::string_view name, const auto&) {
    KernelConfig config{.arch = ArchName::parse("x86_64_v3").value(), .signature = exact, .algorithm = {}};
    AttentionSignature::fields(std::get<AttentionSignature>(config.signature),
                               [&]<class F>(std::string_view field, F& value) {
                                 if (field == name) value = static_cast<F>(value == F{} ? static_cast<F>(1) : F{});
                               });
    EXPECT_EQ(serves(every_level(), config, plain).has_value(), neutral.contains(name)) << name;
    EXPECT_EQ(fallbacks(every_level(), plain, std::vector{config}).empty(), !serves(every_level(), config, plain))
        << name;
  });
}

TEST(CpuAttentionRank, AKernelServesWhatItCanNeutralize) {
  AttentionProblem plain{.head_dim_qk = 64, .head_dim_v = 64};
  KernelConfig config{.arch = ArchName::parse("x86_64_v3").value(), .signature = signature_of(plain), .algorithm = {}};
  auto& have = std::get<AttentionSignature>(config.signature);
  EXPECT_TRUE(serves(every_level(), config, plain));
  have.lse = have.dropout = have.sink = true;
  have.mask = MaskKind::generic;
  have.bias = BiasKind::elementwise;
  EXPECT_TRUE(serves(every_level(), config, plain));
  // Of two kernels that need no compiler, the one with fewer traits for nothing goes first.
  KernelConfig exact = config;
  exact.signature = signature_of(plain);
  const std::vector<KernelConfig> linked = {config, exact};
  const std::vector<Candidate> ordered = fallbacks(every_level(), plain, linked);
  ASSERT_EQ(ordered.size(), 2u);
  EXPECT_EQ(ordered.front().recipe.main(), exact);
  EXPECT_TRUE(fallbacks({}, plain, linked).empty()) << "a machine that runs no level";

  const auto serves_with = [&](auto change) {
    AttentionProblem problem = plain;
    change(problem);
    return serves(every_level(), config, problem).has_value();
  };
  EXPECT_TRUE(serves_with([](auto& p) { p.mask = MaskKind::top_left; }));
  EXPECT_TRUE(serves_with([](auto& p) { p.window_left = 3; }));
  EXPECT_TRUE(serves_with([](auto& p) { p.bias = BiasKind::elementwise; }));
  EXPECT_TRUE(serves_with([](auto& p) { p.lse = p.sink = p.dropout = true; }));
  EXPECT_FALSE(serves_with([](auto& p) { p.bias = BiasKind::alibi; }));
  EXPECT_FALSE(serves_with([](auto& p) { p.soft_cap = true; })) << "a soft cap has no neutral value";
  EXPECT_FALSE(serves_with([](auto& p) { p.data_type = DataType::fp32; }));
  EXPECT_FALSE(serves_with([](auto& p) { p.mode = SequenceMode::group; }));
  EXPECT_FALSE(serves_with([](auto& p) { p.head_dim_qk = 128; }));
  EXPECT_FALSE(serves_with([](auto& p) { p.head_dim_v = 128; }));
  have.mask = MaskKind::none;
  EXPECT_FALSE(serves_with([](auto& p) { p.window_right = 0; })) << "a kernel without a mask sees every key";
  have.soft_cap = true;
  EXPECT_FALSE(serves(every_level(), config, plain));
  config.signature = GemmSignature{};
  EXPECT_FALSE(serves(every_level(), config, plain));
}

}  // namespace
}  // namespace tilesmith
