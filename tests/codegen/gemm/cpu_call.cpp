#include "codegen/gemm/cpu_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/random.hpp"

namespace tilesmith {
namespace {

double activated(GemmActivation activation, double x) {
  switch (activation) {
    case GemmActivation::relu:
      return std::isnan(x) ? x : std::max(x, 0.0);
    case GemmActivation::gelu:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case GemmActivation::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
    case GemmActivation::silu:
      return x / (1 + std::exp(-x));
    case GemmActivation::sigmoid:
      return 1 / (1 + std::exp(-x));
    case GemmActivation::tanh:
      return std::tanh(x);
    case GemmActivation::none:
      break;
  }
  return x;
}

constexpr double kSlope = 1.2;             // no activation is steeper
constexpr double kActivationError = 6e-7;  // of the functions, relative to max(1, |x|)
constexpr double kRoundoff = 0x1p-24;      // of fp32

struct Estimate {
  double value = 0, error = 0;
};

}  // namespace

double CpuGemmCall::Tensor::at(long long b, long long row, long long column) const {
  return load_element(type, bytes->data(), static_cast<std::size_t>(b * batch + row * leading + column));
}

CpuGemmCall::Tensor CpuGemmCall::make(ElementType type, long long members, long long rows, long long columns,
                                      bool fill) {
  Tensor t;
  t.rows = rows;
  t.columns = columns;
  t.leading = sizes_.whole_lines ? (columns + 64) / 64 * 64 : columns + 3;
  t.batch = rows * t.leading + (sizes_.whole_lines ? 64 : 5);
  t.type = type;
  const bool empty = members == 0 || rows == 0 || columns == 0;
  const long long elements = empty ? 0 : (members - 1) * t.batch + (rows - 1) * t.leading + columns;
  t.bytes =
      std::make_unique<GuardedBytes>(static_cast<std::size_t>(elements) * size_of(type), sizes_.whole_lines ? 64 : 1);
  const RandomStream random{seed_, stream_++};
  if (!fill) return t;
  std::uint64_t draw = 0;
  for (long long b = 0; b < members; ++b) {
    for (long long i = 0; i < rows; ++i) {
      for (long long j = 0; j < columns; ++j, ++draw) {
        double x = 0;
        if (sizes_.small_integers) {
          x = static_cast<double>(random.below(draw, 7)) - 3;
        } else if (type == ElementType::int8 || type == ElementType::int32) {
          x = static_cast<double>(random.below(draw, 256)) - 128;
        } else {
          x = sizes_.size * (2 * random.uniform(draw) - 1);
        }
        store_element(type, t.bytes->data(), static_cast<std::size_t>(b * t.batch + i * t.leading + j), x);
      }
    }
  }
  return t;
}

TsMatrix CpuGemmCall::matrix(const Tensor& tensor) {
  return {tensor.bytes->data(), tensor.leading, tensor.batch};
}

CpuGemmCall::CpuGemmCall(const CpuGemmParameters& parameters, const GemmSizes& sizes, std::uint64_t seed)
    : parameters_(parameters), sizes_(sizes), seed_(seed) {
  const CpuGemmParameters& p = parameters_;
  const GemmSizes& s = sizes_;
  const long long out_columns = p.gated ? s.n / 2 : s.n;
  const bool row_a = p.order_a == MatrixOrder::row, row_b = p.order_b == MatrixOrder::row;
  const bool reads = s.alpha != 0;
  a_ = make(p.element, s.batch, row_a ? s.m : s.k, row_a ? s.k : s.m, reads);
  b_ = make(p.element, s.share_b ? std::min(s.batch, 1LL) : s.batch, row_b ? s.k : s.n, row_b ? s.n : s.k, reads);
  if (s.share_b) b_.batch = 0;
  if (p.mm_plus_mm) {
    a2_ = make(p.element, s.batch, row_a ? s.m : s.k2, row_a ? s.k2 : s.m, reads);
    b2_ = make(p.element, s.batch, row_b ? s.k2 : s.n, row_b ? s.n : s.k2, reads);
    args_.a2 = matrix(a2_);
    args_.b2 = matrix(b2_);
    args_.k2 = s.k2;
  }
  d_ = make(p.output, s.batch, s.m, out_columns, false);
  args_.a = matrix(a_);
  args_.b = matrix(b_);
  if (s.beta != 0) {
    c_ = make(p.aux, s.batch, s.m, s.n, true);
    args_.c = matrix(c_);
  }
  for (int e = 0; e < p.extras; ++e) {
    extras_.push_back(make(p.aux, s.batch, s.m, out_columns, true));
    args_.extra[e] = matrix(extras_.back());
  }
  if (p.bias != GemmBias::none) {
    bias_ = make(p.bias_type, 1, 1, p.bias == GemmBias::along_n ? s.n : s.m, true);
    args_.bias = bias_.bytes->data();
  }
  if (p.row_scale) {
    row_scale_ = make(ElementType::fp32, 1, 1, s.m, true);
    args_.row_scale = reinterpret_cast<const float*>(row_scale_.bytes->data());
  }
  if (p.column_scale) {
    column_scale_ = make(ElementType::fp32, 1, 1, s.n, true);
    args_.column_scale = reinterpret_cast<const float*>(column_scale_.bytes->data());
  }
  args_.d = d_.bytes->data();
  args_.d_leading = d_.leading;
  args_.d_batch = d_.batch;
  args_.amax = amax_.get();
  args_.m = s.m;
  args_.n = s.n;
  args_.k = s.k;
  args_.batch = s.batch;
  args_.splits = s.splits;
  args_.threads = s.threads;
  args_.alpha = s.alpha;
  args_.beta = s.beta;
  args_.low = -0.75F;
  args_.high = 0.5F;
}

TsGemmArgs CpuGemmCall::args_of_packed(const void* packed) const {
  TsGemmArgs args = args_;
  args.b.data = packed;
  return args;
}

double CpuGemmCall::value_a(long long b, long long i, long long k) const {
  const Tensor& a = k < sizes_.k ? a_ : a2_;
  if (k >= sizes_.k) k -= sizes_.k;
  return parameters_.order_a == MatrixOrder::row ? a.at(b, i, k) : a.at(b, k, i);
}

double CpuGemmCall::value_b(long long b, long long k, long long j) const {
  const Tensor& right = k < sizes_.k ? b_ : b2_;
  if (k >= sizes_.k) k -= sizes_.k;
  return parameters_.order_b == MatrixOrder::row ? right.at(b, k, j) : right.at(b, j, k);
}

std::string CpuGemmCall::mismatch() const {
  const CpuGemmParameters& p = parameters_;
  const GemmSizes& s = sizes_;
  const bool integers = p.element == ElementType::int8;
  const double terms = static_cast<double>(s.k + s.k2);
  const double growth = integers ? 4 : std::min(terms, 6 * std::sqrt(terms)) + 8;
  const long long depth = s.alpha == 0 ? 0 : s.k + s.k2;
  const auto linear = [&](long long b, long long i, long long j) {
    double sum = 0, size = 0;
    for (long long k = 0; k < depth; ++k) {
      const double product = value_a(b, i, k) * value_b(b, k, j);
      sum += product;
      size += std::abs(product);
    }
    double factor = s.alpha;
    if (p.row_scale) factor *= row_scale_.at(0, 0, i);
    if (p.column_scale) factor *= column_scale_.at(0, 0, j);
    Estimate x{sum * factor, size * std::abs(factor) * growth * kRoundoff};
    const auto add = [&](double y) {
      x.value += y;
      x.error += 4 * kRoundoff * (std::abs(y) + std::abs(x.value));
    };
    if (s.beta != 0) add(static_cast<double>(s.beta) * c_.at(b, i, j));
    if (p.bias == GemmBias::along_n) add(bias_.at(0, 0, j));
    if (p.bias == GemmBias::along_m) add(bias_.at(0, 0, i));
    return x;
  };
  const auto activate = [&](Estimate x) {
    if (p.activation == GemmActivation::none) return x;
    const double y = activated(p.activation, x.value);
    return Estimate{y, kSlope * x.error + kActivationError * std::max(1.0, std::abs(x.value))};
  };
  const long long columns = p.gated ? s.n / 2 : s.n;
  std::vector<bool> written(s.batch * s.m * columns == 0 ? 0
                                                         : static_cast<std::size_t>((s.batch - 1) * d_.batch +
                                                                                    (s.m - 1) * d_.leading + columns));
  double amax = 0;
  const double tiny = is_floating(p.output) ? smallest_subnormal(p.output) : 0;
  for (long long b = 0; b < s.batch; ++b) {
    for (long long i = 0; i < s.m; ++i) {
      for (long long j = 0; j < columns; ++j) {
        Estimate y;
        if (p.gated) {
          const Estimate gate = activate(linear(b, i, 2 * j)), value = linear(b, i, 2 * j + 1);
          y.value = gate.value * value.value;
          y.error = gate.error * (std::abs(value.value) + value.error) + value.error * std::abs(gate.value) +
                    2 * kRoundoff * std::abs(y.value);
        } else {
          y = activate(linear(b, i, j));
        }
        for (const Tensor& extra : extras_) {
          const double e = extra.at(b, i, j);
          y.value = p.extras_multiply ? y.value * e : y.value + e;
          y.error =
              (p.extras_multiply ? y.error * std::abs(e) : y.error) + 2 * kRoundoff * (std::abs(y.value) + std::abs(e));
        }
        if (p.clamp) y.value = std::clamp(y.value, static_cast<double>(args_.low), static_cast<double>(args_.high));
        amax = std::max(amax, std::abs(y.value));
        const auto at = static_cast<std::size_t>(b * d_.batch + i * d_.leading + j);
        written[at] = true;
        const double actual = load_element(p.output, d_.bytes->data(), at);
        double expected = y.value, bound = y.error;
        if (p.output == ElementType::int32) {
          expected = static_cast<double>(static_cast<std::int32_t>(static_cast<std::int64_t>(expected)));
          bound = 0;
        } else if (p.output == ElementType::int8) {
          expected = std::clamp(expected, -128.0, 127.0);
          bound += 0.5;
        } else if (sizes_.small_integers && p.activation == GemmActivation::none) {
          expected = round_to(p.output, expected);
          bound = 0;
        } else {
          bound += unit_roundoff(p.output) * (std::abs(expected) + bound) + tiny;
        }
        // Beyond the type's range the right answer is an infinity.
        if (std::isinf(actual) && is_floating(p.output) &&
            std::isinf(round_to(p.output, expected + std::copysign(bound, actual))))
          continue;
        if (!(std::abs(actual - expected) <= bound))
          return fmt::format("batch {} row {} column {}: {} instead of {} (allowed error {})", b, i, j, actual,
                             expected, bound);
      }
    }
  }
  const std::size_t size = size_of(p.output);
  for (std::size_t at = 0; at < written.size(); ++at) {
    for (std::size_t byte = 0; !written[at] && byte < size; ++byte)
      if (d_.bytes->data()[at * size + byte] != std::byte{0xff})
        return fmt::format("element {} of a gap was written", at);
  }
  if (p.amax && !(std::abs(*amax_ - amax) <= 1e-5 * (1 + amax)))
    return fmt::format("amax {} instead of {}", *amax_, amax);
  return {};
}

}  // namespace tilesmith
