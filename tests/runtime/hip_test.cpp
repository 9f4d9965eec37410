// The HIP runtime against a fake libamdhip64: what is opened and refused, whose device is current, what is launched and
// given back, and how its faults come out. Nothing here has run on an AMD GPU.
#include <dlfcn.h>
#include <elf.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <optional>
#include <vector>

#include "runtime/fake_libamdhip64.hpp"
#include "runtime/hip/kernel.hpp"
#include "runtime/hip/memory.hpp"
#include "runtime/hip/stream.hpp"

namespace tilesmith {
namespace {

using hip::Code;

std::string made_code(std::string_view target = "amdgcn-amd-amdhsa--gfx942") {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_machine = EM_AMDGPU;
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) + std::string(target) + '\xa5';
}

struct Sum {
  const float* from;
  float* to;
  int count;
};
void add_one(const void* arguments, int blocks) {
  const auto& sum = *static_cast<const Sum*>(arguments);
  for (int i = 0; i < sum.count; ++i) sum.to[i] = sum.from[i] + static_cast<float>(blocks);
}

class HipFake : public ::testing::Test {
 protected:
  static testing::FakeLibamdhip64& state() {
    void* library = ::dlopen(TILESMITH_FAKE_LIBAMDHIP64, RTLD_NOW | RTLD_LOCAL);
    auto* function = reinterpret_cast<testing::FakeLibamdhip64* (*)()>(::dlsym(library, "fake_libamdhip64"));
    return *function();
  }
  void SetUp() override {
    fake = {};
    fake.kernels["add_one"] = {add_one, sizeof(Sum)};
    library_ = HipLibrary::open(TILESMITH_FAKE_LIBAMDHIP64).value();
    device_.emplace(HipDevice::open(*library_, 0).value());
  }
  void TearDown() override {
    EXPECT_TRUE(fake.allocations.empty()) << "memory was not given back";
    EXPECT_EQ(fake.objects, 0) << "streams, events or graphs were not given back";
  }
  /// The error that opening the fake gives as it is now.
  std::string refusal() {
    const auto opened = HipLibrary::open(TILESMITH_FAKE_LIBAMDHIP64);
    EXPECT_FALSE(opened.has_value());
    return opened ? std::string() : opened.error().text();
  }

  testing::FakeLibamdhip64& fake = state();
  std::unique_ptr<const HipLibrary> library_;
  std::optional<HipDevice> device_;
};

TEST_F(HipFake, WhatCannotBeUsedIsRefusedWithTheReason) {
  const auto absent = HipLibrary::open("libamdhip64-that-is-not-there.so");
  ASSERT_FALSE(absent.has_value());
  EXPECT_EQ(absent.error().code, ErrorCode::not_found);
  EXPECT_NE(absent.error().hint.find("TILESMITH_LIBAMDHIP64"), std::string::npos);
  const auto incomplete = HipLibrary::open(TILESMITH_INCOMPLETE_LIBAMDHIP64);
  ASSERT_FALSE(incomplete.has_value());
  EXPECT_NE(incomplete.error().message.find("lacks hipMemcpyDtoHAsync"), std::string::npos)
      << incomplete.error().message;
  fake.version = 50'722'804;
  EXPECT_NE(refusal().find("the HIP runtime is 5.7, and 6.0 is the oldest"), std::string::npos) << refusal();
  fake.version = 70'000'000;
  fake.init = Code::no_device;
  EXPECT_NE(refusal().find("while initialising the HIP runtime"), std::string::npos) << refusal();
}

TEST_F(HipFake, DevicesAreDescribed) {
  const auto devices = hip_devices(*library_);
  ASSERT_TRUE(devices.has_value()) << devices.error().text();
  ASSERT_EQ(devices->size(), 2u);
  EXPECT_EQ((*devices)[0].arch, "gfx942");
  EXPECT_EQ((*devices)[0].name, "Fake MI300X");
  EXPECT_EQ((*devices)[0].compute_units, 304);
  EXPECT_EQ((*devices)[0].lanes_per_wave, 64);
  EXPECT_EQ((*devices)[0].pci_bus, "0000:1b:00.0");
  EXPECT_EQ((*devices)[1].arch, "gfx1100");
  EXPECT_FALSE(HipDevice::open(*library_, 2).has_value());
  EXPECT_FALSE(HipDevice::open(*library_, -1).has_value());
  fake.devices = 0;
  EXPECT_EQ(hip_devices(*library_).error().code, ErrorCode::unsupported);
  fake.devices = 1;
  fake.processor = "none";
  EXPECT_FALSE(hip_devices(*library_).has_value());
}

TEST_F(HipFake, TheThreadsDeviceIsChangedForACallAndNoLonger) {
  fake.current = 1;
  {
    const auto buffer = HipBuffer::allocate(*device_, 64);
    ASSERT_TRUE(buffer.has_value());
    EXPECT_EQ(fake.current, 1);
  }
  EXPECT_EQ(fake.device_at_free, 0);
  EXPECT_EQ(fake.current, 1);
  fake.set_device = Code::invalid_device;
  EXPECT_EQ(HipBuffer::allocate(*device_, 64).error().code, ErrorCode::invalid_argument);
}

TEST_F(HipFake, CodeForAnotherProcessorIsRefusedWithBothNames) {
  const auto other = HipModule::load(*device_, made_code("amdgcn-amd-amdhsa--gfx90a"));
  ASSERT_FALSE(other.has_value());
  EXPECT_NE(other.error().message.find("code for gfx90a does not run on Fake MI300X (gfx942)"), std::string::npos)
      << other.error().message;
  for (const std::string& bytes : {std::string(), std::string(200, 'x'), made_code("amdgcn-amd-amdhsa"), made_code("")})
    EXPECT_EQ(HipModule::load(*device_, bytes).error().code, ErrorCode::load_failed);
  fake.load = Code::invalid_image;
  EXPECT_EQ(HipModule::load(*device_, made_code()).error().code, ErrorCode::load_failed);
}

TEST_F(HipFake, KernelsRunOnCopiedMemoryInsideAndOutsideOfGraphs) {
  const auto module = HipModule::load(*device_, made_code());
  ASSERT_TRUE(module.has_value()) << module.error().text();
  EXPECT_EQ(fake.mode_at_load, static_cast<int>(hip::CaptureMode::relaxed));
  EXPECT_EQ(fake.mode, 0);
  EXPECT_EQ(module->kernel("absent").error().code, ErrorCode::load_failed);
  const auto kernel = module->kernel("add_one");
  ASSERT_TRUE(kernel.has_value()) << kernel.error().text();
  EXPECT_EQ(kernel->blocks_per_compute_unit(256).value(), 4);

  const std::vector<float> input = {1, 2, 3};
  const HipBuffer from = HipBuffer::allocate(*device_, 12).value(), to = HipBuffer::allocate(*device_, 12).value();
  const HipStream stream = HipStream::create(*device_).value();
  ASSERT_TRUE(copy_to_device(*device_, from.data(), input.data(), 12, stream.handle()));
  const Sum sum{static_cast<const float*>(from.data()), static_cast<float*>(to.data()), 3};
  void* const parameters[] = {const_cast<Sum*>(&sum)};
  const HipLaunch how{.blocks = 7, .threads = 256, .dynamic_lds_bytes = 16, .stream = stream.handle()};
  ASSERT_TRUE(launch(*kernel, how, parameters));
  EXPECT_EQ(fake.launches.back().blocks, 7u);
  EXPECT_EQ(fake.launches.back().threads, 256u);
  EXPECT_EQ(fake.launches.back().dynamic_lds_bytes, 16u);
  EXPECT_EQ(fake.launches.back().stream, stream.handle());
  std::vector<float> output(3);
  ASSERT_TRUE(copy_to_host(*device_, output.data(), to.data(), 12, stream.handle()));
  ASSERT_TRUE(stream.synchronize());
  EXPECT_EQ(output, (std::vector<float>{8, 9, 10}));
  ASSERT_TRUE(copy_anywhere(*device_, output.data(), from.data(), 12, stream.handle()));
  EXPECT_EQ(output, input);

  ASSERT_TRUE(fill_words(*device_, to.data(), 0, 3));
  const auto graph = HipGraph::capture(*device_, stream.handle(), [&]() -> Status {
    EXPECT_TRUE(is_capturing(*device_, stream.handle()).value());
    return launch(*kernel, how, parameters);
  });
  ASSERT_TRUE(graph.has_value()) << graph.error().text();
  EXPECT_EQ(static_cast<const float*>(to.data())[0], 0) << "the captured launch ran";
  ASSERT_TRUE(graph->launch(stream.handle()));
  EXPECT_EQ(static_cast<const float*>(to.data())[0], 8);
}

TEST_F(HipFake, AFailedCaptureLeavesNothingBehind) {
  const HipStream stream = HipStream::create(*device_).value();
  const auto failed =
      HipGraph::capture(*device_, stream.handle(), [] { return Status(fail(ErrorCode::internal, "the work failed")); });
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().message, "the work failed");
  EXPECT_FALSE(fake.capturing);
  fake.instantiate = Code::out_of_memory;
  EXPECT_FALSE(HipGraph::capture(*device_, stream.handle(), [] { return Status(); }).has_value());
  EXPECT_EQ(HipGraph::capture(*device_, nullptr, [] { return Status(); }).error().code, ErrorCode::invalid_argument);
}

TEST_F(HipFake, EventsTellTimeAndState) {
  const HipEvent start = HipEvent::create(*device_).value(), stop = HipEvent::create(*device_).value();
  ASSERT_TRUE(start.record(nullptr));
  ASSERT_TRUE(stop.delay(nullptr));
  EXPECT_TRUE(stop.reached().value());
  EXPECT_DOUBLE_EQ(HipEvent::seconds_between(start, stop).value(), 2.5e-3);
  fake.event = Code::not_ready;
  EXPECT_FALSE(stop.reached().value());
  fake.event = Code::illegal_address;
  EXPECT_EQ(stop.synchronize().error().code, ErrorCode::launch_failed);
}

TEST_F(HipFake, FaultsComeOutWithTheLibrarysWordsAndTheNumbers) {
  fake.malloc = Code::out_of_memory;
  const auto none = HipBuffer::allocate(*device_, 5000);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, ErrorCode::out_of_memory);
  EXPECT_NE(none.error().message.find("hipErrorOutOfMemory"), std::string::npos) << none.error().message;
  EXPECT_NE(none.error().message.find("allocating 5000 bytes of device memory, with 1000 of 2000 free"),
            std::string::npos)
      << none.error().message;
  fake.synchronize = Code::launch_failure;
  EXPECT_EQ(device_->synchronize().error().code, ErrorCode::launch_failed);
  const HipModule module = HipModule::load(*device_, made_code()).value();
  const HipKernel kernel = module.kernel("add_one").value();
  fake.launch = Code::unknown;
  const Sum sum{};
  void* const parameters[] = {const_cast<Sum*>(&sum)};
  const Status refused = launch(kernel, {.blocks = 3, .threads = 64}, parameters);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(
      refused.error().message,
      "HIP error 999 (which this library does not explain) while launching 3 blocks of 64 threads with 0 bytes of "
      "dynamic local memory");
}

TEST_F(HipFake, EmptyBuffersAndCopiesAskNothing) {
  fake.malloc = fake.copy = Code::unknown;
  EXPECT_EQ(HipBuffer::allocate(*device_, 0).value().data(), nullptr);
  EXPECT_TRUE(copy_to_device(*device_, nullptr, nullptr, 0));
  EXPECT_TRUE(fill_bytes(*device_, nullptr, 1, 0));
}

TEST(HipForkTest, AChildOfAProcessThatUsedHipIsToldSo) {
  ::setenv("TILESMITH_LIBAMDHIP64", TILESMITH_FAKE_LIBAMDHIP64, 1);
  ASSERT_TRUE(hip_library().has_value());
  const ::pid_t child = ::fork();
  if (child == 0) {
    const auto lost = hip_library();
    ::_exit(!lost && lost.error().code == ErrorCode::unsupported && !hip_devices() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(hip_devices().has_value());
}

}  // namespace
}  // namespace tilesmith
