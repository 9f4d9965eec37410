// The engine against the fake CUDA driver: what it plans for a device, without a device.
#include <gtest/gtest.h>

#include "dispatch/test_store.hpp"
#include "sweep/engine.hpp"

namespace tilesmith {
namespace {

class CudaEngine : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { ::setenv("TILESMITH_LIBCUDA", TILESMITH_FAKE_LIBCUDA, 1); }

  /// Rows of every candidate; nothing is compiled, since there is no compiler.
  [[nodiscard]] static std::vector<BenchRow> candidates(std::int64_t seqlen_k) {
    const testing::EmptyStore empty;
    const testing::ScopedVariable no_compiler("TILESMITH_NVRTC", "/nonexistent/libnvrtc.so");
    BenchOptions options;
    options.device = {DeviceKind::cuda, 0};
    options.compile_only = true;
    options.problems = std::vector{AttentionProblem{
        .heads_q = 2, .heads_kv = 2, .seqlen_q = 256, .seqlen_k = seqlen_k, .bias = BiasKind::elementwise}};
    std::vector<BenchRow> rows;
    const auto summary = run_bench(options, {.row = [&](const BenchRow& row) { rows.push_back(row); }});
    EXPECT_TRUE(summary) << summary.error().text();
    return rows;
  }
};

TEST_F(CudaEngine, KernelsThatCopyTheBiasInBlocksArePlannedForAlignedBiasesAlone) {
  const auto copies_blocks = [](const std::vector<BenchRow>& rows) {
    return std::ranges::count_if(rows, [](const BenchRow& row) { return row.recipe.main().algorithm.bias_stages > 0; });
  };
  const std::vector<BenchRow> aligned = candidates(256), unaligned = candidates(257);
  ASSERT_FALSE(aligned.empty());
  ASSERT_FALSE(unaligned.empty());
  EXPECT_GT(copies_blocks(aligned), 0) << "else this test proves nothing";
  EXPECT_EQ(copies_blocks(unaligned), 0);
  EXPECT_FALSE(std::get<AttentionProblem>(aligned[0].problem).unaligned_bias);
  EXPECT_TRUE(std::get<AttentionProblem>(unaligned[0].problem).unaligned_bias);
}

}  // namespace
}  // namespace tilesmith
