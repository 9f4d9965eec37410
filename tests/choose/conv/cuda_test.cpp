// Choosing CUDA convolution kernels: the phases of backward data are the definition's, and what a ranking holds serves.
#include "choose/conv/cuda.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <random>
#include <set>
#include <tuple>

#include "base/json.hpp"
#include "choose/conv/cuda_launch.hpp"
#include "choose/conv/cuda_padded.hpp"
#include "choose/conv/cuda_window.hpp"
#include "choose/conv/cuda_work.hpp"
#include "instances/conv/cuda.hpp"
#include "instances/conv/cuda_resources.hpp"
#include "instances/conv/cuda_window.hpp"
#include "problem/conv/problem.hpp"
#include "problem/conv/slices.hpp"
#include "spec/spec_files.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

const CudaSpec& hopper() {
  static const std::vector<CudaSpec> specs = load_cuda_specs().value();
  return *std::ranges::find_if(specs, [](const CudaSpec& spec) { return spec.arch.text() == "sm_90a"; });
}

ConvProblem line(std::int64_t in, std::int64_t filter, std::int64_t stride, std::int64_t dilation, std::int64_t pad) {
  ConvProblem p{.direction = ConvDirection::backward_data,
                .data_type = DataType::bf16,
                .type_out = DataType::bf16,
                .type_bias = DataType::bf16,
                .c = 64,
                .k = 64,
                .in_w = in,
                .filter_w = filter,
                .stride_w = stride,
                .dilation_w = dilation,
                .pad_w = pad};
  p.pad_high_w = std::max<std::int64_t>(pad, dilation * (filter - 1) + 1 - in - pad);
  return p;
}

// Of every pixel of x: the taps that meet it, and from which pixel of y; what lies outside of y is read as zero.
TEST(CudaConvPhases, MeetWhatTheDefinitionMeets) {
  using Meeting = std::tuple<std::int64_t, std::int64_t, std::int64_t>;  // pixel of x, tap, pixel of y
  int problems = 0;
  for (std::int64_t stride = 1; stride <= 4; ++stride)
    for (std::int64_t dilation = 1; dilation <= 4; ++dilation)
      for (std::int64_t pad = 0; pad <= 3; ++pad)
        for (std::int64_t filter = 1; filter <= 4; ++filter)
          for (std::int64_t in = 1; in <= 11; ++in) {
            const ConvProblem p = line(in, filter, stride, dilation, pad);
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
  ConvProblem p = line(400, 5, 1, 1, 2);
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

// Candidates are in the order of their times, and each serves the problem.
TEST(CudaConvChoice, CandidatesServe) {
  for (const ConvDirection direction :
       {ConvDirection::forward, ConvDirection::backward_data, ConvDirection::backward_weight})
    for (const std::int64_t stride : {1, 2, 9}) {
      ConvProblem p = line(40, 3, stride, 1, 1);
      p.direction = direction;
      const auto ranking = rank(hopper(), p);
      ASSERT_TRUE(ranking) << ranking.error().text();
      double before = 0;
      for (const Candidate& candidate : ranking->candidates) {
        EXPECT_TRUE(serves(hopper(), candidate.recipe.main(), p)) << recipe_name(candidate.recipe);
        EXPECT_GE(candidate.predicted_seconds, before);
        before = candidate.predicted_seconds;
      }
      const bool hopper_too = std::ranges::any_of(ranking->candidates, [](const Candidate& candidate) {
        return candidate.recipe.main().algorithm.pipeline == Pipeline::warp_specialized;
      });
      EXPECT_EQ(hopper_too, stride <= 2) << "windows take at most 8 pixels a step, phases are at most 8";
    }
}

// What the copy engine cannot bring is said.
TEST(CudaConvChoice, ObstaclesAreNamed) {
  ConvProblem p = line(40, 3, 1, 1, 1);
  EXPECT_FALSE(cuda_window_obstacle(p, 1));
  const auto named = [&](auto change, const char* words) {
    ConvProblem changed = p;
    change(changed);
    const auto why = cuda_window_obstacle(changed, 1);
    EXPECT_TRUE(why && why->find(words) != std::string::npos) << why.value_or("none");
  };
  named([](ConvProblem& q) { q.c = 60; }, "16 bytes");
  named([](ConvProblem& q) { q.unaligned = true; }, "16 bytes");
  named([](ConvProblem& q) { q.groups = 2, q.k = 72; }, "next group's");
  named([](ConvProblem& q) { q.batch = 0; }, "no images");
  named([](ConvProblem& q) { q.stride_w = 9; }, "phases");
  named([](ConvProblem& q) { q.stride_w = 2, q.epilogue = {EpilogueOp::add}; }, "phases");
  named(
      [](ConvProblem& q) {
        q.dilation_w = 40000;
        q.pad_w = q.pad_high_w = 40000;
      },
      "windows");
}

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

// Where no tap moves along the outer coordinate, kernels of two dimensions take slices as images.
TEST(CudaConvChoice, SlicesAreImages) {
  const ConvProblem p{.data_type = DataType::fp16,
                      .type_out = DataType::fp16,
                      .type_bias = DataType::fp16,
                      .batch = 31,
                      .c = 32,
                      .k = 40,
                      .in_d = 25,
                      .in_h = 28,
                      .in_w = 28,
                      .filter_h = 3,
                      .filter_w = 3,
                      .pad_h = 1,
                      .pad_w = 1,
                      .pad_high_h = 1,
                      .pad_high_w = 1};
  const auto images = images_of_slices(p);
  ASSERT_TRUE(images);
  EXPECT_EQ(images->batch, 31 * 25);
  EXPECT_EQ(images->in(), (ConvSpatial{1, 28, 28}));
  EXPECT_EQ(pixels_of_y(*images), pixels_of_y(p));
  for (const ConvDirection direction :
       {ConvDirection::forward, ConvDirection::backward_data, ConvDirection::backward_weight}) {
    ConvProblem each = p;
    each.direction = direction;
    const auto ranking = rank(hopper(), each);
    ASSERT_TRUE(ranking);
    const KernelConfig& first = ranking->candidates.front().recipe.main();
    EXPECT_EQ(first.algorithm.pipeline, Pipeline::halo) << recipe_name(ranking->candidates.front().recipe);
    EXPECT_EQ(cuda_conv_seen(first, each).batch, images->batch);
    EXPECT_TRUE(serves(hopper(), first, each));
  }
  const ConvArguments call = arguments_of_slices(p, dense_arguments(p, ConvLayout::channels_last));
  EXPECT_EQ(call.x_strides.batch, 28 * 28 * 32);
  EXPECT_EQ(call.y_strides.batch, 28 * 28 * 40);
  for (const auto change :
       {&ConvProblem::filter_d, &ConvProblem::stride_d, &ConvProblem::pad_d, &ConvProblem::pad_high_d}) {
    ConvProblem other = p;
    other.*change = 2;
    EXPECT_FALSE(images_of_slices(other));
  }
  ConvProblem apart = p;
  apart.unaligned = true;
  EXPECT_FALSE(images_of_slices(apart));
  EXPECT_FALSE(images_of_slices(*images));
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

/// Layers of every kind that some model predicts.
std::vector<ConvProblem> layers_of_every_kind() {
  struct Shape {
    std::int64_t batch, groups, c, k, pixels, filter, stride;
  };
  std::vector<ConvProblem> out;
  for (const Shape& s :
       {Shape{64, 1, 3, 32, 224, 3, 2}, Shape{64, 96, 1, 1, 56, 7, 1}, Shape{64, 768, 1, 1, 7, 7, 1},
        Shape{32, 256, 1, 1, 56, 3, 1}, Shape{64, 144, 1, 1, 56, 5, 2}, Shape{8, 64, 1, 1, 40, 3, 3},
        Shape{64, 32, 16, 16, 28, 3, 1}, Shape{64, 32, 32, 32, 7, 3, 1}, Shape{64, 32, 8, 8, 28, 3, 1},
        Shape{16, 32, 8, 8, 28, 5, 2}, Shape{64, 1, 64, 64, 56, 3, 1}, Shape{64, 1, 128, 128, 56, 3, 2},
        Shape{128, 1, 1024, 256, 14, 1, 1}, Shape{128, 1, 64, 256, 56, 1, 1}, Shape{64, 1, 192, 328, 14, 1, 1},
        Shape{4, 1, 12, 48, 20, 3, 1}, Shape{4, 1, 13, 48, 20, 3, 1}, Shape{64, 1, 24, 144, 56, 1, 1}})
    for (const ConvDirection direction :
         {ConvDirection::forward, ConvDirection::backward_data, ConvDirection::backward_weight})
      out.push_back({.direction = direction,
                     .data_type = DataType::bf16,
                     .type_out = DataType::bf16,
                     .type_bias = DataType::bf16,
                     .batch = s.batch,
                     .groups = s.groups,
                     .c = s.c,
                     .k = s.k,
                     .in_h = s.pixels,
                     .in_w = s.pixels,
                     .filter_h = s.filter,
                     .filter_w = s.filter,
                     .stride_h = s.stride,
                     .stride_w = s.stride,
                     .pad_h = s.filter / 2,
                     .pad_w = s.filter / 2,
                     .pad_high_h = s.filter / 2,
                     .pad_high_w = s.filter / 2});
  return out;
}

/// The places of all numbers below a place, as JSON pointers.
void add_numbers(const nlohmann::json& value, const std::string& at, std::vector<std::string>& out) {
  if (value.is_number()) out.push_back(at);
  if (value.is_object())
    for (const auto& [name, member] : value.items()) add_numbers(member, at + "/" + name, out);
}

// A figure of the models that changes no ranking is read by nobody, or hidden by the others.
TEST(CudaConvChoice, EveryFigureOfTheModelsCounts) {
  const auto json = nlohmann::json::parse(*spec_file_text("cuda/sm_90a.json"));
  std::vector<std::string> figures;
  add_numbers(json["conv"]["models"], "/conv/models", figures);
  add_numbers(json["conv"]["join"], "/conv/join", figures);
  ASSERT_GT(figures.size(), 60u);
  using Prediction = std::pair<std::string, double>;
  const auto predictions = [](const CudaSpec& spec, const ConvProblem& p) {
    std::vector<Prediction> out;
    const auto ranking = rank(spec, p);
    if (ranking)
      for (const Candidate& each : ranking->candidates)
        out.emplace_back(recipe_name(each.recipe), each.predicted_seconds);
    return out;
  };
  const std::vector<ConvProblem> problems = layers_of_every_kind();
  std::vector<std::vector<Prediction>> before;
  for (const ConvProblem& p : problems) before.push_back(predictions(hopper(), p));
  for (const std::string& figure : figures) {
    bool counts = false;
    for (const double times : {1.5, 0.25}) {
      nlohmann::json changed = json;
      auto& value = changed[nlohmann::json::json_pointer(figure)];
      value = times * value.get<double>();
      const auto spec = parse_cuda_spec("changed.json", changed.dump());
      ASSERT_TRUE(spec) << spec.error().text();
      for (std::size_t i = 0; i < problems.size() && !counts; ++i)
        counts = predictions(*spec, problems[i]) != before[i];
    }
    EXPECT_TRUE(counts) << figure;
  }
}

// Few channels in one to three dimensions: pixels come to shared memory once for all taps. Twelve channels are read
// eight bytes at a time; an odd number goes to the general template, or is filled up.
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
      EXPECT_EQ(first.pipeline == Pipeline::direct, channels != 13) << name_of(direction) << " " << channels;
      EXPECT_EQ(first.vector[0], channels == 12 ? 4 : channels == 16 ? 8 : first.vector[0]);
    }
}

// Of one tap too, where GEMM's kernels would read elements.
TEST(CudaConvChoice, PointwiseLayersOfTwelveChannelsGetDirectKernels) {
  const ConvProblem p{.data_type = DataType::bf16,
                      .type_out = DataType::bf16,
                      .type_bias = DataType::bf16,
                      .batch = 4,
                      .c = 12,
                      .k = 32,
                      .in_w = 8941};
  const auto ranking = rank(hopper(), p);
  ASSERT_TRUE(ranking);
  EXPECT_EQ(ranking->candidates.front().recipe.main().algorithm.pipeline, Pipeline::direct);
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

ConvProblem drawn(unsigned seed) {
  std::mt19937 random(seed);
  const auto one_of = [&](std::initializer_list<std::int64_t> values) {
    return *(values.begin() + random() % values.size());
  };
  ConvProblem p;
  p.direction = static_cast<ConvDirection>(random() % 3);
  p.data_type = p.type_out = p.type_bias = random() % 4 == 0 ? DataType::fp32 : DataType::bf16;
  p.batch = one_of({0, 1, 4, 32});
  p.groups = one_of({1, 1, 8, 24});
  p.c = one_of({1, 3, 8, 16, 36, 64, 128});
  p.k = random() % 2 == 0 ? p.c : one_of({1, 5, 16, 48, 128});
  p.in_w = one_of({7, 14, 57});
  p.filter_w = one_of({1, 3, 3, 5});
  p.stride_w = one_of({1, 1, 2});
  p.pad_w = p.pad_high_w = p.filter_w / 2;
  if (random() % 3 > 0) {
    p.in_h = p.in_w;
    p.filter_h = p.filter_w;
    p.stride_h = p.stride_w;
    p.pad_h = p.pad_high_h = p.pad_w;
  }
  if (random() % 4 == 0) {
    p.in_d = 6;
    p.filter_d = one_of({1, 3});
  }
  p.unaligned = random() % 8 == 0;
  return p;
}

// A ranking asks only what may suit; what it leaves out, a walk over everything refuses.
TEST(CudaConvChoice, WhatIsNoCandidateIsRefused) {
  std::map<Pipeline, int> candidates;
  for (unsigned seed = 0; seed < 300; ++seed) {
    const ConvProblem p = drawn(seed);
    SCOPED_TRACE(seed);
    ASSERT_TRUE(validate(p));
    std::set<Key128> ranked, refused;
    if (const auto ranking = rank(hopper(), p))
      for (const Candidate& candidate : ranking->candidates) {
        const KernelConfig& config = candidate.recipe.main();
        if (config.operation() != Operation::conv || candidate.recipe.steps.size() > 1) continue;
        EXPECT_TRUE(ranked.insert(key_of(config)).second) << "twice: " << native_name(config);
        ++candidates[config.algorithm.pipeline];
      }
    const auto refusals_of_p = refusals(hopper(), p);
    ASSERT_TRUE(refusals_of_p);
    for (const Refusal& refusal : *refusals_of_p) refused.insert(key_of(refusal.config));
    const auto is_one_or_the_other = [&](const KernelConfig& config, const CudaGemmTile&, const CudaConvRule*) {
      const Key128 key = key_of(config);
      // Kernels that only copy channels are no candidates of their own.
      if (config.algorithm.pipeline == Pipeline::rowwise) return true;
      EXPECT_NE(ranked.contains(key), refused.contains(key)) << native_name(config);
      return true;
    };
    for (const int dims : {3, cuda_conv_dimensions(images_of_slices(p).value_or(p))}) {
      ConvSignature signature = cuda_signature_of(p, dims);
      walk_cuda_conv(hopper(), signature, is_one_or_the_other);
      signature.depthwise = true;
      if (p.c == 1 && p.k == 1) walk_cuda_conv(hopper(), signature, is_one_or_the_other);
    }
  }
  for (const Pipeline pipeline :
       {Pipeline::mma_sm80, Pipeline::warp_specialized, Pipeline::depthwise, Pipeline::grouped, Pipeline::halo,
        Pipeline::stem, Pipeline::direct, Pipeline::pointwise})
    EXPECT_GT(candidates[pipeline], 0) << name_of(pipeline);
}

// Choosing passes on the row that a kernel was made from; a launch finds the same one.
TEST(CudaConvChoice, LaunchesFindTheRowThatRankingKnew) {
  int kernels = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    const ConvProblem p = drawn(seed);
    walk_cuda_conv(hopper(), cuda_signature_of(p, 3),
                   [&](const KernelConfig& config, const CudaGemmTile& row, const CudaConvRule* refused) {
                     if (refused != nullptr) return true;
                     const CudaGemmTile* found = cuda_conv_row(config, hopper());
                     EXPECT_NE(found, nullptr) << native_name(config);
                     EXPECT_EQ(found, &row) << native_name(config);
                     ++kernels;
                     return true;
                   });
  }
  EXPECT_GT(kernels, 0);
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
    EXPECT_EQ(first.main().algorithm.pipeline, Pipeline::warp_specialized);
    EXPECT_FALSE(serves(hopper(), first.main(), p)) << "without copies";
    EXPECT_FALSE(serves(hopper(), first.steps.front().config, p)) << "copies alone";
    const auto padded = with_whole_octets(p);
    ASSERT_TRUE(padded);
    EXPECT_EQ(padded->c, 56);
    EXPECT_EQ(padded->k, 344);
    EXPECT_TRUE(serves(hopper(), first.main(), *padded));
    EXPECT_GT(ranking->candidates.front().predicted_seconds, padding_seconds(hopper(), p, *padded));
  }
}

TEST(CudaConvChoice, ChannelsAreFilledUpWhereNothingReadsWhatFillsThem) {
  ConvProblem p = odd_channels(ConvDirection::backward_data);
  p.k = 13;
  const auto padded = with_whole_octets(p);
  ASSERT_TRUE(padded);
  EXPECT_EQ(padded->c, 56);
  EXPECT_EQ(padded->k, 16);
  const std::array<std::int64_t, 3> elements = padded_elements(p, *padded);
  EXPECT_EQ(elements, (std::array<std::int64_t, 3>{12 * 40 * 40 * 56, 27 * 16 * 56, 12 * 40 * 40 * 16}));
  p.epilogue = {EpilogueOp::bias};
  EXPECT_FALSE(with_whole_octets(p)) << "a bias of 49 channels";
  p.direction = ConvDirection::forward;
  ASSERT_TRUE(with_whole_octets(p));
  EXPECT_EQ(with_whole_octets(p)->k, 13) << "forward, the result is the caller's own";
  p.unaligned = true;
  EXPECT_FALSE(with_whole_octets(p)) << "channels may be apart";
  p.unaligned = false;
  p.c = 48;
  EXPECT_FALSE(with_whole_octets(p));
  p.c = 49;
  p.data_type = p.type_out = DataType::fp32;
  EXPECT_FALSE(with_whole_octets(p));
  ConvProblem depthwise = odd_channels(ConvDirection::backward_weight);
  depthwise.groups = 49;
  depthwise.c = depthwise.k = 1;
  EXPECT_FALSE(with_whole_octets(depthwise));
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

}  // namespace
}  // namespace tilesmith
