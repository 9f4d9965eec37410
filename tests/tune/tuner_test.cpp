// A small problem tuned on this machine, and dispatch that reads what was chosen.
#include "tune/tuner.hpp"

#include <gtest/gtest.h>

#include "base/file.hpp"
#include "dispatch/test_store.hpp"
#include "tilesmith/gemm.hpp"
#include "tune/choices.hpp"

namespace tilesmith {
namespace {

GemmProblem small_gemm(std::int64_t m) {
  GemmProblem problem = gemm_problem(DataType::fp32, m, 48, 64);
  return problem;
}

TuneOptions options_for(const std::filesystem::path& database, std::vector<GemmProblem> problems) {
  TuneOptions options;
  options.problems = std::move(problems);
  options.database = database;
  options.threads = 1;
  options.candidates = 2;
  options.budget_s = 0.2;
  return options;
}

TEST(Tuner, RacesKeepsAndPublishesAndDispatchObeys) {
  const auto folder = TemporaryDirectory::create("tilesmith-tuner-test-").value();
  const auto path = folder.path() / "tuning.db";
  std::vector<TuneOutcome> outcomes;
  TuneProgress progress;
  progress.outcome = [&](const TuneOutcome& outcome) { outcomes.push_back(outcome); };
  const auto first = tune(options_for(path, {small_gemm(33)}), progress);
  ASSERT_TRUE(first) << first.error().text();
  EXPECT_EQ(first->raced, 1u);
  ASSERT_EQ(outcomes.size(), 1u);
  EXPECT_EQ(outcomes[0].failed, 0u);
  EXPECT_GT(outcomes[0].chosen_s, 0);

  // What the database has is not measured again; another problem is.
  const auto second = tune(options_for(path, {small_gemm(33), small_gemm(35)}), {});
  ASSERT_TRUE(second) << second.error().text();
  EXPECT_EQ(second->known, 1u);
  EXPECT_EQ(second->raced, 1u);
  EXPECT_NE(second->run, first->run);

  TuningFile file = choices_of(Database::open(path, Database::Mode::read)->races().value());
  ASSERT_EQ(file.choices.size(), 2u);
  // Dispatch takes what the file says, also where it is not the policy's first.
  Dispatcher plain({.threads = 1});
  const std::string usual(plain.plan(small_gemm(33)).value()->kernel_name());
  const std::vector<StoredRace> races = Database::open(path, Database::Mode::read)->races().value();
  for (const Entrant& entrant : races.front().race.entrants)
    if (entrant.name != usual) {
      for (TunedChoice& choice : file.choices) choice.recipe = entrant.recipe, choice.name = entrant.name;
      break;
    }
  ASSERT_NE(file.choices[0].name, usual);
  const auto published = folder.path() / "tuning.json";
  ASSERT_TRUE(write_file_atomic(published, file.to_text()));
  Dispatcher tuned({.threads = 1, .tuning = published.string()});
  const auto plan = tuned.plan(small_gemm(33));
  ASSERT_TRUE(plan) << plan.error().text();
  EXPECT_EQ((*plan)->kernel_name(), file.choices[0].name);
  EXPECT_NE((*plan)->reason().find("measurements"), std::string_view::npos) << (*plan)->reason();
  EXPECT_EQ(tuned.plan(small_gemm(34)).value()->reason().find("measurements"), std::string_view::npos);
  // On another number of threads it is another class of devices.
  EXPECT_EQ(Dispatcher({.threads = 2, .tuning = published.string()}).plan(small_gemm(33)).value()->kernel_name(),
            Dispatcher({.threads = 2}).plan(small_gemm(33)).value()->kernel_name());
}

TEST(Tuner, APolicysCandidatesRaceBesideWhatIsChosenToday) {
  const auto folder = TemporaryDirectory::create("tilesmith-tuner-test-").value();
  TuneOptions options = options_for(folder.path() / "tuning.db", {small_gemm(33)});
  options.policy = SelectionPolicy::inductor;
  options.candidates = 3;
  std::vector<TuneOutcome> outcomes;
  TuneProgress progress;
  progress.outcome = [&](const TuneOutcome& outcome) { outcomes.push_back(outcome); };
  ASSERT_TRUE(tune(options, progress));
  ASSERT_EQ(outcomes.size(), 1u);
  EXPECT_EQ(outcomes[0].before, Dispatcher({.threads = 1}).plan(small_gemm(33)).value()->kernel_name());
}

TEST(Tuner, ATuningFileThatCannotBeReadFailsEveryPlan) {
  const auto folder = TemporaryDirectory::create("tilesmith-tuner-test-").value();
  Dispatcher missing({.tuning = (folder.path() / "none.json").string()});
  const auto plan = missing.plan(small_gemm(33));
  ASSERT_FALSE(plan);
  EXPECT_NE(plan.error().message.find("none.json"), std::string::npos);
}

TEST(Tuner, ProblemsWithoutKernelsAreSkippedWithTheReason) {
  const auto folder = TemporaryDirectory::create("tilesmith-tuner-test-").value();
  GemmProblem invalid = small_gemm(4);
  invalid.n = -1;
  std::size_t skipped = 0;
  TuneProgress progress;
  progress.skipped = [&](const std::string&, const Error& error) { skipped += !error.message.empty(); };
  const auto summary = tune(options_for(folder.path() / "tuning.db", {invalid}), progress);
  ASSERT_TRUE(summary) << summary.error().text();
  EXPECT_EQ(summary->skipped, 1u);
  EXPECT_EQ(skipped, 1u);
}

}  // namespace
}  // namespace tilesmith
