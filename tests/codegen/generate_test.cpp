// The rules of the instances are the only judges of what is generated: what they accept generates, and what they refuse
// is refused with the rule's name.
#include "codegen/generate.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>

#include "instances/attention/cpu.hpp"
#include "instances/attention/cuda.hpp"
#include "instances/attention_backward/cpu.hpp"
#include "instances/attention_backward/families.hpp"
#include "instances/gemm/cpu.hpp"
#include "instances/gemm/cuda.hpp"
#include "vocabulary/names/native.hpp"
#include "vocabulary/random_config.hpp"

namespace tilesmith {
namespace {

const std::vector<CpuSpec>& levels() {
  static const std::vector<CpuSpec> specs = load_cpu_specs().value();
  return specs;
}

/// The name of the rule that refuses; empty when none does.
std::string refusing_rule(const KernelConfig& config, const CpuSpec& spec) {
  std::string_view name;
  if (config.operation() == Operation::gemm) {
    if (const auto* rule = first_refusal(cpu_gemm_rules(), CpuGemmSubject{config, spec})) name = rule->name;
  } else if (is_attention_backward(config)) {
    if (const auto* rule = first_refusal(cpu_attention_backward_rules(), CpuAttentionBackwardSubject{config, spec}))
      name = rule->name;
  } else if (const auto* rule = first_refusal(cpu_attention_rules(), CpuAttentionSubject{config, spec})) {
    name = rule->name;
  }
  return std::string(name);
}

void expect_as_the_rules_say(const KernelConfig& config, const CpuSpec& spec) {
  const std::string rule = refusing_rule(config, spec);
  const auto source = generate(config, spec);
  if (rule.empty()) {
    ASSERT_TRUE(source.has_value()) << native_name(config) << "\n" << source.error().text();
    EXPECT_FALSE(source->text.empty());
    return;
  }
  ASSERT_FALSE(source.has_value()) << native_name(config) << " is refused by " << rule;
  EXPECT_EQ(source.error().code, ErrorCode::unsupported) << source.error().text();
  EXPECT_NE(source.error().message.find("rule " + rule + ":"), std::string::npos) << source.error().text();
}

/// A sample of the level's instances of one operation.
std::vector<KernelConfig> sample(const CpuSpec& spec, Operation operation) {
  std::vector<KernelConfig> all;
  const auto keep = [&](const KernelConfig& config) { return all.push_back(config), true; };
  if (operation == Operation::gemm)
    enumerate_cpu_gemm(spec, "", keep);
  else
    enumerate_cpu_attention(spec, keep);
  if (operation == Operation::attention) enumerate_cpu_attention_backward(spec, keep);
  std::vector<KernelConfig> out;
  for (std::size_t i = 0; i < all.size(); i += all.size() / 60 + 1) out.push_back(all[i]);
  return out;
}

TEST(Generate, WhatTheRulesAcceptIsGenerated) {
  for (const CpuSpec& spec : levels())
    for (const Operation operation : {Operation::attention, Operation::gemm})
      for (const KernelConfig& config : sample(spec, operation)) {
        EXPECT_EQ(refusing_rule(config, spec), "") << native_name(config);
        expect_as_the_rules_say(config, spec);
      }
}

// One or two fields of a valid instance get a random value. Tiles get values near the rules' limits.
TEST(Generate, WhatTheRulesRefuseIsRefusedWithTheRule) {
  std::mt19937_64 random(7);
  std::size_t accepted = 0, refused = 0;
  for (const CpuSpec& spec : levels())
    for (const Operation operation : {Operation::attention, Operation::gemm})
      for (KernelConfig config : sample(spec, operation)) {
        constexpr std::uint16_t kFigures[] = {1,   8,   16,  24,  32,   48,   96,   100,
                                              512, 528, 768, 784, 1024, 1056, 2048, 8208};
        if (random() % 2 == 0) {
          config.algorithm.tile[random() % 3] = kFigures[random() % std::size(kFigures)];
        } else {
          std::size_t left = random() % 50;
          const auto change = [&](std::string_view, auto& value) {
            if (left-- == 0) testing::randomize(random, value);
          };
          std::visit([&](auto& signature) { signature.fields(signature, change); }, config.signature);
          Algorithm::fields(config.algorithm, change);
        }
        ++(refusing_rule(config, spec).empty() ? accepted : refused);
        expect_as_the_rules_say(config, spec);
      }
  EXPECT_GT(accepted, 20u);
  EXPECT_GT(refused, 100u);
}

// Both backends' sources hold the operation's contract, once, and include nothing.
TEST(Generate, SourcesHoldTheContractOnce) {
  const auto expect_contract = [](const Result<Source>& source, std::string_view structure) {
    ASSERT_TRUE(source.has_value()) << source.error().text();
    const std::string& text = source->text;
    EXPECT_EQ(text.find("#include"), std::string::npos);
    EXPECT_EQ(text.find("#pragma once"), std::string::npos);
    const std::string declared = fmt::format("struct {} {{", structure);
    const std::size_t at = text.find(declared);
    ASSERT_NE(at, std::string::npos) << declared;
    EXPECT_EQ(text.find(declared, at + 1), std::string::npos) << declared;
  };
  const CpuSpec& level = levels().front();
  expect_contract(generate(sample(level, Operation::attention).front(), level), "TsAttentionCall");
  expect_contract(generate(sample(level, Operation::gemm).front(), level), "TsGemmCall");
  const std::vector<CudaSpec> cuda = load_cuda_specs().value();
  const CudaSpec& spec = cuda.front();
  KernelConfig config;
  enumerate_cuda_attention(spec, AttentionSignature{}, std::array{1}, [&](const KernelConfig& c) {
    config = c;
    return false;
  });
  expect_contract(generate(config, spec), "TsAttentionCall");
  enumerate_cuda_gemm(spec, GemmSignature{}, [&](const KernelConfig& c) {
    config = c;
    return false;
  });
  expect_contract(generate(config, spec), "TsGemmCall");
}

TEST(Generate, KernelsOfAnotherOriginAreRefused) {
  for (const CpuSpec& spec : levels())
    for (const Operation operation : {Operation::attention, Operation::gemm}) {
      KernelConfig config = sample(spec, operation).front();
      config.origin = Origin::ck;
      expect_as_the_rules_say(config, spec);
      EXPECT_FALSE(generate(config, spec));
    }
}

}  // namespace
}  // namespace tilesmith
