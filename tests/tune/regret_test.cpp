// Regret by split samples, on rows whose figures are known.
#include "tune/regret.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/file.hpp"

namespace tilesmith {
namespace {

OracleRow row(std::string problem, std::size_t rank, double predicted, std::vector<double> turns) {
  OracleRow made{.problem = std::move(problem),
                 .family = "few_rows",
                 .device_class = "a class",
                 .candidates = 3,
                 .recipe = {1, rank + 1},
                 .name = "kernel" + std::to_string(rank),
                 .rank = rank,
                 .predicted_s = predicted,
                 .status = OracleStatus::verified,
                 .look_s = turns.empty() ? 9 : turns[0],
                 .turns_s = std::move(turns),
                 .message = {}};
  if (made.turns_s.empty()) made.status = OracleStatus::behind;
  return made;
}

/// Rank 0 takes 2, rank 1 takes 1, rank 2 takes 1.5 and has the least predicted time.
std::vector<OracleRow> three(const std::string& problem) {
  return {row(problem, 0, 5, {2, 2, 2, 2}), row(problem, 1, 6, {1, 1, 1, 1}), row(problem, 2, 4, {1.5, 1.5, 1.5, 1.5})};
}

double mean_of(const std::vector<RegretFigure>& figures, std::string_view policy, std::string_view family = "all") {
  const auto found =
      std::ranges::find_if(figures, [&](const RegretFigure& f) { return f.policy == policy && f.family == family; });
  return found == figures.end() ? -1 : found->mean;
}

TEST(Regret, OfEachPolicyAgainstTheBest) {
  const auto figures = regret_of(three("gemm -m 4 -n 64 -k 64"));
  EXPECT_DOUBLE_EQ(mean_of(figures, "dispatch"), 2);
  EXPECT_DOUBLE_EQ(mean_of(figures, "model"), 1.5);
  EXPECT_DOUBLE_EQ(mean_of(figures, "first 2"), 1);
  EXPECT_DOUBLE_EQ(mean_of(figures, "noise"), 1);
  EXPECT_DOUBLE_EQ(mean_of(figures, "dispatch", "few_rows"), 2);
  const auto figure = std::ranges::find(figures, "dispatch", &RegretFigure::policy);
  EXPECT_EQ(figure->worst_problem, "gemm -m 4 -n 64 -k 64");
}

TEST(Regret, IsJudgedByTheHalfThatDidNotChoose) {
  // Two equal kernels with luck in one half each: the minimum of a half chooses one that is no better in the other.
  const auto figures =
      regret_of(std::vector{row("gemm", 0, 1, {1.0, 1.2, 1.0, 1.2}), row("gemm", 1, 2, {1.2, 1.0, 1.2, 1.0})});
  EXPECT_NEAR(mean_of(figures, "noise"), 1.2, 1e-12);
  // Dispatch's choice is the lucky one of one half: better there by as much as it is worse in the other.
  EXPECT_NEAR(mean_of(figures, "dispatch"), std::sqrt(1.0 / 1.0 * 1.0 / 1.2), 1e-12);
}

TEST(Regret, NearestTakesWhatNeighboursOfItsKindSay) {
  std::vector<OracleRow> rows;
  for (const char* line : {"gemm -m 4 -n 64 -k 64", "gemm -m 8 -n 64 -k 64", "gemm -m 4 -n 64 -k 64 --dtype fp32"})
    for (const OracleRow& each : three(line)) rows.push_back(each);
  const auto figures = regret_of(rows);
  const auto nearest =
      std::ranges::find_if(figures, [](const RegretFigure& f) { return f.policy == "nearest" && f.family == "all"; });
  ASSERT_NE(nearest, figures.end());
  EXPECT_EQ(nearest->problems, 2u);  // the problem of fp32 has no neighbour
  EXPECT_DOUBLE_EQ(nearest->mean, 1);
}

TEST(Regret, OfASetIsThatOfItsFastest) {
  auto rows = three("gemm -m 4 -n 64 -k 64");
  const auto without = regret_of(rows);
  EXPECT_EQ(std::ranges::find(without, "inductor", &RegretFigure::policy)->problems, 0u);
  rows[0].sets = rows[2].sets = "inductor";
  EXPECT_DOUBLE_EQ(mean_of(regret_of(rows), "inductor"), 1.5);
}

TEST(Regret, AProblemWithOneContenderCounts) {
  const auto figures = regret_of(std::vector{row("gemm", 0, 1, {1, 1}), row("gemm", 1, 2, {})});
  EXPECT_DOUBLE_EQ(mean_of(figures, "dispatch"), 1);
  EXPECT_EQ(figures.front().problems, 1u);
}

TEST(Regret, FailedCandidatesCountForNobodyAndThoseBehindByTheirLook) {
  auto rows = three("gemm -m 4 -n 64 -k 64");
  rows[1].status = OracleStatus::failed;
  rows[1].turns_s.clear();
  rows.push_back(row("gemm -m 4 -n 64 -k 64", 3, 1, {}));  // looked at: 9 seconds
  const auto figures = regret_of(rows);
  EXPECT_DOUBLE_EQ(mean_of(figures, "dispatch"), 2 / 1.5);
  EXPECT_DOUBLE_EQ(mean_of(figures, "model"), 9 / 1.5);
}

TEST(OracleFile, KeepsRowsAndCutsOffAProblemThatIsNotWhole) {
  const auto folder = TemporaryDirectory::create("tilesmith-oracle-test-").value();
  const std::string path = (folder.path() / "oracle.csv").string();
  auto rows = three("gemm -m 4 -n 64 -k 64");
  rows[1] = row(rows[1].problem, 1, 6, {});
  rows[2].status = OracleStatus::failed;
  rows[2].turns_s.clear();
  rows[0].sets = "inductor";
  rows[2].message = "two lines,\n\"quoted\"";
  {
    auto file = OracleFile::open(path, false, "# about: a test\n");
    ASSERT_TRUE(file) << file.error().text();
    ASSERT_TRUE(file->append(rows));
  }
  EXPECT_FALSE(OracleFile::open(path, false, ""));
  const std::string whole = read_file(path).value();
  EXPECT_EQ(parse_oracle(path, whole).value(), rows);
  // Killed in the middle of the next problem, at any byte.
  const auto more = three("gemm -m 5 -n 64 -k 64");
  const std::string torn = oracle_line(more[0]) + oracle_line(more[1]);
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{7}, oracle_line(more[0]).size(), torn.size() - 1, torn.size()}) {
    ASSERT_TRUE(write_file_atomic(path, whole + torn.substr(0, bytes)));
    auto file = OracleFile::open(path, true, "# about: more\n");
    ASSERT_TRUE(file) << file.error().text();
    EXPECT_EQ(file->rows(), rows);
    EXPECT_EQ(read_file(path).value(), whole);
  }
  ASSERT_TRUE(OracleFile::open(path, true, "")->append(more));
  EXPECT_EQ(parse_oracle(path, read_file(path).value())->size(), 6u);
  // Killed before the columns were written.
  ASSERT_TRUE(write_file_atomic(path, "# about: a te"));
  ASSERT_TRUE(OracleFile::open(path, true, "# about: new\n"));
  EXPECT_EQ(read_file(path).value(), "# about: new\n" + oracle_header());
  // An older file, without the last column.
  std::string older;
  for (const OracleRow& each : more) older += oracle_line(each).substr(0, oracle_line(each).size() - 2) + "\n";
  const std::string header = oracle_header();
  EXPECT_EQ(parse_oracle("older.csv", header.substr(0, header.rfind(',')) + "\n" + older).value(), more);
  EXPECT_FALSE(parse_oracle("other.csv", "a,b\n1,2\n"));
}

}  // namespace
}  // namespace tilesmith
