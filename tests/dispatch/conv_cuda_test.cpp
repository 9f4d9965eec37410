// Convolution on a CUDA device: random problems on each pipeline against the float64 reference, between red zones;
// whole numbers that must come out exactly; what must not leak in; the same bits from call to call; images far apart; a
// workspace of the caller's.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "dispatch/conv_problems.hpp"
#include "dispatch/cuda_backend.hpp"
#include "dispatch/test_store.hpp"
#include "instances/conv/cuda_window.hpp"
#include "problem/describe.hpp"
#include "runtime/cuda/device.hpp"
#include "thorough.hpp"
#include "trial/trial.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

using testing::kAllDirections;
using testing::random_conv;
using testing::whole_conv;
using testing::whole_numbers;

constexpr Device kConvDevice{DeviceKind::cuda, 0};

class CudaConvTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto& devices = cuda_devices();
    if (!devices) GTEST_SKIP() << devices.error().text();
    if (devices->empty()) GTEST_SKIP() << "no CUDA device";
  }
};

/// Sizes that tiles of tensor cores see whole and cut: more channels, and multiples of 8 half of the time.
RandomCall<Conv> random_wide_conv(std::uint64_t seed) {
  RandomCall<Conv> call = random_conv(seed);
  ConvProblem& p = call.problem;
  std::vector<float> draws(4);
  fill_uniform(draws, {seed, 8}, 0, 1);
  if (p.c == 1 && p.k == 1) {
    if (seed % 8 != 3) return call;
    // Results that meet neighbours, in more than one tile: bands.
    call.numbers.layout = ConvLayout::channels_last;
    if (p.data_type == DataType::fp32) p.data_type = DataType::bf16;
    p.type_out = p.data_type;
    if (std::ranges::count(p.epilogue, EpilogueOp::add) > 0) p.epilogue = {EpilogueOp::scale_n, EpilogueOp::tanh};
    p.groups = 8 + 8 * static_cast<std::int64_t>(draws[0] * 9);
    p.in_d = p.filter_d = p.stride_d = p.dilation_d = 1;
    p.pad_d = p.pad_high_d = 0;
    if (p.direction != ConvDirection::backward_data) p.stride_h = p.stride_w = 1;
    p.filter_h = 1 + static_cast<std::int64_t>(draws[1] * 7);
    p.filter_w = 1 + static_cast<std::int64_t>(draws[2] * 7);
    p.in_h = p.dilation_h * (p.filter_h - 1) + 1 + static_cast<std::int64_t>(draws[3] * 40);
    p.in_w = p.dilation_w * (p.filter_w - 1) + 1 + static_cast<std::int64_t>(draws[1] * 35);
    if (seed % 48 == 11) {  // backward weight of images that are whole in a tile
      p.dilation_h = p.dilation_w = 1;
      p.in_h = 1 + static_cast<std::int64_t>(draws[3] * 7);
      p.in_w = 1 + static_cast<std::int64_t>(draws[1] * 7);
      p.pad_h = p.pad_high_h = p.filter_h / 2;
      p.pad_w = p.pad_high_w = p.filter_w / 2;
      p.batch = 1 + static_cast<std::int64_t>(draws[0] * 40);
    }
    return call;
  }
  const auto channels = [&](float draw) { return 8 + 8 * static_cast<std::int64_t>(draw * 24); };
  if (seed % 8 == 1) {  // boxes of few channels
    p.c = 4 + 4 * static_cast<std::int64_t>(draws[0] * 16);
    p.k = 4 + 4 * static_cast<std::int64_t>(draws[1] * 20);
    call.numbers.layout = ConvLayout::channels_last;
    if (p.data_type == DataType::fp32) p.data_type = p.type_out = DataType::bf16;
  }
  if (seed % 8 == 7) {  // few channels that are read, so that taps share steps
    std::int64_t& read = p.direction == ConvDirection::backward_data ? p.k : p.c;
    (p.direction == ConvDirection::backward_data ? p.c : p.k) = channels(draws[1]);
    read = 8 + 8 * static_cast<std::int64_t>(draws[0] * 12);
    if (seed % 16 == 7) p.groups = 1;
    if (p.groups > 1) read = 32;
    call.numbers.layout = ConvLayout::channels_last;
    if (p.data_type == DataType::fp32) p.data_type = p.type_out = DataType::bf16;
  }
  if (seed % 8 == 5) {  // one tap on few channels
    p.c = channels(draws[0]);
    p.k = channels(draws[1]);
    p.filter_d = p.filter_h = p.filter_w = p.stride_d = p.stride_h = p.stride_w = 1;
    p.pad_d = p.pad_h = p.pad_w = p.pad_high_d = p.pad_high_h = p.pad_high_w = 0;
    p.in_w += static_cast<std::int64_t>(draws[2] * 700);
    call.numbers.layout = ConvLayout::channels_last;
    if (p.data_type == DataType::fp32) p.data_type = p.type_out = DataType::bf16;
  }
  if (seed % 2 == 0) {
    p.c = channels(draws[0]);
    p.k = channels(draws[1]);
    call.numbers.layout = ConvLayout::channels_last;
    if (seed % 8 == 0) p.c = 64 * (p.groups = 2);
    if (seed % 8 == 4) {  // groups of a few channels
      p.c = p.k = 4 << seed / 8 % 4;
      p.groups = 2 * (1 + static_cast<std::int64_t>(draws[2] * 12));
      if (seed / 24 % 2 == 0) {  // of 3 x 3 taps, whose tiles come through maps
        p.in_d = p.filter_d = p.stride_d = p.dilation_d = 1;
        p.pad_d = p.pad_high_d = 0;
        p.filter_h = p.filter_w = 3;
        if (p.direction == ConvDirection::backward_data) p.stride_h = p.stride_w = 1;
        if (p.direction == ConvDirection::forward)
          p.stride_h = p.stride_w = 1 + static_cast<std::int64_t>(seed / 48 % 2);
        p.in_h = 2 * p.dilation_h + 1 + static_cast<std::int64_t>(draws[1] * 30);
        p.in_w = 2 * p.dilation_w + 1 + static_cast<std::int64_t>(draws[3] * 60);
      }
    }
    if (p.direction == ConvDirection::backward_weight && seed % 4 == 2) {  // filters of halo tiles
      p.in_d = p.filter_d = p.stride_d = p.dilation_d = p.dilation_h = p.dilation_w = 1;
      p.pad_d = p.pad_high_d = 0;
      p.filter_h = p.filter_w = 3;
      p.stride_h = p.stride_w = 1 + static_cast<std::int64_t>(seed / 12 % 2);
      p.in_h = 3 + static_cast<std::int64_t>(draws[2] * 30);
      p.in_w = 3 + static_cast<std::int64_t>(draws[3] * 30);
    }
    if (p.direction != ConvDirection::backward_weight && seed % 8 == 2) {  // boxes of halo tiles
      p.in_d = p.filter_d = p.stride_d = p.dilation_d = p.dilation_h = p.dilation_w = p.stride_h = p.stride_w = 1;
      p.pad_d = p.pad_high_d = 0;
      p.filter_h = p.filter_w = 3;
      p.in_h = 3 + static_cast<std::int64_t>(draws[2] * 60);
      p.in_w = 3 + static_cast<std::int64_t>(draws[3] * 40);
      (p.direction == ConvDirection::forward ? p.c : p.k) = 8 + 8 * static_cast<std::int64_t>(draws[0] * 8);
      p.type_out = p.data_type = p.data_type == DataType::fp32 ? DataType::bf16 : p.data_type;
      if (std::ranges::any_of(p.epilogue, reads_tensor)) p.epilogue = {EpilogueOp::scale_n, EpilogueOp::bias};
    }
    if (seed % 8 == 6) {  // images of a few channels
      p.groups = 1;
      p.c = 1 + static_cast<std::int64_t>(seed / 8 % 4);
      p.k = 3 + static_cast<std::int64_t>(draws[1] * 100);
      if (seed % 16 == 6) call.numbers.layout = ConvLayout::channels_first;
    }
    if (p.data_type == DataType::fp32 && seed % 8 != 2) p.data_type = p.type_out = DataType::bf16;
  }
  return call;
}

/// The kernels to run: the first of each pipeline, of those whose taps share steps the first of each number, and one
/// more.
std::vector<std::string> kernels_for(const ConvProblem& problem, std::uint64_t seed) {
  const auto backend = CudaBackend::make(0, cuda_device_properties(0).value());
  EXPECT_TRUE(backend) << backend.error().text();
  const auto kernels = (*backend)->find<Conv>();
  EXPECT_TRUE(kernels) << kernels.error().text();
  const auto ranking = (*kernels)->rank(problem);
  EXPECT_TRUE(ranking) << ranking.error().text();
  std::map<std::pair<Pipeline, int>, std::string> first;
  for (const Candidate& candidate : ranking->candidates) {
    const KernelConfig& config = candidate.recipe.main();
    const Pipeline pipeline = config.algorithm.pipeline;
    const bool shares = config.operation() == Operation::conv && pipeline == Pipeline::warp_specialized;
    const int form = shares                            ? window_step_taps(config.algorithm)
                     : pipeline == Pipeline::pointwise ? config.algorithm.vector[0]
                                                       : 1;
    first.try_emplace({pipeline, form}, recipe_name(candidate.recipe));
  }
  std::vector<std::string> names;
  for (const auto& [kind, name] : first) names.push_back(name);
  names.push_back(recipe_name(ranking->candidates[seed % ranking->candidates.size()].recipe));
  return names;
}

/// Random problems in slices, which may run at the same time.
class CudaConvSlices : public CudaConvTest, public ::testing::WithParamInterface<std::uint64_t> {};
constexpr std::uint64_t kSlices = 12;

TEST_P(CudaConvSlices, EveryPipelineComputesRandomProblems) {
  const std::uint64_t problems = testing::thorough() ? 400 : 84;
  for (std::uint64_t seed = GetParam(); seed < problems; seed += kSlices) {
    const RandomCall<Conv> call = random_wide_conv(seed);
    const auto conv = ConvCase::create(call);
    if (!conv) continue;  // the changed channels may not fit
    SCOPED_TRACE(to_line(call));
    const auto reference = conv->reference(0);
    ASSERT_TRUE(reference) << reference.error().text();
    for (const std::string& kernel : kernels_for(conv->problem(), seed)) {
      // Some add partials in any order.
      Dispatcher dispatcher({.device = kConvDevice, .determinism = Determinism::tolerant, .kernel = kernel});
      const auto plan = dispatcher.plan(conv->problem());
      ASSERT_TRUE(plan) << plan.error().text();
      auto trial = Trial<Conv>::create(*conv, kConvDevice);
      ASSERT_TRUE(trial) << trial.error().text();
      const auto verdict = trial->verify(**plan, **reference);
      EXPECT_TRUE(verdict && verdict->outcome != Outcome::fail)
          << kernel << ": " << (verdict ? verdict->reason : verdict.error().text());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Random, CudaConvSlices, ::testing::Range(std::uint64_t{0}, kSlices));

/// The result of a case as the array that users see, and the bits twice the same.
std::vector<float> result_on_device(const ConvCase& conv, const std::string& kernel = "") {
  Dispatcher dispatcher({.device = kConvDevice, .kernel = kernel});
  const auto plan = dispatcher.plan(conv.problem());
  EXPECT_TRUE(plan) << plan.error().text();
  if (!plan) return {};
  auto trial = Trial<Conv>::create(conv, kConvDevice);
  std::vector<float> first;
  for (int run = 0; run < 3; ++run) {
    const auto outputs = trial->run(**plan);
    EXPECT_TRUE(outputs) << outputs.error().text();
    if (!outputs) return {};
    const std::vector<float> result = outputs->array("out").to_floats();
    if (run > 0) {
      EXPECT_EQ(result, first) << "run " << run << " of " << (*plan)->kernel_name();
    }
    first = result;
  }
  return first;
}

/// Sums of whole numbers, which results hold exactly.
void expect_exact(const ConvProblem& p) {
  const ConvSpatial out = p.out();
  ConvInputs inputs;
  if (p.direction != ConvDirection::backward_data)
    inputs.x = whole_numbers({p.batch, p.in_h, p.in_w, p.groups * p.c}, 1);
  if (p.direction != ConvDirection::backward_weight)
    inputs.w = whole_numbers({p.groups * p.k, p.filter_h, p.filter_w, p.c}, 2);
  if (p.direction != ConvDirection::forward) inputs.y = whole_numbers({p.batch, out[1], out[2], p.groups * p.k}, 3);
  const auto conv = ConvCase::create({.problem = p, .numbers = {}}, std::move(inputs));
  ASSERT_TRUE(conv) << conv.error().text();
  const auto float64 = float64_conv(conv->tensors(), kFp32Roundoff, 1);
  ASSERT_TRUE(float64);
  for (const std::string& kernel : kernels_for(conv->problem(), 1)) {
    const std::vector<float> result = result_on_device(*conv, kernel);
    ASSERT_EQ(result.size(), float64->values.size());
    for (std::size_t i = 0; i < result.size(); ++i)
      ASSERT_EQ(static_cast<double>(result[i]), float64->values[i]) << kernel << " at " << i;
  }
}

TEST_F(CudaConvTest, WholeNumbersAreExactInAllDirections) {
  for (const std::int64_t channels : {3, 5, 24, 64})
    for (const ConvDirection direction : kAllDirections) {
      ConvProblem p = whole_conv();
      p.direction = direction;
      p.c = channels;
      if (channels == 3 || channels == 24) p.groups = 1;
      if (channels == 24) p.k = 40;
      if (channels != 5) p.data_type = DataType::bf16;  // results stay fp32
      expect_exact(p);
    }
}

// Runs of pixels whose ends are no whole sixteens of bytes, in images without gaps.
TEST_F(CudaConvTest, WholeNumbersOfOneTapAreExact) {
  for (const ConvDirection direction : {ConvDirection::forward, ConvDirection::backward_data})
    for (const std::int64_t read : {1, 6, 13, 27})  // whose sums bf16 holds
      for (const std::int64_t written : {1, 5, 40, 71}) {
        const bool forward = direction == ConvDirection::forward;
        expect_exact({.direction = direction,
                      .data_type = DataType::bf16,
                      .type_out = DataType::bf16,
                      .type_bias = DataType::bf16,
                      .batch = 3,
                      .c = forward ? read : written,
                      .k = forward ? written : read,
                      .in_h = 11,
                      .in_w = 23});
      }
}

// What lies beside an image, in the next image or in the next group, is not multiplied with zero: it is not read.
TEST_F(CudaConvTest, NothingLeaksFromOtherImagesAndGroups) {
  for (const std::int64_t channels : {2, 4, 5, 32, 64}) {
    ConvProblem p = whole_conv();
    p.pad_w = 3;
    if (channels == 32) p.filter_h = 1;  // of five taps, two a step, the last step has one
    if (channels == 32) p.filter_w = 5;
    p.c = channels;
    p.k = 24;
    if (channels < 5) {  // several groups are copied 16 bytes at a time, and a block has more than 64 channels
      p.k = channels;
      p.groups = 72 / channels;
    }
    p.data_type = DataType::bf16;
    HostArray x = whole_numbers({p.batch, p.in_h, p.in_w, p.groups * p.c}, 1);
    const HostArray w = whole_numbers({p.groups * p.k, p.filter_h, p.filter_w, p.c}, 2);
    std::map<std::string, std::vector<float>> clean;
    for (const bool poisoned : {false, true}) {
      std::vector<float> values = x.to_floats();
      const std::size_t image = values.size() / 2, all = static_cast<std::size_t>(p.groups * p.c);
      if (poisoned)
        for (std::size_t i = 0; i < values.size(); ++i)  // all of the second image, and every other group
          if (i >= image || i % all / static_cast<std::size_t>(p.c) % 2 == 1)
            values[i] = std::numeric_limits<float>::quiet_NaN();
      ConvInputs inputs;
      inputs.x = make_array(ElementType::fp32, x.shape, values);
      inputs.w = w;
      const auto conv = ConvCase::create({.problem = p, .numbers = {}}, std::move(inputs));
      ASSERT_TRUE(conv);
      for (const std::string& kernel : kernels_for(conv->problem(), 2)) {
        Dispatcher dispatcher({.device = kConvDevice, .kernel = kernel});
        const auto plan = dispatcher.plan(conv->problem());
        ASSERT_TRUE(plan) << plan.error().text();
        auto trial = Trial<Conv>::create(*conv, kConvDevice);
        const auto outputs = trial->run(**plan);
        ASSERT_TRUE(outputs) << outputs.error().text();
        std::vector<float> result = outputs->array("out").to_floats(), kept;
        result.resize(result.size() / 2);
        for (std::size_t i = 0; i < result.size(); ++i)
          if (i / static_cast<std::size_t>(p.k) % static_cast<std::size_t>(p.groups) % 2 == 0)
            kept.push_back(result[i]);
        if (poisoned) {
          EXPECT_EQ(kept, clean[kernel]) << kernel;
        } else {
          clean[kernel] = kept;
        }
      }
    }
  }
}

// A pixel that is not a number is seen by the results that a tap meets it from, and by no others: what fills a tensor
// core beside an odd number of taps and beside the channels of an image is not multiplied with zero.
void expect_alike(const ConvProblem& p) {
  const bool forward = p.direction == ConvDirection::forward;
  const std::int64_t of_group = forward ? p.c : p.k, channels = p.groups * of_group;
  const ConvSpatial size = forward ? p.in() : p.out();
  std::vector<float> values = whole_numbers({p.batch, size[1], size[2], channels}, 1).to_floats();
  const std::int64_t pixel = size[1] / 2 * size[2] + size[2] * 17 / 40;
  for (std::int64_t c = 0; c<channels; c += p.groups> 1 ? 3 * of_group : 1)
    values[static_cast<std::size_t>(pixel * channels + c)] = std::numeric_limits<float>::quiet_NaN();
  ConvInputs inputs;
  (forward ? inputs.x : inputs.y) = make_array(ElementType::fp32, {p.batch, size[1], size[2], channels}, values);
  inputs.w =
      make_array(ElementType::fp32, {p.groups * p.k, p.filter_h, p.filter_w, p.c},
                 std::vector<float>(static_cast<std::size_t>(p.groups * p.k * p.filter_h * p.filter_w * p.c), 1.0f));
  const auto conv = ConvCase::create({.problem = p, .numbers = {}}, std::move(inputs));
  ASSERT_TRUE(conv) << conv.error().text();
  std::map<std::string, std::vector<bool>> seen;
  for (const std::string& kernel : kernels_for(conv->problem(), 0)) {
    Dispatcher dispatcher({.device = kConvDevice, .kernel = kernel});
    const auto plan = dispatcher.plan(conv->problem());
    ASSERT_TRUE(plan) << plan.error().text();
    auto trial = Trial<Conv>::create(*conv, kConvDevice);
    const auto outputs = trial->run(**plan);
    ASSERT_TRUE(outputs) << outputs.error().text();
    std::vector<bool>& nans = seen[kernel];
    nans.clear();  // a kernel may be there twice
    for (const float value : outputs->array("out").to_floats()) nans.push_back(std::isnan(value));
    EXPECT_EQ(seen[kernel], seen.begin()->second) << kernel << ", taps " << p.filter_w << ", stride " << p.stride_w;
  }
  EXPECT_GE(seen.size(), 2u) << "two pipelines or more";
}

TEST_F(CudaConvTest, OnlyResultsWithATapSeeAPixel) {
  for (const std::int64_t taps : {1, 2, 3, 7})
    for (const std::int64_t stride : {1, 2, 3, 4}) {
      ConvProblem p = whole_conv();
      p.groups = 1;
      p.c = 3;
      p.data_type = DataType::bf16;
      p.in_w = 40;
      p.filter_w = taps;
      p.stride_w = stride;
      p.dilation_w = 1;
      for (const std::int64_t pad : {0, 1}) {  // a row's first tap is the first of two elements, or the second
        p.pad_w = p.pad_high_w = pad;
        expect_alike(p);
      }
      for (const std::int64_t channels : {8, 12}) {  // an odd number of taps has a half product over; so have channels
        ConvProblem few = p;
        few.c = channels;
        expect_alike(few);
      }
      if (stride > 2) continue;  // one pipeline alone
      p.groups = 40;
      p.c = p.k = 1;
      p.type_out = p.type_bias = DataType::bf16;
      p.stride_h = 1;
      expect_alike(p);
      for (const std::int64_t channels : {2, 4}) {
        ConvProblem few = p;
        few.groups = 72 / channels;
        few.c = few.k = channels;
        few.filter_h = taps;
        few.stride_h = stride;
        expect_alike(few);
      }
    }
}

// Columns of all phases have zeros for the pixels that their phase does not meet.
TEST_F(CudaConvTest, OnlyPixelsWithATapSeeAGradient) {
  for (const std::int64_t taps : {1, 2, 3, 5})
    for (const std::int64_t stride : {1, 2, 3})
      for (const std::int64_t channels : {1, 3, 4}) {
        ConvProblem p = whole_conv();
        p.direction = ConvDirection::backward_data;
        p.data_type = DataType::bf16;
        p.groups = 1;
        p.c = channels;
        p.k = 24;
        p.in_w = 40;
        p.filter_h = p.filter_w = taps;
        p.stride_h = p.stride_w = stride;
        p.dilation_w = 1;
        expect_alike(p);
      }
}

// A pixel of channels that are no whole eights lies beside the next one's in what a thread loads.
TEST_F(CudaConvTest, APixelOfOneTapIsSeenByItsResultsAlone) {
  for (const ConvDirection direction : {ConvDirection::forward, ConvDirection::backward_data})
    for (const std::int64_t channels : {1, 6, 13, 31, 40, 77})
      expect_alike({.direction = direction,
                    .data_type = DataType::bf16,
                    .type_out = DataType::bf16,
                    .type_bias = DataType::bf16,
                    .batch = 2,
                    .c = direction == ConvDirection::forward ? channels : 21,
                    .k = direction == ConvDirection::forward ? 21 : channels,
                    .in_h = 9,
                    .in_w = 40});
}

TEST_F(CudaConvTest, AWorkspaceOfTheCallersHoldsThePartials) {
  ConvProblem p = whole_conv();
  p.direction = ConvDirection::backward_weight;
  p.batch = 40;
  const auto conv = ConvCase::create({.problem = p, .numbers = {}});
  ASSERT_TRUE(conv) << conv.error().text();
  const std::vector<float> own = result_on_device(*conv);
  Dispatcher dispatcher({.device = kConvDevice});
  const auto plan = dispatcher.plan(conv->problem());
  ASSERT_TRUE(plan) << plan.error().text();
  EXPECT_GT((*plan)->workspace_bytes(), 0u) << "a sum over " << p.batch << " images is cut";
  EXPECT_EQ(own, result_on_device(*conv));
}

TEST_F(CudaConvTest, WhatACallBreaksIsRefused) {
  ConvProblem p = whole_conv();
  p.data_type = p.type_out = p.type_bias = DataType::bf16;
  p.c = p.k = 64;
  Dispatcher dispatcher({.device = kConvDevice});
  const auto plan = dispatcher.plan(p);
  ASSERT_TRUE(plan) << plan.error().text();
  ConvArguments a = dense_arguments(p, ConvLayout::channels_first);
  alignas(16) static char some[3][1 << 22];  // of its own each: results that overlap are refused before
  a.x = some[0], a.w = some[1], a.out = some[2];
  const Status refused = (*plan)->run(a);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("channels apart"), std::string::npos) << refused.error().text();
  EXPECT_EQ(refused.error().hint, "plan the problem with unaligned, for a kernel that asks for neither");
}

}  // namespace
}  // namespace tilesmith
