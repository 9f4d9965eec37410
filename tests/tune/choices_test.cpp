#include "tune/choices.hpp"

#include <gtest/gtest.h>

#include "tune/sample_races.hpp"

namespace tilesmith {
namespace {

using testing::sample_race;
using testing::sample_run;

TEST(Choices, AFinalistThatIsBetterTwiceReplacesTheIncumbent) {
  const std::vector<StoredRace> races{{sample_run('a', "1"), sample_race("p", {1.0, 0.8, 0.9})}};
  const TuningFile file = choices_of(races);
  ASSERT_EQ(file.choices.size(), 1u);
  EXPECT_EQ(file.choices[0].recipe, (Key128{0, 2}));
  EXPECT_NEAR(file.choices[0].gain, 1.25, 1e-12);
  EXPECT_TRUE(file.choices[0].is_confirmed);
  EXPECT_NEAR(file.choices[0].seconds, 0.8, 1e-12);
}

TEST(Choices, BetterInOneBlockIsNotEnough) {
  RaceRecord race = sample_race("p", {1.0, 0.8});
  race.entrants[1].blocks[1].assign(4, 1.0);
  const TuningFile file = choices_of(std::vector<StoredRace>{{sample_run('a', "1"), race}});
  EXPECT_EQ(file.choices[0].recipe, (Key128{0, 1}));
  EXPECT_FALSE(file.choices[0].is_confirmed);
}

TEST(Choices, LaterRacesChallengeTheChoiceAndATieKeepsIt) {
  std::vector<StoredRace> races{{sample_run('a', "1"), sample_race("p", {1.0, 0.8})},
                                {sample_run('b', "2"), sample_race("p", {1.0, 1.0, 0.999}, 2)}};
  EXPECT_EQ(choices_of(races).choices[0].recipe, (Key128{0, 2}));
  races.push_back({sample_run('c', "3"), sample_race("p", {1.0, 1.0, 0.5}, 2)});
  EXPECT_EQ(choices_of(races).choices[0].recipe, (Key128{0, 3}));
}

TEST(Choices, AChoiceThatFailsNowIsReplacedByTheBestThatRuns) {
  const std::vector<StoredRace> races{{sample_run('a', "1"), sample_race("p", {1.0, 0.8})},
                                      {sample_run('b', "2"), sample_race("p", {1.0, 0, 0.9}, 2)}};
  EXPECT_EQ(choices_of(races).choices[0].recipe, (Key128{0, 3}));
  const std::vector<StoredRace> nothing{{sample_run('a', "1"), sample_race("p", {0, 0})}};
  EXPECT_TRUE(choices_of(nothing).choices.empty());
}

TEST(Choices, ClassesOfDevicesAreApart) {
  const std::vector<StoredRace> races{{sample_run('a', "1", "one"), sample_race("p", {1.0, 0.8})},
                                      {sample_run('b', "2", "two"), sample_race("p", {1.0, 1.0})}};
  const TuningFile file = choices_of(races);
  ASSERT_EQ(file.choices.size(), 2u);
  EXPECT_EQ(file.choices[0].recipe, (Key128{0, 2}));
  EXPECT_EQ(file.choices[1].recipe, (Key128{0, 1}));
}

TEST(TuningFile, ComesBackFromItsText) {
  const std::vector<StoredRace> races{{sample_run('a', "1"), sample_race("p", {1.0, 0.8})},
                                      {sample_run('b', "2"), sample_race("q", {1.0, 1.0})}};
  const TuningFile file = choices_of(races);
  const auto again = TuningFile::parse("t.json", file.to_text());
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(again->choices, file.choices);
  EXPECT_EQ(again->digest(), file.digest());
}

// A device's name is bytes of its driver's.
TEST(TuningFile, BytesThatAreNoUtf8AreReplaced) {
  TuneRun run = sample_run('a', "1");
  run.device_class += "\xff";
  const TuningFile file = choices_of(std::vector<StoredRace>{{run, sample_race("p", {1.0, 0.8})}});
  const auto again = TuningFile::parse("t.json", file.to_text());
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(again->digest(), file.digest());
}

TEST(TuningFile, RefusesWhatIsNoWholeFileOfThisVersion) {
  const std::string text =
      choices_of(std::vector<StoredRace>{{sample_run('a', "1"), sample_race("p", {1.0, 0.8})}}).to_text();
  const auto message = [](const std::string& changed) {
    const auto file = TuningFile::parse("t.json", changed);
    return file ? std::string("accepted") : file.error().message;
  };
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return changed;
  };
  EXPECT_EQ(message("[1, 2]"), "t.json: this is no tuning file");
  EXPECT_NE(message("").find("t.json: "), std::string::npos);
  EXPECT_NE(message(with("\"tilesmith_tuning\": 1", "\"tilesmith_tuning\": 9")).find("format is 9"), std::string::npos);
  EXPECT_NE(message(with("\"keys\": \"v", "\"keys\": \"w")).find("keys have version w"), std::string::npos);
  EXPECT_NE(message(with("\"gain\":1.2", "\"gain\":1.3")).find("digest"), std::string::npos);
  EXPECT_EQ(TuningFile::parse("t.json", with("\"gain\":1.2", "\"gain\":1.3")).error().code, ErrorCode::corrupt);
  EXPECT_NE(message(with("\"recipe\":\"0000", "\"recipe\":\"zzzz")), "accepted");
  for (std::size_t length = 0; length + 2 < text.size(); length += 7)
    EXPECT_NE(message(text.substr(0, length)), "accepted") << length;
}

}  // namespace
}  // namespace tilesmith
