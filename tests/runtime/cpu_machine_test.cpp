#include "runtime/cpu/machine.hpp"

#include <gtest/gtest.h>

namespace tilesmith {
namespace {

TEST(CpuMachine, TheMachineAtHandRunsAtLeastOneLevel) {
  const auto machine = detect_cpu_machine();
  ASSERT_TRUE(machine.has_value()) << machine.error().text();
  EXPECT_GE(machine->threads, 1);
  const CpuSpec& highest = machine->levels.front();
  EXPECT_TRUE(missing_features(highest, machine->features).empty());
  for (const ArchName& included : highest.includes) EXPECT_NE(machine->level(included), nullptr) << included.text();
  EXPECT_GT(highest.l2_bytes, 0);
  EXPECT_FALSE(machine->family.empty());
}

TEST(CpuMachine, MissingFeaturesAreNamed) {
  CpuSpec spec;
  spec.features = {"avx2", "amx_tile", "fma"};
  EXPECT_EQ(missing_features(spec, {"fma", "avx2"}), std::vector<std::string>{"amx_tile"});
  EXPECT_TRUE(missing_features(spec, {"fma", "avx2", "amx_tile"}).empty());
}

}  // namespace
}  // namespace tilesmith
