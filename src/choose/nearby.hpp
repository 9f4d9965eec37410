// Several sizes that change: what was measured at larger and at smaller sizes bounds the regret between them.
//
// No call gets faster when one of its sizes grows. So of a problem p, with a measured problem a none of whose sizes is
// larger and a measured problem b none of whose sizes is smaller: the kernel chosen at b takes at most its time at b,
// no kernel is faster than the best at a, and the regret of b's kernel at p is at most its time at b over the best time
// at a. With one size this is the interval of intervals.hpp; the sizes here are the corners of a box.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/sha256.hpp"

namespace tilesmith {

/// The sizes that change: of a GEMM m and batch, of attention seqlen_k, seqlen_q and batch; 1 where there is none.
using ChangingSizes = std::array<std::int64_t, 3>;

/// An identity (identity_of) without the sizes that change.
struct SeveralSizes {
  std::string kind;
  ChangingSizes sizes{1, 1, 1};
};

/// Nothing for operations that have no such sizes.
[[nodiscard]] std::optional<SeveralSizes> sizes_of_identity(std::string_view identity);

/// The fastest recipe that was measured at some sizes.
struct MeasuredCorner {
  ChangingSizes sizes{};
  Key128 recipe{};
  double seconds = 0;  ///< of a call
};

/// What was chosen at `high` computes the problems of no smaller sizes than `low` and no larger ones than `high`.
struct MeasuredBox {
  ChangingSizes low{}, high{};
  Key128 recipe{};
  double seconds = 0;           ///< of a call at `high`
  double bound = 1;             ///< of the regret, as far as the times are exact
  bool has_one_recipe = false;  ///< the same recipe was the fastest at both corners
};

/// The box around the sizes with the least bound: the fastest of the corners above, the slowest of those below. Nothing
/// where there is none on one of the sides.
[[nodiscard]] std::optional<MeasuredBox> box_around(std::span<const MeasuredCorner> corners,
                                                    const ChangingSizes& sizes);

/// As of an interval: the bound is small, or the corners agree and are near, all sizes together.
[[nodiscard]] bool is_trusted(const MeasuredBox& box);

}  // namespace tilesmith
