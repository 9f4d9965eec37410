#include "verify/random_attention.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/random.hpp"

namespace tilesmith {

RandomAttention::RandomAttention(const CaseOptions& options) {
  const RandomStream random{options.seed, 99};
  AttentionTensors& t = tensors;
  t.batch = options.batch;
  t.heads_q = options.heads_q;
  t.heads_kv = options.heads_kv;
  t.seqlen_q = options.seqlen_q;
  t.seqlen_k = options.seqlen_k;
  t.head_dim_qk = options.head_dim_qk;
  t.head_dim_v = options.head_dim_v;
  t.window_left = options.window_left;
  t.window_right = options.window_right;
  t.mask_bottom_right = options.bottom_right;
  t.soft_cap = options.soft_cap;
  t.scale = options.scale != 0 ? options.scale : 1.0F / std::sqrt(static_cast<float>(options.head_dim_qk));
  t.seed = options.seed * 0x9E3779B97F4A7C15u;
  t.offset = options.seed << 30;
  t.drop_threshold = options.drop_threshold;
  std::int64_t total_q = options.seqlen_q;
  std::int64_t total_k = options.seqlen_k;
  if (options.group) {
    cu_seqlens_q.push_back(0);
    cu_seqlens_k.push_back(0);
    for (std::int64_t b = 0; b < options.batch; ++b) {
      const auto index = static_cast<std::uint64_t>(b);
      cu_seqlens_q.push_back(cu_seqlens_q.back() + static_cast<int>(random.below(
                                                       2 * index, static_cast<std::uint64_t>(options.seqlen_q) + 1)));
      cu_seqlens_k.push_back(
          cu_seqlens_k.back() +
          static_cast<int>(random.below(2 * index + 1, static_cast<std::uint64_t>(options.seqlen_k) + 1)));
    }
    total_q = cu_seqlens_q.back();
    total_k = cu_seqlens_k.back();
    t.cu_seqlens_q = cu_seqlens_q.data();
    t.cu_seqlens_k = cu_seqlens_k.data();
  }
  t.q = make(options, q_, options.heads_q, total_q, options.head_dim_qk, 1);
  t.k = make(options, k_, options.heads_kv, total_k, options.head_dim_qk, 2);
  t.v = make(options, v_, options.heads_kv, total_k, options.head_dim_v, 3);
  if (options.bias) {
    const std::int64_t planes = options.bias_broadcast ? 1 : options.batch * options.heads_q;
    bias.resize(static_cast<std::size_t>(planes * options.seqlen_q * options.seqlen_k));
    fill_normal(bias, {options.seed, 4});
    const std::int64_t plane = options.seqlen_q * options.seqlen_k;
    t.bias = bias.data();
    t.bias_strides = {options.bias_broadcast ? 0 : options.heads_q * plane, options.bias_broadcast ? 0 : plane,
                      options.seqlen_k, 1};
  }
  if (options.alibi) {
    alibi.resize(static_cast<std::size_t>(options.batch * options.heads_q));
    fill_uniform(alibi, {options.seed, 5}, 0.0F, 0.1F);
    t.alibi = alibi.data();
    t.alibi_batch_stride = options.heads_q;
  }
  if (options.sink) {
    sink.resize(static_cast<std::size_t>(options.heads_q));
    fill_uniform(sink, {options.seed, 6}, 2.0F, 5.0F);  // strong enough to be missed when it is forgotten
    t.sink = sink.data();
  }
}

TensorView RandomAttention::make(const CaseOptions& options, std::vector<std::byte>& storage, std::int64_t heads,
                                 std::int64_t rows, std::int64_t columns, std::uint64_t stream) {
  const std::int64_t pitch = columns + options.row_gap;
  TensorStrides strides{heads * rows * pitch, rows * pitch, pitch, 1};
  if (options.heads_inside) strides = {rows * heads * pitch, pitch, heads * pitch, 1};
  const auto count = static_cast<std::size_t>((options.group ? 1 : options.batch) * heads * rows * pitch);
  std::vector<float> values(count);
  fill_normal(values, {options.seed, stream});
  storage.resize(std::max<std::size_t>(1, count * size_of(options.type)));
  store_elements(options.type, values, storage.data());
  return {storage.data(), options.type, strides};
}

std::int64_t RandomAttention::offset(const TensorView& view, std::int64_t b, std::int64_t h, std::int64_t row,
                                     std::int64_t column) const {
  const SequenceSpan sequence = sequence_of(tensors, b);
  const std::int64_t begin = view.data == tensors.q.data ? sequence.q_begin : sequence.k_begin;
  return (tensors.group_mode() ? 0 : b * view.strides.batch) + h * view.strides.head +
         (begin + row) * view.strides.row + column * view.strides.column;
}

void RandomAttention::set(TensorView& view, std::int64_t b, std::int64_t h, std::int64_t row, std::int64_t column,
                          double value) {
  std::vector<std::byte>& storage = view.data == q_.data() ? q_ : view.data == k_.data() ? k_ : v_;
  store_element(view.type, storage.data(), static_cast<std::size_t>(offset(view, b, h, row, column)), value);
}

double RandomAttention::get(const TensorView& view, std::int64_t b, std::int64_t h, std::int64_t row,
                            std::int64_t column) const {
  return load_element(view.type, view.data, static_cast<std::size_t>(offset(view, b, h, row, column)));
}

CaseOptions random_options(ElementType type, std::uint64_t seed) {
  const RandomStream random{seed, 77};
  std::uint64_t draw = 0;
  const auto below = [&](std::int64_t bound) {
    return static_cast<std::int64_t>(random.below(draw++, static_cast<std::uint64_t>(bound)));
  };
  const auto one_in = [&](std::int64_t chances) { return below(chances) == 0; };
  CaseOptions options;
  options.type = type;
  options.seed = seed;
  options.batch = 1 + below(3);
  options.heads_kv = 1 + below(3);
  options.heads_q = options.heads_kv * (1 + below(3));
  options.seqlen_q = one_in(4) ? 1 + below(3) : 1 + below(50);
  options.seqlen_k = one_in(4) ? 1 + below(3) : 1 + below(150);
  options.head_dim_qk = one_in(2) ? 64 : 1 + below(70);
  options.head_dim_v = one_in(2) ? 64 : 1 + below(70);
  options.group = one_in(3);
  options.heads_inside = one_in(2);
  options.row_gap = one_in(3) ? below(5) : 0;
  options.bias = one_in(4);
  options.bias_broadcast = one_in(2);
  options.alibi = !options.bias && one_in(4);
  options.sink = one_in(4);
  switch (below(5)) {
    case 0:
      options.window_right = 0;
      break;
    case 1:
      options.window_left = below(40);
      break;
    case 2:
      options.window_left = below(40);
      options.window_right = below(40);
      break;
    default:
      break;
  }
  options.bottom_right = one_in(2);
  if (one_in(4)) options.soft_cap = 5.0F + static_cast<float>(below(40));
  if (one_in(5)) options.drop_threshold = static_cast<std::uint32_t>(1 + below(40000));
  return options;
}

std::string describe(const CaseOptions& o) {
  return fmt::format(
      "{} batch {} heads {}/{} seqlen {}x{} dim {}x{}{}{} gap {} window {},{} {}{}{}{} soft_cap {} drop {} scale {} "
      "seed {}",
      to_string(o.type), o.batch, o.heads_q, o.heads_kv, o.seqlen_q, o.seqlen_k, o.head_dim_qk, o.head_dim_v,
      o.group ? " group" : "", o.heads_inside ? " bshd" : " bhsd", o.row_gap, o.window_left, o.window_right,
      o.bottom_right ? "bottom_right" : "top_left", o.bias ? (o.bias_broadcast ? " bias(shared)" : " bias") : "",
      o.alibi ? " alibi" : "", o.sink ? " sink" : "", o.soft_cap, o.drop_threshold, o.scale, o.seed);
}

}  // namespace tilesmith
