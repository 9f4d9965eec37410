#include "jit/nvrtc_toolchain.hpp"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "base/file.hpp"
#include "jit/build.hpp"
#include "jit/fake_toolchain.hpp"

namespace tilesmith {
namespace {
namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::ScopedVariable;

Source cuda_source(std::string text, std::string arch = "sm_90a") {
  Source source;
  source.name = "a_kernel";
  source.text = std::move(text);
  source.entry_symbol = "k";
  source.options = {"-std=c++17"};
  source.arch = std::move(arch);
  source.language = Language::cuda;
  return source;
}

const char* const kAdd = "extern \"C\" __global__ void k(float* p) { p[threadIdx.x] += 1.0f; }\n";

/// More values alive than registers: 1024 threads a block, two blocks a multiprocessor, 32 registers a thread.
const char* const kSpills = R"(
extern "C" __global__ void __launch_bounds__(1024, 2) k(const float* a, float* b) {
  float v[64];
#pragma unroll
  for (int i = 0; i < 64; i++) v[i] = a[threadIdx.x + i * 1024];
#pragma unroll
  for (int r = 0; r < 2; r++)
#pragma unroll
    for (int i = 0; i < 64; i++) v[i] = v[i] * v[(i * 7 + r) % 64] + v[(i * 5 + 3) % 64];
#pragma unroll
  for (int i = 0; i < 64; i++) b[threadIdx.x + i * 1024] = v[i];
}
)";

/// No launch bounds: the assembler does not know the registers at entry.
const char* const kIgnoredRegisters = R"(
extern "C" __global__ void k(float* p) {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
  p[threadIdx.x] = 1;
}
)";

/// An accumulator is changed between the group's commit and its wait.
const char* const kSerialised = R"(
extern "C" __global__ void __launch_bounds__(128, 1) k(float* p, unsigned long long a, unsigned long long b) {
  float d[4];
  for (int i = 0; i < 4; i++) d[i] = p[threadIdx.x + i];
  for (int r = 0; r < 4; r++) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile(
        "{.reg .pred q; setp.ne.b32 q, 1, 0;"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, q, 1, 1, 0, 0;}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "l"(a + r), "l"(b));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    d[0] *= 2.0f;
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
  for (int i = 0; i < 4; i++) p[threadIdx.x + i] = d[i];
}
)";

class NvrtcToolchainTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto found = NvrtcToolchain::find();
    if (!found) GTEST_SKIP() << found.error().text();
    toolchain_ = std::move(*found);
  }
  Result<Compiled> compile(const Source& source, const CompileLimits& limits = {}) {
    const Source* one[] = {&source};
    return toolchain_->compile(one, limits);
  }
  std::unique_ptr<NvrtcToolchain> toolchain_;
};

TEST_F(NvrtcToolchainTest, SaysWhichCompilerItIsButNotWhere) {
  EXPECT_TRUE(toolchain_->identity().starts_with("NVRTC 1")) << toolchain_->identity();
  EXPECT_NE(toolchain_->identity().find(" build "), std::string::npos);
  EXPECT_EQ(toolchain_->identity().find('/'), std::string::npos);
  EXPECT_TRUE(fs::exists(toolchain_->library().path())) << toolchain_->library().path();
  const auto same = NvrtcToolchain::use(toolchain_->library().path());
  ASSERT_TRUE(same.has_value());
  EXPECT_EQ((*same)->identity(), toolchain_->identity());
}

TEST_F(NvrtcToolchainTest, CompilesForEveryGenerationAndTellsTheResources) {
  for (const char* arch : {"sm_80", "sm_90a"}) {
    const auto compiled = compile(cuda_source(kAdd, arch));
    ASSERT_TRUE(compiled.has_value()) << compiled.error().text();
    EXPECT_TRUE(
        compiled->binary.starts_with("\x7f"
                                     "ELF"));
    ASSERT_TRUE(compiled->resources.has_value());
    const FunctionResources* kernel = compiled->resources->kernel("k");
    ASSERT_NE(kernel, nullptr) << compiled->log;
    EXPECT_GT(kernel->registers, 0);
    EXPECT_EQ(compiled->resources->spill_bytes(), 0);
  }
}

TEST_F(NvrtcToolchainTest, TheSameSourceGivesTheSameBytes) {
  const auto first = compile(cuda_source(kAdd)), second = compile(cuda_source(kAdd));
  ASSERT_TRUE(first.has_value() && second.has_value());
  EXPECT_EQ(first->binary, second->binary);
}

TEST_F(NvrtcToolchainTest, RefusesSpillsUnlessTheSourceAllowsThem) {
  Source source = cuda_source(kSpills);
  const auto refused = compile(source);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::compile_failed);
  EXPECT_NE(refused.error().message.find("a_kernel: the compiler reports a loss of performance:\n  k spills registers"),
            std::string::npos)
      << refused.error().message;
  EXPECT_FALSE(compile(source).has_value()) << "the second time it came from a cache";
  source.spill_limit_bytes = 1 << 20;
  const auto allowed = compile(source);
  ASSERT_TRUE(allowed.has_value()) << allowed.error().text();
  EXPECT_GT(allowed->resources->spill_bytes(), 0);
}

TEST_F(NvrtcToolchainTest, RefusesSerialisedWgmmaAndIgnoredRegisterRequests) {
  const std::pair<const char*, const char*> cases[] = {{kSerialised, "wgmma.mma_async instructions are serialized"},
                                                       {kIgnoredRegisters, "'setmaxnreg' ignored"}};
  for (const auto& [text, words] : cases) {
    Source source = cuda_source(text);
    source.spill_limit_bytes = 1 << 20;
    const auto refused = compile(source);
    ASSERT_FALSE(refused.has_value()) << words;
    EXPECT_EQ(refused.error().code, ErrorCode::compile_failed);
    EXPECT_NE(refused.error().message.find(words), std::string::npos) << refused.error().message;
  }
}

TEST_F(NvrtcToolchainTest, QuotesTheCompiler) {
  const auto syntax = compile(cuda_source("extern \"C\" __global__ void k(float* p) { p[0] = undefined_name; }"));
  ASSERT_FALSE(syntax.has_value());
  EXPECT_EQ(syntax.error().code, ErrorCode::compile_failed);
  EXPECT_NE(syntax.error().message.find("k.cu(1): error: identifier \"undefined_name\" is undefined"),
            std::string::npos)
      << syntax.error().message;
  const auto assembly = compile(cuda_source("extern \"C\" __global__ void k() { asm volatile(\"bogus.op 1;\"); }"));
  ASSERT_FALSE(assembly.has_value());
  EXPECT_EQ(assembly.error().code, ErrorCode::compile_failed);
  EXPECT_NE(assembly.error().message.find("bogus"), std::string::npos);
  const auto other = compile(cuda_source("extern \"C\" __global__ void other() {}"));
  ASSERT_FALSE(other.has_value());
  EXPECT_NE(other.error().message.find("does not define k"), std::string::npos);
}

TEST_F(NvrtcToolchainTest, RefusesWhatItCannotCompile) {
  Source source = cuda_source(kAdd);
  source.options.push_back("--no-such-option");
  auto refused = compile(source);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(refused.error().message.find("--no-such-option"), std::string::npos) << refused.error().message;

  source = cuda_source(kAdd);
  source.options.push_back("--gpu-architecture=sm_80");
  EXPECT_EQ(compile(source).error().code, ErrorCode::invalid_argument);

  EXPECT_EQ(compile(cuda_source(kAdd, "sm_1")).error().code, ErrorCode::invalid_argument);
  source = cuda_source(kAdd);
  source.language = Language::cpp;
  EXPECT_EQ(compile(source).error().code, ErrorCode::invalid_argument);
}

TEST_F(NvrtcToolchainTest, ObeysAStopRequestAndTheTimeLimit) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(compile(cuda_source(kAdd), {.stop = stop.get_token()}).error().code, ErrorCode::cancelled);
  if (toolchain_->library().set_flow_callback == nullptr) GTEST_SKIP() << "NVRTC before 12.8 cannot be interrupted";
  const auto late = compile(cuda_source(kSpills), {.time = 0ms});
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().code, ErrorCode::timeout);
  // One that was cancelled leaves the compiler in order.
  EXPECT_TRUE(compile(cuda_source(kAdd)).has_value());
}

TEST_F(NvrtcToolchainTest, CompilesInSeveralThreadsAtOnce) {
  std::vector<Result<Compiled>> results(8, fail(ErrorCode::internal, "not run"));
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < results.size(); ++t)
      threads.emplace_back([&, t] { results[t] = compile(cuda_source(kAdd + std::string(t, '\n'))); });
  }
  for (const auto& result : results) {
    ASSERT_TRUE(result.has_value()) << result.error().text();
    EXPECT_EQ(result->binary, results[0]->binary) << "white space changed the binary";
  }
}

TEST_F(NvrtcToolchainTest, TheReportIsKeptInTheStore) {
  const auto directory = TemporaryDirectory::create("tilesmith-nvrtc-store-", "/tmp").value();
  const auto store = Store::open(directory.path() / "store").value();
  const auto built = build(*store, *toolchain_, cuda_source(kAdd));
  ASSERT_TRUE(built.has_value()) << built.error().text();
  ASSERT_TRUE(built->resources.has_value());
  EXPECT_FALSE(built->from_store);
  const auto found = build(*store, *toolchain_, cuda_source(kAdd));
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(found->from_store);
  EXPECT_EQ(found->resources, built->resources);

  EXPECT_FALSE(build(*store, *toolchain_, cuda_source(kSerialised)).has_value());
  const std::vector<StoredEntry> entries = store->entries();
  ASSERT_EQ(entries.size(), 2u);
  for (const StoredEntry& entry : entries) {
    EXPECT_EQ(entry.name, "a_kernel");
    EXPECT_EQ(entry.arch, "sm_90a");
    if (!entry.failure) {
      EXPECT_EQ(entry.binary.resources, built->resources);
    }
  }
  EXPECT_NE(entries[0].failure.has_value(), entries[1].failure.has_value());
}

TEST_F(NvrtcToolchainTest, ARealKernelIsHealthy) {
  Source source = cuda_source(R"(
namespace ts::cfg {
constexpr bool kBf16 = true;
constexpr int kHeadDimQk = 64, kHeadDimV = 64, kWarpgroups = 2, kTileN = 128, kStages = 2, kQStages = 1;
constexpr int kBlocksPerSm = 1, kPackGqa = 1, kBiasStages = 0;
constexpr bool kPingPong = false, kDynamicScheduler = true, kLateWait = false, kLateStore = true;
constexpr bool kMaskRight = false, kMaskLeft = false, kGroupMode = false, kLse = true, kSink = false;
constexpr bool kSoftCap = false, kBias = false, kAlibi = false, kDropout = false, kNegativeScale = false;
constexpr bool kFp8 = false, kBlockScale = false, kPaged = false, kCacheFp8 = false;
constexpr bool kCacheInt8 = false, kPageScale = false;
}  // namespace ts::cfg
#include "attention/hopper/attention_fwd.cuh"
)");
  source.entry_symbol = "ts_attention_fwd";
  source.options = {"-std=c++17", "-default-device", std::string("-I") + TILESMITH_SOURCE_DIR + "/kernels/cuda"};
  const auto compiled = compile(source);
  ASSERT_TRUE(compiled.has_value()) << compiled.error().text();
  const FunctionResources* kernel = compiled->resources->kernel("ts_attention_fwd");
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(kernel->registers, 168);  // 65536 registers among 384 threads
}

TEST(NvrtcLibrary, ANamedLibraryIsTheOnlyOneTried) {
  const ScopedVariable variable("TILESMITH_NVRTC", "/nonexistent/libnvrtc.so");
  const auto library = NvrtcLibrary::find();
  ASSERT_FALSE(library.has_value());
  EXPECT_EQ(library.error().code, ErrorCode::not_found);
  EXPECT_TRUE(library.error().message.starts_with("TILESMITH_NVRTC: cannot open NVRTC: /nonexistent/libnvrtc.so"))
      << library.error().message;
  EXPECT_NE(library.error().hint.find("pip install nvidia-cuda-nvrtc"), std::string::npos);
}

TEST(NvrtcLibrary, AnotherLibraryIsNoCompiler) {
  const auto library = NvrtcLibrary::open("libc.so.6");
  ASSERT_FALSE(library.has_value());
  EXPECT_EQ(library.error().code, ErrorCode::unsupported);
}

/// The fake compiler's path.
std::string fake() {
  return TILESMITH_FAKE_NVRTC;
}

TEST(NvrtcLibrary, IsLookedForWhereTheUserSaysAndInAVirtualEnvironmentsPackages) {
  const auto directory = TemporaryDirectory::create("tilesmith-nvrtc-").value();
  const std::string root = directory.path();
  const ScopedVariable home("CUDA_HOME", (root + "/toolkit").c_str()), path("CUDA_PATH", nullptr);
  const ScopedVariable environment("VIRTUAL_ENV", root.c_str());
  const std::vector<std::string> expected = {
      root + "/toolkit/lib64/libnvrtc.so", root + "/lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc.so.13",
      root + "/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12"};
  for (const std::string& file : expected) {
    fs::create_directories(fs::path(file).parent_path());
    fs::copy_file(fake(), file);
  }
  std::vector<std::string> ours;
  for (const std::string& candidate : nvrtc_candidates())
    if (candidate.starts_with(root)) ours.push_back(candidate);
  EXPECT_EQ(std::set(ours.begin(), ours.end()), std::set(expected.begin(), expected.end()));
  ASSERT_EQ(ours.size(), 3u);
  EXPECT_EQ(ours[0], expected[0]);
  EXPECT_EQ(nvrtc_candidates()[0], "libnvrtc.so") << "the loader's path comes first";
  const auto library = NvrtcLibrary::open(ours[1]);
  ASSERT_TRUE(library.has_value()) << library.error().text();
  EXPECT_EQ(library->path(), ours[1]);
}

TEST(NvrtcLibrary, ToldApartByVersionAndBuild) {
  const auto library = NvrtcLibrary::open(fake());
  ASSERT_TRUE(library.has_value()) << library.error().text();
  EXPECT_TRUE(library->identity().starts_with("NVRTC 12.3 build ")) << library->identity();
  EXPECT_GT(library->identity().size(), std::string("NVRTC 12.3 build ").size() + 16);
}

TEST(NvrtcLibrary, AnOldOneIsRefusedWithItsVersion) {
  const ScopedVariable old("FAKE_NVRTC_VERSION", "11.8");
  const auto library = NvrtcLibrary::open(fake());
  ASSERT_FALSE(library.has_value());
  EXPECT_EQ(library.error().code, ErrorCode::unsupported);
  EXPECT_NE(library.error().message.find("NVRTC 11.8"), std::string::npos) << library.error().message;
}

TEST(NvrtcToolchainFaults, EachFailureOfTheCompilerIsItsOwnError) {
  const auto toolchain = NvrtcToolchain::use(fake()).value();
  const std::pair<const char*, ErrorCode> cases[] = {{"1", ErrorCode::out_of_memory},
                                                     {"5", ErrorCode::invalid_argument},
                                                     {"6", ErrorCode::compile_failed},
                                                     {"11", ErrorCode::internal},
                                                     {"0", ErrorCode::internal}};  // success and no cubin
  const Source source = cuda_source(kAdd);
  const Source* one[] = {&source};
  for (const auto& [code, expected] : cases) {
    const ScopedVariable result("FAKE_NVRTC_RESULT", code);
    const auto compiled = toolchain->compile(one, {});
    ASSERT_FALSE(compiled.has_value()) << code;
    EXPECT_EQ(compiled.error().code, expected) << compiled.error().text();
  }
}

// NVRTC gives what it finds in its own cache without a report: then nothing says that the kernel does not spill.
TEST(NvrtcToolchainFaults, ABinaryWithoutAReportIsRefused) {
  const auto toolchain = NvrtcToolchain::use(fake()).value();
  const ScopedVariable cubin("FAKE_NVRTC_CUBIN", "1");
  const Source source = cuda_source(kAdd);
  const Source* one[] = {&source};
  const auto compiled = toolchain->compile(one, {});
  ASSERT_FALSE(compiled.has_value());
  EXPECT_EQ(compiled.error().code, ErrorCode::internal);
  EXPECT_NE(compiled.error().message.find("did not report"), std::string::npos) << compiled.error().message;
}

}  // namespace
}  // namespace tilesmith
