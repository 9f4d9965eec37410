// Convolution on AMX, in software where the machine has none: cases with their checks, as a dispatcher runs them, of
// groups of few channels and of lines whose taps are folded into the channels; and what must not leak from group to
// group.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include "codegen/conv/cpu.hpp"
#include "codegen/cpu_kernel_harness.hpp"
#include "codegen/emulated_tiles.hpp"
#include "dispatch/test_store.hpp"
#include "problem/conv/problem.hpp"
#include "problem/line.hpp"
#include "trial/conv/case.hpp"
#include "trial/trial.hpp"

namespace tilesmith {
namespace {

/// A kernel that no registry has, on the calling thread.
class LoneKernel final : public ConvPlan {
 public:
  LoneKernel(const ConvPlan& other, const TsCpuKernel& kernel)
      : ConvPlan(other.problem(), other.info()), kernel_(kernel) {}

  Status run(const ConvArguments& arguments, const RunOptions&) const override {
    const TsConvArgs args = cpu_arguments(problem(), arguments, 1, nullptr);
    run_kernel(kernel_, &args);
    return {};
  }

 private:
  const TsCpuKernel& kernel_;
};

/// The kernel of groups of few channels, or that of all problems.
Result<const TsCpuKernel*> tiles_of(ConvDirection direction, bool of_groups) {
  CpuConvParameters p{.name = "test",
                      .level = CpuLevel::x86_64_amx,
                      .direction = direction,
                      .pipeline = of_groups ? Pipeline::depthwise : Pipeline::blocked,
                      .instruction = Instruction::amx_bf16,
                      .element = ElementType::bf16};
  if (!of_groups) {
    const bool weight = direction == ConvDirection::backward_weight;
    p.tile_m = weight ? 288 : 96;
    p.tile_n = 480;
    p.tile_k = weight ? 128 : 256;
  }
  TS_ASSIGN(Source source, cpu_conv_source(p));
  if (!machine_has(CpuLevel::x86_64_amx)) source.text = with_emulated_tiles(source.text);
  return compile_kernel(source, std::getenv("TILESMITH_CACHE_DIR"));
}

class ConvTiles : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!machine_has(CpuLevel::x86_64_v4_bf16)) GTEST_SKIP() << "the kernel's vectors are AVX512-BF16";
  }
};

TEST_P(ConvTiles, AgreeWithTheReference) {
  const auto line = parse_line(fmt::format("conv --dtype bf16 {}", GetParam()));
  ASSERT_TRUE(line) << line.error().text();
  const auto conv = ConvCase::create(std::get<RandomCall<Conv>>(*line));
  ASSERT_TRUE(conv) << conv.error().text();
  const bool of_groups = conv->problem().groups > 1 && conv->problem().c == conv->problem().k;
  const auto kernel = tiles_of(conv->problem().direction, of_groups);
  ASSERT_TRUE(kernel) << kernel.error().text();
  Dispatcher dispatcher({.threads = 1});
  const auto plan = dispatcher.plan(conv->problem());
  ASSERT_TRUE(plan) << plan.error().text();
  const auto reference = conv->reference(1);
  ASSERT_TRUE(reference) << reference.error().text();
  auto trial = Trial<Conv>::create(*conv, Device{});
  const auto verdict = trial->verify(LoneKernel(**plan, **kernel), **reference);
  ASSERT_TRUE(verdict) << verdict.error().text();
  EXPECT_EQ(verdict->outcome, Outcome::pass) << verdict->tensor << ": " << verdict->reason;
}

INSTANTIATE_TEST_SUITE_P(
    Problems, ConvTiles,
    ::testing::Values(
        "--groups 32 -c 16 -k 16 --in 28,28 --filter 3,3 --pad 1,1", "--groups 6 -c 8 -k 8 --in 56,56 --filter 3,3",
        "--batch 2 --groups 5 -c 4 -k 4 --in 7,19 --filter 3,5 --stride 2,1 --pad 1,2 --epilogue bias,add",
        "--groups 3 -c 16 -k 16 --in 9,11 --filter 2,3 --dilation 2,2 --pad 2,2 --layout nchw --epilogue bias,relu",
        "--batch 2 --groups 10 -c 2 -k 2 --in 4,6,7 --filter 3,2,2 --stride 2,1,3 --dilation 1,2,1 --pad 2,1,0",
        "--groups 2 -c 16 -k 16 --in 1300 --filter 31 --pad 15 --dtype-out fp32",
        "--direction bwd_data --groups 32 -c 16 -k 16 --in 14,14 --filter 3,3 --pad 1,1",
        "--direction bwd_data --batch 2 --groups 7 -c 4 -k 4 --in 14,13 --filter 3,4 --stride 2,3 --pad 2,1",
        "--direction bwd_data --groups 3 -c 8 -k 8 --in 17,33 --filter 5,5 --stride 3,2 --dilation 1,3 --layout nchw",
        "-c 3 -k 40 --in 30,41 --filter 7,7 --stride 2,2 --pad 3,3",
        "--batch 2 -c 1 -k 24 --in 16,9 --filter 11,11 --pad 5,5", "-c 2 -k 17 --in 5,3 --filter 5,7 --pad 4,9",
        "-c 3 -k 16 --in 12,14 --filter 3,11 --stride 1,2 --pad 1,6",
        "--batch 2 -c 3 -k 33 --in 12,9 --filter 3,3 --pad 1,1 --layout nchw --epilogue bias,relu",
        "--groups 2 -c 5 -k 9 --in 10,40 --filter 2,4 --stride 1,3 --pad 1,2 --dtype-out fp32",
        "-c 15 -k 17 --in 6,70 --filter 3,31 --pad 1,15", "-c 2 -k 3 --in 5,4 --filter 3,9 --pad 1,4",
        "-c 3 -k 20 --in 19,300 --filter 5,4 --dilation 3,1 --stride 1,4",
        // Taps that are joined: lines shorter than a strip, of one pixel, beside the image; many panels; three
        // dimensions.
        "--batch 2 -c 3 -k 64 --in 9,21 --filter 3,3 --pad 1,1", "-c 3 -k 5 --in 9,1 --filter 3,3 --pad 1,1",
        "-c 3 -k 64 --in 20,11 --filter 5,2 --stride 1,3 --dilation 2,1 --pad 1,2 --pad-high 2,2",
        "--batch 3 -c 1 -k 16 --in 3,4 --filter 7,7 --pad 3,3 --epilogue bias,gelu",
        "-c 2 -k 500 --in 5,40 --filter 4,4 --stride 2,3 --pad 1,2 --pad-high 3,0",
        "-c 4 -k 48 --in 17,19 --filter 4,4 --stride 4,4",
        "--batch 2 --groups 3 -c 2 -k 17 --in 4,6,7 --filter 2,3,3 --stride 2,1,1 --dilation 1,2,1 --pad 1,2,1",
        // Lines that are copied, as joined taps would take as many tiles.
        "--batch 2 -c 15 -k 20 --in 12,41 --filter 3,2 --stride 2,1 --pad 1,1",
        "--direction bwd_weight --batch 2 -c 3 -k 40 --in 30,41 --filter 7,7 --stride 2,2 --pad 3,3",
        "--direction bwd_weight -c 1 -k 5 --in 9,9 --filter 3,3 --pad 1,1",
        "--direction bwd_weight -c 9 -k 33 --in 12,70 --filter 2,32 --pad 1,16",
        "--direction bwd_weight -c 15 -k 17 --in 6,70 --filter 3,31 --pad 1,15",
        "--direction bwd_weight --batch 3 -c 3 -k 20 --in 5,4 --filter 3,9 --pad 1,4 --dtype-out fp32",
        "--direction bwd_weight --groups 2 -c 19 -k 21 --in 9,11 --filter 3,3 --stride 2,1 --pad 1,1",
        "--direction bwd_weight -c 40 -k 53 --in 17,13 --filter 3,2 --layout nchw",
        "--direction bwd_weight -c 300 -k 31 --in 4,6 --filter 1,2 --dilation 1,3"),
    [](const auto& which) { return std::to_string(which.index); });

// What is infinite or NaN meets the weights of its own group alone, and of its taps.
TEST(ConvTilesOfGroups, DoNotSeeOneAnother) {
  if (!machine_has(CpuLevel::x86_64_v4_bf16)) GTEST_SKIP() << "the kernel's vectors are AVX512-BF16";
  constexpr std::int64_t kRow = 4, kColumn = 7, kGroup = 3, kReach = 1;
  const ConvProblem p{.data_type = DataType::bf16,
                      .type_out = DataType::bf16,
                      .groups = 10,
                      .c = 4,
                      .k = 4,
                      .in_h = 9,
                      .in_w = 20,
                      .filter_h = 2 * kReach + 1,
                      .filter_w = 2 * kReach + 1,
                      .pad_h = kReach,
                      .pad_w = kReach,
                      .pad_high_h = kReach,
                      .pad_high_w = kReach};
  const auto kernel = tiles_of(p.direction, true);
  ASSERT_TRUE(kernel) << kernel.error().text();
  const std::int64_t channels = p.groups * p.c;
  for (const float poison : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> values(static_cast<std::size_t>(p.in_h * p.in_w * channels), 1.0F);
    values[static_cast<std::size_t>((kRow * p.in_w + kColumn) * channels + kGroup * p.c + 2)] = poison;
    ConvInputs inputs;
    inputs.x = make_array(ElementType::bf16, {1, p.in_h, p.in_w, channels}, values);
    inputs.w = make_array(ElementType::bf16, {channels, p.filter_h, p.filter_w, p.c},
                          std::vector<float>(static_cast<std::size_t>(channels * p.filter_h * p.filter_w * p.c), 1.0F));
    const auto conv = ConvCase::create({.problem = p, .numbers = {}}, std::move(inputs));
    ASSERT_TRUE(conv) << conv.error().text();
    Dispatcher dispatcher({.threads = 1});
    const auto plan = dispatcher.plan(conv->problem());
    ASSERT_TRUE(plan) << plan.error().text();
    auto trial = Trial<Conv>::create(*conv, Device{});
    const auto outputs = trial->run(LoneKernel(**plan, **kernel));
    ASSERT_TRUE(outputs) << outputs.error().text();
    const std::vector<float> result = outputs->array("out").to_floats();
    for (std::int64_t h = 0; h < p.in_h; ++h)
      for (std::int64_t v = 0; v < p.in_w; ++v)
        for (std::int64_t k = 0; k < channels; ++k) {
          const bool meets = std::abs(h - kRow) <= kReach && std::abs(v - kColumn) <= kReach && k / p.k == kGroup;
          const std::int64_t taps = (std::min(h + kReach, p.in_h - 1) - std::max<std::int64_t>(h - kReach, 0) + 1) *
                                    (std::min(v + kReach, p.in_w - 1) - std::max<std::int64_t>(v - kReach, 0) + 1);
          const float got = result[static_cast<std::size_t>((h * p.in_w + v) * channels + k)];
          if (meets)
            EXPECT_FALSE(std::isfinite(got)) << "channel " << k << ", pixel " << h << "," << v;
          else
            EXPECT_EQ(got, static_cast<float>(taps * p.c)) << "channel " << k << ", pixel " << h << "," << v;
        }
  }
}

// Kernels that read beyond the channels of a pixel, as into the next one, end with the image.
TEST(ConvTilesAtTheEnd, ReadNothingBeyondTheImage) {
  if (!machine_has(CpuLevel::x86_64_v4_bf16)) GTEST_SKIP() << "the kernels' vectors are AVX512-BF16";
  const auto run = [](const ConvProblem& p, const TsCpuKernel& kernel, std::size_t element) {
    const auto sizes = [&](std::int64_t all) { return static_cast<std::size_t>(all) * element; };
    const std::int64_t out_pixels = p.out()[1] * p.out()[2];
    const GuardedBytes x(sizes(p.in_h * p.in_w * p.groups * p.c)),
        w(sizes(p.groups * p.k * p.c * p.filter_h * p.filter_w)), y(sizes(out_pixels * p.groups * p.k));
    std::memset(x.data(), 0, sizes(p.in_h * p.in_w * p.groups * p.c));
    std::memset(w.data(), 0, sizes(p.groups * p.k * p.c * p.filter_h * p.filter_w));
    ConvArguments arguments = dense_arguments(p, ConvLayout::channels_last);
    arguments.x = x.data();
    arguments.w = w.data();
    arguments.out = y.data();
    const TsConvArgs args = cpu_arguments(p, arguments, 1, nullptr);
    run_kernel(kernel, &args);
    for (std::size_t i = 0; i < sizes(out_pixels * p.groups * p.k); ++i) ASSERT_EQ(y.data()[i], std::byte{0}) << i;
  };
  const auto fours = compile_kernel(*cpu_conv_source({.name = "test",
                                                      .level = CpuLevel::x86_64_v4_bf16,
                                                      .direction = ConvDirection::forward,
                                                      .pipeline = Pipeline::depthwise,
                                                      .instruction = Instruction::dot_int8,
                                                      .element = ElementType::int8}),
                                    std::getenv("TILESMITH_CACHE_DIR"));
  ASSERT_TRUE(fours) << fours.error().text();
  const auto joined = tiles_of(ConvDirection::forward, false);
  ASSERT_TRUE(joined) << joined.error().text();
  for (const std::int64_t filter : {2, 3, 5, 6, 7})
    for (const std::int64_t stride : {1, 2, 3})
      for (const std::int64_t channels : {1, 3, 9, 15}) {
        SCOPED_TRACE(fmt::format("{} taps, stride {}, {} channels", filter, stride, channels));
        ConvProblem p{.in_h = 9, .in_w = 21, .filter_h = filter, .filter_w = filter};
        p.pad_h = p.pad_w = p.pad_high_h = p.pad_high_w = filter / 2;
        p.stride_h = p.stride_w = stride;
        p.data_type = p.type_out = DataType::int8;
        p.groups = channels;
        p.c = p.k = 1;
        run(p, **fours, 1);
        p.data_type = p.type_out = DataType::bf16;
        p.groups = 1;
        p.c = channels;
        p.k = 19;
        run(p, **joined, 2);
      }
}

}  // namespace
}  // namespace tilesmith
