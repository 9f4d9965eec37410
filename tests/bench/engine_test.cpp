// The engine on kernels that go wrong. A compiler that makes bad kernels of some tiles stands in for the system's.
#include "bench/engine.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/file.hpp"
#include "bench/csv_journal.hpp"
#include "dispatch/test_store.hpp"

namespace tilesmith {
namespace {

AttentionProblem small(std::int64_t seqlen) {
  return {.data_type = DataType::fp32,
          .heads_q = 2,
          .heads_kv = 1,
          .seqlen_q = seqlen,
          .seqlen_k = 70,
          .head_dim_qk = 64,
          .head_dim_v = 64};
}

BenchOptions options_for(const std::string& tiles_m, const std::string& tiles_n = "64") {
  BenchOptions options;
  options.config =
      BenchConfig::parse(
          "test",
          R"({"trait_config": {"arch": {"values": ["x86_64_v3"]}, "pipeline": {"values": ["flash"]}, "tile_n": {"values": [)" +
              tiles_n + R"(]},
                                                  "tile_m": {"values": [)" +
              tiles_m + "]}}}")
          .value();
  options.problems = {small(33)};
  options.verify = true;
  options.threads = 1;
  options.measure.min_samples = options.measure.max_samples = 3;
  return options;
}

TEST(Engine, ABadKernelIsRecordedAndTheRestGoesOn) {
  const testing::ScopedVariable compiler(
      "TILESMITH_CXX", std::string(TILESMITH_SOURCE_DIR) + "/tests/bench/fake_compilers/makes_bad_kernels");
  BenchOptions options = options_for("16, 24, 48", "64, 128");
  options.problems.push_back(small(34));
  options.limit = std::chrono::seconds(3);
  std::map<std::tuple<std::int64_t, int, int>, BenchRow> rows;
  const auto summary =
      run_bench(options, {.row = [&](const BenchRow& row) {
                  rows[{row.problem.seqlen_q, row.config.algorithm.tile[0], row.config.algorithm.tile[1]}] = row;
                }});
  ASSERT_TRUE(summary) << summary.error().text();
  for (const std::int64_t seqlen : {33, 34}) {
    const auto at = [&](int m, int n) { return rows.at({seqlen, m, n}); };
    EXPECT_EQ(at(16, 64).status, RowStatus::runtime);
    EXPECT_NE(at(16, 64).message.find("killed by signal 4"), std::string::npos) << at(16, 64).message;
    EXPECT_EQ(at(24, 64).status, RowStatus::timeout);
    EXPECT_NE(at(24, 64).message.find("3000 ms"), std::string::npos) << at(24, 64).message;
    EXPECT_EQ(at(48, 64).status, RowStatus::wrong);
    EXPECT_FALSE(at(48, 64).timing) << "the time of a wrong result is no result";
    EXPECT_EQ(at(16, 128).status, RowStatus::compile);
    EXPECT_NE(at(16, 128).message.find("error: no"), std::string::npos) << at(16, 128).message;
    EXPECT_EQ(at(48, 128).status, RowStatus::correct) << at(48, 128).message;
    ASSERT_TRUE(at(48, 128).timing && at(48, 128).error);
    EXPECT_GT(at(48, 128).timing->median_s, 0);
    EXPECT_LT(at(48, 128).error->max_abs, 1e-4);
  }
  EXPECT_EQ(summary->rows, rows.size());
  EXPECT_EQ(summary->wrong, 2u);
  EXPECT_EQ(summary->failed, 6u);
}

TEST(Engine, AResumedBenchRunsWhatIsMissing) {
  const TemporaryDirectory directory = TemporaryDirectory::create("tilesmith-engine-").value();
  BenchOptions options = options_for("24, 48");
  options.csv = (directory.path() / "rows.csv").string();
  auto summary = run_bench(options, {});
  ASSERT_TRUE(summary) << summary.error().text();
  EXPECT_EQ(summary->rows, 2u);
  EXPECT_FALSE(run_bench(options, {})) << "results are not overwritten";
  options.resume = true;
  options.problems.push_back(small(35));
  summary = run_bench(options, {});
  ASSERT_TRUE(summary) << summary.error().text();
  EXPECT_EQ(summary->resumed, 2u);
  EXPECT_EQ(summary->rows, 2u);
  EXPECT_EQ(CsvJournal::open(options.csv, true)->size(), 4u);
}

TEST(Engine, AStoreThatForgetsIsNoObstacle) {
  const testing::EmptyStore empty;
  ASSERT_TRUE(write_new_file(empty.path() / "file", "text"));
  const testing::ScopedVariable cache("TILESMITH_CACHE_DIR", (empty.path() / "file/store").string());
  std::vector<RowStatus> statuses;
  const auto summary =
      run_bench(options_for("48"), {.row = [&](const BenchRow& row) { statuses.push_back(row.status); }});
  ASSERT_TRUE(summary) << summary.error().text();
  EXPECT_EQ(statuses, std::vector{RowStatus::correct});
}

TEST(Engine, CompileOnlyMeasuresNothing) {
  BenchOptions options = options_for("24, 48");
  options.compile_only = true;
  std::size_t done = 0;
  const auto summary =
      run_bench(options, {.building = [&](std::size_t now, std::size_t, std::size_t) { done = now; },
                          .row = [](const BenchRow& row) { EXPECT_EQ(row.status, RowStatus::compiled); }});
  ASSERT_TRUE(summary) << summary.error().text();
  EXPECT_EQ(summary->rows, 2u);
  EXPECT_EQ(done, 2u);
  EXPECT_FALSE(summary->ceilings);
}

TEST(Engine, ProblemsWithoutAKernelAreSkippedWithTheReason) {
  BenchOptions options = options_for("48");
  options.problems.front().head_dim_qk = 36;
  options.problems.push_back(small(3));
  options.problems.back().heads_kv = 3;
  std::vector<std::string> reasons;
  const auto summary = run_bench(
      options, {.skipped = [&](const AttentionProblem&, const Error& error) { reasons.push_back(error.message); }});
  ASSERT_TRUE(summary) << summary.error().text();
  EXPECT_EQ(summary->skipped_problems, 2u);
  ASSERT_EQ(reasons.size(), 2u);
  EXPECT_NE(reasons[0].find("head_dims_fit"), std::string::npos);
  EXPECT_NE(reasons[1].find("not a multiple"), std::string::npos);
}

}  // namespace
}  // namespace tilesmith
