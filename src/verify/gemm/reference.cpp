#include "verify/gemm/reference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "verify/gemm/naive.hpp"

namespace tilesmith {
namespace {

// A relu or a limit makes zeros of half of a normally distributed result, and a gate is as good as shut for as many.
constexpr double kTrustedZerosOfRelu = 0.9;

bool makes_zeros(const GemmTensors& tensors) {
  return std::ranges::any_of(tensors.epilogue, [](const GemmStep& step) {
    return step.op == EpilogueOp::relu || step.op == EpilogueOp::reglu || step.op == EpilogueOp::clamp;
  });
}

}  // namespace

Result<GemmReference> GemmReference::make(const GemmTensors& tensors, ElementType output_type, unsigned threads) {
  TS_ASSIGN(const GemmTolerance tolerance, gemm_tolerance(tensors.a.type, output_type));
  GemmReference expectation(tensors, output_type, tolerance);
  const GemmArithmetic arithmetic{.accumulator_roundoff = tolerance.accumulator_roundoff,
                                  .wraps = output_type == ElementType::int32};
  TS_ASSIGN(expectation.reference_, float64_gemm(tensors, arithmetic, threads));
  if (tolerance.relative_max > 0) {
    TS_ASSIGN(expectation.naive_, naive_gemm(tensors, output_type, threads));
  }
  return expectation;
}

Verdict GemmReference::judge(std::span<const double> output, std::optional<float> amax) const {
  Verdict verdict;
  verdict.output = measure_errors(output, reference_.d);
  if (!naive_.empty()) {
    const ErrorFigures naive = measure_errors(naive_, reference_.d);
    if (naive.max_abs > 0) verdict.output.max_ratio = verdict.output.max_abs / naive.max_abs;
    if (naive.mean_abs > 0) verdict.output.mean_ratio = verdict.output.mean_abs / naive.mean_abs;
  }
  const bool good = check_guards(output, verdict) && check_bound(output, verdict) && check_relative(output, verdict) &&
                    check_norm_wise(output, verdict) && (!amax || check_amax(*amax, verdict));
  (void)good;  // the first check that fails has filled the verdict
  return verdict;
}

Verdict GemmReference::judge_exact(std::span<const double> output) const {
  Verdict verdict;
  verdict.output = measure_errors(output, reference_.d);
  if (!check_guards(output, verdict) && verdict.outcome == Outcome::fail) return verdict;
  for (std::size_t at = 0; at < output.size(); ++at) {
    const double want = round_to(output_type_, reference_.d[at]);
    if (output[at] == want) continue;
    fails(verdict, Check::exact,
          fmt::format("output{} is {}, exactly {} is asked for", position(at), output[at], want));
    break;
  }
  return verdict;
}

double GemmReference::wanted(std::size_t at) const {
  const double want = reference_.d[at];
  return output_type_ == ElementType::int8 ? std::clamp(want, -128.0, 127.0) : want;
}

double GemmReference::limit_of(std::size_t at) const {
  const double bound = reference_.bound[at];
  if (output_type_ == ElementType::int32) return bound;
  if (output_type_ == ElementType::int8) return 0.5 + bound;
  return unit_roundoff(output_type_) * (std::abs(reference_.d[at]) + bound) + bound + smallest_subnormal(output_type_);
}

bool GemmReference::check_guards(std::span<const double> output, Verdict& verdict) const {
  if (output.size() != reference_.d.size())
    return fails(verdict, Check::guards,
                 fmt::format("the output has {} elements, the problem {}", output.size(), reference_.d.size()));
  std::size_t zeros = 0, wanted_zeros = 0, stray_zeros = 0, computed = 0;
  for (std::size_t at = 0; at < output.size(); ++at) {
    const double want = reference_.d[at];
    if (!std::isfinite(want) || !std::isfinite(round_to(output_type_, want))) {
      mistrusts(verdict, fmt::format("the reference{} is {}: the inputs hold values that are not finite, or too large "
                                     "for the result",
                                     position(at), want));
      return false;
    }
    if (!std::isfinite(output[at]))
      return fails(verdict, Check::guards,
                   fmt::format("output{} is {}, {} is asked for{}", position(at), output[at], want,
                               std::isnan(output[at]) ? "; an element that was never written is NaN too" : ""));
    if (reference_.magnitude[at] == 0) {
      if (output[at] != 0)
        return fails(verdict, Check::guards,
                     fmt::format("output{} is {}, all its terms are zero", position(at), output[at]));
      continue;
    }
    ++computed;
    zeros += output[at] == 0;
    wanted_zeros += want == 0;
    stray_zeros += output[at] == 0 && std::abs(want) > limit_of(at);
  }
  const auto all = static_cast<double>(computed);
  if (computed > 0 && zeros == computed && stray_zeros > 0)
    return fails(verdict, Check::guards, fmt::format("all {} elements of the output are zero", computed));
  if (stray_zeros > 1 && static_cast<double>(stray_zeros) > kStrayZeros * all)
    return fails(verdict, Check::guards,
                 fmt::format("{} of {} elements are zero where the reference is not", stray_zeros, computed));
  if (static_cast<double>(wanted_zeros) > (makes_zeros(tensors_) ? kTrustedZerosOfRelu : kTrustedZeros) * all) {
    mistrusts(verdict, fmt::format("{} of {} elements of the reference are zero", wanted_zeros, computed));
  }
  return true;
}

bool GemmReference::check_bound(std::span<const double> output, Verdict& verdict) const {
  double worst_share = 1;
  for (std::size_t at = 0; at < output.size(); ++at) {
    const double error = std::abs(output[at] - wanted(at)), limit = limit_of(at);
    if (!(error > worst_share * limit)) continue;
    worst_share = limit > 0 ? error / limit : std::numeric_limits<double>::infinity();
    fails(verdict, Check::bound,
          fmt::format("output{} is {}, the reference {:.9g}: off by {:.3g}, at most {:.3g}", position(at), output[at],
                      reference_.d[at], error, limit));
  }
  return verdict.outcome != Outcome::fail;
}

bool GemmReference::check_relative(std::span<const double> output, Verdict& verdict) const {
  if (naive_.empty()) return true;
  const double u = unit_roundoff(output_type_);
  const std::int64_t width = tensors_.columns_of_d();
  for (const auto& [b, i0] : row_blocks_of(tensors_, kGroupRows)) {
    const GemmRows own = tensors_.rows_of(b);
    const std::int64_t rows = std::min(kGroupRows, own.count - i0);
    const auto start = static_cast<std::size_t>((own.before + i0) * width);
    const auto count = static_cast<std::size_t>(rows * width);
    const std::span want = std::span(reference_.d).subspan(start, count);
    const ErrorFigures mine = measure_errors(output.subspan(start, count), want);
    const ErrorFigures naive = measure_errors(std::span(naive_).subspan(start, count), want);
    double value = 0, bound = 0;
    for (std::size_t at = start; at < start + count; ++at) {
      value = std::max(value, std::abs(reference_.d[at]));
      bound = std::max(bound, reference_.bound[at]);
    }
    // The naive result may be exact by luck, so what every computation may lose is added to its error.
    const double lost = u * value + 2 * bound + smallest_subnormal(output_type_);
    const double limit = tolerance_.relative_max * naive.max_abs + lost;
    if (mine.max_abs <= limit) continue;
    return fails(verdict, Check::relative,
                 fmt::format("output{} is {}, the reference {:.9g}: off by {:.3g}, at most {:.3g} = {} x the naive "
                             "error {:.3g} of rows {} to {} + {:.3g}",
                             position(start + mine.worst), mine.worst_got, mine.worst_want, mine.max_abs, limit,
                             tolerance_.relative_max, naive.max_abs, i0, i0 + rows - 1, lost));
  }
  const ErrorFigures mine = measure_errors(output, reference_.d);
  const ErrorFigures naive = measure_errors(naive_, reference_.d);
  if (mine.count == 0) return true;
  double values = 0, bounds = 0;
  for (std::size_t at = 0; at < mine.count; ++at) {
    values += std::abs(reference_.d[at]);
    bounds += reference_.bound[at];
  }
  const auto count = static_cast<double>(mine.count);
  const double lost = (u * values / 4 + bounds) / count + smallest_subnormal(output_type_);
  const double limit = tolerance_.relative_mean * naive.mean_abs + lost;
  if (mine.mean_abs <= limit) return true;
  return fails(verdict, Check::relative,
               fmt::format("the mean error is {:.3g}, at most {:.3g} = {} x the naive one {:.3g} + {:.3g}",
                           mine.mean_abs, limit, tolerance_.relative_mean, naive.mean_abs, lost));
}

bool GemmReference::check_norm_wise(std::span<const double> output, Verdict& verdict) const {
  if (tolerance_.norm_wise == 0) return true;
  const std::int64_t width = tensors_.columns_of_d();
  const double depth = std::sqrt(static_cast<double>(std::max<std::int64_t>(1, tensors_.depth())));
  double all_errors = 0, all_norms = 0;
  for (std::int64_t b = 0; b <= tensors_.batch; ++b) {
    double errors = 0, norms = 0;
    if (b < tensors_.batch) {
      const GemmRows own = tensors_.rows_of(b);
      const auto end = static_cast<std::size_t>((own.before + own.count) * width);
      for (auto at = static_cast<std::size_t>(own.before * width); at < end; ++at) {
        const double x = output[at], y = reference_.d[at];
        const double spread = static_cast<double>(reference_.magnitude[at]) / depth;
        const double beyond = std::max(0.0, std::abs(x - y) - smallest_subnormal(output_type_));
        errors += beyond * beyond;
        norms += x * x + y * y + 2 * spread * spread;  // the terms' size stands in where they cancel
      }
      all_errors += errors;
      all_norms += norms;
    } else {
      errors = all_errors;
      norms = all_norms;
    }
    if (!(errors > tolerance_.norm_wise * norms)) continue;
    return fails(verdict, Check::norm_wise,
                 fmt::format("{} is off by {:.3g} of its squared norm, at most {:.3g}",
                             b < tensors_.batch ? fmt::format("batch {}", b) : "the output", errors / norms,
                             tolerance_.norm_wise));
  }
  return true;
}

bool GemmReference::check_amax(float amax, Verdict& verdict) const {
  const double got = static_cast<double>(amax);
  const double limit = reference_.amax_bound + kFp32Roundoff * reference_.amax;
  if (std::abs(got - reference_.amax) <= limit) return true;
  return fails(verdict, Check::amax,
               fmt::format("amax is {}, the reference {:.9g}: off by {:.3g}, at most {:.3g}", got, reference_.amax,
                           std::abs(got - reference_.amax), limit));
}

std::string GemmReference::position(std::size_t at) const {
  const auto index = static_cast<std::int64_t>(at);
  const std::int64_t width = std::max<std::int64_t>(1, tensors_.columns_of_d());
  std::int64_t b = 0;
  while (b + 1 < tensors_.batch && tensors_.rows_of(b + 1).before <= index / width) ++b;
  const GemmRows rows = tensors_.rows_of(b);
  return fmt::format("[batch {}, row {}, column {}]", b, rows.first + index / width - rows.before, index % width);
}

std::vector<double> read_output(const GemmTensors& tensors, const TensorView& output) {
  std::vector<double> dense;
  dense.reserve(static_cast<std::size_t>(tensors.elements_of_d()));
  for (std::int64_t b = 0; b < tensors.batch; ++b) {
    const GemmRows rows = tensors.rows_of(b);
    for (std::int64_t i = rows.first; i < rows.first + rows.count; ++i)
      for (std::int64_t j = 0; j < tensors.columns_of_d(); ++j) dense.push_back(element(output, b, i, j));
  }
  return dense;
}

int exact_magnitude(std::int64_t k) {
  for (int r = 3; r > 0; --r)
    if (k * r * r <= (std::int64_t{1} << 24)) return r;
  return 0;
}

}  // namespace tilesmith
