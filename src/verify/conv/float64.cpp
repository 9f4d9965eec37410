#include "verify/conv/float64.hpp"

#include <algorithm>
#include <cmath>
#include <new>

#include "base/parallel.hpp"
#include "verify/gemm/value64.hpp"
#include "verify/product64.hpp"
#include "verify/tolerance.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kConvColumns = 256;  // of a task
constexpr std::int64_t kConvDepth = 256;    // terms converted at a time

Value64 after_step(const ConvTensors& t, const ConvStep& step, const Value64& v, std::int64_t group, std::int64_t row,
                   std::int64_t column) {
  switch (step.op) {
    case EpilogueOp::bias:
    case EpilogueOp::add:
      return plus(v, t.operand(step, group, row, column));
    case EpilogueOp::scale_n:
    case EpilogueOp::multiply: {
      const double y = t.operand(step, group, row, column);
      return product(v, {y, 0, std::abs(y)});
    }
    case EpilogueOp::clamp:
      return clamped(v, step.low, step.high);
    default:
      return applied(step.op, v, kFp32Roundoff);
  }
}

/// kProductRows rows by kConvColumns columns of a group's result.
void compute(const ConvTensors& t, std::int64_t group, std::int64_t first_row, std::int64_t first_column,
             double accumulator_roundoff, Float64Conv& result) {
  const std::int64_t rows = std::min(kProductRows, t.rows() - first_row);
  const std::int64_t columns = std::min(kConvColumns, t.columns() - first_column), width = padded_columns(columns);
  std::vector<double> sums(static_cast<std::size_t>(kProductRows * width)), sizes = sums;
  std::vector<double> left(static_cast<std::size_t>(kProductRows * kConvDepth)), left_size = left;
  std::vector<double> right(static_cast<std::size_t>(kConvDepth * width)), right_size = right;
  const auto put = [](std::vector<double>& values, std::vector<double>& magnitudes, std::int64_t at, double x) {
    values[static_cast<std::size_t>(at)] = x;
    magnitudes[static_cast<std::size_t>(at)] = std::abs(x);
  };
  for (std::int64_t first = 0; first < t.depth(); first += kConvDepth) {
    const std::int64_t depth = std::min(kConvDepth, t.depth() - first);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t p = 0; p < depth; ++p)
        put(left, left_size, r * kConvDepth + p, t.left(group, first_row + r, first + p));
    for (std::int64_t p = 0; p < depth; ++p)
      for (std::int64_t c = 0; c < columns; ++c)
        put(right, right_size, p * width + c, t.right(group, first + p, first_column + c));
    multiply_add64(left.data(), kConvDepth, right.data(), sums.data(), depth, width);
    multiply_add64(left_size.data(), kConvDepth, right_size.data(), sizes.data(), depth, width);
  }
  const double factor = product_working_factor(t.depth(), accumulator_roundoff);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) {
      const auto from = static_cast<std::size_t>(r * width + c);
      Value64 v = rounded({sums[from], factor * sizes[from], sizes[from]});
      for (const ConvStep& step : t.epilogue) v = after_step(t, step, v, group, first_row + r, first_column + c);
      const std::size_t at = t.place(group, first_row + r, first_column + c);
      result.values[at] = v.x;
      result.bound[at] = v.error;
      result.magnitude[at] = static_cast<float>(v.magnitude);
    }
}

}  // namespace

Result<Float64Conv> float64_conv(const ConvTensors& t, double accumulator_roundoff, unsigned threads) {
  Float64Conv result;
  try {
    result.values.resize(t.elements());
    result.bound.resize(t.elements());
    result.magnitude.resize(t.elements());
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::out_of_memory, "no memory for the reference result");
  }
  const std::int64_t row_blocks = (t.rows() + kProductRows - 1) / kProductRows;
  const std::int64_t column_blocks = (t.columns() + kConvColumns - 1) / kConvColumns;
  parallel_for(static_cast<std::size_t>(t.groups * row_blocks * column_blocks), threads, [&](std::size_t task) {
    const auto number = static_cast<std::int64_t>(task);
    compute(t, number / column_blocks / row_blocks, number / column_blocks % row_blocks * kProductRows,
            number % column_blocks * kConvColumns, accumulator_roundoff, result);
  });
  return result;
}

}  // namespace tilesmith
