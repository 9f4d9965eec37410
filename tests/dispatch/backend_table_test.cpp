// What a device has kernels for is read from one table; what it lacks is one error. Lists and packing are rows beside
// the operations that callers compute.
#include <gtest/gtest.h>

#include "dispatch/backend.hpp"
#include "dispatch/cuda_backend.hpp"

namespace tilesmith {
namespace {

TEST(BackendTable, TheCpuHasEveryOperation) {
  const auto cpu = open_backend({}, 1).value();
  EXPECT_EQ(cpu->device(), Device{});
  EXPECT_TRUE(cpu->find<AttentionFwd>());
  EXPECT_TRUE(cpu->find<Gemm>());
  EXPECT_TRUE(cpu->find<GemmPackB>());
  EXPECT_TRUE(cpu->find<Conv>());
  EXPECT_TRUE(cpu->find<ConvPackW>());
  EXPECT_TRUE(cpu->find<ListOf<Gemm>>());
  EXPECT_TRUE(cpu->find<MergeStatesCall>());
  EXPECT_TRUE(cpu->find<AppendKvCall>());
}

TEST(BackendTable, AnOperationThatADeviceLacksIsOneError) {
  const auto cuda = CudaBackend::make(1, {9, 0, 132, 60 << 20, 4.8e12}).value();
  EXPECT_TRUE(cuda->find<AttentionFwd>());
  EXPECT_TRUE(cuda->find<Gemm>());
  EXPECT_TRUE(cuda->find<ListOf<Gemm>>());
  EXPECT_TRUE(cuda->find<MergeStatesCall>());
  EXPECT_TRUE(cuda->find<AppendKvCall>());
  const auto missing = cuda->find<GemmPackB>();
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::unsupported);
  EXPECT_EQ(missing.error().message, "cuda:1 has no kernels of gemm_pack_b");
  EXPECT_FALSE(missing.error().hint.empty());
  EXPECT_FALSE(cuda->find<ConvPackW>());
}

TEST(BackendTable, PackingIsARecipeOfItsOwnRole) {
  const auto cpu = open_backend({}, 2).value();
  OperationBackend<GemmPackB>& kernels = *cpu->find<GemmPackB>().value();
  GemmProblem gemm{.m = 7, .n = 48, .k = 130};
  gemm.type_a = gemm.type_b = gemm.type_c = gemm.type_d = DataType::fp32;
  const GemmPackBProblem problem = pack_b_problem(gemm);
  gemm.m = 99;  // packing does not depend on it
  EXPECT_EQ(pack_b_problem(gemm), problem);
  EXPECT_EQ(hash_of(pack_b_problem(gemm)), hash_of(problem));

  const Ranking ranking = kernels.rank(problem).value();
  ASSERT_EQ(ranking.candidates.size(), 1U);
  const Candidate& only = ranking.candidates.front();
  EXPECT_TRUE(recipe_name(only.recipe).starts_with("pack_b:gemm_")) << recipe_name(only.recipe);
  EXPECT_TRUE(kernels.check(only.recipe, problem));
  const Status refused = kernels.check(Recipe(only.recipe.main()), problem);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().hint, recipe_name(only.recipe));

  const auto plan = kernels.plan(problem, only, "a test", BuildPolicy::allowed);
  ASSERT_TRUE(plan) << plan.error().text();
  ASSERT_EQ((*plan)->steps().size(), 1U);
  EXPECT_EQ((*plan)->steps().front().role, "pack_b");
  EXPECT_EQ((*plan)->steps().front().what, "packs B");
  EXPECT_GE((*plan)->packed_bytes(), 64 + 48 * 130 * sizeof(float));
  const std::vector<float> b(48 * 130, 1);
  EXPECT_FALSE((*plan)->run({.b = {b.data(), 130, 0}}));
}

TEST(BackendTable, PackingFiltersIsARecipeOfItsOwnRole) {
  const auto cpu = open_backend({}, 2).value();
  OperationBackend<ConvPackW>& kernels = *cpu->find<ConvPackW>().value();
  ConvProblem conv{.data_type = DataType::fp32, .type_out = DataType::fp32, .c = 20, .k = 50, .in_h = 9, .in_w = 9};
  const ConvPackWProblem problem = pack_w_problem(conv);
  conv.batch = 99;  // packing does not depend on it
  EXPECT_EQ(pack_w_problem(conv), problem);
  EXPECT_EQ(hash_of(pack_w_problem(conv)), hash_of(problem));
  const Ranking ranking = kernels.rank(problem).value();
  ASSERT_EQ(ranking.candidates.size(), 1U);
  const Candidate& only = ranking.candidates.front();
  EXPECT_TRUE(recipe_name(only.recipe).starts_with("pack_w:conv_")) << recipe_name(only.recipe);
  EXPECT_TRUE(kernels.check(only.recipe, problem));
  EXPECT_FALSE(kernels.check(Recipe(only.recipe.main()), problem));
  const auto plan = kernels.plan(problem, only, "a test", BuildPolicy::allowed);
  ASSERT_TRUE(plan) << plan.error().text();
  EXPECT_EQ((*plan)->steps().front().role, "pack_w");
  EXPECT_EQ((*plan)->steps().front().what, "packs w");
  EXPECT_GE((*plan)->packed_bytes(), 128 + 50 * 20 * sizeof(float));
}

}  // namespace
}  // namespace tilesmith
