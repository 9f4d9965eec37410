// Generated CPU GEMM kernels against a float64 reference: every instruction this machine has (tiles also emulated), all
// orders, awkward sizes, matrices with gaps of NaN that end where unreadable memory begins.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "codegen/emulated_tiles.hpp"
#include "codegen/gemm/cpu.hpp"
#include "codegen/gemm/cpu_call.hpp"
#include "runtime/cpu/thread_pool.hpp"
#include "thorough.hpp"

namespace tilesmith {
namespace {

// Each test is a process of its own, and many want the same kernels.
const std::filesystem::path kStore = std::filesystem::path(TILESMITH_BINARY_DIR) / "test-store";

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
  return fmt::format("m {} n {} k {}+{} batch {} alpha {} beta {} splits {} threads {}", s.m, s.n, s.k, s.k2, s.batch,
                     s.alpha, s.beta, s.splits, s.threads);
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
  if (p.element == ElementType::int8) p.output = p.aux = ElementType::int32;
  return p;
}

Result<const TsCpuKernel*> compile(const CpuGemmParameters& p) {
  TS_ASSIGN(Source source, cpu_gemm_source(p));
  EXPECT_EQ(source.text.find("#include"), std::string::npos);
  if (!machine_has(p.level)) source.text = with_emulated_tiles(source.text);
  return compile_kernel(source, kStore);
}

void expect_correct(const CpuGemmParameters& p, const std::vector<GemmSizes>& cases) {
  const auto kernel = compile(p);
  ASSERT_TRUE(kernel) << kernel.error().text();
  for (const GemmSizes& sizes : cases) {
    const CpuGemmCall problem(p, sizes);
    run_kernel(**kernel, &problem.args());
    ASSERT_EQ(problem.mismatch(), "") << describe(sizes);
  }
}

class CpuGemmKernels : public ::testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    const CpuLevel needed = std::min(GetParam().level, CpuLevel::x86_64_v4_bf16);  // tiles can be emulated
    if (!machine_has(needed)) GTEST_SKIP() << "this machine lacks " << to_string(GetParam().level);
    // With AVX-512, bf16 stands for its vectors and conversions, and fp16 and int8 of the level below for theirs.
    // Floats have paths of their own on both.
    const Variant& v = GetParam();
    const bool stands_for_others =
        v.element == ElementType::fp32 || (v.element == ElementType::bf16) == (v.level != CpuLevel::x86_64_v3);
    if (v.instruction != Instruction::dpbf16 && needed <= CpuLevel::x86_64_v4 && machine_has(CpuLevel::x86_64_v4) &&
        !stands_for_others && !testing::thorough())
      GTEST_SKIP() << "a long form: make test-thorough";
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

TEST_P(CpuGemmKernels, TwoProductsGoIntoOneSum) {
  const std::vector<GemmSizes> cases = {
      {.m = 3, .n = 5, .k = 0, .k2 = 7},
      {.m = 3, .n = 5, .k = 7, .k2 = 0},
      {.m = 2, .n = 3, .k = 0, .batch = 2, .beta = 1, .k2 = 0},
      {.m = 1, .n = 1, .k = 1, .k2 = 1},
      {.m = 5, .n = 17, .k = 3, .alpha = 0, .beta = 2, .k2 = 9},
      {.m = 7, .n = 31, .k = 13, .batch = 3, .beta = 3, .k2 = 131},
      {.m = 16, .n = 97, .k = 67, .batch = 2, .share_b = true, .k2 = 129},
      {.m = 9, .n = 50, .k = 301, .splits = 3, .threads = 4, .k2 = 77},
      {.m = 14, .n = 101, .k = 103, .small_integers = true, .splits = 7, .k2 = 512},
      {.m = 16, .n = 64, .k = 128, .splits = 2, .threads = 16, .k2 = 64},
  };
  std::vector<GemmSizes> more_rows = cases;
  for (GemmSizes& sizes : more_rows) sizes.m *= 9;
  int turn = 0;
  for (const CpuGemmForm form : {CpuGemmForm::blocked, CpuGemmForm::skinny})
    for (const bool split_k : {false, true}) {
      // The short form: types of 16 bits have blocks that split k and rows that do not, the others the other two.
      if (!testing::thorough() && (form == CpuGemmForm::blocked) == (split_k == (size_of(GetParam().element) != 2)))
        continue;
      CpuGemmParameters p = small_tiles(GetParam());
      if (form == CpuGemmForm::skinny && GetParam().level == CpuLevel::x86_64_amx) continue;
      p.form = form;
      p.mm_plus_mm = true;
      p.split_k = split_k;
      if (form == CpuGemmForm::skinny) p.tile_m = 16;
      p.order_a = turn % 2 == 0 ? MatrixOrder::row : MatrixOrder::column;
      p.order_b = turn++ % 2 == 0 ? MatrixOrder::column : MatrixOrder::row;
      SCOPED_TRACE(fmt::format("form {} split_k {}", static_cast<int>(form), split_k));
      expect_correct(p, form == CpuGemmForm::skinny ? cases : more_rows);
    }
}

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

// A D that is larger than a second-level cache and has its rows at multiples of a line is written past the caches.
TEST_P(CpuGemmKernels, LargeResultsAreCorrect) {
  CpuGemmParameters p = small_tiles(GetParam());
  p.tile_m *= 4;
  p.tile_n *= 4;
  expect_correct(p, {{.m = 300, .n = 1000, .k = 20, .beta = 1, .whole_lines = true},
                     {.m = 261, .n = 1025, .k = 3, .batch = 2, .whole_lines = true},
                     {.m = 700, .n = 1600, .k = 3, .threads = 2, .whole_lines = true}});
}

// Where k is short a task passes all panels by a few rows before the next ones.
TEST_P(CpuGemmKernels, ShortSumsAreCorrect) {
  CpuGemmParameters p = small_tiles(GetParam());
  p.tile_m *= 4;
  p.tile_n *= 2;
  p.tile_k *= 4;
  const long long most = 16 * (p.element == ElementType::int8 ? 16 : 8);  // of k: 64 words, and more
  for (const MatrixOrder order : {MatrixOrder::row, MatrixOrder::column}) {
    p.order_a = p.order_b = order;
    SCOPED_TRACE(fmt::format("both {}", name_of(order)));
    expect_correct(p, {{.m = 67, .n = 101, .k = 1},
                       {.m = 301, .n = 333, .k = 3, .batch = 2, .beta = 1},
                       {.m = 150, .n = 211, .k = 17, .batch = 3, .share_b = true},
                       {.m = 90, .n = 97, .k = most / 4},
                       {.m = 90, .n = 97, .k = most / 2 + 1},
                       {.m = 200, .n = 500, .k = 5, .threads = 3}});
    if (HasFatalFailure()) return;
  }
}

// Deep blocks of k: tiles pass them in parts.
TEST_P(CpuGemmKernels, DeepBlocksAreCorrect) {
  CpuGemmParameters p = small_tiles(GetParam());
  const CpuGemmTile tile = cpu_gemm_tile(p.level, p.instruction);
  p.tile_m = 4 * tile.rows;
  p.tile_k = 40 * tile.depth;
  for (const bool split : {false, true}) {
    p.split_k = split;
    expect_correct(p, {{.m = 2 * tile.rows + 3, .n = 75, .k = 900},
                       {.m = 67, .n = 65, .k = p.tile_k * 8 / 5, .splits = 2},
                       {.m = 37, .n = 130, .k = 2 * p.tile_k + 5, .beta = 1, .splits = 2, .threads = 16}});
    if (HasFatalFailure()) return;
  }
}

// Floats are multiplied where they lie, or packed: few rows or many, short sums or long, few panels or many, a B of
// long rows, tails of every size.
TEST_P(CpuGemmKernels, FloatsInPlaceAndPackedAreCorrect) {
  CpuGemmParameters p = small_tiles(GetParam());
  if (p.element != ElementType::fp32) GTEST_SKIP() << "elements that are no words are always packed";
  const CpuGemmTile tile = cpu_gemm_tile(p.level, p.instruction);
  p.tile_m = 12 * tile.rows;
  p.tile_n = 4 * tile.columns;
  p.tile_k = 64 * tile.depth;
  std::vector<GemmSizes> cases = {{.m = 5 * tile.rows + 1, .n = 3 * tile.columns + 5, .k = 65},
                                  {.m = 12 * tile.rows + 2, .n = 40, .k = 100, .batch = 2, .beta = 1},
                                  {.m = 25 * tile.rows + 3, .n = 9 * tile.columns + 7, .k = 64, .threads = 3},
                                  {.m = 90, .n = 4 * tile.columns + 1, .k = p.tile_k + 70, .batch = 2},
                                  {.m = 21, .n = 2 * tile.columns + 1, .k = 2 * p.tile_k + 3, .share_b = true},
                                  {.m = 9, .n = 700, .k = 500, .threads = 4},
                                  {.m = 3, .n = 2 * tile.columns, .k = 3000},
                                  {.m = 12 * tile.rows + 2, .n = 9 * tile.columns + 7, .k = 130, .batch = 2},
                                  {.m = 509, .n = 509, .k = 130},  // lines lie 512 apart
                                  {.m = 450, .n = 450, .k = 70, .threads = 3, .whole_lines = true},
                                  {.m = 150, .n = 211, .k = 20, .batch = 2}};
  for (long long m = 1; m <= 9; ++m) cases.push_back({.m = m, .n = 50 - 5 * m, .k = 40 + m, .beta = float(m % 2)});
  for (const bool split : {false, true})
    for (const MatrixOrder a : {MatrixOrder::row, MatrixOrder::column})
      for (const MatrixOrder b : {MatrixOrder::row, MatrixOrder::column}) {
        p.split_k = split;
        p.order_a = a;
        p.order_b = b;
        for (GemmSizes& s : cases) s.splits = split ? 2 : 1;
        SCOPED_TRACE(fmt::format("order {}{} split_k {}", name_of(a), name_of(b), split));
        expect_correct(p, cases);
        if (HasFatalFailure()) return;
      }
}

TEST_P(CpuGemmKernels, WholeNumbersAreExact) {
  CpuGemmParameters p = small_tiles(GetParam());
  p.output = p.aux = ElementType::fp32;
  std::vector<GemmSizes> cases = {{.m = 37, .n = 65, .k = 71}, {.m = 9, .n = 100, .k = 200, .batch = 2, .beta = 2}};
  for (GemmSizes& s : cases) s.small_integers = true;
  expect_correct(p, cases);
}

TEST_P(CpuGemmKernels, SkinnyKernelsAreCorrect) {
  CpuGemmParameters p = small_tiles(GetParam());
  if (p.level == CpuLevel::x86_64_amx) GTEST_SKIP() << "skinny kernels use vectors";
  p.form = CpuGemmForm::skinny;
  p.tile_m = 16;
  std::vector<GemmSizes> cases = kAwkward;
  for (long long m = 1; m <= 16; ++m) cases.push_back({.m = m, .n = 90 + 7 * m, .k = 40 + 11 * m});
  for (const MatrixOrder order : {MatrixOrder::row, MatrixOrder::column}) {
    p.order_a = p.order_b = order;
    SCOPED_TRACE(fmt::format("both {}", name_of(order)));
    expect_correct(p, cases);
    if (HasFatalFailure()) return;
  }
}

/// The forms a variant has.
std::vector<CpuGemmParameters> forms(const Variant& variant) {
  std::vector<CpuGemmParameters> all = {small_tiles(variant)};
  if (variant.level == CpuLevel::x86_64_amx) return all;
  all.push_back(all[0]);
  all[1].form = CpuGemmForm::skinny;
  all[1].tile_m = 16;
  return all;
}

// Every number of elements that may be left for the last vector of a row, of both matrices and of D.
TEST_P(CpuGemmKernels, PartsOfEveryLengthAreCorrect) {
  std::vector<GemmSizes> cases;
  for (long long i = 1; i <= 67; ++i)
    cases.push_back({.m = 1 + i % 16, .n = i, .k = 68 - i, .beta = float(i % 5 == 0)});
  for (CpuGemmParameters p : forms(GetParam())) {
    for (const MatrixOrder order : {MatrixOrder::row, MatrixOrder::column}) {
      p.order_a = p.order_b = order;
      SCOPED_TRACE(fmt::format("form {}, both {}", static_cast<int>(p.form), name_of(order)));
      expect_correct(p, cases);
      if (HasFatalFailure()) return;
    }
    if (p.element != ElementType::int8) continue;
    p.output = ElementType::int8;
    p.aux = ElementType::fp16;
    expect_correct(p, cases);
  }
}

// Sums of few products along k are shared out to several registers, and of one row of A that lies far from the next.
TEST_P(CpuGemmKernels, FewLongDotProductsAreCorrect) {
  for (CpuGemmParameters p : forms(GetParam())) {
    p.order_b = MatrixOrder::column;
    expect_correct(p, {{.m = 1, .n = 1, .k = 1000},
                       {.m = 2, .n = 1, .k = 777},
                       {.m = 1, .n = 3, .k = 1029, .batch = 2},
                       {.m = 3, .n = 2, .k = 641, .beta = 1},
                       {.m = 7, .n = 5, .k = 515}});
  }
}

TEST_P(CpuGemmKernels, SplitsOfKAreCorrectAndIndependentOfThreads) {
  for (CpuGemmParameters p : forms(GetParam())) {
    p.split_k = true;
    std::vector<GemmSizes> cases = kAwkward;
    cases.push_back({.m = 5, .n = 40, .k = 1000});
    cases.push_back({.m = 13, .n = 131, .k = 700, .batch = 2, .beta = 1});
    for (GemmSizes& s : cases) s.splits = 3;
    cases.push_back({.m = 7, .n = 9, .k = 50, .splits = 1000});
    expect_correct(p, cases);
    if (HasFatalFailure()) return;

    const auto kernel = compile(p);
    ASSERT_TRUE(kernel);
    GemmSizes sizes{.m = 61, .n = 300, .k = 500, .splits = 3};
    const CpuGemmCall one(p, sizes);
    run_kernel(**kernel, &one.args());
    sizes.threads = 16;
    const CpuGemmCall many(p, sizes);
    run_kernel(**kernel, &many.args());
    const auto bytes = static_cast<std::size_t>(sizes.m * one.args().d_leading - 3) * size_of(p.output);
    EXPECT_EQ(std::memcmp(one.args().d, many.args().d, bytes), 0);
  }
}

TEST_P(CpuGemmKernels, ThreadsShareTheTasks) {
  CpuGemmParameters p = small_tiles(GetParam());
  p.output = p.aux = ElementType::fp32;
  p.split_k = p.amax = true;
  const auto kernel = compile(p);
  ASSERT_TRUE(kernel) << kernel.error().text();
  ThreadPool pool(3);
  for (int round = 0; round < 5; ++round) {
    const CpuGemmCall problem(p, {.m = 150, .n = 333, .k = 200, .batch = 2, .splits = 2, .threads = 3});
    TsGemmArgs args = problem.args();
    const GuardedBytes workspace(static_cast<std::size_t>((*kernel)->workspace_bytes(&args)), 64);
    args.workspace = workspace.data();
    pool.reserve_scratch(static_cast<std::size_t>((*kernel)->scratch_bytes(&args)));
    pool.run(**kernel, &args);
    ASSERT_EQ(problem.mismatch(), "");
  }
}

TEST_P(CpuGemmKernels, PackedMatricesGiveTheSameBits) {
  for (const MatrixOrder order : {MatrixOrder::row, MatrixOrder::column}) {
    CpuGemmParameters p = small_tiles(GetParam());
    p.order_b = order;
    CpuGemmParameters pack = p, product = p;
    pack.form = CpuGemmForm::pack_b;
    product.packed_b = true;
    const auto plain = compile(p), packer = compile(pack), kernel = compile(product);
    ASSERT_TRUE(plain);
    ASSERT_TRUE(packer) << packer.error().text();
    ASSERT_TRUE(kernel) << kernel.error().text();
    for (const GemmSizes& sizes : kAwkward) {
      const CpuGemmCall expected(p, sizes), problem(p, sizes);
      run_kernel(**plain, &expected.args());
      const GuardedBytes packed(static_cast<std::size_t>((*packer)->workspace_bytes(&problem.args())), 64);
      TsGemmArgs args = problem.args();
      args.workspace = packed.data();
      if (sizes.alpha != 0) run_stages(**packer, &args);
      args = problem.args_of_packed(packed.data());
      run_kernel(**kernel, &args);
      ASSERT_EQ(problem.mismatch(), "") << describe(sizes);
      ASSERT_EQ(expected.mismatch(), "") << describe(sizes);
    }
  }
}

TEST_P(CpuGemmKernels, EpiloguesAreCorrect) {
  const std::vector<GemmSizes> cases = {{.m = 0, .n = 4, .k = 3},
                                        {.m = 1, .n = 2, .k = 1, .alpha = 0.5F},
                                        {.m = 23, .n = 70, .k = 60, .alpha = -0.3F, .beta = 0.5F},
                                        {.m = 9, .n = 34, .k = 150, .batch = 2, .alpha = 2, .threads = 3},
                                        {.m = 12, .n = 50, .k = 9, .size = 20}};  // activations far out
  const auto with = [&](auto change) {
    CpuGemmParameters p = small_tiles(GetParam());
    if (p.element == ElementType::int8) p.output = p.aux = ElementType::fp32;
    change(p);
    expect_correct(p, cases);
  };
  constexpr ElementType kOutputs[] = {ElementType::fp32, ElementType::bf16, ElementType::fp16};
  // Activations depend on the vectors and on whether sums are floats, and on nothing else of a variant.
  const bool activations = GetParam().level <= CpuLevel::x86_64_v4 &&
                           (GetParam().element == ElementType::fp32 || GetParam().level == CpuLevel::x86_64_v3);
  int round = 0;
  for (const GemmActivation activation : {GemmActivation::relu, GemmActivation::gelu, GemmActivation::gelu_tanh,
                                          GemmActivation::silu, GemmActivation::sigmoid, GemmActivation::tanh}) {
    if (!activations) break;
    with([&](CpuGemmParameters& p) {
      p.activation = activation;
      p.bias = round % 2 == 0 ? GemmBias::along_n : GemmBias::along_m;
      p.output = p.aux = p.bias_type = kOutputs[round % 3];
      if (p.element == ElementType::int8) p.row_scale = p.column_scale = true;
      p.amax = round % 2 == 1;
    });
    if (HasFatalFailure()) return;
    ++round;
  }
  with([](CpuGemmParameters& p) {
    p.gated = true;
    p.activation = GemmActivation::silu;
    p.bias = GemmBias::along_n;
    p.extras = 1;
    p.split_k = true;
  });
  with([](CpuGemmParameters& p) {
    p.row_scale = p.column_scale = true;
    p.extras = 2;
    p.aux = ElementType::bf16;
    p.amax = true;
  });
  with([](CpuGemmParameters& p) {
    p.extras = 4;
    p.extras_multiply = p.clamp = true;
    p.activation = GemmActivation::gelu_tanh;
    p.aux = p.output = ElementType::fp16;
  });
  if (GetParam().element != ElementType::int8) return;
  with([](CpuGemmParameters& p) {
    p.row_scale = p.column_scale = true;
    p.bias = GemmBias::along_m;
    p.output = ElementType::int8;
  });
}

TEST_P(CpuGemmKernels, NumbersThatAreNotFiniteStayInTheirRowsAndColumns) {
  for (CpuGemmParameters p : forms(GetParam())) {
    if (!is_floating(p.element)) continue;
    const GemmSizes sizes{.m = 13, .n = 70, .k = 90};
    const auto kernel = compile(p);
    ASSERT_TRUE(kernel);
    const CpuGemmCall problem(p, sizes);
    const TsGemmArgs& args = problem.args();
    store_element(p.element, const_cast<void*>(args.a.data), static_cast<std::size_t>(5 * args.a.leading + 7),
                  std::numeric_limits<double>::quiet_NaN());
    store_element(p.element, const_cast<void*>(args.b.data), static_cast<std::size_t>(11 * args.b.leading + 33),
                  std::numeric_limits<double>::infinity());
    run_kernel(**kernel, &args);
    for (long long i = 0; i < sizes.m; ++i) {
      for (long long j = 0; j < sizes.n; ++j) {
        const double x = load_element(p.output, args.d, static_cast<std::size_t>(i * args.d_leading + j));
        EXPECT_EQ(std::isfinite(x), i != 5 && j != 33) << i << " " << j;
      }
    }
  }
}

TEST(CpuGemmSource, RefusesWhatTheTemplatesDoNotCover) {
  const auto refused = [](auto change) {
    CpuGemmParameters p;
    p.name = "test";
    p.level = CpuLevel::x86_64_v4_bf16;
    change(p);
    const auto source = cpu_gemm_source(p);
    return source ? std::string("accepted") : source.error().text();
  };
  EXPECT_EQ(refused([](CpuGemmParameters&) {}), "accepted");
  EXPECT_NE(refused([](auto& p) { p.instruction = Instruction::dpbf16; }).find("dpbf16 products of fp32"),
            std::string::npos);
  EXPECT_NE(refused([](auto& p) {
              p.element = ElementType::bf16;
              p.instruction = Instruction::amx_bf16;
            }).find("level x86_64_amx or higher"),
            std::string::npos);
  EXPECT_NE(refused([](auto& p) { p.tile_n = 100; }).find("tile_n 100"), std::string::npos);
  EXPECT_NE(refused([](auto& p) { p.extras = 5; }).find("0 to 4"), std::string::npos);
  EXPECT_NE(refused([](auto& p) { p.output = ElementType::int32; }).find("int32 output"), std::string::npos);
  EXPECT_NE(refused([](auto& p) {
              p.element = ElementType::int8;
              p.instruction = Instruction::dot_int8;
              p.output = p.aux = ElementType::int32;
              p.clamp = true;
            }).find("epilogue on int32"),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Levels, CpuGemmKernels, ::testing::ValuesIn(kVariants),
                         [](const auto& instance) { return describe(instance.param); });

}  // namespace
}  // namespace tilesmith
