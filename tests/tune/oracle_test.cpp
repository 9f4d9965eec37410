// An oracle on this machine: a small problem, its file, and a second run that goes on with it.
#include "tune/oracle.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/file.hpp"
#include "dispatch/test_store.hpp"
#include "tilesmith/gemm.hpp"
#include "tune/regret.hpp"

namespace tilesmith {
namespace {

OracleOptions options_for(std::vector<GemmProblem> problems, const std::string& csv) {
  OracleOptions options;
  options.problems = std::move(problems);
  options.threads = 1;
  options.candidates = 3;
  options.kept = 1;
  options.rounds = 2;
  options.cut = 100;
  options.csv = csv;
  return options;
}

TEST(Oracle, MeasuresKeepsAndGoesOn) {
  const auto folder = TemporaryDirectory::create("tilesmith-oracle-test-").value();
  const std::string csv = (folder.path() / "oracle.csv").string();
  const GemmProblem first = gemm_problem(DataType::fp32, 33, 48, 64), second = gemm_problem(DataType::fp32, 35, 48, 64);
  const auto one = measure_all(options_for({first}, csv), {});
  ASSERT_TRUE(one) << one.error().text();
  EXPECT_EQ(one->measured, 1u);
  ASSERT_EQ(one->rows.size(), 3u);
  EXPECT_EQ(one->rows[0].rank, 0u);
  for (const OracleRow& row : one->rows) {
    EXPECT_EQ(row.status, OracleStatus::verified) << row.message;
    EXPECT_EQ(row.turns_s.size(), 2u);
    EXPECT_GT(row.look_s, 0);
  }

  OracleOptions options = options_for({first, second}, csv);
  EXPECT_FALSE(measure_all(options, {}));  // the file holds results
  options.resume = true;
  const auto both = measure_all(options, {});
  ASSERT_TRUE(both) << both.error().text();
  EXPECT_EQ(both->resumed, 1u);
  EXPECT_EQ(both->measured, 1u);
  // Both problems have the same sample of kernels: the same to compile.
  std::vector<Key128> recipes[2];
  for (const OracleRow& row : both->rows) recipes[row.problem == both->rows[0].problem ? 0 : 1].push_back(row.recipe);
  for (auto& each : recipes) std::ranges::sort(each);
  EXPECT_EQ(recipes[0], recipes[1]);
  EXPECT_EQ(parse_oracle(csv, read_file(csv).value())->size(), 6u);
  EXPECT_FALSE(regret_of(both->rows).empty());
}

TEST(Oracle, TimesWhatIsTooLargeForAReferenceUnverifiedAndSkipsWhatHasNoKernel) {
  OracleOptions options =
      options_for({gemm_problem(DataType::fp32, 33, 48, 64), gemm_problem(DataType::fp32, -1, 2, 3)}, {});
  options.verified_flops = 1;
  std::size_t skipped = 0;
  OracleProgress progress;
  progress.skipped = [&](const std::string&, const Error&) { ++skipped; };
  const auto result = measure_all(options, progress);
  ASSERT_TRUE(result) << result.error().text();
  EXPECT_EQ(skipped, 1u);
  for (const OracleRow& row : result->rows) EXPECT_EQ(row.status, OracleStatus::unverified) << row.message;
}

}  // namespace
}  // namespace tilesmith
