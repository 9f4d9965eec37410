// Guarded buffers and the exact check on one-hot inputs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "verify/attention/one_hot.hpp"
#include "verify/attention/reference.hpp"
#include "verify/emulated_kernel.hpp"
#include "verify/guarded_buffer.hpp"
#include "verify/random_attention.hpp"

namespace tilesmith {
namespace {

TEST(GuardedBuffer, UnwrittenElementsAreNotANumberInEveryFloatingType) {
  for (const ElementType type : {ElementType::fp64, ElementType::fp32, ElementType::fp16, ElementType::bf16,
                                 ElementType::fp8e4m3, ElementType::fp8e5m2}) {
    const GuardedBuffer buffer(type, {1, 2, 3, 4}, {0, 12, 4, 1});
    for (std::size_t i = 0; i < 24; ++i)
      EXPECT_TRUE(std::isnan(load_element(type, buffer.view().data, i))) << to_string(type);
    EXPECT_FALSE(buffer.damage());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.view().data) % 64, 0u);
  }
}

TEST(GuardedBuffer, FindsWritesOutsideTheTensor) {
  const TensorExtents extents{2, 2, 3, 5};
  const TensorStrides strides{64, 32, 8, 1};  // gaps of three after each row, more after each head
  const auto damage_after = [&](std::ptrdiff_t element) {
    GuardedBuffer buffer(ElementType::fp16, extents, strides);
    buffer.fill(std::vector<float>(60, 1.0F));
    EXPECT_FALSE(buffer.damage());
    buffer.storage()[static_cast<std::size_t>(static_cast<std::ptrdiff_t>(buffer.offset()) + element * 2)] =
        std::byte{0};
    return buffer.damage().value_or("none");
  };
  EXPECT_NE(damage_after(-1).find("before the tensor"), std::string::npos) << damage_after(-1);
  EXPECT_NE(damage_after(-1000).find("2000 bytes before"), std::string::npos) << damage_after(-1000);
  EXPECT_NE(damage_after(5).find("element 5, in a gap"), std::string::npos) << damage_after(5);
  EXPECT_NE(damage_after(31).find("element 31, in a gap"), std::string::npos);
  EXPECT_EQ(damage_after(4), "none");
  const std::ptrdiff_t end = 64 + 32 + 16 + 5;
  EXPECT_EQ(damage_after(end - 1), "none");
  EXPECT_NE(damage_after(end).find("byte 0 behind"), std::string::npos) << damage_after(end);
  EXPECT_NE(damage_after(end + 500).find("byte 1000 behind"), std::string::npos);
}

// Every byte of every layout: it belongs to the tensor, or its change is found where it is.
TEST(GuardedBuffer, KnowsWhichBytesAreTheTensors) {
  const TensorExtents extents{2, 2, 3, 5};
  const TensorStrides layouts[] = {{60, 15, 5, 1}, {64, 32, 8, 1}, {90, 5, 20, 1}, {40, 20, 1, 4}, {80, 1, 2, 7}};
  const RowFilter some = [](std::int64_t batch, std::int64_t row) { return batch == 0 ? row != 1 : row == 2; };
  for (const TensorStrides& s : layouts)
    for (const RowFilter& wanted : {RowFilter(), some}) {
      GuardedBuffer buffer(ElementType::bf16, extents, s);
      std::vector<bool> own(buffer.storage().size());
      for (std::int64_t b = 0; b < extents.batch; ++b)
        for (std::int64_t h = 0; h < extents.head; ++h)
          for (std::int64_t r = 0; r < extents.row; ++r)
            for (std::int64_t c = 0; c < extents.column; ++c)
              for (std::size_t byte = 0; byte < 2; ++byte)
                if (!wanted || wanted(b, r))
                  own[buffer.offset() + byte +
                      2 * static_cast<std::size_t>(b * s.batch + h * s.head + r * s.row + c * s.column)] = true;
      for (std::size_t at = buffer.offset() - 40; at < own.size() - buffer.offset() + 40; ++at) {
        buffer.storage()[at] = std::byte{1};
        EXPECT_EQ(buffer.damage(wanted).has_value(), !own[at]) << at;
        buffer.storage()[at] = std::byte{0xff};
      }
      buffer.storage().front() = std::byte{1};
      EXPECT_NE(buffer.damage(wanted).value_or("none").find("4096 bytes before"), std::string::npos);
      buffer.storage().front() = std::byte{0xff};
      buffer.storage().back() = std::byte{1};
      EXPECT_NE(buffer.damage(wanted).value_or("none").find("byte 4095 behind"), std::string::npos);
    }
}

TEST(GuardedBuffer, HoldsWhatItIsFilledWith) {
  const TensorExtents extents{2, 3, 4, 5};
  std::vector<float> values(120);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  for (const TensorStrides& strides :
       {TensorStrides{60, 20, 5, 1}, TensorStrides{60, 5, 15, 1}, TensorStrides{200, 7, 21, 1}}) {
    GuardedBuffer buffer(ElementType::fp32, extents, strides);
    buffer.fill(values);
    AttentionTensors shape;
    shape.batch = 2;
    shape.heads_q = 3;
    shape.seqlen_q = 4;
    EXPECT_EQ(read_output(shape, buffer.view(), 5), values);
    EXPECT_FALSE(buffer.damage());
  }
  GuardedBuffer nothing(ElementType::fp32, {0, 3, 4, 5}, {});
  nothing.fill({});
  EXPECT_FALSE(nothing.damage());
}

TEST(ReadOutput, FollowsTheOffsetsOfGroupMode) {
  const RandomAttention c({.batch = 3, .group = true, .heads_inside = true, .row_gap = 2, .seed = 5});
  const std::vector<float> q = read_output(c.tensors, c.tensors.q, c.tensors.head_dim_qk);
  std::size_t seen = 0;
  for (std::int64_t b = 0; b < 3; ++b)
    for (std::int64_t h = 0; h < 4; ++h)
      for (std::int64_t i = 0; i < sequence_of(c.tensors, b).seqlen_q; ++i)
        for (std::int64_t d = 0; d < 8; ++d, ++seen)
          EXPECT_EQ(static_cast<double>(q[static_cast<std::size_t>(output_row(c.tensors, b, h, i) * 8 + d)]),
                    c.get(c.tensors.q, b, h, i, d));
  EXPECT_EQ(seen, q.size());
}

// A case whose tensors hold one-hot inputs.
std::unique_ptr<RandomAttention> one_hot_case(const CaseOptions& options, const OneHotInputs& inputs) {
  auto c = std::make_unique<RandomAttention>(options);
  AttentionTensors& t = c->tensors;
  const std::int64_t total_k = t.group_mode() ? t.cu_seqlens_k[t.batch] : 0;
  for (std::int64_t b = 0; b < t.batch; ++b) {
    const SequenceSpan s = sequence_of(t, b);
    for (std::int64_t h = 0; h < t.heads_q; ++h)
      for (std::int64_t i = 0; i < s.seqlen_q; ++i)
        for (std::int64_t d = 0; d < t.head_dim_qk; ++d)
          c->set(t.q, b, h, i, d,
                 static_cast<double>(inputs.q[static_cast<std::size_t>(output_row(t, b, h, i) * t.head_dim_qk + d)]));
    for (std::int64_t h = 0; h < t.heads_kv; ++h)
      for (std::int64_t j = 0; j < s.seqlen_k; ++j) {
        const std::int64_t row = t.group_mode() ? h * total_k + s.k_begin + j : (b * t.heads_kv + h) * t.seqlen_k + j;
        for (std::int64_t d = 0; d < t.head_dim_qk; ++d)
          c->set(t.k, b, h, j, d, static_cast<double>(inputs.k[static_cast<std::size_t>(row * t.head_dim_qk + d)]));
        for (std::int64_t d = 0; d < t.head_dim_v; ++d)
          c->set(t.v, b, h, j, d, static_cast<double>(inputs.v[static_cast<std::size_t>(row * t.head_dim_v + d)]));
      }
  }
  return c;
}

// A row whose largest weight meets a value of zero: all the others are below what e4m3 can hold.
TEST(Guards, ARowOfFlushedWeightsMayBeZeroInFp8) {
  const std::int64_t keys = 13, columns = 6;
  RandomAttention problem({.type = ElementType::fp8e4m3,
                           .batch = 1,
                           .heads_q = 1,
                           .heads_kv = 1,
                           .seqlen_q = 9,
                           .seqlen_k = keys,
                           .head_dim_qk = 8,
                           .head_dim_v = columns,
                           .scale = 0.375F});
  AttentionTensors& t = problem.tensors;
  for (std::int64_t c = 0; c < 8; ++c) problem.set(t.q, 0, 0, 0, c, c == 0 ? 4 : 0);
  for (std::int64_t j = 0; j < keys; ++j) problem.set(t.k, 0, 0, j, 0, j == 0 ? 8 : 0);  // the others weigh exp(-12)
  for (std::int64_t c = 0; c < columns; ++c) problem.set(t.v, 0, 0, 0, c, 0);
  const auto exact = float64_attention(t, 1).value();
  const auto reference = AttentionReference::make(t, ElementType::bf16, 1).value();
  std::vector<float> output(exact.o.size());
  for (std::size_t i = 0; i < output.size(); ++i)
    output[i] = static_cast<float>(round_to(ElementType::bf16, exact.o[i]));
  for (std::size_t c = 0; c < columns; ++c) {
    EXPECT_NE(output[c], 0);
    output[c] = 0;
  }
  EXPECT_TRUE(reference.judge(output, {}).passed()) << reference.judge(output, {}).reason;
  for (std::size_t c = columns; c < 2 * columns; ++c) output[c] = 0;  // a row that weighs as usual
  EXPECT_FALSE(reference.judge(output, {}).passed());
}

TEST(OneHot, CorrectKernelsAreExactInEveryTypeAndNoFaultHides) {
  int exact = 0;
  int faults = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    CaseOptions options = random_options(static_cast<ElementType>(1 + seed % 5), 300 + seed);
    options.drop_threshold = 0;
    if (options.soft_cap != 0) options.soft_cap += 25;
    const RandomAttention shape(options);
    const auto inputs = one_hot_inputs(shape.tensors, seed);
    if (!inputs) {
      EXPECT_TRUE(options.head_dim_qk < 8 || options.soft_cap != 0 || size_of(options.type) == 1)
          << describe(options) << inputs.error().text();
      continue;
    }
    const auto c = one_hot_case(options, *inputs);
    const ElementType output_type = size_of(options.type) == 1 ? ElementType::bf16 : options.type;
    const auto reference = AttentionReference::make(c->tensors, output_type, 1);
    ASSERT_TRUE(reference);
    const EmulatedOptions kernel{.block = 16, .splits = 1 + static_cast<std::int64_t>(seed % 3)};
    const EmulatedResult good = emulate_kernel(c->tensors, output_type, kernel);
    const Verdict verdict = reference->judge_exact(good.o);
    ASSERT_TRUE(verdict.passed()) << describe(options) << "\n" << verdict.reason;
    ++exact;
    for (const KernelFault fault : {KernelFault::last_block_dropped, KernelFault::rescale_missing,
                                    KernelFault::stale_split, KernelFault::split_weights_equal}) {
      EmulatedOptions faulty = kernel;
      faulty.fault = fault;
      const EmulatedResult bad = emulate_kernel(c->tensors, output_type, faulty);
      if (bad.o == good.o) continue;
      ++faults;
      const Verdict found = reference->judge_exact(bad.o);
      EXPECT_EQ(found.outcome, Outcome::fail);
      EXPECT_TRUE(found.check == Check::exact || found.check == Check::guards) << found.reason;
    }
  }
  EXPECT_GT(exact, 60);
  EXPECT_GT(faults, 60);
}

TEST(OneHot, OutputsAreRowsOfV) {
  const CaseOptions options{
      .type = ElementType::bf16, .seqlen_q = 20, .seqlen_k = 40, .head_dim_qk = 16, .window_right = 0};
  const auto inputs = one_hot_inputs(RandomAttention(options).tensors, 3);
  ASSERT_TRUE(inputs) << inputs.error().text();
  for (const float value : inputs->v) {
    EXPECT_NE(value, 0.0F);
    EXPECT_LE(std::abs(value), 15.0F);
  }
  const auto c = one_hot_case(options, *inputs);
  const auto exact = float64_attention(c->tensors, 1);
  ASSERT_TRUE(exact);
  for (std::int64_t i = 0; i < 20; ++i) {
    bool found = false;
    for (std::int64_t j = 0; j <= i && !found; ++j) {
      found = true;
      for (std::int64_t d = 0; d < 6; ++d)
        found = found && round_to(ElementType::bf16,
                                  exact->o[static_cast<std::size_t>(output_row(c->tensors, 1, 3, i) * 6 + d)]) ==
                             c->get(c->tensors.v, 1, 1, j, d);
    }
    EXPECT_TRUE(found) << i;
  }
}

TEST(OneHot, SaysWhenNoSuchInputsExist) {
  const auto refused = [](const CaseOptions& options, const char* word) {
    const auto inputs = one_hot_inputs(RandomAttention(options).tensors, 1);
    ASSERT_FALSE(inputs) << word;
    EXPECT_EQ(inputs.error().code, ErrorCode::unsupported);
    EXPECT_NE(inputs.error().text().find(word), std::string::npos) << inputs.error().text();
  };
  refused({.seqlen_k = 300, .head_dim_qk = 8}, "300 keys need 9 dimensions");
  refused({.soft_cap = 5}, "soft cap of 5");
  refused({.drop_threshold = 100}, "dropout");
  refused({.type = ElementType::fp8e4m3, .scale = 1e-6F}, "fp8e4m3 reaches 256");
}

}  // namespace
}  // namespace tilesmith
