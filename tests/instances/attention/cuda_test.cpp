// NVIDIA attention instances: the list is what the rules accept, every instance is distinct, refusals name their rule
// and figures.
#include "instances/attention/cuda.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <unordered_set>

#include "catalog/explain.hpp"
#include "catalog/listing.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

const CudaSpec& arch(std::string_view name) {
  static const std::vector<CudaSpec> specs = load_cuda_specs().value();
  for (const CudaSpec& spec : specs)
    if (spec.arch.text() == name) return spec;
  throw std::runtime_error("no such architecture");
}

TEST(CudaAttention, EveryInstanceIsDistinctAndItsNameParses) {
  for (const char* name : {"sm_80", "sm_90a"}) {
    std::unordered_set<std::string> keys;
    std::size_t count = 0;
    enumerate_cuda_attention(arch(name), [&](const KernelConfig& config) {
      if (++count % 37 != 0) return true;  // a sample: the whole list takes a minute
      const auto parsed = parse_native_name(native_name(config));
      EXPECT_TRUE(parsed.has_value() && *parsed == config) << native_name(config);
      EXPECT_TRUE(keys.insert(native_name(config)).second) << native_name(config);
      return true;
    });
    EXPECT_GT(count, 10000u) << name;
  }
}

TEST(CudaAttention, InstancesOfOneHeadDimAreAllDistinct) {
  std::unordered_set<std::string> names;
  Listing listing = Listing::prepare({.arch = "sm_90a", .data_types = {"bf16"}, .head_dims = {{64, 64}}}).value();
  ListStatistics statistics;
  std::set<KvElements> caches;
  ASSERT_TRUE(listing.walk(
      [&](const KernelConfig& config) {
        caches.insert(config.attention().cache);
        EXPECT_TRUE(names.insert(native_name(config)).second) << native_name(config);
        return true;
      },
      statistics));
  EXPECT_GT(names.size(), 1000u);
  EXPECT_EQ(caches.size(), 3u) << "8-bit caches of pages are listed too";
}

TEST(CudaAttention, StopsWhenTheSinkHasEnough) {
  int calls = 0;
  enumerate_cuda_attention(arch("sm_90a"), [&](const KernelConfig&) { return ++calls < 5; });
  EXPECT_EQ(calls, 5);
}

AttentionSignature plain_signature() {
  AttentionSignature signature;
  signature.data_type = DataType::bf16;
  signature.lse = true;
  return signature;
}

KernelConfig hopper_config() {
  KernelConfig config;
  config.arch = arch("sm_90a").arch;
  config.signature = plain_signature();
  config.algorithm = {.pipeline = Pipeline::warp_specialized,
                      .instruction = Instruction::wgmma,
                      .tile = {128, 128},
                      .stages = 2,
                      .block_per_cu = 1,
                      .dynamic_scheduler = true};
  return config;
}

KernelConfig portable_config() {
  KernelConfig config = hopper_config();
  config.algorithm = {.pipeline = Pipeline::mma_sm80, .instruction = Instruction::mma_sync, .tile = {64, 64}};
  return config;
}

KernelConfig decode_config() {
  KernelConfig config = hopper_config();
  config.algorithm = {.pipeline = Pipeline::decode,
                      .instruction = Instruction::mma_sync,
                      .tile = {16, 64},
                      .stages = 3,
                      .block_per_cu = 2};
  return config;
}

TEST(CudaAttention, EachRuleRefusesWhatItIsThereFor) {
  std::set<std::string> seen;
  const auto refusing_rule = [](const KernelConfig& config, std::string_view name) {
    const auto* rule = first_refusal(cuda_attention_rules(), CudaAttentionSubject{config, arch(name)});
    return rule == nullptr ? std::string() : std::string(rule->name);
  };
  EXPECT_EQ(refusing_rule(hopper_config(), "sm_90a"), "");
  EXPECT_EQ(refusing_rule(portable_config(), "sm_90a"), "");
  EXPECT_EQ(refusing_rule(portable_config(), "sm_120a"), "");
  const auto hopper = [&](const std::string& rule, auto change) {
    KernelConfig config = hopper_config();
    change(config, config.attention(), config.algorithm);
    EXPECT_EQ(refusing_rule(config, "sm_90a"), rule) << native_name(config);
    seen.insert(rule);
  };
  const auto portable = [&](const std::string& rule, std::string_view on, auto change) {
    KernelConfig config = portable_config();
    change(config, config.attention(), config.algorithm);
    EXPECT_EQ(refusing_rule(config, on), rule) << native_name(config);
    seen.insert(rule);
  };
  EXPECT_EQ(refusing_rule(decode_config(), "sm_90a"), "");
  const auto decode = [&](const std::string& rule, auto change) {
    KernelConfig config = decode_config();
    change(config, config.attention(), config.algorithm);
    EXPECT_EQ(refusing_rule(config, "sm_90a"), rule) << native_name(config);
    seen.insert(rule);
  };
  using K = KernelConfig;
  using S = AttentionSignature;
  using A = Algorithm;
  hopper("family_is_carried", [](K&, S& s, A&) { s.family = AttentionFamily::bwd_dot_do_o; });
  portable("family_is_carried", "sm_90a", [](K&, S& s, A&) { s.paged_kv = true; });
  hopper("pages_are_beside_16_bits",
         [](K&, S& s, A&) { s.data_type = DataType::fp8bf16, s.qscale = QuantScale::pertensor, s.paged_kv = true; });
  hopper("instruction_is_present", [](K&, S&, A& a) { a.instruction = Instruction::mfma; });
  hopper("instruction_is_present", [](K&, S& s, A&) { s.data_type = DataType::fp32; });
  hopper("pipeline_is_offered", [](K&, S&, A& a) { a.instruction = Instruction::mma_sync; });
  hopper("pipeline_is_offered", [](K&, S&, A& a) { a.pipeline = Pipeline::flash; });
  hopper("head_dims_fit", [](K&, S& s, A&) { s.head_dim_qk = 132; });
  hopper("head_dims_fit", [](K&, S& s, A&) { s.head_dim_v = 264; });
  hopper("head_dims_fit",
         [](K&, S& s, A&) { s.data_type = DataType::fp8bf16, s.qscale = QuantScale::pertensor, s.head_dim_qk = 72; });
  hopper("scales_belong_to_fp8", [](K&, S& s, A&) { s.qscale = QuantScale::pertensor; });
  hopper("scales_belong_to_fp8", [](K&, S& s, A&) { s.data_type = DataType::fp8bf16; });
  hopper("fp8_goes_without",
         [](K&, S& s, A& a) { s.data_type = DataType::fp8bf16, s.qscale = QuantScale::pertensor, a.pack_gqa = 2; });
  hopper("fp8_goes_without",
         [](K&, S& s, A& a) { s.data_type = DataType::fp8bf16, s.qscale = QuantScale::blockscale, a.tile[1] = 160; });
  hopper("rows_can_be_copied", [](K&, S& s, A&) { s.unaligned = true; });
  hopper("mask_is_a_window", [](K&, S& s, A&) { s.mask = MaskKind::bottom_right; });
  hopper("negative_scale_matters", [](K&, S& s, A&) { s.negative_scale = s.soft_cap = true; });
  hopper("tile_m_is_whole_groups", [](K&, S&, A& a) { a.tile[0] = 96; });
  hopper("tile_m_is_whole_groups", [](K&, S&, A& a) { a.tile[0] = 256; });
  hopper("tile_m_is_whole_groups", [](K&, S&, A& a) { a.tile[0] = 0; });
  hopper("tile_n_is_whole_steps", [](K&, S&, A& a) { a.tile[1] = 72; });
  hopper("tile_n_is_whole_steps", [](K&, S& s, A& a) { s.dropout = true, a.tile[1] = 80; });
  hopper("fields_belong_to_pipeline", [](K&, S&, A& a) { a.stages = 0; });
  hopper("fields_belong_to_pipeline", [](K&, S&, A& a) { a.q_stages = 3; });
  hopper("fields_belong_to_pipeline", [](K&, S&, A& a) { a.block_per_cu = -1; });
  hopper("fields_belong_to_pipeline", [](K&, S&, A& a) { a.tile[2] = 64, a.preshuffle = true; });
  hopper("fields_belong_to_pipeline", [](K&, S&, A& a) { a.bias_stages = 1; });  // of what bias?
  hopper("tile_n_is_whole_steps",
         [](K&, S& s, A& a) { s.bias = BiasKind::elementwise, a.bias_stages = 1, a.tile[1] = 80; });
  hopper("packed_heads_divide_rows", [](K&, S&, A& a) { a.pack_gqa = 3; });
  hopper("packed_heads_divide_rows", [](K&, S&, A& a) { a.pack_gqa = 0; });
  hopper("turns_need_two_groups", [](K&, S&, A& a) { a.tile[0] = 64, a.ping_pong = true; });
  hopper("threads_fit_sm", [](K&, S&, A& a) { a.tile = {64, 16}, a.stages = 1, a.block_per_cu = 9; });
  hopper("shared_memory_fits", [](K&, S&, A& a) { a.stages = 4; });
  hopper("shared_memory_fits", [](K&, S&, A& a) { a.tile[0] = 64, a.block_per_cu = 2; });
  hopper("operands_fit_launch", [](K&, S& s, A& a) {
    s.head_dim_qk = s.head_dim_v = 256, a.tile = {64, 16}, a.stages = 1, a.block_per_cu = 2;
  });
  hopper("registers_hold_tile", [](K&, S&, A& a) { a.tile = {128, 192}, a.stages = 1; });
  portable("pipeline_is_offered", "sm_90a", [](K&, S&, A& a) { a.instruction = Instruction::wgmma; });
  portable("tile_m_is_whole_groups", "sm_80", [](K&, S&, A& a) { a.tile[0] = 40; });
  portable("tile_n_is_whole_steps", "sm_80", [](K&, S&, A& a) { a.tile[1] = 48; });
  portable("fields_belong_to_pipeline", "sm_80", [](K&, S&, A& a) { a.stages = 2; });
  portable("fields_belong_to_pipeline", "sm_80", [](K&, S&, A& a) { a.pack_gqa = 2; });
  portable("shared_memory_fits", "sm_89", [](K&, S& s, A& a) { s.head_dim_qk = 256, a.tile = {128, 64}; });
  hopper("pages_have_warps", [](K&, S& s, A& a) {
    s.paged_kv = true, s.bias = BiasKind::elementwise, a.bias_stages = 1, a.tile = {192, 64}, a.stages = 2;
  });
  KernelConfig prefill = hopper_config();
  prefill.attention().paged_kv = true;
  EXPECT_EQ(refusing_rule(prefill, "sm_90a"), "");
  for (const KvElements cache : {KvElements::fp8, KvElements::int8}) {
    prefill.attention().cache = cache;
    EXPECT_EQ(refusing_rule(prefill, "sm_90a"), "");
  }
  prefill.attention().qscale = QuantScale::kv_blockscale;
  EXPECT_EQ(refusing_rule(prefill, "sm_90a"), "pages_are_beside_16_bits");
  KernelConfig paged = decode_config();
  paged.attention().paged_kv = true;
  EXPECT_EQ(refusing_rule(paged, "sm_90a"), "");
  paged.attention().cache = KvElements::int8;
  paged.attention().qscale = QuantScale::kv_blockscale;
  EXPECT_EQ(refusing_rule(paged, "sm_90a"), "");
  hopper("family_is_carried", [](K&, S& s, A&) { s.cache = KvElements::fp8; });
  decode("latent_rows_are_wide", [](K&, S& s, A&) { s.latent = true; });
  const auto narrow_latent = [](S& s, A& a) {
    s.latent = s.paged_kv = true, s.head_dim_qk = 576, s.head_dim_v = 512, s.cache = KvElements::fp8;
    a.pipeline = Pipeline::decode_wgmma, a.instruction = Instruction::wgmma, a.tile = {64, 128};
    a.stages = 1, a.block_per_cu = 1;
  };
  KernelConfig narrow = decode_config();
  narrow_latent(narrow.attention(), narrow.algorithm);
  for (const std::uint16_t rows : std::array<std::uint16_t, 3>{64, 32, 16}) {
    narrow.algorithm.tile[0] = rows;
    EXPECT_EQ(refusing_rule(narrow, "sm_90a"), "") << rows;
  }
  decode("tile_m_is_whole_groups", [&](K&, S& s, A& a) { narrow_latent(s, a), a.tile[0] = 48; });
  decode("tile_m_is_whole_groups",
         [&](K&, S& s, A& a) { narrow_latent(s, a), a.tile[0] = 32, s.head_dim_qk = 448, s.head_dim_v = 384; });
  decode("tile_m_is_whole_groups",
         [&](K&, S& s, A& a) { narrow_latent(s, a), a.tile[0] = 32, s.mask = MaskKind::generic, s.lse = true; });
  decode("latent_rows_are_wide", [&](K&, S& s, A& a) { narrow_latent(s, a), a.tile[1] = 64; });
  decode("latent_rows_are_wide", [&](K&, S& s, A& a) { narrow_latent(s, a), a.stages = 2; });
  decode("latent_rows_are_wide", [&](K&, S& s, A& a) { narrow_latent(s, a), a.late_wait = true; });
  const auto narrow_keys = [&](S& s, A& a) {
    narrow_latent(s, a);
    s.latent = false, s.head_dim_qk = s.head_dim_v = 128, a.tile = {64, 64}, a.stages = 3, a.block_per_cu = 2;
  };
  narrow_keys(narrow.attention(), narrow.algorithm);
  EXPECT_EQ(refusing_rule(narrow, "sm_90a"), "") << "producers widen keys and values";
  decode("latent_rows_are_wide", [&](K&, S& s, A& a) { narrow_keys(s, a), s.qscale = QuantScale::kv_blockscale; });
  decode("shared_memory_fits", [&](K&, S& s, A& a) { narrow_keys(s, a), a.stages = 5; });
  decode("latent_rows_are_wide", [&](K&, S& s, A& a) { narrow_latent(s, a), s.qscale = QuantScale::kv_blockscale; });
  hopper("family_is_carried", [](K&, S& s, A&) { s.latent = true; });
  decode("scales_belong_to_fp8", [](K&, S& s, A&) { s.qscale = QuantScale::kv_blockscale; });
  decode("scales_belong_to_fp8",
         [](K&, S& s, A&) { s.cache = KvElements::fp8, s.qscale = QuantScale::kv_blockscale; });  // of which pages?
  decode("cache_is_converted", [](K&, S& s, A&) { s.data_type = DataType::fp32, s.cache = KvElements::int8; });
  decode("head_dims_fit", [](K&, S& s, A&) { s.cache = KvElements::fp8, s.head_dim_v = 72; });
  decode("decode_goes_without", [](K&, S& s, A&) { s.dropout = true; });
  decode("pipeline_is_offered", [](K&, S& s, A&) { s.data_type = DataType::fp32; });
  decode("head_dims_fit", [](K&, S& s, A&) { s.head_dim_v = 264; });
  decode("rows_can_be_copied", [](K&, S& s, A&) { s.unaligned = true; });
  decode("tile_m_is_whole_groups", [](K&, S&, A& a) { a.tile[0] = 48; });
  decode("tile_m_is_whole_groups", [](K&, S&, A& a) { a.tile[0] = 128; });
  decode("tile_n_is_whole_steps", [](K&, S&, A& a) { a.tile[1] = 32; });
  decode("fields_belong_to_pipeline", [](K&, S&, A& a) { a.stages = 1; });
  decode("fields_belong_to_pipeline", [](K&, S&, A& a) { a.pack_gqa = 2; });
  decode("fields_belong_to_pipeline", [](K&, S&, A& a) { a.block_per_cu = -1; });
  decode("shared_memory_fits", [](K&, S&, A& a) { a.stages = 4; });
  EXPECT_EQ(seen.size(), cuda_attention_rules().size()) << "a rule without a refusing example here";
}

TEST(CudaAttention, TheWarpSpecialisedPipelineIsHoppersAlone) {
  KernelConfig config = hopper_config();
  for (const char* name : {"sm_80", "sm_86", "sm_89", "sm_100a", "sm_120a"}) {
    config.arch = arch(name).arch;
    EXPECT_NE(first_refusal(cuda_attention_rules(), CudaAttentionSubject{config, arch(name)}), nullptr) << name;
  }
}

// These spilled 100 to 368 bytes (NVRTC 13.0), and the tiles beside them did not.
TEST(CudaAttention, ABiasBesideFp8TakesRegisters) {
  const auto fits = [](const std::string& rest) {
    const auto explanations =
        explain("attention_fwd_fp8bf16_batch_" + rest + "_blocks1_dynamic_latewait_latestore_on_sm_90a");
    EXPECT_TRUE(explanations.has_value()) << explanations.error().text();
    const auto& verdicts = explanations.value().front().listed;
    const auto rule = std::ranges::find(verdicts, "registers_hold_tile", &RuleVerdict::rule);
    EXPECT_NE(rule, verdicts.end());
    return rule->accepted;
  };
  const std::string biased = "_mask_generic_bias_bias_", pipeline = "qscale_pertensor_warpspec_wgmma_tile";
  EXPECT_FALSE(fits("d96_dv96" + biased + pipeline + "128x160_stages3"));
  EXPECT_FALSE(fits("d16_dv16" + biased + pipeline + "192x128_stages3"));
  EXPECT_FALSE(fits("d128_dv128" + biased + "softcap_" + pipeline + "128x128_stages3"));
  EXPECT_FALSE(fits("d80_dv80" + biased + "softcap_" + pipeline + "128x160_stages3"));
  EXPECT_TRUE(fits("d80_dv80" + biased + pipeline + "128x160_stages3"));
  EXPECT_TRUE(fits("d128_dv128" + biased + pipeline + "128x128_stages3"));
  EXPECT_TRUE(fits("d112_dv112" + biased + "softcap_" + pipeline + "128x128_stages3"));
}

TEST(CudaAttention, ExplainNamesTheRuleAndANearbyInstance) {
  KernelConfig config = hopper_config();
  config.algorithm.tile[1] = 192;
  config.algorithm.stages = 1;
  const auto explanations = explain(native_name(config));
  ASSERT_TRUE(explanations.has_value()) << explanations.error().text();
  ASSERT_EQ(explanations->size(), 1u);
  const Explanation& one = explanations->front();
  EXPECT_FALSE(one.is_listed());
  for (const RuleVerdict& verdict : one.listed) {
    EXPECT_EQ(verdict.accepted, verdict.rule != "registers_hold_tile") << verdict.rule << ": " << verdict.figures;
    EXPECT_FALSE(verdict.figures.empty());
    EXPECT_FALSE(verdict.about.empty());
  }
  ASSERT_TRUE(one.nearest.has_value());
  EXPECT_NE(one.nearest->find("_tile128x"), std::string::npos) << *one.nearest;
}

TEST(CudaAttention, ListingsFilterAndHoldBackward) {
  const auto listing = Listing::prepare({.arch = "sm_90a",
                                         .filters = {"c.head_dim_qk == 128 and c.pipeline == 'warpspec' and c.lse and "
                                                     "c.mask == 'causal' and c.pack_gqa == 1 and not c.dropout"}});
  ASSERT_TRUE(listing.has_value()) << listing.error().text();
  ListStatistics statistics;
  ASSERT_TRUE(listing->walk(
      [](const KernelConfig& config) {
        EXPECT_EQ(config.attention().mask, MaskKind::causal);
        EXPECT_EQ(config.algorithm.pipeline, Pipeline::warp_specialized);
        return true;
      },
      statistics));
  EXPECT_GT(statistics.listed, 100u);
  EXPECT_TRUE(Listing::prepare({.arch = "sm_90a", .variant = "bwd"}).has_value());
  const auto backward = Listing::prepare({.arch = "sm_80", .variant = "bwd"});
  ASSERT_TRUE(backward.has_value()) << backward.error().text();
  ListStatistics of_backward;
  ASSERT_TRUE(backward->walk(
      [](const KernelConfig& config) {
        EXPECT_NE(config.algorithm.pipeline, Pipeline::warp_specialized) << "wgmma is Hopper's";
        EXPECT_NE(config.algorithm.pipeline, Pipeline::flash) << "wgmma is Hopper's";
        return true;
      },
      of_backward));
  EXPECT_GT(of_backward.listed, 100u);
  EXPECT_NE(Listing::prepare({.arch = "sm_90"}).error().text().find("sm_90a"), std::string::npos);
}

}  // namespace
}  // namespace tilesmith
