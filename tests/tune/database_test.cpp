#include "tune/database.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "base/file.hpp"
#include "tune/choices.hpp"
#include "tune/sample_races.hpp"

namespace tilesmith {
namespace {

using testing::sample_race;
using testing::sample_run;

class DatabaseTest : public ::testing::Test {
 protected:
  TemporaryDirectory folder_ = TemporaryDirectory::create("tilesmith-database-test-").value();

  [[nodiscard]] std::filesystem::path file(const char* name) const { return folder_.path() / name; }
  [[nodiscard]] Database open(const char* name) const {
    return Database::open(file(name), Database::Mode::write).value();
  }
};

TEST_F(DatabaseTest, KeepsRacesAsTheyWere) {
  const TuneRun run = sample_run('a', "2026-11-23T10:00:00Z");
  const RaceRecord race = sample_race("gemm;m=1;", {1.0, 0.5, 0});
  {
    Database database = open("one.db");
    ASSERT_TRUE(database.add(run, race));
    const Status twice = database.add(run, race);
    ASSERT_FALSE(twice);
    EXPECT_EQ(twice.error().code, ErrorCode::invalid_argument);
  }
  const auto database = Database::open(file("one.db"), Database::Mode::read);
  ASSERT_TRUE(database) << database.error().text();
  const auto races = database->races();
  ASSERT_TRUE(races) << races.error().text();
  ASSERT_EQ(races->size(), 1u);
  EXPECT_EQ(races->front().run, run);
  EXPECT_EQ(races->front().race, race);
  EXPECT_TRUE(database->races("another class").value().empty());
  EXPECT_TRUE(database->check());
  EXPECT_EQ(database->counts()->timings, 16);
}

TEST_F(DatabaseTest, MergingIsAUnionInAnyOrderAnyNumberOfTimes) {
  const auto fill = [&](const char* name, char letter, std::string started) {
    Database database = open(name);
    ASSERT_TRUE(database.add(sample_run(letter, started), sample_race("p", {1.0, 0.8})));
    ASSERT_TRUE(database.add(sample_run(letter, started), sample_race("q", {1.0, 1.2})));
  };
  fill("a.db", 'a', "1");
  fill("b.db", 'b', "2");
  fill("c.db", 'c', "3");
  ASSERT_TRUE(open("c.db").withdraw(std::string(32, 'c')));
  // A copy of c from before it was withdrawn.
  fill("old_c.db", 'c', "3");
  std::string digest;
  for (const std::vector<const char*>& order : {std::vector{"a.db", "b.db", "c.db", "old_c.db"},
                                                {"old_c.db", "c.db", "b.db", "a.db", "a.db"},
                                                {"c.db", "a.db", "old_c.db", "b.db", "c.db"}}) {
    const std::string name = std::string("merged_") + order.front();
    Database merged = open(name.c_str());
    for (const char* other : order)
      ASSERT_TRUE(merged.merge(Database::open(file(other), Database::Mode::read).value()));
    const auto races = merged.races().value();
    EXPECT_EQ(races.size(), 4u);
    const std::string own = choices_of(races).digest();
    if (digest.empty()) digest = own;
    EXPECT_EQ(own, digest);
    EXPECT_EQ(merged.counts()->withdrawn, 1);
    EXPECT_EQ(merged.prune().value(), 1);
    EXPECT_EQ(merged.counts()->withdrawn, 0);
    EXPECT_EQ(choices_of(merged.races().value()).digest(), digest);
  }
}

TEST_F(DatabaseTest, OtherFilesAreRefusedAndLeftAlone) {
  std::ofstream(file("text.db")) << "this is no database, however long it may be";
  for (const auto mode : {Database::Mode::read, Database::Mode::write}) {
    const auto opened = Database::open(file("text.db"), mode);
    ASSERT_FALSE(opened);
    EXPECT_NE(opened.error().message.find("text.db"), std::string::npos);
  }
  EXPECT_EQ(read_file(file("text.db")).value(), "this is no database, however long it may be");

  auto foreign = SqliteDatabase::open(file("foreign.db"), SqliteDatabase::Mode::write).value();
  ASSERT_TRUE(foreign.execute("CREATE TABLE theirs(a)"));
  const auto opened = Database::open(file("foreign.db"), Database::Mode::write);
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message.find("no performance database"), std::string::npos) << opened.error().text();

  (void)open("newer.db");
  ASSERT_TRUE(SqliteDatabase::open(file("newer.db"), SqliteDatabase::Mode::write)->execute("PRAGMA user_version=99"));
  EXPECT_NE(Database::open(file("newer.db"), Database::Mode::read).error().message.find("schema 99"),
            std::string::npos);
  EXPECT_EQ(Database::open(file("none.db"), Database::Mode::read).error().code, ErrorCode::not_found);
  EXPECT_EQ(Database::open(file("none.db"), Database::Mode::change).error().code, ErrorCode::not_found);
  EXPECT_FALSE(std::filesystem::exists(file("none.db")));
  EXPECT_NE(Database::open(folder_.path(), Database::Mode::read).error().message.find("is a folder"),
            std::string::npos);
}

TEST_F(DatabaseTest, ADamagedKeyIsSaidWithTheFile) {
  const TuneRun run = sample_run('a', "1");
  ASSERT_TRUE(open("a.db").add(run, sample_race("p", {1.0, 0.8})));
  ASSERT_TRUE(SqliteDatabase::open(file("a.db"), SqliteDatabase::Mode::change)
                  ->execute("UPDATE recipe SET key = 'x' || substr(key, 2)"));
  const auto races = Database::open(file("a.db"), Database::Mode::read)->races();
  ASSERT_FALSE(races);
  EXPECT_EQ(races.error().code, ErrorCode::io);
  EXPECT_NE(races.error().message.find("a.db is damaged"), std::string::npos) << races.error().text();
}

// A database in WAL mode has files beside it while it is open.
TEST_F(DatabaseTest, IsReadWhereNothingCanBeWritten) {
  const char* name = "a %20#?.db";
  ASSERT_TRUE(open(name).add(sample_run('a', "1"), sample_race("p", {1.0, 0.8})));
  ASSERT_FALSE(std::filesystem::exists(file(name).string() + "-shm"));
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    constexpr rlimit kNothing{.rlim_cur = 0, .rlim_max = 0};
    if (::setrlimit(RLIMIT_FSIZE, &kNothing) != 0) ::_exit(1);
    const auto database = Database::open(file(name), Database::Mode::read);
    if (!database) ::_exit(2);
    const auto races = database->races();
    ::_exit(races && races->size() == 1 ? 0 : 3);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(DatabaseTest, ReadersLeaveNothingBehind) {
  const auto names = [&] {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      out.push_back(entry.path().filename().string());
    return out;
  };
  ASSERT_TRUE(open("a.db").add(sample_run('a', "1"), sample_race("p", {1.0, 0.8})));
  std::filesystem::create_symlink("a.db", file("link.db"));
  const auto before = names();
  for (const char* name : {"a.db", "link.db"}) {
    const auto one = Database::open(file(name), Database::Mode::read),
               two = Database::open(file(name), Database::Mode::read);
    EXPECT_EQ(one->races()->size(), 1u);
    EXPECT_EQ(two->races()->size(), 1u);
  }
  EXPECT_EQ(names(), before);
  // A killed writer's log is read, and a reader that may write takes it into the file.
  const pid_t child = ::fork();
  if (child == 0) {
    auto database = Database::open(file("a.db"), Database::Mode::write);
    if (!database->add(sample_run('b', "1"), sample_race("q", {1.0, 0.8}))) ::_exit(1);
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_TRUE(std::filesystem::exists(file("a.db-wal")));
  EXPECT_EQ(Database::open(file("a.db"), Database::Mode::read)->races()->size(), 2u);
  EXPECT_EQ(names(), before);
}

TEST_F(DatabaseTest, AReaderThatMayNotWriteLeavesNothingBehind) {
  ASSERT_TRUE(open("a.db").add(sample_run('a', "1"), sample_race("p", {1.0, 0.8})));
  std::filesystem::permissions(folder_.path(), std::filesystem::perms(0555));
  std::filesystem::permissions(file("a.db"), std::filesystem::perms(0444));
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;  // root may write anywhere
    if (::getuid() == 0 && ::setuid(kNobody) != 0) ::_exit(1);
    const auto database = Database::open(file("a.db"), Database::Mode::read);
    if (!database) ::_exit(2);
    const auto races = database->races();
    ::_exit(races && races->size() == 1 ? 0 : 3);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  std::filesystem::permissions(folder_.path(), std::filesystem::perms(0755));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);
}

// The file of a writer that comes and goes is never seen half written.
TEST_F(DatabaseTest, AReaderThatMayNotWriteReadsWholeFiles) {
  if (::getuid() != 0) GTEST_SKIP() << "a reader of another name than the writer's takes root";
  std::filesystem::permissions(folder_.path(), std::filesystem::perms(0755));
  { ASSERT_TRUE(open("a.db").add(sample_run('a', "1"), sample_race("first", {1.0, 0.9}))); }
  std::filesystem::permissions(file("a.db"), std::filesystem::perms(0644));
  const pid_t writer = ::fork();
  if (writer == 0) {
    for (int i = 0; i < 60; ++i) {
      auto database = Database::open(file("a.db"), Database::Mode::write);
      if (!database) ::_exit(1);
      for (int j = 0; j < 20; ++j)
        if (!database->add(sample_run('a', "1"), sample_race(std::to_string(20 * i + j), {1.0, 0.9, 1.1}))) ::_exit(2);
    }
    ::_exit(0);
  }
  const pid_t reader = ::fork();
  if (reader == 0) {
    if (::setuid(65534) != 0) ::_exit(1);
    std::size_t seen = 1;
    for (int i = 0; i < 200 && seen < 1201; ++i) {
      const auto database = Database::open(file("a.db"), Database::Mode::read);
      if (!database) ::_exit(2);
      const auto races = database->races();
      if (!races) ::_exit(3);
      if (races->size() < seen || !database->check()) ::_exit(4);
      seen = races->size();
    }
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(reader, &status, 0), reader);
  EXPECT_EQ(status, 0) << "ended with " << WEXITSTATUS(status);
  ASSERT_EQ(::waitpid(writer, &status, 0), writer);
  EXPECT_EQ(status, 0);
}

TEST_F(DatabaseTest, ReadersBesideAWriterReadAndDoNotHinderIt) {
  (void)open("a.db");
  const pid_t child = ::fork();
  if (child == 0) {
    for (int i = 0; i < 40; ++i) {
      auto database = Database::open(file("a.db"), Database::Mode::write);
      if (!database) ::_exit(1);
      if (!database->add(sample_run('a', "1"), sample_race(std::to_string(i), {1.0, 0.9}))) ::_exit(2);
    }
    ::_exit(0);
  }
  std::size_t seen = 0;
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    const auto database = Database::open(file("a.db"), Database::Mode::read);
    ASSERT_TRUE(database) << database.error().text();
    const auto races = database->races();
    ASSERT_TRUE(races) << races.error().text();
    EXPECT_GE(races->size(), seen);
    seen = races->size();
  }
  EXPECT_EQ(status, 0);
  EXPECT_EQ(Database::open(file("a.db"), Database::Mode::read)->races()->size(), 40u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);
}

TEST_F(DatabaseTest, WritersAtTheSameTimeLoseNothing) {
  constexpr int kWriters = 4, kRaces = 12;
  std::vector<pid_t> children;
  for (int writer = 0; writer < kWriters; ++writer) {
    const pid_t child = ::fork();
    if (child == 0) {
      auto database = Database::open(file("shared.db"), Database::Mode::write);
      if (!database) ::_exit(1);
      for (int i = 0; i < kRaces; ++i)
        if (!database->add(sample_run(static_cast<char>('a' + writer), "1"),
                           sample_race(std::to_string(i), {1.0, 0.9})))
          ::_exit(2);
      ::_exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(open("shared.db").races()->size(), static_cast<std::size_t>(kWriters * kRaces));
}

// The moment in which a file becomes a database is short: many files, and all writers begin at once.
TEST_F(DatabaseTest, WritersThatBeginAtTheSameTimeAreAllServed) {
  constexpr int kWriters = 4, kFiles = 60;
  std::vector<pid_t> children;
  const auto begin = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
  for (int writer = 0; writer < kWriters; ++writer) {
    const pid_t child = ::fork();
    if (child == 0) {
      std::this_thread::sleep_until(begin);
      for (int i = 0; i < kFiles; ++i)
        if (!Database::open(file(("new" + std::to_string(i) + ".db").c_str()), Database::Mode::write)) ::_exit(1);
      ::_exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

TEST_F(DatabaseTest, AKilledWriterLeavesWholeRaces) {
  for (int round = 0; round < 5; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      auto database = Database::open(file("killed.db"), Database::Mode::write);
      for (int i = 0;; ++i) {
        const std::string name = std::to_string(round) + "/" + std::to_string(i);
        if (!database->add(sample_run(static_cast<char>('a' + round), "1"), sample_race(name, {1.0, 0.9, 0.8, 0.7})))
          ::_exit(2);
      }
    }
    ::usleep(60'000 + 7'000 * round);
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status));
  }
  const Database database = open("killed.db");
  EXPECT_TRUE(database.check());
  const auto races = database.races();
  ASSERT_TRUE(races) << races.error().text();
  EXPECT_FALSE(races->empty());
  for (const StoredRace& stored : *races) {
    ASSERT_EQ(stored.race.entrants.size(), 4u);
    for (const Entrant& entrant : stored.race.entrants) EXPECT_EQ(entrant.blocks[1].size(), 4u);
  }
}

}  // namespace
}  // namespace tilesmith
