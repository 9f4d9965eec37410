#include "base/env.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>

namespace tilesmith {
namespace {

/// Sets or clears a variable for one test.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    if (const char* old = ::getenv(name)) old_ = old;
    set(value);
  }
  ~ScopedVariable() { set(old_ ? old_->c_str() : nullptr); }
  void set(const char* value) { value != nullptr ? ::setenv(name_, value, 1) : ::unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

TEST(Env, EmptyIsUnset) {
  ScopedVariable variable("TILESMITH_TEST_VARIABLE", "x");
  EXPECT_EQ(env("TILESMITH_TEST_VARIABLE"), "x");
  variable.set("");
  EXPECT_EQ(env("TILESMITH_TEST_VARIABLE"), std::nullopt);
  variable.set(nullptr);
  EXPECT_EQ(env("TILESMITH_TEST_VARIABLE"), std::nullopt);
}

TEST(Env, CacheDirectoryFallsBackInOrder) {
  ScopedVariable chosen("TILESMITH_CACHE_DIR", "/a"), xdg("XDG_CACHE_HOME", "/b"), home("HOME", "/c");
  EXPECT_EQ(cache_directory()->path, "/a");
  EXPECT_EQ(cache_directory()->origin, CacheOrigin::variable);
  chosen.set(nullptr);
  EXPECT_EQ(cache_directory()->path, "/b/tilesmith");
  EXPECT_EQ(cache_directory()->origin, CacheOrigin::default_location);
  xdg.set("not/absolute");
  EXPECT_EQ(cache_directory()->path, "/c/.cache/tilesmith");
  home.set(nullptr);
  ASSERT_FALSE(cache_directory().has_value());
  EXPECT_EQ(cache_directory().error().code, ErrorCode::not_found);
  EXPECT_NE(cache_directory().error().hint.find("TILESMITH_CACHE_DIR"), std::string::npos);
  chosen.set("relative");
  EXPECT_TRUE(cache_directory()->path.is_absolute());
}

TEST(Env, WorkersAreANumberInRange) {
  ScopedVariable workers("TILESMITH_WORKERS", "3");
  EXPECT_EQ(worker_count(), 3);
  for (const char* bad : {"0", "-1", "2x", "many", "1025", " 2", "99999999999999999999"}) {
    workers.set(bad);
    ASSERT_FALSE(worker_count().has_value()) << bad;
    EXPECT_NE(worker_count().error().message.find(bad), std::string::npos);
  }
  workers.set(nullptr);
  EXPECT_EQ(worker_count(), usable_processors());
}

TEST(Env, WordsAreChecked) {
  EXPECT_TRUE(check_environment().has_value());
  EXPECT_FALSE(building_is_off());
  for (const char* name : {"TILESMITH_LOG", "TILESMITH_BUILD", "TILESMITH_DETERMINISM"}) {
    ScopedVariable variable(name, "banana");
    ASSERT_FALSE(check_environment().has_value()) << name;
    EXPECT_EQ(check_environment().error().message, std::string(name) + " is 'banana'");
    variable.set(nullptr);
    EXPECT_TRUE(env_word(name).has_value());
    EXPECT_FALSE(env_word(name)->has_value());
  }
  ScopedVariable build("TILESMITH_BUILD", "never");
  EXPECT_TRUE(check_environment().has_value());
  EXPECT_TRUE(building_is_off());
}

TEST(Env, ProcessorsFollowTheAffinityMask) {
  cpu_set_t all;
  ASSERT_EQ(::sched_getaffinity(0, sizeof all, &all), 0);
  EXPECT_EQ(usable_processors(), CPU_COUNT(&all));
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &all)) {
      CPU_SET(cpu, &one);
      break;
    }
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(usable_processors(), 1);
  ::sched_setaffinity(0, sizeof all, &all);
}

}  // namespace
}  // namespace tilesmith
