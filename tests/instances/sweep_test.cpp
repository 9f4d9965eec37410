// Sweep files: what they allow, and that malformed ones are refused with file, path and value.
#include "instances/sweep.hpp"

#include <gtest/gtest.h>

#include "instances/attention/ck.hpp"

namespace tilesmith {
namespace {

AmdAttentionQuery query_for(const char* sweep, EnumerationMode mode = EnumerationMode::rules) {
  auto parsed = parse_attention_sweep("sweep.json", sweep);
  EXPECT_TRUE(parsed.has_value()) << parsed.error().text();
  return {.chip = **find_amd_chip("gfx950"),
          .spec = amd_attention_spec().value(),
          .mode = mode,
          .sweep = parsed.value_or(AttentionSweep{})};
}

TEST(Sweep, AllowListsAgreeWithAPlainLoop) {
  const AmdAttentionQuery swept =
      query_for(R"({"variant": "fwd", "trait_config": {"data_type": {"values": ["fp16", "bf16"]},
      "pipeline": {"values": ["qr", "qr_async"]}, "mask": {"values": ["no", "top_left"]}, "bias": {"values": ["no"]}, "lse": {"values": [true]},
      "mode": {"values": ["group"]}}})");
  EXPECT_EQ(swept.sweep.variant, AttentionVariant::fwd);
  const auto wanted = [](const KernelConfig& config) {
    const AttentionSignature& s = config.attention();
    return (s.data_type == DataType::fp16 || s.data_type == DataType::bf16) &&
           (config.algorithm.pipeline == Pipeline::qr || config.algorithm.pipeline == Pipeline::qr_async) &&
           (s.mask == MaskKind::none || s.mask == MaskKind::top_left) && s.bias == BiasKind::none && s.lse &&
           s.mode == SequenceMode::group;
  };
  std::vector<KernelConfig> expected, found;
  AmdAttentionQuery plain = swept;
  plain.sweep = {};
  enumerate_amd_attention(plain, AttentionVariant::fwd, [&](const KernelConfig& c) {
    if (wanted(c)) expected.push_back(c);
    return true;
  });
  enumerate_amd_attention(swept, AttentionVariant::fwd,
                          [&](const KernelConfig& c) { return found.push_back(c), true; });
  EXPECT_GT(expected.size(), 1000u);
  EXPECT_TRUE(found == expected);
}

TEST(Sweep, BlockPerCuIsSweptInnermost) {
  const AmdAttentionQuery swept = query_for(
      R"({"trait_config": {"block_per_cu": {"values": [-1, 2, 2, 1]}, "data_type": {"values": ["fp8fp32"]}}})");
  std::vector<int> first;
  std::size_t count = 0;
  enumerate_amd_attention(swept, AttentionVariant::fwd, [&](const KernelConfig& c) {
    if (++count <= 3) first.push_back(c.algorithm.block_per_cu);
    return true;
  });
  EXPECT_EQ(first, (std::vector<int>{-1, 2, 1}));
  AmdAttentionQuery plain = swept;
  plain.sweep.block_per_cu = {-1};
  std::size_t single = 0;
  enumerate_amd_attention(plain, AttentionVariant::fwd, [&](const KernelConfig&) { return ++single, true; });
  EXPECT_EQ(count, 3 * single);
}

// Upstream obeys some traits for some variants only: lse is one of fwd.
TEST(Sweep, TraitsReachTheFamiliesTheyReachUpstream) {
  const AmdAttentionQuery swept = query_for(R"({"trait_config": {"lse": {"values": [false]}}})");
  std::size_t splitkv = 0;
  enumerate_amd_attention(swept, AttentionVariant::splitkv, [&](const KernelConfig&) { return ++splitkv, true; });
  EXPECT_EQ(splitkv, 632028u);
}

TEST(Sweep, ExhaustiveListsTakeTheAllowedValues) {
  AmdAttentionQuery swept =
      query_for(R"({"trait_config": {"mask": {"values": ["generic"]}, "data_type": {"values": ["fp16"]}}})",
                EnumerationMode::exhaustive);
  swept.head_dims = {{128, 128}};
  std::size_t count = 0;
  bool all_generic = true;
  enumerate_amd_attention(swept, AttentionVariant::fwd, [&](const KernelConfig& c) {
    all_generic = all_generic && c.attention().mask == MaskKind::generic;
    return ++count, true;
  });
  EXPECT_EQ(count, 211392u / 3);
  EXPECT_TRUE(all_generic);
}

std::string error_of(std::string_view text) {
  const auto parsed = parse_attention_sweep("sweep.json", text);
  EXPECT_FALSE(parsed.has_value()) << text.substr(0, 200);
  return parsed ? std::string() : parsed.error().text();
}

TEST(Sweep, MalformedFilesNameFilePathAndValue) {
  const struct {
    const char* text;
    const char* says;
  } cases[] = {
      {"", "sweep.json:1"},
      {"{", "sweep.json:1"},
      {"[]", "$ is []"},
      {"null", "$ is null"},
      {R"({"variant": 3})", "$.variant is 3"},
      {R"({"variant": "forward"})", "$.variant"},
      {R"({"variants": "fwd"})", "$.variants is not a known field"},
      {R"({"trait_config": []})", "$.trait_config is []"},
      {R"({"trait_config": {"maks": {"values": ["no"]}}})", "did you mean 'mask'"},
      {R"({"trait_config": {"mask": ["no"]}})", "$.trait_config.mask is [\"no\"]"},
      {R"({"trait_config": {"mask": {"values": []}}})", "$.trait_config.mask.values is []"},
      {R"({"trait_config": {"mask": {"values": "no"}}})", "$.trait_config.mask.values is \"no\""},
      {R"({"trait_config": {"mask": {"values": ["no", "causl"]}}})", "$.trait_config.mask.values[1] is \"causl\""},
      {R"({"trait_config": {"mask": {"value": ["no"]}}})", "did you mean 'values'"},
      {R"({"trait_config": {"lse": {"values": [1]}}})", "$.trait_config.lse.values[0] is 1"},
      {R"({"trait_config": {"lse": {"values": ["true"]}}})", "true or false"},
      {R"({"trait_config": {"block_per_cu": {"values": [1000]}}})", "$.trait_config.block_per_cu.values[0] is 1000"},
      {R"({"trait_config": {"block_per_cu": {"values": [1.5]}}})", "$.trait_config.block_per_cu.values[0] is 1.5"},
      {R"({"trait_config": {"data_type": {"values": ["fp17"]}}})", "fp17"},
      {"\xff\xfe", "sweep.json:1"},
  };
  for (const auto& each : cases) {
    const std::string error = error_of(each.text);
    EXPECT_NE(error.find("sweep.json"), std::string::npos) << each.text << "\n" << error;
    EXPECT_NE(error.find(each.says), std::string::npos) << each.text << "\n" << error;
  }
}

TEST(Sweep, DepthAndSizeAreBounded) {
  EXPECT_NE(error_of(std::string(1 << 24, '[')).find("nested deeper"), std::string::npos);
  EXPECT_NE(error_of(R"({"trait_config": {"mask": {"values": )" + std::string(100000, '[')).find("nested deeper"),
            std::string::npos);
  EXPECT_FALSE(load_attention_sweep("/nonexistent/sweep.json").has_value());
  const auto endless = load_attention_sweep("/dev/zero");
  ASSERT_FALSE(endless.has_value());
  EXPECT_NE(endless.error().text().find("larger than"), std::string::npos);
}

}  // namespace
}  // namespace tilesmith
