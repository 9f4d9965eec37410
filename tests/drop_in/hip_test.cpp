// The drop-in functions on an AMD GPU: matrices travel to the device and back, against a fake HIP runtime whose memory
// is the host's and whose kernel is a function of this file.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/float_types.hpp"
#include "dispatch/test_store.hpp"
#include "drop_in/abi.h"
#include "jit/amdgcn_toolchain.hpp"
#include "kernels/hip/gemm/abi.h"
#include "runtime/fake_libamdhip64.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {
namespace {

testing::FakeLibamdhip64& fake() {
  void* library = ::dlopen(TILESMITH_FAKE_LIBAMDHIP64, RTLD_NOW | RTLD_LOCAL);
  return *reinterpret_cast<testing::FakeLibamdhip64* (*)()>(::dlsym(library, "fake_libamdhip64"))();
}

int calls = 0;

/// A stored along k, B along k, D by rows: fp16.
void product(const void* bytes, int) {
  TsHipGemmArgs args;
  std::memcpy(&args, bytes, sizeof args);
  ++calls;
  const auto* a = static_cast<const std::uint16_t*>(args.a.data);
  const auto* b = static_cast<const std::uint16_t*>(args.b.data);
  auto* d = static_cast<std::uint16_t*>(args.d);
  for (int i = 0; i < args.m; ++i)
    for (int j = 0; j < args.n; ++j) {
      float sum = 0;
      for (int k = 0; k < args.k; ++k) sum += from_fp16(a[i * args.k + k]) * from_fp16(b[j * args.k + k]);
      d[i * args.n + j] = to_fp16(sum);
    }
}

TEST(DropInHip, AProductTravelsToTheDeviceAndBack) {
  if (const auto clang = AmdgcnToolchain::find(); !clang) GTEST_SKIP() << clang.error().text();
  const testing::ScopedVariable library("TILESMITH_LIBAMDHIP64", TILESMITH_FAKE_LIBAMDHIP64);
  constexpr int kM = 16, kN = 32, kK = 64;
  {
    Dispatcher dispatcher({.device = {DeviceKind::hip, 0}});
    const GemmProblem problem = gemm_problem(DataType::fp16, kM, kN, kK);
    const auto choice = dispatcher.candidates(problem, dispatcher.options());
    ASSERT_TRUE(choice) << choice.error().text();
    fake().kernels[choice->candidates.front().recipe] = {product, sizeof(TsHipGemmArgs)};
  }
  ASSERT_EQ(dispatcher_initialize(), 0);  // an AMD GPU goes first where nothing else is chosen
  char name[512];
  ASSERT_EQ(dispatcher_select_kernel(kM, kN, kK, name, sizeof name), 0);
  EXPECT_NE(std::string(name).find("gfx942"), std::string::npos) << name;

  std::vector<std::uint16_t> a, b, c(kM * kN, to_fp16(77));
  for (int i = 0; i < kM * kK; ++i) a.push_back(to_fp16(i % 5 - 2));
  for (int i = 0; i < kN * kK; ++i) b.push_back(to_fp16(i % 3 - 1));
  const std::size_t before = fake().allocations.size();
  float milliseconds = -5;
  ASSERT_EQ(dispatcher_run_gemm(a.data(), b.data(), c.data(), kM, kN, kK, &milliseconds), 0);
  EXPECT_FLOAT_EQ(milliseconds, 2.5F / 10) << "the fake's 2.5 ms over ten calls";
  EXPECT_EQ(calls, 13);
  EXPECT_EQ(fake().allocations.size(), before);
  for (int i = 0; i < kM; ++i)
    for (int j = 0; j < kN; ++j) {
      float sum = 0;
      for (int k = 0; k < kK; ++k)
        sum += static_cast<float>((i * kK + k) % 5 - 2) * static_cast<float>((j * kK + k) % 3 - 1);
      ASSERT_EQ(from_fp16(c[static_cast<std::size_t>(i * kN + j)]), sum);
    }

  fake().malloc = hip::Code::out_of_memory;
  EXPECT_EQ(dispatcher_run_gemm(a.data(), b.data(), c.data(), kM, kN, kK, &milliseconds), TILESMITH_CK_FAILED);
  fake().malloc = hip::Code::success;
  fake().copy = hip::Code::invalid_value;
  EXPECT_EQ(dispatcher_run_gemm(a.data(), b.data(), c.data(), kM, kN, kK, &milliseconds), TILESMITH_CK_FAILED);
  fake().copy = hip::Code::success;
  dispatcher_cleanup();
}

}  // namespace
}  // namespace tilesmith
