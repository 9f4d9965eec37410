// Convolution problems for the tests of every device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/random.hpp"
#include "trial/conv/case.hpp"

namespace tilesmith::testing {

inline constexpr ConvDirection kAllDirections[] = {ConvDirection::forward, ConvDirection::backward_data,
                                                   ConvDirection::backward_weight};

/// Small sizes of every kind: filters larger than the image, strides beyond the filter, groups, odd channels.
inline RandomCall<Conv> random_conv(std::uint64_t seed) {
  std::vector<float> draws(64);
  fill_uniform(draws, {seed, 7}, 0, 1);
  std::size_t next = 0;
  const auto from = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(draws[next++] * 0.9999F * static_cast<float>(high - low + 1));
  };
  constexpr DataType kTypes[] = {DataType::fp32, DataType::bf16, DataType::fp16};
  RandomCall<Conv> call;
  ConvProblem& p = call.problem;
  p.direction = kAllDirections[seed % 3];
  p.data_type = kTypes[seed / 3 % 3];
  p.type_out = from(0, 2) == 0 ? DataType::fp32 : p.data_type;
  p.batch = from(1, 3);
  p.groups = from(0, 1) == 0 ? 1 : from(2, 5);
  p.c = from(1, 40);
  p.k = from(1, 60);
  if (seed % 4 == 3) {  // depthwise
    p.c = p.k = 1;
    p.groups = from(1, 100);
  }
  const std::int64_t coordinates = from(1, 3);
  const auto draw = [&](bool there, std::int64_t& in, std::int64_t& filter, std::int64_t& stride,
                        std::int64_t& dilation, std::int64_t& pad, std::int64_t& pad_high) {
    if (!there) return;
    filter = from(1, 4);
    stride = from(1, 3);
    dilation = from(1, 3);
    pad = from(0, 3);
    in = from(1, coordinates == 3 ? 6 : 14);
    pad_high = std::max<std::int64_t>(from(0, 2), dilation * (filter - 1) + 1 - in - pad);
  };
  draw(coordinates == 3, p.in_d, p.filter_d, p.stride_d, p.dilation_d, p.pad_d, p.pad_high_d);
  draw(coordinates >= 2, p.in_h, p.filter_h, p.stride_h, p.dilation_h, p.pad_h, p.pad_high_h);
  draw(true, p.in_w, p.filter_w, p.stride_w, p.dilation_w, p.pad_w, p.pad_high_w);
  if (p.direction != ConvDirection::backward_weight && from(0, 1) == 0)
    p.epilogue = from(0, 1) == 0 ? GemmEpilogue{EpilogueOp::bias, EpilogueOp::gelu}
                                 : GemmEpilogue{EpilogueOp::scale_n, EpilogueOp::add, EpilogueOp::tanh};
  if (p.direction == ConvDirection::forward && seed % 4 == 2) {  // 8 bits, half of them with a result of 8 bits
    const bool whole = seed % 8 == 2;
    p.data_type = whole ? DataType::int8 : DataType::fp8;
    p.type_out = whole && seed % 16 == 2 ? DataType::int8 : DataType::bf16;
    p.type_bias = DataType::fp32;
    if (whole) p.epilogue = {EpilogueOp::scale_n, EpilogueOp::bias};
  }
  call.numbers.layout = from(0, 1) == 0 ? ConvLayout::channels_last : ConvLayout::channels_first;
  call.numbers.seed = seed;
  return call;
}

/// Whole numbers from -3 to 3.
inline HostArray whole_numbers(const std::vector<std::int64_t>& shape, std::uint64_t stream) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  std::vector<float> values(static_cast<std::size_t>(count));
  fill_integers(values, {5, stream}, -3, 3);
  return make_array(ElementType::fp32, shape, values);
}

/// An awkward problem whose sums of whole numbers are exact.
inline ConvProblem whole_conv() {
  return {.data_type = DataType::fp32,
          .type_out = DataType::fp32,
          .type_bias = DataType::fp32,
          .batch = 2,
          .groups = 2,
          .c = 5,
          .k = 19,
          .in_h = 9,
          .in_w = 11,
          .filter_h = 3,
          .filter_w = 2,
          .stride_h = 2,
          .stride_w = 1,
          .dilation_h = 1,
          .dilation_w = 3,
          .pad_h = 2,
          .pad_w = 0,
          .pad_high_h = 0,
          .pad_high_w = 4};
}

}  // namespace tilesmith::testing
