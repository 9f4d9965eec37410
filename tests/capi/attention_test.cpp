#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "capi/attention/call.hpp"
#include "capi/failure.hpp"
#include "dispatch/allocation_count.hpp"
#include "dispatch/test_store.hpp"
#include "tilesmith.h"

namespace tilesmith::capi {
namespace {

struct Buffers {
  std::vector<float> q, k, v, o, lse;
};

/// One head, 33 queries, 47 keys, head dim 64, and buffers for it. All logits are equal and every value row is its
/// key's number, so that a result is the mean position.
tilesmith_attention sample(Buffers& buffers) {
  tilesmith_attention call = TILESMITH_ATTENTION_INIT;
  call.data_type = TILESMITH_FP32;
  call.seqlen_q = 33;
  call.seqlen_k = 47;
  call.head_dim_qk = call.head_dim_v = 64;
  call.traits = TILESMITH_LSE;
  EXPECT_EQ(tilesmith_attention_dense(&call, TILESMITH_BHSD), TILESMITH_SUCCESS);
  buffers.q.assign(33 * 64, 0.0f);
  buffers.k.assign(47 * 64, 0.5f);
  buffers.v.resize(47 * 64);
  for (std::size_t i = 0; i < buffers.v.size(); ++i) buffers.v[i] = static_cast<float>(i / 64);
  buffers.o.assign(33 * 64, NAN);
  buffers.lse.assign(33, NAN);
  call.q = buffers.q.data();
  call.k = buffers.k.data();
  call.v = buffers.v.data();
  call.o = buffers.o.data();
  call.lse = buffers.lse.data();
  return call;
}

std::string failure_of(const tilesmith_attention& call) {
  return message_of(tilesmith_attention_forward(nullptr, &call));
}

template <class Change>
std::string failure_with(Change change) {
  Buffers buffers;
  tilesmith_attention call = sample(buffers);
  change(call);
  return failure_of(call);
}

TEST(AttentionCall, Tf32IsFloat32WhereNoInstructionsAre) {
  EXPECT_EQ(failure_with([](auto& c) { c.data_type = TILESMITH_TF32; }), "");
}

TEST(AttentionCall, MeansAndLse) {
  Buffers buffers;
  const tilesmith_attention call = sample(buffers);
  ASSERT_EQ(failure_of(call), "");
  for (const float value : buffers.o) ASSERT_NEAR(value, 23.0f, 1e-4f);
  for (const float value : buffers.lse) ASSERT_NEAR(value, std::log(47.0f), 1e-5f);
}

TEST(AttentionCall, APlannedCallAllocatesNothing) {
  Buffers buffers;
  const tilesmith_attention call = sample(buffers);
  ASSERT_EQ(failure_of(call), "");
  const std::size_t before = testing::allocations();
  for (int i = 0; i < 100; ++i) ASSERT_EQ(tilesmith_attention_forward(nullptr, &call), TILESMITH_SUCCESS);
  EXPECT_EQ(testing::allocations(), before);
}

TEST(AttentionCall, ManyThreadsAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([t] {
      Buffers buffers;
      tilesmith_attention call = sample(buffers);
      call.seqlen_q = 33 - t % 4;  // a few problems, planned by racing threads
      for (int i = 0; i < 50; ++i) ASSERT_EQ(failure_of(call), "");
      ASSERT_NEAR(buffers.o[0], 23.0f, 1e-4f);
      tilesmith_plan_info plan = TILESMITH_PLAN_INFO_INIT;
      ASSERT_EQ(tilesmith_last_plan(&plan), TILESMITH_SUCCESS);
      ASSERT_STREQ(plan.operation, "attention_fwd");
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(AttentionCall, NumbersThatAreNoValue) {
  EXPECT_EQ(failure_with([](auto& c) { c.data_type = 5; }), "data_type is 5");
  EXPECT_EQ(failure_with([](auto& c) { c.mode = -1; }), "mode is -1");
  EXPECT_EQ(failure_with([](auto& c) { c.mask = 3; }), "mask is 3");
  EXPECT_EQ(failure_with([](auto& c) { c.bias_kind = 3; }), "bias_kind is 3");
  EXPECT_EQ(failure_with([](auto& c) { c.traits |= 1024; }), "traits is 0x408");
  EXPECT_EQ(failure_with([](auto& c) { c.cache = 3; }), "cache is 3");
  EXPECT_EQ(failure_with([](auto& c) { c.cache = (std::int64_t{1} << 32) + 1; }), "cache is 4294967297");
  EXPECT_EQ(failure_with([](auto& c) { c.reserved = 1; }), "a reserved field is not 0");
  EXPECT_EQ(failure_with([](auto& c) { c.device = {TILESMITH_CPU, 1}; }), "the device's index is 1 with the kind 1");
  EXPECT_EQ(failure_with([](auto& c) { c.device = {-3, 0}; }), "the device's kind is -3");
  EXPECT_EQ(failure_with([](auto& c) { c.heads_q = 3, c.heads_kv = 2; }), "heads_q 3 is not a multiple of heads_kv 2");
}

TEST(AttentionCall, NothingGivenIsIgnored) {
  static constexpr float kNumber = 0;
  static constexpr std::int32_t kOffset = 0;
  const auto unasked = [](const char* field) {
    return std::string(field) + " is given, and the problem does not ask for it";
  };
  EXPECT_EQ(failure_with([](auto& c) { c.bias = &kNumber; }), unasked("bias"));
  EXPECT_EQ(failure_with([](auto& c) { c.alibi = &kNumber; }), unasked("alibi"));
  EXPECT_EQ(failure_with([](auto& c) { c.sink = &kNumber; }), unasked("sink"));
  EXPECT_EQ(failure_with([](auto& c) { c.soft_cap = 1; }), unasked("softcap"));
  EXPECT_EQ(failure_with([](auto& c) { c.dropout_probability = 0.5f; }), unasked("dropout_probability"));
  EXPECT_EQ(failure_with([](auto& c) { c.cu_seqlens_q = &kOffset; }), unasked("cu_seqlens_q"));
  EXPECT_EQ(failure_with([](auto& c) { c.cu_seqlens_k = &kOffset; }), unasked("cu_seqlens_k"));
  EXPECT_EQ(failure_with([](auto& c) { c.traits = 0; }), unasked("lse"));
}

TEST(AttentionCall, EveryMissingPointerIsNamed) {
  EXPECT_EQ(failure_with([](auto& c) { c.q = nullptr; }), "q is null");
  EXPECT_EQ(failure_with([](auto& c) { c.k = nullptr; }), "k is null");
  EXPECT_EQ(failure_with([](auto& c) { c.v = nullptr; }), "v is null");
  EXPECT_EQ(failure_with([](auto& c) { c.o = nullptr; }), "o is null");
  EXPECT_EQ(failure_with([](auto& c) { c.lse = nullptr; }), "lse is null");
  EXPECT_EQ(failure_with([](auto& c) { c.bias_kind = TILESMITH_BIAS_ELEMENTWISE; }), "bias is null");
  EXPECT_EQ(failure_with([](auto& c) { c.bias_kind = TILESMITH_BIAS_ALIBI; }), "alibi is null");
  EXPECT_EQ(failure_with([](auto& c) { c.traits |= TILESMITH_SINK; }), "sink is null");
  EXPECT_EQ(failure_with([](auto& c) { c.mode = TILESMITH_GROUP; }), "cu_seqlens_q is null");
}

TEST(AttentionCall, OffsetsEndWithinTheTensors) {
  Buffers buffers;
  tilesmith_attention call = sample(buffers);
  const std::int32_t offsets_q[] = {0, 13, 33}, offsets_k[] = {0, 40, 47};
  call.mode = TILESMITH_GROUP;
  call.batch = 2;
  call.total_q = 33;
  call.total_k = 47;
  ASSERT_EQ(tilesmith_attention_dense(&call, TILESMITH_BHSD), TILESMITH_SUCCESS);
  call.cu_seqlens_q = offsets_q;
  call.cu_seqlens_k = offsets_k;
  ASSERT_EQ(failure_of(call), "");
  for (std::size_t i = 0; i < buffers.o.size(); ++i) ASSERT_NEAR(buffers.o[i], i / 64 < 13 ? 19.5f : 43.0f, 1e-4f);
  call.total_q = 32;
  EXPECT_EQ(failure_of(call), "cu_seqlens_q[2] is 33");
  call.total_q = 33;
  call.total_k = 46;
  EXPECT_EQ(failure_of(call), "cu_seqlens_k[2] is 47");
}

TEST(AttentionCall, PackedTensorsWithoutRowsMayBeNull) {
  Buffers buffers;
  tilesmith_attention call = sample(buffers);
  const std::int32_t nothing[] = {0, 0, 0}, some[] = {0, 0, 33};
  call.mode = TILESMITH_GROUP;
  call.batch = 2;
  call.total_q = call.total_k = 0;
  ASSERT_EQ(tilesmith_attention_dense(&call, TILESMITH_BHSD), TILESMITH_SUCCESS);
  call.cu_seqlens_q = call.cu_seqlens_k = nothing;
  call.q = call.k = call.v = nullptr;
  call.o = nullptr;
  call.lse = nullptr;
  EXPECT_EQ(failure_of(call), "");
  call.total_q = 33;
  call.cu_seqlens_q = some;
  EXPECT_EQ(failure_of(call), "q is null");
}

TEST(AttentionCall, AlignmentMattersToCudaAlone) {
  Buffers buffers;
  tilesmith_attention call = sample(buffers);
  const Device cuda{DeviceKind::cuda, 0};
  EXPECT_FALSE(problem_of(call, cuda)->unaligned);
  EXPECT_FALSE(problem_of(call, cuda)->negative_scale);
  call.scale = -1;
  EXPECT_TRUE(problem_of(call, cuda)->negative_scale);
  call.v = buffers.v.data() + 1;
  EXPECT_TRUE(problem_of(call, cuda)->unaligned);
  call.v = buffers.v.data();
  call.o_strides.row = 66;
  EXPECT_TRUE(problem_of(call, cuda)->unaligned);
  EXPECT_FALSE(problem_of(call, Device{})->unaligned);
  EXPECT_FALSE(problem_of(call, Device{})->negative_scale);
}

TEST(AttentionCall, Scales) {
  Buffers buffers;
  tilesmith_attention call = sample(buffers);
  const Device cuda{DeviceKind::cuda, 0};
  const float scales[3] = {};
  call.data_type = TILESMITH_FP8BF16;
  call.traits |= TILESMITH_BLOCK_SCALE;
  call.q_scale = {scales, 1, 2, 3};
  call.k_scale = {scales + 1, 4, 5, 6};
  call.v_scale = {scales + 2, 7, 8, 9};
  const Result<AttentionProblem> problem = problem_of(call, cuda);
  ASSERT_TRUE(problem) << problem.error().text();
  EXPECT_TRUE(problem->block_scale);
  EXPECT_EQ(problem->data_type, DataType::fp8bf16);
  const Result<AttentionArguments> arguments = arguments_of(call, cuda);
  ASSERT_TRUE(arguments) << arguments.error().text();
  const auto expect = [](const AttentionScale& s, const float* data, std::int64_t first) {
    EXPECT_EQ(s.data, data);
    EXPECT_EQ(s.batch, first);
    EXPECT_EQ(s.head, first + 1);
    EXPECT_EQ(s.block, first + 2);
  };
  expect(arguments->q_scale, scales, 1);
  expect(arguments->k_scale, scales + 1, 4);
  expect(arguments->v_scale, scales + 2, 7);

  call.traits &= ~static_cast<std::uint32_t>(TILESMITH_BLOCK_SCALE);
  EXPECT_EQ(problem_of(call, cuda).error().message, "q_scale.block is given, and the problem does not ask for it");
  call.q_scale.block = call.k_scale.block = call.v_scale.block = 0;
  EXPECT_FALSE(problem_of(call, cuda)->block_scale);
}

TEST(AttentionCall, ScalesBelongToFp8) {
  static constexpr float kScale = 1;
  const auto unasked = [](const char* field) {
    return std::string(field) + " is given, and the problem does not ask for it";
  };
  EXPECT_EQ(failure_with([](auto& c) { c.q_scale.data = &kScale; }), unasked("q_scale"));
  EXPECT_EQ(failure_with([](auto& c) { c.k_scale.data = &kScale; }), unasked("k_scale"));
  EXPECT_EQ(failure_with([](auto& c) { c.v_scale.data = &kScale; }), unasked("v_scale"));
  EXPECT_EQ(failure_with([](auto& c) { c.v_scale.block = 1; }), unasked("v_scale.block"));
  EXPECT_EQ(failure_with([](auto& c) { c.traits |= TILESMITH_BLOCK_SCALE; }), "block scales with fp32");
}

TEST(AttentionCall, ADenseCallNeedsAProblem) {
  tilesmith_attention call = TILESMITH_ATTENTION_INIT;
  EXPECT_EQ(tilesmith_attention_dense(&call, 2), TILESMITH_INVALID_ARGUMENT);
  call.heads_q = 0;
  EXPECT_EQ(tilesmith_attention_dense(&call, TILESMITH_BSHD), TILESMITH_INVALID_ARGUMENT);
  call.heads_q = 4;
  call.seqlen_q = 3;
  ASSERT_EQ(tilesmith_attention_dense(&call, TILESMITH_BSHD), TILESMITH_SUCCESS);
  EXPECT_EQ(call.q_strides.row, 4 * 128);
  EXPECT_EQ(call.q_strides.head, 128);
}

}  // namespace
}  // namespace tilesmith::capi
