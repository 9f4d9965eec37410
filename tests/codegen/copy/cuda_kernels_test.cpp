// The sources of the kernels that copy rows: self-contained, and healthy when compiled. Needs NVRTC and no GPU.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "codegen/copy/cuda.hpp"
#include "codegen/nvrtc_fixture.hpp"

namespace tilesmith {
namespace {

using CudaCopyKernels = testing::NvrtcFixture;

TEST_F(CudaCopyKernels, CompileWithoutSpillsForEveryArchitecture) {
  std::vector<Source> sources;
  const std::vector<CudaSpec> specs = load_cuda_specs().value();
  for (const CudaSpec& spec : specs)
    if (spec.arch.text() == "sm_90a" || spec.arch.text() == "sm_80")
      for (const auto source : {cuda_pad_rows_source, cuda_copy_rows_source}) sources.push_back(source(spec).value());
  ASSERT_EQ(sources.size(), 4u);
  compile_all(sources, [&](std::size_t at, const ResourceReport& report) {
    EXPECT_EQ(sources[at].text.find("#include"), std::string::npos);
    const FunctionResources* const kernel = report.kernel(sources[at].entry_symbol);
    ASSERT_NE(kernel, nullptr) << sources[at].arch;
    EXPECT_EQ(kernel->spill_store_bytes, 0) << sources[at].arch;
    const bool of_heads = sources[at].name == "copy_rows";
    EXPECT_LE(kernel->registers, of_heads ? 64 : 32) << (of_heads ? "four" : "eight") << " blocks of an SM";
  });
}

}  // namespace
}  // namespace tilesmith
