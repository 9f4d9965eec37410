// Results read back, compared and shown.
#include "sweep/results.hpp"

#include <gtest/gtest.h>

#include "base/json.hpp"
#include "sweep/compare.hpp"
#include "sweep/report_page.hpp"
#include "sweep/sample_row.hpp"

namespace tilesmith {
namespace {

ResultRow result_row(const std::string& line, const std::string& kernel, double median_s, double spread = 0.01,
                     const std::string& status = "correct") {
  return {.problem = line,
          .line = line,
          .kernel = kernel,
          .status = status,
          .message = {},
          .threads = 1,
          .median_s = median_s,
          .spread = spread,
          .samples = 25};
}

TEST(Results, RowsComeBackFromBothKindsOfFile) {
  BenchRow row = testing::sample_gemm_row(3);
  row.message = "a \"quoted\", comma";
  const std::string csv = csv_header("gemm") + "\n" + csv_line(row) + "\n";
  const std::string json = nlohmann::json({{"rows", {to_json(row)}}}).dump();
  for (const std::string& text : {csv, json}) {
    const auto file = parse_results("some.file", text);
    ASSERT_TRUE(file) << file.error().text();
    ASSERT_EQ(file->rows.size(), 1u);
    const ResultRow& back = file->rows.front();
    EXPECT_EQ(back.line, row.line());
    EXPECT_EQ(back.kernel, recipe_name(row.recipe));
    EXPECT_EQ(back.status, name_of(row.status));
    EXPECT_EQ(back.message, row.message);
    EXPECT_EQ(back.threads, row.threads);
    EXPECT_EQ(back.rank, row.rank);
    EXPECT_NEAR(back.median_s, row.timing->median_s, 1e-5 * row.timing->median_s);
    EXPECT_EQ(back.samples, row.timing->samples);
    EXPECT_NEAR(back.tflops, row.timing->gflops() * 1e-3, 1e-4 * back.tflops);
  }
}

TEST(Results, OtherFilesAreRefusedByName) {
  const auto message = [](std::string_view text) {
    const auto file = parse_results("x.csv", text);
    return file ? std::string("accepted") : file.error().message;
  };
  EXPECT_EQ(message(" \n"), "x.csv is empty");
  EXPECT_EQ(message("{\"a\": 1}"), "x.csv: no JSON document of bench results");
  EXPECT_EQ(message("{\"rows\": [3]}"), "x.csv: rows[0] is no object");
  EXPECT_EQ(message("problem,kernel\n"), "x.csv: no column status");
  EXPECT_EQ(message("problem,kernel,status,median_ms\na,b,correct\n"),
            "x.csv: row 1 has 3 cells, the line of names has 4");
  EXPECT_EQ(message("problem,kernel,status,median_ms\n"), "accepted");
  const auto torn = parse_results("x.csv", "# commit: abc\nproblem,kernel,status,median_ms\na,b,correct,2\nc,d,cor");
  ASSERT_TRUE(torn);
  EXPECT_EQ(torn->rows.size(), 1u) << "the torn end of a killed bench is no row";
  EXPECT_EQ(torn->about.at("commit"), "abc");
}

TEST(Compare, TellsWhatIsBeyondNoise) {
  const ResultFile a{.path = "a",
                     .about = {},
                     .rows = {result_row("p", "k1", 1.0), result_row("p", "k2", 0.9), result_row("q", "k1", 1.0),
                              result_row("r", "k1", 1.0), result_row("s", "k1", 1.0), result_row("t", "k1", 1.0),
                              result_row("gone", "k1", 1.0)}};
  const ResultFile b{
      .path = "b",
      .about = {},
      .rows = {result_row("p", "k1", 0.8), result_row("q", "k1", 1.1), result_row("r", "k1", 1.015),
               result_row("s", "k1", 1.1, 0.4), result_row("t", "k1", 0, 0, "wrong"), result_row("new", "k1", 1.0)}};
  const Comparison comparison = compare_results(a, b, false, 0.02);
  std::map<std::string, CompareVerdict> verdicts;
  for (const ComparedProblem& problem : comparison.problems) verdicts[problem.line] = problem.verdict;
  EXPECT_EQ(verdicts.at("p"), CompareVerdict::faster);
  EXPECT_EQ(verdicts.at("q"), CompareVerdict::slower);
  EXPECT_EQ(verdicts.at("r"), CompareVerdict::same) << "1.5 % is less than the least";
  EXPECT_EQ(verdicts.at("s"), CompareVerdict::same) << "a spread of 40 % hides 10 %";
  EXPECT_EQ(verdicts.at("t"), CompareVerdict::lost);
  EXPECT_EQ(comparison.only_a, 1u);
  EXPECT_EQ(comparison.only_b, 1u);
  EXPECT_TRUE(comparison.is_worse());
  EXPECT_EQ(comparison.problems.front().line, "t") << "what was lost comes first";
  EXPECT_EQ(comparison.problems[1].line, "q");
  EXPECT_FALSE(compare_results(a, a, false, 0.02).is_worse());
  EXPECT_NEAR(compare_results(a, a, true, 0.02).geometric_mean, 1, 1e-12);
  // By kernel, p's k1 is compared with k1 and not with the faster k2.
  const Comparison by_kernel = compare_results(a, b, true, 0.02);
  const auto p = std::ranges::find(by_kernel.problems, "p", &ComparedProblem::line);
  EXPECT_NEAR(p->ratio, 0.8, 1e-12);
}

TEST(ReportPage, HoldsTheRowsWhateverTheyContain) {
  const ResultFile file{
      .path = "</script><script>alert(1)</script>", .about = {}, .rows = {result_row("p", "k </script>", 1.0)}};
  const std::string page = report_page(std::vector{file});
  EXPECT_EQ(page.find("@DATA@"), std::string::npos);
  EXPECT_EQ(page.find("alert(1)</script>"), std::string::npos);
  const std::string opening = "type=\"application/json\">";
  const auto begin = page.find(opening) + opening.size();
  const auto data = nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  EXPECT_EQ(data["files"][0]["path"], file.path);
  EXPECT_EQ(data["files"][0]["rows"][0]["kernel"], "k </script>");
  EXPECT_EQ(page.find("http://"), page.find("http://www.w3.org/2000/svg")) << "nothing is fetched";
}

}  // namespace
}  // namespace tilesmith
