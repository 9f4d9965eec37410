// Faults, made for real: damaged files, killed processes, full and read-only disks, no home, many processes on one key.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <thread>

#include "base/file.hpp"
#include "base/log.hpp"
#include "jit/build.hpp"
#include "jit/fake_toolchain.hpp"
#include "jit/store.hpp"

namespace tilesmith {
namespace {
namespace fs = std::filesystem;
using testing::binary_of;
using testing::FakeToolchain;
using testing::make_source;
using testing::ScopedVariable;

class StoreFaults : public ::testing::Test {
 protected:
  void SetUp() override {
    set_log_sink([this](LogLevel level, std::string_view message) {
      if (level <= LogLevel::warn) warnings_.emplace_back(message);
    });
  }
  void TearDown() override { set_log_sink({}); }

  fs::path root() const { return directory_.path() / "store"; }
  std::unique_ptr<Store> open() const { return std::move(Store::open(root()).value()); }
  static EntryKey key_of(const Source& source) { return entry_key(source, "fake 1").value(); }
  fs::path entry(const Source& source) const { return root() / "v1/entries" / key_of(source).digest; }
  /// Every file under building/ and entries/ that is no complete entry.
  std::size_t leftovers() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(root() / "v1/building"), fs::directory_iterator{}));
  }

  TemporaryDirectory directory_ = testing::fast_directory();
  FakeToolchain toolchain_;
  std::vector<std::string> warnings_;
};

/// Runs `body` in a process of its own; its result is the exit status.
int in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    set_log_sink([](LogLevel, std::string_view) {});
    ::_exit(body());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST_F(StoreFaults, EveryDamageIsQuarantinedAndBuiltAgain) {
  const Source source = make_source("a"), other = make_source("b");
  const auto rewrite = [](const fs::path& path, const std::function<void(std::string&)>& change) {
    std::string bytes = read_file(path).value();
    change(bytes);
    fs::remove(path);
    std::ofstream(path, std::ios::binary) << bytes;
  };
  std::vector<std::function<void(const fs::path&)>> damages;
  for (const char* name : {"binary", "source", "log", "manifest.json"}) {
    const auto damage = [&](std::function<void(std::string&)> change) {
      damages.emplace_back([=](const fs::path& at) { rewrite(at / name, change); });
    };
    for (const double where : {0.0, 0.3, 0.6, 0.999})
      damage([where](std::string& bytes) {
        bytes[static_cast<std::size_t>(where * static_cast<double>(bytes.size()))] ^= 1;
      });
    damage([](std::string& bytes) { bytes.pop_back(); });
    damage([](std::string& bytes) { bytes.resize(bytes.size() / 2); });
    damage([](std::string& bytes) { bytes.clear(); });
    damage([](std::string& bytes) { bytes += 'x'; });
    damage([](std::string& bytes) { bytes.assign(bytes.size(), '\0'); });
    damages.emplace_back([=](const fs::path& at) { fs::remove(at / name); });
    damages.emplace_back([=](const fs::path& at) { fs::permissions(at / name, fs::perms(0666)); });
    damages.emplace_back([=](const fs::path& at) {
      fs::rename(at / name, at / "moved");
      fs::create_symlink("moved", at / name);
    });
    damages.emplace_back([=](const fs::path& at) {
      fs::remove(at / name);
      fs::create_directory(at / name);
    });
  }
  damages.emplace_back([](const fs::path& at) {
    fs::rename(at / "binary", at / "x");
    fs::rename(at / "source", at / "binary");
    fs::rename(at / "x", at / "source");
  });
  damages.emplace_back([&](const fs::path& at) {  // a valid entry of another key
    fs::remove_all(at);
    fs::copy(entry(other), at, fs::copy_options::recursive);
  });
  damages.emplace_back([](const fs::path& at) {
    fs::remove_all(at);
    std::ofstream(at) << "a file where a directory should be";
  });
  damages.emplace_back([](const fs::path& at) {
    fs::remove_all(at);
    fs::create_directory(at);
  });
  for (const char* manifest :
       {"{}", "[]", "null", "{\"schema\":1}", "{\"schema\":2,\"key\":3,\"files\":[],\"status\":\"ok\"}"})
    damages.emplace_back([=](const fs::path& at) { std::ofstream(at / "manifest.json") << manifest; });
  damages.emplace_back([](const fs::path& at) { std::ofstream(at / "manifest.json") << std::string(100'000, '['); });

  const auto store = open();
  ASSERT_TRUE(build(*store, toolchain_, other).has_value());
  ASSERT_TRUE(build(*store, toolchain_, source).has_value());
  for (std::size_t i = 0; i < damages.size(); ++i) {
    damages[i](entry(source));
    const int calls = toolchain_.calls;
    const auto again = build(*store, toolchain_, source);
    ASSERT_TRUE(again.has_value()) << i << ": " << again.error().text();
    ASSERT_EQ(again->read(), binary_of(source)) << i;
    EXPECT_EQ(toolchain_.calls, calls + 1) << "damage " << i << " was not noticed";
    EXPECT_EQ(store->corrupt_count(), i + 1) << i;
  }
  EXPECT_EQ(store->stats()->quarantined, damages.size());
  EXPECT_TRUE(store->verify()->corrupt.empty());
  ASSERT_TRUE(store->prune(1ull << 30).has_value());
  EXPECT_EQ(store->stats()->quarantined, 0u);
  EXPECT_EQ(store->stats()->entries, 2u);
}

TEST_F(StoreFaults, VerifyFindsDamageThatNobodyStumbledOver) {
  const auto store = open();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(build(*store, toolchain_, make_source("v" + std::to_string(i))).has_value());
  std::ofstream(entry(make_source("v3")) / "binary") << "short";
  const auto verdict = store->verify();
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->checked, 5u);
  ASSERT_EQ(verdict->corrupt.size(), 1u);
  EXPECT_NE(verdict->corrupt[0].message.find(key_of(make_source("v3")).digest), std::string::npos);
  EXPECT_EQ(store->stats()->entries, 4u);
}

TEST_F(StoreFaults, KillAtAnyPointLeavesNothingToRepair) {
  static_cast<void>(open());
  std::mt19937 random(11);
  int published = 0;
  for (int round = 0; round < 150; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      auto store = Store::open(root());
      for (int i = 0; store.has_value() && i < 1000; ++i) {
        const Source source = make_source("k" + std::to_string(round) + "_" + std::to_string(i));
        static_cast<void>(build(**store, toolchain_, source));
      }
      ::_exit(0);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 40000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    if (round % 10 != 9) continue;
    const auto store = open();
    ASSERT_EQ(leftovers(), 0u) << "the next start sweeps";
    const auto verdict = store->verify();
    ASSERT_TRUE(verdict->corrupt.empty()) << verdict->corrupt[0].text();
    published = static_cast<int>(verdict->checked);
  }
  EXPECT_GT(published, 50) << "the children hardly got to publish anything: the test says little";
  const auto store = open();
  const Source source = make_source("k0_0");
  EXPECT_EQ(build(*store, toolchain_, source)->read(), binary_of(source));
}

TEST_F(StoreFaults, SixteenProcessesOnTheSameKeysCompileEachOnce) {
  static_cast<void>(open());
  const fs::path journal = directory_.path() / "journal";
  constexpr int kProcesses = 16, kKeys = 12;
  int barrier[2];
  ASSERT_EQ(::pipe(barrier), 0);
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(barrier[1]);
      char byte = 0;
      static_cast<void>(::read(barrier[0], &byte, 1));  // returns when the parent closes its end: all start together
      FakeToolchain toolchain(journal);
      toolchain.delay = std::chrono::milliseconds(3);
      auto store = Store::open(root());
      int wrong = store.has_value() ? 0 : 1;
      for (int i = 0; i < kKeys && wrong == 0; ++i) {
        const Source source = make_source("race" + std::to_string((i + p) % kKeys));
        const auto binary = build(**store, toolchain, source);
        if (!binary || binary->read() != binary_of(source)) wrong = 2;
      }
      ::_exit(wrong);
    }
    children.push_back(child);
  }
  ::close(barrier[0]);
  ::close(barrier[1]);
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  const std::string lines = read_file(journal).value();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), kKeys) << "each key is compiled by one process only";
  EXPECT_EQ(open()->stats()->entries, static_cast<std::uint64_t>(kKeys));
}

TEST_F(StoreFaults, WithoutLocksTheResultIsTheSame) {
  const auto store = open();
  fs::remove_all(root() / "v1/locks");
  std::ofstream(root() / "v1/locks") << "no directory";
  std::vector<pid_t> children;
  for (int p = 0; p < 8; ++p) {
    const pid_t child = ::fork();
    if (child == 0) {
      toolchain_.delay = std::chrono::milliseconds(2);
      for (int i = 0; i < 10; ++i) {
        const Source source = make_source("nolock" + std::to_string(i));
        const auto binary = build(*store, toolchain_, source);
        if (!binary || binary->read() != binary_of(source)) ::_exit(1);
      }
      ::_exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(store->verify()->checked, 10u);
  EXPECT_EQ(store->stats()->quarantined, 0u);
  EXPECT_EQ(leftovers(), 0u);
}

TEST_F(StoreFaults, ALockHolderThatHangsDelaysOnly) {
  const auto store = open();
  const Source source = make_source("a");
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t holder = ::fork();
  if (holder == 0) {
    const auto lock = open()->lock(key_of(source), std::chrono::seconds(1), {});
    static_cast<void>(::write(ready[1], "x", 1) == 1);
    ::raise(SIGSTOP);
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  BuildOptions options;
  options.lock_wait = std::chrono::milliseconds(50);
  const auto binary = build(*store, toolchain_, source, options);
  ASSERT_TRUE(binary.has_value());
  EXPECT_EQ(binary->read(), binary_of(source));
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("process " + std::to_string(holder)), std::string::npos) << warnings_[0];
  ::kill(holder, SIGKILL);
  ::waitpid(holder, nullptr, 0);
}

TEST_F(StoreFaults, AWriteThatFailsAnywhereShowsNoEntry) {
  // RLIMIT_FSIZE lets each file grow to the limit only: every limit breaks the publish at another write.
  const Source source = make_source("full");
  for (const rlim_t bytes : {0u, 1u, 10u, 15u, 100u, 300u, 600u, 1000u, 5000u, 19'999u}) {
    const int status = in_child([&] {
      auto store = Store::open(root());
      if (!store) return 1;
      ::signal(SIGXFSZ, SIG_IGN);
      const rlimit limit{bytes, bytes};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      const auto binary = build(**store, toolchain_, source);
      if (binary) return 2;
      return binary.error().code == ErrorCode::out_of_memory ? 0 : 3;
    });
    EXPECT_EQ(status, 0) << bytes;
    EXPECT_FALSE(fs::exists(entry(source))) << bytes;
  }
  const auto store = open();
  EXPECT_EQ(leftovers(), 0u);
  EXPECT_EQ(build(*store, toolchain_, source)->read(), binary_of(source));
}

/// A small file system of our own, in a mount namespace of our own.
bool mount_small(const fs::path& at, unsigned long flags, const char* options) {
  return ::unshare(CLONE_NEWNS) == 0 && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("tmpfs", at.c_str(), "tmpfs", flags, options) == 0;
}
constexpr int kCannotMount = 77;

TEST_F(StoreFaults, OnAFullDiskKernelsStillWork) {
  fs::create_directory(root());
  const int status = in_child([&] {
    if (!mount_small(root(), 0, "size=200k,mode=0700")) return kCannotMount;
    auto store = Store::open(root());
    if (!store) return 1;
    for (int i = 0; i < 30; ++i) {
      const Source source = make_source("f" + std::to_string(i));
      const auto binary = build(**store, toolchain_, source);
      if (!binary || binary->read() != binary_of(source)) return 2;
      const auto again = build(**store, toolchain_, source);
      if (!again || !again->from_store) return 3;
    }
    if (!(*store)->verify()->corrupt.empty() || leftovers() != 0) return 4;
    const std::uint64_t kept = (*store)->stats()->entries;
    if (kept == 0 || kept == 30) return 5;
    return (*store)->prune(0) && (*store)->stats()->entries == 0 ? 0 : 6;
  });
  if (status == kCannotMount) GTEST_SKIP() << "mounting needs root";
  EXPECT_EQ(status, 0);
}

TEST_F(StoreFaults, AReadOnlyStoreIsReadAndTheRestIsPrivate) {
  const Source known = make_source("known"), fresh = make_source("fresh");
  fs::create_directory(root());
  const int status = in_child([&] {
    if (!mount_small(root(), 0, "size=1m,mode=0700")) return kCannotMount;
    if (!build(*open(), toolchain_, known)) return 1;
    if (::mount(nullptr, root().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) != 0) return kCannotMount;
    auto store = Store::open(root());
    if (!store) return 2;
    const auto found = build(**store, toolchain_, known);
    if (!found || !found->from_store) return 3;
    const auto built = build(**store, toolchain_, fresh);
    if (!built || built->read() != binary_of(fresh) || built->path.string().starts_with(root().string())) return 4;
    if (!build(**store, toolchain_, fresh)->from_store) return 5;
    return (*store)->prune(0).has_value() ? 6 : 0;
  });
  if (status == kCannotMount) GTEST_SKIP() << "mounting needs root";
  EXPECT_EQ(status, 0);
}

TEST_F(StoreFaults, ANoexecPlaceIsNotUsed) {
  fs::create_directory(root());
  const int status = in_child([&] {
    if (!mount_small(root(), MS_NOEXEC, "size=1m,mode=0700")) return kCannotMount;
    const auto store = Store::open(root());
    return !store && store.error().message.find("noexec") != std::string::npos ? 0 : 1;
  });
  if (status == kCannotMount) GTEST_SKIP() << "mounting needs root";
  EXPECT_EQ(status, 0);
}

TEST_F(StoreFaults, WithNowhereToKeepThingsOneWarningAndEverythingWorks) {
  std::ofstream(directory_.path() / "file") << "not a directory";
  const std::string file = (directory_.path() / "file").string();
  struct Case {
    const char* what;
    const char *chosen, *xdg, *home;
  };
  fs::create_directory(directory_.path() / "open");
  fs::permissions(directory_.path() / "open", fs::perms(0777));
  const std::string open_home = (directory_.path() / "open").string();
  const std::string below = file + "/below";
  for (const Case& c : {Case{"no home at all", nullptr, nullptr, nullptr},
                        Case{"a file instead of the directory", file.c_str(), nullptr, nullptr},
                        Case{"a file on the way", below.c_str(), nullptr, nullptr},
                        Case{"a home that is a file", nullptr, nullptr, file.c_str()},
                        Case{"a system folder that takes no directories", "/proc/tilesmith", nullptr, nullptr},
                        Case{"a default place that others can write to", nullptr, open_home.c_str(), nullptr}}) {
    const int status = in_child([&] {
      std::vector<std::string> said;
      set_log_sink([&said](LogLevel, std::string_view message) { said.emplace_back(message); });
      ScopedVariable chosen("TILESMITH_CACHE_DIR", c.chosen), xdg("XDG_CACHE_HOME", c.xdg), home("HOME", c.home);
      const Source source = make_source("a");
      auto store = Store::open();
      if (!store || !(*store)->root().empty()) return 1;
      const auto binary = build(**store, toolchain_, source);
      if (!binary || binary->read() != binary_of(source)) return 2;
      if (!build(**store, toolchain_, source)->from_store) return 3;
      const fs::path path = binary->path;
      store->reset();
      if (fs::exists(path)) return 4;
      static_cast<void>(Store::open());
      return said.size() == 1 && said[0].find("not kept") != std::string::npos ? 0 : 5;
    });
    EXPECT_EQ(status, 0) << c.what;
  }
}

TEST_F(StoreFaults, ShortageOfDescriptorsIsNoDamage) {
  const Source source = make_source("a");
  const int status = in_child([&] {
    const auto store = open();
    if (!build(*store, toolchain_, source)) return 1;
    for (rlim_t more = 0; more < 2; ++more) {  // a hit takes two descriptors at once: the entry's directory and a file
      const FileDescriptor last(::dup(0));
      const rlimit limit{static_cast<rlim_t>(last.get()) + 1 + more, 4096};
      ::setrlimit(RLIMIT_NOFILE, &limit);
      const auto found = store->find(key_of(source));
      if (!found || found->has_value()) return 2;
    }
    const rlimit limit{1024, 4096};
    ::setrlimit(RLIMIT_NOFILE, &limit);
    if (store->corrupt_count() != 0) return 3;
    return store->find(key_of(source)).value().has_value() ? 0 : 4;
  });
  EXPECT_EQ(status, 0);
}

TEST_F(StoreFaults, EvictionUnderReadersEndsInARebuild) {
  const auto store = open();
  std::jthread pruner([&](const std::stop_token& stop) {
    const auto other = open();
    while (!stop.stop_requested()) EXPECT_TRUE(other->prune(30'000).has_value());
  });
  for (int i = 0; i < 150; ++i) {
    const Source source = make_source("e" + std::to_string(i % 5));
    ASSERT_TRUE(build(*store, toolchain_, source).has_value());
  }
}

}  // namespace
}  // namespace tilesmith
