#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "dispatch/cpu_tasks.hpp"
#include "dispatch/serving/cpu.hpp"
#include "problem/serving/types.hpp"

namespace tilesmith {
namespace {

constexpr std::size_t kPairs = 128;  // that are turned at a time

struct Token {
  std::int64_t batch, row;      // of q, k and v; batch 0 where sequences are packed
  std::int64_t page, page_row;  // page -1: written nowhere
  std::int64_t position;
};

Token token_of(const AppendKv& c, std::int64_t b, std::int64_t t) {
  const bool group = c.mode == SequenceMode::group;
  const std::int64_t index = (group ? c.cu_seqlens[b] : b * c.seqlen) + t;
  const std::int64_t row = c.pages.lengths == nullptr ? 0 : c.pages.lengths[b] + t;
  Token out{group ? 0 : b, group ? index : t, b, row, c.positions != nullptr ? c.positions[index] : row};
  if (c.slots != nullptr) {
    out.page = c.slots[index] < 0 ? -1 : c.slots[index] / c.page_size;
    out.page_row = c.slots[index] % c.page_size;
  } else if (c.pages.numbers != nullptr) {
    const std::int64_t begin = c.pages.offsets != nullptr ? c.pages.offsets[b] : b * c.pages.stride;
    out.page = c.pages.numbers[begin + row / c.page_size];
    out.page_row = row % c.page_size;
  }
  return out;
}

class Appender {
 public:
  explicit Appender(const AppendKv& call)
      : c_(call),
        type_(floating_element(call.data_type)),
        cache_type_(cache_element(call.data_type, call.cache)),
        size_(static_cast<std::int64_t>(size_of(type_))),
        cache_size_(static_cast<std::int64_t>(size_of(cache_type_))) {}

  void append(std::int64_t b, std::int64_t t) const {
    const Token token = token_of(c_, b, t);
    for (std::int64_t h = 0; h < c_.heads_q; ++h)
      turn(at(c_.q, c_.q_strides, token.batch, h, token.row), at(c_.q_out, c_.q_out_strides, token.batch, h, token.row),
           {type_, size_, 1.0F}, token.position);
    if (token.page < 0) return;
    for (std::int64_t h = 0; h < c_.heads_kv; ++h) {
      turn(at(c_.k, c_.k_strides, token.batch, h, token.row),
           in_cache(c_.k_cache, c_.k_cache_strides, token.page, h, token.page_row),
           {cache_type_, cache_size_, unit_of(c_.k_scale, b, h)}, token.position);
      copy(at(c_.v, c_.v_strides, token.batch, h, token.row),
           in_cache(c_.v_cache, c_.v_cache_strides, token.page, h, token.page_row), c_.head_dim_v,
           {cache_type_, cache_size_, unit_of(c_.v_scale, b, h)});
    }
  }

 private:
  /// What a row becomes: elements of a type, each a value divided by the unit.
  struct Form {
    ElementType type;
    std::int64_t size;
    float unit;
  };

  const std::byte* at(const void* tensor, const AttentionStrides& s, std::int64_t b, std::int64_t h,
                      std::int64_t i) const {
    return static_cast<const std::byte*>(tensor) + (b * s.batch + h * s.head + i * s.row) * size_;
  }
  std::byte* at(void* tensor, const AttentionStrides& s, std::int64_t b, std::int64_t h, std::int64_t i) const {
    return static_cast<std::byte*>(tensor) + (b * s.batch + h * s.head + i * s.row) * size_;
  }

  std::byte* in_cache(void* tensor, const AttentionStrides& s, std::int64_t page, std::int64_t h,
                      std::int64_t i) const {
    return static_cast<std::byte*>(tensor) + (page * s.batch + h * s.head + i * s.row) * cache_size_;
  }
  float unit_of(const AttentionScale& scale, std::int64_t b, std::int64_t h) const {
    return c_.cache == KvElements::as_queries || scale.data == nullptr ? 1.0F
                                                                       : scale.data[b * scale.batch + h * scale.head];
  }

  static void store(std::span<float> x, std::byte* to, const Form& form) {
    if (form.unit != 1.0F)
      for (float& value : x) value /= form.unit;
    store_elements(form.type, std::span<const float>(x), to);
  }

  void copy(const std::byte* from, std::byte* to, std::int64_t count, const Form& form) const {
    if (form.type == type_) {
      std::memmove(to, from, static_cast<std::size_t>(count * size_));
      return;
    }
    std::array<float, 2 * kPairs> x;
    for (std::int64_t first = 0; first < count; first += static_cast<std::int64_t>(x.size())) {
      const std::span some(x.data(), std::min(x.size(), static_cast<std::size_t>(count - first)));
      load_elements(type_, from + first * size_, some);
      store(some, to + first * form.size, form);
    }
  }

  /// Writes a row, its first elements turned by their position. `to` may be `from`.
  void turn(const std::byte* from, std::byte* to, const Form& form, std::int64_t position) const {
    const Rotary& r = c_.rotary;
    const std::int64_t half = r.dim / 2;
    const bool apart = r.style == RotaryStyle::half;
    const float* cosines = half > 0 ? r.cos + position * r.row_stride : nullptr;
    const float* sines = half > 0 ? r.sin + position * r.row_stride : nullptr;
    std::array<float, 2 * kPairs> x;
    for (std::int64_t first = 0; first < half; first += static_cast<std::int64_t>(kPairs)) {
      const std::size_t pairs = std::min(kPairs, static_cast<std::size_t>(half - first));
      // Where the first and the second element of pair i stand in x.
      const std::size_t step = apart ? 1 : 2, second = apart ? pairs : 1;
      const std::int64_t low = apart ? first : 2 * first, high = half + first;
      load_elements(type_, from + low * size_, std::span(x.data(), apart ? pairs : 2 * pairs));
      if (apart) load_elements(type_, from + high * size_, std::span(x.data() + pairs, pairs));
      for (std::size_t i = 0; i < pairs; ++i) {
        const float cosine = cosines[first + static_cast<std::int64_t>(i)];
        const float sine = sines[first + static_cast<std::int64_t>(i)];
        const float a = x[step * i], b = x[step * i + second];
        x[step * i] = a * cosine - b * sine;
        x[step * i + second] = b * cosine + a * sine;
      }
      store(std::span(x.data(), apart ? pairs : 2 * pairs), to + low * form.size, form);
      if (apart) store(std::span(x.data() + pairs, pairs), to + high * form.size, form);
    }
    copy(from + r.dim * size_, to + r.dim * form.size, c_.head_dim_qk - r.dim, form);
  }

  const AppendKv& c_;
  ElementType type_, cache_type_;
  std::int64_t size_, cache_size_;
};

}  // namespace

Status CpuAppendKv::run(const AppendKv& c, const RunOptions&) {
  const Appender appender(c);
  run_tasks(team_, c.batch * c.seqlen, [&](long long task) {
    const std::int64_t b = task / c.seqlen, t = task % c.seqlen;
    if (c.mode == SequenceMode::group && t >= std::int64_t{c.cu_seqlens[b + 1]} - c.cu_seqlens[b]) return;
    appender.append(b, t);
  });
  return {};
}

}  // namespace tilesmith
