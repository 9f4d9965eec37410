// Recipes: their names read back, and their keys tell them apart.
#include "vocabulary/recipe.hpp"

#include <gtest/gtest.h>

#include "vocabulary/names/name.hpp"

namespace tilesmith {
namespace {

KernelConfig config_of(std::uint16_t columns, bool adds = false) {
  KernelConfig config{.arch = ArchName::parse("sm_90a").value(), .signature = GemmSignature{}, .algorithm = {}};
  config.algorithm = {.pipeline = Pipeline::warp_specialized,
                      .instruction = Instruction::wgmma,
                      .tile = {64, columns, 64},
                      .wave = {1},
                      .stages = 4,
                      .split_k = true,
                      .split_k_atomic = adds};
  return config;
}

TEST(Recipes, OfOneComputingStepAreCalledAndKeyedAsTheirKernel) {
  const KernelConfig config = config_of(64);
  EXPECT_EQ(recipe_name(config), kernel_name(config));
  EXPECT_EQ(key_of(Recipe(config)), key_of(config));
  EXPECT_EQ(parse_recipe_name(kernel_name(config)).value(), Recipe(config));
}

TEST(Recipes, NamesOfSeveralStepsReadBack) {
  const Recipe recipe({{config_of(64), StepRole::pack_b}, {config_of(128)}, {config_of(64)}});
  const std::string name = recipe_name(recipe);
  EXPECT_EQ(name, "pack_b:" + kernel_name(config_of(64)) + "+" + kernel_name(config_of(128)) + "+" +
                      kernel_name(config_of(64)));
  EXPECT_EQ(parse_recipe_name(name).value(), recipe);
  EXPECT_EQ(step_name(recipe.steps[0]), "pack_b:" + kernel_name(config_of(64)));
  EXPECT_EQ(recipe.main(), config_of(128)) << "the first step that computes";
  EXPECT_EQ(Recipe(config_of(64), StepRole::pack_b).main(), config_of(64));
}

TEST(Recipes, KeysDependOnStepsRolesAndTheirOrder) {
  const Step a{config_of(64)}, b{config_of(128)}, packs{config_of(64), StepRole::pack_b};
  const std::vector<Recipe> recipes{Recipe({a}),    Recipe({packs}),    Recipe({a, b}),   Recipe({b, a}),
                                    Recipe({a, a}), Recipe({packs, b}), Recipe({a, b, a})};
  for (std::size_t i = 0; i < recipes.size(); ++i)
    for (std::size_t j = 0; j < recipes.size(); ++j)
      EXPECT_EQ(key_of(recipes[i]) == key_of(recipes[j]), i == j) << i << ", " << j;
}

TEST(Recipes, AreBitwiseWhenEveryStepIs) {
  EXPECT_TRUE(Recipe({{config_of(64)}, {config_of(128)}}).is_bitwise());
  EXPECT_FALSE(Recipe({{config_of(64)}, {config_of(128, true)}}).is_bitwise());
  KernelConfig gradients = config_of(64);
  gradients.signature = AttentionSignature{.family = AttentionFamily::bwd_dq_dk_dv};
  gradients.algorithm = {};
  EXPECT_FALSE(Recipe(gradients).is_bitwise()) << "adds in any order";
  gradients.attention().deterministic = true;
  EXPECT_TRUE(Recipe(gradients).is_bitwise());
  KernelConfig shared = config_of(64);
  shared.signature = GemmSignature{.family = GemmFamily::stream_k, .stream_k_reduction = StreamKReduction::tree};
  shared.algorithm = {};
  EXPECT_TRUE(Recipe(shared).is_bitwise());
  std::get<GemmSignature>(shared.signature).stream_k_reduction = StreamKReduction::atomic;
  EXPECT_FALSE(Recipe(shared).is_bitwise()) << "adds in any order";
}

TEST(Recipes, NamesThatAreNoneSayWhichStepIsWrong) {
  const std::string good = kernel_name(config_of(64));
  const auto message = [](const std::string& name) {
    const auto read = parse_recipe_name(name);
    return read ? "read" : read.error().message;
  };
  EXPECT_NE(message(good + "+nothing").find("step 2"), std::string::npos) << message(good + "+nothing");
  EXPECT_NE(message("sings:" + good).find("step 1: \"sings\" is no step's role"), std::string::npos)
      << message("sings:" + good);
  EXPECT_NE(message(good + "+").find("step 2"), std::string::npos) << message(good + "+");
  EXPECT_NE(message(""), "read");
  EXPECT_EQ(message("nothing").find("step"), std::string::npos) << "a kernel's name alone is spoken of as such";
  std::string long_name = good;
  for (int i = 0; i < 8; ++i) long_name += "+" + good;
  EXPECT_EQ(message(long_name), "a recipe of more than 8 steps");
}

}  // namespace
}  // namespace tilesmith
