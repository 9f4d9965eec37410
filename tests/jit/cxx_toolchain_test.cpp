#include "jit/cxx_toolchain.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <ostream>
#include <thread>

#include "base/file.hpp"
#include "base/log.hpp"
#include "base/subprocess.hpp"
#include "jit/build.hpp"
#include "jit/fake_toolchain.hpp"
#include "jit/shared_object.hpp"

namespace tilesmith {
namespace {
namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::ScopedVariable;

Source real_source(const std::string& name, int value) {
  Source source = testing::make_source(name);
  source.language = Language::cpp;
  source.text = "static int value() { return " + std::to_string(value) + "; }\n" +
                "extern \"C\" __attribute__((visibility(\"default\"))) int " + source.entry_symbol +
                "(int x) { return x + value(); }\n";
  source.options = {"-O1", "-fvisibility=hidden"};
  return source;
}

int call(const fs::path& path, const std::string& symbol, int x) {
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << ::dlerror();
  if (library == nullptr) return -1;
  auto* function = reinterpret_cast<int (*)(int)>(::dlsym(library, symbol.c_str()));
  EXPECT_NE(function, nullptr);
  const int result = function == nullptr ? -1 : function(x);
  ::dlclose(library);
  return result;
}

std::string fake(const std::string& name) {
  return std::string(TILESMITH_SOURCE_DIR) + "/tests/jit/fake_compilers/" + name;
}

Result<Compiled> compile_with(const std::string& compiler, const CompileLimits& limits = {}) {
  const auto toolchain = CxxToolchain::use(fake(compiler));
  if (!toolchain) return std::unexpected(toolchain.error());
  const Source source = real_source("wanted", 1);
  const Source* one[] = {&source};
  return (*toolchain)->compile(one, limits);
}

/// No directory of a compile is left where temporary files go.
class CxxToolchainTest : public ::testing::Test {
 protected:
  void TearDown() override {
    for (const auto& entry : fs::directory_iterator(temporary_.path()))
      ADD_FAILURE() << "left behind: " << entry.path();
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a zombie";
  }
  TemporaryDirectory temporary_ = TemporaryDirectory::create("tilesmith-cxx-test-").value();
  ScopedVariable variable_{"TMPDIR", temporary_.path().c_str()};
};

TEST_F(CxxToolchainTest, CompiledSourcesRun) {
  const auto directory = TemporaryDirectory::create("tilesmith-cxx-store-", "/tmp").value();
  const auto store = Store::open(directory.path() / "store").value();
  const auto toolchain = CxxToolchain::find();
  ASSERT_TRUE(toolchain.has_value()) << toolchain.error().text();
  const auto binary = build(*store, **toolchain, real_source("plus", 40));
  ASSERT_TRUE(binary.has_value()) << binary.error().text();
  EXPECT_EQ(call(binary->path, binary->entry_symbol, 2), 42);
  EXPECT_TRUE(build(*store, **toolchain, real_source("plus", 40))->from_store);
}

TEST_F(CxxToolchainTest, ABatchIsOneBinaryAndTheBadSourceStandsAlone) {
  const auto directory = TemporaryDirectory::create("tilesmith-cxx-store-", "/tmp").value();
  const auto store = Store::open(directory.path() / "store").value();
  const auto toolchain = CxxToolchain::find().value();
  std::vector<Source> sources;
  for (int i = 0; i < 5; ++i) sources.push_back(real_source("batch" + std::to_string(i), i * 100));
  BuildOptions options;
  options.workers = 1;
  options.batch = 5;
  auto binaries = build(*store, *toolchain, sources, options);
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(binaries[i].has_value()) << binaries[i].error().text();
    EXPECT_EQ(binaries[i]->digest, binaries[0]->digest) << "same functions in one file";
    EXPECT_EQ(call(binaries[i]->path, binaries[i]->entry_symbol, 1), 1 + i * 100);
  }
  for (int i = 0; i < 5; ++i) sources[i] = real_source("mixed" + std::to_string(i), i);
  sources[3].text += "syntax error here\n";
  binaries = build(*store, *toolchain, sources, options);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(binaries[i].has_value(), i != 3);
  EXPECT_EQ(binaries[3].error().code, ErrorCode::compile_failed);
  EXPECT_NE(binaries[3].error().message.find("mixed3"), std::string::npos);
  EXPECT_NE(binaries[3].error().message.find("syntax"), std::string::npos) << "the compiler's words";
}

TEST_F(CxxToolchainTest, TheSameSourceGivesTheSameBytes) {
  const auto toolchain = CxxToolchain::find().value();
  const Source source = real_source("same", 7);
  const Source* one[] = {&source};
  EXPECT_EQ(toolchain->compile(one, {})->binary, toolchain->compile(one, {})->binary);
}

TEST_F(CxxToolchainTest, IdentityTellsCompilersApart) {
  const auto real = CxxToolchain::find().value(), one = CxxToolchain::use(fake("fails")).value(),
             other = CxxToolchain::use(fake("floods")).value();
  EXPECT_NE(one->identity(), other->identity()) << "the same version text, different programs";
  EXPECT_NE(one->identity(), real->identity());
  EXPECT_EQ(CxxToolchain::find().value()->identity(), real->identity());
  EXPECT_EQ(real->identity().find(real->compiler().string() + "\n"), std::string::npos) << "no path";
}

TEST_F(CxxToolchainTest, FlagsOfTheEnvironmentFollowTheSourcesOwn) {
  ScopedVariable flags("TILESMITH_CXXFLAGS", nullptr);
  const auto plain = CxxToolchain::find().value();
  flags.set(" -DANSWER=42\t-O0 ");
  const auto flagged = CxxToolchain::find().value();
  EXPECT_NE(flagged->identity(), plain->identity()) << "an entry of its own in the store";
  Source source = real_source("flagged", 7);
  source.text += "\n#if ANSWER != 42 || defined(__OPTIMIZE__)\n#error not what was asked for\n#endif\n";
  const Source* one[] = {&source};
  EXPECT_TRUE(flagged->compile(one, {}).has_value());
  EXPECT_FALSE(plain->compile(one, {}).has_value());
  flags.set("-fno-such-option");
  const auto refused = CxxToolchain::find().value()->compile(one, {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("no-such-option"), std::string::npos) << refused.error().text();
  EXPECT_NE(refused.error().hint.find("TILESMITH_CXXFLAGS"), std::string::npos) << refused.error().text();
}

TEST_F(CxxToolchainTest, AMissingCompilerIsNamed) {
  ScopedVariable path("PATH", "/nowhere"), chosen("TILESMITH_CXX", nullptr);
  const auto none = CxxToolchain::find();
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, ErrorCode::not_found);
  EXPECT_NE(none.error().hint.find("TILESMITH_CXX"), std::string::npos);
  chosen.set("/no/such/compiler");
  const auto wrong = CxxToolchain::find();
  ASSERT_FALSE(wrong.has_value());
  EXPECT_NE(wrong.error().message.find("TILESMITH_CXX: /no/such/compiler"), std::string::npos);
  chosen.set(fake("no_version").c_str());
  EXPECT_NE(CxxToolchain::find().error().message.find("does not tell its version"), std::string::npos);
}

TEST_F(CxxToolchainTest, ItsEnvironmentIsCleaned) {
  const ScopedVariable path("CPLUS_INCLUDE_PATH", "/nowhere"), options("CCC_OVERRIDE_OPTIONS", "# x-c");
  const auto toolchain = CxxToolchain::find().value();
  const Source source = real_source("clean", 7);
  const Source* one[] = {&source};
  EXPECT_TRUE(toolchain->compile(one, {}).has_value());
}

struct Fault {
  const char* compiler;
  ErrorCode code;
  const char* said;  ///< what the message must tell
};

void PrintTo(const Fault& fault, std::ostream* out) {
  *out << fault.compiler;
}

class FaultyCompiler : public CxxToolchainTest, public ::testing::WithParamInterface<Fault> {};

TEST_P(FaultyCompiler, IsReportedForWhatItDid) {
  const auto compiled = compile_with(GetParam().compiler);
  ASSERT_FALSE(compiled.has_value());
  const Error& error = compiled.error();
  EXPECT_EQ(to_string(error.code), to_string(GetParam().code)) << error.text();
  EXPECT_NE(error.message.find(GetParam().said), std::string::npos) << error.text();
  EXPECT_NE(error.message.find("wanted"), std::string::npos) << "the instance's name: " << error.text();
  EXPECT_LT(error.message.size(), 6000u);
}

INSTANTIATE_TEST_SUITE_P(All, FaultyCompiler,
                         ::testing::Values(Fault{"fails", ErrorCode::compile_failed, "expected something else"},
                                           Fault{"floods", ErrorCode::internal, "first words"},
                                           Fault{"writes_garbage", ErrorCode::internal, "no whole shared object"},
                                           Fault{"writes_half", ErrorCode::internal, "ends behind the file"},
                                           Fault{"writes_another", ErrorCode::internal, "does not define entry_wanted"},
                                           Fault{"writes_a_pipe", ErrorCode::internal, "not a regular file"},
                                           Fault{"writes_a_device", ErrorCode::internal, "not a regular file"},
                                           Fault{"writes_a_directory", ErrorCode::internal, "not a regular file"},
                                           Fault{"writes_without_end", ErrorCode::internal, "larger than"},
                                           Fault{"writes_nothing", ErrorCode::internal, "No such file"},
                                           Fault{"writes_empty", ErrorCode::internal, "0 bytes"},
                                           Fault{"crashes", ErrorCode::internal, "Segmentation fault"},
                                           Fault{"is_killed", ErrorCode::out_of_memory, "signal 9"},
                                           Fault{"starves", ErrorCode::out_of_memory, "out of memory allocating"},
                                           Fault{"disk_full", ErrorCode::io, "No space left"}),
                         [](const auto& fault) { return std::string(fault.param.compiler); });

struct Words {
  int status;
  const char* said;
  bool remembered;
};

// Only the compiler's own verdict on a text may be remembered as the text's: each other failure may be over by the next
// call, and a program that remembers it is slower for an hour.
TEST_F(CxxToolchainTest, OnlyAVerdictOnTheSourceIsTheSources) {
  const Words all[] = {
      {1, "entry_wanted.cpp:3:7: error: expected ';'", true},
      {1, "In file included from a.cpp:1:\na.h:10:2: error: no such type\n1 error generated.", true},
      {1, "entry_wanted.cpp:1:1: fatal error: error writing to /tmp/x.s: Disk quota exceeded", false},
      {1, "entry_wanted.cpp:1:1: error: Disk quota exceeded", false},
      {1, "fatal error: error writing to binary: No space left on device", false},
      {1, "g++: fatal error: cannot execute 'cc1plus': posix_spawnp: No such file or directory", false},
      {254, "g++: Resource temporarily unavailable", false},
      {254, "entry_wanted.cpp:3:7: error: from a wrapper that was killed", false},
      {1, "/usr/bin/ld: cannot open output file binary: Too many open files", false},
      {1, "as: BFD error: Input/output error", false},
      {1, "entry_wanted.cpp:3:7: error: Stale file handle", false},
      {1, "cc1plus: out of memory allocating 65536 bytes", false},
      {1, "g++: fatal error: Killed signal terminated program cc1plus", false},
      {1, "g++: internal compiler error: Segmentation fault", false},
      {127, "sh: g++: not found", false},
      {126, "sh: g++: Text file busy", false},
      {1, "", false},
  };
  const auto directory = TemporaryDirectory::create("tilesmith-cxx-store-", "/tmp").value();
  const auto store = Store::open(directory.path() / "store").value();
  const auto toolchain = CxxToolchain::use(fake("says")).value();
  for (const Words& words : all) {
    Source source = real_source("wanted", 1);
    source.text = std::to_string(words.status) + "\n" + words.said + "\n";
    const auto built = build(*store, *toolchain, source);
    ASSERT_FALSE(built.has_value()) << words.said;
    EXPECT_EQ(built.error().code == ErrorCode::compile_failed, words.remembered) << built.error().text();
    const auto found = store->find(entry_key(source, toolchain->identity()).value());
    EXPECT_EQ(found.has_value(), !words.remembered) << "an error when remembered, nothing when not: " << words.said;
  }
}

// A file that is cut short anywhere, or whose tables are spoiled, is refused, and not by trying it on ourselves.
TEST_F(CxxToolchainTest, TornSharedObjectsAreRefused) {
  const auto toolchain = CxxToolchain::find().value();
  const Source source = real_source("wanted", 1);
  const Source* one[] = {&source};
  const std::string whole = toolchain->compile(one, {}).value().binary;
  const std::string symbols[] = {source.entry_symbol}, other[] = {source.entry_symbol + "2"};
  EXPECT_TRUE(check_shared_object(whole, symbols).has_value());
  EXPECT_FALSE(check_shared_object(whole, other).has_value());
  for (std::size_t size = 0; size < whole.size(); size += 61)
    EXPECT_FALSE(check_shared_object(std::string_view(whole).substr(0, size), symbols).has_value()) << size;
  // Whatever byte of the headers is wrong: an answer, and no crash.
  int refused = 0;
  for (std::size_t at = 0; at < 1024; ++at)
    for (const char wrong : {'\0', '\x7f', '\xff'}) {
      std::string spoiled = whole;
      spoiled[at] = wrong;
      refused += !check_shared_object(spoiled, symbols).has_value();
    }
  EXPECT_GT(refused, 300);
}

TEST_F(CxxToolchainTest, WhatTheLoaderDiesOfIsRefused) {
  const auto directory = TemporaryDirectory::create("tilesmith-cxx-store-", "/tmp").value();
  const auto toolchain = CxxToolchain::find().value();
  const Source source = real_source("wanted", 1);
  const Source* one[] = {&source};
  const std::string whole = toolchain->compile(one, {}).value().binary;
  ASSERT_TRUE(write_new_file(directory.path() / "whole", whole).has_value());
  EXPECT_TRUE(try_loading(directory.path(), "whole").has_value());
  ASSERT_TRUE(write_new_file(directory.path() / "half", whole.substr(0, whole.size() / 2)).has_value());
  const auto half = try_loading(directory.path(), "half");
  ASSERT_FALSE(half.has_value());
  EXPECT_NE(half.error().message.find("signal"), std::string::npos) << half.error().text();
  Source undefined = source;
  undefined.text += "extern \"C\" int missing(); int use() { return missing(); }\n";
  undefined.options = {"-O1"};
  const Source* two[] = {&undefined};
  const auto refused = toolchain->compile(two, {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("missing"), std::string::npos) << refused.error().text();
}

// A store that holds a torn object with a digest to match, as older programs published them, heals.
TEST_F(CxxToolchainTest, APoisonedStoreHeals) {
  const auto directory = TemporaryDirectory::create("tilesmith-cxx-store-", "/tmp").value();
  const auto store = Store::open(directory.path() / "store").value();
  const auto toolchain = CxxToolchain::find().value();
  const Source source = real_source("wanted", 7);
  const Source* one[] = {&source};
  const std::string whole = toolchain->compile(one, {}).value().binary;
  const EntryKey key = entry_key(source, toolchain->identity()).value();
  const std::string half = whole.substr(0, whole.size() / 2);
  const fs::path building = directory.path() / "store/v1/entries" / key.digest;
  fs::create_directory(building);
  ASSERT_TRUE(write_entry(building, key, source, EntryContent{half, {}}).has_value());
  set_log_sink([](LogLevel, std::string_view) {});
  const auto found = store->find(key);
  set_log_sink({});
  ASSERT_TRUE(found.has_value());
  EXPECT_FALSE(found->has_value()) << "to be compiled";
  EXPECT_EQ(store->stats()->quarantined, 1u);
  const auto built = build(*store, *toolchain, source);
  ASSERT_TRUE(built.has_value()) << built.error().text();
  EXPECT_EQ(call(built->path, built->entry_symbol, 1), 8);
}

TEST_F(CxxToolchainTest, AKilledProcessLeavesNothing) {
  const pid_t child = ::fork();
  if (child == 0) {
    static_cast<void>(compile_with("sleeps"));
    ::_exit(0);
  }
  const auto working = [&] {
    for (const auto& entry : fs::directory_iterator(temporary_.path()))
      if (entry.path().filename().string().starts_with("tilesmith-compile-")) return true;
    return false;
  };
  for (int i = 0; i < 1000 && !working(); ++i) std::this_thread::sleep_for(10ms);
  ASSERT_TRUE(working());
  std::this_thread::sleep_for(200ms);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  const auto alive = [&] {
    for (const auto& entry : fs::directory_iterator("/proc")) {
      std::error_code error;
      const fs::path where = fs::read_symlink(entry.path() / "cwd", error);
      if (!error && where.string().starts_with(temporary_.path().string())) return true;
    }
    return false;
  };
  for (int i = 0; i < 1000 && alive(); ++i) std::this_thread::sleep_for(10ms);
  EXPECT_FALSE(alive()) << "a compiler outlived the process that started it";
  EXPECT_TRUE(working()) << "nobody was left to remove it";
  // The next process that compiles sweeps; a fork of this one would remember that it has swept.
  const auto program = fs::read_symlink("/proc/self/exe");
  const auto next = run_process({.arguments = {program, "--gtest_filter=CxxToolchainSweep.*"}});
  EXPECT_TRUE(next->succeeded()) << next->output;
  EXPECT_FALSE(working());
}

TEST(CxxToolchainSweep, HappensAtTheFirstCompiler) {
  EXPECT_TRUE(CxxToolchain::find().has_value());
}

TEST_F(CxxToolchainTest, ACompilerThatHangsIsKilledInTime) {
  CompileLimits limits;
  limits.time = 300ms;
  const auto start = std::chrono::steady_clock::now();
  const auto compiled = compile_with("sleeps", limits);
  ASSERT_FALSE(compiled.has_value());
  EXPECT_EQ(compiled.error().code, ErrorCode::timeout);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 100s) << "it sleeps 1000 s";
}

TEST_F(CxxToolchainTest, AStopRequestEndsACompile) {
  std::stop_source stop;
  CompileLimits limits;
  limits.stop = stop.get_token();
  std::jthread stopper([&stop] {
    std::this_thread::sleep_for(150ms);
    stop.request_stop();
  });
  EXPECT_EQ(compile_with("sleeps", limits).error().code, ErrorCode::cancelled);
}

TEST_F(CxxToolchainTest, ChildrenLeftBehindAreEndedAndTheBinaryIsGood) {
  const auto compiled = compile_with("leaves_children");
  ASSERT_TRUE(compiled.has_value()) << compiled.error().text();
  ASSERT_TRUE(compiled->log.starts_with("child "));
  const fs::path child = "/proc/" + compiled->log.substr(6, compiled->log.find('\n') - 6);
  for (int i = 0; i < 2000 && fs::exists(child); ++i) std::this_thread::sleep_for(10ms);
  EXPECT_FALSE(fs::exists(child));
}

TEST_F(CxxToolchainTest, AMemoryLimitStopsOnlyThatSource) {
  CompileLimits limits;
  limits.memory_bytes = 256ull << 20;
  Source hungry = real_source("hungry", 1);
  // A constant expression that keeps asking for memory.
  hungry.text += "template <int N> struct A { A<N + 1> next[2]; char c[sizeof(A<N + 1>)]; };\nA<0> a;\n";
  hungry.options.push_back("-ftemplate-depth=1000000");
  const auto toolchain = CxxToolchain::find().value();
  const Source* one[] = {&hungry};
  const auto compiled = toolchain->compile(one, limits);
  ASSERT_FALSE(compiled.has_value());
  const Source modest = real_source("modest", 1);
  const Source* two[] = {&modest};
  EXPECT_TRUE(toolchain->compile(two, limits).has_value());
}

}  // namespace
}  // namespace tilesmith
