#include "verify/attention/naive.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <new>
#include <span>

#include "base/parallel.hpp"
#include "verify/add_scaled.hpp"

namespace tilesmith {
namespace {

void round_all(ElementType type, std::span<float> values) {
  if (type == ElementType::fp32) return;
  constexpr std::size_t kTogether = 512;
  std::array<std::byte, kTogether * sizeof(double)> stored;
  for (std::size_t first = 0; first < values.size(); first += kTogether) {
    const std::span<float> some = values.subspan(first, std::min(kTogether, values.size() - first));
    store_elements(type, some, stored.data());
    load_elements(type, stored.data(), some);
  }
}

// One head of one sequence.
class Head {
 public:
  Head(const AttentionTensors& tensors, ElementType output_type, std::int64_t b, std::int64_t h)
      : tensors_(tensors), output_type_(output_type), sequence_(sequence_of(tensors, b)), b_(b), h_(h) {
    if (size_of(tensors.q.type) == 1) {
      logit_type_ = ElementType::bf16;
      normalise_first_ = false;
    }
  }

  void run(std::span<float> output) {
    load_keys_and_values();
    const auto keys = static_cast<std::size_t>(sequence_.seqlen_k);
    std::vector<float> q(static_cast<std::size_t>(tensors_.head_dim_qk));
    std::vector<float> weights(keys);
    std::vector<float> row(static_cast<std::size_t>(tensors_.head_dim_v));
    for (std::int64_t i = 0; i < sequence_.seqlen_q; ++i) {
      load_row(tensors_.q, query_offset(tensors_, tensors_.q, b_, h_, i), tensors_.q.scale.at(b_, h_, i), q);
      for (float& x : q) x *= tensors_.scale;
      round_all(logit_type_, q);
      std::fill(weights.begin(), weights.end(), 0.0F);
      add_scaled(weights.data(), keys_.data(), q.data(), tensors_.head_dim_qk, sequence_.seqlen_k);
      round_all(logit_type_, weights);
      finish_logits(i, weights);
      const float sum = softmax(i, weights);
      std::fill(row.begin(), row.end(), 0.0F);
      add_scaled(row.data(), values_.data(), weights.data(), sequence_.seqlen_k, tensors_.head_dim_v);
      if (sum > 0)
        for (float& x : row) x /= sum;
      round_all(output_type_, row);
      std::copy(row.begin(), row.end(), output.begin() + output_row(tensors_, b_, h_, i) * tensors_.head_dim_v);
    }
  }

 private:
  void load_row(const TensorView& view, std::int64_t offset, double scale, std::span<float> to) const {
    for (std::size_t c = 0; c < to.size(); ++c)
      to[c] = static_cast<float>(
          scale * load_element(view.type, view.data,
                               static_cast<std::size_t>(offset + static_cast<std::int64_t>(c) * view.strides.column)));
  }

  void load_keys_and_values() {
    const auto keys = static_cast<std::size_t>(sequence_.seqlen_k);
    const auto depth = static_cast<std::size_t>(tensors_.head_dim_qk);
    const auto width = static_cast<std::size_t>(tensors_.head_dim_v);
    const std::int64_t head = h_ / (tensors_.heads_q / tensors_.heads_kv);
    keys_.resize(keys * depth);
    values_.resize(keys * width);
    std::vector<float> row(depth);
    // Pages that no query sees may be gone: their keys are zeros, and are hidden later.
    std::int64_t first = sequence_.seqlen_k, last = 0;
    for (std::int64_t i = 0; i < sequence_.seqlen_q; ++i) {
      const auto [from, to] = visible_keys(tensors_, sequence_, i);
      if (from < to) first = std::min(first, from), last = std::max(last, to);
    }
    for (std::int64_t key = first; key < last; ++key) {
      const auto j = static_cast<std::size_t>(key);
      load_row(tensors_.k, key_offset(tensors_, tensors_.k, b_, head, key),
               key_scale(tensors_, tensors_.k, b_, head, key), row);
      for (std::size_t d = 0; d < depth; ++d) keys_[d * keys + j] = row[d];
      load_row(tensors_.v, key_offset(tensors_, tensors_.v, b_, head, key),
               key_scale(tensors_, tensors_.v, b_, head, key), std::span(values_).subspan(j * width, width));
    }
  }

  // Soft cap, bias and ALiBi, each a pass that stores its result.
  void finish_logits(std::int64_t i, std::span<float> logits) const {
    if (tensors_.soft_cap != 0) {
      for (float& s : logits) s = tensors_.soft_cap * std::tanh(s / tensors_.soft_cap);
      round_all(logit_type_, logits);
    }
    if (tensors_.bias != nullptr) {
      const TensorStrides& strides = tensors_.bias_strides;
      const float* bias = tensors_.bias + b_ * strides.batch + h_ * strides.head + i * strides.row;
      for (std::size_t j = 0; j < logits.size(); ++j) logits[j] += bias[static_cast<std::int64_t>(j) * strides.column];
      round_all(logit_type_, logits);
    }
    if (tensors_.alibi != nullptr) {
      const float slope = tensors_.alibi[b_ * tensors_.alibi_batch_stride + h_];
      const std::int64_t diagonal = i + sequence_.diagonal_offset(tensors_.mask_bottom_right);
      for (std::size_t j = 0; j < logits.size(); ++j)
        logits[j] -= slope * static_cast<float>(std::abs(diagonal - static_cast<std::int64_t>(j)));
      round_all(logit_type_, logits);
    }
  }

  // Logits become weights; returns what the product with the values has still to be divided by.
  float softmax(std::int64_t i, std::span<float> logits) const {
    constexpr float kNothing = -std::numeric_limits<float>::infinity();
    const auto [first, last] = visible_keys(tensors_, sequence_, i);
    float maximum = tensors_.sink != nullptr ? tensors_.sink[h_] : kNothing;
    for (std::size_t j = 0; j < logits.size(); ++j) {
      const auto key = static_cast<std::int64_t>(j);
      if (key < first || key >= last) logits[j] = kNothing;
      maximum = std::max(maximum, logits[j]);
    }
    if (maximum == kNothing) {
      std::fill(logits.begin(), logits.end(), 0.0F);
      return 1;
    }
    float sum = tensors_.sink != nullptr ? std::exp(tensors_.sink[h_] - maximum) : 0.0F;
    for (float& s : logits) sum += s = std::exp(s - maximum);
    if (normalise_first_)
      for (float& p : logits) p /= sum;
    if (tensors_.drop_threshold != 0) {
      const float kept = 1.0F / (1.0F - static_cast<float>(tensors_.drop_threshold) / 65536.0F);
      for (std::size_t j = 0; j < logits.size(); ++j)
        logits[j] = keeps(tensors_, b_, h_, i, static_cast<std::int64_t>(j)) ? logits[j] * kept : 0.0F;
    }
    round_all(tensors_.q.type, logits);
    return normalise_first_ ? 1.0F : sum;
  }

  const AttentionTensors& tensors_;
  ElementType output_type_;
  ElementType logit_type_ = tensors_.q.type;
  bool normalise_first_ = true;
  SequenceSpan sequence_;
  std::int64_t b_, h_;
  std::vector<float> keys_;    // head_dim_qk x seqlen_k: a product runs along the keys
  std::vector<float> values_;  // seqlen_k x head_dim_v
};

}  // namespace

Result<std::vector<float>> naive_attention(const AttentionTensors& tensors, ElementType output_type, unsigned threads) {
  TS_TRY(check_tensors(tensors));
  std::vector<float> output;
  try {
    output.resize(static_cast<std::size_t>(output_rows(tensors) * tensors.head_dim_v));
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::out_of_memory, "no memory for the naive result");
  }
  parallel_for(static_cast<std::size_t>(tensors.batch * tensors.heads_q), threads, [&](std::size_t task) {
    const auto index = static_cast<std::int64_t>(task);
    Head(tensors, output_type, index / tensors.heads_q, index % tensors.heads_q).run(output);
  });
  return output;
}

}  // namespace tilesmith
