#include "sweep/summary_table.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "problem/describe.hpp"
#include "sweep/sample_row.hpp"

namespace tilesmith {
namespace {

std::string printed(const SummaryTable& table, const BenchSummary& summary) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* out = open_memstream(&text, &size);
  table.print(out, summary);
  std::fclose(out);
  std::string copy(text, size);
  std::free(text);
  return copy;
}

std::string line_with(const std::string& text, const std::string& word) {
  const auto at = text.find(word);
  EXPECT_NE(at, std::string::npos) << word << " in\n" << text;
  return at == std::string::npos ? "" : text.substr(at, text.find('\n', at) - at);
}

BenchRow row(std::int64_t seqlen, double median_s, RowStatus status = RowStatus::correct) {
  BenchRow out = testing::sample_row(seqlen);
  out.status = status;
  out.timing->median_s = median_s;
  out.recipe.steps[0].config.algorithm.tile[0] = static_cast<std::uint16_t>(median_s * 1e6);
  return out;
}

TEST(SummaryTable, ShowsTheFastestCorrectKernelOfEachProblem) {
  SummaryTable table({});
  table.add(row(10, 0.003));
  table.add(row(10, 0.001, RowStatus::wrong));
  table.add(row(10, 0.002));
  table.add(row(20, 0.005));
  BenchSummary summary{.rows = 4, .wrong = 1};
  const std::string text = printed(table, summary);
  const std::string first = line_with(text, describe(row(10, 1).problem));
  EXPECT_NE(first.find("flash fma 2000x64"), std::string::npos) << first;
  EXPECT_NE(first.find("2.000 ms"), std::string::npos) << first;
  EXPECT_NE(first.find("2.000"), std::string::npos) << first;
  EXPECT_NE(first.find("5.00x"), std::string::npos) << "10 ms of the naive computation over 2 ms: " << first;
  EXPECT_NE(first.find("    3  "), std::string::npos) << "three were tried: " << first;
  EXPECT_NE(line_with(text, describe(row(20, 1).problem)).find("5.000 ms"), std::string::npos);
  EXPECT_NE(text.find("4 results, 1 wrong, 0 failed"), std::string::npos) << text;
}

TEST(SummaryTable, SaysSoWhenNothingWorked) {
  SummaryTable table({});
  BenchRow crashed = row(10, 1, RowStatus::runtime);
  crashed.timing.reset();
  table.add(crashed);
  EXPECT_NE(line_with(printed(table, {.rows = 1, .failed = 1}), describe(crashed.problem)).find("none: runtime"),
            std::string::npos);
}

TEST(SummaryTable, AFasterRowWithoutTimeDoesNotWin) {
  SummaryTable table({});
  BenchRow compiled = row(10, 1, RowStatus::compiled);
  compiled.timing.reset();
  table.add(compiled);
  table.add(row(10, 0.002));
  EXPECT_NE(line_with(printed(table, {}), describe(compiled.problem)).find("2.000 ms"), std::string::npos);
}

TEST(SummaryTable, ComparesWithAPeer) {
  const std::string problem = describe(row(10, 1).problem);
  const auto peers = PeerTimes::parse(
      "peers.json", R"({"peer": "Other 1.0", "rows": [{"problem": ")" + problem + R"(", "median_ms": 8}]})");
  ASSERT_TRUE(peers) << peers.error().text();
  SummaryTable table(*peers);
  table.add(row(10, 0.002));
  const std::string text = printed(table, {});
  EXPECT_NE(line_with(text, problem).find("4.00x"), std::string::npos) << text;
  EXPECT_NE(text.find("the peer is Other 1.0"), std::string::npos);
}

TEST(SummaryTable, SaysWhatThePolicysFirstChoiceCosts) {
  SummaryTable table({});
  const auto add = [&](std::int64_t seqlen, int rank, double best_s) {
    BenchRow one = row(seqlen, best_s);
    one.rank = rank;
    one.timing->best_s = best_s;
    table.add(one);
  };
  add(10, 0, 0.004);
  add(10, 1, 0.001);
  add(20, 0, 0.001);
  add(20, 1, 0.003);
  add(30, 1, 0.001);  // the first choice was not measured
  add(30, 2, 0.002);
  add(40, 0, 0.001);  // there was no choice
  const std::string text = printed(table, {});
  EXPECT_NE(text.find("the fastest of 1 of 2 problems; by best times it takes 2.000x the fastest (geometric mean), at "
                      "most 4.00x (" +
                      describe(row(10, 1).problem) + ")"),
            std::string::npos)
      << text;
}

TEST(SummaryTable, ShowsGemm) {
  SummaryTable table({});
  BenchRow one = testing::sample_gemm_row();
  one.recipe.steps[0].config.algorithm.split_k = true;
  table.add(one);
  BenchSummary summary{.rows = 1, .peaks = Peaks{.fp32_gflops = 100, .int8_gops = 400, .read_gbps = 20}};
  const std::string text = printed(table, summary);
  const std::string line = line_with(text, "int8 to bf16 b3 256x512x1024 rrr + C bias+gelu");
  EXPECT_NE(line.find("blocked int16dot 96x528x512 split"), std::string::npos) << line;
  EXPECT_NE(line.find("    50  "), std::string::npos) << "per cent of the roofline: " << line;
  EXPECT_NE(text.find("fp32 100 GFLOP/s, int8 400 GOP/s, memory 20.0 GB/s"), std::string::npos) << text;
  EXPECT_EQ(text.find("bf16 0"), std::string::npos) << "what is unknown is not shown: " << text;
}

TEST(SummaryTable, ShowsEveryStepAndTheWorstOutput) {
  SummaryTable table({});
  BenchRow one = testing::sample_row_of_two_steps();
  table.add(one);
  std::string line = line_with(printed(table, {.rows = 1}), describe(one.problem));
  EXPECT_NE(line.find("blocked int16dot 48x528x512+blocked int16dot 96x528x512  "), std::string::npos) << line;
  BenchRow two = testing::sample_row();
  two.errors.worst_place = 1;
  table.add(two);
  line = line_with(printed(table, {.rows = 2}), describe(two.problem));
  EXPECT_NE(line.find("lse 0.031"), std::string::npos) << line;
}

TEST(SummaryTable, PeerFilesAreChecked) {
  for (const char* text :
       {"", "{}", R"({"peer": 3, "rows": []})", R"({"peer": "x", "rows": [{"problem": "p", "median_ms": 0}]})",
        R"({"peer": "x", "rows": [{"median_ms": 1}]})"}) {
    const auto peers = PeerTimes::parse("peers.json", text);
    ASSERT_FALSE(peers) << text;
    EXPECT_NE(peers.error().message.find("peers.json"), std::string::npos) << peers.error().message;
  }
}

}  // namespace
}  // namespace tilesmith
