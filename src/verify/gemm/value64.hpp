// A number on its way through an epilogue in float64, with how far a kernel's may be off.
#pragma once

#include <algorithm>
#include <cmath>

#include "verify/gemm/tensors.hpp"
#include "verify/tolerance.hpp"

namespace tilesmith {

// A kernel's function is a handful of fp32 operations on numbers of its argument's size.
inline constexpr double kFunctionRoundings = 10;

/// A value on its way through the epilogue: how far a kernel's may be off, and the size of the terms in it.
struct Value64 {
  double x = 0, error = 0, magnitude = 0;
};

/// What one more fp32 operation rounds.
[[nodiscard]] inline Value64 rounded(Value64 v) {
  v.error += kFp32Roundoff * std::abs(v.x);
  return v;
}

[[nodiscard]] inline Value64 product(const Value64& a, const Value64& b) {
  return rounded(
      {a.x * b.x, std::abs(a.x) * b.error + std::abs(b.x) * a.error + a.error * b.error, a.magnitude * b.magnitude});
}

[[nodiscard]] inline Value64 applied(EpilogueOp op, const Value64& v, double function_roundoff) {
  const double y = activated(op, v.x);
  // The functions have no maximum, so that nothing between two arguments is farther off than at the ends.
  const double spread =
      std::max(std::abs(activated(op, v.x - v.error) - y), std::abs(activated(op, v.x + v.error) - y));
  return {y, spread + kFunctionRoundings * function_roundoff * std::max(1.0, std::abs(v.x)),
          std::max(v.magnitude, std::abs(y))};
}

[[nodiscard]] inline Value64 plus(const Value64& v, double y) {
  return rounded({v.x + y, v.error + kFp32Roundoff * std::abs(y), v.magnitude + std::abs(y)});
}

[[nodiscard]] inline Value64 clamped(Value64 v, float low, float high) {
  if (!std::isnan(v.x)) v.x = std::min(std::max(v.x, static_cast<double>(low)), static_cast<double>(high));
  return v;
}

}  // namespace tilesmith
