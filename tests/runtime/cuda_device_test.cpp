// The CUDA runtime on a device: what only a real driver can tell. The kernels are compiled here, so these tests stand
// where both stations may be used.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "jit/nvrtc_toolchain.hpp"
#include "runtime/cuda/kernel.hpp"
#include "runtime/cuda/memory.hpp"
#include "runtime/cuda/stream.hpp"
#include "runtime/cuda/tensor_map.hpp"

namespace tilesmith {
namespace {

const char* const kText = R"(
extern "C" __global__ void scale(float* p, float factor, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) p[i] *= factor;
}
extern "C" __global__ void spin(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
}
extern "C" __global__ void shared_sum(float* p) {
  extern __shared__ float tile[];
  for (int i = threadIdx.x; i < 40000; i += blockDim.x) tile[i] = 1.0f;
  __syncthreads();
  float sum = 0;
  for (int i = threadIdx.x; i < 40000; i += blockDim.x) sum += tile[i];
  atomicAdd(p, sum);
}
extern "C" __global__ void wild(float* p) { p[1ll << 40] = 1.0f; }
extern "C" __global__ void nothing() {}
)";

Source source_for(const CudaDeviceInfo& device) {
  Source source;
  source.name = "device_test";
  source.text = kText;
  source.entry_symbol = "scale";
  source.options = {"-std=c++17"};
  source.arch = device.arch();
  source.language = Language::cuda;
  return source;
}

/// A message from a child process: empty when all went well. A fault of a kernel poisons the process, and the driver
/// does not survive a fork: so each test that provokes one is a process of its own, started before the first CUDA call.
template <class Work>
std::string in_child(const Work& work) {
  int ends[2];
  if (::pipe(ends) != 0) return "no pipe";
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    const std::string said = work();
    if (!said.empty() && ::write(ends[1], said.data(), said.size()) < 0) ::_exit(2);
    ::_exit(0);
  }
  ::close(ends[1]);
  const auto said = read_descriptor(ends[0], "pipe");
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return "the child died";
  return said.value_or("nothing could be read");
}

// Runs first in this program (GoogleTest keeps the order of the file), while the parent has not called CUDA yet.
TEST(CudaFault, AnIllegalAddressIsNamedWhereItIsNoticed) {
  const std::string said = in_child([]() -> std::string {
    const auto devices = cuda_devices();
    if (!devices) return "skip: " + devices.error().text();
    const auto toolchain = NvrtcToolchain::find();
    if (!toolchain) return "skip: " + toolchain.error().text();
    const auto context = CudaContext::of(0);
    if (!context) return context.error().text();
    const Source source = source_for((*context)->device());
    const Source* one[] = {&source};
    const auto compiled = (*toolchain)->compile(one, {});
    if (!compiled) return compiled.error().text();
    const auto kernel = CudaModule::load(**context, compiled->binary)->kernel("wild");
    const auto buffer = CudaBuffer::allocate(**context, 4);
    float* const pointer = static_cast<float*>(buffer->data());
    if (const Status launched = launch_with(*kernel, {}, pointer); !launched) return launched.error().text();
    const Status synchronised = synchronize(**context, nullptr);
    if (synchronised) return "the fault was not noticed";
    return std::string(to_string(synchronised.error().code)) + ": " + synchronised.error().text();
  });
  if (said.starts_with("skip: ")) GTEST_SKIP() << said;
  EXPECT_TRUE(
      said.starts_with("launch_failed: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered) "
                       "while synchronising the stream"))
      << said;
}

class CudaDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto& devices = cuda_devices();
    if (!devices) GTEST_SKIP() << devices.error().text();
    const auto toolchain = NvrtcToolchain::find();
    if (!toolchain) GTEST_SKIP() << toolchain.error().text();
    context_ = CudaContext::of(0).value();
    const Source source = source_for(context_->device());
    const Source* one[] = {&source};
    const auto compiled = (*toolchain)->compile(one, {});
    ASSERT_TRUE(compiled.has_value()) << compiled.error().text();
    binary_ = compiled->binary;
    auto module = CudaModule::load(*context_, binary_);
    ASSERT_TRUE(module.has_value()) << module.error().text();
    module_.emplace(std::move(*module));
  }
  [[nodiscard]] CudaKernel kernel(const char* symbol, std::size_t shared = 0) const {
    return module_->kernel(symbol, shared).value();
  }

  const CudaContext* context_ = nullptr;
  std::string binary_;
  std::optional<CudaModule> module_;
};

TEST_F(CudaDevice, TellsItsFacts) {
  const CudaDeviceInfo& device = context_->device();
  EXPECT_FALSE(device.name.empty());
  EXPECT_TRUE(device.uuid.starts_with("GPU-"));
  EXPECT_GE(device.compute_major, 7);
  EXPECT_GT(device.sm_count, 0);
  EXPECT_EQ(device.warp_size, 32);
  EXPECT_GE(device.shared_bytes_per_sm, device.shared_bytes_per_block);
  EXPECT_GT(device.l2_bytes, 0);
  const auto memory = context_->memory();
  ASSERT_TRUE(memory.has_value());
  EXPECT_LE(memory->free_bytes, memory->total_bytes);
  RecordProperty("device", device.name);
  std::printf("%s %s %s: %d SMs, %d KiB shared a block, L2 %ld MiB, %.1f GiB, %d kHz, %.0f GB/s, CUDA %d\n",
              device.name.c_str(), device.pci_bus.c_str(), device.arch().c_str(), device.sm_count,
              device.shared_bytes_per_block / 1024, static_cast<long>(device.l2_bytes >> 20),
              static_cast<double>(device.memory_bytes) / (1 << 30), device.clock_khz,
              device.memory_bytes_per_second * 1e-9, device.driver_version);
  EXPECT_EQ(CudaContext::of(99).error().code, ErrorCode::invalid_argument);
}

TEST_F(CudaDevice, RunsAKernel) {
  constexpr int kCount = 1000;
  std::vector<float> values(kCount);
  for (int i = 0; i < kCount; ++i) values[static_cast<std::size_t>(i)] = static_cast<float>(i);
  const auto stream = CudaStream::create(*context_).value();
  const auto buffer = CudaBuffer::allocate(*context_, kCount * sizeof(float)).value();
  const auto pinned = CudaHostBuffer::allocate(*context_, kCount * sizeof(float)).value();
  ASSERT_TRUE(copy_to_device(*context_, buffer.data(), values.data(), buffer.bytes(), stream.handle()).has_value());
  CudaLaunch how;
  how.grid = {8};
  how.block = {128};
  how.stream = stream.handle();
  float* const pointer = static_cast<float*>(buffer.data());
  ASSERT_TRUE(launch_with(kernel("scale"), how, pointer, 3.0F, kCount).has_value());
  ASSERT_TRUE(copy_to_host(*context_, pinned.data(), buffer.data(), buffer.bytes(), stream.handle()).has_value());
  ASSERT_TRUE(stream.synchronize().has_value());
  for (int i = 0; i < kCount; ++i) ASSERT_EQ(reinterpret_cast<float*>(pinned.data())[i], 3.0F * static_cast<float>(i));
}

TEST_F(CudaDevice, GivesAKernelMoreSharedMemoryThanTheDefault) {
  const auto buffer = CudaBuffer::allocate(*context_, 4).value();
  ASSERT_TRUE(fill_words(*context_, buffer.data(), 0, 1).has_value());
  CudaLaunch how;
  how.block = {256};
  how.dynamic_shared_bytes = 160'000;
  if (context_->device().shared_bytes_per_block < 160'000) GTEST_SKIP() << "a block has less than 160000 bytes here";
  const CudaKernel sum = kernel("shared_sum", 160'000);
  float* const pointer = static_cast<float*>(buffer.data());
  ASSERT_TRUE(launch_with(sum, how, pointer).has_value());
  float total = 0;
  ASSERT_TRUE(copy_to_host(*context_, &total, buffer.data(), 4).has_value());
  ASSERT_TRUE(synchronize(*context_, nullptr).has_value());
  EXPECT_EQ(total, 40000.0F);
  EXPECT_EQ(sum.blocks_per_sm(256, 160'000), 1);
  EXPECT_EQ(module_->kernel("shared_sum", std::size_t{1} << 20).error().code, ErrorCode::unsupported);
  EXPECT_EQ(module_->kernel("absent").error().code, ErrorCode::load_failed);
}

TEST_F(CudaDevice, EventsTellTheTimeOfAKernel) {
  const auto stream = CudaStream::create(*context_).value();
  const auto start = CudaEvent::create(*context_).value(), stop = CudaEvent::create(*context_).value();
  CudaLaunch how;
  how.stream = stream.handle();
  const long long cycles = 2'000'000;  // about 1 ms
  ASSERT_TRUE(start.record(stream.handle()).has_value());
  ASSERT_TRUE(launch_with(kernel("spin"), how, cycles).has_value());
  ASSERT_TRUE(stop.record(stream.handle()).has_value());
  ASSERT_TRUE(stop.synchronize().has_value());
  EXPECT_EQ(stop.reached(), true);
  const auto seconds = CudaEvent::seconds_between(start, stop);
  ASSERT_TRUE(seconds.has_value());
  EXPECT_GT(*seconds, 100e-6);
  const auto never = CudaEvent::create(*context_).value();
  EXPECT_FALSE(CudaEvent::seconds_between(start, never).has_value());
}

TEST_F(CudaDevice, ACapturedGraphRunsAgainAndCodeLoadsDuringCapture) {
  constexpr int kCount = 64;
  const auto stream = CudaStream::create(*context_).value();
  const auto buffer = CudaBuffer::allocate(*context_, kCount * sizeof(float)).value();
  const float ones = 1.0F;
  std::uint32_t bits;
  std::memcpy(&bits, &ones, sizeof bits);
  ASSERT_TRUE(fill_words(*context_, buffer.data(), bits, kCount, stream.handle()).has_value());
  float* const pointer = static_cast<float*>(buffer.data());
  CudaLaunch how;
  how.block = {kCount};
  how.stream = stream.handle();
  const auto graph = CudaGraph::capture(*context_, stream.handle(), [&]() -> Status {
    TS_ASSIGN(const CudaModule fresh, CudaModule::load(*context_, binary_));
    TS_ASSIGN(const CudaKernel scale, fresh.kernel("scale"));
    TS_TRY(launch_with(scale, how, pointer, 2.0F, kCount));
    how.overlaps_previous = true;
    return launch_with(scale, how, pointer, 2.0F, kCount);
  });
  ASSERT_TRUE(graph.has_value()) << graph.error().text();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(graph->launch(stream.handle()).has_value());
  float value = 0;
  ASSERT_TRUE(copy_to_host(*context_, &value, buffer.data(), 4, stream.handle()).has_value());
  ASSERT_TRUE(stream.synchronize().has_value());
  EXPECT_EQ(value, 64.0F);
}

TEST_F(CudaDevice, WaitingInsideACaptureIsAnErrorAndTheStreamLivesOn) {
  const auto stream = CudaStream::create(*context_).value();
  const auto graph = CudaGraph::capture(*context_, stream.handle(), [&]() -> Status { return stream.synchronize(); });
  ASSERT_FALSE(graph.has_value());
  EXPECT_EQ(graph.error().code, ErrorCode::launch_failed) << graph.error().text();
  EXPECT_NE(graph.error().message.find("CUDA_ERROR_STREAM_CAPTURE"), std::string::npos) << graph.error().message;
  EXPECT_TRUE(stream.synchronize().has_value());
}

TEST_F(CudaDevice, MoreMemoryThanThereIsIsAnOrdinaryError) {
  const auto buffer = CudaBuffer::allocate(*context_, std::size_t{1} << 44);
  ASSERT_FALSE(buffer.has_value());
  EXPECT_EQ(buffer.error().code, ErrorCode::out_of_memory) << buffer.error().text();
  EXPECT_NE(buffer.error().message.find("MiB are free"), std::string::npos);
  EXPECT_TRUE(CudaBuffer::allocate(*context_, 1 << 20).has_value());
}

TEST_F(CudaDevice, BadLaunchesAreRefusedAndDoNoHarm) {
  CudaLaunch how;
  how.block = {2048};
  const Status large = launch_with(kernel("nothing"), how);
  ASSERT_FALSE(large.has_value());
  EXPECT_NE(large.error().message.find("2048x1x1 threads"), std::string::npos) << large.error().message;
  how.block = {32};
  how.grid = {0};
  EXPECT_FALSE(launch_with(kernel("nothing"), how).has_value());
  how.grid = {1};
  EXPECT_TRUE(launch_with(kernel("nothing"), how).has_value());
  EXPECT_TRUE(context_->synchronize().has_value());
}

TEST_F(CudaDevice, LaunchesClustersWhereThereAreSuch) {
  if (!context_->device().clusters) GTEST_SKIP() << "no clusters on " << context_->device().name;
  CudaLaunch how;
  how.grid = {4};
  how.block = {128};
  how.cluster = {2};
  EXPECT_GT(active_clusters(kernel("nothing"), how).value_or(0), 0);
  EXPECT_TRUE(launch_with(kernel("nothing"), how).has_value());
  how.cluster = {3};  // does not divide the grid
  EXPECT_FALSE(launch_with(kernel("nothing"), how).has_value());
  EXPECT_TRUE(context_->synchronize().has_value());
}

TEST_F(CudaDevice, EncodesTensorMaps) {
  if (context_->device().compute_major < 9) GTEST_SKIP() << "no tensor maps on " << context_->device().name;
  const auto buffer = CudaBuffer::allocate(*context_, 1 << 20).value();
  TsCudaTensorMap map{}, moved{};
  const TensorMapDimension dimensions[] = {{128, 2, 64, 1}, {1024, 256, 128, 1}};
  const Status encoded = encode_tensor_map(*context_, {}, buffer.data(), dimensions, map);
  ASSERT_TRUE(encoded.has_value()) << encoded.error().text();
  moved = map;
  ASSERT_TRUE(replace_address(*context_, static_cast<char*>(buffer.data()) + 4096, moved).has_value());
  TsCudaTensorMap direct{};
  ASSERT_TRUE(
      encode_tensor_map(*context_, {}, static_cast<char*>(buffer.data()) + 4096, dimensions, direct).has_value());
  EXPECT_EQ(std::memcmp(&moved, &direct, sizeof direct), 0);
}

// No assertion on time: the figure is for docs/performance.md.
TEST_F(CudaDevice, TheHostsShareOfALaunch) {
  constexpr int kLaunches = 2000;
  const CudaKernel nothing = kernel("nothing");
  const CudaDriver& driver = context_->driver();
  const auto stream = CudaStream::create(*context_).value();
  const CudaCurrent current(*context_);
  CudaLaunch how;
  how.stream = stream.handle();
  const auto time = [&](const auto& launch_one) {
    double best = 1;
    for (int round = 0; round < 5; ++round) {
      static_cast<void>(stream.synchronize());
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < kLaunches; ++i) launch_one();
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    return best / kLaunches * 1e9;
  };
  const cu::LaunchConfig bare{1, 1, 1, 1, 1, 1, 0, stream.handle(), nullptr, 0};
  const double driver_alone =
      time([&] { static_cast<void>(driver.launch_kernel(&bare, nothing.function(), nullptr, nullptr)); });
  const double with_ours = time([&] { static_cast<void>(launch_with(nothing, how)); });
  ASSERT_TRUE(stream.synchronize().has_value());
  TsCudaTensorMap map{};
  const auto buffer = CudaBuffer::allocate(*context_, 1 << 20).value();
  const TensorMapDimension dimensions[] = {{64, 2, 64, 1}, {1, 128, 1, 1}, {1024, 128, 128, 1}, {4, 131072, 1, 1}};
  double encode = 0;
  if (context_->device().compute_major >= 9)
    encode = time([&] { static_cast<void>(encode_tensor_map(*context_, {}, buffer.data(), dimensions, map)); });
  std::printf("a launch: the driver alone %.0f ns, through launch() %.0f ns; a tensor map of 4 dimensions %.0f ns\n",
              driver_alone, with_ours, encode);
}

}  // namespace
}  // namespace tilesmith
