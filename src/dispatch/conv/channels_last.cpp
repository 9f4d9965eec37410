#include "dispatch/conv/channels_last.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "dispatch/workspace.hpp"
#include "problem/conv/problem.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

/// A tensor of `members` (images, or the filters of all groups) of pixels (or taps) of channels, and its copy.
struct Turned {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::int64_t element_bytes = 1;
  std::int64_t groups = 1, group_step = 0;  ///< of filters; those of an image are channels
  std::int64_t members = 1, member_step = 0;
  std::array<std::int64_t, 2> line_counts{1, 1}, line_steps{};
  std::int64_t pixels = 1, pixel_step = 1;  ///< of a line
  std::int64_t channels = 1, channel_step = 1;

  [[nodiscard]] std::int64_t lines() const { return line_counts[0] * line_counts[1]; }
  [[nodiscard]] std::size_t bytes() const {
    return static_cast<std::size_t>(groups * members * lines() * pixels * channels * element_bytes);
  }

  static constexpr std::int64_t kPixels = 64;  // of a piece: what is written of it stays in the second-level cache
  [[nodiscard]] std::int64_t pieces_of_line() const { return (pixels + kPixels - 1) / kPixels; }
  [[nodiscard]] std::int64_t pieces() const { return groups * members * lines() * pieces_of_line(); }
  [[nodiscard]] std::int64_t pieces_of_task() const {
    constexpr std::int64_t kElements = 1 << 15;
    return std::max<std::int64_t>(1, kElements / (std::min(pixels, kPixels) * channels));
  }
  [[nodiscard]] std::int64_t tasks() const { return (pieces() + pieces_of_task() - 1) / pieces_of_task(); }
};

template <class T>
struct Block {
  static constexpr int kSize = 16 / sizeof(T);
  typedef T Row __attribute__((vector_size(16)));
  Row rows[kSize];

  Block(const T* from, std::int64_t step) {
#pragma GCC unroll 16
    for (int i = 0; i < kSize; ++i) std::memcpy(&rows[i], from + i * step, sizeof(rows[i]));
  }
  template <std::size_t... I>
  static Row interleaved(Row a, Row b, int from, std::index_sequence<I...>) {
    return from == 0 ? __builtin_shufflevector(a, b, (I / 2 + I % 2 * kSize)...)
                     : __builtin_shufflevector(a, b, (I / 2 + I % 2 * kSize + kSize / 2)...);
  }
  /// Rows become columns: each round interleaves the rows of both halves.
  void turn() {
    constexpr auto kLanes = std::make_index_sequence<kSize>{};
#pragma GCC unroll 4
    for (int round = 1; round < kSize; round *= 2) {
      const Block half = *this;
#pragma GCC unroll 8
      for (int i = 0; i < kSize / 2; ++i) {
        rows[2 * i] = interleaved(half.rows[i], half.rows[i + kSize / 2], 0, kLanes);
        rows[2 * i + 1] = interleaved(half.rows[i], half.rows[i + kSize / 2], 1, kLanes);
      }
    }
  }
  void write(T* to, std::int64_t step) const {
#pragma GCC unroll 16
    for (int i = 0; i < kSize; ++i) std::memcpy(to + i * step, &rows[i], sizeof(rows[i]));
  }
};

/// In blocks, of which the last ones overlap those before.
template <class T>
void turn_pixels(const Turned& t, const T* from, std::int64_t pixels, T* to) {
  constexpr std::int64_t kSize = Block<T>::kSize;
  if (t.pixel_step == 1 && pixels >= kSize && t.channels >= kSize) {
    for (std::int64_t next_c = 0; next_c < t.channels; next_c += kSize) {
      const std::int64_t c = std::min(next_c, t.channels - kSize);
      for (std::int64_t next_p = 0; next_p < pixels; next_p += kSize) {
        const std::int64_t p = std::min(next_p, pixels - kSize);
        Block<T> block(from + c * t.channel_step + p, t.channel_step);
        block.turn();
        block.write(to + p * t.channels + c, t.channels);
      }
    }
    return;
  }
  for (std::int64_t c = 0; c < t.channels; ++c)
    for (std::int64_t p = 0; p < pixels; ++p) to[p * t.channels + c] = from[c * t.channel_step + p * t.pixel_step];
}

void turn_piece(const Turned& t, std::int64_t piece) {
  const std::int64_t place = piece / t.pieces_of_line(), first = piece % t.pieces_of_line() * Turned::kPixels;
  const std::int64_t line = place % t.lines(), member = place / t.lines();
  const std::int64_t from = member / t.members * t.group_step + member % t.members * t.member_step +
                            line / t.line_counts[1] * t.line_steps[0] + line % t.line_counts[1] * t.line_steps[1] +
                            first * t.pixel_step;
  const std::int64_t to = (place * t.pixels + first) * t.channels;
  const std::int64_t pixels = std::min(Turned::kPixels, t.pixels - first);
  const auto turn = [&]<class T>(T) {
    turn_pixels(t, reinterpret_cast<const T*>(t.from) + from, pixels, reinterpret_cast<T*>(t.to) + to);
  };
  if (t.element_bytes == 4) return turn(std::uint32_t{});
  if (t.element_bytes == 2) return turn(std::uint16_t{});
  turn(std::uint8_t{});
}

/// Those of a call.
struct AllTurned {
  std::array<Turned, 2> tensors;
  std::size_t count = 0;
};

long long turning_tasks(const void* args) {
  const auto& all = *static_cast<const AllTurned*>(args);
  long long tasks = 0;
  for (std::size_t i = 0; i < all.count; ++i) tasks += all.tensors[i].tasks();
  return tasks;
}

void run_turning(const void* args, long long task, void*) {
  const Turned* t = static_cast<const AllTurned*>(args)->tensors.data();
  for (; task >= t->tasks(); ++t) task -= t->tasks();
  const std::int64_t first = task * t->pieces_of_task(), end = std::min(t->pieces(), first + t->pieces_of_task());
  for (std::int64_t piece = first; piece < end; ++piece) turn_piece(*t, piece);
}

/// A tensor of channels that are evenly apart, but not neighbours, as what is to be copied; else no channels. Of
/// filters the channels of one group, of images those of all.
Turned turned_of(const void* data, const ConvStrides& s, std::int64_t members, std::int64_t groups,
                 std::int64_t channels, const ConvSpatial& size, bool filters, std::int64_t element_bytes) {
  Turned t{.from = static_cast<const std::byte*>(data),
           .element_bytes = element_bytes,
           .members = members,
           .member_step = s.batch,
           .channels = 0};
  const bool joins = !filters && groups > 1;
  const std::int64_t all = joins ? groups * channels : channels, step = channels > 1 ? s.channel : s.group;
  if (all == 1 || (joins && channels > 1 && s.group != channels * s.channel) || step == 1) return t;
  if (filters) {
    t.groups = groups;
    t.group_step = s.group;
  }
  t.channels = all;
  t.channel_step = step;
  // Lines that follow one another evenly are one.
  std::size_t d = 3;
  for (; d > 0; --d) {
    if (size[d - 1] == 1) continue;
    if (t.pixels > 1 && s.spatial[d - 1] != t.pixel_step * t.pixels) break;
    if (t.pixels == 1) t.pixel_step = s.spatial[d - 1];
    t.pixels *= size[d - 1];
  }
  for (std::size_t outer = 0; outer < d; ++outer) {
    t.line_counts[outer] = size[outer];
    t.line_steps[outer] = s.spatial[outer];
  }
  return t;
}

ConvStrides dense(std::int64_t groups, std::int64_t members, std::int64_t channels, const ConvSpatial& size,
                  bool filters) {
  ConvStrides s;
  s.channel = 1;
  std::int64_t step = channels * (filters ? 1 : groups);
  for (std::size_t d = 3; d > 0; --d) {
    s.spatial[d - 1] = step;
    step *= size[d - 1];
  }
  s.batch = step;
  s.group = filters ? members * step : channels;
  return s;
}

std::size_t aligned(std::size_t bytes) {
  return (bytes + WorkspaceLayout::kAlignment - 1) / WorkspaceLayout::kAlignment * WorkspaceLayout::kAlignment;
}

}  // namespace

std::size_t channels_last_bytes(const ConvProblem& p, bool reads_w) {
  const auto bytes = [&](std::int64_t members, std::int64_t channels, const ConvSpatial& size) {
    const std::int64_t elements = members * p.groups * channels * size[0] * size[1] * size[2];
    return aligned(static_cast<std::size_t>(elements * bits_of(p.data_type) / 8));
  };
  std::size_t all = 0;
  if (p.direction != ConvDirection::backward_data) all += bytes(p.batch, p.c, p.in());
  if (p.direction != ConvDirection::forward) all += bytes(p.batch, p.k, p.out());
  if (p.direction != ConvDirection::backward_weight && reads_w) all += bytes(p.k, p.c, p.filter());
  return all;
}

ConvArguments with_channels_last(const ConvProblem& p, const ConvArguments& arguments, bool reads_w,
                                 const ThreadTeam& team, void* memory) {
  ConvArguments result = arguments;
  AllTurned all;
  std::array<const void**, 2> places{};
  const auto look_at = [&](const void*& data, ConvStrides& strides, std::int64_t members, std::int64_t channels,
                           const ConvSpatial& size, bool filters) {
    const Turned t = turned_of(data, strides, members, p.groups, channels, size, filters, bits_of(p.data_type) / 8);
    if (t.channels == 0) return;
    strides = dense(p.groups, members, channels, size, filters);
    places[all.count] = &data;
    all.tensors[all.count++] = t;
  };
  if (p.direction != ConvDirection::backward_data) look_at(result.x, result.x_strides, p.batch, p.c, p.in(), false);
  if (p.direction != ConvDirection::forward) look_at(result.y, result.y_strides, p.batch, p.k, p.out(), false);
  if (p.direction != ConvDirection::backward_weight && reads_w)
    look_at(result.w, result.w_strides, p.k, p.c, p.filter(), true);
  if (all.count == 0) return result;

  auto* to = static_cast<std::byte*>(memory);
  for (std::size_t i = 0; i < all.count; ++i) {
    all.tensors[i].to = to;
    *places[i] = to;
    to += aligned(all.tensors[i].bytes());
  }
  TsCpuKernel turning{};
  turning.stage_count = 1;
  turning.scratch_bytes = [](const void*) -> long long { return 0; };
  turning.stages[0] = {turning_tasks, run_turning};
  team.run(turning, &all);
  return result;
}

}  // namespace tilesmith
