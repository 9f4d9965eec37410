// Generated CPU GEMM kernels against a float64 reference: every instruction this machine has (tiles also emulated), all
// orders, awkward sizes, matrices with gaps of NaN that end where unreadable memory begins.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "codegen/cpu_gemm.hpp"
#include "codegen/cpu_gemm_problem.hpp"
#include "codegen/emulated_tiles.hpp"

namespace tilesmith {
namespace {

struct Variant {
  CpuLevel level;
  ElementType element;
  Instruction instruction;
};

constexpr Variant kVariants[] = {
    {CpuLevel::x86_64_v3, ElementType::fp32, Instruction::fma_f32},
    {CpuLevel::x86_64_v3, ElementType::bf16, Instruction::fma_f32},
    {CpuLevel::x86_64_v3, ElementType::fp16, Instruction::fma_f32},
    {CpuLevel::x86_64_v3, ElementType::int8, Instruction::dot_int16},
    {CpuLevel::x86_64_v4, ElementType::fp32, Instruction::fma_f32},
    {CpuLevel::x86_64_v4, ElementType::bf16, Instruction::fma_f32},
    {CpuLevel::x86_64_v4, ElementType::fp16, Instruction::fma_f32},
    {CpuLevel::x86_64_v4, ElementType::int8, Instruction::dot_int16},
    {CpuLevel::x86_64_v4_bf16, ElementType::bf16, Instruction::dpbf16},
    {CpuLevel::x86_64_v4_bf16, ElementType::int8, Instruction::dot_int8},
    {CpuLevel::x86_64_amx, ElementType::bf16, Instruction::amx_bf16},
    {CpuLevel::x86_64_amx, ElementType::int8, Instruction::amx_int8},
};

std::string describe(const Variant& v) {
  return fmt::format("{}_{}_{}", to_string(v.level), to_string(v.element), name_of(v.instruction));
}

std::string describe(const GemmSizes& s) {
  return fmt::format("m {} n {} k {} batch {} alpha {} beta {} splits {} threads {}", s.m, s.n, s.k, s.batch, s.alpha,
                     s.beta, s.splits, s.threads);
}

/// Two register tiles a side, so that small problems have several tasks and blocks.
CpuGemmParameters small_tiles(const Variant& variant) {
  CpuGemmParameters p;
  p.name = "test";
  p.level = variant.level;
  p.element = variant.element;
  p.instruction = variant.instruction;
  const CpuGemmTile tile = cpu_gemm_tile(p.level, p.instruction);
  p.tile_m = 2 * tile.rows;
  p.tile_n = 2 * tile.columns;
  p.tile_k = 2 * tile.depth;
  if (p.element == ElementType::int8) p.output = p.side = ElementType::int32;
  return p;
}

Result<const TsCpuKernel*> compile(const CpuGemmParameters& p) {
  TS_ASSIGN(Source source, cpu_gemm_source(p));
  EXPECT_EQ(source.text.find("#include"), std::string::npos);
  if (!machine_has(p.level)) source.text = with_emulated_tiles(source.text);
  return compile_kernel(source);
}

void expect_correct(const CpuGemmParameters& p, const std::vector<GemmSizes>& cases) {
  const auto kernel = compile(p);
  ASSERT_TRUE(kernel) << kernel.error().text();
  for (const GemmSizes& sizes : cases) {
    const GemmProblem problem(p, sizes);
    run_kernel(**kernel, &problem.args());
    ASSERT_EQ(problem.mismatch(), "") << describe(sizes);
  }
}

class CpuGemmKernels : public ::testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    const CpuLevel needed = std::min(GetParam().level, CpuLevel::x86_64_v4_bf16);  // tiles can be emulated
    if (!machine_has(needed)) GTEST_SKIP() << "this machine lacks " << to_string(GetParam().level);
  }
};

const std::vector<GemmSizes> kAwkward = {
    {.m = 0, .n = 5, .k = 3},
    {.m = 5, .n = 0, .k = 3},
    {.m = 3, .n = 5, .k = 0},
    {.m = 3, .n = 5, .k = 7, .batch = 0},
    {.m = 1, .n = 1, .k = 1},
    {.m = 2, .n = 3, .k = 1, .beta = 1},
    {.m = 5, .n = 17, .k = 3, .alpha = 0, .beta = 2},
    {.m = 7, .n = 31, .k = 13, .batch = 3, .beta = 3},
    {.m = 16, .n = 48, .k = 32},
    {.m = 17, .n = 97, .k = 67, .batch = 2, .share_b = true},
    {.m = 64, .n = 33, .k = 129, .threads = 4},
    {.m = 97, .n = 101, .k = 103},
    {.m = 97, .n = 211, .k = 131, .beta = -1, .threads = 16},
};

TEST_P(CpuGemmKernels, AllOrdersAndAwkwardSizesAreCorrect) {
  CpuGemmParameters p = small_tiles(GetParam());
  for (const MatrixOrder a : {MatrixOrder::row, MatrixOrder::column}) {
    for (const MatrixOrder b : {MatrixOrder::row, MatrixOrder::column}) {
      p.order_a = a;
      p.order_b = b;
      SCOPED_TRACE(fmt::format("order {}{}", name_of(a), name_of(b)));
      expect_correct(p, kAwkward);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(CpuGemmKernels, WholeNumbersAreExact) {
  CpuGemmParameters p = small_tiles(GetParam());
  p.output = p.side = ElementType::fp32;
  std::vector<GemmSizes> cases = {{.m = 37, .n = 65, .k = 71}, {.m = 9, .n = 100, .k = 200, .batch = 2, .beta = 2}};
  for (GemmSizes& s : cases) s.small_integers = true;
  expect_correct(p, cases);
}

INSTANTIATE_TEST_SUITE_P(Levels, CpuGemmKernels, ::testing::ValuesIn(kVariants),
                         [](const auto& instance) { return describe(instance.param); });

}  // namespace
}  // namespace tilesmith
