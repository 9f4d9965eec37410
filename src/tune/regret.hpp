// Regret: the time of the kernel that a policy chooses over the time of the best one, from what an oracle measured.
//
// Judged by split samples: the best candidate, and what a policy finds by timing, come from one half of the turns; both
// times of the ratio from the other half. The halves change their parts, and the regret of a problem is the geometric
// mean of both ratios. It may be below 1: the best by one half need not be the best by the other. The noise is what the
// best by one half loses, in the other half, to that half's own minimum: a figure below which nobody can get.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tune/oracle_file.hpp"

namespace tilesmith {

/// Of one policy over the problems of a family, or of all.
struct RegretFigure {
  std::string family;  ///< "all" for those of every family
  std::string policy;  ///< kRegretPolicies
  std::size_t problems = 0;
  double mean = 1;  ///< geometric
  double p90 = 1;   ///< nine of ten problems have at most this
  double worst = 1;
  std::string worst_problem;
};

/// What is judged, beside "noise":
///   dispatch            what dispatch chooses
///   model               the candidate with the least predicted time
///   first 2, 4, 8       the fastest of dispatch's first, timed once
///   inductor            the fastest of those that Inductor's table would time (choose/inductor.hpp), timed
///   nearest             the candidate with the least mean time, over the best's, at the three nearest other problems
///   of
///                       the same kind in the file (log2 of the sizes); where it was measured there
/// Families in alphabetical order, "all" at last. Problems of which no candidate was timed in both halves are left out.
[[nodiscard]] std::vector<RegretFigure> regret_of(std::span<const OracleRow> rows);

/// A table for people.
[[nodiscard]] std::string regret_text(std::span<const RegretFigure> figures);

}  // namespace tilesmith
