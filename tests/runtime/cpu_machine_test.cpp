#include "runtime/cpu/machine.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/file.hpp"
#include "runtime/cpu/quota.hpp"

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

TEST(CpuMachine, FeaturesAreKnownWithoutALevel) {
  EXPECT_TRUE(missing_features(detect_cpu_machine()->levels.back(), cpu_features()).empty());
}

struct Quota : testing::Test {
  TemporaryDirectory mount = TemporaryDirectory::create("tilesmith-quota").value();
  void write(const char* file, const char* text) const {
    const std::filesystem::path path = mount.path() / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  [[nodiscard]] int processors(std::string_view membership) const { return quota_processors(mount.path(), membership); }
};

TEST_F(Quota, TheSmallestOfAGroupAndThoseAboveItCounts) {
  write("cpu.max", "max 100000\n");
  EXPECT_EQ(processors("0::/\n"), 0);
  write("a.slice/b/cpu.max", "700000 100000\n");
  EXPECT_EQ(processors("0::/a.slice/b\n"), 7);
  EXPECT_EQ(processors("0::/a.slice/b/c\n"), 7) << "a group without the controller";
  EXPECT_EQ(processors("0::/a.slice\n"), 0);
  write("a.slice/cpu.max", "150000 100000\n");
  EXPECT_EQ(processors("0::/a.slice/b\n"), 2);
  write("a.slice/b/cpu.max", "1000 100000\n");
  EXPECT_EQ(processors("0::/a.slice/b\n"), 1);
}

TEST_F(Quota, OfAContainerWhoseGroupsAreNotThere) {
  write("cpu.max", "300000 100000\n");
  EXPECT_EQ(processors("0::/../elsewhere\n"), 3);
  EXPECT_EQ(processors(""), 3);
}

TEST_F(Quota, OfTheFirstVersion) {
  const char* membership = "5:devices:/\n4:cpu,cpuacct:/slurm/job\n1:name=a:b:/\n0::/\n";
  write("cpu,cpuacct/slurm/job/cpu.cfs_quota_us", "-1\n");
  write("cpu,cpuacct/slurm/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(processors(membership), 0);
  write("cpu,cpuacct/slurm/job/cpu.cfs_quota_us", "400000\n");
  EXPECT_EQ(processors(membership), 4);
  write("cpu/slurm/cpu.cfs_quota_us", "100000\n"), write("cpu/slurm/cpu.cfs_period_us", "50000\n");
  EXPECT_EQ(processors(membership), 2) << "under its short name";
  EXPECT_EQ(processors("4:cpuset:/slurm/job\n"), 0);
}

TEST_F(Quota, OfWhatIsNoNumber) {
  for (const char* text : {"", "max", "\xff", "0 100000", "-5 100000", "100000 0", "100000"}) {
    write("cpu.max", text);
    EXPECT_EQ(processors("0::/\nno line\n:\n"), 0) << text;
  }
}

}  // namespace
}  // namespace tilesmith
