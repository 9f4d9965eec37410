// The sources of CUDA's serving kernels: self-contained, and healthy when compiled. Needs NVRTC and no GPU.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "codegen/nvrtc_fixture.hpp"
#include "codegen/serving/cuda.hpp"

namespace tilesmith {
namespace {

const CudaSpec& arch(std::string_view name) {
  static const std::vector<CudaSpec> specs = load_cuda_specs().value();
  for (const CudaSpec& spec : specs)
    if (spec.arch.text() == name) return spec;
  throw std::runtime_error("no such architecture");
}

std::vector<Source> sources_of(const CudaSpec& spec) {
  std::vector<Source> sources;
  for (const DataType type : {DataType::fp32, DataType::fp16, DataType::bf16}) {
    sources.push_back(cuda_merge_states_source(type, spec).value());
    for (const KvElements cache : {KvElements::as_queries, KvElements::fp8, KvElements::int8})
      if (auto source = cuda_append_kv_source(type, cache, spec)) sources.push_back(std::move(*source));
  }
  return sources;
}

TEST(CudaServingSource, IsOneTextWithAName) {
  std::set<std::string> names;
  for (const Source& source : sources_of(arch("sm_90a"))) {
    EXPECT_EQ(source.entry_symbol, "ts_" + source.name);
    EXPECT_EQ(source.text.find("#include"), std::string::npos);
    EXPECT_TRUE(names.insert(source.name).second) << source.name;
  }
  EXPECT_EQ(names.size(), 12U);
}

TEST(CudaServingSource, Fp8NeedsAnArchitectureThatHasIt) {
  const auto refused = cuda_append_kv_source(DataType::bf16, KvElements::fp8, arch("sm_80"));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text().find("fp8 on sm_80"), std::string::npos) << refused.error().text();
  EXPECT_TRUE(cuda_append_kv_source(DataType::bf16, KvElements::int8, arch("sm_80")));
}

using CudaServingKernels = testing::NvrtcFixture;

TEST_F(CudaServingKernels, CompileWithoutSpills) {
  std::vector<Source> sources = sources_of(arch("sm_90a"));
  for (Source& source : sources_of(arch("sm_80"))) sources.push_back(std::move(source));
  compile_all(sources, [&](std::size_t at, const ResourceReport& report) {
    const FunctionResources* const kernel = report.kernel(sources[at].entry_symbol);
    ASSERT_NE(kernel, nullptr) << sources[at].name;
    EXPECT_EQ(kernel->spill_store_bytes, 0) << sources[at].name;
    EXPECT_LE(kernel->registers, 128) << sources[at].name;
  });
}

}  // namespace
}  // namespace tilesmith
