#include "verify/attention/reference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>

#include "base/parallel.hpp"
#include "base/random.hpp"
#include "verify/attention/naive.hpp"
#include "verify/chunks.hpp"
#include "verify/product64.hpp"

namespace tilesmith {

namespace {

constexpr std::size_t kFewElements = std::size_t{1} << 15;  // are judged on one thread

std::vector<double> widened(std::span<const float> values) {
  return {values.begin(), values.end()};
}

constexpr std::int64_t kBlockRows = kProductRows;  // of a sample
constexpr std::int64_t kSampledBlocks = 16;        // one in so many

/// Where the blocks of a sample begin: the first, a random one of every 16, and the last, which ends with the rows.
std::vector<std::int64_t> random_blocks(std::int64_t rows) {
  constexpr RandomStream kBlocks{.seed = 17};
  const std::int64_t last = std::max<std::int64_t>(0, rows - kBlockRows);
  std::vector<std::int64_t> firsts{0};
  for (std::int64_t from = 0; from < last; from += kSampledBlocks * kBlockRows) {
    const auto place = static_cast<std::int64_t>(kBlocks.below(static_cast<std::uint64_t>(from), kSampledBlocks));
    if (const std::int64_t first = from + place * kBlockRows; first > 0 && first < last) firsts.push_back(first);
  }
  if (last > 0) firsts.push_back(last);
  return firsts;
}

/// The problem of a block of a problem's queries: what they see does not change.
AttentionTensors block_of(const AttentionTensors& tensors, std::int64_t first) {
  AttentionTensors block = tensors;
  block.seqlen_q = std::min(kBlockRows, tensors.seqlen_q - first);
  const auto behind = static_cast<std::int64_t>(size_of(tensors.q.type)) * first * tensors.q.strides.row;
  block.q.data = static_cast<const std::byte*>(tensors.q.data) + behind;
  block.diagonal += first + (tensors.mask_bottom_right ? block.seqlen_q - tensors.seqlen_q : 0);
  if (tensors.bias != nullptr) block.bias += first * tensors.bias_strides.row;
  return block;
}

}  // namespace

Result<AttentionReference> AttentionReference::make(const AttentionTensors& tensors, ElementType output_type,
                                                    unsigned threads) {
  if (!is_floating(output_type))
    return fail(ErrorCode::invalid_argument, fmt::format("the output type is {}", to_string(output_type)),
                "a floating type");
  TS_ASSIGN(const AttentionTolerance tolerance, attention_tolerance(tensors.q.type, tensors.tf32));
  AttentionReference reference(tensors, output_type, tolerance);
  TS_ASSIGN(reference.float64_, float64_attention(tensors, threads));
  TS_ASSIGN(reference.naive_, naive_attention(tensors, output_type, threads));
  reference.naive_errors_ = measure_errors(widened(reference.naive_), reference.float64_.o);
  return reference;
}

Result<AttentionReference> AttentionReference::make_sampled(const AttentionTensors& tensors, ElementType output_type,
                                                            unsigned threads) {
  TS_ASSIGN(const AttentionTolerance tolerance, attention_tolerance(tensors.q.type, tensors.tf32));
  const std::vector<std::int64_t> firsts = random_blocks(tensors.seqlen_q);
  const bool is_plain = !tensors.group_mode() && tensors.pages.page_size == 0 && tensors.alibi == nullptr &&
                        tensors.drop_threshold == 0 && tensors.batch * tensors.heads_q > 0;
  if (!is_plain || !AttentionRowSums::apply_to(tolerance, output_type) ||
      static_cast<std::int64_t>(firsts.size()) * kBlockRows >= tensors.seqlen_q)
    return make(tensors, output_type, threads);
  TS_TRY(check_tensors(tensors));
  AttentionReference reference(tensors, output_type, tolerance);
  TS_ASSIGN(reference.row_sums_, AttentionRowSums::make(tensors, output_type, tolerance, threads));
  std::vector<std::optional<Result<AttentionReference>>> made(firsts.size());
  const unsigned all = threads != 0 ? threads : std::max(1u, std::thread::hardware_concurrency());
  parallel_for(firsts.size(), threads, [&](std::size_t at) {
    made[at].emplace(
        make(block_of(tensors, firsts[at]), output_type, std::max(1u, all / static_cast<unsigned>(firsts.size()))));
  });
  for (std::size_t at = 0; at < made.size(); ++at) {
    if (!*made[at]) return std::unexpected(made[at]->error());
    Block& block = reference.blocks_.emplace_back(Block{.first = firsts[at]});
    block.reference.push_back(std::move(**made[at]));
  }
  return reference;
}

std::vector<double> AttentionReference::rows_of(Values output, const Block& block, std::int64_t width) const {
  const std::int64_t rows = block.reference.front().tensors_.seqlen_q;
  std::vector<double> own;
  own.reserve(static_cast<std::size_t>(tensors_.batch * tensors_.heads_q * rows * width));
  for (std::int64_t head = 0; head < tensors_.batch * tensors_.heads_q; ++head) {
    const Values part = output.subspan(static_cast<std::size_t>((head * tensors_.seqlen_q + block.first) * width),
                                       static_cast<std::size_t>(rows * width));
    own.insert(own.end(), part.begin(), part.end());
  }
  return own;
}

Verdict AttentionReference::judge(std::span<const OutputValues> outputs) const {
  if (!row_sums_) return Reference::judge(outputs);
  const std::int64_t rows = output_rows(tensors_);
  const auto width_of = [&](const OutputValues& output) { return output.name == "lse" ? 1 : tensors_.head_dim_v; };
  Verdict verdict;
  std::optional<Verdict> mistrusted;
  for (const OutputValues& output : outputs)
    if (static_cast<std::int64_t>(output.values.size()) != rows * width_of(output)) {
      verdict.tensor = output.name;
      fails(verdict, Check::guards,
            fmt::format("{} has {} elements, the problem {}", output.name, output.values.size(),
                        rows * width_of(output)));
      return verdict;
    }
  for (const Block& block : blocks_) {
    std::vector<std::vector<double>> values;
    std::vector<OutputValues> own(outputs.begin(), outputs.end());
    for (OutputValues& output : own)
      output.values = values.emplace_back(rows_of(output.values, block, width_of(output)));
    verdict = block.reference.front().judge(own);
    if (verdict.outcome == Outcome::pass) continue;
    verdict.reason += fmt::format(" (row 0 is row {})", block.first);
    if (verdict.outcome == Outcome::fail) return verdict;
    mistrusted = verdict;
  }
  for (const OutputValues& output : outputs) {
    if (output.name == "lse") {
      if (!check_lse(output.values, verdict)) verdict.tensor = "lse";
    } else if (const std::optional<std::string> refusal = row_sums_->refusal(output.values)) {
      verdict.tensor = output.name;
      fails(verdict, Check::sums, std::string(output.name) + *refusal);
    }
    if (verdict.outcome == Outcome::fail) return verdict;
  }
  return mistrusted.value_or(verdict);
}

Verdict AttentionReference::judge(std::span<const float> o, std::span<const float> lse) const {
  const std::vector<double> wide_o = widened(o), wide_lse = widened(lse);
  const OutputValues outputs[] = {{.name = "o", .values = wide_o}, {.name = "lse", .values = wide_lse}};
  return judge(std::span(outputs).first(lse.empty() ? 1 : 2));
}

Verdict AttentionReference::judge_exact(std::span<const float> o) const {
  const std::vector<double> wide = widened(o);
  const OutputValues output{.name = "o", .values = wide, .judged = Judged::bit_for_bit};
  return judge(std::span(&output, 1));
}

std::vector<ReferenceTensor> AttentionReference::tensors() const {
  return {{.name = "o", .type = output_type_, .values = float64_.o, .naive = naive_errors_},
          {.name = "lse", .type = ElementType::fp32, .values = float64_.lse}};
}

bool AttentionReference::check_bounds(const OutputValues& output, Verdict& verdict) const {
  if (output.name == "lse") return check_lse(output.values, verdict);
  return check_bound(output.values, verdict) && check_relative(output.values, verdict) &&
         check_norm_wise(output.values, verdict);
}

AttentionReference::Guards AttentionReference::guards_of(Values output, double largest, std::size_t begin,
                                                         std::size_t end) const {
  const auto width = static_cast<std::size_t>(tensors_.head_dim_v);
  Guards found;
  for (std::size_t at = begin; at < end; ++at) {
    const double want = float64_.o[at];
    const auto spread = static_cast<double>(float64_.spread[at]);
    if (!std::isfinite(want) || !std::isfinite(output[at]) || (spread == 0 && output[at] != 0)) {
      found.suspect = at;
      return found;
    }
    if (spread == 0 && keys_seen(static_cast<std::int64_t>(at / width)) == 0) continue;
    ++found.seeing;
    found.zeros += output[at] == 0;
    found.wanted_zeros += round_to(output_type_, want) == 0;
    // Beside its own rounding an element may be off by that of the weights: below it, zero is as good as any other
    // value. So is what a row's flushed weights sum up to; that no value is larger than the largest output is near
    // enough.
    if (output[at] == 0) {
      const auto keys = static_cast<double>(keys_seen(static_cast<std::int64_t>(at / width)));
      found.stray_zeros += std::abs(want) > 2 * tolerance_.weight_roundoff * spread +
                                                tolerance_.weight_floor * keys * largest +
                                                smallest_subnormal(output_type_);
    }
  }
  return found;
}

bool AttentionReference::refuse_suspect(double got, std::size_t at, Verdict& verdict) const {
  const double want = float64_.o[at];
  if (!std::isfinite(want)) {
    mistrusts(verdict,
              fmt::format("the reference{} is {}: the inputs hold values that are not finite", place(at), want));
    return false;
  }
  if (!std::isfinite(got))
    return fails(verdict, Check::guards,
                 fmt::format("o{} is {:.9g}, it should be {:.9g}{}", place(at), got, want,
                             std::isnan(got) ? "; an element that was never written is NaN" : ""));
  return fails(verdict, Check::guards, fmt::format("o{} is {:.9g}, all its terms are zero", place(at), got));
}

bool AttentionReference::check_guards(const OutputValues& written, Verdict& verdict) const {
  if (written.name == "lse") return true;
  const Values output = written.values;
  double largest = 0;
  for (const double chunk : of_chunks(float64_.o.size(), [&](std::size_t begin, std::size_t end) {
         double most = 0;
         for (std::size_t at = begin; at < end; ++at) most = std::max(most, std::abs(float64_.o[at]));
         return most;
       }))
    largest = std::max(largest, chunk);
  Guards all;
  for (const Guards& chunk : of_chunks(
           output.size(), [&](std::size_t begin, std::size_t end) { return guards_of(output, largest, begin, end); })) {
    if (chunk.suspect) return refuse_suspect(output[*chunk.suspect], *chunk.suspect, verdict);
    all.seeing += chunk.seeing;
    all.zeros += chunk.zeros;
    all.wanted_zeros += chunk.wanted_zeros;
    all.stray_zeros += chunk.stray_zeros;
  }
  const auto seeing = static_cast<double>(all.seeing);  // elements of rows that see keys
  if (all.zeros == all.seeing && all.wanted_zeros < all.seeing)
    return fails(verdict, Check::guards, fmt::format("all {} elements of o are zero", all.seeing));
  if (all.stray_zeros > 1 && static_cast<double>(all.stray_zeros) > kStrayZeros * seeing)
    return fails(verdict, Check::guards,
                 fmt::format("{} of {} elements are zero and should not be; {:.0f} would pass", all.stray_zeros,
                             all.seeing, std::floor(kStrayZeros * seeing)));
  if (static_cast<double>(all.wanted_zeros) > kTrustedZeros * seeing)
    mistrusts(verdict, fmt::format("{:.0f} % of the reference are zeros: these inputs would hide an error",
                                   100 * static_cast<double>(all.wanted_zeros) / seeing));
  return true;
}

bool AttentionReference::check_bound(Values output, Verdict& verdict) const {
  if (!tolerance_.bounded) return true;
  const auto width = static_cast<std::size_t>(tensors_.head_dim_v);
  struct Worst {
    double share = 1, error = 0, limit = 0;
    std::size_t element = 0;
  };
  const auto terms_of = [&](std::size_t row) {
    return ElementTerms{.magnitude = static_cast<double>(float64_.magnitude[row]),
                        .keys = keys_seen(static_cast<std::int64_t>(row))};
  };
  Worst worst;
  for (const Worst& chunk : of_chunks(output.size(), [&](std::size_t begin, std::size_t end) {
         Worst own;
         ElementTerms terms;
         for (std::size_t element = begin; element < end; ++element) {
           if (element == begin || element % width == 0) terms = terms_of(element / width);
           terms.value = std::abs(float64_.o[element]);
           terms.spread = static_cast<double>(float64_.spread[element]);
           const double error = std::abs(output[element] - float64_.o[element]);
           const double limit = attention_bound(tolerance_, output_type_, terms);
           if (error > own.share * limit) own = {error / limit, error, limit, element};
         }
         return own;
       }))
    if (chunk.share > worst.share) worst = chunk;
  if (worst.share <= 1) return true;
  return fails(verdict, Check::bound,
               fmt::format("o{} is {:.9g}, the reference {:.9g}: off by {:.3g}, at most {:.3g}", place(worst.element),
                           output[worst.element], float64_.o[worst.element], worst.error, worst.limit));
}

bool AttentionReference::check_relative(Values output, Verdict& verdict) const {
  return tolerance_.relative_max == 0 || (check_largest(output, verdict) && check_mean(output, verdict));
}

// The naive result may be exact by luck, so what every computation may lose is added to its error: FlashAttention's
// tests measure that by adding and taking away 0.3 in the output's type; here it is the worst case of that, with the
// problem's own scale in the place of 0.3.
bool AttentionReference::check_largest(Values output, Verdict& verdict) const {
  const double u = unit_roundoff(output_type_);
  const std::int64_t width = tensors_.head_dim_v;
  struct Group {
    std::int64_t b, h, first, rows;
    std::string failure{};
  };
  std::vector<Group> groups;
  for (std::int64_t b = 0; b < tensors_.batch; ++b)
    for (std::int64_t h = 0; h < tensors_.heads_q; ++h)
      for (std::int64_t i0 = 0; i0 < sequence_of(tensors_, b).seqlen_q; i0 += kGroupRows)
        groups.push_back({b, h, i0, std::min(kGroupRows, sequence_of(tensors_, b).seqlen_q - i0)});
  const auto judge = [&](Group& group) {
    const auto start = static_cast<std::size_t>(output_row(tensors_, group.b, group.h, group.first) * width);
    const auto count = static_cast<std::size_t>(group.rows * width);
    const std::span want = std::span(float64_.o).subspan(start, count);
    const ErrorFigures mine = measure_errors(output.subspan(start, count), want, 1);
    const ErrorFigures naive = measure_errors(widened(std::span(naive_).subspan(start, count)), want, 1);
    double value = 0, spread = 0;
    for (std::size_t at = start; at < start + count; ++at) {
      value = std::max(value, std::abs(float64_.o[at]));
      spread = std::max(spread, static_cast<double>(float64_.spread[at]));
    }
    const double lost = 2 * (u * value + tolerance_.weight_roundoff * spread) + smallest_subnormal(output_type_);
    const double limit = tolerance_.relative_max * naive.max_abs + lost;
    if (mine.max_abs > limit)
      group.failure = fmt::format(
          "o{} is {:.9g}, the reference {:.9g}: off by {:.3g}, at most {:.3g} = {} x the naive error {:.3g} of rows {} "
          "to {} + {:.3g}",
          place(start + mine.worst), mine.worst_got, mine.worst_want, mine.max_abs, limit, tolerance_.relative_max,
          naive.max_abs, group.first, group.first + group.rows - 1, lost);
  };
  parallel_for(groups.size(), output.size() < kFewElements ? 1 : 0, [&](std::size_t at) { judge(groups[at]); });
  for (const Group& group : groups)
    if (!group.failure.empty()) return fails(verdict, Check::relative, group.failure);
  return true;
}

bool AttentionReference::check_mean(Values output, Verdict& verdict) const {
  const ErrorFigures mine = measure_errors(output, float64_.o);
  const ErrorFigures& naive = naive_errors_;
  if (mine.count == 0) return true;
  double values = 0, spreads = 0;
  for (const auto& [value, spread] : of_chunks(mine.count, [&](std::size_t begin, std::size_t end) {
         std::pair<double, double> own;
         for (std::size_t at = begin; at < end; ++at) {
           own.first += std::abs(float64_.o[at]);
           own.second += static_cast<double>(float64_.spread[at]) * static_cast<double>(float64_.spread[at]);
         }
         return own;
       })) {
    values += value;
    spreads += spread;
  }
  // The columns of a row share the errors of its weights: it is rows that average, not elements.
  const auto count = static_cast<double>(mine.count);
  const auto rows = static_cast<double>(float64_.lse.size());
  const double lost = unit_roundoff(output_type_) * values / count / 2 + smallest_subnormal(output_type_) +
                      1.5 * tolerance_.weight_roundoff * std::sqrt(spreads / count / rows);
  const double limit = tolerance_.relative_mean * naive.mean_abs + lost;
  if (mine.mean_abs <= limit) return true;
  return fails(verdict, Check::relative,
               fmt::format("the mean error is {:.3g}, at most {:.3g} = {} x the naive one {:.3g} + {:.3g}",
                           mine.mean_abs, limit, tolerance_.relative_mean, naive.mean_abs, lost));
}

bool AttentionReference::check_norm_wise(Values output, Verdict& verdict) const {
  for (std::int64_t b = 0; b < tensors_.batch; ++b)
    for (std::int64_t h = 0; h < tensors_.heads_q; ++h)
      if (!norm_wise_rows(output, output_row(tensors_, b, h, 0), sequence_of(tensors_, b).seqlen_q,
                          fmt::format("batch {}, head {}", b, h), verdict))
        return false;
  return norm_wise_rows(output, 0, output_rows(tensors_), "the output", verdict);
}

std::pair<double, double> AttentionReference::squares_of(Values output, std::size_t begin, std::size_t end) const {
  double errors = 0, norms = 0;
  for (std::size_t at = begin; at < end; ++at) {
    const double x = output[at], y = float64_.o[at];
    const auto spread = static_cast<double>(float64_.spread[at]);
    const double beyond = std::max(0.0, std::abs(x - y) - smallest_subnormal(output_type_));
    errors += beyond * beyond;
    norms += x * x + y * y + 2 * spread * spread;  // the spread stands in where terms cancel
  }
  return {errors, norms};
}

bool AttentionReference::norm_wise_rows(Values output, std::int64_t first, std::int64_t rows, std::string_view what,
                                        Verdict& verdict) const {
  double errors = 0, norms = 0;
  const auto start = static_cast<std::size_t>(first * tensors_.head_dim_v);
  for (const auto& [error, norm] :
       of_chunks(static_cast<std::size_t>(rows * tensors_.head_dim_v),
                 [&](std::size_t begin, std::size_t end) { return squares_of(output, start + begin, start + end); })) {
    errors += error;
    norms += norm;
  }
  // The limit is one for many rows: the columns of a row share the errors of its weights, and few rows scatter.
  const double limit = tolerance_.norm_wise * (1 + 6 / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, rows))));
  if (!(errors > limit * norms)) return true;
  return fails(verdict, Check::norm_wise,
               fmt::format("{} is off by {:.3g} of its squared norm, at most {:.3g}", what, errors / norms, limit));
}

bool AttentionReference::check_lse(Values lse, Verdict& verdict) const {
  const Float64Attention& exact = row_sums_ ? row_sums_->float64() : float64_;
  for (std::size_t row = 0; row < lse.size(); ++row) {
    const double got = lse[row];
    const double want = exact.lse[row];
    const double limit = std::isinf(want) ? 0 : lse_bound(tolerance_, want, static_cast<double>(exact.magnitude[row]));
    if (got == want || std::abs(got - want) <= limit) continue;
    return fails(verdict, Check::bound,
                 fmt::format("lse{} is {:.9g}, the reference {:.9g}: off by {:.3g}, at most {:.3g}",
                             position("lse", row), got, want, std::abs(got - want), limit));
  }
  return true;
}

std::int64_t AttentionReference::keys_seen(std::int64_t row) const {
  const RowPosition at = row_position(tensors_, row);
  const auto [first, last] = visible_keys(tensors_, sequence_of(tensors_, at.b), at.i);
  return std::max<std::int64_t>(0, last - first);
}

std::string AttentionReference::place(std::size_t element) const {
  const auto index = static_cast<std::int64_t>(element);
  const RowPosition at = row_position(tensors_, index / tensors_.head_dim_v);
  return fmt::format("[batch {}, head {}, row {}, column {}]", at.b, at.h, at.i, index % tensors_.head_dim_v);
}

std::string AttentionReference::position(std::string_view output, std::size_t element) const {
  if (output != "lse") return place(element);
  const RowPosition at = row_position(tensors_, static_cast<std::int64_t>(element));
  return fmt::format("[batch {}, head {}, row {}]", at.b, at.h, at.i);
}

std::vector<float> read_output(const AttentionTensors& tensors, const TensorView& output, std::int64_t columns) {
  std::vector<float> dense(static_cast<std::size_t>(output_rows(tensors) * columns));
  for (std::int64_t b = 0; b < tensors.batch; ++b) {
    const SequenceSpan sequence = sequence_of(tensors, b);
    const std::int64_t start = tensors.group_mode() ? sequence.q_begin * output.strides.row : b * output.strides.batch;
    for (std::int64_t h = 0; h < tensors.heads_q; ++h)
      for (std::int64_t i = 0; i < sequence.seqlen_q; ++i) {
        const std::int64_t from = start + h * output.strides.head + i * output.strides.row;
        const std::int64_t to = output_row(tensors, b, h, i) * columns;
        for (std::int64_t c = 0; c < columns; ++c)
          dense[static_cast<std::size_t>(to + c)] = static_cast<float>(
              load_element(output.type, output.data, static_cast<std::size_t>(from + c * output.strides.column)));
      }
  }
  return dense;
}

}  // namespace tilesmith
