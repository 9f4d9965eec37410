// AMD GPUs for tests of dispatch: a fake HIP runtime whose device memory is the host's and whose kernels are the chosen
// instances' own text, emulated on the CPU. Their code objects are compiled, loaded and never run: what a test finds
// right is verified in emulation, not on hardware.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "codegen/attention/hip.hpp"
#include "codegen/gemm/hip.hpp"
#include "codegen/hip_emulation.hpp"
#include "dispatch/backend.hpp"
#include "jit/amdgcn_toolchain.hpp"
#include "kernels/hip/attention/abi.h"
#include "kernels/hip/gemm/abi.h"
#include "runtime/fake_libamdhip64.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith::testing {

inline FakeLibamdhip64& fake() {
  void* library = ::dlopen(TILESMITH_FAKE_LIBAMDHIP64, RTLD_NOW | RTLD_LOCAL);
  return *reinterpret_cast<FakeLibamdhip64* (*)()>(::dlsym(library, "fake_libamdhip64"))();
}

inline constexpr int kFakeDevices = 5;

/// A device's dispatcher, whose kernels the fake runtime finds emulated.
class EmulatedDevice {
 public:
  explicit EmulatedDevice(int index)
      : device{DeviceKind::hip, index}, backend_(open_backend(device, 1).value()), dispatcher({.device = device}) {
    const std::string_view processor = kFakeHipDevices[index].processor;
    const std::vector<HipSpec> specs = load_hip_specs().value();
    spec_ = *std::ranges::find(specs, processor.substr(0, processor.find(':')),
                               [](const HipSpec& spec) { return spec.arch.text(); });
  }

  /// Makes the kernels that dispatch will choose for the problem known to the fake, and plans.
  template <class Problem>
  auto plan(const Problem& problem) -> decltype(std::declval<Dispatcher&>().plan(problem)) {
    TS_ASSIGN(auto* const operation, backend_->find<typename OperationOf<Problem>::type>());
    TS_ASSIGN(const Ranking ranking, operation->rank(problem));
    for (const Step& step : ranking.candidates.front().recipe.steps) TS_TRY(emulate(step.config));
    return dispatcher.plan(problem);
  }

  [[nodiscard]] Backend& backend() { return *backend_; }
  /// Makes a kernel known to the fake.
  [[nodiscard]] Status emulate(const KernelConfig& config) {
    const bool gemm = config.operation() == Operation::gemm;
    TS_ASSIGN(Source source, gemm ? hip_gemm_source(config, spec_, kernels_.files())
                                  : hip_attention_source(config, spec_, kernels_.files()));
    TS_ASSIGN(const EmulatedEntry entry,
              libraries().entry(std::move(source), gemm ? kEmulatedGemm : kEmulatedAttention));
    fake().kernels[native_name(config)] = {entry, gemm ? sizeof(TsHipGemmArgs) : sizeof(TsHipAttentionArgs)};
    return {};
  }

  const Device device;

 private:
  static EmulatedLibraries& libraries() {
    static EmulatedLibraries all;
    return all;
  }

  std::unique_ptr<Backend> backend_;
  HipSpec spec_;
  EmulatedKernels kernels_;

 public:
  Dispatcher dispatcher;
};

class EmulatedHipTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ::setenv("TILESMITH_LIBAMDHIP64", TILESMITH_FAKE_LIBAMDHIP64, 1);
    fake().devices = kFakeDevices;
  }
  void SetUp() override {
    if (const auto clang = AmdgcnToolchain::find(); !clang) GTEST_SKIP() << clang.error().text();
  }
};

}  // namespace tilesmith::testing
