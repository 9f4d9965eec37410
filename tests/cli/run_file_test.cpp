// tilesmith run --file: a problem a line; bench takes the same files.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/json.hpp"
#include "cli/program.hpp"
#include "dispatch/test_store.hpp"

namespace tilesmith {
namespace {
using testing::run;

class RunFile : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return (directory_.path() / name).string(); }
  [[nodiscard]] std::string file(const std::string& text) const {
    EXPECT_TRUE(write_file_atomic(path("cases.txt"), text));
    return path("cases.txt");
  }

  TemporaryDirectory directory_ = TemporaryDirectory::create("tilesmith-cases-").value();
};

TEST_F(RunFile, EveryLineIsRunAndJudged) {
  const std::string name = file(
      "# two operations\n\ngemm -m 3 -n 5 -k 7 --dtype fp32\ngemm -m 3 --dtype tf32 --packed  # no CPU kernel\n"
      "attention_fwd --seqlen-q 9 --head-dim-qk 64 --dtype fp32\n");
  const ProcessOutcome outcome = run("run --verify --no-time --file " + name);
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_NE(outcome.output.find("passed      " + name + ":3: gemm -m 3 -n 5 -k 7 --dtype fp32\n"), std::string::npos)
      << outcome.output;
  EXPECT_NE(outcome.output.find("unsupported " + name + ":4: gemm -m 3"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("passed      " + name + ":5: attention_fwd"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("3 lines: 0 failed, 1 unsupported on cpu"), std::string::npos) << outcome.output;
  const nlohmann::json json = testing::document(run("run --verify --no-time --json --file " + name));
  ASSERT_EQ(json.size(), 3u);
  EXPECT_EQ(json[0]["result"], "passed");
  EXPECT_EQ(json[1]["result"], "unsupported");
  EXPECT_NE(json[1]["reason"].get<std::string>().find("tf32"), std::string::npos) << json[1];
  EXPECT_EQ(json[2]["line"], 5);
}

TEST_F(RunFile, AWrongResultIsAFailureThatSaysHowToRepeatIt) {
  const testing::EmptyStore store;
  const testing::ScopedVariable compiler(
      "TILESMITH_CXX", std::string(TILESMITH_SOURCE_DIR) + "/tests/sweep/fake_compilers/makes_bad_kernels");
  // A kernel that the compiler spoils, whatever this machine would choose.
  const std::string kernel =
      "gemm_standard_a_fp32_b_fp32_c_fp32_aux_fp32_bias_fp32_with_bias_clamp_blocked_fma_tile48x528x256_on_x86_64_v3";
  const std::string line = "gemm -m 33 -n 70 -k 40 --dtype fp32 --epilogue bias,clamp --clamp=-2,3 --seed 7";
  const ProcessOutcome outcome =
      run("run --verify --no-time --threads 1 --kernel " + kernel + " --file " + file(line + "\n"));
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_NE(outcome.output.find("failed "), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.errors.find("repeat with: tilesmith run gemm "), std::string::npos) << outcome.errors;
  EXPECT_NE(outcome.errors.find(" --kernel " + kernel), std::string::npos) << outcome.errors;
  EXPECT_NE(outcome.errors.find("1 of 1 lines failed"), std::string::npos) << outcome.errors;
}

TEST_F(RunFile, AFileOfWhichNothingRanIsAFailure) {
  for (const std::string text : {"", "# nothing\n", "gemm --dtype tf32 --packed\n"}) {
    const ProcessOutcome outcome = run("run --verify --no-time --file " + file(text));
    EXPECT_EQ(outcome.code, 1) << text << outcome.output;
    EXPECT_NE(outcome.errors.find("no line ran"), std::string::npos) << outcome.errors;
  }
  const ProcessOutcome typo = run("run --file " + file("gemm\ngemm --btach 2\n"));
  EXPECT_EQ(typo.code, 2);
  EXPECT_NE(typo.errors.find("cases.txt:2: gemm has no option --btach"), std::string::npos) << typo.errors;
  EXPECT_NE(typo.errors.find("--batch"), std::string::npos) << typo.errors;
}

TEST_F(RunFile, ABenchTakesTheLinesOfItsOperation) {
  const std::string name = file(
      "gemm -m 3 -n 5 -k 7\nattention_fwd --seqlen-q 9 --seqlen-k 30 --head-dim-qk 64 --random-bias\n"
      "gemm -m 3 -n 5 -k 7 --seed 2\ngemm -m 4 -n 8 -k 8\n");
  const nlohmann::json gemm = testing::document(run("bench --op gemm --dry-run --shapes " + name));
  ASSERT_EQ(gemm.size(), 2u) << "the third line is the first one's problem";
  EXPECT_EQ(gemm[0]["unaligned"], true);
  EXPECT_EQ(gemm[1]["unaligned"], false);
  const nlohmann::json attention = testing::document(run("bench --dry-run --shapes " + name));
  ASSERT_EQ(attention.size(), 1u);
  EXPECT_EQ(attention[0]["unaligned_bias"], true) << "rows of 30 floats: the problem that is planned says so";
}

TEST_F(RunFile, TheNetworksOfConvolutionsAreProblems) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TILESMITH_SOURCE_DIR "/data/bench/conv")) {
    std::ifstream lines(entry.path());
    size_t problems = 0;
    for (std::string line; std::getline(lines, line);) problems += line.starts_with("conv ") ? 1 : 0;
    const nlohmann::json told = testing::document(run("bench --op conv --dry-run --shapes " + entry.path().string()));
    EXPECT_EQ(told.size(), problems) << entry.path();
    EXPECT_GE(problems, 40u) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 9);
}

}  // namespace
}  // namespace tilesmith
