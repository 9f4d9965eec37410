#include "dispatch/serving/cpu_appender.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "dispatch/serving/cpu.hpp"
#include "dispatch/serving/cpu_turn.hpp"
#include "problem/serving/problem.hpp"
#include "problem/serving/types.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kManyTasks = 32;

}  // namespace

CpuAppender::CpuAppender(const AppendKv& call)
    : c_(call),
      type_(floating_element(call.data_type)),
      cache_type_(cache_element(call.data_type, call.cache)),
      size_(static_cast<std::int64_t>(size_of(type_))),
      cache_size_(static_cast<std::int64_t>(size_of(cache_type_))),
      unit_(page_vector(call)),
      parts_(
          std::clamp<std::int64_t>(kManyTasks / std::max<std::int64_t>(call.batch * call.seqlen, 1), 1, call.heads_kv)),
      copied_(cache_type_ == type_ && !call.vectorized_pages) {}

CpuAppender::Token CpuAppender::token_of(std::int64_t b, std::int64_t t, std::int64_t index, std::int64_t row) const {
  const bool group = c_.mode == SequenceMode::group;
  Token out{group ? 0 : b, group ? index : t, b, b, row, c_.positions != nullptr ? c_.positions[index] : row};
  if (c_.slots != nullptr) {
    out.page = c_.slots[index] < 0 ? -1 : c_.slots[index] / c_.page_size;
    out.page_row = c_.slots[index] % c_.page_size;
  } else if (c_.pages.numbers != nullptr) {
    const std::int64_t begin = c_.pages.offsets != nullptr ? c_.pages.offsets[b] : b * c_.pages.stride;
    out.page = c_.pages.numbers[begin + row / c_.page_size];
    out.page_row = row % c_.page_size;
  }
  return out;
}

void CpuAppender::run(long long task) const {
  const std::int64_t part = task % parts_, b = task / parts_ / c_.seqlen, t = task / parts_ % c_.seqlen;
  const NewTokens tokens = new_tokens(c_, b);
  if (t >= tokens.count) return;
  const Token token = token_of(b, t, tokens.first + t, tokens.row + t);
  thread_local std::vector<float> kept;
  kept.resize(std::max(kept.size(), static_cast<std::size_t>(std::max(c_.head_dim_qk, c_.head_dim_v))));
  const std::span room(kept);
  const std::span turned = room.first(static_cast<std::size_t>(c_.head_dim_qk));
  for (std::int64_t h = c_.heads_q * part / parts_; h < c_.heads_q * (part + 1) / parts_; ++h) {
    auto* const to = static_cast<std::byte*>(c_.q_out) + offset(c_.q_out_strides, token.batch, h, token.row) * size_;
    load(at(c_.q, c_.q_strides, token, h), token.position, turned);
    store_elements(type_, std::span<const float>(turned), to);
  }
  if (token.page < 0) return;
  for (std::int64_t h = c_.heads_kv * part / parts_; h < c_.heads_kv * (part + 1) / parts_; ++h) {
    write_key(token, h, turned);
    write_value(token, h, room.first(static_cast<std::size_t>(c_.head_dim_v)));
  }
}

void CpuAppender::write_key(const Token& token, std::int64_t h, std::span<float> room) const {
  const std::byte* const key = at(c_.k, c_.k_strides, token, h);
  if (copied_ && c_.rotary.dim == 0) {
    std::memmove(key_place(token, h).to, key, room.size() * static_cast<std::size_t>(size_));
    return;
  }
  load(key, token.position, room);
  scale(room, c_.k_scale, c_.k_row_scale, c_.k_row_scale_strides, token, h);
  store(room, key_place(token, h));
}

void CpuAppender::write_value(const Token& token, std::int64_t h, std::span<float> room) const {
  const std::byte* const value = at(c_.v, c_.v_strides, token, h);
  if (copied_) {
    std::memmove(value_place(token, h).to, value, room.size() * static_cast<std::size_t>(size_));
    return;
  }
  load_elements(type_, value, room);
  scale(room, c_.v_scale, c_.v_row_scale, c_.v_row_scale_strides, token, h);
  store(room, value_place(token, h));
}

const std::byte* CpuAppender::at(const void* tensor, const AttentionStrides& s, const Token& token,
                                 std::int64_t h) const {
  return static_cast<const std::byte*>(tensor) + offset(s, token.batch, h, token.row) * size_;
}

CpuAppender::Place CpuAppender::key_place(const Token& token, std::int64_t h) const {
  const AttentionStrides& s = c_.k_cache_strides;
  auto* const cache = static_cast<std::byte*>(c_.k_cache);
  if (!c_.vectorized_pages)
    return {cache + offset(s, token.page, h, token.page_row) * cache_size_, c_.head_dim_qk, c_.head_dim_qk};
  return {cache + (token.page * s.batch + h * s.head + token.page_row * unit_) * cache_size_, unit_,
          c_.page_size * unit_};
}

CpuAppender::Place CpuAppender::value_place(const Token& token, std::int64_t h) const {
  const AttentionStrides& s = c_.v_cache_strides;
  auto* const cache = static_cast<std::byte*>(c_.v_cache);
  if (!c_.vectorized_pages)
    return {cache + offset(s, token.page, h, token.page_row) * cache_size_, c_.head_dim_v, c_.head_dim_v};
  const std::int64_t first = token.page_row / unit_ * c_.head_dim_v * unit_ + token.page_row % unit_;
  return {cache + (token.page * s.batch + h * s.head + first) * cache_size_, 1, unit_};
}

void CpuAppender::store(std::span<const float> x, const Place& place) const {
  std::byte* to = place.to;
  for (auto run = static_cast<std::size_t>(place.run); !x.empty(); to += place.step * cache_size_) {
    store_elements(cache_type_, x.first(run), to);
    x = x.subspan(run);
  }
}

/// Divides a row by its scale, which is read or, where the call chooses it, written.
void CpuAppender::scale(std::span<float> x, const AttentionScale& read, float* written,
                        const AttentionStrides& written_strides, const Token& token, std::int64_t h) const {
  float unit = 1.0F;
  if (written != nullptr) {
    float largest = 0.0F;
    for (const float value : x) largest = std::max(largest, std::abs(value));
    unit = row_scale(largest, c_.cache);
    written[offset(written_strides, token.page, h, token.page_row)] = unit;
  } else if (read.data != nullptr) {
    unit = read.data[c_.page_scale ? token.page * read.batch + h * read.head + token.page_row * read.block
                                   : token.sequence * read.batch + h * read.head];
  }
  if (unit != 1.0F)
    for (float& value : x) value /= unit;
}

/// Reads a row, and turns its first elements by their position.
void CpuAppender::load(const std::byte* from, std::int64_t position, std::span<float> x) const {
  load_elements(type_, from, x);
  if (c_.rotary.dim > 0) turn(c_.rotary, position, x.data());
}

}  // namespace tilesmith
