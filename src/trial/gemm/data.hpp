// What random matrices have that normal numbers lack, in trials and in the property tests.
#pragma once

#include <cstdint>
#include <span>

namespace tilesmith {

/// Which operand of a product.
enum class Side { a, b };

/// Makes sums cancel: in every fourth row of A, and every fourth column of B, the second half of k repeats the first
/// half, in A a sixteenth smaller and with the other sign. Where such a row meets such a column partial sums are
/// sixteen times the result, so that a kernel that rounds them in between (parts of k, blocks of k) shows.
/// `values`: matrices behind one another, each `outer` lines of `inner` values; k runs along the lines (`inner`), or
/// across them.
void let_halves_cancel(std::span<float> values, Side side, std::int64_t outer, std::int64_t inner, bool k_along);

}  // namespace tilesmith
