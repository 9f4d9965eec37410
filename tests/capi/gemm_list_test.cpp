#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "capi/failure.hpp"
#include "dispatch/allocation_count.hpp"
#include "dispatch/test_store.hpp"
#include "tilesmith.h"

namespace tilesmith::capi {
namespace {

/// Products of small whole numbers, whose sums are exact, fp32 and B along k.
struct List {
  explicit List(std::vector<std::array<std::int64_t, 3>> sizes) : a(sizes.size()), b(a), d(a) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const auto [m, n, k] = sizes[i];
      tilesmith_gemm call = TILESMITH_GEMM_INIT;
      call.type_a = call.type_b = call.type_c = call.type_d = call.type_bias = TILESMITH_FP32;
      call.m = m;
      call.n = n;
      call.k = k;
      EXPECT_EQ(tilesmith_gemm_dense(&call), TILESMITH_SUCCESS);
      const auto fill = [&](std::vector<float>& out, std::int64_t size) {
        for (std::int64_t at = 0; at < size; ++at) out.push_back(static_cast<float>((at * 7 + m) % 5 - 2));
      };
      fill(a[i], m * k);
      fill(b[i], n * k);
      d[i].assign(static_cast<std::size_t>(m * n), -1000);
      call.a.data = a[i].data();
      call.b.data = b[i].data();
      call.d = d[i].data();
      calls.push_back(call);
    }
  }

  [[nodiscard]] std::vector<const tilesmith_gemm*> pointers() const {
    std::vector<const tilesmith_gemm*> out;
    for (const tilesmith_gemm& call : calls) out.push_back(&call);
    return out;
  }
  [[nodiscard]] std::string compute(tilesmith_context* context = nullptr) const {
    const auto all = pointers();
    return message_of(tilesmith_gemm_compute_list(context, all.data(), static_cast<std::int64_t>(all.size())));
  }
  void expect_right() const {
    for (std::size_t x = 0; x < calls.size(); ++x)
      for (std::int64_t i = 0; i < calls[x].m; ++i)
        for (std::int64_t j = 0; j < calls[x].n; ++j) {
          const auto k = static_cast<std::size_t>(calls[x].k);
          float sum = 0;
          for (std::size_t q = 0; q < k; ++q)
            sum += a[x][static_cast<std::size_t>(i) * k + q] * b[x][static_cast<std::size_t>(j) * k + q];
          ASSERT_EQ(d[x][static_cast<std::size_t>(i * calls[x].n + j)], sum) << x << ": " << i << ", " << j;
        }
  }

  std::vector<std::vector<float>> a, b, d;
  std::vector<tilesmith_gemm> calls;
};

TEST(GemmListCall, ComputesEveryProduct) {
  const List list({{5, 9, 7}, {1, 40, 33}, {0, 3, 3}, {64, 2, 100}, {3, 3, 0}});
  ASSERT_EQ(list.compute(), "");
  list.expect_right();
  tilesmith_plan_info plan = TILESMITH_PLAN_INFO_INIT;
  ASSERT_EQ(tilesmith_last_plan(&plan), TILESMITH_SUCCESS);
  EXPECT_STREQ(plan.operation, "gemm");
  EXPECT_NE(std::string(plan.reason).find("5 products"), std::string::npos) << plan.reason;
  EXPECT_EQ(tilesmith_gemm_compute_list(nullptr, nullptr, 0), TILESMITH_SUCCESS);
}

TEST(GemmListCall, AgainAllocatesNothing) {
  const List list({{5, 9, 7}, {1, 40, 33}});
  ASSERT_EQ(list.compute(), "");
  const auto all = list.pointers();
  const std::size_t before = testing::allocations();
  EXPECT_EQ(tilesmith_gemm_compute_list(nullptr, all.data(), 2), TILESMITH_SUCCESS);
  EXPECT_EQ(testing::allocations(), before);
}

TEST(GemmListCall, AContextsPlanIsNotTheNextOnes) {
  const List list({{5, 9, 7}, {1, 40, 33}});
  for (int i = 0; i < 3; ++i) {
    tilesmith_context* context = nullptr;
    ASSERT_EQ(tilesmith_context_create(nullptr, &context), TILESMITH_SUCCESS);
    EXPECT_EQ(list.compute(context), "");
    list.expect_right();
    tilesmith_context_destroy(context);
    tilesmith_plan_info plan = TILESMITH_PLAN_INFO_INIT;
    EXPECT_EQ(tilesmith_last_plan(&plan), TILESMITH_NOT_FOUND);
  }
}

TEST(GemmListCall, ErrorsNameTheProduct) {
  const auto failure = [](auto change) {
    List list({{5, 9, 7}, {1, 40, 33}});
    change(list.calls[1]);
    return list.compute();
  };
  EXPECT_NE(failure([](tilesmith_gemm& call) { call.type_a = 99; }).find("product 1 of 2: type_a is 99"),
            std::string::npos);
  EXPECT_NE(failure([](tilesmith_gemm& call) { call.m = -1; }).find("product 1 of 2: m is -1"), std::string::npos);
  EXPECT_NE(failure([](tilesmith_gemm& call) { call.d = nullptr; }).find("product 1 of 2: d is null"),
            std::string::npos);
  EXPECT_NE(failure([](tilesmith_gemm& call) { call.struct_size = 3; }).find("product 1 of 2"), std::string::npos);
  EXPECT_NE(failure([](tilesmith_gemm& call) { call.stream = &call; }).find("stream"), std::string::npos);
  EXPECT_NE(failure([](tilesmith_gemm& call) { call.workspace = &call; }).find("workspace"), std::string::npos);
  const int ends[] = {1};
  EXPECT_NE(failure([&](tilesmith_gemm& call) {
              call.grouping = TILESMITH_GROUPS_MASKED;
              call.group_ends = ends;
            }).find("groups"),
            std::string::npos);
  EXPECT_NE(message_of(tilesmith_gemm_compute_list(nullptr, nullptr, -1)).find("count is -1"), std::string::npos);
  EXPECT_NE(message_of(tilesmith_gemm_compute_list(nullptr, nullptr, 1)).find("calls is null"), std::string::npos);
}

}  // namespace
}  // namespace tilesmith::capi
