#include "verify/gemm/naive.hpp"

#include <algorithm>
#include <new>
#include <span>

#include "base/parallel.hpp"
#include "verify/add_scaled.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kPanelDepth = 32;     // of k converted at a time
constexpr std::int64_t kTaskRows = 64;       // of a task: enough to share the conversion of B
constexpr std::int64_t kNaiveColumns = 256;  // of a task; even, so that no gate's pair is parted

/// Rows of D from i0 on and columns of the products from j0 on, of one member.
class NaiveBlock {
 public:
  NaiveBlock(const GemmTensors& tensors, ElementType type, std::int64_t b, std::int64_t i0, std::int64_t j0)
      : t_(tensors),
        type_(type),
        b_(b),
        rows_(t_.rows_of(b)),
        i0_(i0),
        j0_(j0),
        count_(std::min(kTaskRows, rows_.count - i0)),
        columns_(std::min(kNaiveColumns, t_.n - j0)) {}

  void run(std::span<double> d) {
    multiply();
    const std::int64_t parts = t_.gated() ? 2 : 1;  // columns of a product that are one of D
    std::vector<float> row(static_cast<std::size_t>(columns_));
    for (std::int64_t r = 0; r < count_; ++r) {
      std::copy_n(sums_.begin() + r * columns_, columns_, row.begin());
      finish(t_.row_of(b_, i0_ + r), row);
      std::copy_n(row.begin(), columns_ / parts,
                  d.begin() + (rows_.before + i0_ + r) * t_.columns_of_d() + j0_ / parts);
    }
  }

 private:
  [[nodiscard]] float rounded(double x) const { return static_cast<float>(round_to(type_, x)); }

  void multiply() {
    sums_.assign(static_cast<std::size_t>(count_ * columns_), 0.0F);
    if (t_.alpha == 0) return;
    std::vector<double> panel(static_cast<std::size_t>(kPanelDepth * columns_));
    std::vector<float> right(panel.size());
    std::vector<double> left(static_cast<std::size_t>(kPanelDepth));
    std::vector<float> weights(left.size());
    for (std::int64_t p0 = 0; p0 < t_.depth(); p0 += kPanelDepth) {
      const std::int64_t depth = std::min(kPanelDepth, t_.depth() - p0);
      t_.read_b(b_, p0, depth, j0_, columns_, panel.data(), columns_);
      std::ranges::transform(panel, right.begin(), [](double x) { return static_cast<float>(x); });
      for (std::int64_t r = 0; r < count_; ++r) {
        t_.read_a(b_, t_.row_of(b_, i0_ + r), p0, depth, left.data());
        std::ranges::transform(left, weights.begin(), [](double x) { return static_cast<float>(x); });
        add_scaled(sums_.data() + r * columns_, right.data(), weights.data(), depth, columns_);
      }
    }
  }

  void finish(std::int64_t i, std::vector<float>& row) const {
    std::int64_t columns = columns_, from = j0_;
    const auto each = [&](auto&& change) {
      for (std::int64_t j = 0; j < columns; ++j) {
        float& x = row[static_cast<std::size_t>(j)];
        x = rounded(change(static_cast<double>(x), from + j));
      }
    };
    each([&](double x, std::int64_t) { return static_cast<double>(t_.alpha) * x; });
    if (t_.beta != 0)
      each([&](double x, std::int64_t j) { return x + static_cast<double>(t_.beta) * element(t_.c, b_, i, j); });
    for (const GemmStep& step : t_.epilogue) {
      const auto operand = [&](std::int64_t j) { return element(step.operand, b_, i, j); };
      if (is_gate(step.op)) {
        columns /= 2;
        from /= 2;
        for (std::int64_t j = 0; j < columns; ++j) {
          const auto at = static_cast<std::size_t>(2 * j);
          const double gate = static_cast<double>(rounded(activated(step.op, static_cast<double>(row[at]))));
          row[static_cast<std::size_t>(j)] = rounded(gate * static_cast<double>(row[at + 1]));
        }
      } else if (step.op == EpilogueOp::scale_n || step.op == EpilogueOp::scale_m || step.op == EpilogueOp::multiply) {
        each([&](double x, std::int64_t j) { return x * operand(j); });
      } else if (reads_vector(step.op) || reads_tensor(step.op)) {
        each([&](double x, std::int64_t j) { return x + operand(j); });
      } else if (step.op == EpilogueOp::clamp) {
        each([&](double x, std::int64_t) {
          return std::min(std::max(x, static_cast<double>(step.low)), static_cast<double>(step.high));
        });
      } else if (step.op != EpilogueOp::amax) {
        each([&](double x, std::int64_t) { return activated(step.op, x); });
      }
    }
  }

  const GemmTensors& t_;
  ElementType type_;
  std::int64_t b_;
  GemmRows rows_;
  std::int64_t i0_, j0_, count_, columns_;
  std::vector<float> sums_;
};

}  // namespace

Result<std::vector<double>> naive_gemm(const GemmTensors& t, ElementType output_type, unsigned threads) {
  TS_TRY(check_tensors(t));
  std::vector<double> d;
  try {
    d.resize(static_cast<std::size_t>(t.elements_of_d()));
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::out_of_memory, "no memory for the naive result");
  }
  const std::vector<GemmRowBlock> row_blocks = row_blocks_of(t, kTaskRows);
  const auto column_blocks = static_cast<std::size_t>((t.n + kNaiveColumns - 1) / kNaiveColumns);
  parallel_for(row_blocks.size() * column_blocks, threads, [&](std::size_t task) {
    const GemmRowBlock& block = row_blocks[task / column_blocks];
    NaiveBlock(t, output_type, block.member, block.row, static_cast<std::int64_t>(task % column_blocks) * kNaiveColumns)
        .run(d);
  });
  return d;
}

}  // namespace tilesmith
