#include "verify/attention_backward/reference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tilesmith {
namespace {

// As for attention forward (tolerance.cpp): ten standard deviations of the weights' roundings.
constexpr double kWeightDeviations = 4;

/// What every term may be off by beside the rounding of its weight: logits, sums and delta in fp32, and the polynomial
/// of the exponential, whose degree depends on the type (kernels/cpu/common/math.h).
double term_roundoff(ElementType type) {
  return type == ElementType::fp32 ? 0x1p-21 : type == ElementType::fp16 ? 0x1p-19 : 0x1p-14;
}

// A GPU may take a subnormal fp32 number for zero (ex2.approx.ftz, and products under -ftz=true): a weight loses less
// than 2^-126, which the factors beside it and the number of terms raise; all of them together are taken for 2^14.
constexpr double kFlushed = 0x1p-112;

/// What an element may be off by however small it is.
double smallest_step(ElementType type) {
  return smallest_subnormal(type) + kFlushed;
}

}  // namespace

Result<AttentionBackwardReference> AttentionBackwardReference::make(const AttentionBackwardTensors& tensors,
                                                                    unsigned threads) {
  TS_ASSIGN(const AttentionTolerance tolerance, attention_tolerance(tensors.forward.q.type, tensors.forward.tf32));
  AttentionBackwardReference reference(tensors, tolerance);
  TS_ASSIGN(reference.float64_, float64_attention_backward(tensors, threads));
  return reference;
}

const Gradient64& AttentionBackwardReference::gradient(std::string_view output) const {
  if (output == "dq") return float64_.dq;
  if (output == "dk") return float64_.dk;
  if (output == "dv") return float64_.dv;
  if (output == "dbias") return float64_.dbias;
  return output == "dalibi" ? float64_.dalibi : float64_.dsink;
}

ElementType AttentionBackwardReference::type_of(std::string_view output) const {
  return output == "dq" || output == "dk" || output == "dv" ? type_ : ElementType::fp32;
}

std::size_t AttentionBackwardReference::columns_of(std::string_view output) const {
  if (output == "dbias") return static_cast<std::size_t>(std::max<std::int64_t>(1, tensors_.dbias_extents().column));
  if (output == "dalibi" || output == "dsink") return 1;
  return static_cast<std::size_t>(output == "dv" ? tensors_.forward.head_dim_v : tensors_.forward.head_dim_qk);
}

std::vector<ReferenceTensor> AttentionBackwardReference::tensors() const {
  std::vector<ReferenceTensor> out;
  for (const std::string_view name : {"dq", "dk", "dv"})
    out.push_back({.name = name, .type = type_of(name), .values = gradient(name).values});
  for (const auto& [wanted, name] : {std::pair{tensors_.dbias, std::string_view("dbias")},
                                     {tensors_.dalibi, std::string_view("dalibi")},
                                     {tensors_.dsink, std::string_view("dsink")}})
    if (wanted) out.push_back({.name = name, .type = type_of(name), .values = gradient(name).values});
  return out;
}

std::string AttentionBackwardReference::position(std::string_view output, std::size_t element) const {
  const std::size_t columns = columns_of(output);
  return fmt::format("[row {}, column {}]", element / columns, element % columns);
}

bool AttentionBackwardReference::check_guards(const OutputValues& output, Verdict& verdict) const {
  const Gradient64& want = gradient(output.name);
  bool any = false, any_wanted = false;
  for (std::size_t at = 0; at < output.values.size(); ++at) {
    if (!std::isfinite(want.values[at])) {
      mistrusts(verdict, fmt::format("the reference {}{} is {}: the inputs hold values that are not finite",
                                     output.name, position(output.name, at), want.values[at]));
      return false;
    }
    const double got = output.values[at];
    if (!std::isfinite(got))
      return fails(verdict, Check::guards,
                   fmt::format("{}{} is {:.9g}, it should be {:.9g}{}", output.name, position(output.name, at), got,
                               want.values[at], std::isnan(got) ? "; an element that was never written is NaN" : ""));
    if (want.total[at] == 0 && got != 0)
      return fails(verdict, Check::guards,
                   fmt::format("{}{} is {:.9g}, all its terms are zero", output.name, position(output.name, at), got));
    any = any || got != 0;
    any_wanted = any_wanted || std::abs(want.values[at]) > 4 * smallest_step(type_of(output.name));
  }
  if (any_wanted && !any && output.values.size() > 1)
    return fails(verdict, Check::guards,
                 fmt::format("all {} elements of {} are zero", output.values.size(), output.name));
  return true;
}

bool AttentionBackwardReference::check_bounds(const OutputValues& output, Verdict& verdict) const {
  const Gradient64& want = gradient(output.name);
  const ElementType type = type_of(output.name);
  double worst_share = 1;
  for (std::size_t at = 0; at < output.values.size(); ++at) {
    const double limit = 2 * unit_roundoff(type) * std::abs(want.values[at]) + smallest_step(type) +
                         kWeightDeviations * tolerance_.weight_roundoff * static_cast<double>(want.spread[at]) +
                         term_roundoff(type_) * static_cast<double>(want.total[at]);
    const double error = std::abs(output.values[at] - want.values[at]);
    if (!(error > worst_share * limit)) continue;
    worst_share = error / limit;
    fails(verdict, Check::bound,
          fmt::format("{}{} is {:.9g}, the reference {:.9g}: off by {:.3g}, at most {:.3g}", output.name,
                      position(output.name, at), output.values[at], want.values[at], error, limit));
  }
  return verdict.outcome != Outcome::fail && check_norm_wise(output, verdict);
}

bool AttentionBackwardReference::check_norm_wise(const OutputValues& output, Verdict& verdict) const {
  const Gradient64& want = gradient(output.name);
  const std::size_t columns = columns_of(output.name);
  if (output.values.size() <= columns) return true;  // single numbers have their bounds
  double errors = 0, norms = 0;
  for (std::size_t at = 0; at < output.values.size(); ++at) {
    const double x = output.values[at], y = want.values[at];
    const auto spread = static_cast<double>(want.spread[at]);
    const double beyond = std::max(0.0, std::abs(x - y) - smallest_step(type_of(output.name)));
    errors += beyond * beyond;
    norms += x * x + y * y + 2 * spread * spread;  // the spread stands in where terms cancel
  }
  const auto rows = static_cast<double>(output.values.size() / columns);
  const double limit = tolerance_.norm_wise * (1 + 6 / std::sqrt(rows));
  if (!(errors > limit * norms)) return true;
  return fails(
      verdict, Check::norm_wise,
      fmt::format("{} is off by {:.3g} of its squared norm, at most {:.3g}", output.name, errors / norms, limit));
}

}  // namespace tilesmith
