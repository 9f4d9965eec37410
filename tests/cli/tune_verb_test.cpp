// tune and db: from a problem on the command line to a published file that run obeys.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.hpp"
#include "cli/program.hpp"

namespace tilesmith {
namespace {

using testing::document;
using testing::run;

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
