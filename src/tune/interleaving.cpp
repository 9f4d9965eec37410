#include "tune/interleaving.hpp"

#include <algorithm>
#include <cassert>
#include <limits>
#include <numeric>
#include <random>
#include <utility>

namespace tilesmith {

Interleaving::Interleaving(std::size_t candidates, InterleavingOptions options)
    : options_(std::move(options)), entries_(candidates), left_(candidates) {
  assert(options_.rounds % 2 == 0);
  std::iota(left_.begin(), left_.end(), std::size_t{0});
  queue_ = in_order(left_);
}

std::optional<InterleavedTurn> Interleaving::next() const {
  if (at_ >= queue_.size()) return std::nullopt;
  InterleavedTurn turn{.candidate = queue_[at_], .round = round_, .is_verified = round_ == 1};
  if (round_ == 0) {
    double best = std::numeric_limits<double>::infinity();
    for (const Entry& entry : entries_)
      if (entry.look > 0) best = std::min(best, entry.look);
    if (best < std::numeric_limits<double>::infinity()) turn.give_up_above = 2 * options_.cut * best;
  }
  return turn;
}

void Interleaving::record(const TurnResult& result) {
  assert(at_ < queue_.size());
  const std::size_t candidate = queue_[at_++];
  Entry& entry = entries_[candidate];
  if (!result.failure.empty()) {
    entry.failure = result.failure;
    std::erase(left_, candidate);
  } else if (round_ == 0) {
    entry.look = result.seconds;
  } else {
    entry.turns.push_back(result.seconds);
  }
  if (at_ == queue_.size()) plan_round();
}

void Interleaving::plan_round() {
  if (round_ == 0 && !left_.empty()) {
    const auto look_of = [&](std::size_t candidate) { return entries_[candidate].look; };
    const double most = options_.cut * look_of(*std::ranges::min_element(left_, {}, look_of));
    std::vector<bool> stays(entries_.size());
    for (const std::size_t candidate : left_) stays[candidate] = look_of(candidate) <= most;
    for (const std::vector<std::size_t>& group : options_.watched) {
      const std::size_t* best = nullptr;
      for (const std::size_t& candidate : group)
        if (entries_[candidate].failure.empty() && (best == nullptr || look_of(candidate) < look_of(*best)))
          best = &candidate;
      if (best != nullptr) stays[*best] = true;
    }
    std::erase_if(left_, [&](std::size_t candidate) { return !stays[candidate]; });
  }
  ++round_;
  at_ = 0;
  queue_ = round_ <= options_.rounds ? in_order(left_) : std::vector<std::size_t>{};
}

std::vector<std::size_t> Interleaving::in_order(std::vector<std::size_t> candidates) const {
  std::mt19937_64 random(options_.seed * 1'000'003 + static_cast<std::uint64_t>(round_));
  // std::shuffle's result is not the same in every library.
  for (std::size_t i = candidates.size(); i > 1; --i) std::swap(candidates[i - 1], candidates[random() % i]);
  return candidates;
}

std::size_t Interleaving::most_turns() const {
  return entries_.size() * static_cast<std::size_t>(1 + options_.rounds);
}

std::array<double, 2> halves_of(const std::vector<double>& turns) {
  std::array<std::vector<double>, 2> halves;
  for (std::size_t i = 0; i < turns.size(); ++i) halves[i % 2].push_back(turns[i]);
  std::array<double, 2> medians{};
  for (const std::size_t half : {0u, 1u}) {
    std::vector<double>& times = halves[half];
    if (times.empty()) continue;
    std::ranges::sort(times);
    const std::size_t middle = times.size() / 2;
    medians[half] = times.size() % 2 == 1 ? times[middle] : (times[middle - 1] + times[middle]) / 2;
  }
  return medians;
}

}  // namespace tilesmith
