#include "measure/peaks.hpp"

#include <gtest/gtest.h>

#include <string>

#include "base/json.hpp"

namespace tilesmith {
namespace {

/// Stands for a member of any type.
struct AnyValue {
  template <class T>
  constexpr operator T() const;  // NOLINT(google-explicit-constructor): only asked whether it converts
};

/// How many members an aggregate has.
template <class T, class... Values>
constexpr std::size_t member_count() {
  if constexpr (requires { T{Values{}..., AnyValue{}}; })
    return member_count<T, Values..., AnyValue>();
  else
    return sizeof...(Values);
}

TEST(Peaks, EveryMemberIsAField) {
  std::size_t fields = 0;
  const Peaks peaks;
  Peaks::fields(peaks, [&](const char*, const auto&) { ++fields; });
  EXPECT_EQ(fields, member_count<Peaks>()) << "a member that Peaks::fields lacks would be lost between processes";
}

TEST(Peaks, SurviveJson) {
  Peaks peaks;
  int next = 2;
  Peaks::fields(
      peaks, [&]<class T>(const char*, T& figure) { figure = std::is_same_v<T, bool> ? T{} : static_cast<T>(next++); });
  const nlohmann::json json = to_json(peaks);
  for (const char* name :
       {"fp32_gflops", "tf32_gflops", "bf16_gflops", "fp16_gflops", "fp8_gflops", "int8_gops", "read_gbps", "threads"})
    EXPECT_TRUE(json.contains(name)) << name;
  EXPECT_EQ(peaks_from_json(nlohmann::json::parse(json.dump())).value(), peaks);
  for (const auto& [name, figure] : json.items()) {
    nlohmann::json less = json, wrong = json;
    less.erase(name);
    wrong[name] = "text";
    for (const nlohmann::json& refused : {less, wrong}) {
      const auto read = peaks_from_json(refused);
      ASSERT_FALSE(read) << name;
      EXPECT_NE(read.error().message.find(name), std::string::npos) << read.error().text();
    }
  }
  EXPECT_FALSE(peaks_from_json(nlohmann::json::array({1, 2, 3, 4})));
}

TEST(Peaks, LeastSecondsFollowTheTypeOfTheInputs) {
  const Peaks peaks{.fp32_gflops = 10, .bf16_gflops = 20, .fp8_gflops = 40, .read_gbps = 100};
  EXPECT_DOUBLE_EQ(peaks.least_seconds(DataType::fp32, 10e9, 0), 1);
  EXPECT_DOUBLE_EQ(peaks.least_seconds(DataType::bf16, 10e9, 0), 0.5);
  EXPECT_DOUBLE_EQ(peaks.least_seconds(DataType::fp8bf16, 10e9, 0), 0.25);
  EXPECT_DOUBLE_EQ(peaks.least_seconds(DataType::fp16, 10e9, 0), 1) << "no rate of its own: fp32's";
  EXPECT_DOUBLE_EQ(peaks.least_seconds(DataType::fp32, 1, 200e9), 2);
  EXPECT_EQ(Peaks{}.least_seconds(DataType::fp32, 1, 1), 0);
}

}  // namespace
}  // namespace tilesmith
