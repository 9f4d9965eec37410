#include "verify/conv/reference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tilesmith {
namespace {

// A relu or a limit makes zeros of half of a normally distributed result.
constexpr double kTrustedZerosOfReluInConv = 0.9;
// Beyond the type's range one value is as right as another.
constexpr double kTrustedSaturatedInConv = 0.9;

}  // namespace

Result<ConvReference> ConvReference::make(ConvTensors tensors, ElementType output_type, unsigned threads) {
  const ElementType input = tensors.direction == ConvDirection::forward ? tensors.x.type : tensors.y.type;
  TS_ASSIGN(GemmTolerance tolerance, gemm_tolerance(input, output_type));
  // Tensor cores round a sum of 8-bit floats once in so many terms, and sums of taps and channels are long.
  constexpr double kTermsOfRounding = 32;
  if (input == ElementType::fp8e4m3 && output_type == ElementType::fp32)
    tolerance.norm_wise *= std::max(1.0, static_cast<double>(tensors.depth()) / kTermsOfRounding);
  ConvReference reference(std::move(tensors), output_type, tolerance);
  TS_ASSIGN(reference.float64_, float64_conv(reference.tensors_, tolerance.accumulator_roundoff, threads));
  return reference;
}

std::vector<ReferenceTensor> ConvReference::tensors() const {
  return {{.name = "out", .type = output_type_, .values = float64_.values}};
}

double ConvReference::wanted(std::size_t at) const {
  const double want = float64_.values[at];
  return output_type_ == ElementType::int8 ? std::clamp(want, -128.0, 127.0) : want;
}

double ConvReference::limit_of(std::size_t at) const {
  const double bound = float64_.bound[at];
  if (output_type_ == ElementType::int8) return 0.5 + bound;
  return unit_roundoff(output_type_) * (std::abs(float64_.values[at]) + bound) + bound +
         smallest_subnormal(output_type_);
}

bool ConvReference::check_guards(const OutputValues& output, Verdict& verdict) const {
  std::size_t zeros = 0, wanted_zeros = 0, stray_zeros = 0, saturated = 0, with_terms = 0;
  for (std::size_t at = 0; at < output.values.size(); ++at) {
    const double want = wanted(at), got = output.values[at];
    if (!std::isfinite(want) || !std::isfinite(round_to(output_type_, want))) {
      mistrusts(verdict, fmt::format("the reference{} is {}: the inputs hold values that are not finite, or too large "
                                     "for the result",
                                     position(output.name, at), want));
      return false;
    }
    if (!std::isfinite(got))
      return fails(verdict, Check::guards,
                   fmt::format("{}{} is {:.9g}, it should be {:.9g}{}", output.name, position(output.name, at), got,
                               want, std::isnan(got) ? "; an element that was never written is NaN" : ""));
    if (float64_.magnitude[at] == 0) {
      if (std::abs(got - want) > limit_of(at))
        return fails(
            verdict, Check::guards,
            fmt::format("{}{} is {:.9g}, all its terms are zero", output.name, position(output.name, at), got));
      continue;
    }
    ++with_terms;
    zeros += got == 0;
    wanted_zeros += output_type_ == ElementType::int8 ? std::abs(want) < 0.5 : want == 0;
    saturated += want != float64_.values[at];
    stray_zeros += got == 0 && std::abs(want) > limit_of(at);
  }
  const auto all = static_cast<double>(with_terms);
  if (with_terms > 0 && zeros == with_terms && stray_zeros > 0)
    return fails(verdict, Check::guards, fmt::format("all {} elements of {} are zero", with_terms, output.name));
  if (stray_zeros > 1 && static_cast<double>(stray_zeros) > kStrayZeros * all)
    return fails(verdict, Check::guards,
                 fmt::format("{} of {} elements are zero where the reference is not", stray_zeros, with_terms));
  const bool cuts = std::ranges::any_of(tensors_.epilogue, [](const ConvStep& step) {
    return step.op == EpilogueOp::relu || step.op == EpilogueOp::clamp;
  });
  if (static_cast<double>(wanted_zeros) > (cuts ? kTrustedZerosOfReluInConv : kTrustedZeros) * all)
    mistrusts(verdict, fmt::format("{} of {} elements of the reference are zero", wanted_zeros, with_terms));
  if (static_cast<double>(saturated) > kTrustedSaturatedInConv * all)
    mistrusts(verdict,
              fmt::format("{} of {} elements are beyond the range of the result's type", saturated, with_terms));
  return true;
}

bool ConvReference::check_bounds(const OutputValues& output, Verdict& verdict) const {
  double worst_share = 1, errors = 0, norms = 0;
  const double depth = std::sqrt(static_cast<double>(std::max<std::int64_t>(1, tensors_.depth())));
  for (std::size_t at = 0; at < output.values.size(); ++at) {
    const double x = output.values[at], y = wanted(at), error = std::abs(x - y), limit = limit_of(at);
    const double spread = static_cast<double>(float64_.magnitude[at]) / depth;
    const double beyond = std::max(0.0, error - smallest_subnormal(output_type_));
    errors += beyond * beyond;
    norms += x * x + y * y + 2 * spread * spread;  // the terms' size stands in where they cancel
    if (!(error > worst_share * limit)) continue;
    worst_share = limit > 0 ? error / limit : std::numeric_limits<double>::infinity();
    fails(verdict, Check::bound,
          fmt::format("{}{} is {:.9g}, the reference {:.9g}: off by {:.3g}, at most {:.3g}", output.name,
                      position(output.name, at), x, y, error, limit));
  }
  if (verdict.outcome == Outcome::fail) return false;
  // Of whole numbers the bound of each says all.
  if (output_type_ == ElementType::int8 || !(errors > tolerance_.norm_wise * norms)) return true;
  return fails(verdict, Check::norm_wise,
               fmt::format("{} is off by {:.3g} of its squared norm, at most {:.3g}", output.name, errors / norms,
                           tolerance_.norm_wise));
}

std::string ConvReference::position(std::string_view, std::size_t element) const {
  const bool filters = tensors_.direction == ConvDirection::backward_weight;
  const bool forward = tensors_.direction == ConvDirection::forward;
  const Coordinates& size = filters ? tensors_.filter : forward ? tensors_.out : tensors_.in;
  const std::int64_t channels = filters   ? tensors_.c
                                : forward ? tensors_.groups * tensors_.k
                                          : tensors_.groups * tensors_.c;
  auto rest = static_cast<std::int64_t>(element);
  const std::int64_t channel = rest % channels;
  rest /= channels;
  const std::int64_t w = rest % size[2], h = rest / size[2] % size[1], d = rest / (size[2] * size[1]) % size[0];
  return fmt::format("[{} {}, {} {},{},{}, channel {}]", filters ? "filter" : "image",
                     rest / (size[0] * size[1] * size[2]), filters ? "tap" : "pixel", d, h, w, channel);
}

}  // namespace tilesmith
