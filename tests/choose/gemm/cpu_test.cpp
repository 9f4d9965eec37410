// Which CPU GEMM kernels go first, and how they divide k.
#include "choose/gemm/cpu.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "choose/gemm/cpu_model.hpp"
#include "choose/gemm/cpu_terms.hpp"
#include "choose/random_problem.hpp"
#include "instances/gemm/cpu.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

const CpuFacts& every_level() {
  static const CpuFacts facts = testing::every_level(1);
  return facts;
}

TEST(CpuGemmRank, FewRowsAreSkinnyAndManyBlocked) {
  for (const CpuSpec& spec : every_level().levels)
    for (const auto& [m, want] : {std::pair{1, Pipeline::skinny}, std::pair{1024, Pipeline::blocked}}) {
      const GemmProblem p = gemm_problem(DataType::fp32, m, 1024, 1024);
      double best = 1e9;
      Pipeline chosen{};
      for (const CpuGemmInstruction& facts : spec.gemm)
        for (const CpuGemmTiles& tiles : facts.pipelines) {
          if (facts.instruction != Instruction::fma_f32) continue;
          KernelConfig config{.arch = spec.arch, .signature = *cpu_signature_of(p), .algorithm = {}};
          config.algorithm.pipeline = tiles.pipeline;
          config.algorithm.instruction = facts.instruction;
          config.algorithm.tile = {static_cast<std::uint16_t>(tiles.tile_m.back()),
                                   static_cast<std::uint16_t>(tiles.tile_n.back()),
                                   static_cast<std::uint16_t>(tiles.tile_k.back())};
          if (!serves(every_level(), config, p)) continue;
          const double seconds = predicted_seconds(p, config, spec, 1);
          EXPECT_GT(seconds, 0);
          if (seconds < best) best = seconds, chosen = tiles.pipeline;
        }
      if (best < 1e9) {
        EXPECT_EQ(chosen, want) << spec.arch.text() << " m " << m;
      }
    }
}

// Skinny kernels count elements of k in 32 bits.
TEST(CpuGemmRank, FewRowsOfABoundlessKAreBlocked) {
  const GemmProblem shallow = gemm_problem(DataType::fp32, 1, 1, 1);
  const GemmSignature signature = *cpu_signature_of(shallow);
  GemmProblem deep = shallow;
  deep.k = (std::int64_t{1} << 30) + 1;
  std::size_t skinny = 0, blocked = 0;
  for (const CpuSpec& spec : every_level().levels)
    enumerate_cpu_gemm(spec, signature, [&](const KernelConfig& config) {
      EXPECT_TRUE(serves(every_level(), config, shallow)) << native_name(config);
      const bool is_skinny = config.algorithm.pipeline == Pipeline::skinny;
      EXPECT_NE(serves(every_level(), config, deep).has_value(), is_skinny) << native_name(config);
      ++(is_skinny ? skinny : blocked);
      return true;
    });
  EXPECT_GT(skinny, 0u);
  EXPECT_GT(blocked, 0u);
}

TEST(CpuGemmRank, WhatNoOtherKernelComputesTheGenericOnesDo) {
  using Op = EpilogueOp;
  std::vector<GemmProblem> problems;
  for (const GemmEpilogue& list :
       {GemmEpilogue{Op::relu, Op::bias}, {Op::tanh, Op::gelu}, {Op::add, Op::multiply, Op::add}})
    problems.push_back(gemm_problem(DataType::bf16, 64, 64, 64)), problems.back().epilogue = list;
  problems.push_back(gemm_problem(DataType::tf32, 64, 64, 64));
  problems.push_back(gemm_problem(DataType::bf16, 64, 64, 64, DataType::fp8));
  for (const GemmProblem& problem : problems) {
    const auto ranking = rank(every_level(), problem);
    ASSERT_TRUE(ranking) << ranking.error().text();
    EXPECT_EQ(ranking->candidates.size(), 2u) << "of x86_64_v3 and of x86_64_v4";
    for (const Candidate& candidate : ranking->candidates) {
      EXPECT_EQ(candidate.recipe.main().algorithm.pipeline, Pipeline::generic);
      EXPECT_TRUE(serves(every_level(), candidate.recipe.main(), problem));
      EXPECT_TRUE(std::isfinite(candidate.predicted_seconds) && candidate.predicted_seconds > 0);
    }
    const auto refused = refusals(every_level(), problem);
    ASSERT_TRUE(refused) << refused.error().text();
    EXPECT_FALSE(refused->empty()) << "the others say why not";
  }
  // Others go first, and a packed B is not read.
  std::vector<KernelConfig> linked;
  for (const CpuSpec& spec : every_level().levels) {
    if (const auto generic = generic_cpu_gemm(spec)) linked.push_back(*generic);
    enumerate_cpu_gemm(spec, *cpu_signature_of(gemm_problem(DataType::bf16, 64, 64, 64)),
                       [&](const KernelConfig& config) { return linked.push_back(config), false; });
  }
  GemmProblem plain = gemm_problem(DataType::bf16, 64, 64, 64);
  const auto all = fallbacks(every_level(), plain, linked);
  EXPECT_EQ(all.size(), linked.size());
  EXPECT_NE(all.front().recipe.main().algorithm.pipeline, Pipeline::generic);
  EXPECT_EQ(all.back().recipe.main().algorithm.pipeline, Pipeline::generic);
  plain.packed_b = true;
  EXPECT_TRUE(fallbacks(every_level(), plain, linked).empty());
  EXPECT_FALSE(serves(every_level(), linked.front(), plain));
}

// By the specs alone, whatever this machine is: what was the fastest of all on Zen 4 (docs/performance.md).
TEST(CpuGemmRank, FewRowsGetTheKernelsThatMeasurementFoundFastest) {
  const auto specs = load_cpu_specs();
  ASSERT_TRUE(specs) << specs.error().text();
  struct Case {
    DataType type;
    MatrixOrder order_b;
    std::int64_t m;
    Pipeline pipeline;
    Instruction instruction;
  };
  constexpr auto row = MatrixOrder::row, column = MatrixOrder::column;
  for (const Case& c : {Case{DataType::fp32, column, 4, Pipeline::skinny, Instruction::fma_f32},
                        Case{DataType::fp32, row, 16, Pipeline::skinny, Instruction::fma_f32},
                        Case{DataType::fp32, row, 32, Pipeline::blocked, Instruction::fma_f32},
                        Case{DataType::bf16, column, 4, Pipeline::skinny, Instruction::dpbf16},
                        Case{DataType::bf16, column, 16, Pipeline::blocked, Instruction::dpbf16},
                        Case{DataType::bf16, row, 8, Pipeline::skinny, Instruction::dpbf16},
                        Case{DataType::int8, column, 8, Pipeline::blocked, Instruction::dot_int8},
                        Case{DataType::int8, row, 1, Pipeline::skinny, Instruction::dot_int16},
                        Case{DataType::int8, row, 8, Pipeline::skinny, Instruction::dot_int8},
                        Case{DataType::int8, column, 32, Pipeline::blocked, Instruction::dot_int8}}) {
    GemmProblem problem = gemm_problem(c.type, c.m, 4096, 1024);
    problem.order_b = c.order_b;
    std::vector<Candidate> candidates;
    for (const CpuSpec& level : *specs) {
      const CpuSpec spec = on_chip(level, "AuthenticAMD 25");
      if (spec.arch.text().starts_with("x86_64_v4"))
        enumerate_cpu_gemm(spec, *cpu_signature_of(problem), [&](const KernelConfig& config) {
          if (!config.algorithm.split_k && serves(every_level(), config, problem))
            candidates.push_back({config, predicted_seconds(problem, config, spec, 1)});
          return true;
        });
    }
    ASSERT_FALSE(candidates.empty());
    best_first(candidates);
    const Algorithm& first = candidates.front().recipe.main().algorithm;
    EXPECT_EQ(first.pipeline, c.pipeline) << name_of(c.type) << " m " << c.m;
    EXPECT_EQ(first.instruction, c.instruction) << name_of(c.type) << " m " << c.m;
  }
}

TEST(CpuGemmRank, KIsSplitOnlyWhereThreadsWouldIdle) {
  const CpuSpec& spec = every_level().levels.back();
  KernelConfig config{.arch = spec.arch, .signature = GemmSignature{}, .algorithm = {}};
  config.algorithm = {
      .pipeline = Pipeline::blocked, .instruction = Instruction::fma_f32, .tile = {48, 528, 512}, .split_k = true};
  EXPECT_EQ(splits_for(gemm_problem(DataType::fp32, 4096, 4096, 4096), config, spec, 8), 1);
  EXPECT_GT(splits_for(gemm_problem(DataType::fp32, 8, 16, 65536), config, spec, 8), 1);
  EXPECT_LE(splits_for(gemm_problem(DataType::fp32, 8, 16, 600), config, spec, 8), 2);
  EXPECT_EQ(splits_for(gemm_problem(DataType::fp32, 8, 16, 65536), config, spec, 1), 1);
  config.algorithm.split_k = false;
  EXPECT_EQ(splits_for(gemm_problem(DataType::fp32, 8, 16, 65536), config, spec, 8), 1);
}

/// Cycles of the term `far` of a kernel of AVX-512. Where tile_k is 128, many panels have no room beside A.
double far_rows(std::int64_t m, std::int64_t n, std::int64_t k, std::uint16_t tile_m, std::uint16_t tile_k = 128) {
  const CpuSpec& spec =
      *std::ranges::find(every_level().levels, "x86_64_v4", [](const CpuSpec& each) { return each.arch.text(); });
  const GemmProblem p = gemm_problem(DataType::fp32, m, n, k);
  KernelConfig config{.arch = spec.arch, .signature = *cpu_signature_of(p), .algorithm = {}};
  config.algorithm = {
      .pipeline = Pipeline::blocked, .instruction = Instruction::fma_f32, .tile = {tile_m, 1056, tile_k}};
  const std::size_t far = std::ranges::find(kCpuGemmTerms, "far") - kCpuGemmTerms.begin();
  return cpu_gemm_terms(p, config, spec, 1)[far] * spec.clock_hz;
}

TEST(CpuGemmTerms, RowsOfResultsInManyPagesAreFar) {
  EXPECT_NEAR(far_rows(109, 1307, 37, 192), 109 * 28 * (1 - 37 * 3 / 2.0 / 100), 109 * 28 * 0.1);
  EXPECT_EQ(far_rows(109, 1307, 37, 96), 0);    // 55 rows
  EXPECT_EQ(far_rows(109, 200, 37, 192), 0);    // 22 pages
  EXPECT_EQ(far_rows(109, 1307, 512, 192), 0);  // hidden by products
  EXPECT_EQ(far_rows(4096, 1024, 37, 192), 0);  // written past the caches
  EXPECT_GT(far_rows(4096, 1023, 37, 192), 0);
  EXPECT_EQ(far_rows(109, 1307, 37, 192, 1024), 0);  // all panels pass a few rows
}

TEST(CpuGemmTerms, PartsAreVectorsAndShortRowsShareLines) {
  const auto term = [&](const GemmProblem& p, Pipeline pipeline, std::string_view name,
                        std::string_view level = "x86_64_v4") {
    const CpuSpec& spec =
        *std::ranges::find(every_level().levels, level, [](const CpuSpec& each) { return each.arch.text(); });
    KernelConfig config{.arch = spec.arch, .signature = *cpu_signature_of(p), .algorithm = {}};
    config.algorithm = {.pipeline = pipeline, .instruction = Instruction::fma_f32, .tile = {96, 528, 512}};
    const std::size_t at = std::ranges::find(kCpuGemmTerms, name) - kCpuGemmTerms.begin();
    return cpu_gemm_terms(p, config, spec, 1)[at] * spec.clock_hz;
  };
  GemmProblem p = gemm_problem(DataType::fp32, 70, 15, 1000);
  p.order_b = MatrixOrder::row;
  EXPECT_NEAR(term(p, Pipeline::blocked, "parts"), 0, 1e-6);  // B's rows are read where they lie, under a mask
  EXPECT_NEAR(term(p, Pipeline::blocked, "tails"), 70, 1e-6);
  EXPECT_NEAR(term(p, Pipeline::blocked, "parts", "x86_64_v3"), 7 * 1000, 1e-6);  // AVX2 has no masks for all types
  EXPECT_NEAR(term(p, Pipeline::blocked, "runs"), 1000 * 60 / 64.0, 1e-6);
  p.n = 512;  // rows that share sets of the first-level cache are packed where more than 64 pass them
  EXPECT_NEAR(term(p, Pipeline::blocked, "packed_b"), 512 / 16 * 1000, 1e-6);
  p.n = 496;
  EXPECT_NEAR(term(p, Pipeline::blocked, "packed_b"), 0, 1e-6);
  p.n = 20000;  // a B of more than 32 KiB for each row that passes it
  EXPECT_NEAR(term(p, Pipeline::blocked, "packed_b"), 20000 / 16 * 1000, 1e-6);
  GemmProblem turned = gemm_problem(DataType::fp32, 512, 192, 100);
  turned.order_a = MatrixOrder::column;
  EXPECT_NEAR(term(turned, Pipeline::blocked, "turned_a"), 512 * 100 / 16, 1e-6);
  turned.m = 496;
  EXPECT_NEAR(term(turned, Pipeline::blocked, "turned_a"), 0, 1e-6);
  p.n = 16;
  EXPECT_NEAR(term(p, Pipeline::blocked, "parts"), 0, 1e-6);
  EXPECT_NEAR(term(p, Pipeline::blocked, "tails"), 0, 1e-6);
  p.m = 3;
  EXPECT_NEAR(term(p, Pipeline::skinny, "packed_a"), 0, 1e-6);  // floats are read as they lie
  p.order_a = MatrixOrder::column;
  EXPECT_NEAR(term(p, Pipeline::skinny, "turned_a"), 0, 1e-6);  // one by one, beside rows of B
  p.order_b = MatrixOrder::column;
  EXPECT_GT(term(p, Pipeline::skinny, "turned_a"), 0);  // along k, for dot products
  p.order_a = p.order_b = MatrixOrder::row;
  p.n = 2;
  const double whole = 3 * 16 * 1000 / 32.0;  // products of a vector of columns, 32 a cycle
  EXPECT_NEAR(term(p, Pipeline::skinny, "products"), whole, 1e-6);
  p.order_b = MatrixOrder::column;
  EXPECT_NEAR(term(p, Pipeline::skinny, "products"), whole / 8, 1e-6);  // of dot products, those of two columns
  EXPECT_NEAR(term(p, Pipeline::skinny, "dots"), whole / 8, 1e-6);
}

}  // namespace
}  // namespace tilesmith
