// CPU attention instances: the list is what the rules accept, every instance is distinct, and refusals name their rule
// and figures.
#include "instances/attention/cpu.hpp"

#include <gtest/gtest.h>

#include <set>
#include <unordered_set>

#include "catalog/explain.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

const CpuSpec& level(std::string_view name) {
  static const std::vector<CpuSpec> specs = load_cpu_specs().value();
  for (const CpuSpec& spec : specs)
    if (spec.arch.text() == name) return spec;
  throw std::runtime_error("no such level");
}

TEST(CpuAttention, EveryInstanceIsDistinctAndItsNameParses) {
  for (const char* name : {"x86_64_v3", "x86_64_v4", "x86_64_v4_bf16", "x86_64_amx"}) {
    std::unordered_set<std::string> names;
    std::size_t count = 0, narrow = 0;
    enumerate_cpu_attention(level(name), [&](const KernelConfig& config) {
      narrow += config.attention().cache != KvElements::as_queries;
      if (++count % 37 == 0) {  // every name is checked for being unique, a sample for its round trip
        const auto parsed = parse_native_name(native_name(config));
        EXPECT_TRUE(parsed.has_value() && *parsed == config) << native_name(config);
      }
      EXPECT_TRUE(names.insert(native_name(config)).second) << native_name(config);
      return true;
    });
    EXPECT_GT(count, 1000u) << name;
    EXPECT_GT(narrow, 1000u) << name << " lists no caches of 8 bits";
  }
}

TEST(CpuAttention, StopsWhenTheSinkHasEnough) {
  int calls = 0;
  enumerate_cpu_attention(level("x86_64_v4"), [&](const KernelConfig&) { return ++calls < 5; });
  EXPECT_EQ(calls, 5);
}

KernelConfig valid_config() {
  KernelConfig config;
  config.arch = level("x86_64_v4").arch;
  config.attention().data_type = DataType::fp32;
  config.algorithm.pipeline = Pipeline::flash;
  config.algorithm.instruction = Instruction::fma_f32;
  config.algorithm.tile = {64, 128};
  return config;
}

std::string refusing_rule(const KernelConfig& config) {
  const auto* rule = first_refusal(cpu_attention_rules(), CpuAttentionSubject{config, level(config.arch.text())});
  return rule == nullptr ? std::string() : std::string(rule->name);
}

TEST(CpuAttention, EachRuleRefusesWhatItIsThereFor) {
  EXPECT_EQ(refusing_rule(valid_config()), "");
  const auto changed = [](auto change) {
    KernelConfig config = valid_config();
    change(config);
    return refusing_rule(config);
  };
  std::set<std::string> seen;
  const auto expect = [&](const std::string& rule, auto change) {
    EXPECT_EQ(changed(change), rule);
    seen.insert(rule);
  };
  expect("family_is_carried", [](KernelConfig& c) { c.attention().family = AttentionFamily::bwd_dot_do_o; });
  expect("family_is_carried", [](KernelConfig& c) { c.attention().rope = RopeKind::half_rotated; });
  expect("instruction_is_present", [](KernelConfig& c) { c.algorithm.instruction = Instruction::amx_bf16; });
  expect("instruction_is_present", [](KernelConfig& c) { c.attention().data_type = DataType::fp8; });
  expect("pipeline_is_offered", [](KernelConfig& c) { c.algorithm.pipeline = Pipeline::qr; });
  expect("traits_are_run_time", [](KernelConfig& c) { c.algorithm.pipeline = Pipeline::generic; });
  expect("head_dims_fit", [](KernelConfig& c) { c.attention().head_dim_qk = 36; });
  expect("head_dims_fit", [](KernelConfig& c) { c.attention().head_dim_v = 584; });
  expect("cache_is_converted", [](KernelConfig& c) {
    c.arch = level("x86_64_v4_bf16").arch;
    c.algorithm.pipeline = Pipeline::decode, c.algorithm.instruction = Instruction::dpbf16;
    c.attention().data_type = DataType::bf16, c.attention().cache = KvElements::int8;
  });
  expect("mask_is_no_or_generic", [](KernelConfig& c) { c.attention().mask = MaskKind::top_left; });
  expect("tile_m_fills_lanes", [](KernelConfig& c) { c.algorithm.tile[0] = 40; });
  expect("tile_n_is_whole_blocks", [](KernelConfig& c) { c.algorithm.tile[1] = 100; });
  expect("working_set_fits_l2", [](KernelConfig& c) { c.algorithm.tile = {768, 1024}; });
  expect("tile_m_fills_lanes", [](KernelConfig& c) { c.algorithm.tile[0] = 784; });
  expect("tile_n_is_whole_blocks", [](KernelConfig& c) { c.algorithm.tile[1] = 1056; });
  expect("fields_belong_to_pipeline", [](KernelConfig& c) { c.algorithm.tile[2] = 64; });
  expect("fields_belong_to_pipeline", [](KernelConfig& c) { c.algorithm.stages = 2; });
  expect("fields_belong_to_pipeline", [](KernelConfig& c) { c.origin = Origin::ck; });
  EXPECT_EQ(seen.size(), cpu_attention_rules().size()) << "a rule without a refusing example here";
}

TEST(CpuAttention, EveryLevelHasAGenericKernelOfEachType) {
  for (const char* name : {"x86_64_v3", "x86_64_v4", "x86_64_v4_bf16", "x86_64_amx"})
    for (const DataType type : generic_cpu_attention_types()) {
      const KernelConfig config = generic_cpu_attention(level(name), type);
      const auto* rule = first_refusal(cpu_attention_rules(), CpuAttentionSubject{config, level(name)});
      EXPECT_EQ(rule, nullptr) << native_name(config) << ": " << rule->name;
      // It stands in no table of the level's facts; what is listed is explained as listed all the same.
      const auto explained = explain(native_name(config), name);
      ASSERT_TRUE(explained) << explained.error().text();
      EXPECT_TRUE(explained->front().is_listed()) << explanation_text(explained->front());
    }
}

TEST(CpuAttention, VerdictsCarryTheFigures) {
  KernelConfig config = valid_config();
  config.algorithm.tile = {768, 1024};
  for (const RuleVerdict& verdict : verdicts(cpu_attention_rules(), CpuAttentionSubject{config, level("x86_64_v4")})) {
    EXPECT_EQ(verdict.accepted, verdict.rule != "working_set_fits_l2") << verdict.rule;
    EXPECT_FALSE(verdict.figures.empty());
    EXPECT_FALSE(verdict.about.empty());
  }
}

}  // namespace
}  // namespace tilesmith
