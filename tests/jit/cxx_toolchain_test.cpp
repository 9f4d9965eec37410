#include "jit/cxx_toolchain.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <chrono>
#include <filesystem>
#include <ostream>
#include <thread>

#include "base/file.hpp"
#include "base/subprocess.hpp"
#include "jit/build.hpp"
#include "jit/fake_toolchain.hpp"

namespace tilesmith {
namespace {
namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::ScopedVariable;

Source real_source(const std::string& name, int value) {
  Source source = testing::make_source(name);
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
                                           Fault{"floods", ErrorCode::compile_failed, "first words"},
                                           Fault{"writes_garbage", ErrorCode::internal, "no shared object"},
                                           Fault{"writes_half", ErrorCode::compile_failed,
                                                 "does not define entry_wanted"},
                                           Fault{"writes_nothing", ErrorCode::internal, "wrote no binary"},
                                           Fault{"writes_empty", ErrorCode::internal, "0 bytes"},
                                           Fault{"crashes", ErrorCode::internal, "Segmentation fault"},
                                           Fault{"is_killed", ErrorCode::out_of_memory, "signal 9"},
                                           Fault{"starves", ErrorCode::out_of_memory, "out of memory allocating"},
                                           Fault{"disk_full", ErrorCode::io, "No space left"}),
                         [](const auto& fault) { return std::string(fault.param.compiler); });

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
