// Convolution of few channels, of small groups and of single channels on CUDA gets kernels of its own.
#include "choose/conv/cuda.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "choose/conv/cuda_launch.hpp"
#include "choose/conv/cuda_layers.hpp"
#include "instances/conv/cuda_resources.hpp"
#include "instances/conv/cuda_window.hpp"
#include "problem/conv/problem.hpp"
#include "problem/operations.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

using testing::hopper;

// Weights of depthwise layers whose stride makes tiles large are not left to the general template. Filters of 7 x 7
// whose results meet neighbours are multiplied by tensor cores, on small images too, and gradients of any such filter's
// weights.
TEST(CudaConvChoice, DepthwiseLayersGetDepthwiseKernels) {
  for (const ConvDirection direction :
       {ConvDirection::forward, ConvDirection::backward_data, ConvDirection::backward_weight})
    for (const std::int64_t filter : {3, 5, 7})
      for (const std::int64_t stride : {1, 2})
        for (const std::int64_t size : {14, 112}) {
          const ConvProblem p{.direction = direction,
                              .data_type = DataType::bf16,
                              .type_out = DataType::bf16,
                              .type_bias = DataType::bf16,
                              .batch = 64,
                              .groups = 96,
                              .c = 1,
                              .k = 1,
                              .in_h = size,
                              .in_w = size,
                              .filter_h = filter,
                              .filter_w = filter,
                              .stride_h = stride,
                              .stride_w = stride,
                              .pad_h = filter / 2,
                              .pad_w = filter / 2,
                              .pad_high_h = filter / 2,
                              .pad_high_w = filter / 2};
          const auto ranking = rank(hopper(), p);
          ASSERT_TRUE(ranking);
          const KernelConfig& first = ranking->candidates.front().recipe.main();
          SCOPED_TRACE(native_name(first));
          EXPECT_TRUE(first.algorithm.pipeline == Pipeline::depthwise || is_banded(first.algorithm));
          if (filter == 7 && stride == 1) {
            EXPECT_TRUE(is_banded(first.algorithm));
          }
        }
}

// Filters of one tap are products, of one channel each where groups have one: depthwise kernels go before those.
TEST(CudaConvChoice, ProductsOfSingleChannelsDoNotGoFirst) {
  for (const ConvDirection direction : {ConvDirection::forward, ConvDirection::backward_data}) {
    const ConvProblem p{.direction = direction,
                        .data_type = DataType::bf16,
                        .type_out = DataType::bf16,
                        .type_bias = DataType::bf16,
                        .batch = 10,
                        .groups = 352,
                        .c = 1,
                        .k = 1,
                        .in_h = 11,
                        .in_w = 11};
    const auto ranking = rank(hopper(), p);
    ASSERT_TRUE(ranking);
    EXPECT_EQ(ranking->candidates.front().recipe.main().operation(), Operation::conv);
  }
}

// Groups of a few channels, in all directions.
TEST(CudaConvChoice, SmallGroupsGetGroupedKernels) {
  for (const ConvDirection direction :
       {ConvDirection::forward, ConvDirection::backward_data, ConvDirection::backward_weight})
    for (const std::int64_t channels : {2, 4, 8, 16})
      for (const std::int64_t stride : {1, 2}) {
        const ConvProblem p{.direction = direction,
                            .data_type = DataType::bf16,
                            .type_out = DataType::bf16,
                            .type_bias = DataType::bf16,
                            .batch = 64,
                            .groups = 32,
                            .c = channels,
                            .k = channels,
                            .in_h = 56,
                            .in_w = 56,
                            .filter_h = 3,
                            .filter_w = 3,
                            .stride_h = stride,
                            .stride_w = stride,
                            .pad_h = 1,
                            .pad_w = 1,
                            .pad_high_h = 1,
                            .pad_high_w = 1};
        const auto ranking = rank(hopper(), p);
        ASSERT_TRUE(ranking);
        EXPECT_EQ(ranking->candidates.front().recipe.main().algorithm.pipeline, Pipeline::grouped)
            << name_of(direction) << " groups of " << channels << " stride " << stride;
      }
}

// The four phases of a stride of 2 are one kernel's where pads are odd: cuDNN took 105 us and the general one 63 of 32
// groups of 4 on 56 x 56 (H200).
TEST(CudaConvChoice, SmallGroupsTwoApartGetPhases) {
  for (const std::int64_t channels : {2, 4, 8, 16, 32})
    for (const std::int64_t pad : {0, 1}) {
      const ConvProblem p{.direction = ConvDirection::backward_data,
                          .data_type = DataType::bf16,
                          .type_out = DataType::bf16,
                          .type_bias = DataType::bf16,
                          .batch = 64,
                          .groups = 32,
                          .c = channels,
                          .k = channels,
                          .in_h = 56,
                          .in_w = 56,
                          .filter_h = 3,
                          .filter_w = 3,
                          .stride_h = 2,
                          .stride_w = 2,
                          .pad_h = pad,
                          .pad_w = pad,
                          .pad_high_h = 1,
                          .pad_high_w = 1};
      const auto ranking = rank(hopper(), p);
      ASSERT_TRUE(ranking);
      EXPECT_EQ(cuda_grouped_tile(ranking->candidates.front().recipe.main().algorithm).in_phases, pad == 1)
          << recipe_name(ranking->candidates.front().recipe);
    }
}

// A line fills tiles of one row alone.
TEST(CudaConvChoice, SmallGroupsOfLinesGetTilesOfOneRow) {
  for (const ConvDirection direction :
       {ConvDirection::forward, ConvDirection::backward_data, ConvDirection::backward_weight})
    for (const std::int64_t channels : {2, 4}) {
      const ConvProblem p{.direction = direction,
                          .data_type = DataType::bf16,
                          .type_out = DataType::bf16,
                          .type_bias = DataType::bf16,
                          .batch = 56,
                          .groups = 48,
                          .c = channels,
                          .k = channels,
                          .in_w = 1561,
                          .filter_w = 5,
                          .pad_w = 2,
                          .pad_high_w = 2};
      const auto ranking = rank(hopper(), p);
      ASSERT_TRUE(ranking);
      const KernelConfig& first = ranking->candidates.front().recipe.main();
      EXPECT_EQ(first.algorithm.pipeline, Pipeline::grouped) << name_of(direction) << " groups of " << channels;
      EXPECT_EQ(cuda_grouped_tile(first.algorithm).rows, 1) << recipe_name(ranking->candidates.front().recipe);
    }
}

// Filters of a line with more taps than one kernel has go in parts, also of pixels two apart: 440 channels by 5 taps
// went to the general template, 9412 us for 678 of cuDNN (H200).
TEST(CudaConvChoice, DepthwiseLinesHaveKernelsOfTheirOwn) {
  for (const ConvDirection direction :
       {ConvDirection::forward, ConvDirection::backward_data, ConvDirection::backward_weight})
    for (const std::int64_t taps : {2, 5, 9, 31})
      for (const std::int64_t stride : {1, 2}) {
        const ConvProblem p{.direction = direction,
                            .data_type = DataType::bf16,
                            .type_out = DataType::bf16,
                            .type_bias = DataType::bf16,
                            .batch = 27,
                            .groups = 440,
                            .c = 1,
                            .k = 1,
                            .in_w = 3614,
                            .filter_w = taps,
                            .stride_w = stride,
                            .pad_w = taps / 2,
                            .pad_high_w = taps / 2};
        const auto ranking = rank(hopper(), p);
        ASSERT_TRUE(ranking);
        EXPECT_EQ(ranking->candidates.front().recipe.main().algorithm.pipeline, Pipeline::depthwise)
            << name_of(direction) << ' ' << taps << " taps, stride " << stride;
      }
}

// Filters of 3 x 3 taps and 64 channels, whose pixels im2col copies would bring nine times, get halo tiles; not where
// more channels are read, or an epilogue reads a tensor.
TEST(CudaConvChoice, FewChannelsOfThreeByThreeGetHaloTiles) {
  for (const ConvDirection direction : {ConvDirection::forward, ConvDirection::backward_data}) {
    ConvProblem p{.direction = direction,
                  .data_type = DataType::bf16,
                  .type_out = DataType::bf16,
                  .type_bias = DataType::bf16,
                  .batch = 128,
                  .c = 64,
                  .k = 64,
                  .in_h = 56,
                  .in_w = 56,
                  .filter_h = 3,
                  .filter_w = 3,
                  .pad_h = 1,
                  .pad_w = 1,
                  .pad_high_h = 1,
                  .pad_high_w = 1,
                  .epilogue = {EpilogueOp::bias, EpilogueOp::relu}};
    const auto count = [](const ConvProblem& problem) {
      const auto ranking = rank(hopper(), problem);
      EXPECT_TRUE(ranking);
      return std::ranges::count_if(ranking->candidates, [](const Candidate& candidate) {
        return candidate.recipe.main().algorithm.pipeline == Pipeline::halo;
      });
    };
    const auto ranking = rank(hopper(), p);
    ASSERT_TRUE(ranking);
    EXPECT_EQ(ranking->candidates.front().recipe.main().algorithm.pipeline, Pipeline::halo);
    EXPECT_EQ(ranking->candidates.front().recipe.main().algorithm.tile[0], 28) << "56 rows are two boxes";
    ConvProblem other = p;
    other.epilogue = {EpilogueOp::add};
    EXPECT_EQ(count(other), 0);
    other = p;
    (direction == ConvDirection::forward ? other.c : other.k) = 72;
    EXPECT_EQ(count(other), 0);
    other = p;
    (direction == ConvDirection::forward ? other.k : other.c) = 72;
    EXPECT_GT(count(other), 0);
    other.groups = 2;
    EXPECT_EQ(count(other), 0) << "blocks of channels would reach into the next group";
  }
}

// First layers of networks for images, in both layouts.
TEST(CudaConvChoice, ImagesOfFewChannelsGetStemKernels) {
  struct Layer {
    std::int64_t k, filter, stride, pad;
  };
  for (const ConvDirection direction : {ConvDirection::forward, ConvDirection::backward_weight})
    for (const auto& [k, filter, stride, pad] : {Layer{64, 7, 2, 3}, Layer{32, 3, 2, 1}, Layer{96, 4, 4, 0}})
      for (const bool unaligned : {false, true}) {
        const ConvProblem p{.direction = direction,
                            .data_type = DataType::bf16,
                            .type_out = DataType::bf16,
                            .type_bias = DataType::bf16,
                            .batch = 64,
                            .c = 3,
                            .k = k,
                            .in_h = 224,
                            .in_w = 224,
                            .filter_h = filter,
                            .filter_w = filter,
                            .stride_h = stride,
                            .stride_w = stride,
                            .pad_h = pad,
                            .pad_w = pad,
                            .pad_high_h = pad,
                            .pad_high_w = pad,
                            .unaligned = unaligned};
        const auto ranking = rank(hopper(), p);
        ASSERT_TRUE(ranking);
        EXPECT_EQ(ranking->candidates.front().recipe.main().algorithm.pipeline, Pipeline::stem)
            << name_of(direction) << " filter " << filter << " unaligned " << unaligned;
      }
}

// Twelve channels are three times 8 bytes; an odd number goes by elements.
TEST(CudaConvChoice, FiltersOfTwelveChannelsAreSummedEightBytesAtATime) {
  for (const std::int64_t channels : {12, 13, 16}) {
    const ConvProblem p{.direction = ConvDirection::backward_weight,
                        .data_type = DataType::bf16,
                        .type_out = DataType::bf16,
                        .type_bias = DataType::bf16,
                        .batch = 16,
                        .c = channels,
                        .k = 48,
                        .in_w = 2575,
                        .filter_w = 5,
                        .pad_w = 2,
                        .pad_high_w = 2};
    const auto ranking = rank(hopper(), p);
    ASSERT_TRUE(ranking);
    for (const Candidate& candidate : ranking->candidates) {
      if (candidate.recipe.steps.size() > 1) continue;  // of other channels
      const Algorithm& a = candidate.recipe.main().algorithm;
      if (candidate.recipe.main().operation() == Operation::conv && a.pipeline == Pipeline::mma_sm80) {
        EXPECT_EQ(a.vector[0], channels == 12 ? 4 : channels == 13 ? 1 : 8);
        if (!a.split_k) continue;
        // A second launch adds up as many parts as the chip computes at a time.
        const CudaConvLaunch launch = cuda_conv_launch(candidate.recipe.main(), hopper(), p);
        EXPECT_TRUE(launch.joins);
        EXPECT_GT(launch.splits, 64);
        EXPECT_EQ(launch.part_bytes % launch.splits, 0);
      }
    }
  }
}

// Few channels in one to three dimensions: pixels come to shared memory once for all taps. Twelve channels are read
// eight bytes at a time; an odd number goes to the general template, or is filled up, but of backward data it may be
// columns.
TEST(CudaConvChoice, FewChannelsGetDirectKernels) {
  for (const ConvDirection direction : {ConvDirection::forward, ConvDirection::backward_data})
    for (const std::int64_t channels : {12, 13, 16}) {
      const ConvProblem p{.direction = direction,
                          .data_type = DataType::bf16,
                          .type_out = DataType::bf16,
                          .type_bias = DataType::bf16,
                          .batch = 16,
                          .c = channels,
                          .k = 48,
                          .in_w = 2575,
                          .filter_w = 5,
                          .pad_w = 2,
                          .pad_high_w = 2};
      const auto ranking = rank(hopper(), p);
      ASSERT_TRUE(ranking);
      const auto lone = std::ranges::find_if(
          ranking->candidates, [](const Candidate& candidate) { return candidate.recipe.steps.size() == 1; });
      ASSERT_NE(lone, ranking->candidates.end());
      EXPECT_TRUE(channels != 12 || lone == ranking->candidates.begin());
      const Algorithm& first = lone->recipe.main().algorithm;
      // Forward, steps of four taps of 16 channels take 12.4 us, boxes 15.3 (H200).
      if (channels == 16 && direction == ConvDirection::forward) {
        EXPECT_EQ(first.pipeline, Pipeline::warp_specialized);
        EXPECT_EQ(window_step_taps(first), 4);
        continue;
      }
      EXPECT_EQ(first.pipeline == Pipeline::direct, channels != 13 || direction == ConvDirection::backward_data)
          << name_of(direction) << " " << channels;
      EXPECT_EQ(first.vector[0], channels == 12 ? 4 : channels == 16 ? 8 : first.vector[0]);
    }
}

// Of one tap they go by runs of pixels, where GEMM's kernels would read elements.
TEST(CudaConvChoice, PointwiseLayersOfTwelveChannelsGoByRuns) {
  const ConvProblem p{.data_type = DataType::bf16,
                      .type_out = DataType::bf16,
                      .type_bias = DataType::bf16,
                      .batch = 4,
                      .c = 12,
                      .k = 32,
                      .in_w = 8941};
  const auto ranking = rank(hopper(), p);
  ASSERT_TRUE(ranking);
  const Algorithm& first = ranking->candidates.front().recipe.main().algorithm;
  EXPECT_EQ(first.pipeline, Pipeline::pointwise);
  EXPECT_TRUE(pointwise_by_runs(first));
}

// One tap on channels that are no eights needs no copies before and behind the kernel: runs of pixels hold any, as long
// as a warp's share of them and the filters fit; a group's pixels are no run.
TEST(CudaConvChoice, OneTapOnOddChannelsGoesByRuns) {
  for (const ConvDirection direction : {ConvDirection::forward, ConvDirection::backward_data})
    for (const std::int64_t groups : {1, 2})
      for (const std::int64_t channels : {13, 45, 209, 257}) {
        ConvProblem p{.direction = direction,
                      .data_type = DataType::bf16,
                      .type_out = DataType::bf16,
                      .type_bias = DataType::bf16,
                      .batch = 22,
                      .groups = groups,
                      .c = 20,
                      .k = 20,
                      .in_h = 15,
                      .in_w = 15};
        (direction == ConvDirection::forward ? p.c : p.k) = channels;
        const auto ranking = rank(hopper(), p);
        ASSERT_TRUE(ranking);
        std::size_t by_runs = 0;
        for (const Candidate& candidate : ranking->candidates) {
          EXPECT_EQ(candidate.recipe.steps.size(), 1u) << recipe_name(candidate.recipe);
          const KernelConfig& config = candidate.recipe.main();
          if (config.algorithm.pipeline != Pipeline::pointwise) continue;
          ASSERT_TRUE(pointwise_by_runs(config.algorithm));
          EXPECT_LE(cuda_conv_launch(config, hopper(), p).shared_bytes, hopper().shared_bytes_per_block);
          ++by_runs;
        }
        EXPECT_EQ(by_runs > 0, groups == 1 && channels <= 256)
            << name_of(direction) << " " << groups << " " << channels;
      }
}

// Whole eights of few channels go from memory straight to tensor cores, whether channels grow or shrink, in groups too.
TEST(CudaConvChoice, PointwiseLayersOfFewChannelsGetPointwiseKernels) {
  for (const ConvDirection direction : {ConvDirection::forward, ConvDirection::backward_data})
    for (const std::int64_t groups : {1, 2}) {
      const ConvProblem p{.direction = direction,
                          .data_type = DataType::bf16,
                          .type_out = DataType::bf16,
                          .type_bias = DataType::bf16,
                          .batch = 64,
                          .groups = groups,
                          .c = 24,
                          .k = 144,
                          .in_h = 56,
                          .in_w = 56};
      const auto ranking = rank(hopper(), p);
      ASSERT_TRUE(ranking);
      const KernelConfig& first = ranking->candidates.front().recipe.main();
      EXPECT_EQ(first.algorithm.pipeline, Pipeline::pointwise) << name_of(direction) << " " << groups;
      if (first.algorithm.pipeline != Pipeline::pointwise) continue;
      const CudaConvLaunch launch = cuda_conv_launch(first, hopper(), p);
      EXPECT_EQ(launch.blocks, launch.splits * groups) << "each group has as many blocks";
      EXPECT_LE(launch.shared_bytes, cuda_conv_resources(first).shared_bytes);
    }
}

// An odd number of octets begins within a sector at every other pixel: 29 of them take longer than 30.
TEST(CudaConvChoice, PointwiseResultsWithinSectorsTakeLonger) {
  const auto least = [](std::int64_t k, bool by_runs) {
    const ConvProblem p{.data_type = DataType::bf16,
                        .type_out = DataType::bf16,
                        .type_bias = DataType::bf16,
                        .batch = 30,
                        .c = 32,
                        .k = k,
                        .in_h = 89,
                        .in_w = 89};
    double seconds = 1;
    for (const Candidate& candidate : rank(hopper(), p)->candidates)
      if (const Algorithm& a = candidate.recipe.main().algorithm;
          a.pipeline == Pipeline::pointwise && pointwise_by_runs(a) == by_runs)
        seconds = std::min(seconds, candidate.predicted_seconds);
    return seconds;
  };
  EXPECT_LT(least(240, false), 1);
  EXPECT_GT(least(232, false), least(240, false));
  EXPECT_EQ(least(240, true), 1) << "runs would gain nothing";
  EXPECT_LT(least(232, true), least(232, false));
}

// They bring each pixel once whatever their tiles are, so no tile with all channels goes before them: of 56-16,
// backward data, on 86x86, 13 images, 10.0 us beside 14.3 (H200).
TEST(CudaConvChoice, TilesOfAllChannelsDoNotPrecedePointwiseKernels) {
  const ConvProblem p{.direction = ConvDirection::backward_data,
                      .data_type = DataType::bf16,
                      .type_out = DataType::bf16,
                      .type_bias = DataType::bf16,
                      .batch = 13,
                      .c = 56,
                      .k = 16,
                      .in_h = 86,
                      .in_w = 86};
  const auto ranking = rank(hopper(), p);
  ASSERT_TRUE(ranking);
  EXPECT_EQ(ranking->candidates.front().recipe.main().algorithm.pipeline, Pipeline::pointwise);
}

// Boxes cover the largest phase, and what a launch asks for fits the kernel.
TEST(CudaConvChoice, DirectBoxesCoverResults) {
  for (const ConvDirection direction : {ConvDirection::forward, ConvDirection::backward_data})
    for (const std::int64_t stride : {1, 2, 3}) {
      const ConvProblem p{.direction = direction,
                          .data_type = DataType::bf16,
                          .type_out = DataType::bf16,
                          .type_bias = DataType::bf16,
                          .batch = 2,
                          .groups = 3,
                          .c = 16,
                          .k = 24,
                          .in_d = 7,
                          .in_h = 19,
                          .in_w = 40,
                          .filter_d = 3,
                          .filter_h = 3,
                          .filter_w = 3,
                          .stride_d = stride,
                          .stride_h = stride,
                          .stride_w = stride,
                          .dilation_w = 2};
      const auto ranking = rank(hopper(), p);
      ASSERT_TRUE(ranking);
      std::size_t found = 0;
      for (const Candidate& candidate : ranking->candidates) {
        const KernelConfig& config = candidate.recipe.main();
        if (config.algorithm.pipeline != Pipeline::direct) continue;
        ++found;
        const CudaConvLaunch launch = cuda_conv_launch(config, hopper(), p);
        std::int64_t results = 1;
        for (std::size_t d = 0; d < 3; ++d) {
          const std::int64_t all = direction == ConvDirection::forward ? p.out()[d] : (p.in()[d] + stride - 1) / stride;
          EXPECT_GE(launch.boxes.results[d] * launch.boxes.size[4 + d], all);
          results *= launch.boxes.results[d];
        }
        EXPECT_LE(results, config.algorithm.tile[0]);
        EXPECT_LE(launch.shared_bytes, cuda_conv_resources(config).shared_bytes);
        EXPECT_GE(launch.blocks, 1);
      }
      EXPECT_GT(found, 0u);
    }
}

// Blocks take each piece of work once, as kernels/cuda/conv/direct/boxes.cuh walks it. Where many groups or columns
// keep most SMs busy, neighbouring blocks have them, and each keeps its own.
TEST(CudaConvChoice, DirectBlocksTakeEachBoxOnce) {
  struct Layer {
    std::int64_t batch, groups, c, k, in_w;
    bool beside;
  };
  for (const Layer& layer :
       {Layer{36, 1, 8, 184, 7157, true}, Layer{16, 12, 32, 32, 2000, true}, Layer{3, 11, 16, 88, 700, true},
        Layer{2, 1, 8, 264, 40, true}, Layer{1, 509, 4, 4, 900, false}, Layer{1, 1021, 4, 4, 130, false}}) {
    const ConvProblem p{.data_type = DataType::bf16,
                        .type_out = DataType::bf16,
                        .type_bias = DataType::bf16,
                        .batch = layer.batch,
                        .groups = layer.groups,
                        .c = layer.c,
                        .k = layer.k,
                        .in_w = layer.in_w,
                        .filter_w = 3};
    SCOPED_TRACE(identity_of(p));
    std::size_t found = 0;
    const auto ranking = rank(hopper(), p);
    ASSERT_TRUE(ranking);
    for (const Candidate& candidate : ranking->candidates) {
      const KernelConfig& config = candidate.recipe.main();
      if (config.algorithm.pipeline != Pipeline::direct) continue;
      ++found;
      const CudaConvLaunch launch = cuda_conv_launch(config, hopper(), p);
      const TsCudaConvBoxes& boxes = launch.boxes;
      const std::int64_t together = std::int64_t{boxes.beside[0]} * boxes.beside[1];
      ASSERT_EQ(launch.blocks % together, 0);
      EXPECT_EQ(boxes.beside[0] * boxes.size[1], layer.groups);
      EXPECT_EQ(boxes.beside[1] * boxes.size[2], (layer.k + config.algorithm.tile[1] - 1) / config.algorithm.tile[1]);
      if (layer.beside) {
        EXPECT_EQ(boxes.size[1] * boxes.size[2], 1) << "a block brings filters once";
      }
      const std::int64_t blocks = launch.blocks / together;
      std::int64_t all = 1, step = 0;
      for (int i = 0; i < TS_CONV_BOX_DIGITS; ++i) {
        all *= boxes.size[i];
        step = step * boxes.size[i] + boxes.step[i];
      }
      EXPECT_EQ(step, blocks) << "what these have together is taken by turns";
      EXPECT_LE(blocks, all) << "every block has work";
    }
    EXPECT_GT(found, 0u);
  }
}

}  // namespace
}  // namespace tilesmith
