#include "sweep/bench_config.hpp"

#include <gtest/gtest.h>

#include "sweep/sample_row.hpp"

namespace tilesmith {
namespace {

BenchConfig parse(const std::string& text, RowChoice operation = Operation::attention) {
  auto config = BenchConfig::parse(operation, "sweep.json", text);
  EXPECT_TRUE(config) << config.error().text();
  return config ? std::move(*config) : BenchConfig();
}

TEST(BenchConfig, WhatIsNotNamedIsAllowed) {
  for (const char* text : {"{}", R"({"variant": "fwd"})", R"({"trait_config": {}})"}) {
    EXPECT_TRUE(parse(text).allows(testing::sample_row().problem)) << text;
    EXPECT_TRUE(parse(text).allows(testing::sample_row().recipe)) << text;
  }
}

TEST(BenchConfig, EveryTraitPicks) {
  const BenchRow row = testing::sample_row();  // bf16 batch top_left, 192/128, lse; x86_64_v3 flash fma 32x64
  const auto allows = [&](const std::string& trait, const std::string& values) {
    const BenchConfig config = parse("{\"trait_config\": {\"" + trait + "\": {\"values\": [" + values + "]}}}");
    return config.allows(row.problem) && config.allows(row.recipe);
  };
  const std::tuple<const char*, const char*, const char*> traits[] = {{"data_type", "\"bf16\"", "\"fp32\""},
                                                                      {"mode", "\"batch\"", "\"group\""},
                                                                      {"mask", "\"no\", \"top_left\"", "\"no\""},
                                                                      {"bias", "\"no\"", "\"alibi\""},
                                                                      {"lse", "true", "false"},
                                                                      {"dropout", "false", "true"},
                                                                      {"head_dim_qk", "64, 192", "64"},
                                                                      {"head_dim_v", "128", "192"},
                                                                      {"arch", "\"x86_64_v3\"", "\"x86_64_v4\""},
                                                                      {"pipeline", "\"flash\"", "\"decode\""},
                                                                      {"instruction", "\"fma\"", "\"dpbf16\""},
                                                                      {"tile_m", "16, 32", "64"},
                                                                      {"tile_n", "64", "128, 256"}};
  for (const auto& [trait, yes, no] : traits) {
    EXPECT_TRUE(allows(trait, yes)) << trait;
    EXPECT_FALSE(allows(trait, no)) << trait;
  }
}

TEST(BenchConfig, EveryTraitOfGemmPicks) {
  const BenchRow row = testing::sample_gemm_row();  // int8 to bf16 rrr + C bias+gelu; x86_64_v4 blocked 96x528x512
  const auto allows = [&](const std::string& trait, const std::string& values) {
    const BenchConfig config =
        parse("{\"trait_config\": {\"" + trait + "\": {\"values\": [" + values + "]}}}", Operation::gemm);
    return config.allows(row.problem) && config.allows(row.recipe);
  };
  const std::tuple<const char*, const char*, const char*> traits[] = {{"data_type", "\"int8\"", "\"bf16\""},
                                                                      {"output_type", "\"bf16\"", "\"int32\""},
                                                                      {"layout", "\"rcr\", \"rrr\"", "\"rcr\""},
                                                                      {"epilogue", "\"\", \"bias+gelu\"", "\"bias\""},
                                                                      {"beta", "true", "false"},
                                                                      {"arch", "\"x86_64_v4\"", "\"x86_64_v3\""},
                                                                      {"pipeline", "\"blocked\"", "\"skinny\""},
                                                                      {"instruction", "\"int16dot\"", "\"fma\""},
                                                                      {"tile_m", "96", "192"},
                                                                      {"tile_n", "528", "1056"},
                                                                      {"tile_k", "512", "1024"},
                                                                      {"split_k", "false", "true"}};
  for (const auto& [trait, yes, no] : traits) {
    EXPECT_TRUE(allows(trait, yes)) << trait;
    EXPECT_FALSE(allows(trait, no)) << trait;
  }
  for (const auto& [text, word] : {std::pair{R"({"trait_config": {"mask": {"values": ["no"]}}})", "mask is no trait"},
                                   {R"({"trait_config": {"layout": {"values": ["rcx"]}}})", "each r or c, as in rcr"},
                                   {R"({"trait_config": {"epilogue": {"values": ["bias,gelu"]}}})", "epilogue"},
                                   {R"({"variant": "fwd"})", "variant"}}) {
    const auto config = BenchConfig::parse(Operation::gemm, "sweep.json", text);
    ASSERT_FALSE(config) << text;
    EXPECT_NE(config.error().text().find(word), std::string::npos) << config.error().text();
  }
}

TEST(BenchConfig, EveryFieldOfAProblemPicks) {
  for_each_operation([]<class Op>(Op) {
    const typename Op::Problem usual;
    Op::Problem::fields(usual, [&](std::string_view name, const auto& value) {
      std::string text;
      append_value(text, value);
      using F = std::remove_cvref_t<decltype(value)>;
      if constexpr (FlagField<F>) text = value ? "true" : "false";
      if constexpr (EnumField<F> || ListField<F>) text = "\"" + text + "\"";
      const BenchConfig config = parse(
          R"({"trait_config": {")" + std::string(name) + R"(": {"values": [)" + text + "]}}}", RowChoice::of<Op>());
      EXPECT_TRUE(config.allows(usual)) << Op::kName << ": " << name;
    });
  });
}

TEST(BenchConfig, FieldsOfAlgorithmsPickKernels) {
  BenchRow row = testing::sample_gemm_row();
  const auto allows = [&](const std::string& trait, const std::string& value) {
    const BenchConfig config =
        parse("{\"trait_config\": {\"" + trait + "\": {\"values\": [" + value + "]}}}", Operation::gemm);
    return config.allows(row.problem) && config.allows(row.recipe);
  };
  row.recipe.steps[0].config.algorithm.stream_k = true;
  EXPECT_TRUE(allows("stream_k", "true"));
  EXPECT_FALSE(allows("stream_k", "false"));
  EXPECT_TRUE(allows("epilogue", "\"bias+gelu\"")) << "the problem's, not the algorithm's";
  row.recipe.steps[0].config.algorithm.packed_b = true;
  EXPECT_TRUE(allows("packed_b", "false")) << "the problem's";
}

TEST(BenchConfig, ARecipeIsAllowedWhenAllOfItsStepsAre) {
  const Recipe recipe = testing::sample_row_of_two_steps().recipe;  // tiles of 48 and 96 rows
  for (const auto& [values, allowed] : {std::pair{"48", false}, {"96", false}, {"48, 96", true}})
    EXPECT_EQ(parse(std::string(R"({"trait_config": {"tile_m": {"values": [)") + values + "]}}}", Operation::gemm)
                  .allows(recipe),
              allowed)
        << values;
}

TEST(BenchConfig, MistakesAreNamedByFilePathAndValue) {
  const std::tuple<const char*, const char*, const char*> mistakes[] = {
      {"", "sweep.json", ""},
      {"[1]", "sweep.json", "object"},
      {R"({"variant": "bwd"})", "variant", "\"fwd\""},
      {R"({"varient": "fwd"})", "varient", "variant"},
      {R"({"trait_config": {"data_typ": {"values": ["bf16"]}}})", "data_typ is no trait", "data_type"},
      {R"({"trait_config": {"data_type": {"values": []}}})", "data_type.values", "leave the trait out"},
      {R"({"trait_config": {"data_type": {"value": ["bf16"]}}})", "value", "values"},
      {R"({"trait_config": {"data_type": {"values": ["bf61"]}}})", "values[0]", "bf16"},
      {R"({"trait_config": {"lse": {"values": ["yes"]}}})", "lse.values[0]", "true or false"},
      {R"({"trait_config": {"tile_m": {"values": [64, -1]}}})", "tile_m.values[1]", "65535"},
      {R"({"trait_config": {"tile_m": {"values": 64}}})", "tile_m.values", ""}};
  for (const auto& [text, message, hint] : mistakes) {
    const auto config = BenchConfig::parse(Operation::attention, "sweep.json", text);
    ASSERT_FALSE(config) << text;
    EXPECT_NE(config.error().message.find("sweep.json"), std::string::npos) << config.error().message;
    EXPECT_NE(config.error().message.find(message), std::string::npos) << config.error().message;
    EXPECT_NE(config.error().hint.find(hint), std::string::npos) << text << ": " << config.error().text();
  }
}

}  // namespace
}  // namespace tilesmith
