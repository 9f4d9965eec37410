// Convolution with pixels along the lanes, on every level that the machine has: problems that reach each way through
// the kernels, beside float64 and on several threads; what must not leak from one group, filter or line to another.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/host_array.hpp"
#include "base/random.hpp"
#include "choose/conv/cpu.hpp"
#include "dispatch/conv_kernels_agree.hpp"
#include "dispatch/test_store.hpp"
#include "instances/conv/cpu.hpp"
#include "problem/line.hpp"
#include "runtime/cpu/machine.hpp"
#include "trial/conv/case.hpp"
#include "trial/trial.hpp"
#include "vocabulary/memory_type.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

/// The names of direct kernels that compute a problem.
std::vector<std::string> direct_kernels(const ConvProblem& problem) {
  return testing::conv_kernels_of(Pipeline::direct, problem);
}

/// That of the lowest level that has the problem computed as a product.
std::string blocked_kernel(const ConvProblem& problem) {
  std::string name;
  for (const CpuSpec& spec : this_cpu_machine()->levels)
    enumerate_cpu_conv(spec, problem.direction, problem.data_type, [&](const KernelConfig& config) {
      if (config.algorithm.pipeline == Pipeline::blocked && config.algorithm.instruction == Instruction::fma_f32)
        name = native_name(config);
      return true;
    });
  return name;
}

std::vector<float> whole_values(std::int64_t count, std::uint64_t stream) {
  std::vector<float> values(static_cast<std::size_t>(count));
  fill_integers(values, {5, stream}, -3, 3);
  return values;
}

class ConvDirect : public ::testing::TestWithParam<const char*> {};

TEST_P(ConvDirect, AgreesWithTheReference) {
  const auto line = parse_line(std::string("conv ") + GetParam());
  ASSERT_TRUE(line) << line.error().text();
  const auto conv = ConvCase::create(std::get<RandomCall<Conv>>(*line));
  ASSERT_TRUE(conv) << conv.error().text();
  const std::vector<std::string> kernels = direct_kernels(conv->problem());
  testing::expect_agreement(*conv, kernels);
}

INSTANTIATE_TEST_SUITE_P(
    Problems, ConvDirect,
    ::testing::Values(
        // Groups that are copied and written together; one by one; that are more than a task has.
        "--dtype fp32 --batch 2 --groups 27 -c 9 -k 6 --in 6,66 --filter 7,7 --pad 3,3",
        "--dtype bf16 --groups 5 -c 6 -k 3 --in 13,19 --filter 3,4 --stride 1,2 --dilation 2,1 --pad 2,1 --pad-high "
        "0,3",
        "--dtype fp16 --groups 3 -c 5 -k 21 --in 9,30 --filter 3,3 --stride 2,3 --layout nchw --epilogue bias,relu",
        "--dtype fp32 --groups 50 -c 1 -k 2 --in 12,40 --filter 3,3 --pad 1,1 --epilogue bias,add",
        "--dtype fp32 --groups 4 -c 2 -k 3 --in 12,40 --filter 3,3 --pad 1,1 --layout nchw --epilogue add,relu",
        // One channel; many filters; more words than are copied at a time; lines longer than a task's.
        "--dtype fp32 -c 1 -k 17 --in 62,44 --filter 2,2 --pad 1,1", "--dtype fp32 -c 1 -k 131 --in 9,14 --filter 3,3",
        "--dtype bf16 --batch 2 -c 75 -k 5 --in 20,11 --filter 3,3 --pad 1,1 --dtype-out fp32",
        "--dtype fp32 -c 3 -k 4 --in 2500 --filter 31 --pad 15 --epilogue bias,gelu",
        "--dtype fp32 -c 40 -k 2 --in 70,70 --filter 5,5 --stride 2,2 --pad 2,2 --epilogue clamp --clamp=-1,1",
        "--dtype fp32 --batch 2 -c 3 -k 5 --in 5,7,9 --filter 3,2,4 --stride 2,1,3 --dilation 1,2,1 --pad 1,1,2",
        "--dtype fp32 -c 4 -k 3 --in 3,3 --filter 5,5 --pad 2,2", "--dtype fp16 -c 2 -k 1 --in 1,1 --filter 1,1",
        "--dtype fp32 -c 2 -k 3 --in 9,9 --filter 1,1 --stride 4,3",
        // Few bits: sums that floats hold, and fours that do not fill a word.
        "--dtype int8 --groups 31 -c 8 -k 3 --in 18,16 --filter 3,3 --pad 1,1 --dtype-out int8 --epilogue scale_n",
        "--dtype int8 --groups 3 -c 7 -k 5 --in 18,16 --filter 3,2 --stride 1,2 --pad 1,1 --epilogue scale_n,bias",
        "--dtype int8 -c 150 -k 3 --in 8,18 --filter 3,3 --pad 1,1 --layout nchw",
        "--dtype int8 --groups 11 -c 1 -k 1 --in 17,30 --filter 3,3 --pad 1,1 --dtype-out int8 --epilogue scale_n",
        "--dtype fp8 --groups 3 -c 5 -k 4 --in 12,13 --filter 3,3 --pad 1,1 --dtype-out bf16",
        // Backward data: phases, phases without taps, filters in several blocks.
        "--direction bwd_data --dtype fp32 --batch 2 --groups 7 -c 8 -k 7 --in 14,23 --filter 5,5 --dilation 2,2 --pad "
        "2,2",
        "--direction bwd_data --dtype bf16 --groups 4 -c 3 -k 11 --in 17,19 --filter 3,4 --stride 4,3 --pad 1,2",
        "--direction bwd_data --dtype fp32 -c 2 -k 60 --in 17,19 --filter 2,2 --stride 3,4 --epilogue bias",
        "--direction bwd_data --dtype fp16 -c 1 -k 43 --in 16,38 --filter 2,2 --pad 1,1 --layout nchw",
        "--direction bwd_data --dtype fp32 -c 3 -k 4 --in 5,7,9 --filter 3,2,4 --stride 2,1,3 --pad 1,1,2",
        // Backward weight: blocks of channels and of filters, runs of lines, lines of few pixels and long ones.
        "--direction bwd_weight --dtype fp32 --batch 3 -c 1 -k 23 --in 42,36 --filter 5,5 --pad 4,4 --dilation 2,2",
        "--direction bwd_weight --dtype fp32 --batch 2 --groups 19 -c 3 -k 11 --in 16,36 --filter 4,4 --pad 2,2",
        "--direction bwd_weight --dtype bf16 -c 75 -k 3 --in 16,18 --filter 3,3 --stride 2,1 --pad 1,1",
        "--direction bwd_weight --dtype fp16 -c 2 -k 101 --in 7,5 --filter 3,3 --pad 1,1 --layout nchw",
        "--direction bwd_weight --dtype fp32 -c 5 -k 3 --in 2500 --filter 7 --pad 3",
        "--direction bwd_weight --dtype fp32 -c 37 -k 22 --in 26,26 --filter 1,1",
        "--direction bwd_weight --dtype fp32 --batch 5 -c 2 -k 3 --in 31,43 --filter 3,3 --pad 1,1",
        "--direction bwd_weight --dtype fp32 --batch 2 --groups 3 -c 4 -k 5 --in 4,6,7 --filter 3,2,2 --stride 2,1,3",
        "--direction bwd_weight --dtype fp32 --groups 2 -c 3 -k 2 --in 4,40 --filter 1,31 --pad 0,15 --dtype-out fp32"),
    [](const auto& which) { return std::to_string(which.index); });

// Results without gaps, which trials do not have: a line's pixels are one run. Whole numbers, so that sums are exact.
TEST(ConvDirectDense, AgreesWithTheProduct) {
  for (const DataType type : {DataType::fp32, DataType::bf16})
    for (const std::int64_t groups : {1, 3})
      for (const std::int64_t filters : {1, 2, 5, 16, 17, 50})
        for (const ConvLayout layout : {ConvLayout::channels_last, ConvLayout::channels_first}) {
          const ConvProblem p{.data_type = type,
                              .type_out = type,
                              .batch = 2,
                              .groups = groups,
                              .c = 3,
                              .k = filters,
                              .in_h = 9,
                              .in_w = 21,
                              .filter_h = 3,
                              .filter_w = 2,
                              .pad_h = 1,
                              .pad_high_w = 1};
          SCOPED_TRACE(::testing::Message() << groups << " groups of " << filters << ", " << name_of(type));
          const HostArray x = make_array(memory_type_of(type), {2, 9, 21, groups * 3},
                                         whole_values(2 * 9 * 21 * groups * 3, 1)),
                          w = make_array(memory_type_of(type), {groups * filters, 3, 2, 3},
                                         whole_values(groups * filters * 18, 2));
          ConvArguments a = dense_arguments(p, layout);
          a.x = x.data.data();
          a.w = w.data.data();
          const auto result_of = [&](Dispatcher& dispatcher) {
            std::vector<std::uint32_t> out(static_cast<std::size_t>(2 * 9 * 21 * groups * filters), 0x7fc07fc0U);
            const auto plan = dispatcher.plan(p);
            EXPECT_TRUE(plan) << plan.error().text();
            a.out = out.data();
            EXPECT_TRUE((*plan)->run(a));
            return out;
          };
          Dispatcher product({.threads = 1, .kernel = blocked_kernel(p)});
          const std::vector<std::uint32_t> want = result_of(product);
          for (const std::string& kernel : direct_kernels(p)) {
            Dispatcher dispatcher({.threads = 1, .kernel = kernel});
            EXPECT_EQ(result_of(dispatcher), want) << kernel;
          }
        }
}

/// A convolution of groups of two channels to one, of one line of 19 pixels and two images.
ConvProblem of_lines(ConvDirection direction) {
  return {.direction = direction,
          .data_type = DataType::fp32,
          .type_out = DataType::fp32,
          .type_bias = DataType::fp32,
          .batch = 2,
          .groups = 2,
          .c = 2,
          .k = 1,
          .in_h = 2,
          .in_w = 19,
          .filter_w = 3};
}

TEST(ConvDirectApart, NothingLeaks) {
  for (const ConvDirection direction :
       {ConvDirection::forward, ConvDirection::backward_data, ConvDirection::backward_weight}) {
    const ConvProblem p = of_lines(direction);
    const ConvArguments dense = dense_arguments(p, ConvLayout::channels_last);
    const std::size_t x_size = 2 * 2 * 19 * 4, y_size = 2 * 2 * 17 * 2, w_size = 2 * 1 * 3 * 2;
    for (const std::string& kernel : direct_kernels(p)) {
      Dispatcher dispatcher({.threads = 1, .kernel = kernel});
      const auto plan = dispatcher.plan(p);
      ASSERT_TRUE(plan) << plan.error().text();
      const float nan = std::numeric_limits<float>::quiet_NaN();
      std::vector<float> x(x_size, 1), y(y_size, 1), w(w_size, 1), out(std::max(x_size, y_size), 7);
      ConvArguments a = dense;
      a.x = x.data();
      a.y = y.data();
      a.w = w.data();
      a.out = out.data();
      // The last pixel of the second line of the first image, of the first group's second channel.
      const std::size_t pixel = 2 * 19 - 1;
      x[pixel * 4 + 1] = nan;
      if (direction == ConvDirection::backward_data) y[(2 * 17 - 1) * 2] = nan;
      if (direction == ConvDirection::backward_data) a.x = nullptr;
      if (direction == ConvDirection::forward) a.y = nullptr;
      if (direction == ConvDirection::backward_weight) a.w = nullptr;
      ASSERT_TRUE((*plan)->run(a));
      std::size_t spoilt = 0;
      const std::size_t size = direction == ConvDirection::forward         ? y_size
                               : direction == ConvDirection::backward_data ? x_size
                                                                           : w_size;
      for (std::size_t i = 0; i < size; ++i) spoilt += std::isnan(out[i]) ? 1 : 0;
      // Forward the one result whose last tap meets it; backward data three pixels of two channels; backward weight
      // the last tap of this channel alone, as no other meets the line's last pixel.
      EXPECT_EQ(spoilt, direction == ConvDirection::backward_data ? 6U : 1U) << kernel;
    }
  }
}

}  // namespace
}  // namespace tilesmith
