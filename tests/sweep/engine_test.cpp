// The engine on kernels that go wrong. A compiler that makes bad kernels of some tiles stands in for the system's.
#include "sweep/engine.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/file.hpp"
#include "dispatch/test_store.hpp"
#include "jit/store.hpp"
#include "sweep/csv_journal.hpp"

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
          Operation::attention, "test",
          R"({"trait_config": {"arch": {"values": ["x86_64_v3"]}, "pipeline": {"values": ["flash"]}, "tile_n": {"values": [)" +
              tiles_n + R"(]},
                                                  "tile_m": {"values": [)" +
              tiles_m + "]}}}")
          .value();
  options.problems = std::vector{small(33)};
  options.verify = true;
  options.threads = 1;
  options.measure.min_samples = options.measure.max_samples = 3;
  return options;
}

std::vector<AttentionProblem>& attention(BenchOptions& options) {
  return std::get<std::vector<AttentionProblem>>(options.problems);
}

TEST(Engine, ABadKernelIsRecordedAndTheRestGoesOn) {
  const testing::ScopedVariable compiler(
      "TILESMITH_CXX", std::string(TILESMITH_SOURCE_DIR) + "/tests/sweep/fake_compilers/makes_bad_kernels");
  BenchOptions options = options_for("16, 24, 48", "64, 128");
  attention(options).push_back(small(34));
  options.limit = std::chrono::seconds(3);
  std::map<std::tuple<std::int64_t, int, int>, BenchRow> rows;
  const auto summary = run_bench(options, {.row = [&](const BenchRow& row) {
                                   rows[{std::get<AttentionProblem>(row.problem).seqlen_q,
                                         row.recipe.main().algorithm.tile[0], row.recipe.main().algorithm.tile[1]}] =
                                       row;
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
    ASSERT_TRUE(at(48, 128).timing && at(48, 128).errors.worst() != nullptr);
    EXPECT_GT(at(48, 128).timing->median_s, 0);
    EXPECT_LT(at(48, 128).errors.worst()->max_abs, 1e-4);
  }
  EXPECT_EQ(summary->rows, rows.size());
  EXPECT_EQ(summary->wrong, 2u);
  EXPECT_EQ(summary->failed, 6u);
}

TEST(Engine, BadGemmKernelsAreRecordedToo) {
  const testing::ScopedVariable compiler(
      "TILESMITH_CXX", std::string(TILESMITH_SOURCE_DIR) + "/tests/sweep/fake_compilers/makes_bad_kernels");
  BenchOptions options = options_for("24, 48", "264");
  options.config = BenchConfig::parse(Operation::gemm, "test",
                                      R"({"trait_config": {"arch": {"values": ["x86_64_v3"]},
                                          "pipeline": {"values": ["blocked"]}}})")
                       .value();
  options.problems = std::vector{gemm_problem(DataType::fp32, 33, 70, 40)};
  options.limit = std::chrono::seconds(3);
  options.naive = true;
  std::map<std::tuple<int, int, int>, BenchRow> rows;
  const auto summary = run_bench(options, {.row = [&](const BenchRow& row) {
                                   const auto& tile = row.recipe.main().algorithm.tile;
                                   rows[{tile[0], tile[1], tile[2]}] = row;
                                 }});
  ASSERT_TRUE(summary) << summary.error().text();
  EXPECT_EQ(rows.at({24, 264, 256}).status, RowStatus::runtime);
  EXPECT_EQ(rows.at({24, 264, 512}).status, RowStatus::timeout);
  EXPECT_EQ(rows.at({48, 528, 256}).status, RowStatus::wrong);
  EXPECT_EQ(rows.at({48, 264, 512}).status, RowStatus::compile);
  const BenchRow& good = rows.at({24, 528, 512});
  EXPECT_EQ(good.status, RowStatus::correct) << good.message;
  ASSERT_TRUE(good.timing && good.errors.worst() != nullptr);
  EXPECT_EQ(good.timing->flops, 2.0 * 33 * 70 * 40);
  EXPECT_EQ(good.timing->bytes, 4.0 * (33 * 40 + 40 * 70 + 33 * 70));
  EXPECT_GT(good.roofline_percent, 0);
  std::set<int> ranks;
  for (const auto& [tile, row] : rows) EXPECT_TRUE(ranks.insert(row.rank).second) << "each has a place of its own";
  EXPECT_GT(good.naive_s, 0);
  EXPECT_LT(good.errors.worst()->max_abs, 1e-4);
  EXPECT_EQ(summary->wrong, 1u);
  EXPECT_EQ(summary->failed, 3u);
}

TEST(Engine, EveryKindOfGemmIsRightAndResumed) {
  const TemporaryDirectory directory = TemporaryDirectory::create("tilesmith-engine-").value();
  BenchOptions options;
  options.csv = (directory.path() / "rows.csv").string();
  options.verify = true;
  options.threads = 1;
  options.max_kernels = 1;
  options.measure.min_samples = options.measure.max_samples = 2;
  GemmProblem fused = gemm_problem(DataType::bf16, 9, 30, 40);
  fused.batch = 2;
  fused.order_b = MatrixOrder::row;
  fused.beta = true;
  fused.epilogue = {EpilogueOp::bias, EpilogueOp::gelu};
  GemmProblem unknown = gemm_problem(DataType::tf32, 8, 8, 8);
  unknown.packed_b = true;
  GemmProblem gated = gemm_problem(DataType::bf16, 8, 7, 8);
  gated.epilogue = {EpilogueOp::swiglu};
  GemmProblem packed = fused;
  packed.packed_b = true;
  options.problems = std::vector{fused, packed, gemm_problem(DataType::int8, 20, 33, 64), unknown, gated};
  std::vector<std::string> reasons;
  std::vector<bool> reads_packed;
  const BenchProgress progress{
      .row =
          [&](const BenchRow& row) {
            EXPECT_EQ(row.status, RowStatus::correct) << row.message;
            EXPECT_TRUE(row.timing.has_value());
            reads_packed.push_back(row.recipe.main().algorithm.packed_b);
          },
      .skipped = [&](const BenchProblem&, const Error& error) { reasons.push_back(error.message); }};
  auto summary = run_bench(options, progress);
  ASSERT_TRUE(summary) << summary.error().text();
  EXPECT_EQ(summary->rows, 3u);
  EXPECT_EQ(reads_packed, (std::vector{false, true, false}));
  ASSERT_EQ(reasons.size(), 2u);
  EXPECT_NE(reasons[0].find("tf32"), std::string::npos) << reasons[0];
  EXPECT_NE(reasons[1].find("pairs of columns"), std::string::npos) << reasons[1];
  options.resume = true;
  summary = run_bench(options, progress);
  ASSERT_TRUE(summary) << summary.error().text();
  EXPECT_EQ(summary->resumed, 3u);
  EXPECT_EQ(summary->rows, 0u);
  options.problems = std::vector{small(33)};
  EXPECT_FALSE(run_bench(options, {})) << "results of GEMM and of attention in one file";
}

TEST(Engine, TheProblemThatIsMeasuredIsTheOneThatIsPlanned) {
  BenchOptions options = options_for("48");
  attention(options).front().bias = BiasKind::elementwise;  // of 70 keys: no multiple of 16 bytes
  std::vector<BenchRow> rows;
  ASSERT_TRUE(run_bench(options, {.row = [&](const BenchRow& row) { rows.push_back(row); }}));
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].status, RowStatus::correct) << rows[0].message;
  EXPECT_TRUE(std::get<AttentionProblem>(rows[0].problem).unaligned_bias);
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
  attention(options).push_back(small(35));
  summary = run_bench(options, {});
  ASSERT_TRUE(summary) << summary.error().text();
  EXPECT_EQ(summary->resumed, 2u);
  EXPECT_EQ(summary->rows, 2u);
  EXPECT_EQ(CsvJournal::open(options.csv, "attention_fwd", true)->size(), 4u);
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
  EXPECT_FALSE(summary->peaks);
}

BenchOptions packed_options() {
  BenchOptions options;
  options.verify = true;
  options.threads = 1;
  options.max_kernels = 1;
  options.measure.min_samples = options.measure.max_samples = 2;
  GemmProblem packed = gemm_problem(DataType::fp8, 9, 30, 40);  // of which no kernel is linked in
  packed.packed_b = true;
  packed.epilogue = {EpilogueOp::bias, EpilogueOp::gelu};
  options.problems = std::vector{packed};
  return options;
}

TEST(Engine, CompileOnlyLeavesNothingToCompileOfPackedProblems) {
  const testing::EmptyStore empty;
  BenchOptions options = packed_options();
  options.compile_only = true;
  auto summary = run_bench(options, {});
  ASSERT_TRUE(summary) << summary.error().text();
  EXPECT_EQ(summary->rows, 1u) << "the kernel that packs is no candidate";
  const auto entries = [] { return Store::open().value()->stats().value().entries; };
  const std::uint64_t compiled = entries();
  EXPECT_GE(compiled, 1u);
  options.compile_only = false;
  const auto expect_correct = [](const BenchRow& row) { EXPECT_EQ(row.status, RowStatus::correct) << row.message; };
  summary = run_bench(options, {.row = expect_correct});
  ASSERT_TRUE(summary) << summary.error().text();
  EXPECT_EQ(summary->rows, 1u);
  EXPECT_EQ(entries(), compiled);
}

TEST(Engine, AKernelThatPacksAndCannotBeBuiltFailsItsProblem) {
  const testing::EmptyStore empty;
  const testing::ScopedVariable compiler(
      "TILESMITH_CXX", std::string(TILESMITH_SOURCE_DIR) + "/tests/sweep/fake_compilers/refuses_to_pack");
  for (const bool compile_only : {true, false}) {
    BenchOptions options = packed_options();
    options.compile_only = compile_only;
    const auto summary = run_bench(options, {.row = [](const BenchRow& row) {
                                     EXPECT_EQ(row.status, RowStatus::compile);
                                     EXPECT_TRUE(row.recipe.main().algorithm.packed_b);
                                     EXPECT_NE(row.message.find("no packing"), std::string::npos) << row.message;
                                   }});
    ASSERT_TRUE(summary) << summary.error().text();
    EXPECT_EQ(summary->rows, 1u);
    EXPECT_EQ(summary->failed, 1u);
  }
}

TEST(Engine, ProblemsWithoutAKernelAreSkippedWithTheReason) {
  BenchOptions options = options_for("48");
  attention(options).front().data_type = DataType::bf8;
  attention(options).push_back(small(3));
  attention(options).back().heads_kv = 3;
  std::vector<std::string> reasons;
  const auto summary = run_bench(
      options, {.skipped = [&](const BenchProblem&, const Error& error) { reasons.push_back(error.message); }});
  ASSERT_TRUE(summary) << summary.error().text();
  EXPECT_EQ(summary->skipped_problems, 2u);
  ASSERT_EQ(reasons.size(), 2u);
  EXPECT_NE(reasons[0].find("does not run on bf8"), std::string::npos);
  EXPECT_NE(reasons[1].find("not a multiple"), std::string::npos);
}

}  // namespace
}  // namespace tilesmith
