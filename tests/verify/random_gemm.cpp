#include "verify/random_gemm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/random.hpp"

namespace tilesmith::testing {
namespace {

bool whole(ElementType type) {
  return !is_floating(type);
}

float as_float(double x) {
  return static_cast<float>(x);
}

}  // namespace

GemmOptions random_gemm_options(ElementType input, ElementType output, std::uint64_t seed) {
  const RandomStream random{seed, 99};
  std::uint64_t drawn = 0;
  const auto below = [&](std::uint64_t bound) { return random.below(drawn++, bound); };
  GemmOptions o;
  o.input = input;
  o.output = output;
  o.seed = seed;
  o.batch = 1 + static_cast<std::int64_t>(below(3));
  o.m = 1 + static_cast<std::int64_t>(below(50));
  o.n = 2 * (1 + static_cast<std::int64_t>(below(40)));
  o.k = 1 + static_cast<std::int64_t>(below(300));
  o.column_a = below(2) == 1;
  o.column_b = below(2) == 1;
  if (output == ElementType::int32) {
    o.beta = below(2) == 1 ? 3.0F : 0.0F;
    return o;
  }
  o.alpha = below(2) == 1 ? 1.0F : 0.75F;
  o.beta = below(3) == 1 ? -0.5F : 0.0F;
  if (below(4) == 0) o.epilogue = {EpilogueOp::scale_m, EpilogueOp::scale_n};
  if (below(2) == 0) o.epilogue.push_back(below(2) == 0 ? EpilogueOp::bias : EpilogueOp::bias_m);
  constexpr EpilogueOp kFunctions[] = {
      EpilogueOp::gelu, EpilogueOp::gelu_tanh, EpilogueOp::silu,  EpilogueOp::sigmoid,    EpilogueOp::tanh,
      EpilogueOp::relu, EpilogueOp::glu,       EpilogueOp::geglu, EpilogueOp::geglu_tanh, EpilogueOp::swiglu};
  if (below(2) == 0) o.epilogue.push_back(kFunctions[below(std::size(kFunctions))]);
  if (below(3) == 0) o.epilogue.push_back(below(2) == 0 ? EpilogueOp::add : EpilogueOp::multiply);
  if (below(4) == 0) o.epilogue.push_back(EpilogueOp::clamp);
  if (below(4) == 0) o.epilogue.push_back(EpilogueOp::amax);
  return o;
}

std::string describe(const GemmOptions& o) {
  std::string operations;
  for (const EpilogueOp op : o.epilogue) operations += fmt::format(" {}", static_cast<int>(op));
  return fmt::format("{} to {}, batch {}, {} x {} x {}, columns {}{}, alpha {}, beta {}, epilogue{}, seed {}",
                     to_string(o.input), to_string(o.output), o.batch, o.m, o.n, o.k, o.column_a, o.column_b, o.alpha,
                     o.beta, operations, o.seed);
}

RandomGemm::RandomGemm(const GemmOptions& options) : options_(options) {
  const GemmOptions& o = options_;
  const auto matrix = [&](bool column, std::int64_t rows, std::int64_t columns) {
    const std::int64_t leading = (column ? rows : columns) + 3;
    TensorStrides s;
    s.batch = (column ? columns : rows) * leading;
    s.row = column ? 1 : leading;
    s.column = column ? leading : 1;
    return s;
  };
  const auto elements = [&](const TensorStrides& s) { return o.batch * s.batch; };
  tensors.batch = o.batch;
  tensors.m = o.m;
  tensors.n = o.n;
  tensors.k = o.k;
  tensors.alpha = o.alpha;
  tensors.beta = o.beta;
  // Results of about 1: functions and 8-bit outputs are at home there.
  const float scale = 1 / std::sqrt(static_cast<float>(o.k));
  const TensorStrides a = matrix(o.column_a, o.m, o.k), b = matrix(o.column_b, o.k, o.n), c = matrix(false, o.m, o.n);
  tensors.a = make(o.input, a, elements(a), 1, whole(o.input) ? 60 : 1);
  tensors.b = make(o.input, b, elements(b), 2, whole(o.input) ? 60 : scale);
  const ElementType side = o.output == ElementType::int32 ? ElementType::int32
                           : whole(o.output)              ? ElementType::fp32
                                                          : o.output;
  tensors.c = make(side, c, elements(c), 3, whole(side) ? 1000 : 1);
  std::uint64_t stream = 10;
  for (const EpilogueOp op : o.epilogue) {
    GemmStep step{.op = op, .low = -0.5F, .high = 0.75F};
    if (op == EpilogueOp::bias || op == EpilogueOp::scale_n)
      step.operand = make(ElementType::fp32, {.row = 0, .column = 1}, o.n, stream++, 1);
    else if (op == EpilogueOp::bias_m || op == EpilogueOp::scale_m)
      step.operand = make(ElementType::fp32, {.row = 1, .column = 0}, o.m, stream++, 1);
    else if (reads_tensor(op))
      step.operand = make(side, c, elements(c), stream++, 1);
    tensors.epilogue.push_back(step);
  }
}

TensorView RandomGemm::make(ElementType type, const TensorStrides& strides, std::int64_t elements, std::uint64_t stream,
                            float scale) {
  std::vector<float> values(static_cast<std::size_t>(elements));
  if (options_.small_integers)
    fill_integers(values, {options_.seed, stream}, -2, 2, 1);
  else if (whole(type))
    fill_integers(values, {options_.seed, stream}, static_cast<int>(-scale), static_cast<int>(scale), 1);
  else
    fill_normal(values, {options_.seed, stream}, scale, 1);
  memory_.emplace_back(values.size() * size_of(type));
  store_elements(type, values, memory_.back().data());
  return {memory_.back().data(), type, strides};
}

EmulatedGemm emulate_gemm(const GemmTensors& t, ElementType output, GemmFault fault, std::int64_t block,
                          std::int64_t splits) {
  const bool integers = !is_floating(t.a.type), wraps = output == ElementType::int32;
  const std::int64_t depth = fault == GemmFault::last_step_dropped ? std::max<std::int64_t>(0, t.k - 8) : t.k;
  const std::int64_t piece = ((depth + splits - 1) / std::max<std::int64_t>(1, splits) + block - 1) / block * block;
  const auto product = [&](std::int64_t b, std::int64_t i, std::int64_t j) {
    double whole_sum = 0;
    float sum = 0, first_piece = 0;
    for (std::int64_t split = 0; split < splits; ++split) {
      float of_piece = 0;
      for (std::int64_t p0 = split * piece; p0 < std::min(depth, (split + 1) * piece); p0 += block) {
        float of_block = 0;
        for (std::int64_t p = p0; p < std::min({depth, (split + 1) * piece, p0 + block}); ++p) {
          const double x = element(t.a, b, i, p), y = element(t.b, b, p, j);
          of_block = std::fma(as_float(x), as_float(y), of_block);
          whole_sum += x * y;
        }
        of_piece += of_block * (fault == GemmFault::block_twice && p0 == 0 ? 2.0F : 1.0F);
        if (fault == GemmFault::low_precision_sum)
          of_piece = as_float(round_to(t.a.type, static_cast<double>(of_piece)));
        if (fault == GemmFault::block_twice && p0 == 0) whole_sum *= 2;
      }
      if (split == 0) first_piece = of_piece;
      sum += fault == GemmFault::stale_split && split == 1 ? first_piece : of_piece;
    }
    return integers ? whole_sum : static_cast<double>(sum);
  };
  const auto linear = [&](std::int64_t b, std::int64_t i, std::int64_t j) {
    const double c = t.beta != 0 ? element(t.c, b, i, j) : 0;
    if (wraps) return static_cast<double>(t.beta) * c + product(b, i, j);
    float x = t.alpha * as_float(t.alpha != 0 ? product(b, i, j) : 0);
    if (t.beta != 0) x += t.beta * as_float(c);
    if (fault == GemmFault::rounded_twice) x = as_float(round_to(t.a.type, static_cast<double>(x)));
    return static_cast<double>(x);
  };
  EmulatedGemm out;
  const bool gated = t.gated();
  for (std::int64_t b = 0; b < t.batch; ++b)
    for (std::int64_t i = 0; i < t.m; ++i)
      for (std::int64_t j = 0; j < t.columns_of_d(); ++j) {
        float v = 0, second = 0;
        double exact = linear(b, i, gated ? 2 * j : j);
        v = as_float(exact);
        if (gated) second = as_float(linear(b, i, 2 * j + 1));
        bool pair = gated;
        const auto step = [&](const GemmStep& s, float x, std::int64_t column) {
          const float y = s.operand.data != nullptr ? as_float(element(s.operand, b, i, column)) : 0;
          if (s.op == EpilogueOp::scale_n || s.op == EpilogueOp::scale_m || s.op == EpilogueOp::multiply) return x * y;
          if (reads_vector(s.op) || reads_tensor(s.op)) return x + y;
          if (s.op == EpilogueOp::clamp) return std::min(std::max(x, s.low), s.high);
          return as_float(activated(s.op, static_cast<double>(x)));
        };
        for (const GemmStep& s : t.epilogue) {
          if (fault == GemmFault::epilogue_skipped_row && i == t.m / 2 && !is_gate(s.op)) continue;
          if (is_gate(s.op)) {
            v = as_float(activated(s.op, static_cast<double>(v))) * second;
            pair = false;
          } else if (s.op == EpilogueOp::amax) {
            out.amax = std::max(out.amax, std::abs(v));
          } else {
            v = step(s, v, pair ? 2 * j : j);
            if (pair) second = step(s, second, 2 * j + 1);
          }
        }
        out.d.push_back(wraps ? static_cast<double>(static_cast<std::int32_t>(static_cast<std::int64_t>(exact)))
                              : round_to(output, static_cast<double>(v)));
      }
  return out;
}

}  // namespace tilesmith::testing
