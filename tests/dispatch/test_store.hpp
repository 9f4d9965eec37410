// Tests compile into a store of their own under the build folder, so that a second run finds its kernels. A program
// gets it by linking test_store.cpp, which sets TILESMITH_CACHE_DIR before the first test.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/file.hpp"

namespace tilesmith::testing {

/// What was logged at warn or above since the program began.
[[nodiscard]] std::vector<std::string> warnings();

/// Sets or clears an environment variable for one test.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = ::getenv(name)) old_ = old;
    ::setenv(name, value.c_str(), 1);
  }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;
  ~ScopedVariable() { old_ ? ::setenv(name_, old_->c_str(), 1) : ::unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

/// A new directory with nothing in it, as TILESMITH_CACHE_DIR for one test.
class EmptyStore {
 public:
  [[nodiscard]] const std::filesystem::path& path() const { return directory_.path(); }

 private:
  TemporaryDirectory directory_ = TemporaryDirectory::create("tilesmith-test-store-").value();
  ScopedVariable variable_{"TILESMITH_CACHE_DIR", directory_.path().string()};
};

}  // namespace tilesmith::testing
