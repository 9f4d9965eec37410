#include "verify/gemm/row_sums.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/parallel.hpp"
#include "verify/product64.hpp"
#include "verify/signed_sums.hpp"
#include "verify/tolerance.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kSumDepth = 128;    // of k converted at a time
constexpr std::int64_t kSumColumns = 256;  // of B converted at a time, whole blocks

bool only_adds(EpilogueOp op) {
  return op == EpilogueOp::bias || op == EpilogueOp::bias_m || op == EpilogueOp::add;
}

/// B's sums over blocks of columns, depth x width: with signs, and of absolute values.
struct RightSums {
  std::int64_t width;
  std::vector<double> with_signs, sizes;
};

RightSums right_sums(const GemmTensors& t, std::int64_t member, std::int64_t blocks, std::span<const double> signs,
                     unsigned threads) {
  RightSums out{.width = padded_columns(blocks), .with_signs = {}, .sizes = {}};
  out.with_signs.resize(static_cast<std::size_t>(t.depth() * out.width));
  out.sizes.resize(out.with_signs.size());
  parallel_for(static_cast<std::size_t>((t.depth() + kSumDepth - 1) / kSumDepth), threads, [&](std::size_t task) {
    const std::int64_t p0 = static_cast<std::int64_t>(task) * kSumDepth, depth = std::min(kSumDepth, t.depth() - p0);
    std::vector<double> panel(static_cast<std::size_t>(depth * kSumColumns));
    for (std::int64_t j0 = 0; j0 < t.n; j0 += kSumColumns) {
      const std::int64_t columns = std::min(kSumColumns, t.n - j0);
      t.read_b(member, p0, depth, j0, columns, panel.data(), kSumColumns);
      for (std::int64_t p = 0; p < depth; ++p)
        for (std::int64_t j = 0; j < columns; ++j) {
          const double x = panel[static_cast<std::size_t>(p * kSumColumns + j)];
          const auto at = static_cast<std::size_t>((p0 + p) * out.width + (j0 + j) / kSignedBlock);
          out.with_signs[at] += signs[static_cast<std::size_t>(j0 + j)] * x;
          out.sizes[at] += std::abs(x);
        }
    }
  });
  return out;
}

}  // namespace

bool GemmRowSums::apply_to(const GemmTensors& tensors, ElementType output_type) {
  const bool is_wide =
      output_type == ElementType::fp32 || output_type == ElementType::fp16 || output_type == ElementType::bf16;
  return is_wide && tensors.groups.empty() && std::ranges::all_of(tensors.epilogue, only_adds, &GemmStep::op);
}

GemmRowSums::GemmRowSums(const GemmTensors& t, ElementType output_type, double accumulator_roundoff, unsigned threads)
    : output_type_(output_type),
      batch_(t.batch),
      m_(t.m),
      n_(t.n),
      blocks_((t.n + kSignedBlock - 1) / kSignedBlock),
      signs_(column_signs(n_)),
      sums_(static_cast<std::size_t>(batch_ * m_ * blocks_)) {
  if (t.alpha != 0) add_products(t, accumulator_roundoff, threads);
  if (t.beta != 0) add_operand(t.c, static_cast<double>(t.beta), threads);
  for (const GemmStep& step : t.epilogue) add_operand(step.operand, 1, threads);
}

void GemmRowSums::add_products(const GemmTensors& t, double accumulator_roundoff, unsigned threads) {
  // A scaled factor is rounded, its scale too, and the sum times alpha.
  constexpr double kRoundings = 4;
  const double alpha = static_cast<double>(t.alpha);
  const double factor = product_working_factor(t.depth(), accumulator_roundoff) + kRoundings * kFp32Roundoff;
  for (std::int64_t member = 0; member < batch_; ++member) {
    const RightSums right = right_sums(t, member, blocks_, signs_, threads);
    parallel_for(static_cast<std::size_t>((m_ + kProductRows - 1) / kProductRows), threads, [&](std::size_t task) {
      const std::int64_t i0 = static_cast<std::int64_t>(task) * kProductRows, rows = std::min(kProductRows, m_ - i0);
      std::vector<double> left(static_cast<std::size_t>(kProductRows * kSumDepth));
      std::vector<double> values(static_cast<std::size_t>(kProductRows * right.width)), sizes = values;
      for (std::int64_t p0 = 0; p0 < t.depth(); p0 += kSumDepth) {
        const std::int64_t depth = std::min(kSumDepth, t.depth() - p0);
        for (std::int64_t r = 0; r < rows; ++r) t.read_a(member, i0 + r, p0, depth, left.data() + r * kSumDepth);
        multiply_add64(left.data(), kSumDepth, right.with_signs.data() + p0 * right.width, values.data(), depth,
                       right.width);
        std::ranges::transform(left, left.begin(), [](double x) { return std::abs(x); });
        multiply_add64(left.data(), kSumDepth, right.sizes.data() + p0 * right.width, sizes.data(), depth, right.width);
      }
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t block = 0; block < blocks_; ++block) {
          const auto from = static_cast<std::size_t>(r * right.width + block);
          Sum& sum = sums_[static_cast<std::size_t>(((member * m_) + i0 + r) * blocks_ + block)];
          sum = {alpha * values[from], factor * std::abs(alpha) * sizes[from]};
        }
    });
  }
}

void GemmRowSums::add_operand(const TensorView& operand, double factor, unsigned threads) {
  parallel_for(static_cast<std::size_t>(batch_ * m_), threads, [&](std::size_t line) {
    const auto member = static_cast<std::int64_t>(line) / m_, i = static_cast<std::int64_t>(line) % m_;
    for (std::int64_t j = 0; j < n_; ++j) {
      const double x = factor * element(operand, member, i, j);
      Sum& sum = sums_[line * static_cast<std::size_t>(blocks_) + static_cast<std::size_t>(j / kSignedBlock)];
      sum.value += signs_[static_cast<std::size_t>(j)] * x;
      sum.error += 2 * kFp32Roundoff * std::abs(x);  // times its factor, and added
    }
  });
}

std::optional<std::string> GemmRowSums::refusal(std::span<const double> d) const {
  constexpr std::int64_t kTogether = 16;
  const std::int64_t lines = batch_ * m_;
  std::vector<std::optional<std::string>> refusals(static_cast<std::size_t>((lines + kTogether - 1) / kTogether));
  parallel_for(refusals.size(), 0, [&](std::size_t task) {
    const auto first = static_cast<std::int64_t>(task) * kTogether;
    for (std::int64_t line = first; line < std::min(lines, first + kTogether) && !refusals[task]; ++line)
      refusals[task] = refusal_of_row(d, line);
  });
  const auto found = std::ranges::find_if(refusals, [](const auto& refusal) { return refusal.has_value(); });
  return found == refusals.end() ? std::nullopt : *found;
}

std::optional<std::string> GemmRowSums::refusal_of_row(std::span<const double> d, std::int64_t line) const {
  const double u = unit_roundoff(output_type_);
  for (std::int64_t block = 0; block < blocks_; ++block) {
    const std::int64_t begin = block * kSignedBlock, end = std::min(n_, begin + kSignedBlock);
    double got = 0, size = 0;
    for (std::int64_t j = begin; j < end; ++j) {
      const double x = d[static_cast<std::size_t>(line * n_ + j)];
      got += signs_[static_cast<std::size_t>(j)] * x;
      size += std::abs(x);
    }
    const Sum& want = sums_[static_cast<std::size_t>(line * blocks_ + block)];
    const auto elements = static_cast<double>(end - begin);
    // Check B's limits of the elements, whose exact values are no larger than what is there and these limits. Each sum
    // of fp32 rounds what it has once more.
    const double limit =
        (u * size + (1 + u) * (want.error + kFp32Roundoff * size) + elements * smallest_subnormal(output_type_)) /
        (1 - u);
    if (std::abs(got - want.value) <= limit) continue;
    return fmt::format(
        "[batch {}, row {}, columns {} to {}] add up to {:.9g} with signs, the reference to {:.9g}: off by {:.3g}, at "
        "most {:.3g}",
        line / m_, line % m_, begin, end - 1, got, want.value, std::abs(got - want.value), limit);
  }
  return std::nullopt;
}

}  // namespace tilesmith
