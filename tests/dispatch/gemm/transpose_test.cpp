// Column-major results are those of the transposed GEMM.
#include "problem/gemm/transpose.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "dispatch/gemm/random_gemm.hpp"
#include "dispatch/test_store.hpp"
#include "vocabulary/memory_type.hpp"

namespace tilesmith {
namespace {

GemmProblem column_problem(DataType type, std::int64_t m, std::int64_t n, std::int64_t k) {
  GemmProblem p = gemm_problem(type, m, n, k);
  p.order_d = MatrixOrder::column;
  return p;
}

TEST(GemmTranspose, TwiceIsTheProblemAndTheCall) {
  GemmProblem p = column_problem(DataType::fp8, 3, 8, 5);
  p.type_b = DataType::bf8;
  p.order_b = MatrixOrder::row;
  p.k2 = 9;
  p.epilogue = {EpilogueOp::scale_m, EpilogueOp::scale_n, EpilogueOp::bias, EpilogueOp::relu, EpilogueOp::bias_m};
  const GemmProblem turned = transposed(p);
  EXPECT_EQ(turned.m, 8);
  EXPECT_EQ(turned.type_a, DataType::bf8);
  EXPECT_EQ(turned.order_a, MatrixOrder::column);
  EXPECT_EQ(turned.order_b, MatrixOrder::column);
  EXPECT_EQ(turned.order_d, MatrixOrder::row);
  EXPECT_EQ(turned.epilogue, (GemmEpilogue{EpilogueOp::scale_n, EpilogueOp::scale_m, EpilogueOp::bias_m,
                                           EpilogueOp::relu, EpilogueOp::bias}));
  EXPECT_EQ(transposed(turned), p);
  EXPECT_EQ(with_row_d(p), turned);
  EXPECT_EQ(with_row_d(turned), turned);
  // Dense matrices lie alike.
  const GemmArguments of_p = transposed(dense_arguments(p)), of_turned = dense_arguments(turned);
  EXPECT_EQ(of_p.a.leading, of_turned.a.leading);
  EXPECT_EQ(of_p.b2.leading, of_turned.b2.leading);
  EXPECT_EQ(of_p.c.leading, of_turned.c.leading);
  EXPECT_EQ(of_p.d_leading, of_turned.d_leading);
}

TEST(GemmTranspose, APromiseAboutBIsNoneAboutA) {
  GemmProblem p = column_problem(DataType::bf16, 64, 8, 64);
  p.prefetch_weights = true;
  EXPECT_FALSE(transposed(p).prefetch_weights);
}

TEST(GemmTranspose, PlansAreThoseOfTheTransposedProblem) {
  Dispatcher dispatcher({.threads = 2});
  const GemmProblem p = column_problem(DataType::fp32, 20, 50, 30);
  const auto plan = dispatcher.plan(p), turned = dispatcher.plan(transposed(p));
  ASSERT_TRUE(plan && turned);
  EXPECT_EQ((*plan)->kernel_name(), (*turned)->kernel_name());
  EXPECT_EQ((*plan)->problem(), p);
  EXPECT_NE((*plan)->reason().find("of the transposed GEMM"), std::string_view::npos);
  EXPECT_EQ(*dispatcher.plan(p), *plan);
  // Its errors have the caller's names.
  GemmArguments arguments = dense_arguments(p);
  float number = 0;
  arguments.a.data = arguments.d = &number;
  const Status status = (*plan)->run(arguments);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "b is null");
}

TEST(GemmTranspose, ListsMayMixOrders) {
  Dispatcher dispatcher({.threads = 2});
  std::vector<GemmProblem> problems;
  for (std::int64_t i = 0; i < 6; ++i) {
    GemmProblem p = gemm_problem(DataType::fp32, 5 + 13 * i, 40 - i, 17 + i);
    if (i % 2 == 0) p.order_d = MatrixOrder::column;
    p.epilogue = {EpilogueOp::bias, EpilogueOp::add};
    problems.push_back(p);
  }
  const auto plan = dispatcher.plan(problems);
  ASSERT_TRUE(plan) << plan.error().text();
  EXPECT_EQ((*plan)->problems()[0], problems[0]);
  std::vector<std::unique_ptr<testing::RandomGemm>> calls;
  std::vector<GemmArguments> arguments;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    calls.push_back(std::make_unique<testing::RandomGemm>(problems[i], i));
    arguments.push_back(calls.back()->host_arguments());
  }
  const Status status = (*plan)->run(arguments);
  ASSERT_TRUE(status) << status.error().text();
  for (const auto& call : calls) {
    const auto reference = GemmReference::make(call->tensors(), ElementType::fp32, 1);
    ASSERT_TRUE(reference);
    EXPECT_EQ(call->judge(*reference), "");
  }
  arguments[4].a.data = nullptr;
  EXPECT_EQ((*plan)->run(arguments).error().message, "product 4 of 6: a is null");
}

}  // namespace
}  // namespace tilesmith
