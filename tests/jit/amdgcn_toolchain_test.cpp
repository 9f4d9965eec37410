#include "jit/amdgcn_toolchain.hpp"

#include <gtest/gtest.h>

#include "jit/build.hpp"
#include "jit/fake_toolchain.hpp"

namespace tilesmith {
namespace {
using testing::ScopedVariable;

Source hip_source(std::string text, std::string arch = "gfx942") {
  Source source;
  source.name = "a_kernel";
  source.text = std::move(text);
  source.entry_symbol = "k";
  source.options = {"-std=c++20", "-O3"};
  source.arch = std::move(arch);
  source.language = Language::hip;
  return source;
}

const char* const kAdd = R"(
extern "C" __attribute__((amdgpu_kernel)) void k(float* p) { p[__builtin_amdgcn_workitem_id_x()] += 1.0f; }
)";

/// More values alive than the 128 vector registers that 1024 lanes of 64 leave each.
const char* const kSpills = R"(
extern "C" __attribute__((amdgpu_kernel, amdgpu_flat_work_group_size(1024, 1024))) void k(const float* a, float* b) {
  const int lane = __builtin_amdgcn_workitem_id_x();
  float v[160];
#pragma unroll
  for (int i = 0; i < 160; i++) v[i] = a[lane + i * 1024];
  __builtin_amdgcn_s_barrier();
#pragma unroll
  for (int i = 0; i < 160; i++) b[lane + i * 1024] = v[i] * v[(i * 7 + 3) % 160];
}
)";

/// An array whose index is known at run time only.
const char* const kArray = R"(
extern "C" __attribute__((amdgpu_kernel)) void k(const int* a, volatile int* b) {
  volatile int v[64];
  for (int i = 0; i < 64; i++) v[i] = a[i];
  for (int i = 0; i < 64; i++) b[i] = v[a[i] & 63];
}
)";

class AmdgcnToolchainTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto found = AmdgcnToolchain::find();
    if (!found) GTEST_SKIP() << found.error().text();
    toolchain_ = std::move(*found);
  }
  Result<Compiled> compile(const Source& source) {
    const Source* one[] = {&source};
    return toolchain_->compile(one, {});
  }
  /// The error that compiling gives; an empty one, with a failure of the test, when it succeeds.
  Error refused(const Source& source) {
    auto compiled = compile(source);
    EXPECT_FALSE(compiled.has_value());
    return compiled ? Error{} : compiled.error();
  }
  std::unique_ptr<AmdgcnToolchain> toolchain_;
};

TEST_F(AmdgcnToolchainTest, SaysWhichCompilerAndLinkerItIs) {
  EXPECT_NE(toolchain_->identity().find("clang version"), std::string::npos) << toolchain_->identity();
  EXPECT_NE(toolchain_->identity().find("LLD"), std::string::npos) << toolchain_->identity();
}

TEST_F(AmdgcnToolchainTest, CompilesForBothLineagesAndTellsTheResources) {
  for (const char* arch : {"gfx90a", "gfx942", "gfx1100"}) {
    const auto compiled = compile(hip_source(kAdd, arch));
    ASSERT_TRUE(compiled.has_value()) << compiled.error().text();
    ASSERT_TRUE(compiled->resources.has_value());
    const FunctionResources* kernel = compiled->resources->kernel("k");
    ASSERT_NE(kernel, nullptr);
    EXPECT_GT(kernel->registers, 0);
    EXPECT_EQ(kernel->stack_bytes, 0);
    EXPECT_EQ(compiled->binary, compile(hip_source(kAdd, arch))->binary) << "the same source gives the same bytes";
  }
}

TEST_F(AmdgcnToolchainTest, RefusesSpillsUnlessTheSourceAllowsThem) {
  Source source = hip_source(kSpills);
  const Error error = refused(source);
  EXPECT_EQ(error.code, ErrorCode::compile_failed);
  EXPECT_NE(error.message.find("a_kernel: the compiler reports a loss of performance:\n  k spills registers"),
            std::string::npos)
      << error.message;
  source.spill_limit_bytes = 1 << 20;
  const auto allowed = compile(source);
  ASSERT_TRUE(allowed.has_value()) << allowed.error().text();
  EXPECT_GT(allowed->resources->spill_bytes(), 0);
}

TEST_F(AmdgcnToolchainTest, RefusesMemoryOfEachLane) {
  const Error error = refused(hip_source(kArray));
  EXPECT_EQ(error.code, ErrorCode::compile_failed);
  EXPECT_NE(error.message.find("bytes of memory for each lane"), std::string::npos) << error.message;
}

TEST_F(AmdgcnToolchainTest, ErrorsOfTheSourceAreTheCompilersWords) {
  const Error error = refused(hip_source("int k() { return nothing; }\n"));
  EXPECT_EQ(error.code, ErrorCode::compile_failed);
  EXPECT_NE(error.message.find("undeclared identifier 'nothing'"), std::string::npos) << error.message;
  EXPECT_NE(refused(hip_source("extern \"C\" void other() {}\n")).message.find("does not define the kernel k"),
            std::string::npos);
  EXPECT_NE(refused(hip_source(kAdd, "gfx000")).message.find("gfx000"), std::string::npos);
}

TEST_F(AmdgcnToolchainTest, TheSourceSaysForWhichProcessor) {
  Source source = hip_source(kAdd);
  source.options.emplace_back("-mcpu=gfx90a");
  EXPECT_EQ(refused(source).code, ErrorCode::invalid_argument);
  source = hip_source(kAdd);
  source.language = Language::cuda;
  EXPECT_EQ(refused(source).code, ErrorCode::invalid_argument);
  const Source* two[] = {&source, &source};
  EXPECT_FALSE(toolchain_->compile(two, {}).has_value());
}

TEST_F(AmdgcnToolchainTest, TheStoreKeepsTheReport) {
  const auto directory = TemporaryDirectory::create("tilesmith-amdgcn-store-").value();
  const auto store = Store::open(directory.path() / "store").value();
  ASSERT_TRUE(build(*store, *toolchain_, hip_source(kAdd)).has_value());
  const auto found = build(*store, *toolchain_, hip_source(kAdd));
  ASSERT_TRUE(found.has_value()) << found.error().text();
  EXPECT_TRUE(found->from_store);
  ASSERT_TRUE(found->resources.has_value());
  EXPECT_NE(found->resources->kernel("k"), nullptr);
}

TEST(AmdgcnToolchainFindTest, TheVariableChoosesAndIsNamedInErrors) {
  const ScopedVariable variable("TILESMITH_AMD_CLANG", "/nowhere/clang");
  const auto found = AmdgcnToolchain::find();
  ASSERT_FALSE(found.has_value());
  EXPECT_TRUE(found.error().message.starts_with("TILESMITH_AMD_CLANG: ")) << found.error().message;
}

TEST(AmdgcnToolchainFindTest, WithoutAnyCompilerTheErrorSaysWhatToInstall) {
  const auto empty = TemporaryDirectory::create("tilesmith-no-compiler-").value();
  const ScopedVariable path("PATH", empty.path().c_str());
  const auto found = AmdgcnToolchain::find();
  if (found) GTEST_SKIP() << "ROCm is installed";
  EXPECT_EQ(found.error().code, ErrorCode::not_found);
  EXPECT_NE(found.error().hint.find("install clang and lld"), std::string::npos) << found.error().hint;
}

}  // namespace
}  // namespace tilesmith
