#include "verify/emulated_kernel.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tilesmith {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

struct Partial {
  std::vector<float> o;
  float maximum = kNothing;
  float sum = 0;
};

// `rows` rows of one head of one sequence, as floats.
std::vector<float> load_head(const AttentionTensors& t, const TensorView& view, std::int64_t b, std::int64_t begin,
                             std::int64_t h, std::int64_t rows, std::int64_t columns) {
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  const std::int64_t start =
      (t.group_mode() ? begin * view.strides.row : b * view.strides.batch) + h * view.strides.head;
  for (std::int64_t row = 0; row < rows; ++row)
    load_elements(
        view.type,
        static_cast<const std::byte*>(view.data) +
            static_cast<std::size_t>(start + row * view.strides.row) * size_of(view.type),
        std::span(values).subspan(static_cast<std::size_t>(row * columns), static_cast<std::size_t>(columns)));
  return values;
}

struct Head {
  Head(const AttentionTensors& t, std::int64_t sequence, std::int64_t head)
      : b(sequence), h(head), span(sequence_of(t, b)) {
    const std::int64_t kv = h / (t.heads_q / t.heads_kv);
    q = load_head(t, t.q, b, span.q_begin, h, span.seqlen_q, t.head_dim_qk);
    k = load_head(t, t.k, b, span.k_begin, kv, span.seqlen_k, t.head_dim_qk);
    v = load_head(t, t.v, b, span.k_begin, kv, span.seqlen_k, t.head_dim_v);
  }
  std::int64_t b, h;
  SequenceSpan span;
  std::vector<float> q, k, v;
};

class Row {
 public:
  Row(const AttentionTensors& t, const EmulatedOptions& options, const Head& head, std::int64_t i)
      : t_(t), options_(options), head_(head), b_(head.b), h_(head.h), i_(i), sequence_(head.span) {}

  // Keys begin .. end, block by block.
  Partial run(std::int64_t begin, std::int64_t end) const {
    Partial part{std::vector<float>(static_cast<std::size_t>(t_.head_dim_v)), kNothing, 0};
    const auto [first, last] = visible_keys(t_, sequence_, i_);
    std::vector<float> s(static_cast<std::size_t>(options_.block));
    for (std::int64_t j0 = begin; j0 < end; j0 += options_.block) {
      if (options_.fault == KernelFault::last_block_dropped && j0 + options_.block >= end && j0 > begin) break;
      float maximum = part.maximum;
      for (std::int64_t j = j0; j < j0 + options_.block; ++j) {
        float& logit = s[static_cast<std::size_t>(j - j0)];
        const bool inside = j < std::min(end, sequence_.seqlen_k);
        logit = inside && j >= first && j < last ? score(j) : kNothing;
        if (!inside && options_.fault == KernelFault::tail_key_unmasked && j < last + options_.block) logit = 0;
        maximum = std::max(maximum, logit);
      }
      if (maximum == kNothing) continue;
      const float rescale = part.maximum == kNothing ? 0.0F : std::exp(part.maximum - maximum);
      if (options_.fault != KernelFault::rescale_missing)
        for (float& x : part.o) x *= rescale;
      part.sum *= rescale;
      part.maximum = maximum;
      for (std::int64_t j = j0; j < j0 + options_.block; ++j) {
        float p = std::exp(s[static_cast<std::size_t>(j - j0)] - maximum);
        part.sum += p;
        if (j >= sequence_.seqlen_k) continue;
        if (t_.drop_threshold != 0 && !keeps(t_, b_, h_, i_, j)) continue;
        p = static_cast<float>(round_to(t_.v.type, static_cast<double>(p)));
        for (std::int64_t c = 0; c < t_.head_dim_v; ++c) {
          float& o = part.o[static_cast<std::size_t>(c)];
          o += p * head_.v[static_cast<std::size_t>(j * t_.head_dim_v + c)];
          if (options_.fault == KernelFault::low_precision_sum)
            o = static_cast<float>(round_to(t_.v.type, static_cast<double>(o)));
        }
      }
    }
    return part;
  }

 private:
  float score(std::int64_t j) const {
    const float* q = head_.q.data() + i_ * t_.head_dim_qk;
    const float* k = head_.k.data() + j * t_.head_dim_qk;
    float s = 0;
    for (std::int64_t d = 0; d < t_.head_dim_qk; ++d) s += q[d] * k[d];
    if (options_.fault != KernelFault::scale_missing) s *= t_.scale;
    if (t_.soft_cap != 0) s = t_.soft_cap * std::tanh(s / t_.soft_cap);
    if (t_.bias != nullptr)
      s += t_.bias[b_ * t_.bias_strides.batch + h_ * t_.bias_strides.head + i_ * t_.bias_strides.row +
                   j * t_.bias_strides.column];
    if (t_.alibi != nullptr)
      s -= t_.alibi[b_ * t_.alibi_batch_stride + h_] *
           static_cast<float>(std::abs(i_ + sequence_.diagonal_offset(t_.mask_bottom_right) - j));
    return s;
  }

  const AttentionTensors& t_;
  const EmulatedOptions& options_;
  const Head& head_;
  std::int64_t b_, h_, i_;
  SequenceSpan sequence_;
};

}  // namespace

EmulatedResult emulate_kernel(const AttentionTensors& t, ElementType output_type, const EmulatedOptions& options) {
  EmulatedResult result;
  result.o.resize(static_cast<std::size_t>(output_rows(t) * t.head_dim_v));
  result.lse.resize(static_cast<std::size_t>(output_rows(t)));
  const float kept = 1.0F / (1.0F - static_cast<float>(t.drop_threshold) / 65536.0F);
  for (std::int64_t b = 0; b < t.batch; ++b)
    for (std::int64_t h = 0; h < t.heads_q; ++h) {
      const Head head(t, b, h);
      for (std::int64_t i = 0; i < head.span.seqlen_q; ++i) {
        const std::int64_t keys = head.span.seqlen_k;
        const std::int64_t blocks = (keys + options.block - 1) / options.block;
        const std::int64_t piece = (blocks + options.splits - 1) / options.splits * options.block;
        std::vector<Partial> parts;
        for (std::int64_t s = 0; s < options.splits; ++s)
          parts.push_back(Row(t, options, head, i).run(std::min(keys, s * piece), std::min(keys, (s + 1) * piece)));
        if (options.fault == KernelFault::stale_split) parts.back() = parts.front();
        float maximum = t.sink != nullptr ? t.sink[h] : kNothing;
        for (const Partial& part : parts) maximum = std::max(maximum, part.maximum);
        const auto row = static_cast<std::size_t>(output_row(t, b, h, i));
        float* o = result.o.data() + row * static_cast<std::size_t>(t.head_dim_v);
        result.lse[row] = kNothing;
        if (maximum == kNothing) continue;
        float sum = t.sink != nullptr ? std::exp(t.sink[h] - maximum) : 0.0F;
        for (const Partial& part : parts) {
          if (part.maximum == kNothing) continue;
          const float weight =
              options.fault == KernelFault::split_weights_equal ? 1.0F : std::exp(part.maximum - maximum);
          sum += weight * part.sum;
          for (std::size_t c = 0; c < part.o.size(); ++c) o[c] += weight * part.o[c];
        }
        for (std::int64_t c = 0; c < t.head_dim_v; ++c)
          o[c] = static_cast<float>(round_to(output_type, static_cast<double>(o[c] * kept / sum)));
        result.lse[row] = std::log(sum) + maximum;
      }
    }
  return result;
}

}  // namespace tilesmith
