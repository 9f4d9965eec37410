// For tests that compile generated CUDA sources: skips where NVRTC is not installed.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <vector>

#include "base/parallel.hpp"
#include "jit/nvrtc_toolchain.hpp"

namespace tilesmith::testing {

class NvrtcFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    auto found = NvrtcToolchain::find();
    if (!found) GTEST_SKIP() << "NVRTC is not installed: " << found.error().text();
    toolchain_ = std::move(*found);
  }

  /// Compiles all, as many at a time as there are processors; `check` is called by one thread at a time.
  template <class Check>
  void compile_all(const std::vector<Source>& sources, Check&& check) {
    std::mutex mutex;
    parallel_for(sources.size(), 0, [&](std::size_t at) {
      const Source* const source = &sources[at];
      const Result<Compiled> compiled = toolchain_->compile({&source, 1}, {});
      const std::lock_guard lock(mutex);
      ASSERT_TRUE(compiled.has_value()) << compiled.error().text();
      ASSERT_TRUE(compiled->resources.has_value()) << source->name;
      check(at, *compiled->resources);
    });
  }

  std::unique_ptr<NvrtcToolchain> toolchain_;
};

}  // namespace tilesmith::testing
