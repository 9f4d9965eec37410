#include "trial/attention/append.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "trial/attention/case.hpp"

namespace tilesmith {
namespace {

/// NaN in every floating-point type.
constexpr std::byte kHidden{0xFF};

HostArray hidden_like(const HostArray& array) {
  return {array.type, array.shape, std::vector<std::byte>(array.data.size(), kHidden)};
}

}  // namespace

/// The number of a row in a dense tensor of (members, heads, rows) or (members, rows, heads).
std::int64_t RandomAppend::at(std::int64_t member, std::int64_t head, std::int64_t row, std::int64_t heads,
                              std::int64_t rows) const {
  return layout_ == AttentionLayout::bhsd ? (member * heads + head) * rows + row : (member * rows + row) * heads + head;
}

/// What turns into the row.
std::vector<float> RandomAppend::turned_back(const Token& token, std::span<const float> row, RotaryStyle style) const {
  std::vector<float> out(row.begin(), row.end());
  const std::int64_t half = rotary_dim_ / 2;
  for (std::int64_t i = 0; i < half; ++i) {
    const bool apart = style == RotaryStyle::half;
    float& x = out[static_cast<std::size_t>(apart ? i : 2 * i)];
    float& y = out[static_cast<std::size_t>(apart ? i + half : 2 * i + 1)];
    const auto angle = static_cast<std::size_t>(token.position * half + i);
    const float was = x;
    x = was * cos[angle] + y * sin[angle];
    y = y * cos[angle] - was * sin[angle];
  }
  return out;
}

Result<RandomAppend> RandomAppend::take(const AttentionProblem& p, const AttentionNumbers& numbers,
                                        const RandomPages& pages, std::span<const std::int32_t> cu_seqlens_q,
                                        Attended from, RandomStream stream) {
  if (numbers.rotary_dim < 0 || numbers.rotary_dim % 2 != 0 || numbers.rotary_dim > p.head_dim_qk)
    return fail(ErrorCode::invalid_argument, fmt::format("rotary_dim is {}", numbers.rotary_dim),
                fmt::format("an even number of 0 to {}, head_dim_qk", p.head_dim_qk));
  RandomAppend out;
  out.layout_ = numbers.layout;
  out.heads_kv_ = p.heads_kv;
  out.page_size_ = p.page_size;
  out.rotary_dim_ = numbers.rotary_dim;
  constexpr std::array<float, 4> kCosines{1, 0, -1, 0}, kSines{0, 1, 0, -1};
  for (std::int64_t i = 0; i < p.seqlen_k * (numbers.rotary_dim / 2); ++i) {
    const std::uint64_t quarter = stream.below(static_cast<std::uint64_t>(i), 4);
    out.cos.push_back(kCosines[quarter]);
    out.sin.push_back(kSines[quarter]);
  }
  const bool packed = !cu_seqlens_q.empty();
  for (std::int64_t b = 0; b < p.batch; ++b) {
    const auto sequence = static_cast<std::size_t>(b);
    const std::int64_t first = packed ? cu_seqlens_q[sequence] : 0;
    const std::int64_t count = packed ? cu_seqlens_q[sequence + 1] - first : p.seqlen_q;
    const std::int64_t before = pages.lengths[sequence] - count;
    out.lengths_before.push_back(static_cast<std::int32_t>(before));
    if (before < 0) continue;  // padding
    for (std::int64_t t = 0; t < count; ++t) {
      const std::int64_t key = before + t;
      const auto entry = static_cast<std::size_t>(b * pages.stride + key / p.page_size);
      out.tokens_.push_back({packed ? 0 : b, first + t, pages.numbers[entry], key % p.page_size, key});
    }
  }

  const ElementType type = input_element_type_of(p);
  const std::int64_t rows_q = packed ? cu_seqlens_q.back() : p.seqlen_q;
  /// New rows of a cache, as a tensor of the call.
  const auto rows_of = [&](HostArray& cache, std::int64_t dim, bool turns) {
    std::vector<std::int64_t> shape = from.q.shape;
    shape[shape.size() - (out.layout_ == AttentionLayout::bhsd ? 3 : 2)] = p.heads_kv;
    shape.back() = dim;
    std::int64_t count = 1;
    for (const std::int64_t size : shape) count *= size;
    std::vector<float> values(static_cast<std::size_t>(count)), cached = cache.to_floats();
    for (const Token& token : out.tokens_)
      for (std::int64_t h = 0; h < p.heads_kv; ++h) {
        const std::span<float> row(
            &cached[static_cast<std::size_t>(out.at(token.page, h, token.page_row, p.heads_kv, p.page_size) * dim)],
            static_cast<std::size_t>(dim));
        std::ranges::copy(make_array(type, {dim}, row).to_floats(), row.begin());
        const std::vector<float> given =
            turns ? out.turned_back(token, row, numbers.rotary_style) : std::vector<float>(row.begin(), row.end());
        std::ranges::copy(given, values.begin() + out.at(token.member, h, token.row, p.heads_kv, rows_q) * dim);
      }
    cache = make_array(cache.type, cache.shape, cached);
    return make_array(type, std::move(shape), values);
  };
  out.k_new = rows_of(from.k, p.head_dim_qk, true);
  out.v_new = rows_of(from.v, p.head_dim_v, false);

  std::vector<float> queries = from.q.to_floats();
  out.q_out = out.q_after = hidden_like(from.q);
  const auto row_bytes = static_cast<std::int64_t>(size_of(type)) * p.head_dim_qk;
  for (const Token& token : out.tokens_)
    for (std::int64_t h = 0; h < p.heads_q; ++h) {
      const std::int64_t line = out.at(token.member, h, token.row, p.heads_q, rows_q);
      const auto dim = static_cast<std::size_t>(p.head_dim_qk);
      const std::span<float> row = std::span(queries).subspan(static_cast<std::size_t>(line) * dim, dim);
      std::ranges::copy(out.turned_back(token, row, numbers.rotary_style), row.begin());
      if (numbers.rotary_dim > 0)
        std::copy_n(from.q.data.begin() + line * row_bytes, row_bytes, out.q_after.data.begin() + line * row_bytes);
    }
  out.q = make_array(type, from.q.shape, queries);
  return out;
}

void RandomAppend::hide(const HostArray& k, const HostArray& v) {
  const auto without = [&](const HostArray& cache) {
    HostArray out = cache;
    const std::int64_t bytes = cache.shape.back() * static_cast<std::int64_t>(size_of(cache.type));
    for (const Token& token : tokens_)
      for (std::int64_t h = 0; h < heads_kv_; ++h)
        std::fill_n(out.data.begin() + at(token.page, h, token.page_row, heads_kv_, page_size_) * bytes, bytes,
                    kHidden);
    return out;
  };
  k_cache = without(k);
  v_cache = without(v);
}

void RandomAppend::hide_scales(std::span<const float> k, std::span<const float> v) {
  const auto without = [&](std::span<const float> scales) {
    std::vector<float> out(scales.begin(), scales.end());
    for (const Token& token : tokens_)
      for (std::int64_t h = 0; h < heads_kv_; ++h)
        out[static_cast<std::size_t>((token.page * heads_kv_ + h) * page_size_ + token.page_row)] =
            std::numeric_limits<float>::quiet_NaN();
    return out;
  };
  k_scale = without(k);
  v_scale = without(v);
}

void RandomAppend::tell(std::vector<NamedInput>& inputs) const {
  std::ranges::find(inputs, "q", &NamedInput::name)->data = q.data.data();
  const auto find_before = [&](const char* name, const void* data) {
    NamedInput& input = *std::ranges::find(inputs, name, &NamedInput::name);
    input.after = input.data;
    input.data = data;
  };
  find_before("k", k_cache.data.data());
  find_before("v", v_cache.data.data());
  if (!k_scale.empty()) {
    find_before("k_scale", k_scale.data());
    find_before("v_scale", v_scale.data());
  }
  inputs.push_back({"q_out", q_out.data.data(), q_out.data.size(), q_after.data.data()});
  for (const auto& [name, rows] : {std::pair{"k_new", &k_new}, std::pair{"v_new", &v_new}})
    inputs.push_back({name, rows->data.data(), rows->data.size()});
  for (const auto& [name, table] : {std::pair{"cos", &cos}, std::pair{"sin", &sin}})
    inputs.push_back({name, table->data(), table->size() * sizeof(float)});
  inputs.push_back({"seqlens_before", lengths_before.data(), lengths_before.size() * sizeof(std::int32_t)});
}

AttentionAppend RandomAppend::arguments(const AttentionProblem& p, const AttentionNumbers& numbers,
                                        const CallMemory& memory, std::int64_t total_q) const {
  AttentionProblem heads = p;  // whose queries lie as the new keys do
  heads.page_size = 0;
  heads.heads_q = p.heads_kv;
  const AttentionArguments as_queries = dense_arguments(heads, numbers.layout, total_q);
  const AttentionArguments queries = dense_arguments(p, numbers.layout, total_q);
  AttentionAppend out;
  out.k = memory.input("k_new");
  out.v = memory.input("v_new");
  out.k_strides = as_queries.q_strides;
  out.v_strides = as_queries.o_strides;
  out.rotary = {.dim = numbers.rotary_dim,
                .style = numbers.rotary_style,
                .cos = memory.input<float>("cos"),
                .sin = memory.input<float>("sin"),
                .row_stride = numbers.rotary_dim / 2,
                .positions = p.seqlen_k};
  out.q_out = const_cast<void*>(memory.input("q_out"));
  out.q_out_strides = queries.q_strides;
  out.lengths_before = memory.input<std::int32_t>("seqlens_before");
  out.chooses_k_scale = out.chooses_v_scale = numbers.choose_scales;
  return out;
}

}  // namespace tilesmith
