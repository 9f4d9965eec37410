// Trees of drafted tokens as a bias, and attention with it, by the C interface.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "capi/failure.hpp"
#include "tilesmith.h"

namespace tilesmith {
namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();

bool sees(const std::vector<std::uint32_t>& bits, std::int64_t row, std::int64_t words, std::int64_t t) {
  return (bits[static_cast<std::size_t>(row * words + t / 32)] >> (t % 32) & 1) != 0;
}

TEST(TreeMask, HidesWhatTheBitsHide) {
  std::mt19937 random(7);
  constexpr std::int64_t kBatch = 3, kKeys = 90, kWords = 2;
  const std::int32_t queries[] = {0, 35, 36, 40}, keys[] = {90, 1, 3};  // the last sequence has fewer keys than queries
  std::vector<std::uint32_t> bits(40 * kWords);
  for (std::uint32_t& word : bits) word = static_cast<std::uint32_t>(random());
  tilesmith_tree tree = TILESMITH_TREE_INIT;
  tree.batch = kBatch, tree.seqlen_q = 35, tree.seqlen_k = kKeys, tree.words = kWords;
  tree.bits = bits.data();
  tree.cu_seqlens_q = queries;
  tree.seqlens_k = keys;
  std::vector<float> bias(kBatch * 35 * kKeys, 5.0F);
  ASSERT_EQ(tilesmith_tree_bias(&tree, bias.data()), TILESMITH_SUCCESS);
  int hidden = 0;
  for (std::int64_t b = 0; b < kBatch; ++b)
    for (std::int64_t i = 0; i < 35; ++i)
      for (std::int64_t j = 0; j < kKeys; ++j) {
        const std::int64_t count = queries[b + 1] - queries[b], t = j - keys[b] + count;
        const bool hides = i < count && t >= 0 && t < count && !sees(bits, queries[b] + i, kWords, t);
        ASSERT_EQ(bias[static_cast<std::size_t>((b * 35 + i) * kKeys + j)], hides ? kHidden : 0.0F) << b << i << j;
        hidden += hides;
      }
  EXPECT_GT(hidden, 100);
}

TEST(TreeMask, AttentionReadsItAsABias) {
  // Keys of zeros: the output is the mean of the values that a query sees.
  constexpr std::int64_t kKeys = 6, kQueries = 3, kDim = 32;
  const std::uint32_t bits[] = {0b001, 0b011, 0b101};
  float bias[kQueries * kKeys];
  tilesmith_tree tree = TILESMITH_TREE_INIT;
  tree.seqlen_q = kQueries, tree.seqlen_k = kKeys, tree.bits = bits;
  ASSERT_EQ(tilesmith_tree_bias(&tree, bias), TILESMITH_SUCCESS);
  std::vector<float> q(kQueries * kDim, 1.0F), k(kKeys * kDim, 0.0F), v, o(kQueries * kDim);
  for (std::int64_t j = 0; j < kKeys; ++j) v.insert(v.end(), kDim, static_cast<float>(1 << j));
  tilesmith_attention call = TILESMITH_ATTENTION_INIT;
  call.data_type = TILESMITH_FP32;
  call.seqlen_q = kQueries, call.seqlen_k = kKeys, call.head_dim_qk = call.head_dim_v = kDim;
  call.bias_kind = TILESMITH_BIAS_ELEMENTWISE;
  ASSERT_EQ(tilesmith_attention_dense(&call, TILESMITH_BHSD), TILESMITH_SUCCESS);
  call.q = q.data(), call.k = k.data(), call.v = v.data(), call.o = o.data();
  call.bias = bias;
  ASSERT_EQ(tilesmith_attention_forward(nullptr, &call), TILESMITH_SUCCESS);
  EXPECT_NEAR(o[0], (1 + 2 + 4 + 8) / 4.0, 1e-5);
  EXPECT_NEAR(o[kDim], (1 + 2 + 4 + 8 + 16) / 5.0, 1e-5);
  EXPECT_NEAR(o[2 * kDim], (1 + 2 + 4 + 8 + 32) / 5.0, 1e-5);
}

TEST(TreeMask, WhatCannotBeIsRefusedAndNothingIsWritten) {
  const std::uint32_t bits[8] = {};
  float bias[8] = {9, 9, 9, 9, 9, 9, 9, 9};
  tilesmith_tree good = TILESMITH_TREE_INIT;
  good.batch = 2, good.seqlen_q = 2, good.seqlen_k = 2, good.bits = bits;
  const auto refused = [&](tilesmith_tree tree, const char* words, float* into) {
    const tilesmith_status status = tilesmith_tree_bias(&tree, into);
    EXPECT_EQ(status, TILESMITH_INVALID_ARGUMENT);
    const std::string message = capi::message_of(status);
    EXPECT_NE(message.find(words), std::string::npos) << message;
  };
  tilesmith_tree tree = good;
  tree.batch = -1;
  refused(tree, "batch is -1", bias);
  tree = good;
  tree.seqlen_q = 33;
  refused(tree, "1 words of 32 bits for 33 queries", bias);
  tree = good;
  tree.bits = nullptr;
  refused(tree, "bits is null", bias);
  refused(good, "bias is null", nullptr);
  const std::int32_t falling[] = {0, 2, 1}, late[] = {1, 2, 3}, far[] = {0, 3, 4}, keys[] = {2, 3},
                     negative[] = {2, -1};
  for (const auto* offsets : {falling, late, far}) {
    tree = good;
    tree.cu_seqlens_q = offsets;
    refused(tree, "cu_seqlens_q gives sequence", bias);
  }
  for (const auto* lengths : {keys, negative}) {
    tree = good;
    tree.seqlens_k = lengths;
    refused(tree, "seqlens_k[1] is", bias);
  }
  for (const float value : bias) EXPECT_EQ(value, 9);
  tree = good;
  tree.struct_size = 3;
  EXPECT_EQ(tilesmith_tree_bias(&tree, bias), TILESMITH_INVALID_ARGUMENT);
  EXPECT_EQ(tilesmith_tree_bias(nullptr, bias), TILESMITH_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace tilesmith
