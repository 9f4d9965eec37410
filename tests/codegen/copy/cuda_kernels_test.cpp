// The source of the kernel that copies rows: self-contained, and healthy when compiled. Needs NVRTC and no GPU.
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
      sources.push_back(cuda_pad_rows_source(spec).value());
  ASSERT_EQ(sources.size(), 2u);
  compile_all(sources, [&](std::size_t at, const ResourceReport& report) {
    EXPECT_EQ(sources[at].text.find("#include"), std::string::npos);
    const FunctionResources* const kernel = report.kernel(sources[at].entry_symbol);
    ASSERT_NE(kernel, nullptr) << sources[at].arch;
    EXPECT_EQ(kernel->spill_store_bytes, 0) << sources[at].arch;
    EXPECT_LE(kernel->registers, 32) << "eight blocks of an SM";
  });
}

}  // namespace
}  // namespace tilesmith
