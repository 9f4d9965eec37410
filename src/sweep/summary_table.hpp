// The table a person reads after a bench: per problem the fastest correct kernel, its time, rate, share of the
// roofline, error, and how it compares with the naive computation and with another library on this machine; and over
// all problems what the policy's first choice costs beside the fastest kernel.
#pragma once

#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "sweep/engine.hpp"
#include "sweep/row.hpp"

namespace tilesmith {

/// Times of another library, measured elsewhere: {"peer": "PyTorch 2.x", "rows": [{"problem": "...",
/// "median_ms": 1.5}]}, problems as a bench's --dry-run names them.
struct PeerTimes {
  std::string peer;
  std::map<std::string, double> median_s;  ///< by describe(problem)

  [[nodiscard]] static Result<PeerTimes> parse(std::string_view file, std::string_view text);
};

class SummaryTable {
 public:
  explicit SummaryTable(PeerTimes peers) : peers_(std::move(peers)) {}

  void add(const BenchRow& row);
  void print(std::FILE* out, const BenchSummary& summary) const;

 private:
  void print_regret(std::FILE* out) const;

  struct Line {
    std::string problem;
    BenchRow best;  ///< fastest of the correct ones
    std::size_t tried = 0;
    bool any_good = false;
    double first_s = 0;  ///< best time of the policy's first choice; 0 when it was not measured
    double least_s = 0;  ///< best time of any
  };

  PeerTimes peers_;
  std::vector<Line> lines_;
  std::map<std::string, std::size_t> index_;
};

}  // namespace tilesmith
