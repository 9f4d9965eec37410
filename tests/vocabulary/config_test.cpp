// Identity of kernel configs: canonical form, key, JSON and native names lose nothing.
#include "vocabulary/config.hpp"

#include <gtest/gtest.h>

#include <set>

#include "base/json.hpp"
#include "random_config.hpp"
#include "vocabulary/canonical.hpp"
#include "vocabulary/names/ck.hpp"
#include "vocabulary/names/name.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

using testing::random_config;

constexpr const char* kKeysAreOrphaned =
    "\nThis is part of the format of keys. A changed name or default gives other keys to kernels that did not change: "
    "stored kernels are compiled anew, journals of benches do not resume and measured tables are not found. A new "
    "field "
    "changes no key: add it here with its default. Anything else needs another kCanonicalVersion (canonical.hpp).";

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
    KernelConfig config = random_config(random);
    if (random() % 2 == 0) config.origin = Origin::ck;
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
    changed = config;
    changed.origin = Origin::ck;
    ASSERT_NE(canonical_form(changed), canonical_form(config));
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

// The bytes of the canonical form feed keys kept on disk: a change here orphans every one of them, so it must be
// deliberate, and raise kCanonicalVersion.
TEST(KernelConfig, KeysAreStable) {
  const struct {
    const char* name;
    const char* arch;  ///< of a Composable Kernel name, which does not say it
    const char* canonical;
    const char* key;
  } kernels[] = {
      {"attention_fwd_bf16_batch_d192_dv128_mask_generic_lse_flash_dpbf16_tile64x256_on_x86_64_v4_bf16", "",
       "v2;origin=own;arch=x86_64_v4_bf16;operation=attention;data_type=bf16;head_dim_qk=192;mask=generic;lse=1;"
       "pipeline=flash;instruction=dpbf16;tile=64x256;",
       "df9e119ebb060a4328d01822390203f3"},
      {"gemm_standard_a_bf16_b_bf16_c_bf16_aux_bf16_bias_bf16_with_bias_gelutanh_warpspec_wgmma_tile128x256x64_wave2x1_"
       "stages4_cluster2x1_persistent_on_sm_90a",
       "",
       "v2;origin=own;arch=sm_90a;operation=gemm;a=bf16;b=bf16;c=bf16;aux=bf16;bias=bf16;epilogue_ops=bias+gelu_tanh;"
       "pipeline=warpspec;instruction=wgmma;tile=128x256x64;wave=2x1;stages=4;cluster=2;"
       "persistent=1;",
       "069256ff7f8ac795340792fc6899cf46"},
      {"gemm_fp16_rcr_compv3_cshuffle_intrawave_False_False_False_True_128x128x128_1x1x1_16x16x16", "gfx942",
       "v2;origin=ck;arch=gfx942;operation=gemm;pipeline=compv3;scheduler=intrawave;epilogue=cshuffle;"
       "tile=128x128x128;wave=1x1x1;warp=16x16x16;persistent=1;",
       "28a748cc3a6440813eeff076a5f38c4d"},
      {"fmha_fwd_fp16_batch_h128_qr_t128x128x32x128x32x128_w32x32x16_pad1111_mask=no_bias=no_bpc=-1", "gfx950",
       "v2;origin=ck;arch=gfx950;operation=attention;tile=128x128x32x128x32x128;wave=4x1x1x4x1x1x1x1x1;"
       "warp=32x32x16x32x32x16;pad=1x1x1x1;",
       "fe6df7a660a2f21cc1640516c4845dab"},
  };
  for (const auto& expected : kernels) {
    auto config = parse_kernel_name(expected.name);
    ASSERT_TRUE(config) << config.error().text();
    if (*expected.arch != 0) config->arch = *ArchName::parse(expected.arch);
    EXPECT_EQ(canonical_form(*config), expected.canonical) << kKeysAreOrphaned;
    EXPECT_EQ(key_of(*config).hex(), expected.key) << kKeysAreOrphaned;
  }
}

template <class S>
std::string defaults_text() {
  std::string out;
  const S object{};
  S::fields(object, [&](std::string_view field, const auto& value) {
    if (!out.empty()) out += ' ';
    out += field;
    out += '=';
    append_value(out, value);
  });
  return out;
}

// A field with its default is left out of keys, so its name and default are part of their format.
TEST(KernelConfig, DefaultsArePartOfTheKeys) {
  EXPECT_EQ(
      defaults_text<AttentionSignature>(),
      "family=fwd data_type=fp16 mode=batch v_layout=r head_dim_qk=128 head_dim_v=128 mask=no bias=no lse=0 "
      "dropout=0 soft_cap=0 sink=0 negative_scale=0 unaligned=0 skip_min_seqlen_q=0 qscale=no paged_kv=0 "
      "cache=as_queries latent=0 page_size=1 kv_layout=vectorized kv_lookup=sglang rope=none deterministic=0 dbias=0 "
      "dropout_variant=unset")
      << kKeysAreOrphaned;
  EXPECT_EQ(defaults_text<GemmSignature>(),
            "family=standard a=fp16 b=fp16 c=fp16 accumulator=fp32 aux=fp16 bias=fp16 scale=fp16 zero_points=0 "
            "grouping=none mm_plus_mm=0 layout_a=r layout_b=c layout_c=r layout_d=r num_d=0 elementwise=PassThrough "
            "stream_k_reduction=none qscale=no k_batch=1 structured_sparsity=0 epilogue_ops=")
      << kKeysAreOrphaned;
  EXPECT_EQ(defaults_text<ConvSignature>(),
            "direction=fwd data_type=fp16 accumulator=fp32 spatial_dims=2 depthwise=0 specialization=none "
            "stream_k_reduction=none two_stage=0 large_tensor=0 filter=0x0 stride=0x0 padding=0x0 type_out=fp16 "
            "type_bias=fp16 epilogue_ops=")
      << kKeysAreOrphaned;
  EXPECT_EQ(
      defaults_text<Algorithm>(),
      "pipeline=qr instruction=auto scheduler=default epilogue=default tile=0x0x0x0x0x0x0x0x0 wave=0x0x0x0x0x0x0x0x0 "
      "warp=0x0x0x0x0x0x0x0x0 pad=0x0x0x0 tag=none stages=0 q_stages=1 bias_stages=0 pack_gqa=1 block_per_cu=-1 "
      "cluster=1x1 cluster_k=1 wave_groups=1 max_splits_log2=0 max_seqlen_q=0 use_trload=0 split_k=0 split_k_atomic=0 "
      "stream_k=0 prefetch_weights=0 packed_b=0 persistent=0 ping_pong=0 dynamic_scheduler=0 late_wait=0 late_store=0 "
      "double_buffer=0 preshuffle=0 transpose_c=0 explicit_gemm=0 vector=0x0x0 groups_merged=1 subtile=0x0 images=0")
      << kKeysAreOrphaned;
}

/// S with one more field, as a later version will have it.
template <class S>
struct Grown {
  S before{};
  std::uint8_t new_trait = 3;

  template <class Self, class Visitor>
  static constexpr void fields(Self& self, Visitor&& visit) {
    visit("new_trait", self.new_trait);
    S::fields(self.before, visit);
  }
};

TEST(KernelConfig, ANewFieldChangesNoKey) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 2000; ++i) {
    const KernelConfig config = random_config(random);
    std::visit(
        [&]<class S>(const S& signature) {
          const auto grown = [&](std::uint8_t of_signature, std::uint8_t of_algorithm) {
            return canonical_form(config.origin, config.arch.text(), config.operation(),
                                  Grown<S>{signature, of_signature}, Grown<Algorithm>{config.algorithm, of_algorithm});
          };
          ASSERT_EQ(grown(3, 3), canonical_form(config));
          ASSERT_NE(grown(4, 3), canonical_form(config));
          ASSERT_NE(grown(3, 4), canonical_form(config));
        },
        config.signature);
  }
}

// A canonical form lists fields of the signature and of the algorithm one after the other.
TEST(KernelConfig, NoFieldOfASignatureIsNamedAsOneOfTheAlgorithm) {
  const auto names_of = []<class S>(const S& object) {
    std::vector<std::string> names;
    S::fields(object, [&](std::string_view field, const auto&) { names.emplace_back(field); });
    return names;
  };
  const auto check = [&](const auto& signature) {
    std::set<std::string> names;
    for (const std::string& name : names_of(signature)) EXPECT_TRUE(names.insert(name).second) << name;
    for (const std::string& name : names_of(Algorithm{})) EXPECT_TRUE(names.insert(name).second) << name;
    for (const std::string& name : names) EXPECT_EQ(name.find_first_of(";=+"), std::string::npos) << name;
  };
  check(AttentionSignature{});
  check(GemmSignature{});
  check(ConvSignature{});
}

TEST(KernelConfig, OriginIsStatedAndNotConcluded) {
  // Two configs that differ in nothing else are different kernels, whatever the pipeline's place in its enumeration.
  for (std::size_t i = 0; i < enum_size<Pipeline>(); ++i) {
    KernelConfig own;
    own.arch = *ArchName::parse("gfx942");
    own.algorithm.pipeline = static_cast<Pipeline>(i);
    KernelConfig ck = own;
    ck.origin = Origin::ck;
    EXPECT_FALSE(own == ck);
    EXPECT_NE(key_of(own), key_of(ck));
    EXPECT_EQ(kernel_name(own), native_name(own));
    EXPECT_EQ(kernel_name(ck), ck_name(ck));
    EXPECT_EQ(parse_kernel_name(kernel_name(own)).value(), own);
  }
  EXPECT_EQ(
      parse_kernel_name("gemm_fp16_rcr_compv3_cshuffle_intrawave_False_False_False_True_128x128x128_1x1x1_16x16x16")
          .value()
          .origin,
      Origin::ck);
  nlohmann::json json = to_json(KernelConfig{.origin = Origin::ck, .arch = *ArchName::parse("gfx942")});
  EXPECT_EQ(json["origin"], "ck");
  json.erase("origin");
  EXPECT_EQ(config_from_json(json).value().origin, Origin::own);
  json["origin"] = "c";
  const auto unknown = config_from_json(json);
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().text().find("$.origin"), std::string::npos) << unknown.error().text();
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
            "packgqa4_blocks1_pingpong_dynamic_latewait_latestore_on_sm_90a");
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
            "gemm_standard_a_bf16_b_bf16_c_bf16_aux_bf16_bias_bf16_with_bias_gelutanh_scalem_blocked_dpbf16_"
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
