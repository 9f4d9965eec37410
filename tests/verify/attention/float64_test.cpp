// The reference against formulas written another way (long double, one output element at a time, no common
// subexpressions), and against relations that hold whatever the formula.
#include "verify/attention/float64.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "base/philox.hpp"
#include "verify/random_attention.hpp"

namespace tilesmith {
namespace {

using Real = long double;

// The weight exp(s_ij) of a visible pair, straight from the definition in kernels/contract/attention.h; 0 when
// invisible.
Real weight(const RandomAttention& c, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
  const AttentionTensors& t = c.tensors;
  const std::int64_t lq = t.cu_seqlens_q ? t.cu_seqlens_q[b + 1] - t.cu_seqlens_q[b] : t.seqlen_q;
  const std::int64_t lk = t.cu_seqlens_k ? t.cu_seqlens_k[b + 1] - t.cu_seqlens_k[b] : t.seqlen_k;
  const std::int64_t o = t.mask_bottom_right ? lk - lq : 0;
  if (t.window_left >= 0 && !(j >= i + o - t.window_left)) return 0;
  if (t.window_right >= 0 && !(j <= i + o + t.window_right)) return 0;
  Real s = 0;
  for (std::int64_t d = 0; d < t.head_dim_qk; ++d)
    s += static_cast<Real>(c.get(t.q, b, h, i, d)) * static_cast<Real>(c.get(t.k, b, h * t.heads_kv / t.heads_q, j, d));
  s *= static_cast<Real>(t.scale);
  if (t.soft_cap != 0) s = static_cast<Real>(t.soft_cap) * std::tanh(s / static_cast<Real>(t.soft_cap));
  if (t.bias)
    s += static_cast<Real>(t.bias[b * t.bias_strides.batch + h * t.bias_strides.head + i * t.bias_strides.row +
                                  j * t.bias_strides.column]);
  if (t.alibi) s -= static_cast<Real>(t.alibi[b * t.alibi_batch_stride + h]) * static_cast<Real>(std::llabs(i + o - j));
  return std::exp(s);
}

bool kept(const AttentionTensors& t, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
  const auto low = [](auto x) { return static_cast<std::uint32_t>(x); };
  const auto w = philox4x32({low(j / 8), low(i), low(b * t.heads_q + h), low(t.offset)},
                            {low(t.seed), low(t.seed >> 32) ^ low(t.offset >> 32)});
  std::uint32_t values[8];
  for (std::size_t word = 0; word < 4; ++word) {
    values[2 * word] = w[word] & 0xffffu;
    values[2 * word + 1] = w[word] >> 16;
  }
  return values[j % 8] >= t.drop_threshold;
}

void expect_matches_definition(const CaseOptions& options) {
  SCOPED_TRACE(describe(options));
  const RandomAttention c(options);
  const AttentionTensors& t = c.tensors;
  const auto result = float64_attention(t, 1);
  ASSERT_TRUE(result) << result.error().text();
  std::int64_t rows_seen = 0;
  for (std::int64_t b = 0; b < t.batch; ++b) {
    const SequenceSpan sequence = sequence_of(t, b);
    for (std::int64_t h = 0; h < t.heads_q; ++h)
      for (std::int64_t i = 0; i < sequence.seqlen_q; ++i, ++rows_seen) {
        const auto row = static_cast<std::size_t>(output_row(t, b, h, i));
        Real sum = t.sink ? std::exp(static_cast<Real>(t.sink[h])) : 0;
        std::vector<Real> p;
        for (std::int64_t j = 0; j < sequence.seqlen_k; ++j) sum += p.emplace_back(weight(c, b, h, i, j));
        if (sum == 0)
          EXPECT_EQ(result->lse[row], -std::numeric_limits<double>::infinity());
        else
          EXPECT_NEAR(result->lse[row], static_cast<double>(std::log(sum)), 1e-12 * (1 + std::abs(result->lse[row])));
        for (std::int64_t d = 0; d < t.head_dim_v; ++d) {
          Real want = 0;
          Real spread = 0;
          for (std::int64_t j = 0; j < sequence.seqlen_k; ++j) {
            if (sum == 0 || !kept(t, b, h, i, j)) continue;
            const Real term = p[static_cast<std::size_t>(j)] / sum / (1 - t.drop_threshold / Real{65536}) *
                              static_cast<Real>(c.get(t.v, b, h * t.heads_kv / t.heads_q, j, d));
            want += term;
            spread += term * term;
          }
          const std::size_t at = row * static_cast<std::size_t>(t.head_dim_v) + static_cast<std::size_t>(d);
          ASSERT_NEAR(result->o[at], static_cast<double>(want), 1e-12)
              << "b " << b << " h " << h << " i " << i << " d " << d;
          ASSERT_NEAR(result->spread[at], static_cast<double>(std::sqrt(spread)), 1e-6);
        }
      }
  }
  EXPECT_EQ(rows_seen, output_rows(t));
}

TEST(Float64Attention, MatchesTheDefinitionOnRandomProblems) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CaseOptions options = random_options(static_cast<ElementType>(1 + seed % 5), seed);
    options.head_dim_qk =
        std::min<std::int64_t>(options.head_dim_qk, 20);  // the definition costs seqlen_q * seqlen_k * dims
    options.head_dim_v = std::min<std::int64_t>(options.head_dim_v, 20);
    options.batch = std::min<std::int64_t>(options.batch, 2);
    expect_matches_definition(options);
  }
}

TEST(Float64Attention, MatchesTheDefinitionAcrossBlockEdges) {
  for (const std::int64_t rows : {31, 32, 33, 65})
    for (const std::int64_t keys : {63, 64, 65, 129})
      expect_matches_definition({.batch = 1,
                                 .heads_q = 1,
                                 .heads_kv = 1,
                                 .seqlen_q = rows,
                                 .seqlen_k = keys,
                                 .head_dim_qk = 3,
                                 .head_dim_v = 2,
                                 .window_left = 40,
                                 .window_right = 7,
                                 .bottom_right = true});
}

TEST(Float64Attention, AnyThreadCountGivesTheSameBits) {
  const RandomAttention c({.seqlen_q = 70, .seqlen_k = 90, .drop_threshold = 6000});
  const auto one = float64_attention(c.tensors, 1);
  const auto many = float64_attention(c.tensors, 5);
  ASSERT_TRUE(one && many);
  EXPECT_EQ(one->o, many->o);
  EXPECT_EQ(one->lse, many->lse);
}

TEST(Float64Attention, RowsWithoutKeysAreZeroWithAndWithoutSink) {
  // Top-left: query i sees keys i - 2 .. i, and there are 6 keys, so the queries from 8 on see nothing.
  for (const bool sink : {false, true}) {
    const CaseOptions options{.batch = 1,
                              .heads_q = 2,
                              .heads_kv = 1,
                              .seqlen_q = 40,
                              .seqlen_k = 6,
                              .sink = sink,
                              .window_left = 2,
                              .window_right = 0};
    const RandomAttention c(options);
    const auto result = float64_attention(c.tensors);
    ASSERT_TRUE(result);
    for (std::int64_t i = 8; i < 40; ++i) {
      const auto row = static_cast<std::size_t>(output_row(c.tensors, 0, 1, i));
      for (std::size_t d = 0; d < 6; ++d) EXPECT_EQ(result->o[row * 6 + d], 0.0);
      if (sink)
        EXPECT_DOUBLE_EQ(result->lse[row], static_cast<double>(c.sink[1]));
      else
        EXPECT_EQ(result->lse[row], -std::numeric_limits<double>::infinity());
    }
    expect_matches_definition(options);
  }
}

TEST(Float64Attention, MinusInfinityInTheBiasMasks) {
  RandomAttention c({.batch = 1, .heads_q = 1, .heads_kv = 1, .seqlen_q = 2, .seqlen_k = 5, .bias = true});
  for (std::size_t j = 0; j < 5; ++j)
    c.bias[j] = -std::numeric_limits<float>::infinity();  // row 0 has no key with any weight
  c.bias[5 + 2] = -std::numeric_limits<float>::infinity();
  const auto result = float64_attention(c.tensors);
  ASSERT_TRUE(result);
  for (std::size_t d = 0; d < 6; ++d) {
    EXPECT_EQ(result->o[d], 0.0);
    EXPECT_TRUE(std::isfinite(result->o[6 + d]));
  }
  EXPECT_EQ(result->lse[0], -std::numeric_limits<double>::infinity());
}

TEST(Float64Attention, ConstantValuesComeOutUnchanged) {
  RandomAttention c({.bias = true, .window_right = 3, .soft_cap = 4});
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t h = 0; h < 2; ++h)
      for (std::int64_t j = 0; j < 13; ++j)
        for (std::int64_t d = 0; d < 6; ++d) c.set(c.tensors.v, b, h, j, d, 0.25 * static_cast<double>(d) - 1);
  const auto result = float64_attention(c.tensors);
  ASSERT_TRUE(result);
  for (std::size_t at = 0; at < result->o.size(); ++at)
    EXPECT_NEAR(result->o[at], 0.25 * static_cast<double>(at % 6) - 1, 1e-14);
}

TEST(Float64Attention, AWindowOverEverythingIsNoWindow) {
  const auto none = float64_attention(RandomAttention({}).tensors);
  const auto full = float64_attention(RandomAttention({.window_left = 13, .window_right = 13}).tensors);
  const auto huge = float64_attention(RandomAttention({.window_left = std::numeric_limits<std::int64_t>::max(),
                                                       .window_right = std::numeric_limits<std::int64_t>::max(),
                                                       .bottom_right = true})
                                          .tensors);
  ASSERT_TRUE(none && full && huge);
  EXPECT_EQ(none->o, full->o);
  EXPECT_EQ(none->o, huge->o);
}

// A window wider than both lengths was cut to them, and then moved by the diagonal past the keys.
TEST(Float64Attention, AMovedWindowOverEverythingIsNoWindow) {
  const auto none = float64_attention(RandomAttention({}).tensors);
  const RandomAttention wide({.window_left = 200, .window_right = 200});
  for (const std::int64_t diagonal : {100, -100}) {
    AttentionTensors moved = wide.tensors;
    moved.diagonal = diagonal;
    const auto result = float64_attention(moved);
    ASSERT_TRUE(none && result);
    EXPECT_EQ(none->o, result->o) << diagonal;
  }
}

TEST(Float64Attention, TheFirstCausalRowIsTheFirstValue) {
  const RandomAttention c({.type = ElementType::bf16, .window_right = 0});
  const auto result = float64_attention(c.tensors);
  ASSERT_TRUE(result);
  for (std::int64_t h = 0; h < 4; ++h)
    for (std::int64_t d = 0; d < 6; ++d)
      EXPECT_EQ(result->o[static_cast<std::size_t>(output_row(c.tensors, 1, h, 0) * 6 + d)],
                c.get(c.tensors.v, 1, h / 2, 0, d));
}

TEST(Float64Attention, PermutingTheBatchPermutesTheResult) {
  RandomAttention c({});
  const auto before = float64_attention(c.tensors);
  for (TensorView* view : {&c.tensors.q, &c.tensors.k, &c.tensors.v}) {
    const std::int64_t heads = view == &c.tensors.q ? 4 : 2;
    const std::int64_t rows = view == &c.tensors.q ? 9 : 13;
    const std::int64_t columns = view == &c.tensors.v ? 6 : 8;
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t d = 0; d < columns; ++d) {
          const double first = c.get(*view, 0, h, row, d);
          c.set(*view, 0, h, row, d, c.get(*view, 1, h, row, d));
          c.set(*view, 1, h, row, d, first);
        }
  }
  const auto after = float64_attention(c.tensors);
  ASSERT_TRUE(before && after);
  const auto half = static_cast<std::ptrdiff_t>(before->o.size() / 2);
  EXPECT_TRUE(std::equal(before->o.begin(), before->o.begin() + half, after->o.begin() + half));
  EXPECT_TRUE(std::equal(after->o.begin(), after->o.begin() + half, before->o.begin() + half));
}

TEST(Float64Attention, PiecesOfTheKeysCombineByTheirLse) {
  const RandomAttention c({.batch = 1, .seqlen_k = 40});
  const auto whole = float64_attention(c.tensors);
  AttentionTensors left = c.tensors;
  left.seqlen_k = 17;
  AttentionTensors right = c.tensors;
  right.seqlen_k = 23;
  right.k.data = static_cast<const float*>(c.tensors.k.data) + 17 * c.tensors.k.strides.row;
  right.v.data = static_cast<const float*>(c.tensors.v.data) + 17 * c.tensors.v.strides.row;
  const auto first = float64_attention(left);
  const auto second = float64_attention(right);
  ASSERT_TRUE(whole && first && second);
  for (std::size_t row = 0; row < whole->lse.size(); ++row) {
    const double w1 = std::exp(first->lse[row] - whole->lse[row]);
    const double w2 = std::exp(second->lse[row] - whole->lse[row]);
    EXPECT_NEAR(w1 + w2, 1.0, 1e-13);
    for (std::size_t d = 0; d < 6; ++d)
      EXPECT_NEAR(whole->o[row * 6 + d], w1 * first->o[row * 6 + d] + w2 * second->o[row * 6 + d], 1e-13);
  }
}

TEST(Float64Attention, DropoutKeepsTheExpectedShareAndLeavesTheLse) {
  RandomAttention c(
      {.batch = 1, .heads_q = 2, .heads_kv = 1, .seqlen_q = 64, .seqlen_k = 512, .drop_threshold = 16384});
  std::int64_t kept_pairs = 0;
  for (std::int64_t i = 0; i < 64; ++i)
    for (std::int64_t j = 0; j < 512; ++j) kept_pairs += keeps(c.tensors, 0, 0, i, j);
  EXPECT_NEAR(static_cast<double>(kept_pairs) / (64.0 * 512), 0.75, 0.012);  // five standard deviations
  const auto with = float64_attention(c.tensors);
  c.tensors.drop_threshold = 0;
  const auto without = float64_attention(c.tensors);
  ASSERT_TRUE(with && without);
  EXPECT_EQ(with->lse, without->lse);
}

TEST(AttentionTensors, RowPositionsInvertRowNumbers) {
  for (const bool group : {false, true}) {
    const RandomAttention c({.batch = 5, .group = group, .seed = 3});
    std::int64_t rows = 0;
    for (std::int64_t b = 0; b < 5; ++b)
      for (std::int64_t h = 0; h < 4; ++h)
        for (std::int64_t i = 0; i < sequence_of(c.tensors, b).seqlen_q; ++i, ++rows) {
          const RowPosition position = row_position(c.tensors, output_row(c.tensors, b, h, i));
          EXPECT_EQ(position.b, b);
          EXPECT_EQ(position.h, h);
          EXPECT_EQ(position.i, i);
        }
    EXPECT_EQ(rows, output_rows(c.tensors));
  }
}

TEST(AttentionTensors, RefusesCallsWithoutMeaning) {
  const RandomAttention c({.group = true});
  const auto refused = [&](auto change, const std::string& word) {
    AttentionTensors t = c.tensors;
    change(t);
    const Status status = check_tensors(t);
    ASSERT_FALSE(status) << word;
    EXPECT_NE(status.error().text().find(word), std::string::npos) << status.error().text();
  };
  EXPECT_TRUE(check_tensors(c.tensors));
  refused([](AttentionTensors& t) { t.heads_kv = 3; }, "heads_kv must divide");
  refused([](AttentionTensors& t) { t.heads_kv = 0; }, "heads_kv must divide");
  refused([](AttentionTensors& t) { t.seqlen_q = -1; }, "seqlen_q is -1");
  refused([](AttentionTensors& t) { t.drop_threshold = 65536; }, "65536");
  refused([](AttentionTensors& t) { t.cu_seqlens_k = nullptr; }, "group mode needs both");
  refused([](AttentionTensors& t) { t.v.data = nullptr; }, "v has elements");
  refused([](AttentionTensors& t) { t.q.type = ElementType::int8; }, "int8");
  const std::int32_t decreasing[] = {0, 4, 3};
  refused([&](AttentionTensors& t) { t.cu_seqlens_k = decreasing; }, "cu_seqlens_k[2] - cu_seqlens_k[1] is -1");
  const std::int32_t late[] = {1, 4, 5};
  refused([&](AttentionTensors& t) { t.cu_seqlens_q = late; }, "cu_seqlens_q[0] is 1");
}

}  // namespace
}  // namespace tilesmith
