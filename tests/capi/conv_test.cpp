// Convolution through the C interface: the same result as through the C++ one, and what is refused.
#include <gtest/gtest.h>

#include <vector>

#include "capi/failure.hpp"
#include "dispatch/test_store.hpp"
#include "runtime/aligned_buffer.hpp"
#include "tilesmith.h"
#include "tilesmith/tilesmith.hpp"

namespace tilesmith::capi {
namespace {

tilesmith_conv small_conv(const std::vector<float>& x, const std::vector<float>& w, std::vector<float>& y) {
  tilesmith_conv call = TILESMITH_CONV_INIT;
  call.data_type = call.type_out = call.type_bias = TILESMITH_FP32;
  call.c = 3;
  call.k = 5;
  call.image[1] = call.image[2] = 6;
  call.filter[1] = call.filter[2] = 3;
  call.pad[1] = call.pad_high[2] = 1;
  call.x = x.data();
  call.w = w.data();
  call.out = y.data();
  return call;
}

TEST(CConv, ComputesWhatTheCppInterfaceComputes) {
  std::vector<float> x(6 * 6 * 3), w(5 * 9 * 3), bias{1, 2, 3, 4, 5}, y(5 * 5 * 5), wanted(y.size());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 3;
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 5) - 2;
  tilesmith_conv call = small_conv(x, w, y);
  call.epilogue[0].op = TILESMITH_EPILOGUE_BIAS;
  call.epilogue[0].data = bias.data();
  ASSERT_EQ(message_of(tilesmith_conv_dense(&call, TILESMITH_CHANNELS_LAST)), "");
  ASSERT_EQ(message_of(tilesmith_conv_compute(nullptr, &call)), "");

  ConvProblem problem{.data_type = DataType::fp32,
                      .type_out = DataType::fp32,
                      .type_bias = DataType::fp32,
                      .c = 3,
                      .k = 5,
                      .in_h = 6,
                      .in_w = 6,
                      .filter_h = 3,
                      .filter_w = 3,
                      .pad_h = 1,
                      .pad_high_w = 1,
                      .epilogue = {EpilogueOp::bias}};
  Dispatcher dispatcher;
  const auto plan = dispatcher.plan(problem);
  ASSERT_TRUE(plan) << plan.error().text();
  ConvArguments arguments = dense_arguments(problem, ConvLayout::channels_last);
  arguments.x = x.data();
  arguments.w = w.data();
  arguments.out = wanted.data();
  arguments.epilogue[0].data = bias.data();
  ASSERT_TRUE((*plan)->run(arguments));
  EXPECT_EQ(y, wanted);

  const tilesmith_conv_plan* own = nullptr;
  ASSERT_EQ(message_of(tilesmith_conv_plan_for(nullptr, &call, &own)), "");
  std::vector<float> again(y.size());
  call.out = again.data();
  EXPECT_EQ(message_of(tilesmith_conv_run(own, &call)), "");
  EXPECT_EQ(again, wanted);
  tilesmith_plan_info info = TILESMITH_PLAN_INFO_INIT;
  ASSERT_EQ(message_of(tilesmith_conv_plan_info(own, &info)), "");
  EXPECT_STREQ(info.operation, "conv");
}

TEST(CConv, ReadsPackedFilters) {
  std::vector<float> x(6 * 6 * 3), w(5 * 9 * 3), y(5 * 5 * 5), wanted(y.size());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 3;
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 5) - 2;
  tilesmith_conv call = small_conv(x, w, wanted);
  ASSERT_EQ(message_of(tilesmith_conv_dense(&call, TILESMITH_CHANNELS_LAST)), "");
  ASSERT_EQ(message_of(tilesmith_conv_compute(nullptr, &call)), "");

  std::uint64_t bytes = 0;
  ASSERT_EQ(message_of(tilesmith_conv_packed_bytes(nullptr, &call, &bytes)), "");
  AlignedBuffer packed(bytes);
  EXPECT_EQ(message_of(tilesmith_conv_pack_w(nullptr, &call, packed.data(), bytes - 1)),
            "packed_bytes is " + std::to_string(bytes - 1));
  ASSERT_EQ(message_of(tilesmith_conv_pack_w(nullptr, &call, packed.data(), bytes)), "");
  EXPECT_EQ(message_of(tilesmith_conv_packed_bytes(nullptr, &call, nullptr)), "out is null");
  call.flags = TILESMITH_PACKED_W;
  EXPECT_EQ(message_of(tilesmith_conv_packed_bytes(nullptr, &call, &bytes)), "flags has TILESMITH_PACKED_W");
  ASSERT_EQ(message_of(tilesmith_conv_dense(&call, TILESMITH_CHANNELS_LAST)), "");
  EXPECT_EQ(call.w_strides.batch, 0) << "how many bytes were packed is not known here";
  call.w = packed.data();
  call.w_strides.batch = static_cast<std::int64_t>(packed.bytes());
  call.out = y.data();
  ASSERT_EQ(message_of(tilesmith_conv_compute(nullptr, &call)), "");
  EXPECT_EQ(y, wanted);
  call.k = 4;
  EXPECT_EQ(message_of(tilesmith_conv_compute(nullptr, &call)).substr(0, 26), "w was packed for fwd of fp");
  call.k = 5;
  call.flags = 2;
  EXPECT_EQ(message_of(tilesmith_conv_compute(nullptr, &call)), "flags is 0x2");
  call.flags = 0;
  call.struct_size = offsetof(tilesmith_conv, flags);  // the structure's first version
  call.w = w.data();
  call.w_strides = {27, 0, 1, {27, 9, 3}};
  std::vector<float> again(y.size());
  call.out = again.data();
  ASSERT_EQ(message_of(tilesmith_conv_compute(nullptr, &call)), "");
  EXPECT_EQ(again, wanted);
}

TEST(CConv, WhatIsWrongIsRefused) {
  std::vector<float> x(6 * 6 * 3), w(5 * 9 * 3), y(6 * 6 * 5);
  tilesmith_conv call = small_conv(x, w, y);
  call.direction = 3;
  EXPECT_EQ(tilesmith_conv_dense(&call, TILESMITH_CHANNELS_LAST), TILESMITH_INVALID_ARGUMENT);
  call = small_conv(x, w, y);
  EXPECT_EQ(tilesmith_conv_dense(&call, 2), TILESMITH_INVALID_ARGUMENT);
  call.epilogue[0].op = TILESMITH_EPILOGUE_RELU;
  call.epilogue[0].data = x.data();
  EXPECT_EQ(tilesmith_conv_compute(nullptr, &call), TILESMITH_INVALID_ARGUMENT);
  call.epilogue[0] = {};
  call.epilogue[1].op = TILESMITH_EPILOGUE_RELU;
  EXPECT_EQ(tilesmith_conv_compute(nullptr, &call), TILESMITH_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace tilesmith::capi
