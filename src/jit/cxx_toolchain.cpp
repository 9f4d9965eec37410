#include "jit/cxx_toolchain.hpp"

#include <fmt/ranges.h>

#include <iterator>
#include <sstream>
#include <utility>
#include <vector>

#include "base/env.hpp"
#include "base/file.hpp"
#include "base/subprocess.hpp"
#include "jit/shared_object.hpp"

namespace tilesmith {
namespace {
namespace fs = std::filesystem;

constexpr std::uint64_t kLargestBinary = 256ull << 20;

/// What the compiler wrote, when it is what was asked for: a whole shared object that defines every entry symbol and
/// can be loaded. A compiler that says it succeeded and wrote anything else has met with an accident, so that its
/// failure is not the source's.
Result<Compiled> take_shared_object(const fs::path& directory, const std::string& file,
                                    std::span<const Source* const> sources) {
  TS_ASSIGN(std::string binary, read_regular_file(directory / file, kLargestBinary));
  std::vector<std::string> symbols;
  for (const Source* source : sources) symbols.push_back(source->entry_symbol);
  TS_TRY(check_shared_object(binary, symbols));
  TS_TRY(try_loading(directory, file));
  return Compiled{std::move(binary), {}};
}

/// The words of TILESMITH_CXXFLAGS.
std::vector<std::string> flags_of_the_environment() {
  std::istringstream text(env("TILESMITH_CXXFLAGS").value_or(""));
  return {std::istream_iterator<std::string>(text), {}};
}

}  // namespace

Result<std::unique_ptr<CxxToolchain>> CxxToolchain::find() {
  if (const auto chosen = env("TILESMITH_CXX")) {
    auto toolchain = use(*chosen);
    if (!toolchain) return std::unexpected(toolchain.error().in("TILESMITH_CXX"));
    return toolchain;
  }
  for (const char* name : {"g++", "clang++", "c++"})
    if (find_program(name)) return use(name);
  return fail(ErrorCode::not_found, "no C++ compiler: none of g++, clang++ and c++ is in PATH",
              "install g++, or set TILESMITH_CXX to a compiler");
}

Result<std::unique_ptr<CxxToolchain>> CxxToolchain::use(const std::string& name) {
  TS_ASSIGN(CompilerProgram compiler, CompilerProgram::open(name, "TILESMITH_CXX"));
  std::vector<std::string> flags = flags_of_the_environment();
  std::string identity = compiler.identity();
  if (!flags.empty()) identity += fmt::format("\nwith {}", fmt::join(flags, " "));
  return std::unique_ptr<CxxToolchain>(new CxxToolchain(std::move(compiler), std::move(identity), std::move(flags)));
}

Result<Compiled> CxxToolchain::compile(std::span<const Source* const> sources, const CompileLimits& limits) const {
  if (sources.empty()) return fail(ErrorCode::invalid_argument, "nothing to compile");
  std::vector<std::string> arguments = sources[0]->options;
  arguments.insert(arguments.end(), flags_.begin(), flags_.end());
  arguments.insert(arguments.end(), {"-shared", "-fPIC"});
  auto compiled = compiler_.compile(
      sources, std::move(arguments), limits,
      [&](const fs::path& directory, const std::string& file) { return take_shared_object(directory, file, sources); });
  if (!compiled && !flags_.empty() && compiled.error().hint.empty())
    compiled.error().hint = fmt::format("TILESMITH_CXXFLAGS adds {}: does it build without?", fmt::join(flags_, " "));
  return compiled;
}

}  // namespace tilesmith
