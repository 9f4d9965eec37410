// Odd channels of convolutions on CUDA are filled up by copies.
#include "choose/conv/cuda.hpp"

#include <gtest/gtest.h>

#include <array>

#include "choose/conv/cuda_layers.hpp"
#include "choose/conv/cuda_padded.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

using testing::hopper;

ConvProblem odd_channels(ConvDirection direction) {
  return {.direction = direction,
          .data_type = DataType::bf16,
          .type_out = DataType::bf16,
          .type_bias = DataType::bf16,
          .c = 49,
          .k = 344,
          .in_d = 12,
          .in_h = 40,
          .in_w = 40,
          .filter_d = 3,
          .filter_h = 3,
          .filter_w = 3,
          .pad_d = 1,
          .pad_h = 1,
          .pad_w = 1,
          .pad_high_d = 1,
          .pad_high_h = 1,
          .pad_high_w = 1};
}

// Channels that cannot be copied 16 bytes at a time are filled up by a copy, and results are copied back.
TEST(CudaConvChoice, OddChannelsOfLargeLayersAreFilledUp) {
  for (const ConvDirection direction :
       {ConvDirection::forward, ConvDirection::backward_data, ConvDirection::backward_weight}) {
    const ConvProblem p = odd_channels(direction);
    const auto ranking = rank(hopper(), p);
    ASSERT_TRUE(ranking);
    const Recipe& first = ranking->candidates.front().recipe;
    EXPECT_EQ(first.steps.size(), direction == ConvDirection::forward ? 2u : 3u) << recipe_name(first);
    EXPECT_EQ(first.steps.front().role, StepRole::prepare);
    EXPECT_EQ(first.steps.front().config.algorithm.pipeline, Pipeline::rowwise);
    const bool forward = direction == ConvDirection::forward;  // 64 channels are few enough for halo tiles
    EXPECT_EQ(first.main().algorithm.pipeline, forward ? Pipeline::halo : Pipeline::warp_specialized);
    EXPECT_FALSE(serves(hopper(), first.main(), p)) << "without copies";
    EXPECT_FALSE(serves(hopper(), first.steps.front().config, p)) << "copies alone";
    const auto padded = with_filled_channels(p);
    ASSERT_TRUE(padded);
    EXPECT_EQ(padded->c, 64) << "whole sectors";
    EXPECT_EQ(padded->k, 344);
    EXPECT_TRUE(serves(hopper(), first.main(), *padded));
    EXPECT_GT(ranking->candidates.front().predicted_seconds, padding_seconds(hopper(), p, *padded));
  }
}

TEST(CudaConvChoice, ChannelsAreFilledUpWhereNothingReadsWhatFillsThem) {
  ConvProblem p = odd_channels(ConvDirection::backward_data);
  p.k = 13;
  const auto padded = with_filled_channels(p);
  ASSERT_TRUE(padded);
  EXPECT_EQ(padded->c, 64);
  EXPECT_EQ(padded->k, 16) << "few: whole octets";
  const std::array<std::int64_t, 3> elements = padded_elements(p, *padded);
  EXPECT_EQ(elements, (std::array<std::int64_t, 3>{12 * 40 * 40 * 64, 27 * 16 * 64, 12 * 40 * 40 * 16}));
  p.epilogue = {EpilogueOp::bias};
  EXPECT_FALSE(with_filled_channels(p)) << "a bias of 49 channels";
  p.direction = ConvDirection::forward;
  ASSERT_TRUE(with_filled_channels(p));
  EXPECT_EQ(with_filled_channels(p)->k, 13) << "forward, the result is the caller's own";
  p.unaligned = true;
  EXPECT_FALSE(with_filled_channels(p)) << "channels may be apart";
  p.unaligned = false;
  p.c = 48;
  EXPECT_FALSE(with_filled_channels(p));
  p.c = 49;
  p.data_type = p.type_out = DataType::fp32;
  EXPECT_FALSE(with_filled_channels(p));
  ConvProblem depthwise = odd_channels(ConvDirection::backward_weight);
  depthwise.groups = 49;
  depthwise.c = depthwise.k = 1;
  EXPECT_FALSE(with_filled_channels(depthwise));
}

}  // namespace
}  // namespace tilesmith
