// Tuning through the C and the C++ interface: the program races, later dispatchers obey.
#include "tilesmith/tune.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "base/file.hpp"
#include "dispatch/test_store.hpp"
#include "tilesmith.h"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {
namespace {

constexpr const char* kLine = "gemm -m 37 -n 24 -k 40 --dtype fp32 --layout rrr";

class Tuning : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = TemporaryDirectory::create("tilesmith-test-");
    ASSERT_TRUE(made) << made.error().text();
    folder_ = std::make_unique<TemporaryDirectory>(std::move(*made));
    request_ = {.problems = {kLine},
                .threads = 1,
                .budget_seconds = 0.05,
                .candidates = 2,
                .database = path("a.db"),
                .file = path("choices.json")};
  }

  [[nodiscard]] std::string path(const char* name) const { return (folder_->path() / name).string(); }
  [[nodiscard]] Error failure() const {
    const Result<TuneReport> report = tune(request_);
    EXPECT_FALSE(report);
    return report ? Error{} : report.error();
  }

  testing::ScopedVariable program_{"TILESMITH_PROGRAM", TILESMITH_PROGRAM};
  std::unique_ptr<TemporaryDirectory> folder_;
  TuneRequest request_;
};

std::string last_message() {
  tilesmith_error error = TILESMITH_ERROR_INIT;
  EXPECT_EQ(tilesmith_last_error(&error), TILESMITH_SUCCESS);
  return error.message;
}

TEST_F(Tuning, LaterDispatchersObey) {
  request_.problems = {kLine,
                       "attention_fwd --batch 1 --heads-q 2 --heads-kv 2 --seqlen-q 5 --seqlen-k 5 "
                       "--head-dim-qk 32 --dtype fp32",
                       kLine};
  const Result<TuneReport> report = tune(request_);
  ASSERT_TRUE(report) << report.error().text();
  ASSERT_EQ(report->problems.size(), 2U);
  EXPECT_EQ(report->known, 0);
  EXPECT_TRUE(report->skipped.empty());
  EXPECT_EQ(report->database, request_.database);
  const TunedProblem& first = report->problems.front();
  EXPECT_GT(first.chosen_seconds, 0);
  EXPECT_GE(first.gain, 1);

  Dispatcher dispatcher({.threads = 1, .tuning = request_.file});
  GemmProblem problem = gemm_problem(DataType::fp32, 37, 24, 40);
  problem.order_b = MatrixOrder::row;
  const auto plan = dispatcher.plan(problem);
  ASSERT_TRUE(plan) << plan.error().text();
  EXPECT_EQ((*plan)->info().source, "measurement");
  EXPECT_EQ((*plan)->info().recipe, first.chosen);
  EXPECT_EQ((*plan)->info().measured_seconds, first.chosen_seconds);

  const Result<TuneReport> again = tune(request_);
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_TRUE(again->problems.empty());
  EXPECT_EQ(again->known, 2);
}

TEST_F(Tuning, ARangeOfSizes) {
  request_.problems = {"gemm -m 20:24 -n 24 -k 40 --dtype fp32 --layout rrr"};
  request_.candidates = 1;
  const Result<TuneReport> report = tune(request_);
  ASSERT_TRUE(report) << report.error().text();
  EXPECT_GE(report->problems.size(), 2U);
}

TEST_F(Tuning, WhatCannotBe) {
  const auto refused = [&](auto change) {
    const TuneRequest kept = request_;
    change(request_);
    const Error error = failure();
    request_ = kept;
    EXPECT_NE(error.hint, "") << error.message;
    return error;
  };
  for (const char* line : {"", "gemm", "gemm -m 3\n"})
    EXPECT_EQ(refused([&](auto& r) { r.problems = {line}; }).code, ErrorCode::invalid_argument) << line;
  EXPECT_EQ(refused([](auto& r) { r.problems.clear(); }).code, ErrorCode::invalid_argument);
  EXPECT_EQ(refused([](auto& r) { r.budget_seconds = 0; }).code, ErrorCode::invalid_argument);
  EXPECT_EQ(refused([](auto& r) { r.candidates = -1; }).code, ErrorCode::invalid_argument);
  EXPECT_EQ(refused([](auto& r) { r.threads = 5000; }).code, ErrorCode::invalid_argument);
  const Error misspelt = refused([](auto& r) { r.problems = {"gemm -q 3"}; });
  EXPECT_EQ(misspelt.code, ErrorCode::invalid_argument);
  EXPECT_NE(misspelt.message.find("gemm has no option -q"), std::string::npos) << misspelt.message;
  EXPECT_NE(refused([&](auto& r) { r.database = path("nowhere/a.db"); }).message.find("nowhere"), std::string::npos);
  {
    const testing::EmptyStore store;
    const testing::ScopedVariable build("TILESMITH_BUILD", "never");
    const Error without = refused([](auto& r) { r.problems = {"gemm -m 3 -n 333 -k 34 --dtype int8"}; });
    EXPECT_EQ(without.code, ErrorCode::unsupported) << without.message;
  }
  const testing::ScopedVariable nothing("TILESMITH_PROGRAM", path("nothing"));
  EXPECT_NE(failure().message.find("nothing"), std::string::npos);
}

TEST_F(Tuning, FromC) {
  tilesmith_gemm call = TILESMITH_GEMM_INIT;
  call.type_a = call.type_b = call.type_d = TILESMITH_FP32;
  call.m = 37;
  call.n = 24;
  call.k = 40;
  ASSERT_EQ(tilesmith_gemm_dense(&call), TILESMITH_SUCCESS) << last_message();
  const tilesmith_gemm_plan* plan = nullptr;
  ASSERT_EQ(tilesmith_gemm_plan_for(nullptr, &call, &plan), TILESMITH_SUCCESS) << last_message();
  tilesmith_plan_info info = TILESMITH_PLAN_INFO_INIT;
  ASSERT_EQ(tilesmith_gemm_plan_info(plan, &info), TILESMITH_SUCCESS);
  EXPECT_STRNE(info.source, "measurement");
  const std::string line = info.problem;

  const char* lines[] = {line.c_str()};
  tilesmith_tune_request request = TILESMITH_TUNE_REQUEST_INIT;
  request.problems = lines;
  request.problem_count = 1;
  request.device = {TILESMITH_CPU, 0};
  request.threads = 1;
  request.budget_seconds = 0.05;
  request.candidates = 2;
  request.database = request_.database.c_str();
  request.file = request_.file.c_str();
  tilesmith_tune_report report = TILESMITH_TUNE_REPORT_INIT;
  ASSERT_EQ(tilesmith_tune(&request, &report), TILESMITH_SUCCESS) << last_message();
  ASSERT_EQ(report.problem_count, 1);
  EXPECT_EQ(report.skipped_count, 0);
  EXPECT_STREQ(report.database, request.database);
  const std::string chosen = report.problems[0].chosen;
  EXPECT_GE(report.problems[0].gain, 1);

  tilesmith_context_options options = TILESMITH_CONTEXT_OPTIONS_INIT;
  options.threads = 1;
  options.tuning = request.file;
  tilesmith_context* context = nullptr;
  ASSERT_EQ(tilesmith_context_create(&options, &context), TILESMITH_SUCCESS) << last_message();
  ASSERT_EQ(tilesmith_gemm_plan_for(context, &call, &plan), TILESMITH_SUCCESS) << last_message();
  ASSERT_EQ(tilesmith_gemm_plan_info(plan, &info), TILESMITH_SUCCESS);
  EXPECT_STREQ(info.source, "measurement") << info.problem;
  EXPECT_EQ(info.kernel, chosen);
  tilesmith_context_destroy(context);

  request.reserved = 1;
  EXPECT_EQ(tilesmith_tune(&request, &report), TILESMITH_INVALID_ARGUMENT);
  request.reserved = 0;
  lines[0] = nullptr;
  EXPECT_EQ(tilesmith_tune(&request, &report), TILESMITH_INVALID_ARGUMENT);
  request.problems = nullptr;
  EXPECT_EQ(tilesmith_tune(&request, &report), TILESMITH_INVALID_ARGUMENT);
  EXPECT_EQ(tilesmith_tune(nullptr, &report), TILESMITH_INVALID_ARGUMENT);
  request.problems = lines;
  lines[0] = line.c_str();
  EXPECT_EQ(tilesmith_tune(&request, nullptr), TILESMITH_INVALID_ARGUMENT);
}

TEST_F(Tuning, AWaitCanBeCancelled) {
  request_.problems = {"gemm -m 64:128 -n 512 -k 512 --dtype fp32"};
  request_.candidates = 0;
  request_.budget_seconds = 1000;
  std::atomic<bool> ended = false;
  Error error;
  std::thread tuning([&] {
    if (const auto report = tune(request_); !report) error = report.error();
    ended = true;
  });
  while (!ended) {
    tilesmith_cancel_waits(0);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  tuning.join();
  EXPECT_EQ(error.code, ErrorCode::cancelled) << error.message;
}

}  // namespace
}  // namespace tilesmith
