#include "verify/gemm/reference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/parallel.hpp"
#include "base/random.hpp"
#include "verify/chunks.hpp"
#include "verify/gemm/naive.hpp"

namespace tilesmith {
namespace {

// A relu or a limit makes zeros of half of a normally distributed result, and a gate is as good as shut for as many.
constexpr double kTrustedZerosOfRelu = 0.9;
// Beyond the type's range one value is as right as another: int8 sums without a scale are nearly all so.
constexpr double kTrustedSaturated = 0.9;
constexpr std::size_t kFewElements = std::size_t{1} << 15;  // are judged on one thread

constexpr std::int64_t kSampled = 16;  // one row in so many

/// A random one of every 16, and the first and the last.
std::vector<std::int64_t> random_rows(std::int64_t m) {
  constexpr RandomStream kRows{.seed = 16};
  std::vector<std::int64_t> rows{0};
  for (std::int64_t first = 0; first < m; first += kSampled) {
    const auto count = static_cast<std::uint64_t>(std::min(kSampled, m - first));
    const std::int64_t row = first + static_cast<std::int64_t>(kRows.below(static_cast<std::uint64_t>(first), count));
    if (row != rows.back()) rows.push_back(row);
  }
  if (rows.back() != m - 1) rows.push_back(m - 1);
  return rows;
}

bool makes_zeros(const GemmTensors& tensors) {
  return std::ranges::any_of(tensors.epilogue, [](const GemmStep& step) {
    return step.op == EpilogueOp::relu || step.op == EpilogueOp::reglu || step.op == EpilogueOp::clamp;
  });
}

}  // namespace

Result<GemmReference> GemmReference::make(const GemmTensors& tensors, ElementType output_type, unsigned threads) {
  TS_ASSIGN(const GemmTolerance tolerance, gemm_tolerance(tensors.a.type, output_type));
  GemmReference reference(tensors, output_type, tolerance);
  const GemmArithmetic arithmetic{.accumulator_roundoff = tolerance.accumulator_roundoff,
                                  .wraps = output_type == ElementType::int32};
  TS_ASSIGN(reference.float64_, float64_gemm(tensors, arithmetic, threads));
  if (tolerance.relative_max > 0) {
    TS_ASSIGN(reference.naive_, naive_gemm(tensors, output_type, threads));
    reference.naive_errors_ = measure_errors(reference.naive_, reference.float64_.d);
  }
  return reference;
}

Result<GemmReference> GemmReference::make_sampled(const GemmTensors& tensors, ElementType output_type,
                                                  unsigned threads) {
  if (tensors.elements_of_d() == 0 || !GemmRowSums::apply_to(tensors, output_type))
    return make(tensors, output_type, threads);
  GemmTensors some = tensors;
  some.sample = random_rows(tensors.m);
  TS_ASSIGN(GemmReference reference, make(some, output_type, threads));
  reference.row_sums_.emplace(tensors, output_type, reference.tolerance_.accumulator_roundoff, threads);
  return reference;
}

Verdict GemmReference::judge(std::span<const OutputValues> outputs) const {
  if (!row_sums_) return Reference::judge(outputs);
  std::vector<OutputValues> narrowed(outputs.begin(), outputs.end());
  const auto d = std::ranges::find(narrowed, "d", &OutputValues::name);
  const std::int64_t width = tensors_.columns_of_d();
  if (d == narrowed.end() || static_cast<std::int64_t>(d->values.size()) != tensors_.batch * tensors_.m * width)
    return Reference::judge(outputs);
  const Values all = d->values;
  std::vector<double> rows;
  rows.reserve(float64_.d.size());
  for (std::int64_t b = 0; b < tensors_.batch; ++b)
    for (const std::int64_t row : tensors_.sample) {
      const Values own =
          all.subspan(static_cast<std::size_t>((b * tensors_.m + row) * width), static_cast<std::size_t>(width));
      rows.insert(rows.end(), own.begin(), own.end());
    }
  d->values = rows;
  Verdict verdict = Reference::judge(narrowed);
  if (verdict.outcome == Outcome::fail) return verdict;
  if (const std::optional<std::string> refusal = row_sums_->refusal(all)) {
    verdict.tensor = "d";
    fails(verdict, Check::sums, "d" + *refusal);
  }
  return verdict;
}

Verdict GemmReference::judge(std::span<const double> d, std::optional<float> amax) const {
  const double wide_amax = static_cast<double>(amax.value_or(0));
  const OutputValues outputs[] = {{.name = "d", .values = d}, {.name = "amax", .values = std::span(&wide_amax, 1)}};
  return judge(std::span(outputs).first(amax ? 2 : 1));
}

Verdict GemmReference::judge_exact(std::span<const double> d) const {
  const OutputValues output{.name = "d", .values = d, .judged = Judged::bit_for_bit};
  return judge(std::span(&output, 1));
}

std::vector<ReferenceTensor> GemmReference::tensors() const {
  return {{.name = "d", .type = output_type_, .values = float64_.d, .naive = naive_errors_},
          {.name = "amax", .type = ElementType::fp32, .values = std::span(&float64_.amax, 1)}};
}

bool GemmReference::check_bounds(const OutputValues& output, Verdict& verdict) const {
  if (output.name == "amax") return check_amax(output.values[0], verdict);
  return check_bound(output.values, verdict) && check_relative(output.values, verdict) &&
         check_norm_wise(output.values, verdict);
}

double GemmReference::wanted(std::size_t at) const {
  const double want = float64_.d[at];
  if (output_type_ == ElementType::int8) return std::clamp(want, -128.0, 127.0);
  // Results of 8 bits keep to their type's range on every device.
  const double most = output_type_ == ElementType::fp8e4m3   ? 448
                      : output_type_ == ElementType::fp8e5m2 ? 57344
                                                             : std::numeric_limits<double>::infinity();
  return std::clamp(want, -most, most);
}

double GemmReference::limit_of(std::size_t at) const {
  const double bound = float64_.bound[at];
  if (output_type_ == ElementType::int32) return bound;
  if (output_type_ == ElementType::int8) return 0.5 + bound;
  return unit_roundoff(output_type_) * (std::abs(wanted(at)) + bound) + bound + smallest_subnormal(output_type_);
}

GemmReference::Guards GemmReference::guards_of(Values output, std::size_t begin, std::size_t end) const {
  Guards found;
  for (std::size_t at = begin; at < end; ++at) {
    const double want = float64_.d[at];
    const bool without_terms = float64_.magnitude[at] == 0;
    if (!std::isfinite(want) || !std::isfinite(round_to(output_type_, want)) || !std::isfinite(output[at]) ||
        (without_terms && output[at] != 0)) {
      found.suspect = at;
      return found;
    }
    if (without_terms) {
      ++found.without_terms;
      continue;
    }
    ++found.computed;
    found.zeros += output[at] == 0;
    found.wanted_zeros += want == 0;
    found.saturated += want != wanted(at);
    found.stray_zeros += output[at] == 0 && std::abs(want) > limit_of(at);
  }
  return found;
}

bool GemmReference::refuse_suspect(double got, std::size_t at, Verdict& verdict) const {
  const double want = float64_.d[at];
  if (!std::isfinite(want) || !std::isfinite(round_to(output_type_, want))) {
    mistrusts(verdict, fmt::format("the reference{} is {}: the inputs hold values that are not finite, or too large "
                                   "for the result",
                                   place(at), want));
    return false;
  }
  if (!std::isfinite(got))
    return fails(verdict, Check::guards,
                 fmt::format("d{} is {:.9g}, it should be {:.9g}{}", place(at), got, want,
                             std::isnan(got) ? "; an element that was never written is NaN" : ""));
  return fails(verdict, Check::guards, fmt::format("d{} is {:.9g}, all its terms are zero", place(at), got));
}

bool GemmReference::check_guards(const OutputValues& written, Verdict& verdict) const {
  if (written.name == "amax") return true;
  const Values output = written.values;
  Guards all;
  for (const Guards& chunk :
       of_chunks(output.size(), [&](std::size_t begin, std::size_t end) { return guards_of(output, begin, end); })) {
    if (chunk.suspect) return refuse_suspect(output[*chunk.suspect], *chunk.suspect, verdict);
    all.zeros += chunk.zeros;
    all.wanted_zeros += chunk.wanted_zeros;
    all.stray_zeros += chunk.stray_zeros;
    all.computed += chunk.computed;
    all.without_terms += chunk.without_terms;
    all.saturated += chunk.saturated;
  }
  const auto computed = static_cast<double>(all.computed);
  if (all.computed > 0 && all.zeros == all.computed && all.stray_zeros > 0)
    return fails(verdict, Check::guards, fmt::format("all {} elements of d are zero", all.computed));
  if (all.stray_zeros > 1 && static_cast<double>(all.stray_zeros) > kStrayZeros * computed)
    return fails(verdict, Check::guards,
                 fmt::format("{} of {} elements are zero where the reference is not", all.stray_zeros, all.computed));
  const double trusted = makes_zeros(tensors_) ? kTrustedZerosOfRelu : kTrustedZeros;
  if (static_cast<double>(all.wanted_zeros) > trusted * computed)
    mistrusts(verdict, fmt::format("{} of {} elements of the reference are zero", all.wanted_zeros, all.computed));
  else if (static_cast<double>(all.without_terms) > trusted * static_cast<double>(output.size()))
    mistrusts(verdict, fmt::format("{} of {} elements of the reference are zero, with all their terms",
                                   all.without_terms, output.size()));
  else if (static_cast<double>(all.saturated) > kTrustedSaturated * computed)
    mistrusts(verdict, fmt::format("{} of {} elements of the reference are beyond the range of the result's type: give "
                                   "scales or an alpha",
                                   all.saturated, all.computed));
  return true;
}

bool GemmReference::check_bound(Values output, Verdict& verdict) const {
  struct Worst {
    double share = 1;
    std::size_t at = 0;
  };
  Worst worst;
  for (const Worst& chunk : of_chunks(output.size(), [&](std::size_t begin, std::size_t end) {
         Worst own;
         for (std::size_t at = begin; at < end; ++at) {
           const double error = std::abs(output[at] - wanted(at)), limit = limit_of(at);
           if (error > own.share * limit)
             own = {limit > 0 ? error / limit : std::numeric_limits<double>::infinity(), at};
         }
         return own;
       }))
    if (chunk.share > worst.share) worst = chunk;
  if (worst.share <= 1) return true;
  return fails(verdict, Check::bound,
               fmt::format("d{} is {:.9g}, the reference {:.9g}: off by {:.3g}, at most {:.3g}", place(worst.at),
                           output[worst.at], float64_.d[worst.at], std::abs(output[worst.at] - wanted(worst.at)),
                           limit_of(worst.at)));
}

std::string GemmReference::refusal_of_rows(Values output, std::int64_t b, std::int64_t first) const {
  const double u = unit_roundoff(output_type_);
  const std::int64_t width = tensors_.columns_of_d();
  const GemmRows own = tensors_.rows_of(b);
  const std::int64_t rows = std::min(kGroupRows, own.count - first);
  const auto start = static_cast<std::size_t>((own.before + first) * width);
  const auto count = static_cast<std::size_t>(rows * width);
  const std::span want = std::span(float64_.d).subspan(start, count);
  const ErrorFigures mine = measure_errors(output.subspan(start, count), want, 1);
  const ErrorFigures naive = measure_errors(std::span(naive_).subspan(start, count), want, 1);
  double value = 0, bound = 0;
  for (std::size_t at = start; at < start + count; ++at) {
    value = std::max(value, std::abs(float64_.d[at]));
    bound = std::max(bound, float64_.bound[at]);
  }
  // The naive result may be exact by luck, so what every computation may lose is added to its error.
  const double lost = u * value + 2 * bound + smallest_subnormal(output_type_);
  const double limit = tolerance_.relative_max * naive.max_abs + lost;
  if (mine.max_abs <= limit) return {};
  return fmt::format(
      "d{} is {:.9g}, the reference {:.9g}: off by {:.3g}, at most {:.3g} = {} x the naive error {:.3g} of rows {} to "
      "{} + {:.3g}",
      place(start + mine.worst), mine.worst_got, mine.worst_want, mine.max_abs, limit, tolerance_.relative_max,
      naive.max_abs, first, first + rows - 1, lost);
}

bool GemmReference::check_relative(Values output, Verdict& verdict) const {
  if (naive_.empty()) return true;
  const double u = unit_roundoff(output_type_);
  const auto blocks = row_blocks_of(tensors_, kGroupRows);
  std::vector<std::string> refusals(blocks.size());
  parallel_for(blocks.size(), output.size() < kFewElements ? 1 : 0,
               [&](std::size_t at) { refusals[at] = refusal_of_rows(output, blocks[at].member, blocks[at].row); });
  for (const std::string& refusal : refusals)
    if (!refusal.empty()) return fails(verdict, Check::relative, refusal);
  const ErrorFigures mine = measure_errors(output, float64_.d);
  const ErrorFigures& naive = naive_errors_;
  if (mine.count == 0) return true;
  double values = 0, bounds = 0;
  for (const auto& [value, bound] : of_chunks(mine.count, [&](std::size_t begin, std::size_t end) {
         std::pair<double, double> own;
         for (std::size_t at = begin; at < end; ++at) {
           own.first += std::abs(float64_.d[at]);
           own.second += float64_.bound[at];
         }
         return own;
       })) {
    values += value;
    bounds += bound;
  }
  const auto count = static_cast<double>(mine.count);
  const double lost = (u * values / 4 + bounds) / count + smallest_subnormal(output_type_);
  const double limit = tolerance_.relative_mean * naive.mean_abs + lost;
  if (mine.mean_abs <= limit) return true;
  return fails(verdict, Check::relative,
               fmt::format("the mean error is {:.3g}, at most {:.3g} = {} x the naive one {:.3g} + {:.3g}",
                           mine.mean_abs, limit, tolerance_.relative_mean, naive.mean_abs, lost));
}

std::pair<double, double> GemmReference::squares_of(Values output, std::size_t begin, std::size_t end) const {
  const double depth = std::sqrt(static_cast<double>(std::max<std::int64_t>(1, tensors_.depth())));
  double errors = 0, norms = 0;
  for (std::size_t at = begin; at < end; ++at) {
    const double x = output[at], y = wanted(at);
    const double spread = static_cast<double>(float64_.magnitude[at]) / depth;
    const double beyond = std::max(0.0, std::abs(x - y) - smallest_subnormal(output_type_));
    errors += beyond * beyond;
    norms += x * x + y * y + 2 * spread * spread;  // the terms' size stands in where they cancel
  }
  return {errors, norms};
}

bool GemmReference::check_norm_wise(Values output, Verdict& verdict) const {
  if (tolerance_.norm_wise == 0) return true;
  // Sums of blocks with scales of their own leave the tensor cores block by block, and do not grow.
  const bool grows = tolerance_.norm_wise_terms > 0 && tensors_.scale_a.depth == 0;
  const double rounds = grows ? static_cast<double>(tensors_.depth()) / tolerance_.norm_wise_terms : 1;
  const double limit = tolerance_.norm_wise * std::max(1.0, rounds);
  const std::int64_t width = tensors_.columns_of_d();
  double all_errors = 0, all_norms = 0;
  for (std::int64_t b = 0; b <= tensors_.batch; ++b) {
    double errors = 0, norms = 0;
    if (b < tensors_.batch) {
      const GemmRows own = tensors_.rows_of(b);
      const auto start = static_cast<std::size_t>(own.before * width);
      for (const auto& [error, norm] : of_chunks(
               static_cast<std::size_t>(own.count * width),
               [&](std::size_t begin, std::size_t end) { return squares_of(output, start + begin, start + end); })) {
        errors += error;
        norms += norm;
      }
      all_errors += errors;
      all_norms += norms;
    } else {
      errors = all_errors;
      norms = all_norms;
    }
    if (!(errors > limit * norms)) continue;
    return fails(verdict, Check::norm_wise,
                 fmt::format("{} is off by {:.3g} of its squared norm, at most {:.3g}",
                             b < tensors_.batch ? fmt::format("batch {}", b) : "the output", errors / norms, limit));
  }
  return true;
}

bool GemmReference::check_amax(double got, Verdict& verdict) const {
  const double limit = float64_.amax_bound + kFp32Roundoff * float64_.amax;
  if (std::abs(got - float64_.amax) <= limit) return true;
  return fails(verdict, Check::bound,
               fmt::format("amax is {:.9g}, the reference {:.9g}: off by {:.3g}, at most {:.3g}", got, float64_.amax,
                           std::abs(got - float64_.amax), limit));
}

std::string GemmReference::position(std::string_view output, std::size_t element) const {
  return output == "amax" ? std::string() : place(element);
}

std::string GemmReference::place(std::size_t at) const {
  const auto index = static_cast<std::int64_t>(at);
  const std::int64_t width = std::max<std::int64_t>(1, tensors_.columns_of_d());
  std::int64_t b = 0;
  while (b + 1 < tensors_.batch && tensors_.rows_of(b + 1).before <= index / width) ++b;
  const GemmRows rows = tensors_.rows_of(b);
  return fmt::format("[batch {}, row {}, column {}]", b, tensors_.row_of(b, index / width - rows.before),
                     index % width);
}

std::vector<double> read_output(const GemmTensors& tensors, const TensorView& output) {
  std::vector<double> dense;
  dense.reserve(static_cast<std::size_t>(tensors.elements_of_d()));
  for (std::int64_t b = 0; b < tensors.batch; ++b) {
    const GemmRows rows = tensors.rows_of(b);
    for (std::int64_t index = 0; index < rows.count; ++index)
      for (std::int64_t j = 0; j < tensors.columns_of_d(); ++j)
        dense.push_back(element(output, b, tensors.row_of(b, index), j));
  }
  return dense;
}

int exact_magnitude(std::int64_t k) {
  for (int r = 3; r > 0; --r)
    if (k * r * r <= (std::int64_t{1} << 24)) return r;
  return 0;
}

}  // namespace tilesmith
