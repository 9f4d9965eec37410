// The bench verb: its files, and a kill in the middle.
#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <sstream>
#include <thread>

#include "base/json.hpp"
#include "cli/program.hpp"
#include "dispatch/test_store.hpp"
#include "sweep/row.hpp"

namespace tilesmith {
namespace {
using testing::document;
using testing::run;

constexpr const char* kShapes = R"(
schema: 1
tiers: {smoke: {includes: [smoke], timeout_s: 5}}
variant_sections: {fwd: forward}
forward: {smoke: [{id: small, axes: {batch: [1, 2], seqlen_q: [5, 9, 17, 33, 40, 41, 42, 43, 44, 45, 46, 47], seqlen_k: [50], heads_q: [2], heads_kv: [2], dtype: [bf16]}}]}
)";

class BenchVerb : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return (directory_.path() / name).string(); }
  [[nodiscard]] std::string command(const std::string& more) const {
    return "bench " + path("sweep.json") + " --shapes " + path("shapes.yaml") + " --threads 1 --verify --csv " +
           path("rows.csv") + " " + more;
  }
  /// Identities of whole rows in the CSV file.
  [[nodiscard]] std::vector<std::string> identities() const {
    std::vector<std::string> out;
    const auto text = read_file(path("rows.csv"));
    if (!text) return out;
    std::istringstream lines(text->substr(0, text->rfind('\n') + 1));
    std::string line;
    while (std::getline(lines, line) && line.starts_with('#')) {  // what is known of the run, then the columns' names
    }
    while (std::getline(lines, line)) {
      const auto cells = parse_csv_line(operation_, line);
      EXPECT_TRUE(cells) << line;
      if (cells) out.push_back(cells->front());
    }
    return out;
  }
  void SetUp() override {
    ASSERT_TRUE(write_file_atomic(path("shapes.yaml"), kShapes));
    ASSERT_TRUE(write_file_atomic(path("sweep.json"),
                                  R"({"variant": "fwd", "trait_config": {"pipeline": {"values": ["flash"]}}})"));
  }
  std::string operation_ = "attention_fwd";
  TemporaryDirectory directory_ = TemporaryDirectory::create("tilesmith-bench-").value();
};

TEST_F(BenchVerb, WritesTableCsvAndJson) {
  const ProcessOutcome outcome = run(command("--max-kernels 1 --max-problems 3 --naive --json " + path("rows.json")));
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(identities().size(), 3u);
  const nlohmann::json json = nlohmann::json::parse(read_file(path("rows.json")).value());
  ASSERT_EQ(json["rows"].size(), 3u);
  for (const nlohmann::json& row : json["rows"]) {
    EXPECT_TRUE(row["status"] == "correct" || row["status"] == "unverified") << row.dump();
    EXPECT_TRUE(row.contains("timing")) << row.dump();
  }
  EXPECT_NE(outcome.output.find("3 results"), std::string::npos) << outcome.output;
  EXPECT_EQ(outcome.errors.find('\r'), std::string::npos) << "no progress bar where there is no terminal";

  const ProcessOutcome again = run(command("--max-kernels 1 --max-problems 3"));
  EXPECT_EQ(again.code, 2);
  EXPECT_NE(again.errors.find("--resume"), std::string::npos) << again.errors;
  const ProcessOutcome resumed = run(command("--max-kernels 1 --max-problems 3 --resume --json -"));
  EXPECT_EQ(resumed.code, 0) << resumed.errors;
  EXPECT_EQ(testing::document(resumed)["resumed"], 3);
  EXPECT_EQ(identities().size(), 3u);
}

TEST_F(BenchVerb, AKilledBenchGoesOnWhereItWas) {
  ProcessOutcome first;
  {
    std::stop_source kill;
    const std::jthread watcher([&](const std::stop_token& done) {
      while (!done.stop_requested() && identities().size() < 3)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      kill.request_stop();
    });
    first = run(command("--max-kernels 1"), {}, kill.get_token());
  }
  ASSERT_EQ(first.end, ProcessOutcome::End::cancelled) << first.errors;
  const std::vector<std::string> before = identities();
  ASSERT_GE(before.size(), 3u);
  ASSERT_LT(before.size(), 24u);
  const ProcessOutcome rest = run(command("--max-kernels 1 --resume --json -"));
  ASSERT_EQ(rest.code, 0) << rest.errors;
  const std::vector<std::string> after = identities();
  EXPECT_EQ(after.size(), 24u);
  EXPECT_EQ(std::set<std::string>(after.begin(), after.end()).size(), 24u) << "nothing twice";
  EXPECT_TRUE(std::equal(before.begin(), before.end(), after.begin())) << "nothing lost";
  EXPECT_EQ(testing::document(rest)["resumed"], before.size());
  EXPECT_EQ(testing::document(rest)["rows"].size(), 24 - before.size());
}

TEST_F(BenchVerb, GemmRunsFromItsOwnShapes) {
  operation_ = "gemm";
  ASSERT_TRUE(write_file_atomic(path("shapes.yaml"), R"(
schema: 1
tiers: {smoke: {includes: [smoke], timeout_s: 5}}
gemm: {smoke: [{id: small, axes: {m: [1, 40], nk: [[30, 50], [64, 24]], dtype: [bf16, int8], layout: [rcr, rrr]}}]}
)"));
  ASSERT_TRUE(write_file_atomic(path("sweep.json"), R"({"trait_config": {"layout": {"values": ["rrr"]}}})"));
  const std::string words = command("--op gemm --max-kernels 1");
  const nlohmann::json listed = testing::document(run(words + " --dry-run"));
  ASSERT_EQ(listed.size(), 8u);
  EXPECT_EQ(listed[0]["problem"], "bf16 1x30x50 rrr");
  const ProcessOutcome outcome = run(words + " --naive --json " + path("rows.json"));
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(identities().size(), 8u);
  const nlohmann::json json = nlohmann::json::parse(read_file(path("rows.json")).value());
  ASSERT_EQ(json["rows"].size(), 8u);
  for (const nlohmann::json& row : json["rows"]) {
    EXPECT_EQ(row["status"], "correct") << row.dump();
    EXPECT_EQ(row["problem"]["layout"], "rrr");
    EXPECT_TRUE(row.contains("timing")) << row.dump();
  }
  EXPECT_NE(outcome.output.find("int8 to int32 40x64x24 rrr"), std::string::npos) << outcome.output;
  EXPECT_EQ(testing::document(run(words + " --resume --json -"))["resumed"], 8);

  EXPECT_EQ(run("bench --processor-time --threads 2").code, 2);
  const ProcessOutcome early = run(words + " --resume --json " + path("absent/rows.json"));
  EXPECT_EQ(early.code, 1);
  EXPECT_NE(early.errors.find("cannot write to " + path("absent")), std::string::npos) << early.errors;
  EXPECT_EQ(early.output, "") << "refused before anything is measured";
  EXPECT_EQ(run(words + " --processor-time --resume --json -").code, 0);
  const ProcessOutcome refused = run("bench --dry-run --op gem");
  EXPECT_EQ(refused.code, 2) << refused.output;
  EXPECT_NE(refused.errors.find("gemm"), std::string::npos) << refused.errors;
}

TEST_F(BenchVerb, ATierSaysHowLongAKernelMayTake) {
  const testing::ScopedVariable compiler(
      "TILESMITH_CXX", std::string(TILESMITH_SOURCE_DIR) + "/tests/sweep/fake_compilers/makes_bad_kernels");
  ASSERT_TRUE(write_file_atomic(path("shapes.yaml"), R"(
schema: 1
tiers: {smoke: {includes: [smoke], timeout_s: 1}}
gemm: {smoke: [{id: small, axes: {mnk: [[33, 70, 40]], dtype: [fp32]}}]}
)"));
  ASSERT_TRUE(write_file_atomic(path("sweep.json"), R"({"trait_config": {
      "arch": {"values": ["x86_64_v3"]}, "pipeline": {"values": ["blocked"]}, "split_k": {"values": [false]},
      "tile_m": {"values": [24]}, "tile_n": {"values": [264]}, "tile_k": {"values": [512]}}})"));
  const std::string words = command("--op gemm --json - --resume");
  const ProcessOutcome outcome = run(words);
  EXPECT_EQ(outcome.code, 1) << "no kernel gave a result";
  const nlohmann::json rows = testing::document(outcome)["rows"];
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["status"], "timeout");
  EXPECT_NE(rows[0]["message"].get<std::string>().find("1000 ms"), std::string::npos) << rows[0]["message"];
}

TEST_F(BenchVerb, EmptySweepsAreSaidToBeEmpty) {
  ASSERT_TRUE(write_file_atomic(path("sweep.json"), R"({"trait_config": {"data_type": {"values": ["fp32"]}}})"));
  ProcessOutcome outcome = run(command(""));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.errors.find("no problem is left"), std::string::npos) << outcome.errors;
  ASSERT_TRUE(write_file_atomic(path("sweep.json"), R"({"trait_config": {"tile_n": {"values": [7]}}})"));
  outcome = run(command(""));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.errors.find("no kernel is left"), std::string::npos) << outcome.errors;
}

TEST_F(BenchVerb, AFullDiskStopsItAndItGoesOnLater) {
  const std::string words = command("--max-kernels 1 --max-problems 4 --resume --json -");
  ASSERT_EQ(run("bench --compile-only --json - --max-kernels 1 --max-problems 4 --shapes " + path("shapes.yaml") + " " +
                path("sweep.json"))
                .code,
            0);
  const ProcessOutcome full =
      testing::run_by("ulimit -f 2; exec \"$0\" \"$@\"", words);  // 1 KiB: the header and a row or two
  EXPECT_EQ(full.code, 1) << full.output;
  EXPECT_NE(full.errors.find("rows.csv"), std::string::npos) << full.errors;
  const std::size_t kept = identities().size();
  EXPECT_LT(kept, 4u);
  const ProcessOutcome rest = run(words);
  EXPECT_EQ(rest.code, 0) << rest.errors;
  EXPECT_EQ(identities().size(), 4u);
  EXPECT_EQ(testing::document(rest)["resumed"], kept);
}

TEST_F(BenchVerb, AnOracleMeasuresResumesAndIsJudgedFromItsFile) {
  const auto folder = TemporaryDirectory::create("tilesmith-bench-oracle-test-").value();
  const std::string csv = (folder.path() / "oracle.csv").string();
  const std::string oracle = "bench --op gemm --oracle --threads 1 --rounds 2 --candidates 2 --csv " + csv;
  const std::string problem = " -m 19 -n 24 -k 40 --dtype fp32";
  ASSERT_EQ(run(oracle + problem).code, 0);
  const auto again = document(run(oracle + " --resume --json -" + problem));
  EXPECT_EQ(again["measured"], 0);
  EXPECT_EQ(again["resumed"], 1);
  const auto judged = document(run("bench --judge " + csv + " --json -"));
  EXPECT_EQ(judged["regret"], again["regret"]);
  EXPECT_EQ(judged["regret"][0]["family"], "given");
  EXPECT_EQ(judged["regret"].back()["family"], "all");
  // Ranked anew by the same program for another level of CPUs: recipes of this one may not be there.
  const auto anew = document(run("bench --judge " + csv + " --arch x86_64_v3 --threads 1 --json -"));
  EXPECT_EQ(anew["problems"], 1);
  EXPECT_EQ(anew["regret"].size(), judged["regret"].size());
  EXPECT_EQ(run(oracle + " --arch x86_64_v3" + problem).code, 2);
  EXPECT_EQ(run("bench --judge " + csv + " --arch x86_64_v9").code, 2);

  // The sample depends on the seed alone; what an oracle does not obey is refused.
  const std::string draw = "bench --op gemm --oracle --dry-run --sample 3 --seed ";
  EXPECT_EQ(run(draw + "5").output, run(draw + "5").output);
  EXPECT_NE(run(draw + "5").output, run(draw + "6").output);
  EXPECT_EQ(run(draw + "x").code, 2);
  EXPECT_EQ(run(oracle + " --rounds 3" + problem).code, 2);
  EXPECT_EQ(run(oracle + " --verify" + problem).code, 2);
  EXPECT_EQ(run(oracle + " --types fp32" + problem).code, 2);
  // Without an oracle --seed is a problem's, as it always was.
  EXPECT_EQ(run("bench --dry-run --seed 7 -m 19 -n 24 -k 40").code, 0);
}

}  // namespace
}  // namespace tilesmith
