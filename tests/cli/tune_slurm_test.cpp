// tune --slurm on a real cluster of one machine (slurm_cluster.sh).
#include <gtest/gtest.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "cli/program.hpp"

namespace tilesmith {
namespace {

using testing::document;
using testing::run;
using testing::run_by;

TEST(TuneSlurm, AnArrayTunesAndAJobBehindItMerges) {
  const auto folder = TemporaryDirectory::create("tilesmith-tune-slurm-test-").value();
  const auto path = [&](const char* name) { return (folder.path() / name).string(); };
  std::string lines;
  for (int i = 0; i < 4; ++i) lines += "gemm -m " + std::to_string(19 + i) + " -n 24 -k 40 --dtype fp32\n";
  ASSERT_TRUE(write_file_atomic(path("p.txt"), lines));
  const std::string cluster = (std::filesystem::path(__FILE__).parent_path() / "slurm_cluster.sh").string();
  const auto ran =
      run_by(cluster + " " + path("cluster") +
                 " sh -c '\"$0\" \"$@\" || exit 1; i=0; while [ -n \"$(squeue -h)\" ] && [ $i -lt 900 ]; do sleep 0.2; "
                 "i=$((i + 1)); done' "
                 "\"$0\" \"$@\"",
             "tune gemm --threads 1 --candidates 1 --budget 0.1 --slurm 2 --slurm-option=--partition=fast --shapes " +
                 path("p.txt") + " --db " + path("a.db"));
  if (ran.code == 77) GTEST_SKIP() << ran.errors;
  ASSERT_EQ(ran.code, 0) << ran.errors;
  EXPECT_NE(ran.output.find(" tunes in 2 parts, job "), std::string::npos) << ran.output;
  std::string logs;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    if (entry.path().extension() == ".log") logs += read_file(entry.path()).value_or("");
  const auto shown = run("db show --json --db " + path("a.db"));
  ASSERT_EQ(shown.code, 0) << shown.errors << logs;
  EXPECT_EQ(document(shown)["choices"].size(), 4u) << logs;
  EXPECT_EQ(document(shown)["races"], 4);
}

}  // namespace
}  // namespace tilesmith
