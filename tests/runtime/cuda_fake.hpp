// A test's own copy of the fake driver's state, with the driver opened and a context of its first device.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <memory>

#include "runtime/cuda/context.hpp"
#include "runtime/fake_libcuda.hpp"

namespace tilesmith {

class CudaFake : public ::testing::Test {
 protected:
  static testing::FakeLibcuda& state() {
    void* library = ::dlopen(TILESMITH_FAKE_LIBCUDA, RTLD_NOW | RTLD_LOCAL);
    auto* function = reinterpret_cast<testing::FakeLibcuda* (*)()>(::dlsym(library, "fake_libcuda"));
    return *function();
  }
  void SetUp() override {
    fake = {};
    driver_ = CudaDriver::open(TILESMITH_FAKE_LIBCUDA).value();
    context_ = CudaContext::retain(*driver_, 0).value();
  }
  void TearDown() override {
    context_.reset();
    EXPECT_EQ(fake.allocations, 0) << "memory was not given back";
    EXPECT_EQ(fake.objects, 0) << "streams, events or graphs were not given back";
    EXPECT_EQ(fake.retained, 0);
  }

  testing::FakeLibcuda& fake = state();
  std::unique_ptr<const CudaDriver> driver_;
  std::unique_ptr<const CudaContext> context_;
};

}  // namespace tilesmith
