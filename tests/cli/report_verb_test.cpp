// compare and report on files that bench could have written; the page in a real browser where there is one.
#include <gtest/gtest.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "cli/program.hpp"

namespace tilesmith {
namespace {

using testing::document;
using testing::run;
using testing::run_by;

std::string csv_of(double scale) {
  std::string text =
      "problem,line,threads,kernel,rank,status,median_ms,spread,samples,tflops,gbps,roofline_percent,message\n";
  for (int i = 1; i <= 20; ++i)
    for (int kernel = 0; kernel < 3; ++kernel)
      text += "p" + std::to_string(i) + ",gemm -m " + std::to_string(i) + ",2,k" + std::to_string(kernel) + "," +
              std::to_string(kernel) + ",correct," + std::to_string(scale * i * (kernel == 1 ? 1.0 : 1.1)) +
              ",0.01,25," + std::to_string(i * 0.1) + "," + std::to_string(200 - i) + "," + std::to_string(40 + i) +
              ",\n";
  return text + "broken,gemm -m 99,2,k0,0,wrong,,,,,,,\"NaN at 3, 4\"\n";
}

class ReportVerb : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(write_file_atomic(path("a.csv"), csv_of(1.0)));
    ASSERT_TRUE(write_file_atomic(path("b.csv"), csv_of(1.2)));
  }
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  TemporaryDirectory folder_ = TemporaryDirectory::create("tilesmith-report-test-").value();
};

TEST_F(ReportVerb, CompareSaysByItsStatusWhetherTheSecondIsSlower) {
  EXPECT_EQ(run("compare " + path("a.csv") + " " + path("a.csv")).code, 0);
  EXPECT_EQ(run("compare " + path("b.csv") + " " + path("a.csv")).code, 0);
  const auto slower = run("compare --json " + path("a.csv") + " " + path("b.csv"));
  EXPECT_EQ(slower.code, 1);
  EXPECT_NEAR(document(slower)["geometric_mean"].get<double>(), 1.2, 1e-6);
  EXPECT_EQ(document(slower)["problems"][0]["verdict"], "slower");
  EXPECT_EQ(run("compare --noise 25 " + path("a.csv") + " " + path("b.csv")).code, 0);
  const auto missing = run("compare " + path("a.csv") + " " + path("none.csv"));
  EXPECT_EQ(missing.code, 1);
  EXPECT_NE(missing.errors.find("none.csv"), std::string::npos);
  EXPECT_EQ(run("compare " + path("a.csv")).code, 2);
}

TEST_F(ReportVerb, ThePageDrawsItselfInABrowser) {
  const auto made = run("report " + path("a.csv") + " " + path("b.csv") + " --html " + path("page.html"));
  ASSERT_EQ(made.code, 0) << made.errors;
  const auto chromium = run_by("command -v chromium", "");
  if (!chromium.succeeded()) GTEST_SKIP() << "no chromium: apt-get install chromium";
  const auto drawn =
      run_by("chromium --headless --no-sandbox --disable-gpu --virtual-time-budget=5000 --dump-dom --user-data-dir=" +
                 path("profile") + " file://" + path("page.html") + " > " + path("dom.html"),
             "");
  ASSERT_TRUE(drawn.succeeded()) << drawn.errors;
  const std::string dom = read_file(path("dom.html")).value();
  const auto count = [&](std::string_view what) {
    std::size_t n = 0;
    for (std::size_t at = 0; (at = dom.find(what, at)) != std::string::npos; ++at) ++n;
    return n;
  };
  EXPECT_EQ(count("<figure>"), 4u) << "roofline, share of the peak, regret, speed beside the first file";
  EXPECT_EQ(count("<circle"), 40u * 3 + 20);
  EXPECT_EQ(count("<tr>"), 2u + 40 + 122) << "heads, the fastest of each problem, every row";
  EXPECT_NE(dom.find("wrong: NaN at 3, 4"), std::string::npos);
}

}  // namespace
}  // namespace tilesmith
