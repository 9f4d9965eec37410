#include "catalog/unused_values.hpp"

#include <gtest/gtest.h>

#include "spec/architectures.hpp"

namespace tilesmith {
namespace {

TEST(UnusedValues, EveryTileOfEverySpecMakesKernels) {
  const std::vector<std::string> archs = own_archs().value();
  for (const std::string& arch : archs) {
    const std::vector<UnusedValue> unused = unused_values(arch).value();
    for (const UnusedValue& each : unused) ADD_FAILURE() << each.where << ": " << each.value << ": " << each.refusal;
  }
}

const CudaSpec& hopper() {
  static const std::vector<CudaSpec> specs = load_cuda_specs().value();
  for (const CudaSpec& spec : specs)
    if (spec.arch.text() == "sm_90a") return spec;
  throw std::runtime_error("no sm_90a");
}

TEST(UnusedValues, AWrongTileIsSaidWithTheRuleThatRefusesIt) {
  CudaSpec spec = hopper();
  spec.attention_fwd[0].tiles[0].tile_n = 500;
  spec.gemm.pipelines[0].tiles.push_back(spec.gemm.pipelines[0].tiles[0]);
  spec.gemm.pipelines[0].tiles.back().tile_n = 500;
  const std::vector<UnusedValue> unused = unused_values(spec);
  ASSERT_EQ(unused.size(), 2u);
  EXPECT_TRUE(unused[0].where.starts_with("cuda/sm_90a.json, attention_fwd, ")) << unused[0].where;
  EXPECT_TRUE(unused[0].where.ends_with(", tile 0")) << unused[0].where;
  EXPECT_TRUE(unused[0].value.ends_with(" x 500")) << unused[0].value;
  EXPECT_TRUE(unused[1].where.starts_with("cuda/sm_90a.json, gemm, ")) << unused[1].where;
  for (const UnusedValue& each : unused) EXPECT_TRUE(each.refusal.starts_with("rule ")) << each.refusal;
}

TEST(UnusedValues, ARowForAHeadDimThatIsNotListedIsSaid) {
  CudaSpec spec = hopper();
  CudaTile row = spec.attention_fwd[0].tiles[0];
  row.head_dim = {spec.head_dim_listed_max + 1, spec.head_dim_listed_max + 8};
  spec.attention_fwd[0].tiles.push_back(row);
  const std::vector<UnusedValue> unused = unused_values(spec);
  ASSERT_EQ(unused.size(), 1u);
  EXPECT_NE(unused[0].refusal.find("head dim"), std::string::npos) << unused[0].refusal;
}

TEST(UnusedValues, AWrongFigureOfACpuLevelIsSaid) {
  std::vector<CpuSpec> levels = load_cpu_specs().value();
  CpuSpec& spec = levels.back();
  spec.gemm[0].pipelines[0].tile_n.push_back(1);
  spec.attention_fwd[0].pipelines[0].tile_m.push_back(999);
  const std::vector<UnusedValue> unused = unused_values(spec);
  ASSERT_EQ(unused.size(), 2u);
  EXPECT_TRUE(unused[0].where.ends_with(", tile_m")) << unused[0].where;
  EXPECT_EQ(unused[0].value, "999");
  EXPECT_TRUE(unused[1].where.ends_with(", tile_n")) << unused[1].where;
  EXPECT_EQ(unused[1].value, "1");
}

TEST(UnusedValues, ArchitecturesWithoutOwnKernelsHaveNone) {
  EXPECT_TRUE(unused_values("gfx950").value().empty());
}

}  // namespace
}  // namespace tilesmith
