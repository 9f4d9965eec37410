// tune and db: from a problem on the command line to a published file that run obeys.
#include <gtest/gtest.h>

#include <regex>

#include "base/file.hpp"
#include "base/json.hpp"
#include "cli/program.hpp"
#include "dispatch/test_store.hpp"

namespace tilesmith {
namespace {

using testing::document;
using testing::run;
using testing::run_by;

TEST(TuneVerb, TunesShowsMergesPublishes) {
  const auto folder = TemporaryDirectory::create("tilesmith-tune-verb-test-").value();
  const auto path = [&](const char* name) { return (folder.path() / name).string(); };
  const std::string db = " --db " + path("a.db"), other = " --db " + path("b.db");
  const auto tuned =
      run("tune gemm -m 19 -n 24 -k 40 --dtype fp32 --threads 1 --candidates 1 --budget 0.1 --json" + db);
  ASSERT_EQ(tuned.code, 0) << tuned.errors;
  EXPECT_EQ(document(tuned)["raced"], 1);
  EXPECT_EQ(document(tuned)["outcomes"][0]["failed"], 0);
  EXPECT_EQ(document(tuned)["outcomes"][0]["chosen"], document(tuned)["outcomes"][0]["before"]);

  EXPECT_EQ(run("db merge " + path("a.db") + other).code, 0);
  const auto of_first = document(run("db show --json" + db)), of_other = document(run("db show --json" + other));
  EXPECT_EQ(of_first["digest"], of_other["digest"]);
  EXPECT_EQ(of_other["choices"].size(), 1u);
  EXPECT_EQ(run("db verify" + other).code, 0);

  EXPECT_EQ(run("db publish " + path("choices.json") + other).code, 0);
  EXPECT_EQ(nlohmann::json::parse(read_file(path("choices.json")).value())["digest"], of_first["digest"]);

  const std::string uuid = of_other["runs"][0]["uuid"];
  EXPECT_EQ(run("db withdraw " + uuid + other).code, 0);
  const auto nothing = run("db publish " + path("choices.json") + other);
  EXPECT_EQ(nothing.code, 1);
  EXPECT_NE(nothing.errors.find("nothing to publish"), std::string::npos) << nothing.errors;
  EXPECT_EQ(run("db prune" + other).code, 0);
}

TEST(TuneVerb, AMistypedDatabaseIsNotMade) {
  const auto folder = TemporaryDirectory::create("tilesmith-tune-verb-test-").value();
  const std::string missing = (folder.path() / "missing.db").string(), made = (folder.path() / "made.db").string();
  for (const std::string& words : {"db prune --db " + missing, "db withdraw 0 --db " + missing,
                                   "db show --db " + missing, "db merge " + missing + " --db " + made}) {
    const auto refused = run(words);
    EXPECT_EQ(refused.code, 1) << words;
    EXPECT_NE(refused.errors.find("there is no " + missing), std::string::npos) << words << refused.errors;
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(TuneVerb, APolicyIsNamedInListAndTune) {
  const std::string problem = " -m 512 -n 1536 -k 7168 --dtype bf16";
  const auto listed = document(run("list --arch sm_90a --op gemm --candidates --json --policy inductor" + problem));
  EXPECT_EQ(listed["policy"], "inductor");
  const auto all = document(run("list --arch sm_90a --op gemm --candidates --json" + problem));
  EXPECT_LT(listed["candidates"].size(), all["candidates"].size());
  for (const auto& candidate : listed["candidates"])
    EXPECT_NE(candidate["name"].get<std::string>().find("wgmma"), std::string::npos) << candidate["name"];
  const auto unknown = run("tune gemm --policy inductr" + problem);
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.errors.find("inductor"), std::string::npos) << unknown.errors;
}

TEST(TuneVerb, ARangeOfSizesIsTunedAheadAndRunTakesTheInterval) {
  const auto folder = TemporaryDirectory::create("tilesmith-tune-verb-test-").value();
  const auto path = [&](const char* name) { return (folder.path() / name).string(); };
  const std::string rest = " -n 24 -k 40 --dtype fp32 --threads 1", db = " --db " + path("a.db");
  const auto tuned = run("tune gemm -m 60:64 --candidates 1 --budget 0.1 --json" + rest + db);
  EXPECT_TRUE(std::regex_search(tuned.errors, std::regex("racing: ([0-9]+) of \\1, "))) << tuned.errors;
  ASSERT_EQ(tuned.code, 0) << tuned.errors;
  ASSERT_GE(document(tuned)["raced"], 2);
  ASSERT_FALSE(document(tuned)["intervals"].empty());
  for (const auto& interval : document(tuned)["intervals"]) EXPECT_TRUE(interval["trusted"]) << interval;
  ASSERT_EQ(run("db publish " + path("choices.json") + db).code, 0);
  const auto between =
      run_by("TILESMITH_TUNING=" + path("choices.json") + " exec \"$0\" \"$@\"", "run gemm -m 62" + rest);
  EXPECT_EQ(between.code, 0) << between.errors;
  EXPECT_NE(between.output.find("measured interval"), std::string::npos) << between.output;
  // k is no size that may change.
  EXPECT_EQ(run("tune gemm -m 64 -k 60:64 -n 24 --dtype fp32 --threads 1" + db).code, 2);
}

TEST(TuneVerb, SeveralRangesAreTunedAheadAsBoxes) {
  const auto folder = TemporaryDirectory::create("tilesmith-tune-verb-test-").value();
  const auto path = [&](const char* name) { return (folder.path() / name).string(); };
  const std::string rest = " -n 24 -k 40 --dtype fp32 --threads 1", db = " --db " + path("a.db");
  const auto tuned =
      run("tune gemm -m 60:64 --batch 3:4 --max-sizes 12 --candidates 1 --budget 0.1 --json" + rest + db);
  ASSERT_EQ(tuned.code, 0) << tuned.errors;
  ASSERT_FALSE(document(tuned)["boxes"].empty());
  for (const auto& box : document(tuned)["boxes"]) {
    ASSERT_TRUE(box["trusted"]) << box;  // one recipe, and all sizes together within a factor of two
    EXPECT_EQ(box["from"].size(), 2u);
    EXPECT_LE(box["from"][0], box["to"][0]);
  }
  ASSERT_EQ(run("db publish " + path("choices.json") + db).code, 0);
  const auto between =
      run_by("TILESMITH_TUNING=" + path("choices.json") + " exec \"$0\" \"$@\"", "run gemm -m 62 --batch 3" + rest);
  EXPECT_EQ(between.code, 0) << between.errors;
  EXPECT_NE(between.output.find("nearby measurements"), std::string::npos) << between.output;
  const auto wrong = run("tune gemm -m 60:64 -n 24:25 -k 40 --dtype fp32 --threads 1" + db);
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.errors.find("-n 24:25: no range"), std::string::npos) << wrong.errors;
}

class TuneFiles : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  [[nodiscard]] std::string db(const std::string& name) const { return " --db " + path(name); }
  /// Problems with one recipe each are raced in no time.
  void write_problems(const std::string& name, int count) const {
    std::string lines;
    for (int i = 0; i < count; ++i) lines += "gemm -m " + std::to_string(19 + i) + " -n 24 -k 40 --dtype fp32\n";
    ASSERT_TRUE(write_file_atomic(path(name), lines));
  }
  [[nodiscard]] std::string tune(const std::string& more) const {
    return "tune gemm --threads 1 --candidates 1 --budget 0.1 " + more;
  }

  TemporaryDirectory folder_ = TemporaryDirectory::create("tilesmith-tune-verb-test-").value();
};

TEST_F(TuneFiles, ExportsAndImports) {
  write_problems("p.txt", 2);
  ASSERT_EQ(run(tune("--shapes " + path("p.txt")) + db("a.db")).code, 0);
  const auto digest = document(run("db show --json" + db("a.db")))["digest"];
  for (const std::string format : {"json", "csv", "t4"}) {
    EXPECT_EQ(run("db export --format " + format + " " + path(format) + db("a.db")).code, 0);
    for (const char* races : {": 2 new races", ": 0 new races"}) {
      const auto imported = run("db import --format " + format + " " + path(format) + db(format + ".db"));
      EXPECT_EQ(imported.code, 0) << imported.errors;
      EXPECT_NE(imported.output.find(races), std::string::npos) << imported.output;
    }
    EXPECT_EQ(document(run("db show --json" + db(format + ".db")))["digest"], digest);
  }
  ASSERT_TRUE(
      write_file_atomic(path("t.csv"),
                        "Validator,PT_VERSION,2.9.0\nGemmTunableOp_float_TN,tn_24_31_40_ld_40_40_24,Default,0.1\n"
                        "GemmTunableOp_float_TN,nn_24_31_40,Default,0.1\n"));
  const auto foreign = run("db import --format tunableop " + path("t.csv") + db("a.db"));
  EXPECT_EQ(foreign.code, 0);
  EXPECT_NE(foreign.output.find("1 new samples of other programs, 1 rows refused"), std::string::npos)
      << foreign.output;
  EXPECT_NE(foreign.errors.find("t.csv:3: "), std::string::npos) << foreign.errors;
  EXPECT_EQ(document(run("db show --json --foreign" + db("a.db")))[0]["seconds"], 1e-4);
  EXPECT_EQ(document(run("db show --json" + db("a.db")))["digest"], digest)
      << "another program's timing decides nothing";

  // What another program met can be tuned here.
  const auto lines = run("db export --format lines -" + db("a.db"));
  EXPECT_NE(lines.output.find("gemm -m 31 -n 24 -k 40 --dtype fp32"), std::string::npos) << lines.output;
  EXPECT_EQ(run("db export --format nonsense -" + db("a.db")).code, 2);
  EXPECT_EQ(run("db import --format csv " + path("json") + db("a.db")).code, 2);
}

TEST_F(TuneFiles, TunesWhatALogNames) {
  const auto logged = run("run gemm -m 21 -n 24 -k 40 --dtype fp32 --no-time", {});
  ASSERT_EQ(logged.code, 0);
  const testing::ScopedVariable debug("TILESMITH_LOG", "debug");
  const auto planned = run("run gemm -m 22 -n 24 -k 40 --dtype fp32 --no-time --threads 1");
  ASSERT_TRUE(write_file_atomic(
      path("log"), planned.errors +
                       "\nrepeat with: tilesmith run gemm -m 23 -n 24 -k 40 --dtype fp32 --device cuda:0 --verify\n"
                       "{\"call\": \"gemm -m 24 -n 24 -k 40 --dtype fp32\", \"result\": \"passed\"}\n"
                       "gemm is slow today\ngemm -m 25 --colour red\nattention_fwd --seqlen-q 3\n"));
  const auto tuned = run(tune("--json --from-log " + path("log")) + db("a.db"));
  ASSERT_EQ(tuned.code, 0) << tuned.errors;
  EXPECT_EQ(document(tuned)["raced"], 3) << tuned.output;
  EXPECT_NE(tuned.errors.find("log:"), std::string::npos);
  EXPECT_NE(tuned.errors.find("--colour"), std::string::npos) << tuned.errors;
  EXPECT_EQ(run(tune("-m 3 --from-log " + path("log")) + db("a.db")).code, 2);
  ASSERT_TRUE(write_file_atomic(path("empty"), "nothing\n"));
  EXPECT_EQ(run(tune("--from-log " + path("empty")) + db("a.db")).code, 1);
}

TEST_F(TuneFiles, AFollowedLogIsTunedAsItGrows) {
  // The second line is written in two pieces, the first of which reads as a problem too.
  ASSERT_TRUE(write_file_atomic(path("log"), "planned gemm -m 22 -n 24 -k 40 --dtype fp32\nplanned gemm -m 2"));
  const auto followed = run_by(
      "\"$0\" \"$@\" & tune=$!\n"
      "has() { for i in $(seq 600); do grep -c '\"line\"' " +
          path("c.json") +
          " 2>/dev/null | grep -qx $1 && return; sleep 0.05; done; false; }\n"
          "has 1 && echo '3 -n 24 -k 40 --dtype fp32' >> " +
          path("log") + " && has 2 && grep -q -e '-m 23 ' " + path("c.json") +
          " && echo both\n"
          "kill $tune; wait $tune; echo ended with $?",
      tune("--from-log " + path("log") + " --follow 0.05 --publish " + path("c.json")) + db("a.db"));
  EXPECT_NE(followed.output.find("both\nended with 143"), std::string::npos) << followed.output << followed.errors;
  EXPECT_EQ(run(tune("-m 3 --follow 1") + db("a.db")).code, 2);
  EXPECT_EQ(run(tune("--json --follow 1 --from-log " + path("log")) + db("a.db")).code, 2);
}

TEST_F(TuneFiles, AKilledTuneGoesOnWithoutLoss) {
  write_problems("p.txt", 300);  // their races last longer than the look that sees the first, on a busy machine too
  const std::string words = tune("--resume --shapes " + path("p.txt")) + db("a.db");
  const auto killed = run_by(
      "\"$0\" \"$@\" & tune=$!\n"
      "until \"$0\" db show" +
          db("a.db") +
          " 2>/dev/null | grep -q ', [1-9][0-9]* races'; do sleep 0.02; done\n"
          "kill -9 $tune; wait $tune; echo ended with $?",
      words);
  EXPECT_NE(killed.output.find("ended with 137"), std::string::npos) << killed.output << killed.errors;
  EXPECT_EQ(run("db verify" + db("a.db")).code, 0);
  const auto before = document(run("db show --json" + db("a.db")));
  EXPECT_GE(before["races"], 1);
  const auto resumed = document(run(words + " --json"));
  EXPECT_EQ(resumed["known"], before["races"]);
  EXPECT_EQ(resumed["raced"].get<int>() + resumed["known"].get<int>(), 300);
  EXPECT_EQ(document(run("db show --json" + db("a.db")))["choices"].size(), 300u);
}

TEST_F(TuneFiles, ProcessesTuneIntoOneDatabaseAtOnce) {
  write_problems("p.txt", 6);
  const auto both = run_by("\"$0\" \"$@\" --shard 1/2 & first=$!\n\"$0\" \"$@\" --shard 2/2 && wait $first",
                           tune("--shapes " + path("p.txt")) + db("a.db"));
  EXPECT_EQ(both.code, 0) << both.errors;
  const auto all = document(run("db show --json" + db("a.db")));
  EXPECT_EQ(all["choices"].size(), 6u);
  EXPECT_EQ(all["races"], 6);
  EXPECT_EQ(run("db verify" + db("a.db")).code, 0);
}

TEST_F(TuneFiles, AWrongKernelNeverWins) {
  const testing::EmptyStore store;
  // Of the kernels it compiles it makes the first a wrong one. One worker compiles them in the policy's order, so that
  // is the incumbent: what is timed first is verified, and others only where their times matter.
  ASSERT_TRUE(write_file_atomic(
      path("compiler"),
      "#!/bin/bash\n"
      "for word in \"$@\"; do case \"$word\" in\n"
      "  --version) exec g++ --version;;\n"
      "  *.cpp) grep -q 'const Vec scale = weight . sum;' \"$word\" && mkdir '" +
          path("once") +
          "' 2>/dev/null &&\n"
          "    sed -i 's/const Vec scale = weight . sum;/const Vec scale = 3 * weight \\/ sum;/' \"$word\";;\n"
          "esac; done\nexec g++ \"$@\"\n"));
  std::filesystem::permissions(path("compiler"), std::filesystem::perms::owner_all);
  const testing::ScopedVariable compiler("TILESMITH_CXX", path("compiler"));
  const auto tuned =
      run("tune attention_fwd --heads-q 2 --seqlen-q 100 --head-dim-qk 64 --dtype fp32 --threads 1 --candidates 2 "
          "--workers 1 --budget 0.2 --json" +
          db("a.db"));
  ASSERT_EQ(tuned.code, 0) << tuned.errors;
  const auto outcome = document(tuned)["outcomes"][0];
  EXPECT_EQ(outcome["failed"], 1);
  const auto races = document(run("db export -" + db("a.db")))["races"];
  int wrong = 0;
  for (const auto& entrant : races[0]["entrants"])
    if (const std::string failure = entrant["failure"]; !failure.empty()) {
      ++wrong;
      EXPECT_NE(failure.find("its result is wrong"), std::string::npos) << failure;
      EXPECT_NE(entrant["name"], outcome["chosen"]);
    }
  EXPECT_EQ(wrong, 1);
}

TEST_F(TuneFiles, WritesSlurmScriptsThatAShellRuns) {
  write_problems("p.txt", 5);
  const auto written =
      run(tune("--slurm 3 --slurm-script --slurm-option=--partition=fast --shapes " + path("p.txt")) + db("a.db"));
  ASSERT_EQ(written.code, 0) << written.errors;
  const std::string parts = read_file(path("a.db.tune.sbatch")).value();
  EXPECT_NE(parts.find("#SBATCH --array=1-3\n"), std::string::npos) << parts;
  EXPECT_NE(parts.find("#SBATCH --partition=fast\n"), std::string::npos) << parts;
  // As Slurm does it: each task, one of them twice, then the merge.
  const auto ran = run_by("for i in 1 2 2 3; do SLURM_ARRAY_TASK_ID=$i sh '" + path("a.db.tune.sbatch") +
                              "' || exit 1; done; sh '" + path("a.db.merge.sbatch") + "'",
                          "");
  EXPECT_EQ(ran.code, 0) << ran.errors;
  const auto all = document(run("db show --json" + db("a.db")));
  EXPECT_EQ(all["choices"].size(), 5u);
  EXPECT_EQ(all["races"], 5);
  // A part that is missing is said, and the others are merged.
  std::filesystem::remove(path("a.db.part-2"));
  const auto less = run_by("sh '" + path("a.db.merge.sbatch") + "'", "");
  EXPECT_EQ(less.code, 1);
  EXPECT_NE(less.errors.find("1 parts have no database"), std::string::npos) << less.errors;

  EXPECT_EQ(run(tune("-m 3 --slurm 2") + db("a.db")).code, 2);
  EXPECT_EQ(run(tune("--slurm 2 --shard 1/2 --shapes " + path("p.txt")) + db("a.db")).code, 2);
}

TEST(TuneVerb, RefusesWhatCannotBeTuned) {
  const auto folder = TemporaryDirectory::create("tilesmith-tune-verb-test-").value();
  const std::string db = " --db " + (folder.path() / "a.db").string();
  EXPECT_EQ(run("tune").code, 2);
  EXPECT_EQ(run("tune gemm -m -3" + db).code, 2);
  EXPECT_EQ(run("tune gemm -m 3 --category smoke" + db).code, 2);
  EXPECT_EQ(run("db show --db " + (folder.path() / "none.db").string()).code, 1);
  EXPECT_EQ(run("tune gemm -m 3 --db " + (folder.path() / "no" / "folder.db").string()).code, 1);
}

}  // namespace
}  // namespace tilesmith
