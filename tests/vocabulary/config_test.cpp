// Identity of kernel configs: canonical form, key, JSON and native names lose nothing.
#include "vocabulary/config.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "random_config.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

using testing::random_config;

TEST(KernelConfig, NameParsesToTheSameConfig) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    KernelConfig config = random_config(random);
    if (config.arch.text() == "a_on_b") config.arch = *ArchName::parse("sm_90a");  // "_on_" closes a native name
    const std::string name = native_name(config);
    const auto parsed = parse_native_name(name);
    ASSERT_TRUE(parsed.has_value()) << name << "\n" << parsed.error().text();
    ASSERT_EQ(*parsed, config) << name << "\n" << native_name(*parsed);
    ASSERT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"), std::string::npos) << name;
  }
}

TEST(KernelConfig, JsonRoundTrips) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 5000; ++i) {
    const KernelConfig config = random_config(random);
    const auto parsed = config_from_json(nlohmann::json::parse(to_json(config).dump()));
    ASSERT_TRUE(parsed.has_value()) << parsed.error().text();
    ASSERT_EQ(*parsed, config);
  }
}

TEST(KernelConfig, EveryFieldIsPartOfTheIdentity) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 3000; ++i) {
    const KernelConfig config = random_config(random);
    std::size_t fields = 0;
    std::visit([&](const auto& s) { s.fields(s, [&](std::string_view, const auto&) { ++fields; }); }, config.signature);
    const std::size_t signature_fields = fields;
    Algorithm::fields(config.algorithm, [&](std::string_view, const auto&) { ++fields; });
    const std::size_t chosen = random() % fields;

    KernelConfig changed = config;
    std::size_t position = 0;
    const auto change = [&](std::string_view, auto& value) {
      if (position++ != chosen) return;
      const auto before = value;
      while (value == before) testing::randomize(random, value);
    };
    std::visit([&](auto& s) { s.fields(s, change); }, changed.signature);
    ASSERT_EQ(position, signature_fields);
    Algorithm::fields(changed.algorithm, change);
    ASSERT_NE(canonical_form(changed), canonical_form(config));
    ASSERT_NE(key_of(changed), key_of(config));
    ASSERT_FALSE(changed == config);
  }
}

TEST(KernelConfig, EqualityIsEqualityOfCanonicalForms) {
  std::mt19937_64 random(4);
  std::vector<KernelConfig> configs;
  for (int i = 0; i < 300; ++i) configs.push_back(random_config(random));
  for (const auto& a : configs)
    for (const auto& b : configs) ASSERT_EQ(a == b, canonical_form(a) == canonical_form(b));
}

// The bytes of the canonical form feed keys kept on disk: a change here orphans every store, so it must be deliberate.
TEST(KernelConfig, KeyIsStable) {
  KernelConfig config;
  config.arch = *ArchName::parse("x86_64_v4");
  EXPECT_EQ(canonical_form(config).substr(0, 72),
            "arch=x86_64_v4;operation=attention;family=fwd;data_type=fp16;mode=batch;");
  EXPECT_EQ(key_of(config).hex(), "a73db1f6ee11f5da6c40116e22af84ac");
}

TEST(KernelConfig, ReadableName) {
  KernelConfig config;
  config.arch = *ArchName::parse("x86_64_v4_bf16");
  AttentionSignature& signature = config.attention();
  signature.data_type = DataType::bf16;
  signature.head_dim_qk = 192;
  signature.mask = MaskKind::generic;
  signature.lse = true;
  config.algorithm.pipeline = Pipeline::flash;
  config.algorithm.instruction = Instruction::dpbf16;
  config.algorithm.tile = {64, 256};
  EXPECT_EQ(native_name(config),
            "attention_fwd_bf16_batch_d192_dv128_mask_generic_lse_flash_dpbf16_tile64x256_on_x86_64_v4_bf16");

  config.arch = *ArchName::parse("sm_90a");
  signature.mask = MaskKind::causal;
  signature.negative_scale = true;
  config.algorithm = {.pipeline = Pipeline::warp_specialized,
                      .instruction = Instruction::wgmma,
                      .tile = {192, 128},
                      .stages = 2,
                      .q_stages = 2,
                      .pack_gqa = 4,
                      .block_per_cu = 1,
                      .ping_pong = true,
                      .dynamic_scheduler = true,
                      .late_wait = true,
                      .late_store = true};
  EXPECT_EQ(native_name(config),
            "attention_fwd_bf16_batch_d192_dv128_mask_causal_lse_negscale_warpspec_wgmma_tile192x128_stages2_qstages2_"
            "pack4_blocks1_pingpong_dynamic_latewait_latestore_on_sm_90a");
  EXPECT_EQ(*parse_native_name(native_name(config)), config);
}

TEST(KernelConfig, GemmNamesListTheEpilogue) {
  KernelConfig config;
  config.arch = *ArchName::parse("x86_64_v4_bf16");
  auto& signature = config.signature.emplace<GemmSignature>();
  signature.a = signature.b = signature.c = signature.aux = signature.bias = DataType::bf16;
  signature.epilogue_ops = {EpilogueOp::bias, EpilogueOp::gelu_tanh, EpilogueOp::scale_m};
  config.algorithm = {
      .pipeline = Pipeline::blocked, .instruction = Instruction::dpbf16, .tile = {192, 480, 512}, .split_k = true};
  EXPECT_EQ(native_name(config),
            "gemm_standard_a_bf16_b_bf16_c_bf16_side_bf16_bias_bf16_with_bias_gelutanh_scalem_blocked_dpbf16_"
            "tile192x480x512_splitk_on_x86_64_v4_bf16");
  EXPECT_EQ(*parse_native_name(native_name(config)), config);
  EXPECT_NE(canonical_form(config).find(";epilogue_ops=bias+gelu_tanh+scale_m;"), std::string::npos);
  EXPECT_EQ(to_json(config)["signature"]["epilogue_ops"], (nlohmann::json{"bias", "gelu_tanh", "scale_m"}));

  // "gelu", "tanh" is another list than "gelu_tanh".
  signature.epilogue_ops = {EpilogueOp::gelu, EpilogueOp::tanh};
  EXPECT_NE(native_name(config).find("_with_gelu_tanh_blocked"), std::string::npos);
  EXPECT_EQ(*parse_native_name(native_name(config)), config);

  nlohmann::json json = to_json(config);
  json["signature"]["epilogue_ops"] = nlohmann::json::array({"relu", "none"});
  const auto none = config_from_json(json);
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().text().find("signature.epilogue_ops"), std::string::npos) << none.error().text();
  json["signature"]["epilogue_ops"] = nlohmann::json::array({"rilu"});
  EXPECT_FALSE(config_from_json(json));
}

TEST(KernelConfig, BadNamesSayWhatIsWrong) {
  for (const char* name :
       {"", "attention", "attention_fwd_bf16", "attention_fwd_bf17_batch_d128_dv128_flash_fma_tile64_on_x86_64_v4",
        "attention_fwd_bf16_batch_d99999999_dv128_flash_fma_tile64_on_x86_64_v4",
        "attention_fwd_bf16_batch_d128_dv128_flash_fma_tile64_surprise_on_x86_64_v4",
        "attention_fwd_bf16_batch_d128_dv128_flash_fma_tile64_on_X86"}) {
    const auto parsed = parse_native_name(name);
    ASSERT_FALSE(parsed.has_value()) << name;
    EXPECT_FALSE(parsed.error().hint.empty()) << name;
  }
  EXPECT_FALSE(parse_native_name(std::string(100000, 'a')).has_value());
}

TEST(KernelConfig, BadJsonNamesPathAndValue) {
  const auto error_of = [](const char* text) {
    const auto parsed = config_from_json(nlohmann::json::parse(text));
    EXPECT_FALSE(parsed.has_value()) << text;
    return parsed ? std::string() : parsed.error().text();
  };
  const std::string frame = R"({"arch":"x86_64_v4","operation":"attention","signature":{%},"algorithm":{}})";
  const auto with = [&](const char* fields) { return std::string(frame).replace(frame.find('%'), 1, fields); };
  EXPECT_NE(error_of(with(R"("head_dim_qk":-1)").c_str()).find("$.signature.head_dim_qk is -1"), std::string::npos);
  EXPECT_NE(error_of(with(R"("head_dim_qk":65536)").c_str()).find("0 to 65535"), std::string::npos);
  EXPECT_NE(error_of(with(R"("head_dim_qk":"a")").c_str()).find("an integer"), std::string::npos);
  EXPECT_NE(error_of(with(R"("head_dim_q":128)").c_str()).find("head_dim_qk"), std::string::npos);
  EXPECT_NE(error_of(with(R"("mask":"top_lft")").c_str()).find("did you mean top_left"), std::string::npos);
  EXPECT_NE(error_of(with(R"("lse":1)").c_str()).find("true or false"), std::string::npos);
  EXPECT_NE(error_of(R"({"arch":"x86_64_v4"})").find("$.operation is missing"), std::string::npos);
  EXPECT_NE(error_of(R"([])").find("$ is []"), std::string::npos);
}

TEST(EnumTable, EveryNameParsesToItsValueAndIsUnique) {
  const auto check = []<class E>(E) {
    std::set<std::string_view> seen;
    for (const auto& entry : EnumTable<E>::kNames) {
      EXPECT_EQ(*parse_enum<E>(entry.name), entry.value);
      EXPECT_TRUE(seen.insert(entry.name).second) << entry.name;
    }
  };
  check(DataType{});
  check(AttentionFamily{});
  check(MaskKind{});
  check(BiasKind{});
  check(Pipeline{});
  check(Instruction{});
  check(ElementwiseKind{});
  check(ConvSpecialization{});
}

}  // namespace
}  // namespace tilesmith
