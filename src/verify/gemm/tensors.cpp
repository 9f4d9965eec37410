#include "verify/gemm/tensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>
#include <utility>

namespace tilesmith {

bool GemmTensors::gated() const {
  return std::ranges::any_of(epilogue, [](const GemmStep& step) { return is_gate(step.op); });
}

std::int64_t GemmTensors::total_rows() const {
  if (groups.empty()) return batch * rows_of(0).count;
  return groups.back().before + groups.back().count;
}

bool GemmTensors::is_computed(std::int64_t matrix, std::int64_t row) const {
  const auto holds = [&](const GemmRows& rows) { return row >= rows.first && row < rows.first + rows.count; };
  return contiguous ? std::ranges::any_of(groups, holds) : holds(rows_of(matrix));
}

namespace {

/// What a view without data stands for is `otherwise`.
double scale_at(const GemmScaleView& s, std::int64_t b, std::int64_t line, std::int64_t p, double otherwise = 1) {
  return s.depth == 0 ? otherwise : element(s.view, b, line / s.lines, p / s.depth);
}

/// The int4 at an index: two's complement, the even one in a byte's low half.
double int4_at(const void* data, std::int64_t index) {
  const int byte = static_cast<const std::uint8_t*>(data)[index / 2];
  const int half = index % 2 == 0 ? byte & 15 : byte >> 4;
  return half < 8 ? half : half - 16;
}

}  // namespace

double GemmTensors::value_of_a(std::int64_t member, std::int64_t i, std::int64_t p) const {
  if (p >= k) return element(a2, member, i, p - k);
  return element(a, member, i, p) * scale_at(scale_a, member, i, p);
}

double GemmTensors::value_of_b(std::int64_t member, std::int64_t p, std::int64_t j) const {
  if (p >= k) return element(b2, member, p - k, j);
  const TensorStrides& s = b.strides;
  const double stored =
      b_is_int4 ? int4_at(b.data, member * s.batch + p * s.row + j * s.column) : element(b, member, p, j);
  const double value = (stored - scale_at(zero_b, member, j, p, 0)) * scale_at(scale_b, member, j, p);
  return b_is_weights ? round_to(a.type, round_to(ElementType::fp32, value)) : value;
}

void GemmTensors::read_a(std::int64_t member, std::int64_t i, std::int64_t p, std::int64_t depth, double* out) const {
  const TensorStrides& s = a.strides;
  if (p + depth <= k && scale_a.depth == 0 && s.column == 1) {
    const std::int64_t at = member * s.batch + i * s.row + p;
    load_elements(a.type, static_cast<const std::byte*>(a.data) + at * static_cast<std::int64_t>(size_of(a.type)),
                  std::span(out, static_cast<std::size_t>(depth)));
  } else {
    for (std::int64_t q = 0; q < depth; ++q) out[q] = value_of_a(member, i, p + q);
  }
}

void GemmTensors::read_b(std::int64_t member, std::int64_t p, std::int64_t depth, std::int64_t j, std::int64_t columns,
                         double* out, std::int64_t width) const {
  const TensorStrides& s = b.strides;
  const bool is_plain = p + depth <= k && !b_is_int4 && !b_is_weights && zero_b.depth == 0 && scale_b.depth == 0;
  const auto from = [&](std::int64_t row, std::int64_t column) {
    const std::int64_t at = member * s.batch + row * s.row + column * s.column;
    return static_cast<const std::byte*>(b.data) + at * static_cast<std::int64_t>(size_of(b.type));
  };
  if (is_plain && s.column == 1) {
    for (std::int64_t q = 0; q < depth; ++q)
      load_elements(b.type, from(p + q, j), std::span(out + q * width, static_cast<std::size_t>(columns)));
  } else if (is_plain && s.row == 1) {
    constexpr std::int64_t kLines = 8;  // doubles of a cache line, written together
    std::vector<double> lines(static_cast<std::size_t>(kLines * depth));
    for (std::int64_t x = 0; x < columns; x += kLines) {
      const std::int64_t count = std::min(kLines, columns - x);
      for (std::int64_t line = 0; line < count; ++line)
        load_elements(
            b.type, from(p, j + x + line),
            std::span(lines).subspan(static_cast<std::size_t>(line * depth), static_cast<std::size_t>(depth)));
      for (std::int64_t q = 0; q < depth; ++q)
        for (std::int64_t line = 0; line < count; ++line)
          out[q * width + x + line] = lines[static_cast<std::size_t>(line * depth + q)];
    }
  } else {
    for (std::int64_t q = 0; q < depth; ++q)
      for (std::int64_t x = 0; x < columns; ++x) out[q * width + x] = value_of_b(member, p + q, j + x);
  }
}

Status check_tensors(const GemmTensors& t) {
  for (const auto& [name, size] : {std::pair{"batch", t.batch}, std::pair{"m", t.m}, std::pair{"n", t.n},
                                   std::pair{"k", t.k}, std::pair{"k2", t.k2}})
    if (size < 0) return fail(ErrorCode::invalid_argument, fmt::format("{} is {}", name, size), "sizes are 0 or more");
  if (t.gated() && t.n % 2 != 0)
    return fail(ErrorCode::invalid_argument, fmt::format("a gate joins pairs of columns, and n is {}", t.n),
                "an even n");
  if (t.batch * t.m * t.n == 0) return {};
  if (!t.groups.empty() && static_cast<std::int64_t>(t.groups.size()) != t.batch)
    return fail(ErrorCode::invalid_argument, fmt::format("{} groups of a batch of {}", t.groups.size(), t.batch));
  for (const GemmScaleView* scale : {&t.scale_a, &t.scale_b, &t.zero_b})
    if (scale->depth != 0 && scale->view.data == nullptr)
      return fail(ErrorCode::invalid_argument, "scales without data");
  if (t.k > 0 && t.alpha != 0 && (t.a.data == nullptr || t.b.data == nullptr))
    return fail(ErrorCode::invalid_argument, "a or b has elements but no data");
  if (t.k2 > 0 && t.alpha != 0 && (t.a2.data == nullptr || t.b2.data == nullptr))
    return fail(ErrorCode::invalid_argument, "a2 or b2 has elements but no data");
  if (t.beta != 0 && t.c.data == nullptr) return fail(ErrorCode::invalid_argument, "beta is not 0, and c has no data");
  for (std::size_t i = 0; i < t.epilogue.size(); ++i) {
    const GemmStep& step = t.epilogue[i];
    if ((reads_vector(step.op) || reads_tensor(step.op)) && step.operand.data == nullptr)
      return fail(ErrorCode::invalid_argument, fmt::format("operation {} of the epilogue has no data", i));
  }
  return {};
}

std::vector<GemmRowBlock> row_blocks_of(const GemmTensors& t, std::int64_t most) {
  std::vector<GemmRowBlock> blocks;
  for (std::int64_t b = 0; b < t.batch; ++b)
    for (std::int64_t row = 0; row < t.rows_of(b).count; row += most) blocks.push_back({b, row});
  return blocks;
}

double element(const TensorView& view, std::int64_t b, std::int64_t i, std::int64_t j) {
  const TensorStrides& s = view.strides;
  return load_element(view.type, view.data, static_cast<std::size_t>(b * s.batch + i * s.row + j * s.column));
}

double activated(EpilogueOp op, double x) {
  if (std::isnan(x)) return x;
  const auto sigmoid = [](double v) { return v >= 0 ? 1 / (1 + std::exp(-v)) : std::exp(v) / (1 + std::exp(v)); };
  switch (op) {
    case EpilogueOp::relu:
    case EpilogueOp::reglu:
      return std::max(x, 0.0);
    case EpilogueOp::gelu:
    case EpilogueOp::geglu:
      return x * std::erfc(-x / std::numbers::sqrt2) / 2;
    case EpilogueOp::gelu_tanh:
    case EpilogueOp::geglu_tanh: {
      // (1 + tanh u) / 2 = sigmoid(2 u), which keeps its digits where tanh is nearly -1
      const double u = std::sqrt(2 * std::numbers::inv_pi) * (x + 0.044715 * x * x * x);
      return x * sigmoid(2 * u);
    }
    case EpilogueOp::silu:
    case EpilogueOp::swiglu:
      return x * sigmoid(x);
    case EpilogueOp::sigmoid:
    case EpilogueOp::glu:
      return sigmoid(x);
    case EpilogueOp::tanh:
      return std::tanh(x);
    default:
      return x;
  }
}

}  // namespace tilesmith
