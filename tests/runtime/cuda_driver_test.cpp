// The driver, devices and contexts, against the fake driver.
#include "runtime/cuda/driver.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/cuda/context.hpp"
#include "runtime/cuda/device.hpp"
#include "runtime/cuda_fake.hpp"

namespace tilesmith {
namespace {

using cu::Code;

TEST_F(CudaFake, AMissingLibraryIsSaidWithWhatToInstall) {
  const auto driver = CudaDriver::open("/nonexistent/libcuda.so.1");
  ASSERT_FALSE(driver.has_value());
  EXPECT_EQ(driver.error().code, ErrorCode::not_found);
  EXPECT_NE(driver.error().message.find("/nonexistent/libcuda.so.1"), std::string::npos);
  EXPECT_NE(driver.error().hint.find("TILESMITH_LIBCUDA"), std::string::npos);
}

TEST_F(CudaFake, AnotherLibraryIsNoDriver) {
  EXPECT_EQ(CudaDriver::open("libc.so.6").error().code, ErrorCode::unsupported);
}

TEST_F(CudaFake, AnOldDriverIsRefusedWithBothVersions) {
  fake.version = 11080;
  const auto driver = CudaDriver::open(TILESMITH_FAKE_LIBCUDA);
  ASSERT_FALSE(driver.has_value());
  EXPECT_EQ(driver.error().code, ErrorCode::unsupported);
  EXPECT_EQ(driver.error().message, "the CUDA driver is for CUDA 11.8, and 12.0 is the oldest that works");
}

TEST_F(CudaFake, AMissingEntryPointIsNamed) {
  const auto driver = CudaDriver::open(TILESMITH_INCOMPLETE_LIBCUDA);
  ASSERT_FALSE(driver.has_value());
  EXPECT_EQ(driver.error().code, ErrorCode::unsupported);
  EXPECT_NE(driver.error().message.find("lacks cuTensorMapReplaceAddress"), std::string::npos);
}

TEST_F(CudaFake, NoDeviceIsUnsupported) {
  fake.init = Code::no_device;
  const auto driver = CudaDriver::open(TILESMITH_FAKE_LIBCUDA);
  ASSERT_FALSE(driver.has_value());
  EXPECT_EQ(driver.error().code, ErrorCode::unsupported);
  EXPECT_EQ(driver.error().message, "CUDA_ERROR_NO_DEVICE (words of the driver) while initialising the CUDA driver");
  fake.init = Code::success;
  fake.devices = 0;
  EXPECT_EQ(cuda_devices(*driver_).error().code, ErrorCode::unsupported);
}

TEST_F(CudaFake, AForkedProcessLearnsWhyItCannotUseTheDriver) {
  fake.init = Code::not_initialized;
  EXPECT_NE(CudaDriver::open(TILESMITH_FAKE_LIBCUDA).error().hint.find("fork before"), std::string::npos);
}

TEST_F(CudaFake, AChildOfAProcessThatUsedTheDriverGetsAnError) {
  const pid_t user = ::fork();  // a process's driver is opened once and stays
  if (user == 0) {
    ::setenv("TILESMITH_LIBCUDA", TILESMITH_FAKE_LIBCUDA, 1);
    const auto used = CudaContext::of(0);
    if (!used || !CudaCurrent(**used).status()) ::_exit(2);
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);
      const auto context = CudaContext::of(0);
      const bool refused = !cuda_driver() && !cuda_devices() && !CudaCurrent(**used).status();
      ::_exit(refused && !context && context.error().hint.find("spawn") != std::string::npos ? 0 : 3);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 4);
  }
  int status = 0;
  ::waitpid(user, &status, 0);
  EXPECT_EQ(status, 0) << WEXITSTATUS(status);
}

TEST_F(CudaFake, ErrorsCarryTheDriversNameAndWords) {
  const Error fault = cuda_error(*driver_, Code::illegal_address, "synchronising the stream");
  EXPECT_EQ(fault.code, ErrorCode::launch_failed);
  EXPECT_EQ(fault.message,
            "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered) while synchronising the stream");
  EXPECT_FALSE(fault.hint.empty());
  const Error unknown = cuda_error(*driver_, Code::unknown, "testing");
  EXPECT_EQ(unknown.code, ErrorCode::internal);
  EXPECT_EQ(unknown.message, "CUDA error 999 (which this driver does not explain) while testing");
  const std::pair<Code, ErrorCode> codes[] = {
      {Code::out_of_memory, ErrorCode::out_of_memory},     {Code::invalid_value, ErrorCode::invalid_argument},
      {Code::invalid_handle, ErrorCode::invalid_argument}, {Code::not_supported, ErrorCode::unsupported},
      {Code::no_binary_for_gpu, ErrorCode::load_failed},   {Code::launch_out_of_resources, ErrorCode::launch_failed},
      {static_cast<Code>(719), ErrorCode::launch_failed},  {static_cast<Code>(901), ErrorCode::launch_failed},
      {Code::launch_timeout, ErrorCode::timeout},          {Code::not_ready, ErrorCode::busy}};
  for (const auto& [code, expected] : codes)
    EXPECT_EQ(cuda_error(*driver_, code, "testing").code, expected) << static_cast<int>(code);
  EXPECT_TRUE(cuda_status(*driver_, Code::success, "testing").has_value());
}

TEST_F(CudaFake, ListsDevices) {
  const auto devices = cuda_devices(*driver_);
  ASSERT_TRUE(devices.has_value()) << devices.error().text();
  ASSERT_EQ(devices->size(), 2u);
  const CudaDeviceInfo& h200 = (*devices)[0];
  EXPECT_EQ(h200.index, 0);
  EXPECT_EQ(h200.name, "Fake H200");
  EXPECT_EQ(h200.arch(), "sm_90a");
  EXPECT_EQ(h200.uuid, "GPU-00112233-4455-6677-8899-aabbccddeeff");
  EXPECT_EQ(h200.pci_bus, "0032:1b:22.0");  // the fake's domain is 50 and its slot 34
  EXPECT_EQ(h200.sm_count, 132);
  EXPECT_EQ(h200.shared_bytes_per_block, 232448);
  EXPECT_EQ(h200.memory_bytes, std::uint64_t{141} << 30);
  EXPECT_DOUBLE_EQ(h200.memory_bytes_per_second, 2.0 * 3201e6 * 6144 / 8);
  EXPECT_EQ(h200.clock_khz, 0) << "the driver does not tell it";
  EXPECT_EQ(h200.driver_version, 13000);
  EXPECT_EQ((*devices)[1].arch(), "sm_86");
}

TEST_F(CudaFake, AContextOfNoDeviceIsRefused) {
  for (const int index : {-1, 2}) {
    const auto context = CudaContext::retain(*driver_, index);
    ASSERT_FALSE(context.has_value());
    EXPECT_EQ(context.error().code, ErrorCode::invalid_argument);
    EXPECT_EQ(context.error().hint, "a number from 0 to 1");
  }
}

TEST_F(CudaFake, ContextsAreGivenBack) {
  EXPECT_EQ(fake.retained, 1);
  {
    const auto other = CudaContext::retain(*driver_, 1);
    ASSERT_TRUE(other.has_value());
    EXPECT_EQ(fake.retained, 2);
  }
  EXPECT_EQ(fake.retained, 1);
}

TEST_F(CudaFake, AContextIsMadeCurrentAndLeftAsItWas) {
  void* const frameworks = reinterpret_cast<void*>(0x77);
  fake.stack[0] = frameworks;
  fake.depth = 1;
  {
    const CudaCurrent current(*context_);
    EXPECT_TRUE(current.status().has_value());
    EXPECT_EQ(fake.stack[static_cast<std::size_t>(fake.depth - 1)], context_->handle());
    const int pushes = fake.pushes;
    const CudaCurrent again(*context_);
    EXPECT_EQ(fake.pushes, pushes) << "it was current already";
  }
  EXPECT_EQ(fake.depth, 1);
  EXPECT_EQ(fake.stack[0], frameworks);
}

}  // namespace
}  // namespace tilesmith
