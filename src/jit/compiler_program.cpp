#include "jit/compiler_program.hpp"

#include <fmt/core.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "base/cancel.hpp"
#include "base/env.hpp"
#include "base/file.hpp"
#include "base/fork.hpp"
#include "base/sha256.hpp"
#include "base/subprocess.hpp"
#include "jit/private_directory.hpp"

namespace tilesmith {
namespace {
namespace fs = std::filesystem;

constexpr const char* kBinary = "binary";
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

/// What the compiler says to arguments that ask for no work.
Result<ProcessOutcome> ask_compiler(const fs::path& compiler, std::vector<std::string> arguments) {
  TS_ASSIGN(const PrivateDirectory directory, working_directory("tilesmith-version-"));
  Command command{.arguments = std::move(arguments)};
  command.arguments.insert(command.arguments.begin(), compiler.string());
  command.environment = compiler_environment(directory.path());
  command.directory = directory.path();
  command.time_limit = kVersionTimeLimit;
  command.stop = current_stop();
  return run_process(command);
}

/// The compiler's version text and the digest of its program. The text alone does not tell a patched build or a wrapper
/// script from the original.
Result<std::string> ask_identity(const fs::path& compiler, std::string_view variable) {
  TS_ASSIGN(const ProcessOutcome outcome, ask_compiler(compiler, {"--version"}));
  if (outcome.end == ProcessOutcome::End::cancelled)
    return fail(ErrorCode::cancelled, compiler.string() + " was not asked for its version: cancelled");
  if (!outcome.succeeded() || outcome.output.empty())
    return fail(ErrorCode::not_found,
                fmt::format("{} does not tell its version: it {} and said '{}'", compiler.string(), outcome.describe(),
                            quote_log(outcome.output + outcome.errors)),
                fmt::format("set {} to a compiler that works", variable));
  TS_ASSIGN(const std::string program, read_file(compiler));  // find_program takes regular files alone
  return fmt::format("{}sha256 {}", outcome.output, to_hex(sha256(program)));
}

Result<std::string> identity_of(const fs::path& compiler, std::string_view variable) {
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
  TS_ASSIGN(std::string identity, ask_identity(compiler, variable));
  return known.identities->emplace(compiler, std::move(identity)).first->second;
}

std::string names_of_sources(std::span<const Source* const> sources) {
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
Error compiler_failure(const fs::path& compiler, std::span<const Source* const> sources,
                       const ProcessOutcome& outcome) {
  using End = ProcessOutcome::End;
  const std::string said = outcome.errors.empty() ? outcome.output : outcome.errors;
  Error error{ErrorCode::internal,
              fmt::format("{} {} on {}", compiler.string(), outcome.describe(), names_of_sources(sources))};
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

}  // namespace

Result<CompilerProgram> CompilerProgram::open(const std::string& name, std::string_view variable) {
  TS_ASSIGN(fs::path found, find_program(name));
  std::error_code error;
  fs::path path = fs::absolute(found, error);
  if (error) return std::unexpected(system_error("cannot resolve", found, error.value()));
  TS_ASSIGN(std::string identity, identity_of(path, variable));
  return CompilerProgram(std::move(path), std::move(identity));
}

Result<std::string> CompilerProgram::ask(std::vector<std::string> arguments) const {
  TS_ASSIGN(ProcessOutcome outcome, ask_compiler(path_, std::move(arguments)));
  if (!outcome.succeeded())
    return fail(ErrorCode::not_found, fmt::format("{} {} and said '{}'", path_.string(), outcome.describe(),
                                                  quote_log(outcome.output + outcome.errors)));
  while (outcome.output.ends_with('\n')) outcome.output.pop_back();
  return outcome.output;
}

Result<Compiled> CompilerProgram::compile(std::span<const Source* const> sources, std::vector<std::string> arguments,
                                          const CompileLimits& limits, const Take& take) const {
  if (sources.empty()) return fail(ErrorCode::invalid_argument, "nothing to compile");
  TS_ASSIGN(const PrivateDirectory directory, working_directory("tilesmith-compile-"));
  Command command{.arguments = std::move(arguments)};
  command.arguments.insert(command.arguments.begin(), path_.string());
  // Relative names: the same source gives the same bytes wherever it is compiled.
  command.arguments.insert(command.arguments.end(), {"-o", kBinary});
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
  if (!outcome.succeeded()) return std::unexpected(compiler_failure(path_, sources, outcome));

  auto compiled = take(directory.path(), kBinary);
  if (!compiled) {
    const ErrorCode code = compiled.error().code;
    if (code == ErrorCode::compile_failed) return std::unexpected(compiled.error().in(names_of_sources(sources)));
    const bool transient = code == ErrorCode::out_of_memory || code == ErrorCode::cancelled;
    return fail(transient ? code : ErrorCode::internal,
                fmt::format("{} {} on {}, and what it wrote cannot be used: {}", path_.string(), outcome.describe(),
                            names_of_sources(sources), compiled.error().message),
                compiled.error().hint);
  }
  compiled->log = outcome.output + outcome.errors;
  return compiled;
}

}  // namespace tilesmith
