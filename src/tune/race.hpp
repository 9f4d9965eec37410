// A race: which of some candidates computes a problem in the least time, found with few timings.
//
// Successive halving: every candidate is timed once for a short while; those that are clearly slower drop out, and the
// others are timed longer, until few are left. All that are left are timed in turns, so that a machine that grows
// slower or faster meets each of them alike. At last the leaders and the incumbent, the candidate that is chosen today,
// meet in a block of turns, and those that were better in it meet the incumbent in a second one. The incumbent stays
// unless another was better in both blocks by more than the noise: two measurements that agree, so that a tie changes
// nothing and tuning does not lose to what there was.
//
// A wrong kernel may be fast. So what others are compared with is verified first: the best of a round before it cuts
// others off, a finalist before its first turn. Verifying takes longer than timing, and most drop out before.
//
// A race is a state machine without a clock of its own: next() says what to time, record() takes the result. Two copies
// that are given the same results are in the same state, which is how a race survives the worker that runs it
// (tuner.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tilesmith {

struct RaceOptions {
  std::size_t incumbent = 0;  ///< the candidate that is chosen today
  std::size_t finalists = 4;  ///< at most so many meet the incumbent in the blocks
  int turns = 8;              ///< of each block
  /// A candidate leaves the round when it is slower than the round's best by this factor; one factor a round.
  std::vector<double> cuts{1.6, 1.15, 1.05};
  double least_gain = 0.01;  ///< a finalist that is better by less is not better
  double budget_s = 10;      ///< of timed seconds; what is left of the halving is skipped when half of it is spent
  std::uint64_t seed = 1;    ///< of the order of turns
};

/// What is to be timed, or verified, next.
struct RaceStep {
  std::size_t candidate = 0;
  bool verifies = false;     ///< its result is to be judged; the other fields mean nothing
  int round = 0;             ///< 0: the first look; then one a cut; then the two blocks
  bool in_block = false;     ///< a turn of a block: its figures decide
  double give_up_above = 0;  ///< seconds of one call: slower cannot stay. 0: no bound

  friend bool operator==(const RaceStep&, const RaceStep&) = default;
};

/// What a step found: seconds of a call, and how long the timing took in all (of a step that verifies neither); or what
/// is wrong.
struct RaceResult {
  double seconds = 0;
  double spent_s = 0;
  std::string failure{};  ///< not empty: the candidate failed and leaves the race
};

/// A finalist against the incumbent, from the turns of one block: the geometric mean of the ratios of their times, and
/// the standard error of its logarithm.
struct PairedRatio {
  double ratio = 1;  ///< candidate over incumbent: below 1 is better
  double error = 0;
};

/// Of two series of the same length, taken in turns.
[[nodiscard]] PairedRatio paired_ratio(const std::vector<double>& candidate, const std::vector<double>& incumbent);

/// Whether the block's ratio says that the candidate is better: by `least_gain` and by three standard errors.
[[nodiscard]] bool is_better(const PairedRatio& paired, double least_gain);

class Race {
 public:
  /// candidates is at least 1, and the incumbent is one of them.
  Race(std::size_t candidates, RaceOptions options);

  /// Nothing when the race is over.
  [[nodiscard]] std::optional<RaceStep> next() const;
  /// The result of the step that next() names.
  void record(const RaceResult& result);

  /// The candidate to choose, of a race that is over: the incumbent, unless another was confirmed better twice. Nothing
  /// when every candidate failed. An incumbent that failed is replaced by the best that did not.
  [[nodiscard]] std::optional<std::size_t> winner() const;
  /// Whether both blocks said so.
  [[nodiscard]] bool is_confirmed() const;
  /// Times of a candidate in the turns of block 0 or 1; empty for those that were no finalists.
  [[nodiscard]] const std::vector<double>& block(std::size_t candidate, int number) const;
  /// The least time that any round saw; nothing for a candidate that failed.
  [[nodiscard]] std::optional<double> least_seconds(std::size_t candidate) const;
  /// Why a candidate left because it failed; empty for others.
  [[nodiscard]] const std::string& failure(std::size_t candidate) const;
  [[nodiscard]] std::size_t steps() const { return steps_; }
  /// Steps that timed.
  [[nodiscard]] std::size_t timings() const { return timings_; }
  /// More steps than any race of so many candidates takes.
  [[nodiscard]] std::size_t most_steps() const;

 private:
  struct Runner {
    double round_seconds = 0;  ///< in this round
    double least = 0;          ///< in any
    bool timed = false;
    bool verified = false;
    std::string failure;
    std::vector<double> blocks[2];
  };

  void drop(std::size_t candidate);
  void go_on();
  void plan_round();
  void plan_blocks();
  [[nodiscard]] std::size_t first_of_round() const;
  [[nodiscard]] double best_of_round() const;
  /// Candidates in an order that round and seed decide.
  void shuffle(std::vector<std::size_t>& order, std::uint64_t salt) const;

  RaceOptions options_;
  std::vector<Runner> runners_;
  std::vector<std::size_t> left_;       ///< candidates that are still in the race
  std::vector<std::size_t> queue_;      ///< of this round, by turn
  std::size_t at_ = 0;                  ///< in the queue
  std::optional<std::size_t> suspect_;  ///< the first of a round that is over, unless it is verified
  int round_ = 0;
  int block_ = -1;
  std::size_t steps_ = 0, timings_ = 0;
  double spent_s_ = 0;
  bool over_ = false;
};

}  // namespace tilesmith
