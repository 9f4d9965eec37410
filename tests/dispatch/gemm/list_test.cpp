// Lists of products on the CPU, against float64.
#include <gtest/gtest.h>

#include <memory>
#include <regex>
#include <set>

#include "dispatch/allocation_count.hpp"
#include "dispatch/gemm/cuda_list.hpp"
#include "dispatch/gemm/list.hpp"
#include "dispatch/gemm/random_gemm.hpp"
#include "dispatch/test_store.hpp"
#include "runtime/aligned_buffer.hpp"
#include "vocabulary/memory_type.hpp"
#include "vocabulary/recipe.hpp"

namespace tilesmith {
namespace {

/// Products of their own sizes on random data.
struct List {
  explicit List(std::vector<GemmProblem> all) : problems(std::move(all)) {
    for (const GemmProblem& p : problems) {
      calls.push_back(std::make_unique<testing::RandomGemm>(p, calls.size()));
      arguments.push_back(calls.back()->host_arguments());
      references.push_back(GemmReference::make(calls.back()->tensors(), memory_type_of(p.type_d), 1));
    }
  }

  void expect_right() const {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      ASSERT_TRUE(references[i]) << references[i].error().text();
      const GemmProblem& p = problems[i];
      EXPECT_EQ(calls[i]->judge(*references[i]), "") << i << ": " << p.m << " x " << p.n << " x " << p.k;
    }
  }

  std::vector<GemmProblem> problems;
  std::vector<std::unique_ptr<testing::RandomGemm>> calls;
  std::vector<GemmArguments> arguments;
  std::vector<Result<GemmReference>> references;
};

GemmProblem product(std::int64_t m, std::int64_t n, std::int64_t k) {
  return gemm_problem(DataType::fp32, m, n, k);
}

void run(List& list, int threads) {
  Dispatcher dispatcher({.threads = threads});
  const auto plan = dispatcher.plan(list.problems);
  ASSERT_TRUE(plan) << plan.error().text();
  const Status status = (*plan)->run(list.arguments);
  ASSERT_TRUE(status) << status.error().text();
  list.expect_right();
}

TEST(GemmList, OfRandomProducts) {
  for (const int threads : {1, 3}) {
    std::vector<GemmProblem> problems;
    for (std::uint64_t seed = 0; seed < 12; ++seed) problems.push_back(testing::random_gemm_problem(seed));
    List list(problems);
    run(list, threads);
  }
}

TEST(GemmList, OfSizesFromNothingToManyTiles) {
  for (const int threads : {1, 3}) {
    // m, n, batch of 0 compute nothing, k of 0 makes zeros.
    std::vector<GemmProblem> problems = {product(0, 5, 7),     product(5, 0, 7),       product(5, 7, 0),
                                         product(1, 1, 1),     product(700, 130, 260), product(3, 1000, 600),
                                         product(130, 70, 33), product(1, 4096, 64)};
    problems.push_back(product(9, 17, 70));
    problems.back().batch = 3;
    problems.push_back(product(9, 17, 70));
    problems.back().batch = 0;
    problems.push_back(product(40, 48, 5000));
    List list(problems);
    run(list, threads);
  }
}

TEST(GemmList, OfNothingAndOfOne) {
  Dispatcher dispatcher({.threads = 2});
  const auto none = dispatcher.plan(std::span<const GemmProblem>());
  ASSERT_TRUE(none) << none.error().text();
  EXPECT_TRUE((*none)->run(std::span<const GemmArguments>()));
  List one({product(33, 50, 70)});
  run(one, 2);
}

TEST(GemmList, OfAThousandTinyProducts) {
  std::vector<GemmProblem> problems;
  for (std::int64_t i = 0; i < 1000; ++i) problems.push_back(product(1 + i % 24, 1 + i % 17, 1 + i % 31));
  List list(problems);
  run(list, 2);
}

TEST(GemmList, RunsWithoutAllocatingAndInTheCallersWorkspace) {
  Dispatcher dispatcher({.threads = 2});
  List list({product(300, 130, 260), product(3, 1000, 600), product(40, 48, 5000), product(700, 700, 40)});
  const auto plan = dispatcher.plan(list.problems);
  ASSERT_TRUE(plan) << plan.error().text();
  ASSERT_GT((*plan)->workspace_bytes(), 0U);
  AlignedBuffer workspace((*plan)->workspace_bytes());
  const RunOptions options{.workspace = workspace.data()};
  ASSERT_TRUE((*plan)->run(list.arguments, options));
  list.expect_right();
  const std::size_t before = testing::allocations();
  ASSERT_TRUE((*plan)->run(list.arguments, options));
  EXPECT_EQ(testing::allocations(), before);
}

TEST(GemmList, SaysWhichProductIsWrong) {
  Dispatcher dispatcher({.threads = 1});
  std::vector<GemmProblem> problems{product(3, 4, 5), product(3, -4, 5)};
  auto plan = dispatcher.plan(problems);
  ASSERT_FALSE(plan);
  EXPECT_NE(plan.error().message.find("product 1 of 2: n is -4"), std::string::npos) << plan.error().text();
  problems[1] = product(3, 4, 5);
  problems[1].grouping = GemmGrouping::masked;
  plan = dispatcher.plan(problems);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::unsupported);

  List list({product(3, 4, 5), product(2, 2, 2)});
  const auto good = dispatcher.plan(list.problems);
  ASSERT_TRUE(good) << good.error().text();
  list.arguments[1].a.data = nullptr;
  Status status = (*good)->run(list.arguments);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("product 1 of 2: a"), std::string::npos) << status.error().text();
  status = (*good)->run(std::span(list.arguments).first(1));
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("arguments for 1 products"), std::string::npos) << status.error().text();
}

TEST(GemmList, RefusesAResultOnAnotherProductsMemory) {
  Dispatcher dispatcher({.threads = 1});
  List list({product(3, 4, 5), product(2, 2, 2), product(3, 4, 5)});
  list.problems[1].epilogue.push_back(EpilogueOp::bias);
  std::vector<float> bias(2);
  list.arguments[1].epilogue[0].data = bias.data();
  const auto plan = dispatcher.plan(list.problems);
  ASSERT_TRUE(plan) << plan.error().text();
  const std::vector<GemmArguments> apart = list.arguments;
  EXPECT_TRUE((*plan)->run(apart));
  const auto error_of = [&](const std::vector<GemmArguments>& arguments) {
    const Status status = (*plan)->run(arguments);
    return status ? std::string("none") : status.error().message;
  };
  std::vector<GemmArguments> same = apart;
  same[2].d = same[0].d;
  EXPECT_TRUE(std::regex_match(error_of(same), std::regex("product [02] of 3: d overlaps d of product [02]")))
      << error_of(same);
  same = apart;
  same[0].d = const_cast<void*>(apart[2].b.data);
  EXPECT_EQ(error_of(same), "product 0 of 3: d overlaps b of product 2");
  same = apart;
  same[2].a.data = static_cast<const float*>(apart[0].d) + 11;  // the last element
  EXPECT_EQ(error_of(same), "product 0 of 3: d overlaps a of product 2");
  same = apart;
  same[1].epilogue[0].data = static_cast<const float*>(apart[2].d) + 4;
  EXPECT_EQ(error_of(same), "product 2 of 3: d overlaps epilogue[0], bias of product 1");
  same = apart;
  same[2].a = same[0].a;
  same[2].b = same[0].b;
  EXPECT_EQ(error_of(same), "none") << "what is read alone may be shared";
}

TEST(GemmList, WritesColumnsOfOneMatrixSideBySide) {
  List list({product(5, 4, 7), product(5, 3, 7), product(4, 4, 2)});
  std::vector<float> all(5 * 9, -1);
  list.arguments[0].d = all.data();
  list.arguments[1].d = all.data() + 4;
  list.arguments[2].d = all.data() + 9 + 4;
  for (GemmArguments& each : list.arguments) each.d_leading = 9;
  Dispatcher dispatcher({.threads = 2});
  const auto plan = dispatcher.plan(std::span(list.problems).first(2));
  ASSERT_TRUE(plan) << plan.error().text();
  const Status status = (*plan)->run(std::span(list.arguments).first(2));
  ASSERT_TRUE(status) << status.error().text();
  for (std::size_t row = 0; row < 5; ++row)
    for (std::size_t column = 0; column < 9; ++column)
      EXPECT_EQ(all[9 * row + column] == -1, column > 6) << row << " " << column;
  const auto third = dispatcher.plan(list.problems);
  ASSERT_TRUE(third) << third.error().text();
  EXPECT_FALSE((*third)->run(list.arguments)) << "the third lies on the second's columns";
}

TEST(GemmList, SharesLaunchesByForm) {
  const auto half = [](std::int64_t m, std::int64_t n, std::int64_t k) {
    return gemm_problem(DataType::bf16, m, n, k);
  };
  std::vector<GemmProblem> problems{half(5, 64, 64),      half(300, 512, 64), half(1, 7, 9),   half(3, 9, 9),
                                    half(4096, 4096, 64), half(0, 5, 5),      half(9, 64, 64), half(9, 64, 64),
                                    half(8, 64, 0),       half(6, 64, 64)};
  problems[6].epilogue = {EpilogueOp::relu};
  problems[7].batch = 2;
  const std::vector<CudaSpec> specs = load_cuda_specs().value();
  const auto spec_of = [&](std::string_view arch) -> const CudaSpec& {
    return *std::ranges::find(specs, arch, [](const CudaSpec& spec) { return spec.arch.text(); });
  };
  const CudaListParts parts = cuda_list_parts(problems, spec_of("sm_90a"));
  ASSERT_EQ(parts.shared.size(), 2U);
  EXPECT_EQ(parts.shared[0].products, (std::vector<std::size_t>{0, 1, 8, 9}));
  EXPECT_EQ(parts.shared[1].products, (std::vector<std::size_t>{2, 3}));  // odd columns
  EXPECT_EQ(parts.shared[0].typical.m, 512);                              // what matters is the second product
  EXPECT_EQ(parts.shared[0].typical.n % 2, 0);
  EXPECT_EQ(parts.shared[1].typical.n % 2, 1);
  EXPECT_EQ(parts.alone, (std::vector<std::size_t>{4, 7, 6}));  // too large, a batch, the only one of its form

  // Of more work than the fast kernels of single products want to share; where there are none, they share.
  const std::vector<GemmProblem> deep{half(300, 512, 8192), half(300, 512, 8192)};
  EXPECT_TRUE(cuda_list_parts(deep, spec_of("sm_90a")).shared.empty());
  EXPECT_EQ(cuda_list_parts(deep, spec_of("sm_80")).shared.size(), 1U);
  CudaSpec other = spec_of("sm_90a");
  other.gemm.list_gflop = 2.5;  // they are of 2.52
  EXPECT_TRUE(cuda_list_parts(deep, other).shared.empty());
  other.gemm.list_gflop = 2.6;
  EXPECT_EQ(cuda_list_parts(deep, other).shared.size(), 1U);
}

TEST(GemmList, ThePlanSaysItsStepsAndTheirTime) {
  Dispatcher dispatcher({.threads = 1});
  const GemmProblem large = product(200, 300, 400), small = product(3, 300, 400), none = product(0, 300, 400);
  const auto plan = dispatcher.plan(std::vector{large, small, large, none});
  ASSERT_TRUE(plan) << plan.error().text();
  const GemmPlan *of_large = dispatcher.plan(large).value(), *of_small = dispatcher.plan(small).value();
  ASSERT_NE(of_large->kernel_name(), of_small->kernel_name()) << "else this test proves nothing";
  EXPECT_DOUBLE_EQ((*plan)->predicted_seconds(), 2 * of_large->predicted_seconds() + of_small->predicted_seconds());
  ASSERT_GE((*plan)->steps().size(), 2u);
  EXPECT_EQ((*plan)->steps()[0].kernel, of_large->kernel_name());
  EXPECT_EQ((*plan)->steps()[0].role, "compute");
  EXPECT_EQ((*plan)->steps()[0].what.find("computes the result"), 0u) << (*plan)->steps()[0].what;
  EXPECT_TRUE((*plan)->kernel_name().starts_with(std::string(of_large->kernel_name()) + "+"));
  EXPECT_EQ(parse_recipe_name((*plan)->kernel_name())->steps.size(), (*plan)->steps().size());

  Dispatcher by_name({.threads = 1, .kernel = std::string(of_large->kernel_name())});
  const auto named = by_name.plan(std::vector{large, large});
  ASSERT_TRUE(named) << named.error().text();
  EXPECT_EQ((*named)->predicted_seconds(), 0) << "a kernel asked for by name is not predicted";
  EXPECT_EQ((*named)->steps().size(), 1u);
}

TEST(GemmListInfo, EqualStepsOfMembersAreOne) {
  struct Member final : Plan {
    Member(std::vector<PlanStep> steps, double seconds) : Plan(info_of(std::move(steps), seconds)) {}
    static PlanInfo info_of(std::vector<PlanStep> steps, double seconds) {
      PlanInfo info;
      info.predicted_seconds = seconds;
      info.steps = std::move(steps);
      return info;
    }
  };
  const PlanStep packs{"gemm_x", "pack_b", "packs B"}, computes{"gemm_x", "compute", "computes the result"};
  GemmListInfo list;
  list.add(Member({packs, computes}, 0.25));
  list.add(Member({computes}, 0.5));
  const PlanInfo info = list.info({}, 2, "in 3 launches");
  EXPECT_EQ(info.recipe, "pack_b:gemm_x+gemm_x");
  EXPECT_EQ(info.reason, "2 products in 3 launches");
  EXPECT_EQ(info.predicted_seconds, 0.75);
  ASSERT_EQ(info.steps.size(), 2u);
  EXPECT_EQ(info.steps[0].what, "packs B, for 1 products");
  EXPECT_EQ(info.steps[1].what, "computes the result, for 2 products");
  list.add(Member({computes}, 0), false);
  EXPECT_EQ(list.info({}, 3, "").predicted_seconds, 0.75) << "nothing is to be computed";
  list.add(Member({computes}, 0));
  EXPECT_EQ(list.info({}, 4, "").predicted_seconds, 0) << "unknown of one, so of all";
}

}  // namespace
}  // namespace tilesmith
