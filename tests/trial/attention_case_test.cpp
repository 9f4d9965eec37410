#include "trial/attention/case.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace tilesmith {
namespace {

AttentionProblem small() {
  return {.batch = 2, .heads_q = 4, .heads_kv = 2, .seqlen_q = 3, .seqlen_k = 5, .head_dim_qk = 16, .head_dim_v = 8};
}
HostArray floats(std::vector<std::int64_t> shape) {
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
  return make_array(ElementType::fp32, std::move(shape), std::vector<float>(count, 1.0F));
}
HostArray integers(std::vector<std::int64_t> shape) {
  HostArray array = floats(std::move(shape));
  return make_array(ElementType::int32, array.shape, array.to_floats());
}

TEST(AttentionCase, OneSeedMakesOneCase) {
  const auto first = AttentionCase::create({small(), {.seed = 3}}),
             again = AttentionCase::create({small(), {.seed = 3}}),
             other = AttentionCase::create({small(), {.seed = 4}});
  ASSERT_TRUE(first && again && other);
  const auto k = [&](const AttentionCase& c) {
    return std::string(static_cast<const char*>(c.arguments().k), 2 * 2 * 5 * 16 * 2);
  };
  EXPECT_EQ(k(*first), k(*again));
  EXPECT_NE(k(*first), k(*other));
  EXPECT_FLOAT_EQ(first->arguments().scale, 0.25F);
  EXPECT_EQ(AttentionCase::create({small(), {.scale = 0.0F}})->arguments().scale, 0) << "a scale of 0 is a scale";
}

TEST(AttentionCase, BiasesBroadcastAsInNumPy) {
  AttentionProblem problem = small();
  problem.bias = BiasKind::elementwise;
  const std::tuple<std::vector<std::int64_t>, std::array<std::int64_t, 4>> shapes[] = {{{2, 4, 3, 5}, {60, 15, 5, 1}},
                                                                                       {{4, 3, 5}, {0, 15, 5, 1}},
                                                                                       {{3, 5}, {0, 0, 5, 1}},
                                                                                       {{5}, {0, 0, 0, 1}},
                                                                                       {{}, {0, 0, 0, 0}},
                                                                                       {{1, 4, 1, 5}, {0, 5, 0, 1}},
                                                                                       {{2, 1, 3, 1}, {3, 0, 1, 0}}};
  for (const auto& [shape, strides] : shapes) {
    AttentionInputs inputs;
    inputs.bias = floats(shape);
    const auto made = AttentionCase::create({problem, {}}, std::move(inputs));
    ASSERT_TRUE(made) << shape_text(shape) << made.error().text();
    const BiasStrides s = made->arguments().bias_strides;
    EXPECT_EQ((std::array{s.batch, s.head, s.row, s.column}), strides) << shape_text(shape);
    EXPECT_EQ(*made->arguments().bias, 1.0F) << "the given bias, not a random one";
  }
}

TEST(AttentionCase, WhatDoesNotFitIsRefusedByName) {
  AttentionProblem problem = small();
  struct Wrong {
    const char* message;
    const char* hint;
    void (*change)(AttentionProblem&, AttentionInputs&);
  };
  const Wrong all[] = {
      {"q has shape (2, 4, 5, 16)", "shape (2, 4, 3, 16)",
       [](auto&, auto& in) {
         in.q = floats({2, 4, 5, 16});
       }},
      {"v has shape ()", "shape (2, 2, 5, 8)", [](auto&, auto& in) { in.v = floats({}); }},
      {"k has elements of type int32", "floating-point",
       [](auto&, auto& in) {
         in.k = integers({2, 2, 5, 16});
       }},
      {"bias has elements of type int32", "floating-point",
       [](auto& p, auto& in) {
         p.bias = BiasKind::elementwise, in.bias = integers({3, 5});
       }},
      {"bias has shape (2, 5)", "broadcasts to (2, 4, 3, 5)",
       [](auto& p, auto& in) {
         p.bias = BiasKind::elementwise, in.bias = floats({2, 5});
       }},
      {"bias has shape (1, 1, 1, 1, 1)", "broadcasts to",
       [](auto& p, auto& in) {
         p.bias = BiasKind::elementwise, in.bias = floats({1, 1, 1, 1, 1});
       }},
      {"alibi has elements of type int32", "floating-point",
       [](auto& p, auto& in) { p.bias = BiasKind::alibi, in.alibi = integers({4}); }},
      {"alibi has shape (2,)", "shape (4,)",
       [](auto& p, auto& in) { p.bias = BiasKind::alibi, in.alibi = floats({2}); }},
      {"sink has shape ()", "shape (4,)", [](auto& p, auto& in) { p.sink = true, in.sink = floats({}); }},
      {"cu_seqlens_q has 2 offsets", "batch + 1 = 3",
       [](auto& p, auto& in) {
         p.mode = SequenceMode::group, in.cu_seqlens_q = {0, 3};
       }},
      {"cu_seqlens_q[0] is 1", "0",
       [](auto& p, auto& in) {
         p.mode = SequenceMode::group, in.cu_seqlens_q = {1, 2, 3};
       }},
      {"cu_seqlens_k: sequence 1 has length -2", "0 to 5",
       [](auto& p, auto& in) {
         p.mode = SequenceMode::group, in.cu_seqlens_k = {0, 4, 2};
       }},
      {"cu_seqlens_k: sequence 0 has length 6", "0 to 5",
       [](auto& p, auto& in) {
         p.mode = SequenceMode::group, in.cu_seqlens_k = {0, 6, 7};
       }},
      {"heads_q 4 is not a multiple", "", [](auto& p, auto&) { p.heads_kv = 3; }},
  };
  for (const Wrong& wrong : all) {
    AttentionProblem changed = problem;
    AttentionInputs inputs;
    wrong.change(changed, inputs);
    const auto made = AttentionCase::create({changed, {}}, std::move(inputs));
    ASSERT_FALSE(made) << wrong.message;
    EXPECT_EQ(made.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(made.error().message.find(wrong.message), std::string::npos) << made.error().message;
    EXPECT_NE(made.error().hint.find(wrong.hint), std::string::npos) << made.error().hint;
  }
  problem.soft_cap = true;
  const auto negative = AttentionCase::create({problem, {.soft_cap = -1}});
  ASSERT_FALSE(negative);
  EXPECT_NE(negative.error().message.find("soft_cap is -1"), std::string::npos) << negative.error().message;
  EXPECT_NE(negative.error().hint.find("positive"), std::string::npos) << negative.error().hint;
}

TEST(AttentionCase, OutputsLieAsTheLayoutSays) {
  AttentionProblem problem = small();
  problem.lse = true;
  for (const AttentionLayout layout : {AttentionLayout::bhsd, AttentionLayout::bshd}) {
    const auto made = AttentionCase::create({problem, {.layout = layout}});
    ASSERT_TRUE(made) << made.error().text();
    const std::vector<OutputSpec> outputs = made->outputs();
    ASSERT_EQ(outputs.size(), 2U);
    std::vector<std::uint16_t> memory(2 * 4 * 3 * 8);
    EXPECT_EQ(bytes_of(outputs[0]), memory.size() * 2);
    for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::uint16_t>(i);
    const HostArray o = to_array(outputs[0], memory.data());
    const bool bhsd = layout == AttentionLayout::bhsd;
    EXPECT_EQ(o.shape, (bhsd ? std::vector<std::int64_t>{2, 4, 3, 8} : std::vector<std::int64_t>{2, 3, 4, 8}));
    EXPECT_EQ(std::memcmp(o.data.data(), memory.data(), o.data.size()), 0) << "arrays have the layout of the memory";
    EXPECT_EQ(outputs[1].name, "lse");
    EXPECT_EQ(to_array(outputs[1], memory.data()).shape, (std::vector<std::int64_t>{2, 4, 3}));
  }
}

TEST(AttentionCase, RandomGroupsReachTheLongest) {
  AttentionProblem problem = small();
  problem.mode = SequenceMode::group;
  problem.batch = 5;
  const auto made = AttentionCase::create({problem, {.seed = 9}});
  ASSERT_TRUE(made) << made.error().text();
  const AttentionArguments a = made->arguments();
  EXPECT_EQ(a.cu_seqlens_q[5] - a.cu_seqlens_q[4], 3);
  EXPECT_EQ(a.cu_seqlens_k[5] - a.cu_seqlens_k[4], 5);
  double pairs = 0;
  for (int b = 0; b < 5; ++b)
    pairs += 4.0 * (a.cu_seqlens_q[b + 1] - a.cu_seqlens_q[b]) * (a.cu_seqlens_k[b + 1] - a.cu_seqlens_k[b]);
  EXPECT_EQ(made->visible_pairs(), pairs);
}

}  // namespace
}  // namespace tilesmith
