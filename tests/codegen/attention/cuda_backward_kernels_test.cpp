// The CUDA kernels of attention backward: of the sizes that the host computes, and healthy when compiled, which needs
// NVRTC and no GPU. tests/cases/attention_bwd compares their results with float64 where there is a GPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <vector>

#include "codegen/generate.hpp"
#include "codegen/nvrtc_fixture.hpp"
#include "instances/attention_backward/cuda.hpp"
#include "thorough.hpp"

namespace tilesmith {
namespace {

/// The chip with every pipeline that has a template, whether its spec lists it or not.
const CudaSpec& hopper() {
  static const CudaSpec chip = [] {
    std::vector<CudaSpec> all = load_cuda_specs().value();
    for (CudaSpec& spec : all) {
      if (spec.arch.text() != "sm_90a") continue;
      CudaBackwardPipeline flash = spec.attention_bwd.front();
      flash.pipeline = Pipeline::flash;
      flash.tiles = {{.tile_m = 128, .tile_n = 64, .stages = 2, .head_dim = {8, 256}, .efficiency = 0.4}};
      spec.attention_bwd.push_back(flash);
      return spec;
    }
    throw std::runtime_error("no such architecture");
  }();
  return chip;
}

using Change = std::function<void(AttentionSignature&)>;

/// The recipes of a signature, by the tile table.
std::vector<Recipe> recipes_of(int head_dim_qk, int head_dim_v, const Change& change) {
  AttentionSignature s;
  s.family = AttentionFamily::bwd_dq_dk_dv;
  s.data_type = DataType::bf16;
  s.head_dim_qk = static_cast<std::uint16_t>(head_dim_qk);
  s.head_dim_v = static_cast<std::uint16_t>(head_dim_v);
  change(s);
  std::vector<Recipe> recipes;
  walk_cuda_backward(hopper(), s, [&](const KernelConfig& config, const CudaBackwardTile&, const auto* refused) {
    if (refused == nullptr) recipes.push_back(cuda_backward_recipe(config));
    return true;
  });
  if (recipes.empty()) throw std::runtime_error("no kernel of this signature");
  return recipes;
}

void nothing(AttentionSignature&) {}
void every_trait(AttentionSignature& s) {
  s.mask = MaskKind::generic;
  s.mode = SequenceMode::group;
  s.bias = BiasKind::elementwise;
  s.dbias = s.dropout = s.soft_cap = s.deterministic = true;
}
void slopes(AttentionSignature& s) {
  s.data_type = DataType::fp16;
  s.mask = MaskKind::causal;
  s.bias = BiasKind::alibi;
  s.dbias = s.deterministic = true;
}

using CudaBackwardKernels = testing::NvrtcFixture;

// The asserts in the text compare the template's sizes with the host's; the spill limits are the sources' own.
TEST_F(CudaBackwardKernels, AreHealthyAndOfTheHostsSizes) {
  std::vector<Source> sources;
  const auto add = [&](int qk, int v, const Change& change, bool only_products) {
    for (const Recipe& recipe : recipes_of(qk, v, change))
      for (const Step& step : recipe.steps) {
        if (only_products && step.role != StepRole::compute) continue;
        const CudaBackwardResources facts = cuda_backward_resources(step.config);
        Result<Source> source = generate(step.config, hopper());
        ASSERT_TRUE(source.has_value()) << source.error().text();
        if (step.role == StepRole::compute)
          source->text += fmt::format("static_assert(ts::kSharedBytes == {} && ts::kThreads == {});\n",
                                      facts.shared_bytes, facts.threads);
        sources.push_back(*source);
      }
  };
  add(64, 64, nothing, false);
  add(128, 128, every_trait, false);
  add(64, 64, every_trait, true);
  add(64, 64, slopes, true);
  add(128, 128, slopes, true);
  add(256, 256, slopes, false);
  add(192, 128, every_trait, true);
  add(
      40, 128, [](AttentionSignature& s) { s.dropout = true; }, true);
  add(
      128, 64, [](AttentionSignature& s) { s.mask = MaskKind::generic; }, true);
  const auto float32 = [](AttentionSignature& s) {
    s.data_type = DataType::fp32;
    s.bias = BiasKind::elementwise;
    s.dbias = s.deterministic = true;
  };
  add(128, 128, float32, true);
  add(200, 256, float32, true);
  if (testing::thorough()) {
    for (const int head_dim : {8, 72, 96})
      for (const Change& change : std::vector<Change>{nothing, every_trait, slopes})
        add(head_dim, head_dim, change, false);
  }
  compile_all(sources, [](std::size_t, const ResourceReport&) {});
}

TEST(CudaBackwardSources, WhatARuleRefusesIsNotGenerated) {
  KernelConfig config = recipes_of(64, 64, nothing).front().main();
  config.attention().soft_cap = true;
  const auto refused = generate(config, hopper());
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("rule traits_leave_registers"), std::string::npos) << refused.error().text();
}

}  // namespace
}  // namespace tilesmith
