// A toolchain without a compiler: the binary is made from the text, what goes wrong is written in the text, and every
// compile leaves a line in a file, so that several processes can be counted.
#pragma once

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/file.hpp"
#include "jit/toolchain.hpp"

namespace tilesmith::testing {

inline Source make_source(const std::string& name, std::string text = {}) {
  Source source;
  source.language = Language::hip;  // no binary of which is looked into
  source.name = name;
  source.text = text.empty() ? "text of " + name : std::move(text);
  source.entry_symbol = "entry_" + name;
  source.options = {"-O2"};
  source.arch = "x86_64_v3";
  return source;
}

/// What compiling this text alone gives; large enough that a write of it can fail in the middle.
inline std::string binary_of(const Source& source, std::size_t size = 20'000) {
  std::string binary = "binary of " + source.text + ":";
  while (binary.size() < size) binary += std::to_string(binary.size()) + source.entry_symbol;
  return binary;
}

class FakeToolchain final : public Toolchain {
 public:
  explicit FakeToolchain(std::filesystem::path journal = {}, std::string identity = "fake 1")
      : journal_(std::move(journal)), identity_(std::move(identity)) {}

  std::chrono::milliseconds delay{0};
  std::size_t binary_size = 20'000;
  mutable std::atomic<int> calls{0};
  mutable std::atomic<int> running{0};
  mutable std::atomic<int> most_running{0};

  [[nodiscard]] const std::string& identity() const override { return identity_; }
  [[nodiscard]] int largest_batch() const override { return 8; }

  [[nodiscard]] Result<Compiled> compile(std::span<const Source* const> sources, const CompileLimits&) const override {
    const int call = ++calls;
    const int now = ++running;
    for (int most = most_running; most < now && !most_running.compare_exchange_weak(most, now);) {
    }
    std::this_thread::sleep_for(delay);
    --running;
    Compiled compiled;
    for (const Source* source : sources) {
      note(source->name);
      if (source->text.find("refuse") != std::string::npos)
        return fail(ErrorCode::compile_failed, "line 1: refused", "write something else");
      if (source->text.find("stop") != std::string::npos) return fail(ErrorCode::cancelled, "stopped");
      if (source->text.find("crash") != std::string::npos) return fail(ErrorCode::internal, "the compiler crashed");
      if (source->text.find("starve once") != std::string::npos && call == 1)
        return fail(ErrorCode::out_of_memory, "no memory");
      compiled.binary += binary_of(*source, binary_size);
    }
    compiled.log = "a warning";
    return compiled;
  }

 private:
  void note(const std::string& name) const {
    if (journal_.empty()) return;
    const FileDescriptor file(::open(journal_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    static_cast<void>(write_descriptor(file.get(), journal_, name + "\n"));
  }

  std::filesystem::path journal_;
  std::string identity_;
};

/// A directory for a test's store: in memory where that works, because the disk of a busy machine syncs in 5 ms and a
/// test publishes thousands of times.
inline TemporaryDirectory fast_directory() {
  struct statvfs status {};
  if (::statvfs("/dev/shm", &status) == 0 && (status.f_flag & ST_NOEXEC) == 0)
    if (auto directory = TemporaryDirectory::create("tilesmith-jit-test-", "/dev/shm")) return std::move(*directory);
  return TemporaryDirectory::create("tilesmith-jit-test-").value();
}

/// Sets or clears an environment variable for one test.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    if (const char* old = ::getenv(name)) old_ = old;
    set(value);
  }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;
  ~ScopedVariable() { set(old_ ? old_->c_str() : nullptr); }
  void set(const char* value) { value != nullptr ? ::setenv(name_, value, 1) : ::unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

}  // namespace tilesmith::testing
