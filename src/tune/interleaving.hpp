// The timings of an oracle: every candidate of a problem, in turns, in halves that judge one another.
//
// A look at each candidate first. Those far behind the best drop out with that one time; of each group that is watched
// (what a policy would choose from) the best stays. The others are timed in rounds, each in an order of its own, so
// that a machine that grows slower or faster meets all alike. Rounds of even and of odd number are two halves: what one
// half chooses is judged by the other's times, so that luck is not taken for skill.
//
// Like a Race it has no clock, and two copies that are given the same results are in the same state: so the timings
// survive the worker that takes them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tilesmith {

struct InterleavingOptions {
  int rounds = 6;    ///< behind the look; an even number
  double cut = 1.5;  ///< a candidate slower than the best look by this factor drops out
  std::uint64_t seed = 1;
  std::vector<std::vector<std::size_t>> watched{};  ///< of each group the best look stays
};

struct InterleavedTurn {
  std::size_t candidate = 0;
  int round = 0;             ///< 0: the look
  bool is_verified = false;  ///< the candidate is to be verified before it is timed
  double give_up_above = 0;  ///< seconds of one call: slower drops out. 0: no bound
};

struct TurnResult {
  double seconds = 0;
  std::string failure{};  ///< not empty: the candidate is out
};

class Interleaving {
 public:
  Interleaving() = default;
  Interleaving(std::size_t candidates, InterleavingOptions options);

  /// Nothing when all turns were taken.
  [[nodiscard]] std::optional<InterleavedTurn> next() const;
  /// The result of the turn that next() names.
  void record(const TurnResult& result);

  [[nodiscard]] double look(std::size_t candidate) const { return entries_[candidate].look; }
  /// Seconds of a call in the rounds, in their order; empty for those that dropped out after the look.
  [[nodiscard]] const std::vector<double>& turns(std::size_t candidate) const { return entries_[candidate].turns; }
  [[nodiscard]] const std::string& failure(std::size_t candidate) const { return entries_[candidate].failure; }
  /// More turns than there will be.
  [[nodiscard]] std::size_t most_turns() const;

 private:
  struct Entry {
    double look = 0;
    std::vector<double> turns{};
    std::string failure{};
  };

  void plan_round();
  [[nodiscard]] std::vector<std::size_t> in_order(std::vector<std::size_t> candidates) const;

  InterleavingOptions options_;
  std::vector<Entry> entries_;
  std::vector<std::size_t> left_;   ///< candidates still timed
  std::vector<std::size_t> queue_;  ///< of this round
  std::size_t at_ = 0;              ///< in the queue
  int round_ = 0;
};

/// The median of each half of the turns: of those of even number, counted from 0, and of those of odd number.
[[nodiscard]] std::array<double, 2> halves_of(const std::vector<double>& turns);

}  // namespace tilesmith
