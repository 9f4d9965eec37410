#include "capi/context.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "dispatch/test_store.hpp"

namespace tilesmith::capi {
namespace {

std::string last_message() {
  tilesmith_error error = TILESMITH_ERROR_INIT;
  EXPECT_EQ(tilesmith_last_error(&error), TILESMITH_SUCCESS);
  return error.message;
}

TEST(Context, OptionsThatCannotBe) {
  const auto create = [](auto change) {
    tilesmith_context_options options = TILESMITH_CONTEXT_OPTIONS_INIT;
    change(options);
    tilesmith_context* context = nullptr;
    const tilesmith_status status = tilesmith_context_create(&options, &context);
    tilesmith_context_destroy(context);
    return status;
  };
  EXPECT_EQ(create([](auto&) {}), TILESMITH_SUCCESS);
  EXPECT_EQ(create([](auto& o) { o.threads = -1; }), TILESMITH_INVALID_ARGUMENT);
  EXPECT_EQ(create([](auto& o) { o.build = 2; }), TILESMITH_INVALID_ARGUMENT);
  EXPECT_EQ(create([](auto& o) { o.determinism = TILESMITH_DETERMINISM_TOLERANT; }), TILESMITH_SUCCESS);
  EXPECT_EQ(create([](auto& o) { o.determinism = 2; }), TILESMITH_INVALID_ARGUMENT);
  EXPECT_EQ(create([](auto& o) { o.reserved = 1; }), TILESMITH_INVALID_ARGUMENT);
  EXPECT_EQ(create([](auto& o) { o.device = {9, 0}; }), TILESMITH_INVALID_ARGUMENT);
  EXPECT_EQ(create([](auto& o) { o.device = {TILESMITH_CPU, 1}; }), TILESMITH_INVALID_ARGUMENT);
  EXPECT_EQ(create([](auto& o) { o.device = {TILESMITH_CUDA, -1}; }), TILESMITH_INVALID_ARGUMENT);
  EXPECT_EQ(create([](auto& o) { o.device = {TILESMITH_CUDA, kMaxDevices}; }), TILESMITH_INVALID_ARGUMENT);
  EXPECT_EQ(tilesmith_context_create(nullptr, nullptr), TILESMITH_INVALID_ARGUMENT);
}

TEST(Context, TakesOptionsOfBeforeDeterminism) {
  tilesmith_context_options options = TILESMITH_CONTEXT_OPTIONS_INIT;
  options.struct_size = offsetof(tilesmith_context_options, determinism);
  options.determinism = 77;  // behind the structure's end: not the library's
  tilesmith_context* context = nullptr;
  EXPECT_EQ(tilesmith_context_create(&options, &context), TILESMITH_SUCCESS);
  tilesmith_context_destroy(context);
}

TEST(Context, OneDispatcherPerDevice) {
  tilesmith_context context({.threads = 1});
  Dispatcher& cpu = context.dispatcher({});
  EXPECT_EQ(&cpu, &context.dispatcher({}));
  Dispatcher& gpu = context.dispatcher({DeviceKind::cuda, 3});
  EXPECT_NE(&cpu, &gpu);
  EXPECT_EQ(gpu.device(), (Device{DeviceKind::cuda, 3}));
  EXPECT_EQ(&gpu, &context.dispatcher({DeviceKind::cuda, 3}));
}

TEST(Context, DevicesOfNoKnownKindAreNotTakenForOthers) {
  const Device none{static_cast<DeviceKind>(17), 0};
  EXPECT_EQ(device_in_c(none).kind, -1);
  tilesmith_context context({.threads = 1});
  EXPECT_FALSE(context.dispatcher(none).plan(GemmProblem{.m = 1, .n = 1, .k = 1}));
  EXPECT_NE(&context.dispatcher(none), &context.dispatcher({DeviceKind::cuda, 0}));
}

TEST(Context, ErrorsBelongToTheirThread) {
  EXPECT_EQ(tilesmith_device_count(nullptr), TILESMITH_INVALID_ARGUMENT);
  const std::string mine = last_message();
  EXPECT_FALSE(mine.empty());
  std::thread([&] {
    EXPECT_EQ(last_message(), "");
    EXPECT_EQ(tilesmith_backend(-1, nullptr), TILESMITH_INVALID_ARGUMENT);
    EXPECT_NE(last_message(), mine);
  }).join();
  EXPECT_EQ(last_message(), mine);
}

TEST(Context, AKernelByNameThatIsNone) {
  tilesmith_context_options options = TILESMITH_CONTEXT_OPTIONS_INIT;
  options.kernel = "no_such_kernel";
  tilesmith_context* context = nullptr;
  ASSERT_EQ(tilesmith_context_create(&options, &context), TILESMITH_SUCCESS);
  tilesmith_attention call = TILESMITH_ATTENTION_INIT;
  const tilesmith_attention_plan* plan = nullptr;
  EXPECT_EQ(tilesmith_attention_plan_for(context, &call, &plan), TILESMITH_INVALID_ARGUMENT);
  EXPECT_NE(last_message().find("no_such_kernel"), std::string::npos) << last_message();
  EXPECT_EQ(plan, nullptr);
  tilesmith_context_destroy(context);
}

tilesmith_status multiply(std::int64_t n) {
  std::vector<float> a(static_cast<std::size_t>(n * n), 1.0F), d(a.size());
  tilesmith_gemm call = TILESMITH_GEMM_INIT;
  call.type_a = call.type_b = call.type_c = call.type_d = call.type_bias = TILESMITH_FP32;
  call.m = call.n = call.k = n;
  if (tilesmith_gemm_dense(&call) != TILESMITH_SUCCESS) return TILESMITH_INTERNAL;
  call.a.data = a.data();
  call.b.data = a.data();
  call.d = d.data();
  const tilesmith_status status = tilesmith_gemm_compute(nullptr, &call);
  return status == TILESMITH_SUCCESS && d[0] != static_cast<float>(n) ? TILESMITH_WRONG_RESULT : status;
}

// Servers fork workers, and programs fork helpers, while other threads compute and plan.
TEST(Context, ChildrenForkedDuringCallsAreServed) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer ends a child that starts threads";
#elif defined(__SANITIZE_ADDRESS__) && __GNUC__ < 14
  // Its allocator's locks may be held at the fork, and stay so in the child (llvm-project, pull request 75290).
  GTEST_SKIP() << "the address sanitizer of this compiler takes no care of forks";
#endif
  ASSERT_EQ(multiply(96), TILESMITH_SUCCESS) << last_message();
  std::atomic<bool> stop{false};
  std::vector<std::jthread> callers;
  for (int i = 0; i < 3; ++i)
    callers.emplace_back([&stop, i] {
      for (std::int64_t n = 64 + i; !stop; n = 64 + (n + 3) % 64) static_cast<void>(multiply(n));  // plans, and runs
    });
  for (int i = 0; i < 20; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(120);
      ::_exit(multiply(96) == TILESMITH_SUCCESS && multiply(128 + i) == TILESMITH_SUCCESS ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << (WIFSIGNALED(status) ? "killed: it hung, or crashed" : "a call failed");
  }
  stop = true;
}

// A cancelled thread ends between two calls, whatever it does when it is told to.
TEST(Context, ThreadsAreCancelledBehindTheirCall) {
  ASSERT_EQ(multiply(96), TILESMITH_SUCCESS) << last_message();
  const auto body = [](void* first) -> void* {
    for (std::intptr_t n = reinterpret_cast<std::intptr_t>(first);; ++n) {  // plans anew each time
      multiply(1 + n % 500);
      ::pthread_testcancel();
    }
  };
  for (int i = 0; i < 60; ++i) {
    pthread_t thread{};
    ASSERT_EQ(::pthread_create(&thread, nullptr, body, reinterpret_cast<void*>(std::intptr_t{7} * i)), 0);
    ::usleep(static_cast<useconds_t>(137 * i));
    ASSERT_EQ(::pthread_cancel(thread), 0);
    void* result = nullptr;
    ASSERT_EQ(::pthread_join(thread, &result), 0);
    EXPECT_EQ(result, PTHREAD_CANCELED);
  }
  EXPECT_EQ(multiply(96), TILESMITH_SUCCESS) << last_message();
}

}  // namespace
}  // namespace tilesmith::capi
