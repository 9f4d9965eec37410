// bench with problems on the command line, what its files say of themselves, and its end by a signal.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "cli/program.hpp"
#include "dispatch/test_store.hpp"

namespace tilesmith {
namespace {
using testing::run;

class BenchWords : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path(const char* name) const { return (directory_.path() / name).string(); }
  TemporaryDirectory directory_ = TemporaryDirectory::create("tilesmith-results-").value();
};

TEST_F(BenchWords, ProblemsStandOnTheCommandLine) {
  const nlohmann::json listed = testing::document(run("bench -m 1,8,16:32:16 -n 40 -k 24 --dtype bf16,fp32 --dry-run"));
  ASSERT_EQ(listed.size(), 8u);
  EXPECT_EQ(listed[1]["problem"], "fp32 1x40x24 rcr");
  EXPECT_EQ(testing::document(run("bench --seqlen-q 5,6 --mask none,top_left --dry-run")).size(), 4u);
  for (const auto& [words, says] : {std::pair{"bench -m 4:1:1 --dry-run", "START:END:STEP"},
                                    {"bench -m 4 --shapes x.yaml --dry-run", "--shapes beside problems"},
                                    {"bench --epilog relu", "did you mean"},
                                    {"bench --target-spread 0", "--target-spread"},
                                    {"bench one.json two.json", "two sweep files"}}) {
    const ProcessOutcome outcome = run(words);
    EXPECT_EQ(outcome.code, 2) << words;
    EXPECT_NE(outcome.errors.find(says), std::string::npos) << outcome.errors;
  }
}

TEST_F(BenchWords, ResultsSayWhereTheyComeFrom) {
  const ProcessOutcome bench = run("bench -m 3 -n 20,24 -k 16 --dtype fp32 --max-kernels 1 --verify --csv " +
                                   path("a.csv") + " --json " + path("a.json"));
  ASSERT_EQ(bench.code, 0) << bench.errors;
  const std::string csv = read_file(path("a.csv")).value();
  const nlohmann::json document = nlohmann::json::parse(read_file(path("a.json")).value());
  for (const char* field : {"schema", "version", "date", "host", "device", "threads", "compiler"}) {
    EXPECT_TRUE(document["about"].contains(field)) << field;
    EXPECT_NE(csv.find(fmt::format("# {}: ", field)), std::string::npos) << csv;
  }
  EXPECT_TRUE(document["rows"][0]["line"].get<std::string>().starts_with("gemm -m 3 -n 20"));
  EXPECT_EQ(run("compare " + path("a.csv") + " " + path("a.json")).code, 0) << "the same results in both forms";
}

TEST_F(BenchWords, AnInterruptedBenchSumsUp) {
  const ProcessOutcome outcome = testing::run_by(
      "\"$0\" \"$@\" & child=$!; for i in $(seq 600); do [ \"$(grep -c ^v2: " + path("rows.csv") +
          " 2>/dev/null)\" -ge 1 ] 2>/dev/null && break; sleep 0.1; done; kill -TERM $child; wait $child",
      "bench -m 1:300:1 -n 20 -k 16 --dtype fp32 --max-kernels 1 --csv " + path("rows.csv") + " --json " +
          path("rows.json"));
  EXPECT_EQ(outcome.code, 143) << outcome.errors;
  EXPECT_NE(outcome.output.find("interrupted"), std::string::npos) << outcome.output;
  const std::string csv = read_file(path("rows.csv")).value();
  EXPECT_TRUE(csv.ends_with('\n')) << "whole rows alone";
  const nlohmann::json document = nlohmann::json::parse(read_file(path("rows.json")).value());
  EXPECT_TRUE(document["interrupted"]);
  EXPECT_GE(document["rows"].size(), 1u);
}

}  // namespace
}  // namespace tilesmith
