#include "choose/candidate.hpp"

#include <algorithm>
#include <array>
#include <tuple>

#include "vocabulary/field_value.hpp"

namespace tilesmith {
namespace {

/// Calls visit(number) for every number of an algorithm, in the order of its fields.
template <class Visit>
constexpr void visit_numbers(const Algorithm& algorithm, Visit&& visit) {
  Algorithm::fields(algorithm, [&](std::string_view, const auto& value) {
    if constexpr (ArrayField<std::remove_cvref_t<decltype(value)>>)
      for (const auto element : value) visit(static_cast<int>(element));
    else
      visit(static_cast<int>(value));
  });
}

constexpr std::size_t count_numbers() {
  std::size_t count = 0;
  visit_numbers(Algorithm{}, [&](int) { ++count; });
  return count;
}

using Numbers = std::array<int, count_numbers()>;

Numbers numbers_of(const Algorithm& algorithm) {
  Numbers numbers{};
  std::size_t at = 0;
  visit_numbers(algorithm, [&](int number) { numbers[at++] = number; });
  return numbers;
}

/// A candidate in a sort. Where memory decides many predictions are equal: numbers are worked out once they are asked
/// for, and so is the key, which takes microseconds.
struct Sorted {
  Candidate* candidate;
  const KernelConfig* main;
  mutable std::optional<Numbers> known_numbers{};
  mutable std::optional<Key128> known_key{};

  [[nodiscard]] auto kind() const {
    const Algorithm& a = main->algorithm;
    return std::tie(main->arch, a.pipeline, a.instruction, a.tile, a.split_k);
  }
  [[nodiscard]] const Numbers& numbers() const {
    if (!known_numbers) known_numbers = numbers_of(main->algorithm);
    return *known_numbers;
  }
  [[nodiscard]] const Key128& key() const {
    if (!known_key) known_key = key_of(candidate->recipe);
    return *known_key;
  }
};

bool goes_first(const Sorted* own, const Sorted* other) {
  const double seconds = own->candidate->predicted_seconds, other_seconds = other->candidate->predicted_seconds;
  if (seconds != other_seconds) return seconds < other_seconds;
  if (own->kind() != other->kind()) return own->kind() > other->kind();
  if (own->numbers() != other->numbers()) return own->numbers() < other->numbers();
  return own->key() < other->key();
}

}  // namespace

void best_first(std::vector<Candidate>& candidates) {
  std::vector<Sorted> all;
  all.reserve(candidates.size());
  for (Candidate& candidate : candidates) all.push_back({&candidate, &candidate.recipe.main()});
  std::vector<const Sorted*> order;
  order.reserve(all.size());
  for (const Sorted& one : all) order.push_back(&one);
  std::ranges::sort(order, goes_first);
  std::vector<Candidate> sorted;
  sorted.reserve(candidates.size());
  for (const Sorted* one : order) sorted.push_back(std::move(*one->candidate));
  candidates = std::move(sorted);
}

}  // namespace tilesmith
