#include "jit/cxx_toolchain.hpp"

#include <elf.h>
#include <fmt/core.h>
#include <signal.h>

#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/env.hpp"
#include "base/file.hpp"
#include "base/sha256.hpp"
#include "base/subprocess.hpp"

namespace tilesmith {
namespace {
namespace fs = std::filesystem;

constexpr std::uint64_t kLargestBinary = 256ull << 20;
constexpr std::chrono::seconds kVersionTimeLimit{30};

/// What a compiler may see of our environment: what it needs to find its own parts, in English. CPATH and its like
/// would change binaries behind the store's back.
std::vector<std::string> compiler_environment(const fs::path& temporary) {
  std::vector<std::string> variables = {"LC_ALL=C", "TMPDIR=" + temporary.string()};
  for (const char* name : {"PATH", "HOME", "LD_LIBRARY_PATH"})
    if (const auto value = env(name)) variables.push_back(fmt::format("{}={}", name, *value));
  return variables;
}

/// The compiler's version text and the digest of its program. The text alone does not tell a patched build or a wrapper
/// script from the original.
Result<std::string> ask_identity(const fs::path& compiler) {
  TS_ASSIGN(const TemporaryDirectory directory, TemporaryDirectory::create("tilesmith-version-"));
  Command command{.arguments = {compiler.string(), "--version"}};
  command.environment = compiler_environment(directory.path());
  command.directory = directory.path();
  command.time_limit = kVersionTimeLimit;
  TS_ASSIGN(const ProcessOutcome outcome, run_process(command));
  if (!outcome.succeeded() || outcome.output.empty())
    return fail(ErrorCode::not_found,
                fmt::format("{} does not tell its version: it {} and said '{}'", compiler.string(), outcome.describe(),
                            quote_log(outcome.output + outcome.errors)),
                "set TILESMITH_CXX to a C++ compiler that works");
  TS_ASSIGN(const std::string program, read_file(compiler));
  return fmt::format("{}sha256 {}", outcome.output, to_hex(sha256(program)));
}

Result<std::string> identity_of(const fs::path& compiler) {
  static std::mutex mutex;
  static std::map<fs::path, std::string>* known = new std::map<fs::path, std::string>;
  const std::lock_guard guard(mutex);
  if (const auto found = known->find(compiler); found != known->end()) return found->second;
  TS_ASSIGN(std::string identity, ask_identity(compiler));
  return known->emplace(compiler, std::move(identity)).first->second;
}

std::string names(std::span<const Source* const> sources) {
  std::string text = sources[0]->name;
  if (sources.size() > 1) text += fmt::format(" and {} more", sources.size() - 1);
  return text;
}

Error failure(const fs::path& compiler, std::span<const Source* const> sources, const ProcessOutcome& outcome) {
  const std::string said = outcome.errors.empty() ? outcome.output : outcome.errors;
  Error error{ErrorCode::compile_failed,
              fmt::format("{} {} on {}", compiler.string(), outcome.describe(), names(sources))};
  if (!said.empty()) error.message += fmt::format(":\n{}", quote_log(said));
  if (outcome.end == ProcessOutcome::End::cancelled) error.code = ErrorCode::cancelled;
  if (outcome.end == ProcessOutcome::End::timed_out) error.code = ErrorCode::timeout;
  // The driver reports the death of the compiler proper in words and with an ordinary status. Neither that nor our own
  // limit says anything about the source, so the failure must not be remembered as the source's.
  const bool starved = said.find("out of memory") != std::string::npos ||
                       said.find("memory exhausted") != std::string::npos ||
                       said.find("Cannot allocate memory") != std::string::npos;
  const bool killed = (outcome.end == ProcessOutcome::End::signalled && outcome.code == SIGKILL) ||
                      said.find("Killed signal") != std::string::npos;
  if (starved || killed) {
    error.code = ErrorCode::out_of_memory;
    error.hint = "the machine may be short of memory: lower TILESMITH_WORKERS";
  } else if (outcome.end == ProcessOutcome::End::signalled) {
    error.code = ErrorCode::internal;
  } else if (said.find("No space left on device") != std::string::npos) {
    error.code = ErrorCode::io;
    error.hint = "free some disk space, or set TMPDIR";
  }
  return error;
}

/// Whether the compiler wrote what was asked for: a shared object with every entry symbol's name in it.
Status check_binary(const fs::path& compiler, std::span<const Source* const> sources, const std::string& binary) {
  Elf64_Ehdr header{};
  if (binary.size() >= sizeof header) std::memcpy(&header, binary.data(), sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_type != ET_DYN)
    return fail(ErrorCode::internal, fmt::format("{} wrote {} bytes for {} that are no shared object",
                                                 compiler.string(), binary.size(), names(sources)));
  for (const Source* source : sources)
    if (binary.find(source->entry_symbol + '\0') == std::string::npos)
      return fail(ErrorCode::compile_failed,
                  fmt::format("the binary of {} does not define {}", source->name, source->entry_symbol),
                  "the entry symbol must be extern \"C\" with default visibility");
  return {};
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

Result<std::unique_ptr<CxxToolchain>> CxxToolchain::use(const std::string& compiler) {
  TS_ASSIGN(fs::path found, find_program(compiler));
  std::error_code error;
  fs::path path = fs::absolute(found, error);
  if (error) return std::unexpected(system_error("cannot resolve", found, error.value()));
  TS_ASSIGN(std::string identity, identity_of(path));
  return std::unique_ptr<CxxToolchain>(new CxxToolchain(std::move(path), std::move(identity)));
}

Result<Compiled> CxxToolchain::compile(std::span<const Source* const> sources, const CompileLimits& limits) const {
  if (sources.empty()) return fail(ErrorCode::invalid_argument, "nothing to compile");
  TS_ASSIGN(const TemporaryDirectory directory, TemporaryDirectory::create("tilesmith-compile-"));
  Command command{.arguments = {compiler_.string()}};
  command.arguments.insert(command.arguments.end(), sources[0]->options.begin(), sources[0]->options.end());
  // Relative names: the same source gives the same bytes wherever it is compiled.
  command.arguments.insert(command.arguments.end(), {"-shared", "-fPIC", "-o", "binary"});
  for (const Source* source : sources) {
    const std::string file = source->entry_symbol + ".cpp";
    TS_TRY(write_new_file(directory.path() / file, source->text));
    command.arguments.push_back(file);
  }
  command.environment = compiler_environment(directory.path());
  command.directory = directory.path();
  command.time_limit = limits.time;
  command.memory_limit_bytes = limits.memory_bytes;
  command.stop = limits.stop;
  TS_ASSIGN(ProcessOutcome outcome, run_process(command));
  if (!outcome.succeeded()) return std::unexpected(failure(compiler_, sources, outcome));

  auto binary = read_file(directory.path() / "binary", kLargestBinary);
  if (!binary && binary.error().code == ErrorCode::not_found)
    return fail(ErrorCode::internal,
                fmt::format("{} {} on {} and wrote no binary", compiler_.string(), outcome.describe(), names(sources)));
  if (!binary) return std::unexpected(binary.error());
  TS_TRY(check_binary(compiler_, sources, *binary));
  return Compiled{std::move(*binary), outcome.output + outcome.errors};
}

}  // namespace tilesmith
