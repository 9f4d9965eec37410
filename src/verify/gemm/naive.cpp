#include "verify/gemm/naive.hpp"

#include <algorithm>
#include <new>
#include <span>

#include "base/parallel.hpp"
#include "verify/add_scaled.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kPanelDepth = 16;  // of k converted at a time
constexpr std::int64_t kTaskRows = 32;    // of a task: enough to share the conversion of B

/// Rows of D from i0 on, of one member.
class Rows {
 public:
  Rows(const GemmTensors& tensors, ElementType type, std::int64_t b, std::int64_t i0)
      : t_(tensors), type_(type), b_(b), rows_(t_.rows_of(b)), i0_(i0), count_(std::min(kTaskRows, rows_.count - i0)) {}

  void run(std::span<double> d) {
    multiply();
    std::vector<float> row(static_cast<std::size_t>(t_.n));
    for (std::int64_t r = 0; r < count_; ++r) {
      std::copy_n(sums_.begin() + r * t_.n, t_.n, row.begin());
      finish(rows_.first + i0_ + r, row);
      std::copy_n(row.begin(), t_.columns_of_d(), d.begin() + (rows_.before + i0_ + r) * t_.columns_of_d());
    }
  }

 private:
  [[nodiscard]] float rounded(double x) const { return static_cast<float>(round_to(type_, x)); }

  void multiply() {
    sums_.assign(static_cast<std::size_t>(count_ * t_.n), 0.0F);
    if (t_.alpha == 0) return;
    std::vector<double> panel(static_cast<std::size_t>(kPanelDepth * t_.n));
    std::vector<float> right(static_cast<std::size_t>(t_.n));
    for (std::int64_t p0 = 0; p0 < t_.depth(); p0 += kPanelDepth) {
      const std::int64_t depth = std::min(kPanelDepth, t_.depth() - p0);
      t_.read_b(b_, p0, depth, 0, t_.n, panel.data(), t_.n);
      for (std::int64_t p = 0; p < depth; ++p) {
        std::transform(panel.begin() + p * t_.n, panel.begin() + (p + 1) * t_.n, right.begin(),
                       [](double x) { return static_cast<float>(x); });
        for (std::int64_t r = 0; r < count_; ++r)
          add_scaled(sums_.data() + r * t_.n, right.data(),
                     static_cast<float>(t_.value_of_a(b_, rows_.first + i0_ + r, p0 + p)), t_.n);
      }
    }
  }

  void finish(std::int64_t i, std::vector<float>& row) const {
    std::int64_t columns = t_.n;
    const auto each = [&](auto&& change) {
      for (std::int64_t j = 0; j < columns; ++j) {
        float& x = row[static_cast<std::size_t>(j)];
        x = rounded(change(static_cast<double>(x), j));
      }
    };
    each([&](double x, std::int64_t) { return static_cast<double>(t_.alpha) * x; });
    if (t_.beta != 0)
      each([&](double x, std::int64_t j) { return x + static_cast<double>(t_.beta) * element(t_.c, b_, i, j); });
    for (const GemmStep& step : t_.epilogue) {
      const auto operand = [&](std::int64_t j) { return element(step.operand, b_, i, j); };
      if (is_gate(step.op)) {
        columns /= 2;
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
  std::int64_t i0_, count_;
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
  const std::vector<GemmRowBlock> blocks = row_blocks_of(t, kTaskRows);
  parallel_for(t.n > 0 ? blocks.size() : 0, threads,
               [&](std::size_t task) { Rows(t, output_type, blocks[task].member, blocks[task].row).run(d); });
  return d;
}

}  // namespace tilesmith
