// Random GEMM problems of every type, order and epilogue, run by kernels of every kind on guarded memory and compared
// with float64.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/random.hpp"
#include "dispatch/cpu_gemm.hpp"
#include "dispatch/cpu_gemm_problem.hpp"
#include "dispatch/gemm_problem.hpp"
#include "dispatch/test_store.hpp"
#include "enumerate/cpu_gemm.hpp"
#include "kernel/memory_type.hpp"
#include "kernel/native_name.hpp"
#include "verify/gemm_check.hpp"
#include "verify/guarded_buffer.hpp"

namespace tilesmith {
namespace {

using Op = EpilogueOp;

/// Any sizes, and an epilogue that the CPU carries.
GemmProblem random_problem(std::uint64_t seed) {
  const RandomStream random{seed, 1};
  std::uint64_t drawn = 0;
  const auto below = [&](std::uint64_t bound) { return random.below(drawn++, bound); };
  constexpr DataType kTypes[] = {DataType::fp32, DataType::bf16, DataType::fp16, DataType::int8};
  constexpr DataType kResults[] = {DataType::fp32, DataType::bf16, DataType::fp16};
  const DataType type = kTypes[seed % 4];
  std::optional<DataType> result;
  if (below(2) == 0) result = kResults[below(3)];
  constexpr std::int64_t kSizes[] = {1, 2, 7, 16, 17, 31, 48, 49, 64, 97, 130};
  GemmProblem p = gemm_problem(type, kSizes[below(std::size(kSizes))], 2 * kSizes[below(std::size(kSizes))],
                               1 + static_cast<std::int64_t>(below(700)), result);
  p.batch = 1 + static_cast<std::int64_t>(below(3));
  p.order_a = below(2) == 0 ? MatrixOrder::row : MatrixOrder::column;
  p.order_b = below(2) == 0 ? MatrixOrder::row : MatrixOrder::column;
  p.beta = below(3) == 0;
  if (p.type_d == DataType::int32) return p;
  if (!p.beta && below(3) == 0) p.epilogue = {Op::scale_m, Op::scale_n};
  if (below(2) == 0) p.epilogue.push_back(below(2) == 0 ? Op::bias : Op::bias_m);
  if (!p.beta && below(4) == 0) p.epilogue.push_back(Op::add);
  constexpr Op kFunctions[] = {Op::relu, Op::gelu,  Op::gelu_tanh, Op::silu,       Op::sigmoid, Op::tanh,
                               Op::glu,  Op::reglu, Op::geglu,     Op::geglu_tanh, Op::swiglu};
  if (below(2) == 0) p.epilogue.push_back(kFunctions[below(std::size(kFunctions))]);
  if (below(4) == 0) p.epilogue.push_back(Op::multiply);
  if (below(4) == 0) p.epilogue.push_back(Op::clamp);
  if (below(4) == 0) p.epilogue.push_back(Op::amax);
  return p;
}

/// The problem with random data, leading dimensions longer than rows, and red zones around everything.
class GuardedCall {
 public:
  GuardedCall(const GemmProblem& problem, std::uint64_t seed) : p(problem), seed_(seed) {
    const float deviation = 1 / std::sqrt(static_cast<float>(std::max<std::int64_t>(1, p.k)));
    const auto operand = [&](TensorView view, bool column) {
      return GemmOperand{view.data, column ? view.strides.column : view.strides.row, view.strides.batch};
    };
    const bool column_a = p.order_a == MatrixOrder::column, column_b = p.order_b == MatrixOrder::column;
    tensors.a = matrix(p.type_a, column_a, p.m, p.k, 1);
    tensors.b = matrix(p.type_b, column_b, p.k, p.n, deviation);
    tensors.c = matrix(p.type_c, false, p.m, p.n, 1);
    arguments.a = operand(tensors.a, column_a);
    arguments.b = operand(tensors.b, column_b);
    arguments.c = operand(tensors.c, false);
    arguments.alpha = p.type_d == DataType::int32 ? 1.0f : 0.75f;
    arguments.beta = p.beta ? -2.0f : 0.0f;
    arguments.amax = &amax;
    tensors.batch = p.batch;
    tensors.m = p.m;
    tensors.n = p.n;
    tensors.k = p.k;
    tensors.alpha = arguments.alpha;
    tensors.beta = arguments.beta;
    std::int64_t columns = p.n;
    for (std::size_t i = 0; i < p.epilogue.size(); ++i) {
      const Op op = p.epilogue[i];
      if (is_gate(op)) columns /= 2;
      GemmStep step{.op = op, .low = -0.5F, .high = 0.75F};
      if (reads_tensor(op)) {
        step.operand = matrix(p.type_c, false, p.m, columns, 1);
      } else if (reads_vector(op)) {
        const bool bias = op == Op::bias || op == Op::bias_m, along_n = op == Op::bias || op == Op::scale_n;
        const float size = !bias && p.type_a == DataType::int8 ? 0.02f : 1.0f;
        step.operand = make(bias ? p.type_bias : DataType::fp32, {1, 1, 1, along_n ? columns : p.m}, {}, size);
        step.operand.strides = {.row = along_n ? 0 : 1, .column = along_n ? 1 : 0};
      }
      arguments.epilogue[i] = {.data = step.operand.data,
                               .leading = step.operand.strides.row,
                               .batch = step.operand.strides.batch,
                               .low = step.low,
                               .high = step.high};
      tensors.epilogue.push_back(step);
    }
  }

  /// Empty when the plan's result is right and nothing else was touched.
  std::string judge(const GemmPlan& plan, const GemmExpectation& expectation) {
    const std::int64_t leading = p.columns_of_d() + 3;
    const TensorStrides strides{.batch = p.m * leading + 7, .row = leading, .column = 1};
    GuardedBuffer d(memory_type_of(p.type_d), {p.batch, 1, p.m, p.columns_of_d()}, strides);
    arguments.d = d.data();
    arguments.d_leading = strides.row;
    arguments.d_batch = strides.batch;
    amax = 0;
    if (const Status status = plan.run(arguments); !status) return status.error().text();
    if (const auto damage = d.damage()) return *damage;
    for (const GuardedBuffer& input : inputs_)
      if (const auto damage = input.damage()) return "an input: " + *damage;
    const bool asked = !p.epilogue.empty() && p.epilogue[p.epilogue.size() - 1] == Op::amax;
    const Verdict verdict =
        expectation.judge(read_output(tensors, d.view()), asked ? std::optional(amax) : std::nullopt);
    return verdict.outcome == Outcome::fail ? verdict.reason : "";
  }

  GemmProblem p;
  GemmTensors tensors;
  GemmArguments arguments;
  float amax = 0;

 private:
  TensorView matrix(DataType type, bool column, std::int64_t rows, std::int64_t columns, float deviation) {
    const std::int64_t lines = column ? columns : rows, length = column ? rows : columns;
    const std::int64_t leading = length + 5;
    const TensorView stored =
        make(type, {p.batch, 1, lines, length}, {.batch = lines * leading + 3, .row = leading, .column = 1}, deviation);
    TensorView view = stored;
    if (column) std::swap(view.strides.row, view.strides.column);
    return view;
  }
  TensorView make(DataType type, const TensorExtents& extents, const TensorStrides& strides, float deviation) {
    const ElementType element = memory_type_of(type);
    std::vector<float> values(static_cast<std::size_t>(extents.batch * extents.row * extents.column));
    const RandomStream stream{seed_, 100 + inputs_.size()};
    if (is_floating(element))
      fill_normal(values, stream, deviation, 1);
    else
      fill_integers(values, stream, -128, 127, 1);
    inputs_.emplace_back(element, extents, strides);
    inputs_.back().fill(values);
    return inputs_.back().view();
  }

  std::uint64_t seed_;
  std::vector<GuardedBuffer> inputs_;
};

TEST(GemmProperty, EveryKindOfKernelComputesRandomProblems) {
  const auto& machine = this_cpu_machine();
  ASSERT_TRUE(machine) << machine.error().text();
  constexpr std::uint64_t kProblems = 40;
  std::size_t kernels = 0;
  for (std::uint64_t seed = 0; seed < kProblems; ++seed) {
    const GemmProblem problem = random_problem(seed);
    const auto signature = cpu_signature_of(problem);
    ASSERT_TRUE(signature) << signature.error().text();
    GuardedCall call(problem, seed);
    const auto expectation = GemmExpectation::make(call.tensors, memory_type_of(problem.type_d), 1);
    ASSERT_TRUE(expectation) << expectation.error().text();
    // One tile of each level, instruction, pipeline and way with k, another one for each problem.
    std::map<std::string, std::vector<std::string>> kinds;
    for (const CpuSpec& spec : machine->levels)
      enumerate_cpu_gemm(spec, *signature, [&](const KernelConfig& config) {
        if (serves(config, problem))
          kinds[std::string(spec.arch.text()) + std::string(name_of(config.algorithm.instruction)) +
                std::string(name_of(config.algorithm.pipeline)) + (config.algorithm.splits_k ? "split" : "")]
              .push_back(native_name(config));
        return true;
      });
    ASSERT_FALSE(kinds.empty()) << native_name({machine->levels[0].arch, *signature, {}});
    std::size_t turn = 0;
    for (const auto& [kind, names] : kinds) {
      if (turn++ % 3 != seed % 3) continue;  // compiling takes most of the time
      const std::string& name = names[seed % names.size()];
      Dispatcher dispatcher({.threads = 1 + static_cast<int>(seed % 3), .kernel = name});
      const auto plan = dispatcher.plan(problem);
      ASSERT_TRUE(plan) << plan.error().text();
      EXPECT_EQ(call.judge(**plan, *expectation), "") << "seed " << seed << ": " << name << " m " << problem.m << " n "
                                                      << problem.n << " k " << problem.k << " batch " << problem.batch;
      ++kernels;
    }
  }
  EXPECT_GT(kernels, kProblems / 2);
}

}  // namespace
}  // namespace tilesmith
