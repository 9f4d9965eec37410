#include "tune/race.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <utility>

namespace tilesmith {

PairedRatio paired_ratio(const std::vector<double>& candidate, const std::vector<double>& incumbent) {
  const std::size_t n = std::min(candidate.size(), incumbent.size());
  if (n == 0) return {};
  std::vector<double> logs(n);
  for (std::size_t i = 0; i < n; ++i) logs[i] = std::log(candidate[i] / incumbent[i]);
  const double mean = std::accumulate(logs.begin(), logs.end(), 0.0) / static_cast<double>(n);
  double squares = 0;
  for (const double log : logs) squares += (log - mean) * (log - mean);
  const double error = n > 1 ? std::sqrt(squares / static_cast<double>(n - 1) / static_cast<double>(n)) : 0;
  return {std::exp(mean), error};
}

bool is_better(const PairedRatio& paired, double least_gain) {
  return -std::log(paired.ratio) > std::max(std::log1p(least_gain), 3 * paired.error);
}

Race::Race(std::size_t candidates, RaceOptions options) : options_(std::move(options)), runners_(candidates) {
  assert(candidates > 0 && options_.incumbent < candidates);
  left_.resize(candidates);
  std::iota(left_.begin(), left_.end(), std::size_t{0});
  // The incumbent is timed first, so that its time bounds the others' from the start.
  std::swap(left_.front(), left_[options_.incumbent]);
  queue_ = left_;
}

std::optional<RaceStep> Race::next() const {
  if (over_) return std::nullopt;
  if (suspect_) return RaceStep{.candidate = *suspect_, .verifies = true};
  const std::size_t candidate = queue_[at_];
  if (block_ >= 0 && !runners_[candidate].verified) return RaceStep{.candidate = candidate, .verifies = true};
  RaceStep step{.candidate = candidate, .round = round_, .in_block = block_ >= 0};
  if (round_ == 0) {
    const double best = best_of_round();
    if (std::isfinite(best)) step.give_up_above = best * 2 * options_.cuts.front();
  }
  return step;
}

void Race::record(const RaceResult& result) {
  assert(!over_);
  const RaceStep step = *next();
  Runner& runner = runners_[step.candidate];
  ++steps_;
  timings_ += step.verifies ? 0 : 1;
  spent_s_ += result.spent_s;
  if (!result.failure.empty()) {
    runner.failure = result.failure;
    drop(step.candidate);
  } else if (step.verifies) {
    runner.verified = true;
  } else {
    runner.round_seconds = runner.timed ? std::min(runner.round_seconds, result.seconds) : result.seconds;
    runner.least = runner.least == 0 ? result.seconds : std::min(runner.least, result.seconds);
    runner.timed = true;
    if (block_ >= 0) runner.blocks[block_].push_back(result.seconds);
    ++at_;
  }
  go_on();
}

void Race::drop(std::size_t candidate) {
  std::erase(left_, candidate);
  // Its later turns are dropped; those before this place stay, so that at_ goes on behind them.
  const auto later = queue_.begin() + static_cast<std::ptrdiff_t>(at_);
  queue_.erase(std::remove(later, queue_.end(), candidate), queue_.end());
}

void Race::go_on() {
  suspect_.reset();
  if (left_.empty()) {
    over_ = true;
    return;
  }
  if (at_ < queue_.size()) return;
  if (block_ < 0 && !runners_[first_of_round()].verified) {
    suspect_ = first_of_round();
    return;
  }
  if (block_ >= 0 || left_.size() == 1)
    plan_blocks();
  else
    plan_round();
}

std::size_t Race::first_of_round() const {
  return *std::ranges::min_element(left_, {}, [&](std::size_t candidate) { return runners_[candidate].round_seconds; });
}

double Race::best_of_round() const {
  double best = std::numeric_limits<double>::infinity();
  for (const std::size_t candidate : left_)
    if (runners_[candidate].timed) best = std::min(best, runners_[candidate].round_seconds);
  return best;
}

void Race::plan_round() {
  const double best = best_of_round();
  const double cut = options_.cuts[std::min(static_cast<std::size_t>(round_), options_.cuts.size() - 1)];
  std::erase_if(left_, [&](std::size_t candidate) {
    return candidate != options_.incumbent && runners_[candidate].round_seconds > cut * best;
  });
  std::ranges::stable_sort(left_, {}, [&](std::size_t candidate) { return runners_[candidate].round_seconds; });
  ++round_;
  const bool hurried = spent_s_ > options_.budget_s / 2;
  if (hurried || left_.size() <= options_.finalists + 1 || round_ >= static_cast<int>(options_.cuts.size())) {
    const auto behind = [&](std::size_t candidate) { return candidate == options_.incumbent; };
    std::vector<std::size_t> finalists;
    for (const std::size_t candidate : left_)
      if (!behind(candidate) && finalists.size() < options_.finalists) finalists.push_back(candidate);
    if (std::ranges::any_of(left_, behind)) finalists.push_back(options_.incumbent);
    left_ = std::move(finalists);
    plan_blocks();
    return;
  }
  // Two turns of each: the second meets another state of the machine.
  queue_.clear();
  at_ = 0;
  for (const int turn : {0, 1}) {
    std::vector<std::size_t> order = left_;
    shuffle(order, static_cast<std::uint64_t>(round_ * 2 + turn));
    queue_.insert(queue_.end(), order.begin(), order.end());
  }
  for (const std::size_t candidate : left_) runners_[candidate].timed = false;
}

void Race::plan_blocks() {
  ++block_;
  const std::size_t incumbent = options_.incumbent;
  if (block_ == 1 && runners_[incumbent].failure.empty())  // what was not better once cannot be better twice
    std::erase_if(left_, [&](std::size_t candidate) {
      return candidate != incumbent &&
             !is_better(paired_ratio(runners_[candidate].blocks[0], runners_[incumbent].blocks[0]),
                        options_.least_gain);
    });
  // A candidate alone has nothing to be compared with.
  if (block_ > 1 || left_.size() < 2) {
    over_ = true;
    return;
  }
  queue_.clear();
  at_ = 0;
  for (int turn = 0; turn < options_.turns; ++turn) {
    std::vector<std::size_t> order = left_;
    shuffle(order, 1000 + static_cast<std::uint64_t>(block_ * options_.turns + turn));
    queue_.insert(queue_.end(), order.begin(), order.end());
  }
}

void Race::shuffle(std::vector<std::size_t>& order, std::uint64_t salt) const {
  std::mt19937_64 random(options_.seed * 1'000'003 + salt);
  // std::shuffle's result is not the same in every library; a copy of the race may run in another build.
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
}

std::optional<std::size_t> Race::winner() const {
  if (left_.empty()) return std::nullopt;
  const std::size_t incumbent = options_.incumbent;
  const auto mean = [&](std::size_t candidate) {
    double logs = 0;
    std::size_t n = 0;
    for (const auto& block : runners_[candidate].blocks)
      for (const double seconds : block) logs += std::log(seconds), ++n;
    return n > 0 ? std::exp(logs / static_cast<double>(n)) : runners_[candidate].least;
  };
  if (!runners_[incumbent].failure.empty()) return *std::ranges::min_element(left_, {}, mean);
  std::optional<std::size_t> best;
  for (const std::size_t candidate : left_) {
    if (candidate == incumbent) continue;
    bool better = true;
    for (const int number : {0, 1}) {
      const auto& own = runners_[candidate].blocks[number];
      const auto& other = runners_[incumbent].blocks[number];
      better = better && !own.empty() && own.size() == other.size() &&
               is_better(paired_ratio(own, other), options_.least_gain);
    }
    if (better && (!best || mean(candidate) < mean(*best))) best = candidate;
  }
  return best.value_or(incumbent);
}

bool Race::is_confirmed() const {
  const auto chosen = winner();
  return over_ && chosen && *chosen != options_.incumbent && runners_[options_.incumbent].failure.empty();
}

const std::vector<double>& Race::block(std::size_t candidate, int number) const {
  return runners_[candidate].blocks[number];
}

std::optional<double> Race::least_seconds(std::size_t candidate) const {
  const Runner& runner = runners_[candidate];
  return runner.failure.empty() && runner.least > 0 ? std::optional(runner.least) : std::nullopt;
}

const std::string& Race::failure(std::size_t candidate) const {
  return runners_[candidate].failure;
}

std::size_t Race::most_steps() const {
  const std::size_t n = runners_.size();
  const std::size_t turns = static_cast<std::size_t>(options_.turns);
  return n * (2 + 2 * options_.cuts.size()) + 2 * turns * (options_.finalists + 1) + 1;
}

}  // namespace tilesmith
