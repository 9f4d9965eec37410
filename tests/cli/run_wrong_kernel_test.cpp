// What the program does with a kernel that is wrong: a compiler that changes the source stands for the wrong template.
#include <gtest/gtest.h>

#include "base/json.hpp"
#include "base/npy.hpp"
#include "cli/program.hpp"
#include "dispatch/test_store.hpp"

namespace tilesmith {
namespace {
using testing::run;

class RunWrongKernel : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return (directory_.path() / name).string(); }

  /// From now on this text of sources becomes another one; neither may hold a slash.
  void replace(const std::string& from, const std::string& to) {
    ASSERT_TRUE(write_file_atomic(path("compiler"),
                                  "#!/bin/bash\n"
                                  "for word in \"$@\"; do case \"$word\" in\n"
                                  "  --version) exec g++ --version;;\n"
                                  "  *.cpp) sed -i 's/" +
                                      from + "/" + to + "/' \"$word\";;\n" + "esac; done\nexec g++ \"$@\"\n"));
    std::filesystem::permissions(path("compiler"), std::filesystem::perms::owner_all);
  }
  void makes_results_three_times_too_large() {
    replace("const Vec scale = weight . sum;", "const Vec scale = 3 * weight \\/ sum;");
  }
  [[nodiscard]] ProcessOutcome run_attention(const std::string& more) const {
    return run("run attention_fwd --heads-q 2 --seqlen-q 100 --head-dim-qk 64 --dtype fp32 --no-time --out " +
               path("o.npy") + " --lse " + path("lse.npy") + " " + more);
  }

  TemporaryDirectory directory_ = TemporaryDirectory::create("tilesmith-wrong-").value();
  testing::EmptyStore store_;
  testing::ScopedVariable compiler_{"TILESMITH_CXX", path("compiler")};
};

TEST_F(RunWrongKernel, LeavesNoFileUnlessAsked) {
  makes_results_three_times_too_large();
  ASSERT_TRUE(write_file_atomic(path("lse.npy"), "from before"));
  const ProcessOutcome wrong = run_attention("--verify");
  EXPECT_EQ(wrong.code, 1);
  EXPECT_NE(wrong.errors.find("is wrong"), std::string::npos) << wrong.errors;
  EXPECT_FALSE(std::filesystem::exists(path("o.npy")));
  EXPECT_EQ(read_file(path("lse.npy")), "from before");

  const ProcessOutcome kept = run_attention("--verify --keep-wrong");
  EXPECT_EQ(kept.code, 1);
  EXPECT_TRUE(read_npy(path("o.npy")));
  EXPECT_TRUE(read_npy(path("lse.npy")));

  EXPECT_EQ(run_attention("").code, 0) << "nothing was to be verified";
}

TEST_F(RunWrongKernel, IsFoundWhenItWritesItsInputs) {
  // Zeroes the keys after the last use of them, so that the result is right.
  replace("const Vec scale = weight . sum;",
          "const Vec scale = weight \\/ sum; __builtin_memset(const_cast<void*>(args.k), 0, 256);");
  const ProcessOutcome outcome = run_attention("--verify --threads 1");
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_NE(outcome.errors.find("changed its input k"), std::string::npos) << outcome.errors;
  EXPECT_FALSE(std::filesystem::exists(path("o.npy")));
}

TEST_F(RunWrongKernel, IsFoundWhenItNeverRescales) {
  replace("shrinks ? factor : nullptr", "nullptr");
  EXPECT_EQ(run_attention("--verify --seqlen-k 1000 --seed 3").code, 1);
}

TEST_F(RunWrongKernel, IsFoundWhenItLeavesTheSinkOut) {
  replace("kSink) {", "kSink \\&\\& false) {");
  EXPECT_EQ(run_attention("--verify --seqlen-k 333 --random-sink").code, 1);
}

TEST_F(RunWrongKernel, FailsABenchWhoseCompilerIsBroken) {
  ASSERT_TRUE(write_file_atomic(
      path("compiler"), "#!/bin/bash\n[ \"$1\" = --version ] && exec g++ --version\necho broken >&2\nexit 1\n"));
  std::filesystem::permissions(path("compiler"), std::filesystem::perms::owner_all);
  const ProcessOutcome outcome = run("bench --op attention --max-problems 1 --max-kernels 2 --verify --threads 1");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.errors.find("1 problems have no result"), std::string::npos) << outcome.errors;
}

TEST(Run, AnAllZeroGemmIsMistrusted) {
  const ProcessOutcome outcome = run("run gemm -m 20 -n 30 -k 40 --alpha 0 --verify --no-time --json");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(testing::document(outcome)["verify"]["outcome"], "mistrusted");
}

TEST(Run, ASaturatedGemmIsMistrusted) {
  // Without a scale nearly all int8 sums lie beyond int8, where any wrong sum rounds to the same number.
  const ProcessOutcome outcome =
      run("run gemm -m 20 -n 30 -k 400 --dtype int8 --dtype-out int8 --verify --no-time --json");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(testing::document(outcome)["verify"]["outcome"], "mistrusted");
}

TEST(Run, ChecksNumbersBeforeItMakesInputs) {
  // Inputs of this size would take minutes and a terabyte.
  for (const char* words : {"attention_fwd --batch 4000 --heads-q 128 --seqlen-q 4000 --softcap NaN",
                            "attention_fwd --batch 4000 --heads-q 128 --seqlen-q 4000 --scale inf",
                            "gemm -m 500000 -n 500000 -k 1000000 --alpha NaN"}) {
    const ProcessOutcome outcome = run("run " + std::string(words) + " --no-time --no-build");
    EXPECT_EQ(outcome.code, 2) << words << outcome.errors;
  }
}

}  // namespace
}  // namespace tilesmith
