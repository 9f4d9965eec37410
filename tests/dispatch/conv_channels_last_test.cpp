// Copies with channels as neighbours that CPU kernels read: element for element, of every size of element, order of
// dimensions and gap; and what is read as it lies.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "dispatch/conv/channels_last.hpp"
#include "problem/conv/problem.hpp"
#include "problem/derive.hpp"
#include "runtime/aligned_buffer.hpp"
#include "runtime/cpu/thread_pool.hpp"

namespace tilesmith {
namespace {

struct Tensor {
  std::int64_t members, groups, channels;
  ConvSpatial size;
};

/// Visits (group, member, channel, pixel) and the element's place by strides.
template <class Visit>
void each_element(const Tensor& t, const ConvStrides& s, Visit visit) {
  for (std::int64_t g = 0; g < t.groups; ++g)
    for (std::int64_t n = 0; n < t.members; ++n)
      for (std::int64_t c = 0; c < t.channels; ++c)
        for (std::int64_t z = 0; z < t.size[0]; ++z)
          for (std::int64_t y = 0; y < t.size[1]; ++y)
            for (std::int64_t x = 0; x < t.size[2]; ++x)
              visit(n * s.batch + g * s.group + c * s.channel + z * s.spatial[0] + y * s.spatial[1] + x * s.spatial[2]);
}

/// Channels first, with gaps: behind lines, planes, channels and members, and between the pixels of a line.
ConvStrides channels_first(const Tensor& t, std::int64_t line_gap, std::int64_t channel_gap, std::int64_t pixel_step,
                           bool filters) {
  ConvStrides s;
  s.spatial[2] = pixel_step;
  s.spatial[1] = t.size[2] * pixel_step + line_gap;
  s.spatial[0] = t.size[1] * s.spatial[1];
  s.channel = t.size[0] * s.spatial[0] + channel_gap;
  (filters ? s.batch : s.group) = t.channels * s.channel;
  (filters ? s.group : s.batch) = filters ? t.members * s.batch : t.groups * s.group + line_gap;
  return s;
}

template <class Element>
std::vector<Element> elements(const Tensor& t, const ConvStrides& s) {
  std::int64_t last = 0;
  each_element(t, s, [&](std::int64_t at) { last = std::max(last, at); });
  std::vector<Element> all(static_cast<std::size_t>(last + 1));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<Element>(i * 40503U + i / 251);
  return all;
}

template <class Element>
void expect_same(const Tensor& t, const void* want, const ConvStrides& want_strides, const void* got,
                 const ConvStrides& got_strides) {
  ASSERT_NE(want, got);
  EXPECT_EQ(got_strides.channel, 1);
  std::vector<Element> expected, copied;
  each_element(t, want_strides, [&](auto at) { expected.push_back(static_cast<const Element*>(want)[at]); });
  each_element(t, got_strides, [&](auto at) { copied.push_back(static_cast<const Element*>(got)[at]); });
  EXPECT_EQ(copied, expected);
}

/// with_channels_last in memory that the next call takes.
ConvArguments copied(const ConvProblem& p, const ConvArguments& a, bool reads_w, const ThreadTeam& team) {
  static AlignedBuffer memory;
  memory.reserve(channels_last_bytes(p, reads_w));
  return with_channels_last(p, a, reads_w, team, memory.data());
}

template <class Element>
void copies_are_exact(DataType type) {
  ThreadPool pool(3);
  for (const std::int64_t channels : {2, 3, 16, 21, 37})
    for (const std::int64_t groups : {1, 2})
      for (const ConvSpatial& size : {ConvSpatial{1, 1, 7}, {1, 5, 33}, {2, 3, 5}, {1, 19, 16}, {3, 1, 1}})
        for (const std::int64_t gap : {0, 5})
          for (const std::int64_t pixel_step : {1, 2}) {
            SCOPED_TRACE(::testing::Message()
                         << groups << " x " << channels << ", gap " << gap << ", step " << pixel_step);
            ConvProblem p{.data_type = type,
                          .type_out = DataType::fp32,
                          .batch = 3,
                          .groups = groups,
                          .c = channels,
                          .k = 6,
                          .in_d = size[0],
                          .in_h = size[1],
                          .in_w = size[2]};
            const Tensor image{p.batch, groups, channels, p.in()};
            ConvArguments a;
            a.x_strides = channels_first(image, gap, 0, pixel_step, false);
            const auto x = elements<Element>(image, a.x_strides);
            a.x = x.data();
            const ConvArguments forward = copied(p, a, false, pool);
            expect_same<Element>(image, a.x, a.x_strides, forward.x, forward.x_strides);

            // Filters as large as the image: the gradient of the image reads them and y, of one pixel.
            p.direction = ConvDirection::backward_data;
            p.filter_d = size[0];
            p.filter_h = size[1];
            p.filter_w = size[2];
            const Tensor filters{p.k, groups, channels, p.filter()}, y{p.batch, groups, p.k, p.out()};
            a = {};
            a.w_strides = channels_first(filters, gap, gap, pixel_step, true);
            a.y_strides = channels_first(y, gap, 3, pixel_step, false);
            const auto w = elements<Element>(filters, a.w_strides), dy = elements<Element>(y, a.y_strides);
            a.w = w.data();
            a.y = dy.data();
            const ConvArguments backward = copied(p, a, true, pool);
            expect_same<Element>(filters, a.w, a.w_strides, backward.w, backward.w_strides);
            expect_same<Element>(y, a.y, a.y_strides, backward.y, backward.y_strides);
            EXPECT_EQ(copied(p, a, false, pool).w, a.w) << "packed filters are no tensor";
          }
}

TEST(ConvChannelsLast, CopiesAreExact) {
  copies_are_exact<std::uint32_t>(DataType::fp32);
  copies_are_exact<std::uint16_t>(DataType::bf16);
  copies_are_exact<std::uint8_t>(DataType::int8);
}

TEST(ConvChannelsLast, CopiesLieInTheWorkspaceOfPlansWhoseChannelsAreApart) {
  ConvProblem p{.data_type = DataType::bf16, .batch = 2, .c = 64, .k = 80, .in_h = 6, .in_w = 7, .filter_h = 3};
  Dispatcher dispatcher({.threads = 1});
  const auto last = dispatcher.plan(p);
  ASSERT_TRUE(last) << last.error().text();
  p = derived(p, dense_arguments(p, ConvLayout::channels_first));
  const auto first = dispatcher.plan(p);
  ASSERT_TRUE(first) << first.error().text();
  const WorkspaceRegion& copies = (*first)->workspace().back();
  EXPECT_FALSE(copies.library_only);
  EXPECT_EQ(copies.bytes, 2 * (2 * 64 * 6 * 7 + 80 * 64 * 3));
  EXPECT_EQ(copies.bytes, channels_last_bytes(p, true));
  EXPECT_EQ(copies.offset + copies.bytes, (*first)->workspace_bytes());
  EXPECT_LE((*last)->workspace_bytes(), copies.offset) << "channels last are read as they lie";
  EXPECT_EQ(channels_last_bytes(p, false), 2 * 2 * 64 * 6 * 7);
}

/// A caller's workspace is all that a call works in: nothing behind it is written, and it is enough.
TEST(ConvChannelsLast, TheCallersWorkspaceIsEnough) {
  Dispatcher dispatcher({.threads = 1});
  for (const ConvDirection direction :
       {ConvDirection::forward, ConvDirection::backward_data, ConvDirection::backward_weight})
    for (const bool packed : {false, true}) {
      if (packed && direction == ConvDirection::backward_weight) continue;
      ConvProblem p{.direction = direction,
                    .data_type = DataType::fp32,
                    .type_out = DataType::fp32,
                    .batch = 2,
                    .c = 37,
                    .k = 50,
                    .in_h = 9,
                    .in_w = 11,
                    .filter_h = 3,
                    .filter_w = 2,
                    .packed_w = packed};
      const std::vector<float> some(1 << 16, 1.0F);
      std::vector<float> out(1 << 16);
      ConvArguments a = dense_arguments(p, ConvLayout::channels_first);
      a.x = a.y = a.w = some.data();
      (direction == ConvDirection::forward ? a.y : direction == ConvDirection::backward_data ? a.x : a.w) = nullptr;
      a.out = out.data();
      AlignedBuffer panels;
      if (packed) {
        ConvProblem plain = p;
        plain.packed_w = false;
        const auto bytes = dispatcher.packed_w_bytes(plain);
        ASSERT_TRUE(bytes) << bytes.error().text();
        panels.reserve(*bytes);
        const ConvStrides strides = dense_arguments(plain, ConvLayout::channels_first).w_strides;
        ASSERT_TRUE(dispatcher.pack_w(plain, some.data(), strides, panels.data()));
        a.w = panels.data();
      }
      const auto plan = dispatcher.plan(derived(p, a));
      ASSERT_TRUE(plan) << plan.error().text();
      ASSERT_GT((*plan)->workspace_bytes(), 0U);
      constexpr std::byte kGuard{0x5a};
      AlignedBuffer workspace;
      workspace.reserve((*plan)->workspace_bytes() + 4096);
      std::fill_n(workspace.data(), (*plan)->workspace_bytes() + 4096, kGuard);
      ASSERT_TRUE((*plan)->run(a, {.workspace = workspace.data()}));
      EXPECT_TRUE(std::all_of(workspace.data() + (*plan)->workspace_bytes(),
                              workspace.data() + (*plan)->workspace_bytes() + 4096,
                              [&](std::byte b) { return b == kGuard; }));
      // Of ones: products, as many as taps and channels meet there.
      const std::size_t element = direction == ConvDirection::backward_data ? 3 * 11 + 3 : 0;
      constexpr int kProducts[] = {37 * 3 * 2, 50 * 3 * 2, 2 * 7 * 10};
      EXPECT_EQ(out[element], kProducts[static_cast<int>(direction)]);
    }
}

/// A plan that knows nothing of it gathers, and is right.
TEST(ConvChannelsLast, PlansOfOtherLayoutsReadChannelsThatAreApart) {
  const ConvProblem p{.data_type = DataType::fp32, .type_out = DataType::fp32, .c = 37, .k = 50, .in_h = 9, .in_w = 11};
  const std::vector<float> ones(1 << 16, 1.0F);
  std::vector<float> x(1 << 16), out(1 << 16);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i / 99);  // channels, of 9 x 11 pixels
  ConvArguments a = dense_arguments(p, ConvLayout::channels_first);
  a.x = x.data();
  a.w = ones.data();
  a.out = out.data();
  Dispatcher dispatcher({.threads = 1});
  const auto plan = dispatcher.plan(p);
  ASSERT_TRUE(plan) << plan.error().text();
  ASSERT_TRUE((*plan)->run(a, {}));
  for (std::size_t i = 0; i < 50 * 99; ++i) ASSERT_EQ(out[i], 36 * 37 / 2) << i;
}

TEST(ConvChannelsLast, NeighboursAreReadAsTheyLie) {
  ThreadPool pool(1);
  for (const std::int64_t groups : {1, 4})
    for (const std::int64_t channels : {1, 5})
      for (const ConvDirection direction :
           {ConvDirection::forward, ConvDirection::backward_data, ConvDirection::backward_weight}) {
        const ConvProblem p{.direction = direction,
                            .batch = 2,
                            .groups = groups,
                            .c = channels,
                            .k = 3,
                            .in_h = 6,
                            .in_w = 7,
                            .filter_h = 2,
                            .filter_w = 3};
        const std::vector<std::uint16_t> some(10000);
        ConvArguments a = dense_arguments(p, ConvLayout::channels_last);
        a.x = a.w = a.y = some.data();
        const ConvArguments same = copied(p, a, true, pool);
        EXPECT_EQ(same.x, a.x);
        EXPECT_EQ(same.w, a.w);
        EXPECT_EQ(same.y, a.y);
        // A lone channel has no step.
        a.x_strides.channel = a.w_strides.channel = channels == 1 ? 1000 : 1;
        EXPECT_EQ(copied(p, a, true, pool).x, a.x);
      }
}

}  // namespace
}  // namespace tilesmith
