// Convolution as products of windows on CUDA: the phases of backward data are the definition's, and tiles, parts and
// clusters fit the problem.
#include "choose/conv/cuda.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "choose/conv/cuda_launch.hpp"
#include "choose/conv/cuda_layers.hpp"
#include "choose/conv/cuda_window.hpp"
#include "choose/conv/cuda_work.hpp"
#include "instances/conv/cuda_window.hpp"
#include "problem/conv/problem.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

using testing::conv_line;
using testing::hopper;

// Of every pixel of x: the taps that meet it, and from which pixel of y; what lies outside of y is read as zero.
TEST(CudaConvPhases, MeetWhatTheDefinitionMeets) {
  using Meeting = std::tuple<std::int64_t, std::int64_t, std::int64_t>;  // pixel of x, tap, pixel of y
  int problems = 0;
  for (std::int64_t stride = 1; stride <= 4; ++stride)
    for (std::int64_t dilation = 1; dilation <= 4; ++dilation)
      for (std::int64_t pad = 0; pad <= 3; ++pad)
        for (std::int64_t filter = 1; filter <= 4; ++filter)
          for (std::int64_t in = 1; in <= 11; ++in) {
            const ConvProblem p = conv_line(in, filter, stride, dilation, pad);
            const std::int64_t out = p.out()[2];
            std::map<Meeting, int> want, have;
            for (std::int64_t o = 0; o < out; ++o)
              for (std::int64_t t = 0; t < filter; ++t) {
                const std::int64_t i = o * stride + t * dilation - pad;
                if (i >= 0 && i < in) ++want[{i, t, o}];
              }
            std::int64_t pixels = 0, steps = 1 << 30;
            for (const CudaConvPhase& phase : cuda_conv_phases(p)) {
              EXPECT_LE(phase.steps, steps) << "most taps first";
              EXPECT_GE(phase.steps, 1) << "pixels without taps are written too";
              steps = phase.steps;
              pixels += phase.rows;
              const CudaConvWindow& w = phase.windows[2];
              EXPECT_EQ(w.lower + w.places - 1, w.pixels - 1 + w.upper()) << "the copy engine's row of places";
              for (std::int64_t j = 0; j < w.places; ++j)
                for (std::int64_t u = 0; u < w.taps; ++u) {
                  const std::int64_t offset = w.offset + u * w.tap_step, o = w.lower + j + offset;
                  EXPECT_TRUE(offset >= 0 && offset <= w.reach());
                  if (o >= 0 && o < out)
                    ++have[{phase.first[2] + j * stride, phase.filter_tap[2] + u * phase.filter_step[2], o}];
                }
            }
            EXPECT_EQ(pixels, in);
            ASSERT_EQ(have, want) << "in " << in << ", filter " << filter << ", stride " << stride << ", dilation "
                                  << dilation << ", pad " << pad;
            ++problems;
          }
  EXPECT_EQ(problems, 4 * 4 * 4 * 4 * 11);
}

// A step of some taps has blocks of fewer channels, in as few steps as hold all; kernels are candidates where that
// saves.
TEST(CudaConvChoice, TapsShareSteps) {
  ConvProblem p = conv_line(400, 5, 1, 1, 2);
  p.direction = ConvDirection::forward;
  const auto steps = [&](std::int64_t channels, int step_taps) {
    p.c = channels;
    return cuda_window_shape(p, step_taps).k / 64;
  };
  EXPECT_EQ(steps(24, 1), 5);
  EXPECT_EQ(steps(24, 2), 3) << "five blocks of 32";
  EXPECT_EQ(steps(24, 4), 3) << "ten blocks of 16";
  EXPECT_EQ(steps(16, 4), 2);
  EXPECT_EQ(steps(88, 2), 8) << "three blocks of each tap";
  p.direction = ConvDirection::backward_data;
  p.k = 24;
  p.stride_w = 2;
  EXPECT_EQ(cuda_conv_phases(p, 2)[0].steps, 2) << "three taps";
  EXPECT_EQ(cuda_conv_phases(p, 2)[1].steps, 1) << "two";
  p.direction = ConvDirection::backward_weight;
  p.stride_w = 1;
  p.c = 40;
  EXPECT_EQ(cuda_window_shape(p, 4).n, 5 * 48);
  for (const ConvDirection direction :
       {ConvDirection::forward, ConvDirection::backward_data, ConvDirection::backward_weight}) {
    std::set<int> found;
    p.direction = direction;
    p.c = p.k = 24;
    const auto ranking = rank(hopper(), p);
    ASSERT_TRUE(ranking);
    for (const Candidate& candidate : ranking->candidates) {
      const KernelConfig& config = candidate.recipe.main();
      if (config.operation() == Operation::conv && config.algorithm.pipeline == Pipeline::warp_specialized)
        found.insert(window_step_taps(config.algorithm));
    }
    EXPECT_EQ(found, (std::set<int>{1, 2})) << name_of(direction);
  }
}

// Images that a thread can have whole go to such kernels, unless their border is not that of the filter.
TEST(CudaConvChoice, ImagesOfFewPixelsAreWhole) {
  for (const ConvDirection direction : {ConvDirection::forward, ConvDirection::backward_data})
    for (const std::int64_t filter : {3, 5, 7})
      for (const std::int64_t pad : {filter / 2, std::int64_t{0}}) {
        const ConvProblem p{.direction = direction,
                            .data_type = DataType::bf16,
                            .type_out = DataType::bf16,
                            .type_bias = DataType::bf16,
                            .batch = 64,
                            .groups = 768,
                            .c = 1,
                            .k = 1,
                            .in_h = 7,
                            .in_w = 7,
                            .filter_h = filter,
                            .filter_w = filter,
                            .pad_h = pad,
                            .pad_w = pad,
                            .pad_high_h = pad,
                            .pad_high_w = pad};
        const auto ranking = rank(hopper(), p);
        ASSERT_TRUE(ranking);
        const KernelConfig& first = ranking->candidates.front().recipe.main();
        EXPECT_EQ(cuda_depthwise_tile(first.algorithm).whole, pad > 0) << native_name(first);
      }
}

// Blocks of backward weight begin at the same pixels of every tile, where there are few tiles; of many each block has
// its share, and no block has less than a few steps.
TEST(CudaConvChoice, BlocksOfAFewTilesShareTheirPixels) {
  int whole = 0, shared = 0;
  for (const std::int64_t channels : {64, 192, 512, 1024})
    for (const std::int64_t size : {2, 14, 56}) {
      const ConvProblem p{.direction = ConvDirection::backward_weight,
                          .data_type = DataType::bf16,
                          .type_out = DataType::bf16,
                          .type_bias = DataType::bf16,
                          .batch = 16,
                          .c = channels,
                          .k = channels,
                          .in_h = size,
                          .in_w = size,
                          .stride_h = 2,
                          .stride_w = 2};
      const auto ranking = rank(hopper(), p);
      ASSERT_TRUE(ranking);
      for (const Candidate& candidate : ranking->candidates) {
        const KernelConfig& config = candidate.recipe.main();
        if (config.algorithm.pipeline != Pipeline::warp_specialized || !config.algorithm.stream_k) continue;
        const CudaGemmWork work = cuda_window_work(config, hopper(), p);
        EXPECT_GE(work.blocks, std::min<std::int64_t>(work.items, hopper().reference.sms));
        EXPECT_LE(work.blocks, hopper().reference.sms);
        EXPECT_GE(work.places, 2 * work.blocks);
        const std::int64_t steps = cuda_window_shape(p).k / 64;
        EXPECT_TRUE(work.blocks <= work.items || work.items * steps >= 4 * work.blocks) << "at least four steps each";
        ++(work.blocks % work.items == 0 ? whole : shared);
      }
    }
  EXPECT_GT(whole, 0);
  EXPECT_GT(shared, 0);
}

// Boxes of a result may reach beyond a group's channels where the copy engine cuts them off: where pixels are one
// phase. 3x3 560-448 in 7 groups @24 x 10 took 35.6 us by boxes of few channels, 14.9 by 128 x 96 (H200).
TEST(CudaConvChoice, ResultsOfAGroupAreNoWholeBoxes) {
  for (const std::int64_t stride : {1, 2}) {
    const ConvProblem p{.direction = ConvDirection::backward_data,
                        .data_type = DataType::bf16,
                        .type_out = DataType::bf16,
                        .type_bias = DataType::bf16,
                        .batch = 10,
                        .groups = 7,
                        .c = 80,
                        .k = 64,
                        .in_h = 24,
                        .in_w = 24,
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
    int cut = 0;
    for (const Candidate& candidate : ranking->candidates) {
      const KernelConfig& config = candidate.recipe.main();
      if (config.operation() != Operation::conv || config.algorithm.pipeline != Pipeline::warp_specialized) continue;
      cut += p.c % (cuda_gemm_resources(gemm_of_window(config)).slab_row_bytes / 2) != 0 ? 1 : 0;
    }
    EXPECT_EQ(cut > 0, stride == 1);
    const int columns = ranking->candidates.front().recipe.main().algorithm.tile[1];
    EXPECT_TRUE(stride > 1 || columns == 96) << columns;
  }
}

// Where the sums of backward weight are split, all parts run at a time, each has steps and a place, and clusters are
// whole.
TEST(CudaConvChoice, PartsOfWeightsRunAtATime) {
  int split = 0, whole = 0;
  for (const std::int64_t channels : {8, 64, 192, 512, 2048})
    for (const std::int64_t size : {1, 14, 56}) {
      const ConvProblem p{.direction = ConvDirection::backward_weight,
                          .data_type = DataType::bf16,
                          .type_out = DataType::bf16,
                          .type_bias = DataType::bf16,
                          .batch = 16,
                          .c = channels,
                          .k = channels,
                          .in_h = size,
                          .in_w = size,
                          .filter_h = size > 1 ? 3 : 1};
      const auto ranking = rank(hopper(), p);
      ASSERT_TRUE(ranking);
      for (const Candidate& candidate : ranking->candidates) {
        const KernelConfig& config = candidate.recipe.main();
        const Algorithm& a = config.algorithm;
        if (config.operation() != Operation::conv || a.pipeline != Pipeline::warp_specialized || !a.split_k) continue;
        SCOPED_TRACE(native_name(config));
        const CudaGemmWork work = cuda_window_work(config, hopper(), p);
        EXPECT_EQ(work.places, work.items);
        EXPECT_EQ(work.items % (work.splits * a.cluster[0] * a.cluster[1]), 0);
        EXPECT_EQ(work.blocks % (a.cluster[0] * a.cluster[1]), 0);
        EXPECT_LE(work.blocks, std::min<std::int64_t>(work.items, hopper().reference.sms));
        EXPECT_TRUE(work.splits == 1 || work.items <= work.blocks);
        EXPECT_LE(work.splits, std::max<std::int64_t>(cuda_window_shape(p).k / 64, 1));
        ++(work.splits > 1 ? split : whole);
      }
    }
  EXPECT_GT(split, 0);
  EXPECT_GT(whole, 0);
}

// Of few filters rows of pixels decide, of which large tiles bring fewer: 216-8 by 3x3x3 on 8x30x30 took 62.2 us by
// equal shares of 64 x 64 and 32.2 by split sums of 64 x 256 (H200).
TEST(CudaConvChoice, WeightsOfFewFiltersBringFewRows) {
  const ConvProblem p{.direction = ConvDirection::backward_weight,
                      .data_type = DataType::bf16,
                      .type_out = DataType::bf16,
                      .type_bias = DataType::bf16,
                      .c = 216,
                      .k = 8,
                      .in_d = 8,
                      .in_h = 30,
                      .in_w = 30,
                      .filter_d = 3,
                      .filter_h = 3,
                      .filter_w = 3,
                      .pad_d = 1,
                      .pad_h = 1,
                      .pad_w = 1,
                      .pad_high_d = 1,
                      .pad_high_h = 1,
                      .pad_high_w = 1};
  const auto ranking = rank(hopper(), p);
  ASSERT_TRUE(ranking);
  const Algorithm& first = ranking->candidates.front().recipe.main().algorithm;
  EXPECT_EQ(first.tile[1], 256) << native_name(ranking->candidates.front().recipe.main());
  EXPECT_TRUE(first.split_k);
}

// A tile of 64 x 64 has one sum of all pixels: GEMM cuts it into 16 parts, convolution into as many as there are SMs.
TEST(CudaConvChoice, FewFiltersOfManyPixelsFillTheChip) {
  const ConvProblem p{.direction = ConvDirection::backward_weight,
                      .data_type = DataType::bf16,
                      .type_out = DataType::bf16,
                      .type_bias = DataType::bf16,
                      .batch = 128,
                      .c = 64,
                      .k = 64,
                      .in_h = 56,
                      .in_w = 56};
  const auto ranking = rank(hopper(), p);
  ASSERT_TRUE(ranking);
  const KernelConfig& first = ranking->candidates.front().recipe.main();
  ASSERT_EQ(first.operation(), Operation::conv) << native_name(first);
  EXPECT_EQ(cuda_window_work(first, hopper(), p).blocks, hopper().reference.sms);
}

// A kernel that may cut its sum leaves and reads the only part too: of 16-104, one tap, stride 2 on 17x17, it took 7.7
// us, the one that does not cut 5.5 (H200).
TEST(CudaConvChoice, SumsOfOneStepAreNotCut) {
  const ConvProblem p{.data_type = DataType::bf16,
                      .type_out = DataType::bf16,
                      .type_bias = DataType::bf16,
                      .batch = 3,
                      .c = 16,
                      .k = 104,
                      .in_h = 17,
                      .in_w = 17,
                      .stride_h = 2,
                      .stride_w = 2};
  const auto ranking = rank(hopper(), p);
  ASSERT_TRUE(ranking);
  const KernelConfig& first = ranking->candidates.front().recipe.main();
  EXPECT_FALSE(first.algorithm.split_k) << native_name(first);
}

// 25088 pixels are 131 tiles of 192, 6272 by 512 channels 132 of 96 by 256; an image that is written by phases leaves
// in whole boxes of 64 pixels.
TEST(CudaConvChoice, RoundsOfTilesFillTheChip) {
  const auto first = [](const ConvProblem& p) { return rank(hopper(), p)->candidates.front().recipe.main().algorithm; };
  ConvProblem p{.data_type = DataType::bf16,
                .type_out = DataType::bf16,
                .type_bias = DataType::bf16,
                .batch = 128,
                .c = 256,
                .k = 256,
                .in_h = 14,
                .in_w = 14,
                .filter_h = 3,
                .filter_w = 3,
                .pad_h = 1,
                .pad_w = 1,
                .pad_high_h = 1,
                .pad_high_w = 1};
  EXPECT_TRUE(first(p).transpose_c);
  EXPECT_EQ(first(p).tile[0], 192);
  p.c = p.k = 512;
  p.in_h = p.in_w = 7;
  EXPECT_EQ(first(p).tile[0], 96);
  p.direction = ConvDirection::backward_data;
  EXPECT_EQ(first(p).tile[0], 96);
  p.k = 512;
  p.c = 256;
  p.in_h = p.in_w = 56;
  p.stride_h = p.stride_w = 2;
  p.pad_h = p.pad_w = p.pad_high_h = p.pad_high_w = 0;
  p.filter_h = p.filter_w = 1;
  EXPECT_FALSE(first(p).transpose_c);
}

// Clusters that share k wait for pixels that come from memory: 50 to 74 us where equal shares take 39 to 59 (H100).
TEST(CudaConvChoice, PixelsOfWeightsAreNotSharedByClusters) {
  struct Layer {
    std::int64_t c, k, side;
  };
  for (const auto& [c, k, side] : {Layer{1024, 256, 14}, Layer{512, 128, 28}, Layer{128, 512, 28}}) {
    const ConvProblem p{.direction = ConvDirection::backward_weight,
                        .data_type = DataType::bf16,
                        .type_out = DataType::bf16,
                        .type_bias = DataType::bf16,
                        .batch = 128,
                        .c = c,
                        .k = k,
                        .in_h = side,
                        .in_w = side};
    const auto ranking = rank(hopper(), p);
    ASSERT_TRUE(ranking);
    EXPECT_EQ(ranking->candidates.front().recipe.main().algorithm.cluster_k, 1)
        << recipe_name(ranking->candidates.front().recipe);
  }
}

// Parts of a sum that is not cut would take 33 GB here, and a stream keeps them.
TEST(CudaConvLaunch, SumsThatAreNotCutTakeNoMemory) {
  for (const ConvDirection direction :
       {ConvDirection::forward, ConvDirection::backward_data, ConvDirection::backward_weight}) {
    const ConvProblem p{.direction = direction,
                        .data_type = DataType::bf16,
                        .type_out = DataType::bf16,
                        .type_bias = DataType::bf16,
                        .batch = 16,
                        .groups = 624,
                        .c = 1,
                        .k = 1,
                        .in_h = 81,
                        .in_w = 81,
                        .filter_h = 5,
                        .filter_w = 5,
                        .stride_h = 2,
                        .stride_w = 2,
                        .pad_h = 2,
                        .pad_w = 2,
                        .pad_high_h = 2,
                        .pad_high_w = 2};
    const auto ranking = rank(hopper(), p);
    ASSERT_TRUE(ranking);
    std::size_t found = 0;
    for (const Candidate& candidate : ranking->candidates) {
      const KernelConfig& config = candidate.recipe.main();
      if (config.algorithm.pipeline != Pipeline::mma_sm80 || !config.algorithm.split_k) continue;
      ++found;
      const CudaConvLaunch launch = cuda_conv_launch(config, hopper(), p);
      EXPECT_EQ(launch.splits, 1);
      EXPECT_EQ(launch.part_bytes, 0);
      EXPECT_EQ(launch.counters, 0);
    }
    EXPECT_GT(found, 0u);
  }
}

// 176-216 on 38x38, H200: 111 us in tiles of 176 x 256, 170 in tiles of 128 x 128, of which a step brings as many rows
// for half of the products.
TEST(CudaConvChoice, LargeTilesGoFirstWhereChannelsAreCut) {
  const ConvProblem p{.data_type = DataType::bf16,
                      .type_out = DataType::bf16,
                      .type_bias = DataType::bf16,
                      .batch = 64,
                      .c = 176,
                      .k = 216,
                      .in_h = 38,
                      .in_w = 38,
                      .filter_h = 3,
                      .filter_w = 3,
                      .pad_h = 1,
                      .pad_w = 1,
                      .pad_high_h = 1,
                      .pad_high_w = 1};
  const auto ranking = rank(hopper(), p);
  ASSERT_TRUE(ranking);
  const Algorithm& first = ranking->candidates.front().recipe.main().algorithm;
  EXPECT_TRUE(first.transpose_c);
  EXPECT_GE(first.tile[0], 144);
}

}  // namespace
}  // namespace tilesmith
