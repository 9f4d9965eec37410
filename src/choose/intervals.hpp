// Sizes that change: what was measured at two sizes says something of the sizes between them.
//
// A call does not get faster when a size grows: for a < m <= b the kernel chosen at b takes at most its time at b, and
// no kernel is faster than the best at a. So the regret of that kernel at m is at most its time at b over the best time
// at a: the interval's bound. The assumption fails where the size changes what a kernel may expect of memory: such
// problems differ in a field beside the size, and have no interval in common.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/sha256.hpp"

namespace tilesmith {

/// An identity (identity_of) without the size that changes: m of a GEMM, seqlen_k of attention.
struct SizedIdentity {
  std::string kind;
  std::int64_t size = 1;
};

/// Nothing for operations that have no such size.
[[nodiscard]] std::optional<SizedIdentity> sized_identity(std::string_view identity);

/// The fastest recipe that was measured at a size.
struct MeasuredSize {
  std::int64_t size = 0;
  Key128 recipe{};
  double seconds = 0;  ///< of a call
};

/// The sizes above `low` and below `high`, which were measured; what was chosen at `high` computes them.
struct MeasuredInterval {
  std::int64_t low = 0, high = 0;
  Key128 recipe{};
  double seconds = 0;           ///< of a call at `high`
  double bound = 1;             ///< of the regret, as far as the times are exact
  bool has_one_recipe = false;  ///< the same recipe was the fastest at both ends
};

/// Regret that is taken for not having asked the policy.
inline constexpr double kMostBound = 1.1;
/// Ends that are so close and have one recipe need no bound.
inline constexpr std::int64_t kNearEnds = 2;

/// The interval of the size; `sizes` by rising size. Nothing where the size was measured, or lies outside.
[[nodiscard]] std::optional<MeasuredInterval> interval_of(std::span<const MeasuredSize> sizes, std::int64_t size);

/// Whether the interval's recipe is to be taken: its bound is small, or its ends agree and are near.
[[nodiscard]] bool is_trusted(const MeasuredInterval& interval);

}  // namespace tilesmith
