#include "verify/gemm/float64.hpp"

#include <algorithm>
#include <cmath>
#include <new>
#include <span>

#include "base/parallel.hpp"
#include "verify/gemm/value64.hpp"
#include "verify/product64.hpp"
#include "verify/tolerance.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kMostRows = 4 * kProductRows;  // of a task: enough to share what is converted of B
constexpr std::int64_t kColumns = 256;                // of a task; even, so that no gate's pair is parted
constexpr std::int64_t kDepth = 128;                  // of k converted at a time; both panels of B stay in the L2 cache
// Each factor is rounded when it is scaled, or the product of two scales and what a block's sum is multiplied by.
constexpr double kScaleRoundings = 2;

double wrapped(double x) {
  return static_cast<double>(static_cast<std::int32_t>(static_cast<std::uint32_t>(static_cast<std::int64_t>(x))));
}

/// One task: up to `most` rows by kColumns columns of the products of one member.
class Block {
 public:
  Block(const GemmTensors& tensors, const GemmArithmetic& arithmetic, Float64Gemm& result, std::int64_t b,
        std::int64_t i0, std::int64_t j0, std::int64_t most)
      : t_(tensors),
        arithmetic_(arithmetic),
        result_(result),
        b_(b),
        i0_(i0),
        j0_(j0),
        rows_(std::min(most, t_.rows_of(b).count - i0)),
        columns_(std::min(kColumns, t_.n - j0)),
        width_(padded_columns(columns_)),
        padded_rows_((rows_ + kProductRows - 1) / kProductRows * kProductRows),
        sums_(static_cast<std::size_t>(padded_rows_ * width_)),
        sizes_(sums_.size()) {}

  void run() {
    if (t_.alpha != 0) multiply();
    const bool gated = t_.gated();
    for (std::int64_t r = 0; r < rows_; ++r)
      for (std::int64_t c = 0; c < columns_; c += gated ? 2 : 1) finish(r, c, gated);
  }

 private:
  void multiply() {
    std::vector<double> left(static_cast<std::size_t>(padded_rows_ * kDepth)), left_size = left;
    std::vector<double> right(static_cast<std::size_t>(kDepth * width_)), right_size = right;
    for (std::int64_t p0 = 0; p0 < t_.depth(); p0 += kDepth) {
      const std::int64_t depth = std::min(kDepth, t_.depth() - p0);
      for (std::int64_t r = 0; r < rows_; ++r) t_.read_a(b_, row(r), p0, depth, left.data() + r * kDepth);
      std::ranges::transform(left, left_size.begin(), [](double x) { return std::abs(x); });
      t_.read_b(b_, p0, depth, j0_, columns_, right.data(), width_);
      std::ranges::transform(right, right_size.begin(), [](double x) { return std::abs(x); });
      for (std::int64_t r = 0; r < padded_rows_; r += kProductRows) {
        multiply_add64(left.data() + r * kDepth, kDepth, right.data(), sums_.data() + r * width_, depth, width_);
        multiply_add64(left_size.data() + r * kDepth, kDepth, right_size.data(), sizes_.data() + r * width_, depth,
                       width_);
      }
    }
  }

  [[nodiscard]] std::int64_t row(std::int64_t r) const { return t_.row_of(b_, i0_ + r); }

  /// alpha P + beta C at a place of the block.
  Value64 linear(std::int64_t r, std::int64_t c) const {
    const auto at = static_cast<std::size_t>(r * width_ + c);
    const double alpha = static_cast<double>(t_.alpha), beta = static_cast<double>(t_.beta);
    const double size = std::abs(alpha) * sizes_[at];
    double factor = product_working_factor(t_.depth(), arithmetic_.accumulator_roundoff);
    if (t_.scale_a.depth != 0) factor += kScaleRoundings * kFp32Roundoff;
    Value64 v = rounded({alpha * sums_[at], factor * size, size});
    if (t_.beta != 0) v = plus(v, beta * element(t_.c, b_, row(r), j0_ + c));
    return v;
  }
  /// Operation `step` on the value at row i and column j of the call.
  Value64 applied_step(const GemmStep& step, const Value64& v, std::int64_t i, std::int64_t j) const {
    switch (step.op) {
      case EpilogueOp::bias:
      case EpilogueOp::bias_m:
      case EpilogueOp::add:
        return plus(v, element(step.operand, b_, i, j));
      case EpilogueOp::scale_n:
      case EpilogueOp::scale_m:
      case EpilogueOp::multiply: {
        const double y = element(step.operand, b_, i, j);
        return product(v, {y, 0, std::abs(y)});
      }
      case EpilogueOp::clamp:
        return clamped(v, step.low, step.high);
      case EpilogueOp::amax:
        return v;
      default:
        return applied(step.op, v, arithmetic_.function_roundoff);
    }
  }

  void finish(std::int64_t r, std::int64_t c, bool gated) {
    const std::int64_t i = row(r);
    std::int64_t j = j0_ + c;
    Value64 v = linear(r, c);
    Value64 second = gated ? linear(r, c + 1) : Value64{};
    bool pair = gated;
    for (const GemmStep& step : t_.epilogue) {
      if (is_gate(step.op)) {
        v = product(applied(step.op, v, arithmetic_.function_roundoff), second);
        j /= 2;
        pair = false;
      } else {
        v = applied_step(step, v, i, j);
        if (pair) second = applied_step(step, second, i, j + 1);
      }
    }
    if (arithmetic_.wraps) v = {wrapped(v.x), 0, v.magnitude};
    const auto at = static_cast<std::size_t>((t_.rows_of(b_).before + i0_ + r) * t_.columns_of_d() + j);
    result_.d[at] = v.x;
    result_.bound[at] = v.error;
    result_.magnitude[at] = static_cast<float>(v.magnitude);
  }

  const GemmTensors& t_;
  const GemmArithmetic& arithmetic_;
  Float64Gemm& result_;
  std::int64_t b_, i0_, j0_, rows_, columns_, width_, padded_rows_;
  std::vector<double> sums_, sizes_;  // P, and |A| |B|
};

/// Many rows share what is converted of B, but no thread should be without a task for long.
std::int64_t rows_of_a_task(const GemmTensors& t, std::size_t column_blocks) {
  constexpr std::size_t kTasks = 128;
  std::int64_t rows = kMostRows;
  while (rows > kProductRows && row_blocks_of(t, rows).size() * column_blocks < kTasks) rows /= 2;
  return rows;
}

}  // namespace

Result<Float64Gemm> float64_gemm(const GemmTensors& t, const GemmArithmetic& arithmetic, unsigned threads) {
  TS_TRY(check_tensors(t));
  Float64Gemm result;
  try {
    const auto count = static_cast<std::size_t>(t.elements_of_d());
    result.d.resize(count);
    result.bound.resize(count);
    result.magnitude.resize(count);
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::out_of_memory, "no memory for the reference result");
  }
  const auto column_blocks = static_cast<std::size_t>((t.n + kColumns - 1) / kColumns);
  const std::int64_t most = rows_of_a_task(t, column_blocks);
  const std::vector<GemmRowBlock> row_blocks = row_blocks_of(t, most);
  parallel_for(row_blocks.size() * column_blocks, threads, [&](std::size_t task) {
    const GemmRowBlock& block = row_blocks[task / column_blocks];
    Block(t, arithmetic, result, block.member, block.row, static_cast<std::int64_t>(task % column_blocks) * kColumns,
          most)
        .run();
  });
  for (std::size_t at = 0; at < result.d.size(); ++at) {
    result.amax = std::max(result.amax, std::abs(result.d[at]));
    result.amax_bound = std::max(result.amax_bound, result.bound[at]);
  }
  return result;
}

}  // namespace tilesmith
