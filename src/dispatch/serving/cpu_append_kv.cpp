#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "dispatch/cpu_tasks.hpp"
#include "dispatch/serving/cpu.hpp"
#include "problem/serving/problem.hpp"
#include "problem/serving/types.hpp"

namespace tilesmith {
namespace {

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
        cache_size_(static_cast<std::int64_t>(size_of(cache_type_))),
        unit_(page_vector(call)),
        copied_(cache_type_ == type_ && !call.vectorized_pages) {}

  void append(std::int64_t b, std::int64_t t) const {
    const Token token = token_of(c_, b, t);
    std::vector<float> room(static_cast<std::size_t>(std::max(c_.head_dim_qk, c_.head_dim_v)));
    const std::span keys = std::span(room).first(static_cast<std::size_t>(c_.head_dim_qk));
    const std::span values = std::span(room).first(static_cast<std::size_t>(c_.head_dim_v));
    for (std::int64_t h = 0; h < c_.heads_q; ++h) {
      auto* const to = static_cast<std::byte*>(c_.q_out) + offset(c_.q_out_strides, token.batch, h, token.row) * size_;
      turn(at(c_.q, c_.q_strides, token.batch, h, token.row), token.position, keys);
      store_elements(type_, std::span<const float>(keys), to);
    }
    if (token.page < 0) return;
    for (std::int64_t h = 0; h < c_.heads_kv; ++h) {
      const std::byte* const key = at(c_.k, c_.k_strides, token.batch, h, token.row);
      if (copied_ && c_.rotary.dim == 0) {
        std::memmove(key_place(token, h).to, key, keys.size() * static_cast<std::size_t>(size_));
      } else {
        turn(key, token.position, keys);
        scale(keys, c_.k_scale, c_.k_row_scale, c_.k_row_scale_strides, token, b, h);
        store(keys, key_place(token, h));
      }
      const std::byte* const value = at(c_.v, c_.v_strides, token.batch, h, token.row);
      if (copied_) {
        std::memmove(value_place(token, h).to, value, values.size() * static_cast<std::size_t>(size_));
      } else {
        load_elements(type_, value, values);
        scale(values, c_.v_scale, c_.v_row_scale, c_.v_row_scale_strides, token, b, h);
        store(values, value_place(token, h));
      }
    }
  }

 private:
  static std::int64_t offset(const AttentionStrides& s, std::int64_t b, std::int64_t h, std::int64_t i) {
    return b * s.batch + h * s.head + i * s.row;
  }
  const std::byte* at(const void* tensor, const AttentionStrides& s, std::int64_t b, std::int64_t h,
                      std::int64_t i) const {
    return static_cast<const std::byte*>(tensor) + offset(s, b, h, i) * size_;
  }

  /// Where the elements of a cache's row lie: `run` neighbours, and `step` elements on the next.
  struct Place {
    std::byte* to;
    std::int64_t run, step;
  };
  Place key_place(const Token& token, std::int64_t h) const {
    const AttentionStrides& s = c_.k_cache_strides;
    auto* const cache = static_cast<std::byte*>(c_.k_cache);
    if (!c_.vectorized_pages)
      return {cache + offset(s, token.page, h, token.page_row) * cache_size_, c_.head_dim_qk, c_.head_dim_qk};
    return {cache + (token.page * s.batch + h * s.head + token.page_row * unit_) * cache_size_, unit_,
            c_.page_size * unit_};
  }
  Place value_place(const Token& token, std::int64_t h) const {
    const AttentionStrides& s = c_.v_cache_strides;
    auto* const cache = static_cast<std::byte*>(c_.v_cache);
    if (!c_.vectorized_pages)
      return {cache + offset(s, token.page, h, token.page_row) * cache_size_, c_.head_dim_v, c_.head_dim_v};
    const std::int64_t first = token.page_row / unit_ * c_.head_dim_v * unit_ + token.page_row % unit_;
    return {cache + (token.page * s.batch + h * s.head + first) * cache_size_, 1, unit_};
  }
  void store(std::span<const float> x, const Place& place) const {
    std::byte* to = place.to;
    for (auto run = static_cast<std::size_t>(place.run); !x.empty(); to += place.step * cache_size_) {
      store_elements(cache_type_, x.first(run), to);
      x = x.subspan(run);
    }
  }

  /// Divides a row by its scale, which is read or, where the call chooses it, written.
  void scale(std::span<float> x, const AttentionScale& read, float* written, const AttentionStrides& written_strides,
             const Token& token, std::int64_t b, std::int64_t h) const {
    float unit = 1.0F;
    if (written != nullptr) {
      float largest = 0.0F;
      for (const float value : x) largest = std::max(largest, std::abs(value));
      unit = row_scale(largest, c_.cache);
      written[offset(written_strides, token.page, h, token.page_row)] = unit;
    } else if (read.data != nullptr) {
      unit = read.data[c_.page_scale ? token.page * read.batch + h * read.head + token.page_row * read.block
                                     : b * read.batch + h * read.head];
    }
    if (unit != 1.0F)
      for (float& value : x) value /= unit;
  }

  /// Reads a row, and turns its first elements by their position.
  void turn(const std::byte* from, std::int64_t position, std::span<float> x) const {
    load_elements(type_, from, x);
    const Rotary& r = c_.rotary;
    if (r.dim == 0) return;
    const auto half = static_cast<std::size_t>(r.dim / 2);
    const bool apart = r.style == RotaryStyle::half;
    const std::size_t step = apart ? 1 : 2, second = apart ? half : 1;
    const float* const cosines = r.cos + position * r.row_stride;
    const float* const sines = r.sin + position * r.row_stride;
    for (std::size_t i = 0; i < half; ++i) {
      const float a = x[step * i], b = x[step * i + second];
      x[step * i] = a * cosines[i] - b * sines[i];
      x[step * i + second] = b * cosines[i] + a * sines[i];
    }
  }

  const AppendKv& c_;
  ElementType type_, cache_type_;
  std::int64_t size_, cache_size_, unit_;
  bool copied_;  ///< rows that are not turned go to the cache as they are
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
