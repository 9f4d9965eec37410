// GEMM on AMD GPUs through dispatch, against the fake HIP runtime.
#include <gtest/gtest.h>

#include <cmath>

#include "dispatch/emulated_hip.hpp"
#include "dispatch/gemm/random_gemm.hpp"
#include "dispatch/test_store.hpp"
#include "runtime/hip/stream.hpp"
#include "trial/gemm/case.hpp"
#include "trial/trial.hpp"

namespace tilesmith {
namespace {

using Op = EpilogueOp;
using testing::EmulatedDevice;
using testing::fake;
using testing::FakeLibamdhip64;

class HipGemmTest : public testing::EmulatedHipTest {};

/// Judged by the reference, on poisoned outputs between red zones.
void expect_right(EmulatedDevice& hip, const GemmProblem& problem) {
  const auto made = GemmCase::create(usual_call(problem));
  ASSERT_TRUE(made) << made.error().text();
  const auto plan = hip.plan(made->problem());
  ASSERT_TRUE(plan) << plan.error().text();
  SCOPED_TRACE((*plan)->kernel_name());
  const auto reference = made->reference(1).value();
  auto trial = make_trial(*made, hip.device);
  ASSERT_TRUE(trial) << trial.error().text();
  const auto verdict = trial->verify(**plan, *reference);
  ASSERT_TRUE(verdict) << verdict.error().text();
  EXPECT_NE(verdict->outcome, Outcome::fail) << verdict->reason;
  ASSERT_FALSE(fake().launches.empty());
  EXPECT_NE(fake().launches.back().stream, nullptr) << "the default stream waits for others";
  EXPECT_EQ(fake().launches.back().dynamic_lds_bytes, 0u);
}

GemmProblem everything(DataType type) {
  GemmProblem p = gemm_problem(type, 37, 52, 72);
  p.batch = 2;
  p.beta = true;
  p.epilogue = {Op::bias, Op::silu, Op::multiply, Op::clamp};
  return p;
}

TEST_F(HipGemmTest, EveryChipComputesWhatIsAsked) {
  for (int index = 0; index < testing::kFakeDevices; ++index) {
    SCOPED_TRACE(testing::kFakeHipDevices[index].name);
    EmulatedDevice hip(index);
    expect_right(hip, everything(index % 2 == 0 ? DataType::bf16 : DataType::fp16));
  }
}

TEST_F(HipGemmTest, RandomProblemsAreRightOrRefusedForAReason) {
  EmulatedDevice chips[] = {EmulatedDevice(0), EmulatedDevice(4)};
  int right = 0, refused = 0;
  for (std::uint64_t seed = 1; right < 8 && seed < 200; ++seed) {
    const GemmProblem problem = testing::any_gemm_problem(seed);
    EmulatedDevice& hip = chips[seed % 2];
    SCOPED_TRACE(seed);
    if (const auto plan = hip.plan(problem); !plan) {
      EXPECT_EQ(plan.error().code, ErrorCode::unsupported) << plan.error().text();
      EXPECT_FALSE(plan.error().hint.empty()) << plan.error().text();
      ++refused;
      continue;
    }
    if (problem.m == 0 || problem.n == 0 || problem.batch == 0) continue;
    expect_right(hip, problem);
    ++right;
  }
  EXPECT_EQ(right, 8);
  EXPECT_GT(refused, 0);
}

TEST_F(HipGemmTest, AColumnMajorDIsTheTransposedProduct) {
  EmulatedDevice hip(1);
  GemmProblem p = gemm_problem(DataType::fp16, 20, 37, 40, DataType::fp32);
  p.order_d = MatrixOrder::column;
  p.epilogue = {Op::bias};
  expect_right(hip, p);
}

TEST_F(HipGemmTest, WithAnAlphaOfZeroNothingOfAAndBIsRead) {
  EmulatedDevice hip(0);
  GemmProblem p = gemm_problem(DataType::bf16, 5, 8, 16, DataType::fp32);
  p.beta = true;
  const auto plan = hip.plan(p);
  ASSERT_TRUE(plan) << plan.error().text();
  alignas(16) float c[40], d[40];
  for (int i = 0; i < 40; ++i) c[i] = static_cast<float>(i);
  GemmArguments a = dense_arguments(p);
  a.a.data = a.b.data = reinterpret_cast<const void*>(16);  // a fault, if it were read
  a.c.data = c;
  a.d = d;
  a.alpha = 0;
  a.beta = 0.5F;
  const Status run = (*plan)->run(a, {});
  ASSERT_TRUE(run) << run.error().text();
  for (int i = 0; i < 40; ++i) EXPECT_EQ(d[i], 0.5F * static_cast<float>(i));
}

TEST_F(HipGemmTest, NumbersInMemoryScaleTheProducts) {
  EmulatedDevice hip(0);
  const GemmProblem p = gemm_problem(DataType::bf16, 5, 8, 16, DataType::fp32);
  const auto plan = hip.plan(p);
  ASSERT_TRUE(plan) << plan.error().text();
  alignas(16) std::uint16_t ones[16 * 8];
  std::ranges::fill(ones, std::uint16_t{0x3f80});
  alignas(16) float d[40], scale_a = 0.5F, scale_b = -3;
  GemmArguments a = dense_arguments(p);
  a.a.data = a.b.data = ones;
  a.d = d;
  a.alpha = 2;
  a.scale_a.data = &scale_a;
  ASSERT_TRUE((*plan)->run(a, {}));
  for (const float each : d) EXPECT_EQ(each, 16);
  a.scale_b.data = &scale_b;
  ASSERT_TRUE((*plan)->run(a, {}));
  for (const float each : d) EXPECT_EQ(each, -48);
}

// gfx942's matrix unit has an encoding of fp8 that has other bits for NaN, none for -0, and half of each number.
TEST_F(HipGemmTest, AnotherEncodingOfFp8IsNoneOfTheCallers) {
  EmulatedDevice hip(0);
  GemmProblem p = gemm_problem(DataType::fp8, 4, 16, 16, DataType::fp32);
  for (const MatrixOrder order : {MatrixOrder::row, MatrixOrder::column}) {
    p.order_b = order;
    const auto plan = hip.plan(p);
    ASSERT_TRUE(plan) << plan.error().text();
    alignas(16) std::uint8_t a[4][16], b[16 * 16];
    alignas(16) float d[4][16];
    constexpr std::uint8_t kOne = 0x38, kMost = 0x7e, kMinusZero = 0x80, kNan = 0x7f, kMinusNan = 0xff, kLeast = 0x01;
    std::ranges::fill(b, kOne);
    for (auto& row : a) std::ranges::fill(row, kMinusZero);
    a[0][3] = kMost;
    a[1][5] = kNan;
    a[2][7] = kMinusNan;
    a[3][9] = kLeast | 0x80;
    GemmArguments arguments = dense_arguments(p);
    arguments.a.data = a;
    arguments.b.data = b;
    arguments.d = d;
    const Status run = (*plan)->run(arguments, {});
    ASSERT_TRUE(run) << run.error().text();
    for (int column = 0; column < 16; ++column) {
      EXPECT_EQ(d[0][column], 448.0F);
      EXPECT_TRUE(std::isnan(d[1][column]) && std::isnan(d[2][column]));
      EXPECT_EQ(d[3][column], -0x1p-9F);
    }
  }
}

TEST_F(HipGemmTest, EmptyProblemsLaunchNothing) {
  EmulatedDevice hip(0);
  const GemmProblem p = gemm_problem(DataType::bf16, 0, 8, 16);
  const auto plan = hip.plan(p);
  ASSERT_TRUE(plan) << plan.error().text();
  const std::size_t launches = fake().launches.size();
  EXPECT_TRUE((*plan)->run(dense_arguments(p), {}));
  EXPECT_EQ(fake().launches.size(), launches);
}

TEST_F(HipGemmTest, ErrorsSayWhatIsWrong) {
  EmulatedDevice hip(0);
  const GemmProblem p = gemm_problem(DataType::bf16, 16, 16, 16);
  const auto plan = hip.plan(p);
  ASSERT_TRUE(plan) << plan.error().text();
  alignas(16) static std::byte memory[3][1024];
  GemmArguments a = dense_arguments(p);
  a.a.data = memory[0] + 2;
  a.b.data = memory[1];
  a.d = memory[2];
  const Status skewed = (*plan)->run(a, {});
  ASSERT_FALSE(skewed);
  EXPECT_NE(skewed.error().message.find("is not aligned to 16 bytes"), std::string::npos) << skewed.error().text();
  a.a.data = memory[0];
  fake().launch = hip::Code::launch_out_of_resources;
  const Status refused = (*plan)->run(a, {});
  fake().launch = hip::Code::success;
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("while launching 1 blocks of"), std::string::npos) << refused.error().text();
  EXPECT_TRUE((*plan)->run(a, {}));

  for (const auto& [type, says] : {std::pair{DataType::fp32, "multiplies fp32 matrices"}, {DataType::bf8, "bf8"}}) {
    const auto none = hip.dispatcher.plan(gemm_problem(type, 16, 16, 16));
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, ErrorCode::unsupported);
    EXPECT_NE(none.error().message.find(says), std::string::npos) << none.error().text();
  }
  const auto absent = Dispatcher({.device = {DeviceKind::hip, 17}}).plan(p);
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, ErrorCode::not_found);
  const auto conv = hip.dispatcher.plan(ConvProblem{});
  ASSERT_FALSE(conv);
  EXPECT_NE(conv.error().message.find("hip:0 has no kernels of conv"), std::string::npos) << conv.error().text();
}

TEST_F(HipGemmTest, WrongResultsAndFaultsOfTheDeviceAreFound) {
  EmulatedDevice hip(0);
  const auto made = GemmCase::create(usual_call(gemm_problem(DataType::fp16, 20, 24, 32))).value();
  const auto plan = hip.plan(made.problem());
  ASSERT_TRUE(plan) << plan.error().text();
  const auto reference = made.reference(1).value();
  auto trial = make_trial(made, hip.device);
  ASSERT_TRUE(trial) << trial.error().text();
  FakeLibamdhip64::Kernel& kernel = fake().kernels.at(std::string((*plan)->kernel_name()));
  const auto run = std::exchange(kernel.run, [](const void*, int) {});
  const auto silent = trial->verify(**plan, *reference);
  ASSERT_TRUE(silent) << silent.error().text();
  EXPECT_EQ(silent->outcome, Outcome::fail);
  kernel.run = run;
  EXPECT_NE(trial->verify(**plan, *reference)->outcome, Outcome::fail);
  fake().synchronize = hip::Code::illegal_address;
  const auto fault = trial->verify(**plan, *reference);
  fake().synchronize = hip::Code::success;
  ASSERT_FALSE(fault);
  EXPECT_EQ(fault.error().code, ErrorCode::launch_failed) << fault.error().text();
}

TEST_F(HipGemmTest, CallsAreCapturedAndTimed) {
  EmulatedDevice hip(1);
  const auto made = GemmCase::create(usual_call(gemm_problem(DataType::bf16, 9, 8, 16, DataType::fp32))).value();
  const auto plan = hip.plan(made.problem());
  ASSERT_TRUE(plan) << plan.error().text();
  const std::size_t allocations = fake().allocations.size();
  const int objects = fake().objects;
  {
    auto trial = make_trial(made, hip.device);
    ASSERT_TRUE(trial) << trial.error().text();
    const auto timing = trial->time(**plan, {.cold = false, .max_samples = 2});
    ASSERT_TRUE(timing) << timing.error().text();
    const auto device = HipDevice::open(*hip_library().value(), 1).value();
    const HipStream stream = HipStream::create(device).value();
    GemmArguments a = made.arguments();
    std::vector<float> d(static_cast<std::size_t>(a.d_leading) * 9);
    a.d = d.data();
    const auto graph =
        HipGraph::capture(device, stream.handle(), [&] { return (*plan)->run(a, {.stream = stream.handle()}); });
    ASSERT_TRUE(graph) << graph.error().text();
    EXPECT_EQ(d[0], 0);
    ASSERT_TRUE(graph->launch(stream.handle()));
    EXPECT_NE(d[0], 0);
  }
  EXPECT_EQ(fake().allocations.size(), allocations);
  EXPECT_EQ(fake().objects, objects);
}

}  // namespace
}  // namespace tilesmith
