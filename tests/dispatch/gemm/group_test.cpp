// Grouped GEMM problems on the CPU. Small whole numbers make every sum exact, so results are compared bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/random.hpp"
#include "problem/gemm/group.hpp"
#include "problem/gemm/problem.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {
namespace {

constexpr float kUntouched = 12345;

std::vector<float> whole_numbers(std::int64_t count, std::uint64_t stream) {
  std::vector<float> values(static_cast<std::size_t>(count));
  fill_integers(values, {11, stream}, -3, 3);
  return values;
}

struct GroupedCall {
  GroupedCall(GemmGrouping grouping, std::vector<std::int32_t> group_rows, std::int64_t m, std::int64_t n,
              std::int64_t k)
      : rows(std::move(group_rows)), ends(rows) {
    p = gemm_problem(DataType::fp32, m, n, k);
    p.batch = static_cast<std::int64_t>(rows.size());
    p.grouping = grouping;
    p.epilogue = {EpilogueOp::scale_m, EpilogueOp::bias, EpilogueOp::relu, EpilogueOp::add};
    if (contiguous()) std::partial_sum(rows.begin(), rows.end(), ends.begin());
    const std::int64_t members = contiguous() ? 1 : p.batch;
    a = whole_numbers(members * m * k, 1);
    b = whole_numbers(p.batch * n * k, 2);
    scale = whole_numbers(members * m, 3);
    bias = whole_numbers(p.batch * n, 4);
    tensor = whole_numbers(members * m * n, 5);
    d.assign(static_cast<std::size_t>(members * m * n), kUntouched);
    arguments = dense_arguments(p);
    arguments.a.data = a.data();
    arguments.b.data = b.data();
    arguments.d = d.data();
    arguments.group_ends = ends.data();
    arguments.epilogue[0].data = scale.data();
    arguments.epilogue[1].data = bias.data();
    arguments.epilogue[3].data = tensor.data();
  }

  [[nodiscard]] bool contiguous() const { return p.grouping == GemmGrouping::contiguous; }

  /// What D should be, the rows of no group included.
  [[nodiscard]] std::vector<float> expected() const {
    std::vector<float> want(d.size(), kUntouched);
    std::int64_t before = 0;
    for (std::int64_t g = 0; g < p.batch; ++g) {
      const std::int64_t first = contiguous() ? before : g * p.m;
      for (std::int64_t i = first; i < first + rows[static_cast<std::size_t>(g)]; ++i)
        for (std::int64_t j = 0; j < p.n; ++j) {
          const auto at = [&](const std::vector<float>& x, std::int64_t index) {
            return x[static_cast<std::size_t>(index)];
          };
          float sum = 0;
          for (std::int64_t q = 0; q < p.k; ++q) sum += at(a, i * p.k + q) * at(b, (g * p.n + j) * p.k + q);
          want[static_cast<std::size_t>(i * p.n + j)] =
              std::max(0.0f, sum * at(scale, i) + at(bias, g * p.n + j)) + at(tensor, i * p.n + j);
        }
      before += rows[static_cast<std::size_t>(g)];
    }
    return want;
  }

  GemmProblem p;
  std::vector<std::int32_t> rows, ends;
  std::vector<float> a, b, scale, bias, tensor, d;
  GemmArguments arguments;
};

TEST(GemmGroups, OfAnySizesAreComputedAndNothingElseIsTouched) {
  for (const int threads : {1, 3}) {
    Dispatcher dispatcher({.threads = threads});
    for (const GemmGrouping grouping : {GemmGrouping::contiguous, GemmGrouping::masked})
      for (const auto& rows : {std::vector{5, 0, 1, 33, 7}, std::vector{0, 0}, std::vector{16}, std::vector{300, 2}}) {
        const std::int64_t most = grouping == GemmGrouping::masked ? *std::ranges::max_element(rows)
                                                                   : std::accumulate(rows.begin(), rows.end(), 0);
        for (const std::int64_t spare : {0, 9}) {
          GroupedCall call(grouping, rows, most + spare, 70, 41);
          const auto plan = dispatcher.plan(call.p);
          ASSERT_TRUE(plan) << plan.error().text();
          const Status status = (*plan)->run(call.arguments);
          ASSERT_TRUE(status) << status.error().text();
          EXPECT_EQ(call.d, call.expected()) << (*plan)->kernel_name();
        }
      }
  }
}

TEST(GemmGroups, EndsMustRiseUpToM) {
  Dispatcher dispatcher({.threads = 1});
  GroupedCall contiguous(GemmGrouping::contiguous, {3, 4}, 8, 6, 5);
  const GemmPlan* plan = dispatcher.plan(contiguous.p).value();
  contiguous.ends = {5, 4};
  Status status = plan->run(contiguous.arguments);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("group 1 of 2 ends at row 4"), std::string::npos) << status.error().text();
  EXPECT_NE(status.error().hint.find("5 to 8"), std::string::npos) << status.error().text();
  contiguous.ends = {5, 9};
  EXPECT_FALSE(plan->run(contiguous.arguments));
  contiguous.arguments.group_ends = nullptr;
  status = plan->run(contiguous.arguments);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("group_ends"), std::string::npos) << status.error().text();

  GroupedCall masked(GemmGrouping::masked, {3, 4}, 4, 6, 5);
  plan = dispatcher.plan(masked.p).value();
  masked.ends = {4, 0};
  EXPECT_TRUE(plan->run(masked.arguments));
  masked.ends = {-1, 0};
  EXPECT_FALSE(plan->run(masked.arguments));
}

}  // namespace
}  // namespace tilesmith
