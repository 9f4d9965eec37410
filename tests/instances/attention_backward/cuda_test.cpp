// NVIDIA attention-backward instances: every rule refuses something, and listings hold what the rules accept.
#include "instances/attention_backward/cuda.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "catalog/explain.hpp"
#include "catalog/listing.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

const CudaSpec& backward_arch(std::string_view name) {
  static const std::vector<CudaSpec> specs = [] {
    std::vector<CudaSpec> all = load_cuda_specs().value();
    for (CudaSpec& spec : all) {
      if (spec.attention_bwd.empty()) continue;
      CudaBackwardPipeline flash = spec.attention_bwd.front();  // has a template, whether a spec lists it or not
      flash.pipeline = Pipeline::flash;
      flash.tiles = {{.tile_m = 128, .tile_n = 64, .stages = 2, .head_dim = {8, 256}, .efficiency = 0.4}};
      spec.attention_bwd.push_back(flash);
    }
    return all;
  }();
  return *std::ranges::find_if(specs, [&](const CudaSpec& spec) { return spec.arch.text() == name; });
}

KernelConfig backward_products(int head_dim = 128, int queries = 64) {
  AttentionSignature s;
  s.family = AttentionFamily::bwd_dq_dk_dv;
  s.data_type = DataType::bf16;
  s.head_dim_qk = s.head_dim_v = static_cast<std::uint16_t>(head_dim);
  return {.arch = backward_arch("sm_90a").arch,
          .signature = s,
          .algorithm = {.pipeline = Pipeline::warp_specialized,
                        .instruction = Instruction::wgmma,
                        .tile = {static_cast<std::uint16_t>(queries), 128},
                        .stages = 2,
                        .dynamic_scheduler = true}};
}

std::string refusing(const KernelConfig& config, std::string_view arch = "sm_90a") {
  const auto* rule = first_refusal(cuda_backward_rules(), CudaBackwardSubject{config, backward_arch(arch)});
  return rule == nullptr ? "" : std::string(rule->name);
}

TEST(CudaBackwardRules, EachRefusesSomething) {
  using S = AttentionSignature;
  using A = Algorithm;
  std::set<std::string> seen;
  const auto expect = [&](const std::string& rule, auto change, KernelConfig config = backward_products()) {
    change(config.attention(), config.algorithm);
    EXPECT_EQ(refusing(config), rule) << native_name(config);
    seen.insert(rule);
  };
  expect("", [](S&, A&) {});
  expect(
      "", [](S&, A&) {}, backward_products(64, 128));
  expect("", [](S& s, A&) { s.soft_cap = s.dropout = s.dbias = true, s.bias = BiasKind::elementwise; });
  const auto flash = [](int head_dim) {
    KernelConfig config = backward_products(head_dim, 128);
    config.attention().deterministic = true;
    config.algorithm.pipeline = Pipeline::flash;
    config.algorithm.tile[1] = 64;
    return config;
  };
  expect(
      "", [](S& s, A&) { s.bias = BiasKind::alibi, s.dbias = s.soft_cap = true; }, flash(256));
  expect(
      "head_dims_fit", [](S&, A&) {}, flash(264));
  expect(
      "rows_are_deterministic", [](S& s, A&) { s.deterministic = false; }, flash(256));
  expect(
      "tile_is_carried", [](S&, A& a) { a.tile[1] = 128; }, flash(192));
  expect(
      "fields_belong_to_pipeline", [](S&, A& a) { a.stages = 1; }, flash(192));
  expect(
      "shared_memory_fits", [](S& s, A&) { s.dropout = true; }, flash(256));
  const auto mma = [](DataType type, int head_dim, int rows = 64) {
    KernelConfig config = backward_products(head_dim);
    config.attention().data_type = type;
    config.attention().deterministic = true;
    config.algorithm = {.pipeline = Pipeline::mma_sm80,
                        .instruction = Instruction::mma_sync,
                        .tile = {static_cast<std::uint16_t>(rows), 32}};
    return config;
  };
  expect(
      "", [](S& s, A&) { s.unaligned = s.dropout = s.soft_cap = true; }, mma(DataType::fp16, 77));
  expect(
      "", [](S&, A&) {}, mma(DataType::fp32, 64));
  expect(
      "head_dims_fit", [](S&, A&) {}, mma(DataType::bf16, 257));
  expect(
      "rows_are_deterministic", [](S& s, A&) { s.deterministic = false; }, mma(DataType::bf16, 64));
  expect(
      "tile_is_carried", [](S&, A& a) { a.tile[1] = 64; }, mma(DataType::bf16, 64));
  expect(
      "fields_belong_to_pipeline", [](S&, A& a) { a.stages = 2; }, mma(DataType::bf16, 64));
  expect(
      "shared_memory_fits", [](S&, A&) {}, mma(DataType::fp32, 256));
  expect("family_is_carried", [](S& s, A&) { s.family = AttentionFamily::fwd; });
  expect("family_is_carried", [](S& s, A&) { s.paged_kv = true; });
  expect("chip_is_listed", [](S& s, A&) { s.data_type = DataType::fp8; });
  expect("pipeline_is_offered", [](S&, A& a) { a.instruction = Instruction::mma_sync; });
  expect("pipeline_is_offered", [](S& s, A&) { s.data_type = DataType::fp32; });
  for (const int head_dim : {0, 100, 136, 192, 256})
    expect("head_dims_fit", [&](S& s, A&) { s.head_dim_v = static_cast<std::uint16_t>(head_dim); });
  expect("rows_can_be_copied", [](S& s, A&) { s.unaligned = true; });
  expect("sink_needs_no_kernel", [](S& s, A&) { s.sink = true; });
  expect("gradient_belongs_to_bias", [](S& s, A&) { s.dbias = true; });
  expect("mask_is_a_window", [](S& s, A&) { s.mask = MaskKind::bottom_right; });
  expect("tile_is_carried", [](S&, A& a) { a.tile[0] = 128; });
  expect("tile_is_carried", [](S&, A& a) { a.tile[1] = 64; });
  expect("fields_belong_to_pipeline", [](S&, A& a) { a.stages = 0; });
  expect("fields_belong_to_pipeline", [](S&, A& a) { a.dynamic_scheduler = false; });
  expect("fields_belong_to_pipeline", [](S&, A& a) { a.ping_pong = true; });
  expect("shared_memory_fits", [](S& s, A& a) { a.stages = 4, s.deterministic = true; });
  expect(
      "registers_hold_sums", [](S& s, A&) { s.head_dim_v = 96; }, backward_products(64, 128));
  for (const auto change : std::vector<void (*)(S&, A&)>{
           [](S&s, A&) { s.soft_cap = true; }, [](S&s, A&) { s.dropout = true; },
           [](S&s, A&) { s.bias = BiasKind::elementwise; }, [](S&s, A&) { s.bias = BiasKind::alibi, s.dbias = true; }})
    expect("traits_leave_registers", change, backward_products(64, 128));
  for (const auto& rule : cuda_backward_rules()) EXPECT_TRUE(seen.contains(std::string(rule.name))) << rule.name;
  EXPECT_EQ(refusing(backward_products(), "sm_80"), "pipeline_is_offered");
}

TEST(CudaBackwardRecipes, HaveThreeStepsThatTheRulesAcceptAndNamesThatReadBack) {
  KernelConfig products = backward_products(64, 128);
  products.attention().deterministic = true;
  const Recipe recipe = cuda_backward_recipe(products);
  ASSERT_EQ(recipe.steps.size(), 3u);
  EXPECT_EQ(recipe.main(), products);
  EXPECT_TRUE(recipe.is_bitwise());
  EXPECT_FALSE(cuda_backward_recipe(backward_products()).is_bitwise());
  for (const Step& step : recipe.steps) EXPECT_EQ(refusing(step.config), "") << native_name(step.config);
  EXPECT_EQ(parse_recipe_name(recipe_name(recipe)).value(), recipe);
}

TEST(CudaBackwardRecipes, ABiasGradientInAFixedOrderHasAStepOfItsOwn) {
  for (const int head_dim : {64, 128}) {
    KernelConfig products = backward_products(head_dim);
    products.attention().bias = BiasKind::elementwise;
    products.attention().dbias = true;
    EXPECT_EQ(cuda_backward_recipe(products).steps.size(), 3U);
    products.attention().deterministic = true;
    const Recipe recipe = cuda_backward_recipe(products);
    ASSERT_EQ(recipe.steps.size(), 4U);
    for (const Step& step : recipe.steps) EXPECT_EQ(refusing(step.config), "") << native_name(step.config);
    EXPECT_EQ(parse_recipe_name(recipe_name(recipe)).value(), recipe);
  }
}

TEST(CudaBackwardListings, HoldWhatTheRulesAcceptEachOnce) {
  auto listing = Listing::prepare({.arch = "sm_90a", .variant = "bwd", .head_dims = {{64, 64}}});
  ASSERT_TRUE(listing.has_value()) << listing.error().text();
  std::set<std::string> names;
  std::set<AttentionFamily> families;
  ListStatistics statistics;
  ASSERT_TRUE(listing->walk(
      [&](const KernelConfig& config) {
        EXPECT_EQ(refusing(config), "");
        EXPECT_TRUE(names.insert(native_name(config)).second) << native_name(config);
        families.insert(config.attention().family);
        return true;
      },
      statistics));
  EXPECT_EQ(families.size(), 4U);
  EXPECT_GT(names.size(), 100u);
  for (const std::string& name : {*names.begin(), *names.rbegin()}) {
    const auto said = explain(name, "");
    ASSERT_TRUE(said.has_value()) << said.error().text();
    EXPECT_TRUE(said->front().is_listed() && said->front().on_demand.empty()) << explanation_text(said->front());
  }
}

}  // namespace
}  // namespace tilesmith
