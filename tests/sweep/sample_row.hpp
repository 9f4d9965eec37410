// Rows of results with every field set, for tests.
#pragma once

#include "choose/gemm/cpu.hpp"
#include "problem/attention/problem.hpp"
#include "sweep/row.hpp"

namespace tilesmith::testing {

inline BenchRow sample_row(std::int64_t seqlen = 512) {
  BenchRow row;
  const AttentionProblem problem{.batch = 2,
                                 .heads_q = 8,
                                 .heads_kv = 2,
                                 .seqlen_q = seqlen,
                                 .seqlen_k = 600,
                                 .head_dim_qk = 192,
                                 .mask = MaskKind::top_left,
                                 .window_left = 30,
                                 .lse = true};
  row.problem = problem;
  KernelConfig config{
      .arch = ArchName::parse("x86_64_v3").value(), .signature = signature_of(problem), .algorithm = {}};
  config.algorithm.instruction = Instruction::fma_f32;
  config.algorithm.pipeline = Pipeline::flash;
  config.algorithm.tile = {32, 64};
  row.recipe = config;
  row.status = RowStatus::correct;
  row.timing =
      TrialTiming{.median_s = 0.002, .best_s = 0.001, .spread = 0.25, .samples = 7, .flops = 4e9, .bytes = 1e6};
  row.errors = {.outputs = {{"o", 0.5, 0.25, 0.125, 1.5}, {"lse", 0.03125, 0.0625, 0.015625, 0}}};
  row.roofline_percent = 50;
  row.naive_s = 0.01;
  row.threads = 2;
  row.rank = 3;
  return row;
}

/// The same of a GEMM.
inline BenchRow sample_gemm_row(std::int64_t m = 256) {
  BenchRow row = sample_row();
  GemmProblem problem = gemm_problem(DataType::int8, m, 512, 1024, DataType::bf16);
  problem.batch = 3;
  problem.order_b = MatrixOrder::row;
  problem.beta = true;
  problem.epilogue = {EpilogueOp::bias, EpilogueOp::gelu};
  row.problem = problem;
  KernelConfig config{
      .arch = ArchName::parse("x86_64_v4").value(), .signature = cpu_signature_of(problem).value(), .algorithm = {}};
  config.algorithm.instruction = Instruction::dot_int16;
  config.algorithm.pipeline = Pipeline::blocked;
  config.algorithm.tile = {96, 528, 512};
  row.recipe = config;
  row.errors = {.outputs = {{"d", 0.5, 0.25, 0.125, 1.5}}};
  return row;
}

/// The same of a recipe of two steps: a kernel that packs B goes before one that reads it packed.
inline BenchRow sample_row_of_two_steps() {
  BenchRow row = sample_gemm_row();
  KernelConfig packing = row.recipe.main();
  packing.algorithm.tile = {48, 528, 512};
  row.recipe.steps.insert(row.recipe.steps.begin(), {packing, StepRole::pack_b});
  return row;
}

}  // namespace tilesmith::testing
