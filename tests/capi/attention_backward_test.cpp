#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "capi/attention_backward/call.hpp"
#include "capi/failure.hpp"
#include "dispatch/allocation_count.hpp"
#include "dispatch/test_store.hpp"
#include "tilesmith.h"

namespace tilesmith::capi {
namespace {

constexpr int kQueries = 33, kKeys = 47, kDim = 64;

/// One head, all logits equal, every value row its key's number, and a gradient of ones. So a result is the mean
/// position, dv is the same everywhere, and the logits' gradients are proportional to the distance from the mean.
struct Sample {
  std::vector<float> q = std::vector<float>(kQueries * kDim, 1.0f), k = std::vector<float>(kKeys * kDim, 0.5f),
                     v = std::vector<float>(kKeys * kDim), o = std::vector<float>(kQueries * kDim),
                     dout = std::vector<float>(kQueries * kDim, 1.0f), dq = std::vector<float>(kQueries * kDim, NAN),
                     dk = std::vector<float>(kKeys * kDim, NAN), dv = std::vector<float>(kKeys * kDim, NAN),
                     lse = std::vector<float>(kQueries), bias = std::vector<float>(kKeys, 0.0f),
                     dbias = std::vector<float>(kKeys, NAN);
  tilesmith_attention forward = TILESMITH_ATTENTION_INIT;
  tilesmith_attention_gradients call = TILESMITH_ATTENTION_GRADIENTS_INIT;

  Sample() {
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i / kDim);
    forward.data_type = TILESMITH_FP32;
    forward.seqlen_q = kQueries;
    forward.seqlen_k = kKeys;
    forward.head_dim_qk = forward.head_dim_v = kDim;
    forward.traits = TILESMITH_LSE;
    EXPECT_EQ(message_of(tilesmith_attention_dense(&forward, TILESMITH_BHSD)), "");
    forward.q = q.data();
    forward.k = k.data();
    forward.v = v.data();
    forward.o = o.data();
    forward.lse = lse.data();
    EXPECT_EQ(message_of(tilesmith_attention_forward(nullptr, &forward)), "");
    call.forward = &forward;
    EXPECT_EQ(message_of(tilesmith_attention_backward_dense(&call, TILESMITH_BHSD)), "");
    call.dout = dout.data();
    call.dq = dq.data();
    call.dk = dk.data();
    call.dv = dv.data();
  }
  Sample(const Sample&) = delete;
  Sample& operator=(const Sample&) = delete;

  std::string run() { return message_of(tilesmith_attention_backward(nullptr, &call)); }
};

template <class Change>
std::string failure_with(Change change) {
  Sample sample;
  change(sample);
  return sample.run();
}

TEST(AttentionBackwardCall, GradientsOfAMean) {
  Sample sample;
  ASSERT_EQ(sample.run(), "");
  for (const float value : sample.dv) ASSERT_NEAR(value, static_cast<float>(kQueries) / kKeys, 1e-4f);
  for (const float value : sample.dq) ASSERT_NEAR(value, 0.0f, 1e-3f);  // all keys are alike
  for (std::size_t i = 0; i < sample.dk.size(); ++i) {
    const float distance =
        static_cast<float>(i / kDim) - 23.0f;  // times dim ones, weight 1 / keys, scale 1 / 8, q of 1
    ASSERT_NEAR(sample.dk[i], kQueries * kDim * distance / kKeys / 8, 2e-3f);
  }
}

TEST(AttentionBackwardCall, ABiasThatQueriesShareIsSummed) {
  Sample sample;
  sample.forward.bias_kind = TILESMITH_BIAS_ELEMENTWISE;
  sample.forward.bias = sample.bias.data();
  sample.forward.bias_strides = {0, 0, 0, 1};
  sample.call.traits = TILESMITH_DBIAS;
  sample.call.dbias = sample.dbias.data();
  sample.call.dbias_strides = {0, 0, 0, 1};
  ASSERT_EQ(sample.run(), "");
  for (int j = 0; j < kKeys; ++j)
    ASSERT_NEAR(sample.dbias[static_cast<std::size_t>(j)], kQueries * kDim * (static_cast<float>(j) - 23.0f) / kKeys,
                2e-2f);
}

TEST(AttentionBackwardCall, APlannedCallAllocatesNothing) {
  Sample sample;
  ASSERT_EQ(sample.run(), "");
  const std::size_t before = testing::allocations();
  for (int i = 0; i < 20; ++i) ASSERT_EQ(tilesmith_attention_backward(nullptr, &sample.call), TILESMITH_SUCCESS);
  EXPECT_EQ(testing::allocations(), before);
}

TEST(AttentionBackwardCall, TheForwardMayBeOfAnOlderProgram) {
  Sample sample;
  sample.forward.struct_size = offsetof(tilesmith_attention, q_scale);
  std::memset(&sample.forward.q_scale, 0xff, sizeof sample.forward - offsetof(tilesmith_attention, q_scale));
  EXPECT_EQ(sample.run(), "");
  EXPECT_NEAR(sample.dv[0], static_cast<float>(kQueries) / kKeys, 1e-4f);
  sample.forward.struct_size = 7;
  EXPECT_EQ(sample.run(), "tilesmith_attention.struct_size is 7");
}

TEST(AttentionBackwardCall, WhatRunsTheForwardIsNotRead) {
  Sample sample;
  sample.forward.device = {TILESMITH_CUDA, 5};
  sample.forward.stream = sample.forward.workspace = &sample;
  sample.forward.splits = 4;
  EXPECT_EQ(sample.run(), "");
}

TEST(AttentionBackwardCall, NumbersThatAreNoValue) {
  EXPECT_EQ(failure_with([](auto& s) { s.call.traits = 16; }), "traits is 0x10");
  EXPECT_EQ(failure_with([](auto& s) { s.call.reserved = 1; }), "a reserved field is not 0");
  EXPECT_EQ(failure_with([](auto& s) { s.forward.mask = 3; }), "mask is 3");
  EXPECT_EQ(failure_with([](auto& s) { s.call.device = {-3, 0}; }), "the device's kind is -3");
  EXPECT_EQ(failure_with([](auto& s) { s.call.stream = &s; }), "a stream is given, and the device is the CPU");
  EXPECT_EQ(failure_with([](auto& s) { s.forward.data_type = TILESMITH_FP8; }),
            "attention backward does not run on fp8");
  EXPECT_EQ(failure_with([](auto& s) { s.forward.page_size = 16; }),
            "page_size is 16, and keys in pages have no gradient");
  EXPECT_EQ(failure_with([](auto& s) { s.forward.cache = TILESMITH_KV_INT8; }),
            "cache is 2, traits is 0x8: keys of 8 bits and latent keys have no gradient");
}

TEST(AttentionBackwardCall, NothingGivenIsIgnored) {
  static float number = 0;
  const auto unasked = [](const char* field) {
    return std::string(field) + " is given, and the problem does not ask for it";
  };
  EXPECT_EQ(failure_with([](auto& s) { s.call.dlse = &number; }), unasked("dlse"));
  EXPECT_EQ(failure_with([](auto& s) { s.call.dbias = &number; }), unasked("dbias"));
  EXPECT_EQ(failure_with([](auto& s) { s.call.dalibi = &number; }), unasked("dalibi"));
  EXPECT_EQ(failure_with([](auto& s) { s.call.dsink = &number; }), unasked("dsink"));
}

TEST(AttentionBackwardCall, EveryMissingPointerIsNamed) {
  EXPECT_EQ(failure_with([](auto& s) { s.call.forward = nullptr; }), "forward is null");
  EXPECT_EQ(failure_with([](auto& s) { s.forward.o = nullptr; }), "o is null");
  EXPECT_EQ(failure_with([](auto& s) { s.forward.lse = nullptr; }), "lse is null");
  EXPECT_EQ(failure_with([](auto& s) { s.call.dout = nullptr; }), "dout is null");
  EXPECT_EQ(failure_with([](auto& s) { s.call.dq = nullptr; }), "dq is null");
  EXPECT_EQ(failure_with([](auto& s) { s.call.dk = nullptr; }), "dk is null");
  EXPECT_EQ(failure_with([](auto& s) { s.call.dv = nullptr; }), "dv is null");
  EXPECT_EQ(failure_with([](auto& s) { s.call.traits = TILESMITH_DLSE; }), "dlse is null");
  EXPECT_EQ(failure_with([](auto& s) { s.call.traits = TILESMITH_DSINK; }),
            "dsink is wanted of a problem without sink logits");
}

TEST(AttentionBackwardCall, PackedTensorsWithoutRowsMayBeNull) {
  Sample sample;
  const std::int32_t nothing[] = {0, 0, 0}, some[] = {0, 0, kKeys};
  tilesmith_attention& forward = sample.forward;
  tilesmith_attention_gradients& call = sample.call;
  forward.mode = TILESMITH_GROUP;
  forward.batch = 2;
  forward.total_q = 0;
  forward.total_k = kKeys;
  ASSERT_EQ(message_of(tilesmith_attention_dense(&forward, TILESMITH_BHSD)), "");
  ASSERT_EQ(message_of(tilesmith_attention_backward_dense(&call, TILESMITH_BHSD)), "");
  forward.cu_seqlens_q = nothing;
  forward.cu_seqlens_k = some;
  forward.q = nullptr;
  forward.o = nullptr;
  forward.lse = nullptr;
  call.dout = nullptr;
  call.dq = nullptr;
  ASSERT_EQ(sample.run(), "");
  for (const float value : sample.dk) ASSERT_EQ(value, 0.0f);
  for (const float value : sample.dv) ASSERT_EQ(value, 0.0f);
  forward.total_k = 0;
  forward.cu_seqlens_k = nothing;
  forward.k = forward.v = nullptr;
  call.dk = call.dv = nullptr;
  EXPECT_EQ(sample.run(), "");
  forward.total_k = kKeys;
  forward.cu_seqlens_k = some;
  EXPECT_EQ(sample.run(), "k is null");
}

TEST(AttentionBackwardCall, AlignmentMattersToCudaAlone) {
  Sample sample;
  const Device cuda{DeviceKind::cuda, 0};
  EXPECT_FALSE(problem_of(sample.call, cuda)->unaligned);
  sample.call.dk = sample.dk.data() + 1;
  EXPECT_TRUE(problem_of(sample.call, cuda)->unaligned);
  EXPECT_FALSE(problem_of(sample.call, Device{})->unaligned);
  sample.call.dk = sample.dk.data();
  sample.forward.v = sample.v.data() + 1;
  EXPECT_TRUE(problem_of(sample.call, cuda)->unaligned);
}

}  // namespace
}  // namespace tilesmith::capi
