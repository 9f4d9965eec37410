#include "jit/cxx_toolchain.hpp"

#include <fmt/ranges.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <map>
#include <mutex>
#include <sstream>
#include <utility>
#include <vector>

#include "base/cancel.hpp"
#include "base/env.hpp"
#include "base/file.hpp"
#include "base/fork.hpp"
#include "base/sha256.hpp"
#include "base/subprocess.hpp"
#include "jit/private_directory.hpp"
#include "jit/shared_object.hpp"

namespace tilesmith {
namespace {
namespace fs = std::filesystem;

constexpr const char* kBinary = "binary";
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

/// A place for a compiler to work in. What killed processes left there goes when the first is made.
Result<PrivateDirectory> working_directory(std::string_view prefix) {
  const fs::path place = env("TMPDIR").value_or("/tmp");
  static std::atomic<bool> swept{false};
  if (!swept.exchange(true))
    for (const char* leftover : {"tilesmith-compile-", "tilesmith-version-"})
      sweep_private_directories(place, leftover);
  return PrivateDirectory::create(place, prefix);
}

/// The compiler's version text and the digest of its program. The text alone does not tell a patched build or a wrapper
/// script from the original.
Result<std::string> ask_identity(const fs::path& compiler) {
  TS_ASSIGN(const PrivateDirectory directory, working_directory("tilesmith-version-"));
  Command command{.arguments = {compiler.string(), "--version"}};
  command.environment = compiler_environment(directory.path());
  command.directory = directory.path();
  command.time_limit = kVersionTimeLimit;
  command.stop = current_stop();
  TS_ASSIGN(const ProcessOutcome outcome, run_process(command));
  if (outcome.end == ProcessOutcome::End::cancelled)
    return fail(ErrorCode::cancelled, compiler.string() + " was not asked for its version: cancelled");
  if (!outcome.succeeded() || outcome.output.empty())
    return fail(ErrorCode::not_found,
                fmt::format("{} does not tell its version: it {} and said '{}'", compiler.string(), outcome.describe(),
                            quote_log(outcome.output + outcome.errors)),
                "set TILESMITH_CXX to a C++ compiler that works");
  TS_ASSIGN(const std::string program, read_file(compiler));  // find_program takes regular files alone
  return fmt::format("{}sha256 {}", outcome.output, to_hex(sha256(program)));
}

Result<std::string> identity_of(const fs::path& compiler) {
  struct Known {
    std::mutex mutex;
    std::map<fs::path, std::string>* identities = new std::map<fs::path, std::string>;
    AtFork at_fork{this, [](void* object) {
                     auto* self = static_cast<Known*>(object);
                     if (renew(self->mutex)) self->identities = new std::map<fs::path, std::string>;
                   }};
  };
  static Known& known = *new Known;
  const std::lock_guard guard(known.mutex);
  if (const auto found = known.identities->find(compiler); found != known.identities->end()) return found->second;
  TS_ASSIGN(std::string identity, ask_identity(compiler));
  return known.identities->emplace(compiler, std::move(identity)).first->second;
}

std::string names(std::span<const Source* const> sources) {
  std::string text = sources[0]->name;
  if (sources.size() > 1) text += fmt::format(" and {} more", sources.size() - 1);
  return text;
}

bool says_any(std::string_view said, std::initializer_list<std::string_view> phrases) {
  return std::ranges::any_of(phrases,
                             [said](std::string_view phrase) { return said.find(phrase) != std::string_view::npos; });
}

/// Whether a line has the form "file:line:column: error: ...": the compiler proper judging what it read. A fatal error
/// is none: that is how it says that it could not read or write.
bool judges_the_source(std::string_view said) {
  constexpr std::string_view kVerdict = ": error: ";
  const auto takes_number = [](std::string_view& text) {
    const std::size_t colon = text.rfind(':');
    if (colon == std::string_view::npos || colon + 1 == text.size()) return false;
    if (text.substr(colon + 1).find_first_not_of("0123456789") != std::string_view::npos) return false;
    text = text.substr(0, colon);
    return true;
  };
  for (std::size_t at = said.find(kVerdict); at != std::string_view::npos; at = said.find(kVerdict, at + 1)) {
    std::string_view place = said.substr(0, at);
    place = place.substr(place.rfind('\n') + 1);
    if (takes_number(place) && takes_number(place) && !place.empty()) return true;
  }
  return false;
}

/// Only the compiler's verdict on the source is `compile_failed`, which is remembered: everything else (a full disk, a
/// quota, a missing part of the compiler, whatever a system may run out of) may be over at the next try.
Error failure(const fs::path& compiler, std::span<const Source* const> sources, const ProcessOutcome& outcome) {
  using End = ProcessOutcome::End;
  const std::string said = outcome.errors.empty() ? outcome.output : outcome.errors;
  Error error{ErrorCode::internal, fmt::format("{} {} on {}", compiler.string(), outcome.describe(), names(sources))};
  if (!said.empty()) error.message += fmt::format(":\n{}", quote_log(said));
  if (outcome.end == End::cancelled) error.code = ErrorCode::cancelled;
  if (outcome.end == End::timed_out) error.code = ErrorCode::timeout;
  if (outcome.end == End::cancelled || outcome.end == End::timed_out) return error;
  // The driver reports the death of the compiler proper in words and with an ordinary status.
  if (says_any(said, {"out of memory", "memory exhausted", "Cannot allocate memory", "Killed signal"}) ||
      (outcome.end == End::signalled && outcome.code == SIGKILL)) {
    error.code = ErrorCode::out_of_memory;
    error.hint = "the machine may be short of memory: lower TILESMITH_WORKERS";
  } else if (says_any(said, {"No space left on device", "Disk quota exceeded", "File too large"})) {
    error.code = ErrorCode::io;
    error.hint = "free some disk space, or set TMPDIR";
  } else if (says_any(said, {"Resource temporarily unavailable", "Too many open files", "Input/output error",
                             "Stale file handle", "Read-only file system", "Text file busy", "cannot execute",
                             "cannot fork", "error writing to"})) {
    error.code = ErrorCode::io;
    error.hint = "the machine, and not the source, is at fault: the next call tries again";
  } else if (outcome.end == End::exited && outcome.code < 128 && judges_the_source(said)) {
    error.code = ErrorCode::compile_failed;
  }
  return error;
}

/// What the compiler wrote, when it is what was asked for: a whole shared object that defines every entry symbol and
/// can be loaded. A compiler that says it succeeded and wrote anything else has met with an accident, so that its
/// failure is not the source's.
Result<std::string> take_binary(const fs::path& directory, std::span<const Source* const> sources) {
  TS_ASSIGN(std::string binary, read_regular_file(directory / kBinary, kLargestBinary));
  std::vector<std::string> symbols;
  for (const Source* source : sources) symbols.push_back(source->entry_symbol);
  TS_TRY(check_shared_object(binary, symbols));
  TS_TRY(try_loading(directory, kBinary));
  return binary;
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

Result<std::unique_ptr<CxxToolchain>> CxxToolchain::use(const std::string& compiler) {
  TS_ASSIGN(fs::path found, find_program(compiler));
  std::error_code error;
  fs::path path = fs::absolute(found, error);
  if (error) return std::unexpected(system_error("cannot resolve", found, error.value()));
  TS_ASSIGN(std::string identity, identity_of(path));
  std::vector<std::string> flags = flags_of_the_environment();
  if (!flags.empty()) identity += fmt::format("\nwith {}", fmt::join(flags, " "));
  return std::unique_ptr<CxxToolchain>(new CxxToolchain(std::move(path), std::move(identity), std::move(flags)));
}

Result<Compiled> CxxToolchain::compile(std::span<const Source* const> sources, const CompileLimits& limits) const {
  if (sources.empty()) return fail(ErrorCode::invalid_argument, "nothing to compile");
  TS_ASSIGN(const PrivateDirectory directory, working_directory("tilesmith-compile-"));
  Command command{.arguments = {compiler_.string()}};
  command.arguments.insert(command.arguments.end(), sources[0]->options.begin(), sources[0]->options.end());
  command.arguments.insert(command.arguments.end(), flags_.begin(), flags_.end());
  // Relative names: the same source gives the same bytes wherever it is compiled.
  command.arguments.insert(command.arguments.end(), {"-shared", "-fPIC", "-o", kBinary});
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
  if (!outcome.succeeded()) {
    Error error = failure(compiler_, sources, outcome);
    if (!flags_.empty() && error.hint.empty())
      error.hint = fmt::format("TILESMITH_CXXFLAGS adds {}: does it build without?", fmt::join(flags_, " "));
    return std::unexpected(std::move(error));
  }

  auto binary = take_binary(directory.path(), sources);
  if (!binary) {
    const bool transient =
        binary.error().code == ErrorCode::out_of_memory || binary.error().code == ErrorCode::cancelled;
    return fail(transient ? binary.error().code : ErrorCode::internal,
                fmt::format("{} {} on {}, and what it wrote cannot be used: {}", compiler_.string(), outcome.describe(),
                            names(sources), binary.error().message),
                binary.error().hint);
  }
  return Compiled{std::move(*binary), outcome.output + outcome.errors};
}

}  // namespace tilesmith
