// Convolution on the CPU: random problems, whole numbers that must come out exactly, every tap by itself, what must not
// leak in, and what plans and calls refuse.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>

#include "choose/conv/cpu.hpp"
#include "dispatch/conv_problems.hpp"
#include "dispatch/test_store.hpp"
#include "instances/conv/cpu.hpp"
#include "runtime/cpu/machine.hpp"
#include "thorough.hpp"
#include "trial/conv/case.hpp"
#include "trial/trial.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

using testing::kAllDirections;
using testing::random_conv;
using testing::whole_conv;
using testing::whole_numbers;

/// The result of a case as the array that users see.
std::vector<float> result_of(const ConvCase& conv, int threads = 1) {
  Dispatcher dispatcher({.threads = threads});
  const auto plan = dispatcher.plan(conv.problem());
  EXPECT_TRUE(plan) << plan.error().text();
  auto trial = Trial<Conv>::create(conv, Device{});
  const auto outputs = trial->run(**plan);
  EXPECT_TRUE(outputs);
  return outputs->array("out").to_floats();
}

TEST(Conv, EveryKernelComputesRandomProblems) {
  const auto& machine = this_cpu_machine();
  ASSERT_TRUE(machine) << machine.error().text();
  const std::uint64_t problems = testing::thorough() ? 360 : 18;
  for (std::uint64_t seed = 0; seed < problems; ++seed) {
    const RandomCall<Conv> call = random_conv(seed);
    SCOPED_TRACE(to_line(call));
    const auto conv = ConvCase::create(call);
    ASSERT_TRUE(conv) << conv.error().text();
    const auto reference = conv->reference(1);
    ASSERT_TRUE(reference) << reference.error().text();
    for (const CpuSpec& spec : machine->levels)
      enumerate_cpu_conv(spec, call.problem.direction, call.problem.data_type, [&](const KernelConfig& config) {
        if (!serves(*machine, config, conv->problem())) return true;
        Dispatcher dispatcher({.threads = 1 + static_cast<int>(seed % 3), .kernel = native_name(config)});
        const auto plan = dispatcher.plan(conv->problem());
        if (!plan) {
          ADD_FAILURE() << plan.error().text();
          return true;
        }
        auto trial = Trial<Conv>::create(*conv, Device{});
        const auto verdict = trial->verify(**plan, **reference);
        EXPECT_TRUE(verdict && verdict->outcome != Outcome::fail)
            << native_name(config) << ": " << (verdict ? verdict->reason : verdict.error().text());
        return true;
      });
  }
}

// A tensor that is added may be the result. Its last vector of channels must not be added twice.
TEST(Conv, ResultsAreAddedToInPlace) {
  for (const bool depthwise : {false, true}) {
    ConvProblem p{.data_type = DataType::fp32,
                  .type_out = DataType::fp32,
                  .groups = depthwise ? 37 : 1,
                  .c = depthwise ? 1 : 5,
                  .k = depthwise ? 1 : 37,
                  .in_h = 7,
                  .in_w = 11,
                  .filter_h = 2,
                  .filter_w = 2,
                  .epilogue = {EpilogueOp::add, EpilogueOp::relu}};
    const ConvSpatial out = p.out();
    const HostArray x = whole_numbers({1, p.in_h, p.in_w, p.groups * p.c}, 1);
    const HostArray w = whole_numbers({p.groups * p.k, p.filter_h, p.filter_w, p.c}, 2);
    const HostArray added = whole_numbers({1, out[1], out[2], p.groups * p.k}, 3);
    const auto& machine = this_cpu_machine();
    ASSERT_TRUE(machine) << machine.error().text();
    for (const CpuSpec& spec : machine->levels)
      enumerate_cpu_conv(spec, p.direction, p.data_type, [&](const KernelConfig& config) {
        if (!serves(*machine, config, p)) return true;
        SCOPED_TRACE(native_name(config));
        Dispatcher dispatcher({.threads = 1, .kernel = native_name(config)});
        const auto plan = dispatcher.plan(p);
        EXPECT_TRUE(plan) << plan.error().text();
        if (!plan) return true;
        ConvArguments a = dense_arguments(p, ConvLayout::channels_last);
        a.x = x.data.data();
        a.w = w.data.data();
        std::vector<float> elsewhere(added.to_floats().size()), in_place = added.to_floats();
        const std::vector<float> read = in_place;
        a.epilogue[0].data = read.data();
        a.out = elsewhere.data();
        EXPECT_TRUE((*plan)->run(a));
        a.epilogue[0].data = a.out = in_place.data();
        EXPECT_TRUE((*plan)->run(a));
        EXPECT_EQ(in_place, elsewhere);
        return true;
      });
  }
}

double dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

// <y, conv(x, w)> = <backward_data(y, w), x> = <backward_weight(x, y), w>, exactly in whole numbers.
TEST(Conv, TheDirectionsAreAdjointExactly) {
  ConvProblem p = whole_conv();
  const ConvSpatial out = p.out();
  const HostArray x = whole_numbers({p.batch, p.in_h, p.in_w, p.groups * p.c}, 1);
  const HostArray w = whole_numbers({p.groups * p.k, p.filter_h, p.filter_w, p.c}, 2);
  const HostArray y = whole_numbers({p.batch, out[1], out[2], p.groups * p.k}, 3);
  std::vector<double> products;
  for (const ConvDirection direction : kAllDirections) {
    p.direction = direction;
    ConvInputs inputs;
    if (direction != ConvDirection::backward_data) inputs.x = x;
    if (direction != ConvDirection::backward_weight) inputs.w = w;
    if (direction != ConvDirection::forward) inputs.y = y;
    const auto conv = ConvCase::create({.problem = p, .numbers = {}}, std::move(inputs));
    ASSERT_TRUE(conv) << conv.error().text();
    const std::vector<float> result = result_of(*conv, 2);
    const auto float64 = float64_conv(conv->tensors(), kFp32Roundoff, 1);
    ASSERT_TRUE(float64);
    ASSERT_EQ(result.size(), float64->values.size());
    for (std::size_t i = 0; i < result.size(); ++i) ASSERT_EQ(static_cast<double>(result[i]), float64->values[i]);
    const HostArray& other = direction == ConvDirection::forward         ? y
                             : direction == ConvDirection::backward_data ? x
                                                                         : w;
    products.push_back(dot(result, other.to_floats()));
  }
  EXPECT_EQ(products[1], products[0]);
  EXPECT_EQ(products[2], products[0]);
  EXPECT_NE(products[0], 0);
}

// Weights that would not stay in the caches are written past them, a line of memory at a time; those that do not begin
// with a line are not.
TEST(Conv, LargeWeightsAreWrittenWhole) {
  constexpr std::int64_t kPixels = 9, kChannels = 512;
  ConvProblem p = whole_conv();
  p.direction = ConvDirection::backward_weight;
  p.batch = p.groups = 1;
  p.c = p.k = kChannels;
  p.in_h = p.in_w = 3;
  p.filter_h = p.filter_w = p.stride_h = p.stride_w = p.dilation_h = p.dilation_w = 1;
  p.pad_h = p.pad_w = p.pad_high_h = p.pad_high_w = 0;
  const std::vector<float> x = whole_numbers({1, 3, 3, kChannels}, 1).to_floats();
  const std::vector<float> y = whole_numbers({1, 3, 3, kChannels}, 2).to_floats();
  Dispatcher dispatcher({.threads = 1});
  const auto plan = dispatcher.plan(p);
  ASSERT_TRUE(plan) << plan.error().text();
  constexpr std::int64_t kLine = 16;
  for (const std::int64_t shift : {std::int64_t{0}, std::int64_t{3}}) {
    std::vector<float> memory(kChannels * kChannels + 2 * kLine, -1);
    void* aligned = memory.data();
    std::size_t space = memory.size() * sizeof(float);
    float* const out = static_cast<float*>(std::align(64, sizeof(float), aligned, space)) + shift;
    ConvArguments arguments = dense_arguments(p, ConvLayout::channels_last);
    arguments.x = x.data();
    arguments.y = y.data();
    arguments.out = out;
    ASSERT_TRUE((*plan)->run(arguments));
    for (std::int64_t k = 0; k < kChannels; ++k)
      for (std::int64_t c = 0; c < kChannels; ++c) {
        double sum = 0;
        for (std::int64_t i = 0; i < kPixels; ++i)
          sum += static_cast<double>(y[static_cast<std::size_t>(i * kChannels + k)]) *
                 static_cast<double>(x[static_cast<std::size_t>(i * kChannels + c)]);
        ASSERT_EQ(static_cast<double>(out[k * kChannels + c]), sum) << "weight " << k << ", " << c;
      }
  }
}

// A filter with a single one shifts the image by its tap: nothing tells a swapped coordinate or sign apart better.
TEST(Conv, ASingleTapShiftsTheImage) {
  ConvProblem p = whole_conv();
  p.groups = p.k = p.c = 1;
  p.batch = 1;
  const ConvSpatial out = p.out();
  const HostArray x = whole_numbers({1, p.in_h, p.in_w, 1}, 1);
  const std::vector<float> image = x.to_floats();
  for (std::int64_t r = 0; r < p.filter_h; ++r)
    for (std::int64_t s = 0; s < p.filter_w; ++s) {
      std::vector<float> taps(static_cast<std::size_t>(p.filter_h * p.filter_w));
      taps[static_cast<std::size_t>(r * p.filter_w + s)] = 1;
      ConvInputs inputs;
      inputs.x = x;
      inputs.w = make_array(ElementType::fp32, {1, p.filter_h, p.filter_w, 1}, taps);
      const auto conv = ConvCase::create({.problem = p, .numbers = {}}, std::move(inputs));
      ASSERT_TRUE(conv) << conv.error().text();
      const std::vector<float> result = result_of(*conv);
      for (std::int64_t i = 0; i < out[1]; ++i)
        for (std::int64_t j = 0; j < out[2]; ++j) {
          const std::int64_t h = i * p.stride_h + r * p.dilation_h - p.pad_h;
          const std::int64_t v = j * p.stride_w + s * p.dilation_w - p.pad_w;
          const bool inside = h >= 0 && h < p.in_h && v >= 0 && v < p.in_w;
          EXPECT_EQ(result[static_cast<std::size_t>(i * out[2] + j)],
                    inside ? image[static_cast<std::size_t>(h * p.in_w + v)] : 0)
              << "tap " << r << "," << s << " pixel " << i << "," << j;
        }
    }
}

TEST(Conv, TheBitsDependOnNoThreads) {
  for (const ConvDirection direction : kAllDirections) {
    RandomCall<Conv> call;
    call.problem = whole_conv();
    call.problem.direction = direction;
    call.problem.batch = 12;
    const auto conv = ConvCase::create(call);
    ASSERT_TRUE(conv);
    const std::vector<float> first = result_of(*conv, 1);
    for (const int threads : {2, 3}) EXPECT_EQ(result_of(*conv, threads), first) << threads << " threads";
  }
}

// What lies beside an image, in the next image or in the next group, is not multiplied with zero: it is not read.
TEST(Conv, NothingLeaksFromOtherImagesAndGroups) {
  ConvProblem p = whole_conv();
  p.pad_w = 3;
  HostArray x = whole_numbers({p.batch, p.in_h, p.in_w, p.groups * p.c}, 1);
  const HostArray w = whole_numbers({p.groups * p.k, p.filter_h, p.filter_w, p.c}, 2);
  std::vector<std::vector<float>> results;
  for (const bool poisoned : {false, true}) {
    std::vector<float> values = x.to_floats();
    const std::size_t image = values.size() / 2, channels = static_cast<std::size_t>(p.groups * p.c);
    if (poisoned)
      for (std::size_t i = 0; i < values.size(); ++i)  // all of the second image, and the second group
        if (i >= image || i % channels >= channels / 2) values[i] = std::numeric_limits<float>::quiet_NaN();
    ConvInputs inputs;
    inputs.x = make_array(ElementType::fp32, x.shape, values);
    inputs.w = w;
    const auto conv = ConvCase::create({.problem = p, .numbers = {}}, std::move(inputs));
    ASSERT_TRUE(conv);
    std::vector<float> result = result_of(*conv);
    result.resize(result.size() / 2);
    std::vector<float> kept;
    for (std::size_t i = 0; i < result.size(); ++i)
      if (i % static_cast<std::size_t>(p.groups * p.k) < static_cast<std::size_t>(p.k)) kept.push_back(result[i]);
    results.push_back(kept);
  }
  EXPECT_EQ(results[1], results[0]);
}

// What fills a word or an AMX tile behind a pixel's channels, or a tap's, is multiplied with zero only where it is
// finite.
TEST(Conv, OnlyResultsWithATapSeeAPixel) {
  constexpr std::int64_t kRow = 4, kColumn = 33, kReach = 3;
  for (const DataType type : {DataType::bf16, DataType::fp32})
    for (const std::int64_t channels : {3, 40})
      for (const float poison : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        const ConvProblem p{.data_type = type,
                            .type_out = type,
                            .c = channels,
                            .k = 32,
                            .in_h = 11,
                            .in_w = 70,
                            .filter_h = 2 * kReach + 1,
                            .filter_w = 2 * kReach + 1,
                            .pad_h = kReach,
                            .pad_w = kReach,
                            .pad_high_h = kReach,
                            .pad_high_w = kReach};
        std::vector<float> values = whole_numbers({1, p.in_h, p.in_w, channels}, 1).to_floats();
        values[static_cast<std::size_t>((kRow * p.in_w + kColumn) * channels)] = poison;
        ConvInputs inputs;
        inputs.x = make_array(ElementType::fp32, {1, p.in_h, p.in_w, channels}, values);
        const std::int64_t weights = p.k * p.filter_h * p.filter_w * channels;
        inputs.w = make_array(ElementType::fp32, {p.k, p.filter_h, p.filter_w, channels},
                              std::vector<float>(static_cast<std::size_t>(weights), 1.0f));
        const auto conv = ConvCase::create({.problem = p, .numbers = {}}, std::move(inputs));
        ASSERT_TRUE(conv) << conv.error().text();
        const std::vector<float> result = result_of(*conv);
        for (std::int64_t h = 0; h < p.in_h; ++h)
          for (std::int64_t v = 0; v < p.in_w; ++v) {
            const bool meets = std::abs(h - kRow) <= kReach && std::abs(v - kColumn) <= kReach;
            EXPECT_EQ(!std::isfinite(result[static_cast<std::size_t>((h * p.in_w + v) * p.k)]), meets)
                << channels << " channels, pixel " << h << "," << v;
          }
      }
}

// Images further apart than 2^31 elements: offsets are 64 bits.
TEST(Conv, ImagesMayLieFarApart) {
  constexpr std::int64_t kApart = (std::int64_t{1} << 31) + 17;
  ConvProblem p = whole_conv();
  p.groups = 1;
  const std::size_t bytes = static_cast<std::size_t>(kApart + 4096) * sizeof(float);
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "no address space";
  const HostArray near = whole_numbers({p.batch, p.in_h, p.in_w, p.c}, 1);
  const std::vector<float> values = near.to_floats();
  const std::size_t image = values.size() / 2;
  auto* const x = static_cast<float*>(memory);
  std::copy_n(values.begin(), image, x);
  std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(image), image, x + kApart);
  const std::vector<float> w = whole_numbers({p.k, p.filter_h, p.filter_w, p.c}, 2).to_floats();
  Dispatcher dispatcher({.threads = 1});
  const auto plan = dispatcher.plan(p);
  ASSERT_TRUE(plan) << plan.error().text();
  const ConvSpatial out = p.out();
  std::vector<std::vector<float>> results;
  for (const bool far : {false, true}) {
    ConvArguments a = dense_arguments(p, ConvLayout::channels_last);
    std::vector<float> result(static_cast<std::size_t>(p.batch * out[1] * out[2] * p.k));
    a.x = far ? x : values.data();
    a.w = w.data();
    a.out = result.data();
    if (far) a.x_strides.batch = kApart;
    const Status status = (*plan)->run(a);
    ASSERT_TRUE(status) << status.error().text();
    results.push_back(result);
  }
  munmap(memory, bytes);
  EXPECT_EQ(results[1], results[0]);
}

// Kernels of groups of few channels: of any type of result, and with an epilogue's vector and tensor, groups may lie
// further apart than their channels.
TEST(Conv, GroupsMayLieApart) {
  const auto& machine = this_cpu_machine();
  ASSERT_TRUE(machine) << machine.error().text();
  constexpr std::int64_t kGap = 3;
  for (const DataType type : {DataType::fp32, DataType::bf16, DataType::int8}) {
    const ConvProblem p{.data_type = DataType::int8,
                        .type_out = type,
                        .groups = 5,
                        .c = 4,
                        .k = 4,
                        .in_h = 6,
                        .in_w = 11,
                        .filter_h = 3,
                        .filter_w = 3,
                        .epilogue = {EpilogueOp::scale_n, EpilogueOp::add}};
    const ConvSpatial size = p.out();
    const std::int64_t pixels = size[1] * size[2], channels = p.groups * p.k, step = p.k + kGap;
    const std::int64_t bytes = bits_of(type) / 8, apart = p.groups * step;
    const auto small = [](std::int64_t count) {
      std::vector<std::int8_t> values(static_cast<std::size_t>(count));
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int8_t>(i * 7 % 5) - 2;
      return values;
    };
    const auto x = small(p.in_h * p.in_w * channels), w = small(channels * p.filter_h * p.filter_w * p.c);
    const std::vector<float> scale(static_cast<std::size_t>(channels), 1.0F);
    const std::vector<std::byte> zeros(static_cast<std::size_t>(2 * pixels * apart * bytes));  // room for wrong places
    for (const CpuSpec& spec : machine->levels)
      enumerate_cpu_conv(spec, p.direction, p.data_type, [&](const KernelConfig& config) {
        if (!std::get<ConvSignature>(config.signature).depthwise || !serves(*machine, config, p)) return true;
        SCOPED_TRACE(native_name(config));
        Dispatcher dispatcher({.threads = 1, .kernel = native_name(config)});
        const auto plan = dispatcher.plan(p);
        EXPECT_TRUE(plan) << plan.error().text();
        std::vector<std::byte> dense = zeros, spread = zeros;
        for (auto* const out : {&dense, &spread}) {
          ConvArguments a = dense_arguments(p, ConvLayout::channels_last);
          a.x = x.data();
          a.w = w.data();
          a.out = out->data();
          a.epilogue[0].data = scale.data();
          a.epilogue[1].data = zeros.data();
          if (out == &spread)
            for (ConvStrides* s : {&a.y_strides, &a.epilogue[1].strides})
              *s = {.batch = 0, .group = step, .channel = 1, .spatial = {0, size[2] * apart, apart}};
          const Status status = (*plan)->run(a);
          EXPECT_TRUE(status) << status.error().text();
        }
        EXPECT_NE(dense, zeros);
        std::vector<std::byte> gathered = zeros, rest = spread;
        for (std::int64_t i = 0; i < pixels * p.groups; ++i) {
          const auto at = spread.begin() + i * step * bytes;
          std::copy_n(at, p.k * bytes, gathered.begin() + i * p.k * bytes);
          std::fill_n(rest.begin() + i * step * bytes, p.k * bytes, std::byte{});
        }
        EXPECT_EQ(gathered, dense);
        EXPECT_EQ(rest, zeros) << "what lies between groups was written";
        return true;
      });
  }
}

TEST(Conv, WhatIsWrongIsRefused) {
  ConvProblem p = whole_conv();
  p.filter_h = 12;
  EXPECT_EQ(validate(p).error().message,
            "the filter reaches over 12 pixels of coordinate h, which has 11 with its padding");
  p = whole_conv();
  p.data_type = DataType::bf8;
  EXPECT_EQ(validate(p).error().code, ErrorCode::unsupported);
  p.data_type = DataType::int8;
  EXPECT_TRUE(validate(p)) << "of int8 the result may be fp32";
  p.type_out = DataType::int32;
  EXPECT_EQ(validate(p).error().code, ErrorCode::unsupported);
  p.type_out = DataType::fp32;
  p.direction = ConvDirection::backward_data;
  EXPECT_EQ(validate(p).error().message, "bwd_data of a convolution's tensors of int8");
  p = whole_conv();
  p.type_out = DataType::bf16;
  EXPECT_EQ(validate(p).error().code, ErrorCode::unsupported);
  p = whole_conv();
  p.epilogue = {EpilogueOp::amax};
  EXPECT_EQ(validate(p).error().code, ErrorCode::unsupported);
  p = whole_conv();
  p.direction = ConvDirection::backward_weight;
  p.epilogue = {EpilogueOp::bias};
  EXPECT_EQ(validate(p).error().code, ErrorCode::unsupported);

  p = whole_conv();
  Dispatcher dispatcher({.threads = 1});
  const auto plan = dispatcher.plan(p);
  ASSERT_TRUE(plan) << plan.error().text();
  ConvArguments a = dense_arguments(p, ConvLayout::channels_last);
  EXPECT_EQ((*plan)->run(a).error().message, "x is null");
  std::vector<float> some(4096);
  a.x = a.w = some.data();
  EXPECT_EQ((*plan)->run(a).error().message, "out is null");
  a.out = some.data();
  a.y_strides.batch = 1;
  EXPECT_NE((*plan)->run(a).error().message.find("elements of y overlap"), std::string::npos);
  a = dense_arguments(p, ConvLayout::channels_last);
  a.x_strides.channel = -1;
  a.x = a.w = a.out = some.data();
  EXPECT_NE((*plan)->run(a).error().message.find("x has the stride -1"), std::string::npos);
}

}  // namespace
}  // namespace tilesmith
