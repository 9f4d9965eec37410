// Options of single calls, and what dispatch has to choose from under them.
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "capi/failure.hpp"
#include "dispatch/allocation_count.hpp"
#include "dispatch/test_store.hpp"
#include "tilesmith.h"

namespace tilesmith::capi {
namespace {

/// D = A B of ones, so every element is k.
class GemmCallOptions : public ::testing::Test {
 protected:
  static constexpr std::int64_t kM = 70, kN = 48, kK = 40;

  void SetUp() override {
    call_.type_a = call_.type_b = call_.type_c = call_.type_d = call_.type_bias = TILESMITH_FP32;
    call_.m = kM;
    call_.n = kN;
    call_.k = kK;
    ASSERT_EQ(tilesmith_gemm_dense(&call_), TILESMITH_SUCCESS);
    call_.a.data = a_.data();
    call_.b.data = b_.data();
    call_.d = d_.data();
    ASSERT_EQ(tilesmith_context_get_options(nullptr, &options_), TILESMITH_SUCCESS);
  }

  std::string compute() {
    d_.assign(d_.size(), -1.0f);
    const std::string failure = message_of(tilesmith_gemm_compute(nullptr, &call_));
    if (failure.empty())
      for (const float each : d_)
        if (each != static_cast<float>(kK)) return "a wrong result";
    return failure;
  }

  static std::string kernel_of_last_plan() {
    tilesmith_plan_info info = TILESMITH_PLAN_INFO_INIT;
    EXPECT_EQ(tilesmith_last_plan(&info), TILESMITH_SUCCESS);
    return info.kernel;
  }

  std::vector<float> a_ = std::vector<float>(kM * kK, 1.0f), b_ = std::vector<float>(kK * kN, 1.0f),
                     d_ = std::vector<float>(kM * kN);
  tilesmith_gemm call_ = TILESMITH_GEMM_INIT;
  tilesmith_context_options options_ = TILESMITH_CONTEXT_OPTIONS_INIT;
};

TEST_F(GemmCallOptions, OfTheProcessAreTheDefaults) {
  EXPECT_EQ(options_.threads, 0);
  EXPECT_EQ(options_.build, TILESMITH_BUILD_ALLOWED);
  EXPECT_STREQ(options_.kernel, "");
}

TEST_F(GemmCallOptions, EachCandidateCanBeAskedFor) {
  tilesmith_candidates list = TILESMITH_CANDIDATES_INIT;
  ASSERT_EQ(tilesmith_gemm_candidates(nullptr, &call_, &list), TILESMITH_SUCCESS);
  ASSERT_GT(list.candidate_count, 1);
  EXPECT_GT(list.refusal_count, 0);
  EXPECT_STRNE(list.policy, "");
  EXPECT_STRNE(list.refusals[0].rule, "");
  const std::string best = list.candidates[0].kernel;
  const std::string last = list.candidates[list.candidate_count - 1].kernel;
  for (std::int64_t i = 1; i < list.candidate_count; ++i)
    EXPECT_GE(list.candidates[i].predicted_seconds, list.candidates[i - 1].predicted_seconds);
  ASSERT_EQ(compute(), "");
  EXPECT_EQ(kernel_of_last_plan(), best);
  options_.kernel = last.c_str();
  call_.options = &options_;
  ASSERT_EQ(compute(), "");
  EXPECT_EQ(kernel_of_last_plan(), last);
  call_.options = nullptr;
  ASSERT_EQ(compute(), "");
  EXPECT_EQ(kernel_of_last_plan(), best);
}

TEST_F(GemmCallOptions, ARepeatedCallAllocatesNothing) {
  for (const std::int32_t threads : {1, 2, 3, 64}) {  // 64: more than the process's pool
    options_.threads = threads;
    call_.options = &options_;
    ASSERT_EQ(compute(), "") << threads;
    ASSERT_EQ(compute(), "") << threads;
    const std::size_t before = testing::allocations();
    const tilesmith_status status = tilesmith_gemm_compute(nullptr, &call_);
    EXPECT_EQ(testing::allocations(), before) << threads;
    EXPECT_EQ(status, TILESMITH_SUCCESS);
  }
}

TEST_F(GemmCallOptions, WithoutBuildingOnlyWhatIsThere) {
  options_.build = TILESMITH_BUILD_NEVER;
  call_.options = &options_;
  EXPECT_EQ(compute(), "");  // linked in, or in the store
}

TEST_F(GemmCallOptions, ThatCannotBe) {
  call_.options = &options_;
  const auto failure_with = [&](auto change) {
    const tilesmith_context_options before = options_;
    change(options_);
    const std::string failure = compute();
    options_ = before;
    return failure;
  };
  EXPECT_EQ(failure_with([](auto& o) { o.threads = -1; }), "threads is -1");
  EXPECT_EQ(failure_with([](auto& o) { o.threads = 1 << 30; }), "threads is 1073741824");
  EXPECT_EQ(failure_with([](auto& o) { o.build = 7; }), "build is 7");
  EXPECT_EQ(failure_with([](auto& o) { o.determinism = 7; }), "determinism is 7");
  EXPECT_NE(failure_with([](auto& o) { o.struct_size = 7; }), "");
  EXPECT_NE(failure_with([](auto& o) { o.kernel = "no_such_kernel"; }).find("no_such_kernel"), std::string::npos);
  EXPECT_EQ(compute(), "");
}

TEST_F(GemmCallOptions, ATuningFileThatCannotBeReadFailsTheCallAlone) {
  options_.tuning = "/nowhere/tuning.json";
  call_.options = &options_;
  EXPECT_NE(compute().find("/nowhere/tuning.json"), std::string::npos);
  options_.tuning = nullptr;
  EXPECT_EQ(compute(), "");
}

TEST_F(GemmCallOptions, OfAListAreOneForAll) {
  options_.threads = 1;
  tilesmith_gemm second = call_;
  std::vector<float> d(d_.size());
  second.d = d.data();
  const tilesmith_gemm* calls[] = {&call_, &second};
  call_.options = &options_;
  EXPECT_NE(message_of(tilesmith_gemm_compute_list(nullptr, calls, 2)), "");
  second.options = &options_;
  EXPECT_EQ(message_of(tilesmith_gemm_compute_list(nullptr, calls, 2)), "");
  EXPECT_EQ(d.front(), static_cast<float>(kK));
}

TEST_F(GemmCallOptions, ACallOfBeforeThemHasNone) {
  call_.struct_size = offsetof(tilesmith_gemm, options);
  call_.options = reinterpret_cast<const tilesmith_context_options*>(8);  // behind the structure's end
  EXPECT_EQ(compute(), "");
}

TEST(AttentionCallOptions, Candidates) {
  tilesmith_attention call = TILESMITH_ATTENTION_INIT;
  call.data_type = TILESMITH_FP32;
  call.seqlen_q = call.seqlen_k = 512;
  call.head_dim_qk = call.head_dim_v = 64;
  tilesmith_candidates list = TILESMITH_CANDIDATES_INIT;
  ASSERT_EQ(tilesmith_attention_candidates(nullptr, &call, &list), TILESMITH_SUCCESS);
  EXPECT_GT(list.candidate_count, 0);
  const double on_all = list.candidates[0].predicted_seconds;
  tilesmith_context_options options = TILESMITH_CONTEXT_OPTIONS_INIT;
  options.threads = 1;
  call.options = &options;
  ASSERT_EQ(tilesmith_attention_candidates(nullptr, &call, &list), TILESMITH_SUCCESS);
  EXPECT_GE(list.candidates[0].predicted_seconds, on_all);
  call.data_type = TILESMITH_BF8;
  EXPECT_EQ(tilesmith_attention_candidates(nullptr, &call, &list), TILESMITH_UNSUPPORTED);
}

TEST(StoreStats, CountWhatPlanningLookedFor) {
  tilesmith_store_stats stats = TILESMITH_STORE_STATS_INIT;
  stats.build_seconds = -1;
  ASSERT_EQ(tilesmith_get_store_stats(&stats), TILESMITH_SUCCESS);
  EXPECT_GE(stats.build_seconds, 0);
  EXPECT_LE(stats.builds, stats.misses);
  stats.struct_size = 8;
  EXPECT_EQ(tilesmith_get_store_stats(&stats), TILESMITH_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace tilesmith::capi
