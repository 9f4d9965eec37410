// tune --slurm on a real cluster of one machine (slurm_cluster.sh).
#include <gtest/gtest.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "cli/program.hpp"
#include "cli/slurm_cluster.hpp"

namespace tilesmith {
namespace {

using testing::document;
using testing::run;

/// sbatch splits the lines of directives at blanks, and fills in what follows a %.
TEST(TuneSlurm, AFolderMayHaveAnyName) {
  const auto folder = TemporaryDirectory::create("tilesmith-tune-slurm-test-").value();
  const std::filesystem::path inside = folder.path() / "5% of \"all\"";
  std::filesystem::create_directory(inside);
  ASSERT_TRUE(write_file_atomic(inside / "p.txt", testing::lines_of_small_products()));
  const auto written = run("tune gemm --slurm 2 --slurm-script --shapes",
                           {(inside / "p.txt").string(), "--db", (inside / "a.db").string()});
  ASSERT_EQ(written.code, 0) << written.errors;
  const std::string script = read_file(inside / "a.db.tune.sbatch").value();
  const std::string quoted = (folder.path() / "5%% of \\\"all\\\"").string();
  EXPECT_NE(script.find("#SBATCH --output=\"" + quoted + "/tilesmith-tune-%A-%a.log\"\n"), std::string::npos) << script;
}

TEST(TuneSlurm, AnArrayTunesAndAJobBehindItMerges) {
  const auto folder = TemporaryDirectory::create("tilesmith-tune-slurm-test-").value();
  const auto path = [&](const char* name) { return (folder.path() / name).string(); };
  ASSERT_TRUE(write_file_atomic(path("p.txt"), testing::lines_of_small_products()));
  const auto ran = testing::run_on_cluster(
      folder.path(),
      "tune gemm --threads 1 --candidates 1 --budget 0.1 --slurm 2 --slurm-option=--partition=fast --shapes " +
          path("p.txt") + " --db " + path("a.db"));
  if (ran.code == 77) GTEST_SKIP() << ran.errors;
  ASSERT_EQ(ran.code, 0) << ran.errors;
  EXPECT_NE(ran.output.find(" tunes in 2 parts, job "), std::string::npos) << ran.output;
  const std::string logs = testing::logs_in(folder.path());
  const auto shown = run("db show --json --db " + path("a.db"));
  ASSERT_EQ(shown.code, 0) << shown.errors << logs;
  EXPECT_EQ(document(shown)["choices"].size(), 4u) << logs;
  EXPECT_EQ(document(shown)["races"], 4);
}

}  // namespace
}  // namespace tilesmith
