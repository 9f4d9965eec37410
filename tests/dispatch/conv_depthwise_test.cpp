// Depthwise convolution of int8 on every level that the machine has: problems that reach each way through the kernels
// that multiply four rows of taps at once, beside float64 and on several threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "choose/conv/cpu.hpp"
#include "dispatch/conv_kernels_agree.hpp"
#include "dispatch/test_store.hpp"
#include "instances/conv/cpu.hpp"
#include "problem/line.hpp"
#include "runtime/cpu/machine.hpp"
#include "trial/conv/case.hpp"
#include "trial/trial.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

/// The names of depthwise kernels that compute a problem.
std::vector<std::string> depthwise_kernels(const ConvProblem& problem) {
  return testing::conv_kernels_of(Pipeline::depthwise, problem);
}

class ConvDepthwise : public ::testing::TestWithParam<const char*> {};

TEST_P(ConvDepthwise, AgreesWithTheReference) {
  const auto line = parse_line(std::string("conv -c 1 -k 1 --dtype int8 ") + GetParam());
  ASSERT_TRUE(line) << line.error().text();
  const auto conv = ConvCase::create(std::get<RandomCall<Conv>>(*line));
  ASSERT_TRUE(conv) << conv.error().text();
  const std::vector<std::string> kernels = depthwise_kernels(conv->problem());
  // A machine that multiplies fours has a kernel that does.
  const auto& levels = this_cpu_machine()->levels;
  const bool has_fours = std::ranges::any_of(levels, [](const CpuSpec& spec) {
    return std::ranges::find(spec.gemm, Instruction::dot_int8, &CpuGemmInstruction::instruction) != spec.gemm.end();
  });
  EXPECT_EQ(std::ranges::any_of(kernels, [](const std::string& name) { return name.contains("_vnni_"); }), has_fours);
  testing::expect_agreement(*conv, kernels);
}

INSTANTIATE_TEST_SUITE_P(
    Problems, ConvDepthwise,
    ::testing::Values(
        // Lines that go together and lines beside the image, runs of eight pixels, of four and of fewer.
        "--groups 40 --in 21,29 --filter 3,3 --pad 1,1 --dtype-out int8 --epilogue scale_n",
        "--batch 2 --groups 37 --in 12,20 --filter 5,5 --pad 2,2 --dtype-out int8 --epilogue scale_n,bias,relu "
        "--dtype-bias fp32",
        "--groups 16 --in 9,11 --filter 7,7 --pad 3,3 --dtype-out int8 --epilogue scale_n,clamp --clamp=-5,90",
        "--groups 33 --in 14,13 --filter 2,2 --pad 1,1 --dtype-out int8 --epilogue scale_n",
        // A column of taps that fills its words, so that no two lines go together.
        "--groups 20 --in 15,17 --filter 4,4 --pad 2,2 --dtype-out int8 --epilogue scale_n",
        // Strides, of both axes and of one; dilation; taps that no run shares.
        "--batch 3 --groups 70 --in 19,23 --filter 3,3 --stride 2,2 --pad 1,1 --dtype-out int8 --epilogue scale_n",
        "--groups 18 --in 17,40 --filter 5,7 --stride 1,2 --pad 2,3 --dtype-out int8 --epilogue scale_n",
        "--groups 19 --in 21,13 --filter 7,7 --stride 1,3 --pad 1,7 --pad-high 7,7 --dtype-out int8 --epilogue scale_n",
        "--groups 24 --in 21,26 --filter 3,3 --dilation 2,2 --pad 2,2 --dtype-out int8 --epilogue scale_n",
        "--groups 17 --in 8,50 --filter 6,11 --pad 3,5 --dtype-out int8 --epilogue scale_n",
        // Filters that reach beyond the image on both sides; images of one pixel.
        "--groups 21 --in 3,4 --filter 7,7 --pad 3,3 --dtype-out int8 --epilogue scale_n",
        "--groups 31 --in 1,1 --filter 3,3 --pad 1,1 --dtype-out int8 --epilogue scale_n",
        // Channels that fill no vector; more than a task has, the last of them few.
        "--batch 2 --groups 11 --in 13,18 --filter 3,3 --pad 1,1 --dtype-out int8 --epilogue scale_n",
        "--groups 1 --in 13,18 --filter 5,2 --pad 1,1 --dtype-out int8 --epilogue scale_n,bias --dtype-bias fp32",
        "--groups 521 --in 7,9 --filter 3,3 --pad 1,1 --dtype-out int8 --epilogue scale_n",
        // Results and epilogues that are finished elsewhere; layouts; one dimension and three.
        "--groups 40 --in 11,12 --filter 3,3 --pad 1,1 --dtype-out fp32",
        "--groups 40 --in 11,12 --filter 3,3 --pad 1,1 --dtype-out bf16 --epilogue scale_n,gelu",
        "--groups 40 --in 11,12 --filter 3,3 --pad 1,1 --dtype-out int8 --epilogue scale_n,bias,add --dtype-bias bf16",
        "--batch 2 --groups 23 --in 11,12 --filter 3,3 --pad 1,1 --layout nchw --dtype-out int8 --epilogue scale_n",
        "--batch 2 --groups 34 --in 100 --filter 31 --pad 15 --dtype-out int8 --epilogue scale_n",
        "--groups 35 --in 6,7,9 --filter 3,3,3 --stride 2,1,1 --pad 1,1,1 --dtype-out int8 --epilogue scale_n"),
    [](const auto& which) { return std::to_string(which.index); });

}  // namespace
}  // namespace tilesmith
