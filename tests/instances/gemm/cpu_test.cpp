// CPU GEMM instances: the list is what the rules accept, refusals name their rule, and epilogues find their way into
// the kernels' one order.
#include "instances/gemm/cpu.hpp"

#include <gtest/gtest.h>

#include <set>
#include <unordered_set>

#include "catalog/explain.hpp"
#include "catalog/listing.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

using Op = EpilogueOp;

const CpuSpec& level(std::string_view name) {
  static const std::vector<CpuSpec> specs = load_cpu_specs().value();
  for (const CpuSpec& spec : specs)
    if (spec.arch.text() == name) return spec;
  throw std::runtime_error("no such level");
}

TEST(CpuGemm, EveryInstanceIsDistinctAndItsNameParses) {
  for (const char* name : {"x86_64_v3", "x86_64_v4", "x86_64_v4_bf16", "x86_64_amx"}) {
    std::unordered_set<std::string> names;
    std::set<Pipeline> pipelines;
    enumerate_cpu_gemm(level(name), "", [&](const KernelConfig& config) {
      const std::string text = native_name(config);
      const auto parsed = parse_native_name(text);
      EXPECT_TRUE(parsed.has_value() && *parsed == config) << text;
      EXPECT_TRUE(names.insert(text).second) << text;
      pipelines.insert(config.algorithm.pipeline);
      return true;
    });
    EXPECT_GT(names.size(), 500u) << name;
    EXPECT_TRUE(pipelines.contains(Pipeline::blocked));
    EXPECT_EQ(pipelines.contains(Pipeline::skinny), std::string_view(name) != "x86_64_amx");
  }
}

// What is listed is explained as listed; the generic kernels stand in no table of the levels' facts.
TEST(CpuGemm, GenericKernelsAreListedAndExplainedSo) {
  EXPECT_FALSE(generic_cpu_gemm(level("x86_64_amx"))) << "that of x86_64_v4 runs there";
  for (const char* name : {"x86_64_v3", "x86_64_v4"}) {
    const KernelConfig generic = generic_cpu_gemm(level(name)).value();
    std::size_t listed = 0;
    enumerate_cpu_gemm(level(name), "", [&](const KernelConfig& config) { return listed += config == generic, true; });
    EXPECT_EQ(listed, 1u) << name;
    const auto explained = explain(native_name(generic), name);
    ASSERT_TRUE(explained) << explained.error().text();
    ASSERT_EQ(explained->size(), 1u);
    EXPECT_TRUE(explained->front().is_listed()) << explanation_text(explained->front());
  }
}

TEST(CpuGemm, StopsWhenTheSinkHasEnough) {
  int calls = 0;
  enumerate_cpu_gemm(level("x86_64_v4"), "rcr", [&](const KernelConfig&) { return ++calls < 5; });
  EXPECT_EQ(calls, 5);
}

KernelConfig valid_config() {
  KernelConfig config;
  config.arch = level("x86_64_v4").arch;
  auto& s = config.signature.emplace<GemmSignature>();
  s.a = s.b = s.c = s.aux = DataType::fp32;
  config.algorithm.pipeline = Pipeline::blocked;
  config.algorithm.instruction = Instruction::fma_f32;
  config.algorithm.tile = {192, 528, 512};
  return config;
}

TEST(CpuGemm, EachRuleRefusesWhatItIsThereFor) {
  std::set<std::string> seen;
  const auto expect = [&](const std::string& rule, auto change) {
    KernelConfig config = valid_config();
    change(config, std::get<GemmSignature>(config.signature), config.algorithm);
    const CpuGemmSubject subject{config, level("x86_64_v4")};
    const auto* refusal = first_refusal(cpu_gemm_rules(), subject);
    EXPECT_EQ(refusal == nullptr ? "" : std::string(refusal->name), rule);
    if (refusal != nullptr) {
      EXPECT_FALSE(refusal->figures(subject).empty());
    }
    seen.insert(rule);
  };
  expect("", [](auto&, auto&, auto&) {});
  expect("", [](auto&, auto& s, auto&) { s.layout_a = MatrixOrder::column, s.layout_b = MatrixOrder::row; });
  expect("", [](auto&, auto& s, auto&) {
    s.epilogue_ops = {Op::scale_m, Op::scale_n, Op::bias_m, Op::geglu, Op::add};
  });
  expect("", [](auto&, auto&, auto& a) { a.pipeline = Pipeline::skinny, a.tile = {16, 480, 512}; });
  expect("family_is_carried", [](auto&, auto& s, auto&) { s.family = GemmFamily::stream_k; });
  expect("family_is_carried", [](auto&, auto& s, auto&) { s.layout_c = MatrixOrder::column; });
  expect("instruction_is_present", [](auto&, auto&, auto& a) { a.instruction = Instruction::amx_bf16; });
  expect("instruction_is_present", [](auto&, auto& s, auto&) { s.a = s.b = DataType::tf32; });
  expect("", [](auto&, auto& s, auto&) { s.a = s.b = DataType::fp8, s.qscale = QuantScale::blockscale; });
  expect("", [](auto&, auto& s, auto&) { s.a = s.scale = DataType::bf16, s.b = DataType::int4; });
  expect("", [](auto&, auto& s, auto&) { s.a = s.scale = DataType::bf16, s.b = DataType::int4, s.zero_points = true; });
  expect("scales_are_carried", [](auto&, auto& s, auto&) { s.qscale = QuantScale::blockscale; });
  expect("scales_are_carried",
         [](auto&, auto& s, auto&) { s.a = DataType::bf16, s.b = DataType::int8, s.scale = DataType::fp16; });
  expect("scales_are_carried", [](auto&, auto& s, auto&) {
    s.a = s.scale = DataType::bf16, s.b = DataType::int8, s.layout_b = MatrixOrder::row;
  });
  expect("scales_are_carried", [](auto&, auto& s, auto&) { s.grouping = GemmGrouping::masked; });
  expect("second_product_is_carried", [](auto&, auto& s, auto&) {
    s.mm_plus_mm = true, s.a = s.b = DataType::fp8, s.c = s.aux = DataType::bf16, s.qscale = QuantScale::blockscale;
    s.layout_a = MatrixOrder::row, s.layout_b = MatrixOrder::column;
  });
  expect("", [](auto&, auto& s, auto& a) { s.layout_b = MatrixOrder::column, a.packed_b = true; });
  expect("packed_b_is_carried", [](auto&, auto& s, auto& a) { s.layout_b = MatrixOrder::row, a.packed_b = true; });
  expect("packed_b_is_carried", [](auto&, auto& s, auto& a) {
    s.layout_b = MatrixOrder::column, a.pipeline = Pipeline::skinny, a.tile = {16, 480, 512}, a.packed_b = true;
  });
  expect("packed_b_is_carried", [](auto&, auto& s, auto& a) {
    s.a = s.scale = DataType::bf16, s.b = DataType::int4, s.layout_a = MatrixOrder::row;
    s.layout_b = MatrixOrder::column, a.packed_b = true;
  });
  expect("types_are_carried", [](auto&, auto& s, auto&) { s.b = DataType::bf16; });
  expect("types_are_carried", [](auto&, auto& s, auto&) { s.c = DataType::int8; });
  expect("types_are_carried", [](auto&, auto& s, auto&) { s.accumulator = DataType::int32; });
  expect("types_are_carried", [](auto&, auto& s, auto&) { s.aux = DataType::int32; });
  expect("epilogue_is_carried", [](auto&, auto& s, auto&) { s.epilogue_ops = {Op::relu, Op::bias}; });
  expect("epilogue_is_carried", [](auto&, auto& s, auto&) { s.epilogue_ops = {Op::bias, Op::bias_m}; });
  expect("epilogue_is_carried", [](auto&, auto& s, auto&) { s.epilogue_ops = {Op::scale_n, Op::scale_m}; });
  expect("pipeline_is_offered", [](auto&, auto&, auto& a) { a.pipeline = Pipeline::flash; });
  const auto generic = [](auto& c) { c = generic_cpu_gemm(level("x86_64_v4")).value(); };
  expect("", [&](auto& c, auto&, auto&) { generic(c); });
  expect("traits_are_run_time", [&](auto& c, auto& s, auto&) { generic(c), s.a = s.b = DataType::bf16; });
  expect("traits_are_run_time", [&](auto& c, auto& s, auto&) { generic(c), s.epilogue_ops = {Op::relu}; });
  expect("traits_are_run_time", [&](auto& c, auto&, auto& a) { generic(c), a.split_k = true; });
  expect("packed_b_is_carried", [&](auto& c, auto&, auto& a) { generic(c), a.packed_b = true; });
  expect("tile_is_whole_micro_tiles", [&](auto& c, auto&, auto& a) { generic(c), a.tile[0] = 64; });
  expect("tile_is_whole_micro_tiles", [](auto&, auto&, auto& a) { a.tile = {191, 528, 512}; });
  expect("tile_is_whole_micro_tiles", [](auto&, auto&, auto& a) { a.tile = {192, 528, 8208}; });
  expect("skinny_has_few_rows", [](auto&, auto&, auto& a) { a.pipeline = Pipeline::skinny; });
  expect("fields_belong_to_pipeline", [](auto&, auto&, auto& a) { a.preshuffle = true; });
  expect("fields_belong_to_pipeline", [](auto&, auto&, auto& a) { a.stages = 2; });
  expect("fields_belong_to_pipeline", [](auto& c, auto&, auto&) { c.origin = Origin::ck; });
  expect("block_of_a_fits_l2", [](auto&, auto&, auto& a) { a.tile = {1024, 528, 1024}; });
  EXPECT_EQ(seen.size(), cpu_gemm_rules().size() + 1);
}

GemmEpilogue normal(const GemmEpilogue& list, bool beta = false) {
  const auto terms = cpu_gemm_epilogue(list, beta);
  EXPECT_TRUE(terms) << terms.error().text();
  return terms ? terms->normal_form() : GemmEpilogue{};
}
bool refused(const GemmEpilogue& list, bool beta = false) {
  return !cpu_gemm_epilogue(list, beta);
}

TEST(CpuGemmEpilogue, ListsComeIntoTheKernelsOrder) {
  EXPECT_EQ(normal({}), GemmEpilogue{});
  EXPECT_EQ(normal({Op::scale_n, Op::scale_m}), (GemmEpilogue{Op::scale_m, Op::scale_n}));
  EXPECT_EQ(normal({Op::bias, Op::gelu}), (GemmEpilogue{Op::bias, Op::gelu}));
  // A tensor before the activation takes C's place, when C is free.
  EXPECT_EQ(normal({Op::add, Op::relu}), GemmEpilogue{Op::relu});
  EXPECT_EQ(normal({Op::bias, Op::add, Op::relu}), (GemmEpilogue{Op::bias, Op::relu}));
  EXPECT_TRUE(refused({Op::add, Op::gelu}, true));
  EXPECT_EQ(normal({Op::add, Op::relu}, true), (GemmEpilogue{Op::add, Op::clamp}));
  EXPECT_EQ(normal({Op::bias, Op::add}, true), (GemmEpilogue{Op::bias, Op::add}));
  // Relu behind tensors is a clamp.
  EXPECT_EQ(normal({Op::silu, Op::add, Op::add, Op::relu}), (GemmEpilogue{Op::silu, Op::add, Op::add, Op::clamp}));
  EXPECT_EQ(normal({Op::swiglu, Op::multiply, Op::amax}), (GemmEpilogue{Op::swiglu, Op::multiply, Op::amax}));
}

TEST(CpuGemmEpilogue, WhatDoesNotFitIsRefused) {
  EXPECT_TRUE(refused({Op::scale_m}, true));  // would scale C too
  EXPECT_TRUE(refused({Op::bias, Op::scale_m}));
  EXPECT_TRUE(refused({Op::bias, Op::bias_m}));
  EXPECT_TRUE(refused({Op::gelu, Op::silu}));
  EXPECT_TRUE(refused({Op::multiply, Op::gelu}));
  EXPECT_TRUE(refused({Op::gelu, Op::add, Op::multiply}));
  EXPECT_TRUE(refused({Op::gelu, Op::add, Op::add, Op::add, Op::add, Op::add}));
  EXPECT_TRUE(refused({Op::clamp, Op::bias}));
  const auto terms = cpu_gemm_epilogue({Op::bias, Op::gelu, Op::bias}, false);
  ASSERT_FALSE(terms);
  EXPECT_NE(terms.error().message.find("bias at place 2"), std::string::npos) << terms.error().message;
}

TEST(CpuGemmEpilogue, TermsKnowTheirPlacesInTheList) {
  const CpuGemmEpilogue t =
      cpu_gemm_epilogue({Op::scale_n, Op::add, Op::bias_m, Op::relu, Op::multiply, Op::multiply, Op::clamp}, false)
          .value();
  EXPECT_EQ(t.column_scale, 0);
  EXPECT_EQ(t.row_scale, -1);
  EXPECT_EQ(t.c, 1);
  EXPECT_EQ(t.bias, 2);
  EXPECT_TRUE(t.bias_along_m);
  EXPECT_EQ(t.extras, 2);
  EXPECT_EQ(t.extra[0], 4);
  EXPECT_EQ(t.extra[1], 5);
  EXPECT_TRUE(t.extras_multiply);
  EXPECT_EQ(t.clamp, 6);
}

std::size_t count_of(ListRequest request) {
  request.operation = Operation::gemm;
  const auto listing = Listing::prepare(std::move(request));
  EXPECT_TRUE(listing) << listing.error().text();
  ListStatistics statistics;
  if (listing) {
    EXPECT_TRUE(listing->walk([](const KernelConfig&) { return true; }, statistics));
  }
  return statistics.listed;
}

TEST(CpuGemm, ListingsAreNarrowedByTypeLayoutAndFilter) {
  const std::size_t all = count_of({.arch = "x86_64_v4"});
  EXPECT_GT(all, 100u);
  EXPECT_EQ(count_of({.arch = "x86_64_v4", .layout = "ccr"}) + 1, all) << "the generic kernel is listed once, in rcr";
  const std::size_t floats = count_of({.arch = "x86_64_v4", .data_types = {"fp32", "bf16", "fp16"}});
  const std::size_t bytes = count_of({.arch = "x86_64_v4", .data_types = {"int8", "fp8", "bf8"}});
  EXPECT_EQ(floats + bytes, all);
  const std::size_t swiglu = count_of({.arch = "x86_64_v4", .filters = {"c.epilogue_ops == 'swiglu'"}});
  EXPECT_GT(swiglu, 0u);
  EXPECT_LT(swiglu, all);
  EXPECT_EQ(count_of({.arch = "x86_64_v4", .filters = {"c.layout != 'rcr'"}}), 0u);
  EXPECT_FALSE(Listing::prepare({.arch = "x86_64_v4", .operation = Operation::gemm, .layout = "rcc"}));
  EXPECT_FALSE(Listing::prepare({.arch = "x86_64_v4", .operation = Operation::gemm, .variant = "stream_k"}));
}

TEST(CpuGemm, ExplanationsNameTheRuleAndTheNearestInstance) {
  KernelConfig config = valid_config();
  config.algorithm.tile = {1024, 528, 1024};
  const auto explained = explain(native_name(config));
  ASSERT_TRUE(explained) << explained.error().text();
  ASSERT_EQ(explained->size(), 1u);
  EXPECT_FALSE(explained->front().is_listed());
  EXPECT_TRUE(explained->front().nearest);
  EXPECT_NE(explanation_text(explained->front()).find("REFUSE block_of_a_fits_l2"), std::string::npos);
  const auto fine = explain(native_name(valid_config()));
  ASSERT_TRUE(fine);
  EXPECT_TRUE(fine->front().is_listed());
}

}  // namespace
}  // namespace tilesmith
