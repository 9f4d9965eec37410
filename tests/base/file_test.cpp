#include "base/file.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <random>
#include <thread>

namespace tilesmith {
namespace {
namespace fs = std::filesystem;

class File : public ::testing::Test {
 protected:
  fs::path at(std::string_view name) const { return directory_.path() / name; }
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(directory_.path()), fs::directory_iterator{}));
  }
  TemporaryDirectory directory_ = TemporaryDirectory::create("tilesmith-file-test-").value();
};

TEST_F(File, RoundTripsArbitraryBytes) {
  std::mt19937 random(1);
  for (const std::size_t size : {0u, 1u, 4094u, 4095u, 4096u, 4097u, 1'000'003u}) {
    std::string bytes(size, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    ASSERT_TRUE(write_file_atomic(at("f"), bytes).has_value());
    ASSERT_EQ(read_file(at("f")), bytes) << size;
    ASSERT_EQ(read_file(at("f"), size), bytes) << "a limit equal to the size is enough";
  }
  EXPECT_EQ(entries(), 1u) << "nothing temporary is left";
}

TEST_F(File, ReadRefusesWhatIsTooLarge) {
  ASSERT_TRUE(write_new_file(at("f"), std::string(5000, 'x')).has_value());
  const auto content = read_file(at("f"), 4999);
  ASSERT_FALSE(content.has_value());
  EXPECT_NE(content.error().message.find("4999"), std::string::npos);
  EXPECT_FALSE(read_file("/dev/zero", 100'000).has_value()) << "an endless device must not be read for ever";
}

TEST_F(File, ErrorsNamePathAndReason) {
  const auto missing = read_file(at("absent"));
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::not_found);
  EXPECT_NE(missing.error().message.find(at("absent").string()), std::string::npos);
  EXPECT_NE(missing.error().message.find("No such file"), std::string::npos);
  EXPECT_EQ(missing.error().hint, "a path that exists");
  EXPECT_EQ(read_file(directory_.path()).error().code, ErrorCode::io);
  EXPECT_FALSE(write_file_atomic(at("no/such/directory"), "x").has_value());
  EXPECT_FALSE(write_file_atomic(directory_.path(), "x").has_value()) << "a directory cannot be replaced";
  EXPECT_EQ(entries(), 0u);
}

TEST_F(File, NewFileRefusesAnExistingOneAndALink) {
  ASSERT_TRUE(write_new_file(at("f"), "1").has_value());
  EXPECT_FALSE(write_new_file(at("f"), "2").has_value());
  fs::create_symlink(at("elsewhere"), at("link"));
  EXPECT_FALSE(write_new_file(at("link"), "2").has_value());
  EXPECT_EQ(read_file(at("f")), "1");
  EXPECT_FALSE(fs::exists(at("elsewhere")));
}

TEST_F(File, AtomicWriteKeepsModeAndFollowsLinks) {
  ASSERT_TRUE(write_file_atomic(at("f"), "1").has_value());
  fs::permissions(at("f"), fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read);
  fs::create_symlink("f", at("link"));
  ASSERT_TRUE(write_file_atomic(at("link"), "2").has_value());
  EXPECT_TRUE(fs::is_symlink(at("link")));
  EXPECT_EQ(read_file(at("f")), "2");
  EXPECT_EQ(fs::status(at("f")).permissions() & fs::perms::mask, fs::perms(0640));
  const FileContent together[] = {{at("one"), "1"}, {at("two"), "2"}};
  ASSERT_TRUE(write_files_atomic(together).has_value());
  EXPECT_EQ(read_file(at("two")), "2");
  const FileContent apart[] = {{at("three"), "3"}, {at("no/such/directory"), "4"}};
  EXPECT_FALSE(write_files_atomic(apart).has_value());
  EXPECT_FALSE(std::filesystem::exists(at("three"))) << "all files or none";
  EXPECT_TRUE(write_file_atomic("/dev/null", "x").has_value()) << "devices are written in place";
}

TEST_F(File, AReaderNeverSeesAMixture) {
  ASSERT_TRUE(write_file_atomic(at("f"), std::string(50'000, 'a')).has_value());
  std::jthread writer([this](const std::stop_token& stop) {
    for (char c = 'b'; !stop.stop_requested(); c = c == 'z' ? 'a' : static_cast<char>(c + 1))
      ASSERT_TRUE(write_file_atomic(at("f"), std::string(50'000, c)).has_value());
  });
  for (int i = 0; i < 300; ++i) {
    const auto content = read_file(at("f"));
    ASSERT_TRUE(content.has_value()) << content.error().text();
    ASSERT_EQ(*content, std::string(50'000, content->front()));
  }
}

TEST_F(File, AFullDiskLeavesTheOldContentAndNothingElse) {
  ASSERT_TRUE(write_file_atomic(at("f"), "old").has_value());
  // A file-size limit fails the write as a full disk does, in the middle of the file. The limit is the child's alone.
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const Status status = write_file_atomic(at("f"), std::string(5000, 'n'));
    ::_exit(!status && status.error().code == ErrorCode::out_of_memory ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read_file(at("f")), "old");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(File, DirectoriesArePrivateAndRemovedWhole) {
  ASSERT_TRUE(make_private_directories(at("a/b/c")).has_value());
  ASSERT_TRUE(make_private_directories(at("a/b/c")).has_value()) << "again is no error";
  struct stat status {};
  ASSERT_EQ(::stat(at("a/b").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0700u);
  ASSERT_TRUE(write_new_file(at("a/b/f"), "x").has_value());
  EXPECT_FALSE(make_private_directories(at("a/b/f/g")).has_value());
  EXPECT_FALSE(make_private_directories(at("a/b/f")).has_value());
  ASSERT_TRUE(write_new_file(at("kept"), "x").has_value());
  fs::create_symlink(at("kept"), at("a/link"));
  ASSERT_TRUE(remove_tree(at("a")).has_value());
  ASSERT_TRUE(remove_tree(at("a")).has_value());
  EXPECT_EQ(entries(), 1u) << "the link went, what it named stayed";
}

TEST_F(File, TemporaryDirectoryGoesWithItsOwner) {
  fs::path path;
  {
    auto one = TemporaryDirectory::create("t-", directory_.path());
    ASSERT_TRUE(one.has_value());
    path = one->path();
    ASSERT_TRUE(write_new_file(path / "f", "x").has_value());
    TemporaryDirectory moved = std::move(*one);
    EXPECT_TRUE(fs::exists(path / "f"));
  }
  EXPECT_FALSE(fs::exists(path));
  EXPECT_FALSE(TemporaryDirectory::create("t-", at("absent")).has_value());
}

TEST_F(File, TemporaryDirectoryOutlivesAChildsCopy) {
  const auto mine = TemporaryDirectory::create("t-", directory_.path()).value();
  const pid_t child = ::fork();
  if (child == 0) {
    { const TemporaryDirectory copy = std::move(const_cast<TemporaryDirectory&>(mine)); }
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(fs::exists(mine.path()));
}

TEST_F(File, OnlyRegularFilesAreReadAsSuch) {
  ASSERT_TRUE(write_new_file(at("file"), "text").has_value());
  EXPECT_EQ(read_regular_file(at("file")), "text");
  EXPECT_EQ(read_regular_file(at("file"), 3).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(read_regular_file(at("absent")).error().code, ErrorCode::not_found);
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  fs::create_symlink("/dev/zero", at("device"));
  fs::create_symlink("file", at("link"));
  for (const char* other : {"pipe", "device", "link", "."}) {
    const auto read = read_regular_file(at(other));
    ASSERT_FALSE(read.has_value()) << other;
    EXPECT_EQ(read.error().code, ErrorCode::io) << other;
    EXPECT_NE(read.error().message.find("not a regular file"), std::string::npos) << read.error().text();
  }
}

// A user who may write to a folder and not list it gets the file, and no error.
TEST_F(File, AFolderThatCannotBeListedTakesFiles) {
  if (::geteuid() == 0) {
    const pid_t child = ::fork();  // as somebody whom modes concern
    if (child == 0) {
      ASSERT_EQ(::chmod(directory_.path().c_str(), 0777), 0);
      const fs::path folder = at("write_only");
      if (::setgid(65534) != 0 || ::setuid(65534) != 0 || ::mkdir(folder.c_str(), 0333) != 0) ::_exit(77);
      const bool good = write_file_atomic(folder / "f", "x").has_value() && read_file(folder / "f") == "x";
      ::_exit(good ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "root cannot become another user here";
    EXPECT_EQ(WEXITSTATUS(status), 0);
    return;
  }
  ASSERT_EQ(::mkdir(at("write_only").c_str(), 0333), 0);
  EXPECT_TRUE(write_file_atomic(at("write_only/f"), "x").has_value());
}

TEST_F(File, OnlyOursRefusesWhatOthersCanChange) {
  ASSERT_TRUE(make_private_directories(at("home/cache")).has_value());
  EXPECT_TRUE(check_only_ours(at("home/cache")).has_value()) << "below /tmp, which is sticky";
  EXPECT_TRUE(check_only_ours(at("home/cache/")).has_value());
  EXPECT_TRUE(check_only_ours(at("home/../home/./cache")).has_value());

  for (const unsigned mode : {0770u, 0707u, 0777u, 01777u}) {
    fs::permissions(at("home/cache"), fs::perms(mode));
    const Status status = check_only_ours(at("home/cache"));
    ASSERT_FALSE(status.has_value()) << std::oct << mode;
    EXPECT_NE(status.error().hint.find("chmod go-w '" + at("home/cache").string()), std::string::npos);
  }
  fs::permissions(at("home/cache"), fs::perms(0755));
  EXPECT_TRUE(check_only_ours(at("home/cache")).has_value());

  fs::permissions(at("home"), fs::perms(0777));
  EXPECT_FALSE(check_only_ours(at("home/cache")).has_value()) << "a parent that others can write to";
  fs::permissions(at("home"), fs::perms(0700));
  EXPECT_EQ(check_only_ours(at("absent")).error().code, ErrorCode::not_found);
}

TEST_F(File, OnlyOursLooksBehindLinks) {
  ASSERT_TRUE(make_private_directories(at("open/cache")).has_value());
  fs::permissions(at("open"), fs::perms(0777));
  fs::create_directory_symlink("open/cache", at("relative"));
  fs::create_directory_symlink(at("open/cache"), at("absolute"));
  EXPECT_FALSE(check_only_ours(at("relative")).has_value());
  EXPECT_FALSE(check_only_ours(at("absolute")).has_value());
  fs::permissions(at("open"), fs::perms(0755));
  EXPECT_TRUE(check_only_ours(at("relative")).has_value());
  EXPECT_TRUE(check_only_ours(at("absolute")).has_value());
  fs::create_symlink("loop", at("loop"));
  EXPECT_FALSE(check_only_ours(at("loop")).has_value());
}

TEST_F(File, OnlyOursRefusesAnotherOwner) {
  ASSERT_TRUE(make_private_directories(at("theirs")).has_value());
  if (::chown(at("theirs").c_str(), 12345, 12345) != 0) GTEST_SKIP() << "only root can give a directory away";
  const Status status = check_only_ours(at("theirs"));
  ASSERT_FALSE(status.has_value());
  EXPECT_NE(status.error().message.find("12345"), std::string::npos);
}

}  // namespace
}  // namespace tilesmith
