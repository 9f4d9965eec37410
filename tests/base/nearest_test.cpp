#include "base/nearest.hpp"

#include <gtest/gtest.h>

#include <random>

namespace tilesmith {
namespace {

// The definition, by recursion over prefixes: an independent (and hopelessly slow) statement of the distance.
std::size_t plain_distance(std::string_view a, std::string_view b) {
  if (a.empty()) return b.size();
  if (b.empty()) return a.size();
  const auto cut = [](std::string_view s, std::size_t n) { return s.substr(0, s.size() - n); };
  std::size_t best = plain_distance(cut(a, 1), cut(b, 1)) + (a.back() == b.back() ? 0 : 1);
  best = std::min(best, plain_distance(cut(a, 1), b) + 1);
  best = std::min(best, plain_distance(a, cut(b, 1)) + 1);
  if (a.size() > 1 && b.size() > 1 && a.back() == b[b.size() - 2] && b.back() == a[a.size() - 2])
    best = std::min(best, plain_distance(cut(a, 2), cut(b, 2)) + 1);
  return best;
}

TEST(Nearest, DistanceAgreesWithItsDefinition) {
  std::mt19937 random(3);
  for (int i = 0; i < 400; ++i) {
    std::string a(random() % 7, 'a'), b(random() % 7, 'a');
    for (char& c : a) c = static_cast<char>('a' + random() % 3);
    for (char& c : b) c = static_cast<char>('a' + random() % 3);
    ASSERT_EQ(edit_distance(a, b), plain_distance(a, b)) << a << " " << b;
    ASSERT_EQ(edit_distance(a, b), edit_distance(b, a));
  }
  EXPECT_EQ(edit_distance("BHSD", "bhsd"), 0u);
}

TEST(Nearest, SuggestsTheClosestFirstAndNothingFar) {
  const std::vector<std::string> names = {"attention_fwd", "attention_bwd", "gemm", "conv"};
  EXPECT_EQ(nearest_names("atention_fwd", names).front(), "attention_fwd");
  EXPECT_EQ(nearest_names("attention_bdw", names).front(), "attention_bwd");
  EXPECT_EQ(nearest_names("gem", names), std::vector<std::string>{"gemm"});
  EXPECT_TRUE(nearest_names("softmax", names).empty());
  EXPECT_EQ(nearest_names("attention_xwd", names, 1).size(), 1u);
  EXPECT_TRUE(nearest_names("", names).empty());
  EXPECT_TRUE(nearest_names(std::string(100'000, 'g'), names).empty());
}

TEST(Nearest, HintIsASuggestionOrAShortList) {
  const std::vector<std::string> names = {"bhsd", "bshd"};
  EXPECT_EQ(did_you_mean("bhds", names), "did you mean 'bhsd'?");
  EXPECT_EQ(did_you_mean("bhhd", names), "did you mean 'bhsd' or 'bshd'?");
  EXPECT_EQ(did_you_mean("nchw", names), "one of: bhsd, bshd");
  EXPECT_EQ(did_you_mean("nchw", {}), "");
}

}  // namespace
}  // namespace tilesmith
