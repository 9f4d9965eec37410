// tilesmith sweep --arch: plans and scripts for a chip that is not here; sweep --slurm on a real cluster of one machine
// (slurm_cluster.sh).
#include <gtest/gtest.h>

#include <sstream>

#include "base/file.hpp"
#include "base/json.hpp"
#include "cli/program.hpp"
#include "cli/slurm_cluster.hpp"

namespace tilesmith {
namespace {

using testing::document;
using testing::run;
using testing::run_by;

TEST(SweepPlan, CountsWhatASweepTakesAndHowItsShardsShareIt) {
  for (const std::string chip :
       {"--arch gfx950 --origin ck", "--arch gfx942 --op gemm --origin own", "--arch x86_64_v4 --op gemm"}) {
    const auto plan =
        document(run("sweep --category smoke --compile-only --dry-run --shards 3 --json - --max-kernels 4 " + chip));
    ASSERT_EQ(plan["shards"].size(), 3u) << chip;
    EXPECT_GT(plan["problems"], 10) << chip;
    EXPECT_EQ(plan["rows"].size(), plan["problems"]) << chip;
    std::size_t problems = 0, candidates = 0, kernels = 0;
    double run_s = 0;
    for (const auto& shard : plan["shards"]) {
      problems += shard["problems"].get<std::size_t>();
      candidates += shard["candidates"].get<std::size_t>();
      kernels += shard["kernels"].get<std::size_t>();
      run_s += shard["run_s"].get<double>();
    }
    EXPECT_EQ(problems, plan["problems"]) << chip;
    EXPECT_EQ(candidates, plan["candidates"]) << chip;
    EXPECT_GE(kernels, plan["kernels"]) << chip;  // shards may need the same kernel
    EXPECT_NEAR(run_s, plan["run_s"].get<double>(), 1e-6 * run_s) << chip;
    EXPECT_GT(plan["build_s"], 0) << chip;
    for (const auto& row : plan["rows"]) {
      EXPECT_GE(row["candidates"], 1);
      EXPECT_LE(row["candidates"], 4);
      EXPECT_GE(row["shard"], 1);
      EXPECT_LE(row["shard"], 3);
    }
  }
  // A shard that is asked for by name is the same part.
  const std::string words = "sweep --arch gfx942 --op gemm --origin own --category smoke --dry-run --json - ";
  EXPECT_EQ(document(run(words + "--shard 2/3"))["problems"],
            document(run(words + "--shards 3"))["shards"][1]["problems"]);
  // Each variant of Composable Kernel's attention has instances of its own.
  for (const char* variant : {"splitkv", "pagedkv", "batch_prefill"})
    EXPECT_GT(document(run(std::string("sweep --arch gfx942 --max-problems 40 --dry-run --json - --variant ") +
                           variant))["kernels"],
              0)
        << variant;
  const auto text = run("sweep --arch gfx942 --op gemm --origin own --category smoke --dry-run --shards 2");
  EXPECT_EQ(text.code, 0) << text.errors;
  EXPECT_NE(text.output.find("1/2"), std::string::npos) << text.output;
  EXPECT_NE(text.output.find("problems skipped"), std::string::npos) << text.output;
}

TEST(SweepPlan, RefusesWhatMeansNothingToIt) {
  EXPECT_EQ(run("sweep --arch gfx942 --category smoke").code, 2);
  EXPECT_EQ(run("sweep --arch gfx942 --category smoke --dry-run --csv a.csv").code, 2);
  EXPECT_EQ(run("sweep --arch gfx942 --dry-run --shards 2 --shard 1/2").code, 2);
  EXPECT_EQ(run("sweep --arch gfx94 --dry-run").code, 2);
  EXPECT_EQ(run("sweep --shards 2 --dry-run").code, 2);
  EXPECT_EQ(run("sweep --slurm 2 --category smoke").code, 2);  // no --csv
}

TEST(SweepPlan, BuildsWhatTheCompilerCan) {
  const auto folder = TemporaryDirectory::create("tilesmith-sweep-plan-test-").value();
  ASSERT_TRUE(write_file_atomic(folder.path() / "p.txt", "gemm -m 64 -n 64 -k 64 --dtype bf16\n"));
  const std::string words =
      "sweep --arch gfx942 --op gemm --compile-only --max-kernels 1 --shapes " + (folder.path() / "p.txt").string();
  const auto missing = run_by("TILESMITH_AMD_CLANG=/nowhere \"$0\" \"$@\"", words + " --origin own");
  EXPECT_EQ(missing.code, 1);
  EXPECT_NE(missing.errors.find("/nowhere"), std::string::npos) << missing.errors;
  const auto no_tree = run_by("env -u TILESMITH_CK_DIR \"$0\" \"$@\"", words + " --origin ck");
  EXPECT_EQ(no_tree.code, 1);
  EXPECT_NE(no_tree.errors.find("TILESMITH_CK_DIR"), std::string::npos) << no_tree.errors;
  const auto built = run(words + " --origin own");
  if (built.errors.find("no compiler for AMD GPUs") != std::string::npos) GTEST_SKIP() << built.errors;
  EXPECT_EQ(built.code, 0) << built.errors;
  EXPECT_NE(built.output.find("1 of 1 instances are in the store"), std::string::npos) << built.output;
}

TEST(SweepSlurm, ScriptsOfAPlanBuildItsShards) {
  const auto folder = TemporaryDirectory::create("tilesmith-sweep-slurm-test-").value();
  ASSERT_TRUE(write_file_atomic(folder.path() / "p.txt",
                                "gemm -m 64 -n 64 -k 64 --dtype bf16\ngemm -m 128 -n 64 -k 64 --dtype bf16\n"));
  const auto written = run_by(
      "cd '" + folder.path().string() + "' && \"$0\" \"$@\"",
      "sweep --arch gfx942 --op gemm --origin own --compile-only --max-kernels 1 --shapes p.txt --dry-run --slurm 2");
  ASSERT_EQ(written.code, 0) << written.errors;
  const auto script = folder.path() / "gfx942.smoke.sweep.sbatch";
  const std::string text = read_file(script).value();
  EXPECT_NE(text.find("#SBATCH --array=1-2\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("--dry-run"), std::string::npos) << text;
  // As Slurm does it.
  const auto ran =
      run_by("cd / && for i in 1 2; do SLURM_ARRAY_TASK_ID=$i sh '" + script.string() + "' || exit 1; done", "");
  if (ran.errors.find("no compiler for AMD GPUs") != std::string::npos) GTEST_SKIP() << ran.errors;
  EXPECT_EQ(ran.code, 0) << ran.errors;
}

TEST(SweepSlurm, TheScriptsNamesAreTheOutput) {
  const auto folder = TemporaryDirectory::create("tilesmith-sweep-slurm-test-").value();
  const std::string csv = (folder.path() / "r.csv").string();
  const auto written = run("sweep --op gemm --slurm 2 --slurm-script --csv " + csv);
  ASSERT_EQ(written.code, 0) << written.errors;
  EXPECT_EQ(written.output, csv + ".sweep.sbatch\n" + csv + ".merge.sbatch\n");
  EXPECT_EQ(written.errors, "");
}

TEST(SweepSlurm, AnArrayMeasuresAndAJobBehindItReports) {
  const auto folder = TemporaryDirectory::create("tilesmith-sweep-slurm-test-").value();
  const auto path = [&](const char* name) { return (folder.path() / name).string(); };
  ASSERT_TRUE(write_file_atomic(path("p.txt"), testing::lines_of_small_products()));
  const auto ran = testing::run_on_cluster(
      folder.path(), "sweep --op gemm --threads 1 --max-kernels 1 --slurm 2 --slurm-option=--partition=fast --shapes " +
                         path("p.txt") + " --csv " + path("all.csv"));
  if (ran.code == 77) GTEST_SKIP() << ran.errors;
  ASSERT_EQ(ran.code, 0) << ran.errors;
  EXPECT_NE(ran.output.find(" sweeps in 2 parts, job "), std::string::npos) << ran.output;
  const std::string logs = testing::logs_in(folder.path());
  std::size_t rows = 0;
  for (const char* part : {"all.csv.part-1", "all.csv.part-2"}) {
    std::istringstream text(read_file(path(part)).value_or(""));
    bool is_head = true;
    for (std::string line; std::getline(text, line);) {
      if (line.starts_with('#')) continue;
      rows += !is_head;
      is_head = false;
    }
  }
  EXPECT_EQ(rows, 4u) << logs;
  EXPECT_NE(read_file(path("all.csv.html")).value_or("").find("<html"), std::string::npos) << logs;
}

}  // namespace
}  // namespace tilesmith
