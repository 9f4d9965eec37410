// From GEMM problems to results on the CPU. Small whole numbers make every sum exact, so results are compared bit for
// bit; rounding and functions are the business of gemm_property_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>
#include <vector>

#include "base/element_type.hpp"
#include "base/random.hpp"
#include "choose/gemm/cpu.hpp"
#include "codegen/essential.hpp"
#include "dispatch/allocation_count.hpp"
#include "dispatch/test_store.hpp"
#include "instances/gemm/cpu.hpp"
#include "problem/gemm/problem.hpp"
#include "runtime/aligned_buffer.hpp"
#include "runtime/cpu/machine.hpp"
#include "thorough.hpp"
#include "tilesmith/dispatcher.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

ElementType element_type(DataType type) {
  switch (type) {
    case DataType::fp16:
      return ElementType::fp16;
    case DataType::bf16:
      return ElementType::bf16;
    case DataType::int8:
      return ElementType::int8;
    case DataType::int32:
      return ElementType::int32;
    default:
      return ElementType::fp32;
  }
}

/// Small whole numbers in memory of any type.
struct Numbers {
  Numbers(DataType data_type, std::int64_t count, std::uint64_t stream) : type(element_type(data_type)) {
    std::vector<float> values(static_cast<std::size_t>(count));
    fill_integers(values, {7, stream}, -3, 3);
    bytes.resize(values.size() * size_of(type));
    store_elements(type, values, bytes.data());
  }
  [[nodiscard]] double at(std::int64_t index) const {
    return load_element(type, bytes.data(), static_cast<std::size_t>(index));
  }
  ElementType type;
  std::vector<std::byte> bytes;
};

/// Data for a dense problem with any of bias, bias_m, scales, add, multiply, relu, clamp, reglu and amax.
class Call {
 public:
  explicit Call(const GemmProblem& problem)
      : p(problem),
        a(p.type_a, p.batch * p.m * p.k, 1),
        b(p.type_b, p.batch * p.k * p.n, 2),
        a2(p.type_a, p.batch * p.m * p.k2, 8),
        b2(p.type_b, p.batch * p.k2 * p.n, 9),
        c(p.type_c, p.batch * p.m * p.n, 3),
        d(p.type_d, p.batch * p.m * p.columns_of_d(), 4),
        bias(p.type_bias, std::max(p.m, p.n), 5),
        scale(DataType::fp32, std::max(p.m, p.n), 6),
        tensor(p.type_c, p.batch * p.m * p.n, 7) {
    arguments = dense_arguments(p);
    arguments.a.data = a.bytes.data();
    arguments.b.data = b.bytes.data();
    arguments.a2.data = a2.bytes.data();
    arguments.b2.data = b2.bytes.data();
    arguments.c.data = c.bytes.data();
    arguments.d = d.bytes.data();
    arguments.alpha = 1;
    arguments.beta = p.beta ? 2.0f : 0.0f;
    arguments.amax = &amax;
    for (std::size_t i = 0; i < p.epilogue.size(); ++i) {
      EpilogueOperand& operand = arguments.epilogue[i];
      const EpilogueOp op = p.epilogue[i];
      operand.data = reads_tensor(op)                                         ? tensor.bytes.data()
                     : op == EpilogueOp::scale_m || op == EpilogueOp::scale_n ? scale.bytes.data()
                                                                              : bias.bytes.data();
      operand.low = -5;
      operand.high = 9;
    }
  }

  /// Empty when every element is right.
  [[nodiscard]] std::string judge() const {
    double largest = 0;
    for (std::int64_t z = 0; z < p.batch; ++z)
      for (std::int64_t i = 0; i < p.m; ++i)
        for (std::int64_t j = 0; j < p.columns_of_d(); ++j) {
          const double exact = value(z, i, j);
          largest = std::max(largest, std::abs(exact));
          const double want = round_to(d.type, exact);
          const double got = d.at((z * p.m + i) * p.columns_of_d() + j);
          if (got != want)
            return "d[" + std::to_string(z) + "][" + std::to_string(i) + "][" + std::to_string(j) + "] is " +
                   std::to_string(got) + ", not " + std::to_string(want);
        }
    const bool asked = !p.epilogue.empty() && p.epilogue[p.epilogue.size() - 1] == EpilogueOp::amax;
    if (asked && static_cast<double>(amax) != largest) return "amax is " + std::to_string(amax);
    return "";
  }

  GemmProblem p;
  Numbers a, b, a2, b2, c, d, bias, scale, tensor;
  float amax = 0;
  GemmArguments arguments;

 private:
  [[nodiscard]] double product(const Numbers& left, const Numbers& right, std::int64_t k, std::int64_t z,
                               std::int64_t i, std::int64_t j) const {
    double sum = 0;
    for (std::int64_t q = 0; q < k; ++q) {
      const std::int64_t at_a = p.order_a == MatrixOrder::row ? i * k + q : q * p.m + i;
      const std::int64_t at_b = p.order_b == MatrixOrder::row ? q * p.n + j : j * k + q;
      sum += left.at(z * p.m * k + at_a) * right.at(z * k * p.n + at_b);
    }
    return sum;
  }
  [[nodiscard]] double linear(std::int64_t z, std::int64_t i, std::int64_t j) const {
    const double sum = product(a, b, p.k, z, i, j) + product(a2, b2, p.k2, z, i, j);
    return arguments.alpha * sum + arguments.beta * c.at((z * p.m + i) * p.n + j);
  }
  [[nodiscard]] double step(EpilogueOp op, double v, std::int64_t z, std::int64_t i, std::int64_t j,
                            std::int64_t columns) const {
    const std::int64_t at = (z * p.m + i) * columns + j;
    switch (op) {
      case EpilogueOp::bias:
        return v + bias.at(j);
      case EpilogueOp::bias_m:
        return v + bias.at(i);
      case EpilogueOp::scale_n:
        return v * scale.at(j);
      case EpilogueOp::scale_m:
        return v * scale.at(i);
      case EpilogueOp::add:
        return v + tensor.at(at);
      case EpilogueOp::multiply:
        return v * tensor.at(at);
      case EpilogueOp::relu:
        return std::max(v, 0.0);
      case EpilogueOp::clamp:
        return std::clamp(v, -5.0, 9.0);
      default:
        return v;
    }
  }
  [[nodiscard]] double value(std::int64_t z, std::int64_t i, std::int64_t j) const {
    const bool gated = p.epilogue.gated();
    double v = linear(z, i, gated ? 2 * j : j), second = gated ? linear(z, i, 2 * j + 1) : 0;
    bool pair = gated;
    for (const EpilogueOp op : p.epilogue) {
      if (is_gate(op)) {
        v = std::max(v, 0.0) * second;  // reglu
        pair = false;
      } else {
        const std::int64_t columns = pair || !gated ? p.n : p.n / 2;
        v = step(op, v, z, i, pair ? 2 * j : j, columns);
        if (pair) second = step(op, second, z, i, 2 * j + 1, columns);
      }
    }
    return v;
  }
};

GemmProblem small(DataType type, std::int64_t m = 33, std::int64_t n = 70, std::int64_t k = 41) {
  return gemm_problem(type, m, n, k);
}

GemmSignature signature_of(const GemmPlan& plan) {
  return std::get<GemmSignature>(parse_native_name(plan.kernel_name()).value().signature);
}

TEST(GemmDispatch, APlanSaysWhatItRunsAndWhy) {
  Dispatcher dispatcher({.threads = 2});
  const auto plan = dispatcher.plan(small(DataType::bf16));
  ASSERT_TRUE(plan) << plan.error().text();
  EXPECT_EQ((*plan)->problem(), small(DataType::bf16));
  EXPECT_EQ(signature_of(**plan), *cpu_signature_of(small(DataType::bf16)));
  EXPECT_FALSE((*plan)->reason().empty());
  EXPECT_FALSE((*plan)->steps().empty());
  Call call(small(DataType::bf16));
  ASSERT_TRUE((*plan)->run(call.arguments));
  EXPECT_EQ(call.judge(), "");
}

TEST(GemmDispatch, LinkedInKernelsComputeEveryLayoutAndTypeWithoutACompiler) {
  if (essential_kernels().empty()) GTEST_SKIP() << "built without the essential set";
  const testing::EmptyStore empty;
  Dispatcher dispatcher({.threads = 2, .build = BuildPolicy::never});
  for (const DataType type : {DataType::fp32, DataType::bf16, DataType::fp16, DataType::int8})
    for (const MatrixOrder order_a : {MatrixOrder::row, MatrixOrder::column})
      for (const MatrixOrder order_b : {MatrixOrder::row, MatrixOrder::column})
        for (const bool linear : {false, true}) {
          GemmProblem p = small(type);
          p.order_a = order_a;
          p.order_b = order_b;
          p.batch = 2;
          p.beta = true;
          if (linear) {
            if (type == DataType::int8 || order_a == MatrixOrder::column || order_b == MatrixOrder::row) continue;
            p.epilogue = {EpilogueOp::bias, EpilogueOp::relu};
          }
          const auto plan = dispatcher.plan(p);
          ASSERT_TRUE(plan) << plan.error().text();
          Call call(p);
          ASSERT_TRUE((*plan)->run(call.arguments));
          EXPECT_EQ(call.judge(), "") << (*plan)->kernel_name();
        }
}

TEST(GemmDispatch, AwkwardSizesAndEpilogues) {
  Dispatcher dispatcher({.threads = 3});
  using Op = EpilogueOp;
  const GemmEpilogue epilogues[] = {{},
                                    {Op::add, Op::relu},
                                    {Op::bias_m, Op::relu, Op::multiply, Op::multiply, Op::clamp},
                                    {Op::scale_m, Op::scale_n, Op::bias, Op::relu, Op::add, Op::add, Op::relu},
                                    {Op::bias, Op::reglu, Op::amax},
                                    {Op::clamp, Op::amax}};
  const std::array<std::int64_t, 3> sizes[] = {{1, 2, 1}, {3, 34, 130}, {65, 18, 0}, {17, 98, 600}};
  for (const GemmEpilogue& epilogue : epilogues)
    for (const auto& [m, n, k] : sizes) {
      GemmProblem p = gemm_problem(DataType::fp32, m, n, k);
      p.order_b = MatrixOrder::row;
      p.batch = 2;
      p.epilogue = epilogue;
      const auto plan = dispatcher.plan(p);
      ASSERT_TRUE(plan) << plan.error().text();
      Call call(p);
      const Status status = (*plan)->run(call.arguments);
      ASSERT_TRUE(status) << status.error().text();
      EXPECT_EQ(call.judge(), "") << (*plan)->kernel_name() << " " << m << "x" << n << "x" << k;
    }
}

TEST(GemmDispatch, TwoProductsInOneSum) {
  Dispatcher dispatcher({.threads = 3});
  const std::array<std::int64_t, 4> sizes[] = {{1, 2, 1, 1},    {3, 34, 130, 7},   {65, 18, 0, 31},
                                               {7, 50, 0, 600}, {17, 98, 600, 13}, {130, 49, 37, 1031}};
  std::size_t turn = 0;
  for (const DataType type : {DataType::fp32, DataType::bf16, DataType::fp16, DataType::int8})
    for (const auto& [m, n, k, k2] : sizes) {
      GemmProblem p = gemm_problem(type, m, n, k);
      p.k2 = k2;
      p.order_a = turn % 2 == 0 ? MatrixOrder::row : MatrixOrder::column;
      p.order_b = turn / 2 % 2 == 0 ? MatrixOrder::row : MatrixOrder::column;
      p.batch = 1 + turn++ % 3;
      p.beta = turn % 3 == 0;
      if (!testing::thorough() && turn % 2 == (type == DataType::bf16 || type == DataType::int8)) continue;
      if (type == DataType::fp32) p.epilogue = {EpilogueOp::bias, EpilogueOp::relu, EpilogueOp::amax};
      const auto plan = dispatcher.plan(p);
      ASSERT_TRUE(plan) << plan.error().text();
      EXPECT_TRUE(signature_of(**plan).mm_plus_mm);
      Call call(p);
      const Status status = (*plan)->run(call.arguments);
      ASSERT_TRUE(status) << status.error().text();
      EXPECT_EQ(call.judge(), "") << (*plan)->kernel_name() << " " << m << "x" << n << "x" << k << "+" << k2;
    }
}

TEST(GemmDispatch, ASecondProductIsReadWhereAlphaIsNotZero) {
  Dispatcher dispatcher({.threads = 2});
  for (const std::int64_t m : {5, 70}) {
    GemmProblem p = small(DataType::fp32, m);
    p.k2 = 40;
    p.beta = true;
    const GemmPlan* plan = dispatcher.plan(p).value();
    Call call(p);
    store_elements(ElementType::fp32, std::vector<float>(static_cast<std::size_t>(p.k2), NAN), call.a2.bytes.data());
    ASSERT_TRUE(plan->run(call.arguments));
    EXPECT_TRUE(std::isnan(call.d.at(0)));  // in its row alone
    EXPECT_FALSE(std::isnan(call.d.at(p.n)));
    call.arguments.alpha = 0;
    call.arguments.a2.data = call.arguments.b2.data = nullptr;
    ASSERT_TRUE(plan->run(call.arguments));
    for (std::int64_t i = 0; i < p.m * p.n; ++i) ASSERT_EQ(call.d.at(i), 2 * call.c.at(i));
  }
}

TEST(GemmDispatch, EitherBMayBeSharedByTheBatch) {
  Dispatcher dispatcher({.threads = 2});
  for (const std::int64_t m : {5, 200}) {
    GemmProblem p = small(DataType::fp32, m, 70, 300);
    p.k2 = 90;
    p.batch = 3;
    const GemmPlan* plan = dispatcher.plan(p).value();
    Call call(p);
    for (std::int64_t z = 1; z < p.batch; ++z)
      std::copy_n(call.b2.bytes.data(), 70 * 90 * 4, call.b2.bytes.data() + z * 70 * 90 * 4);
    call.arguments.b2.batch = 0;
    ASSERT_TRUE(plan->run(call.arguments));
    EXPECT_EQ(call.judge(), "");
    for (std::int64_t z = 1; z < p.batch; ++z)
      std::copy_n(call.b.bytes.data(), 70 * 300 * 4, call.b.bytes.data() + z * 70 * 300 * 4);
    call.arguments.b.batch = 0;
    ASSERT_TRUE(plan->run(call.arguments));
    EXPECT_EQ(call.judge(), "");
  }
}

TEST(GemmDispatch, ASharedBNeedsNoMoreWorkspaceThanThePlanSays) {
  Dispatcher dispatcher({.threads = 2});
  GemmProblem p = small(DataType::fp32, 5, 70, 300);
  p.batch = 3;
  const GemmPlan* plan = dispatcher.plan(p).value();
  Call call(p), shared(p);
  shared.arguments.b.batch = 0;
  for (std::int64_t z = 1; z < p.batch; ++z)
    std::copy_n(call.b.bytes.data(), 70 * 300 * 4, call.b.bytes.data() + z * 70 * 300 * 4);
  constexpr std::size_t kZone = 256;
  AlignedBuffer workspace;
  workspace.reserve(plan->workspace_bytes() + kZone);
  std::fill_n(workspace.data() + plan->workspace_bytes(), kZone, std::byte{0x5a});
  ASSERT_TRUE(plan->run(call.arguments));
  ASSERT_TRUE(plan->run(shared.arguments, {.workspace = workspace.data()}));
  EXPECT_EQ(call.judge(), "");
  EXPECT_EQ(shared.d.bytes, call.d.bytes);
  EXPECT_TRUE(std::all_of(workspace.data() + plan->workspace_bytes(),
                          workspace.data() + plan->workspace_bytes() + kZone,
                          [](std::byte byte) { return byte == std::byte{0x5a}; }));
}

TEST(GemmDispatch, EmptyProblems) {
  Dispatcher dispatcher({.threads = 2});
  for (const auto& [m, n, batch] : {std::array{0, 4, 1}, std::array{4, 0, 1}, std::array{4, 4, 0}}) {
    GemmProblem p = gemm_problem(DataType::fp32, m, n, 3);
    p.batch = batch;
    const auto plan = dispatcher.plan(p);
    ASSERT_TRUE(plan) << plan.error().text();
    EXPECT_TRUE((*plan)->run(GemmArguments{}));
  }
}

TEST(GemmDispatch, AKnownPlanIsFoundAndRunWithoutAllocation) {
  Dispatcher dispatcher({.threads = 2});
  Call call(small(DataType::bf16));
  const GemmPlan* first = dispatcher.plan(call.p).value();
  ASSERT_TRUE(first->run(call.arguments));  // starts the pool's threads and takes a workspace
  const std::size_t before = testing::allocations();
  const auto again = dispatcher.plan(call.p);
  const bool same = again.has_value() && *again == first;
  const bool ran = first->run(call.arguments).has_value();
  EXPECT_EQ(testing::allocations(), before);
  EXPECT_TRUE(same);
  EXPECT_TRUE(ran);
}

TEST(GemmDispatch, ManyThreadsRunOnePlan) {
  Dispatcher dispatcher({.threads = 2});
  const GemmPlan* plan = dispatcher.plan(small(DataType::bf16)).value();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        Call call(small(DataType::bf16));
        if (!plan->run(call.arguments) || !call.judge().empty()) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(GemmDispatch, WhatNoKernelCarriesIsRefusedByName) {
  Dispatcher dispatcher({.threads = 1});
  GemmProblem p = small(DataType::bf16);
  p.epilogue = {EpilogueOp::multiply, EpilogueOp::relu, EpilogueOp::bias};
  p.packed_b = true;  // generic kernels carry the list, and read no packed B
  auto plan = dispatcher.plan(p);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::unsupported);
  EXPECT_NE(plan.error().message.find("bias at place 2"), std::string::npos) << plan.error().message;

  p = small(DataType::tf32);
  p.packed_b = true;
  plan = dispatcher.plan(p);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::unsupported);
  EXPECT_NE(plan.error().message.find("tf32"), std::string::npos) << plan.error().message;

  p = small(DataType::bf16);
  p.m = -1;
  plan = dispatcher.plan(p);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::invalid_argument);

  Dispatcher named({.kernel = "attention_fwd_bf16_batch_d128_dv128_flash_fma_tile64x256_on_x86_64_v3"});
  plan = named.plan(small(DataType::bf16));
  ASSERT_FALSE(plan);
  EXPECT_NE(plan.error().message.find("does not compute this problem"), std::string::npos) << plan.error().message;
}

}  // namespace
}  // namespace tilesmith
