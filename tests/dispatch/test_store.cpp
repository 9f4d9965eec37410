#include "dispatch/test_store.hpp"

#include <mutex>

#include "base/log.hpp"

namespace tilesmith::testing {
namespace {

std::mutex mutex;
std::vector<std::string>& collected() {
  static std::vector<std::string> messages;
  return messages;
}

[[maybe_unused]] const bool prepared = [] {
  // Kernels do not depend on how the tests were compiled: those under sanitizers may share the store of another build.
  const char* shared = ::getenv("TILESMITH_TEST_STORE");
  const std::filesystem::path store =
      shared != nullptr ? std::filesystem::path(shared) : std::filesystem::path(TILESMITH_BINARY_DIR) / "test-store";
  // In a build folder that others can write to, the store refuses to work; then the user's own is as good.
  if (make_private_directories(store) && check_only_ours(store)) ::setenv("TILESMITH_CACHE_DIR", store.c_str(), 1);
  set_log_sink([](LogLevel level, std::string_view message) {
    const std::lock_guard guard(mutex);
    if (level <= LogLevel::warn) collected().emplace_back(message);
  });
  return true;
}();

}  // namespace

std::vector<std::string> warnings() {
  const std::lock_guard guard(mutex);
  return collected();
}

}  // namespace tilesmith::testing
