// Attention backward on a CUDA device: random shapes and traits against the float64 reference, between red zones; the
// same bits from call to call; a workspace of the caller's; what a call refuses.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "choose/attention/whole_rows.hpp"
#include "dispatch/cuda_backend.hpp"
#include "dispatch/lost_rows.hpp"
#include "dispatch/test_store.hpp"
#include "problem/describe.hpp"
#include "runtime/cuda/device.hpp"
#include "trial/attention_backward/case.hpp"
#include "trial/trial.hpp"

namespace tilesmith {
namespace {

constexpr Device kBackwardDevice{DeviceKind::cuda, 0};

class CudaAttentionBackwardTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto& devices = cuda_devices();
    if (!devices) GTEST_SKIP() << devices.error().text();
    if (devices->empty() || devices->front().compute_major != 9) GTEST_SKIP() << "the device is no Hopper chip";
  }
};

RandomCall<AttentionBwd> random_backward(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto any = [&](std::initializer_list<std::int64_t> values) { return values.begin()[random() % values.size()]; };
  const auto coin = [&](unsigned of = 2) { return random() % of == 0; };
  RandomCall<AttentionBwd> call;
  AttentionBackwardProblem& p = call.problem;
  p.data_type = coin(4) ? DataType::fp32 : coin(3) ? DataType::fp16 : DataType::bf16;
  p.mode = coin(3) ? SequenceMode::group : SequenceMode::batch;
  p.batch = any({1, 2, 5});
  p.heads_kv = any({1, 2});
  p.heads_q = p.heads_kv * any({1, 1, 3, 4});
  p.seqlen_q = any({1, 63, 64, 65, 127, 128, 129, 200, 400});
  p.seqlen_k = any({1, 63, 64, 65, 127, 128, 129, 300, 500});
  p.head_dim_qk = any({8, 33, 40, 64, 64, 72, 96, 128, 128, 200});
  p.head_dim_v = coin(3) ? any({8, 64, 80, 128}) : p.head_dim_qk;
  p.mask = static_cast<MaskKind>(any({static_cast<int>(MaskKind::none), static_cast<int>(MaskKind::top_left),
                                      static_cast<int>(MaskKind::bottom_right)}));
  if (coin(4)) p.window_left = any({0, 20, 130});
  if (p.mask == MaskKind::none && coin(4)) p.window_right = any({0, 30});
  p.soft_cap = coin(4);
  p.dropout = coin(4);
  p.sink = coin(3);
  p.dsink = p.sink;
  p.dlse = coin(4);
  if (coin(4)) {
    p.bias = BiasKind::elementwise;
    p.dbias = coin();
  } else if (coin(4)) {
    p.bias = BiasKind::alibi;
    p.dalibi = coin();
  }
  if (p.data_type == DataType::fp32 ? p.head_dim_qk % 4 + p.head_dim_v % 4 > 0
                                    : p.head_dim_qk % 8 + p.head_dim_v % 8 > 0)
    p.unaligned = true;
  call.numbers.seed = seed;
  if (p.soft_cap) call.numbers.soft_cap = 2;
  if (p.dropout) call.numbers.dropout_probability = 0.2F;
  return call;
}

void expect_agreement(const RandomCall<AttentionBwd>& call, Dispatcher& dispatcher) {
  const auto problem_case = AttentionBackwardCase::create(call);
  ASSERT_TRUE(problem_case) << problem_case.error().text();
  const std::string line = describe(problem_case->problem());
  SCOPED_TRACE(line);
  const auto plan = dispatcher.plan(problem_case->problem());
  ASSERT_TRUE(plan) << plan.error().text();
  auto trial = Trial<AttentionBwd>::create(*problem_case, kBackwardDevice);
  ASSERT_TRUE(trial) << trial.error().text();
  const auto verdict = trial->verify(**plan, **problem_case->reference());
  ASSERT_TRUE(verdict) << verdict.error().text();
  EXPECT_EQ(verdict->outcome, Outcome::pass) << verdict->tensor << ": " << verdict->reason;
}

/// A run of seeds, so that several processes can share them.
class CudaAttentionBackwardSeedsTest : public CudaAttentionBackwardTest, public ::testing::WithParamInterface<int> {};

TEST_P(CudaAttentionBackwardSeedsTest, RandomProblemsAgreeWithTheReferenceInBothOrdersOfAddition) {
  constexpr int kSeeds = 4;
  for (const Determinism determinism : {Determinism::bitwise, Determinism::tolerant}) {
    Dispatcher dispatcher({.device = kBackwardDevice, .determinism = determinism});
    for (int i = 0; i < kSeeds; ++i) {
      const int seed = GetParam() * kSeeds + i;
      SCOPED_TRACE(fmt::format("seed {}", seed));
      expect_agreement(random_backward(static_cast<std::uint64_t>(seed)), dispatcher);
    }
  }
}

// Ordered additions zero nothing: the call before leaves its sums of dq in the workspace.
TEST_F(CudaAttentionBackwardTest, RowsThatSeeNothingHaveZerosWhateverTheWorkspaceHolds) {
  for (const std::int64_t head_dim : {64, 128}) {
    for (const SequenceMode mode : {SequenceMode::batch, SequenceMode::group}) {
      Dispatcher dispatcher({.device = kBackwardDevice});
      RandomCall<AttentionBwd> call;
      call.problem = {.mode = mode,
                      .batch = 3,
                      .heads_q = 4,
                      .heads_kv = 2,
                      .seqlen_q = 600,
                      .seqlen_k = 200,
                      .head_dim_qk = head_dim,
                      .head_dim_v = head_dim};
      expect_agreement(call, dispatcher);
      call.problem.mask = MaskKind::bottom_right;
      expect_agreement(call, dispatcher);
      call.problem.seqlen_k = 0;
      expect_agreement(call, dispatcher);
    }
  }
}

TEST_F(CudaAttentionBackwardTest, RowsWhoseLogSumExpIsLostAddNothing) {
  for (const DataType type : {DataType::bf16, DataType::fp16, DataType::fp32}) {
    for (const std::int64_t head_dim : {64, 200}) {
      SCOPED_TRACE(fmt::format("{} {}", name_of(type), head_dim));
      RandomCall<AttentionBwd> call;
      call.problem = {.data_type = type,
                      .batch = 2,
                      .heads_q = 4,
                      .heads_kv = 2,
                      .seqlen_q = 170,
                      .seqlen_k = 190,
                      .head_dim_qk = head_dim,
                      .head_dim_v = head_dim,
                      .mask = head_dim == 64 ? MaskKind::bottom_right : MaskKind::none,
                      .dlse = true};
      Dispatcher dispatcher({.device = kBackwardDevice});
      expect_lost_rows_add_nothing(call, kBackwardDevice,
                                   [&](const AttentionBackwardProblem& p) { return dispatcher.plan(p); });
    }
  }
}

/// Wide heads, so many that gradients of scores pass through memory and their places are used again.
RandomCall<AttentionBwd> random_passing(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto any = [&](std::initializer_list<std::int64_t> values) { return values.begin()[random() % values.size()]; };
  const auto coin = [&](unsigned of = 2) { return random() % of == 0; };
  RandomCall<AttentionBwd> call;
  AttentionBackwardProblem& p = call.problem;
  p.data_type = coin(3) ? DataType::fp16 : DataType::bf16;
  p.mode = coin(3) ? SequenceMode::group : SequenceMode::batch;
  p.batch = any({16, 21});
  p.heads_kv = 16;
  p.heads_q = p.heads_kv * any({1, 1, 3});
  p.seqlen_q = any({1, 63, 65, 129, 200});
  p.seqlen_k = any({65, 129, 300});
  p.head_dim_qk = any({136, 192, 256});
  p.head_dim_v = coin(3) ? 128 : p.head_dim_qk;
  if (coin()) p.mask = coin() ? MaskKind::top_left : MaskKind::bottom_right;
  p.dropout = p.head_dim_qk <= 192 && coin(3);
  p.sink = p.dsink = coin(3);
  p.dlse = coin(4);
  if (coin(4)) p.bias = coin() ? BiasKind::elementwise : BiasKind::alibi;
  call.numbers.seed = seed;
  if (p.dropout) call.numbers.dropout_probability = 0.2F;
  return call;
}

/// At most 128 keys, so that one block of them has a head's: mostly the products store dq.
RandomCall<AttentionBwd> random_single_block(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto any = [&](std::initializer_list<std::int64_t> values) { return values.begin()[random() % values.size()]; };
  RandomCall<AttentionBwd> call = random_backward(seed);
  AttentionBackwardProblem& p = call.problem;
  p.data_type = any({0, 1}) == 0 ? DataType::fp16 : DataType::bf16;
  p.mode = SequenceMode::batch;
  p.heads_q = p.heads_kv * any({1, 2, 6});
  p.seqlen_q = any({1, 63, 65, 128, 129, 200, 700});
  p.seqlen_k = any({1, 49, 64, 65, 77, 127, 128});
  p.head_dim_qk = any({8, 40, 64, 72, 96, 104, 128});
  p.head_dim_v = any({0, 1, 2}) == 0 ? any({8, 64, 80, 128}) : p.head_dim_qk;
  p.unaligned = false;
  return call;
}

/// Rows that begin anywhere, of sequences of one length.
RandomCall<AttentionBwd> random_odd(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto between = [&](std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most - least + 1));
  };
  RandomCall<AttentionBwd> call = random_backward(seed);
  AttentionBackwardProblem& p = call.problem;
  p.data_type = between(0, 1) == 0 ? DataType::fp16 : DataType::bf16;
  p.mode = SequenceMode::batch;
  p.head_dim_qk = between(1, 128);
  p.head_dim_v = between(0, 2) == 0 ? between(1, 128) : p.head_dim_qk;
  p.unaligned = true;
  return call;
}

TEST_P(CudaAttentionBackwardSeedsTest, GradientsOfOneBlockOfKeysAgreeWithTheReferenceOnEveryKernel) {
  const auto backend = open_backend(kBackwardDevice, 1).value();
  auto* const operation = backend->find<AttentionBwd>().value();
  for (int i = 0; i < 3; ++i) {
    const RandomCall<AttentionBwd> call = random_single_block(static_cast<std::uint64_t>(3 * GetParam() + i));
    const auto problem_case = AttentionBackwardCase::create(call);
    ASSERT_TRUE(problem_case) << problem_case.error().text();
    const AttentionBackwardProblem& problem = problem_case->problem();
    const Ranking ranking = operation->rank(problem).value();
    for (const Candidate& one : ranking.candidates) {
      if (one.recipe.main().algorithm.pipeline != Pipeline::warp_specialized) continue;
      SCOPED_TRACE(recipe_name(one.recipe) + "\n" + describe(problem));
      const auto plan = operation->plan(problem, one, "a test", BuildPolicy::allowed);
      ASSERT_TRUE(plan) << plan.error().text();
      auto trial = Trial<AttentionBwd>::create(*problem_case, kBackwardDevice);
      ASSERT_TRUE(trial) << trial.error().text();
      const auto verdict = trial->verify(**plan, **problem_case->reference());
      ASSERT_TRUE(verdict) << verdict.error().text();
      EXPECT_EQ(verdict->outcome, Outcome::pass) << verdict->tensor << ": " << verdict->reason;
    }
  }
}

TEST_P(CudaAttentionBackwardSeedsTest, GradientsOfCopiedRowsAgreeWithTheReferenceOnEveryKernel) {
  const auto backend = open_backend(kBackwardDevice, 1).value();
  for (int i = 0; i < 3; ++i) {
    const auto problem_case = AttentionBackwardCase::create(random_odd(static_cast<std::uint64_t>(3 * GetParam() + i)));
    ASSERT_TRUE(problem_case) << problem_case.error().text();
    const AttentionBackwardProblem& problem = problem_case->problem();
    auto* const operation = backend->find<AttentionBwd>().value();
    int copied = 0;
    const Ranking ranking = operation->rank(problem).value();
    for (const Candidate& one : ranking.candidates) {
      if (!copies_rows(one.recipe.main(), problem)) continue;
      SCOPED_TRACE(recipe_name(one.recipe) + "\n" + describe(problem));
      const auto plan = operation->plan(problem, one, "a test", BuildPolicy::allowed);
      ASSERT_TRUE(plan) << plan.error().text();
      EXPECT_EQ((*plan)->info().steps.front().role, "pad");
      auto trial = Trial<AttentionBwd>::create(*problem_case, kBackwardDevice);
      ASSERT_TRUE(trial) << trial.error().text();
      const auto verdict = trial->verify(**plan, **problem_case->reference());
      ASSERT_TRUE(verdict) << verdict.error().text();
      EXPECT_EQ(verdict->outcome, Outcome::pass) << verdict->tensor << ": " << verdict->reason;
      ++copied;
    }
    EXPECT_GT(copied, 0) << describe(problem);
  }
}

TEST_P(CudaAttentionBackwardSeedsTest, GradientsOfScoresThatPassThroughMemoryAgreeWithTheReference) {
  Dispatcher dispatcher({.device = kBackwardDevice});
  expect_agreement(random_passing(static_cast<std::uint64_t>(GetParam())), dispatcher);
}
INSTANTIATE_TEST_SUITE_P(Seeds, CudaAttentionBackwardSeedsTest, ::testing::Range(0, 8));

TEST_F(CudaAttentionBackwardTest, OrderedAdditionsGiveTheSameBits) {
  Dispatcher dispatcher({.device = kBackwardDevice});
  for (const MaskKind mask : {MaskKind::none, MaskKind::bottom_right}) {
    for (const std::int64_t head_dim : {64, 128, 256}) {
      for (const bool with_traits : {false, true}) {
        RandomCall<AttentionBwd> call;
        // 168 items of 128 keys: more than an H200 has places for at once, so that some are second rounds.
        call.problem = {.batch = 3,
                        .heads_q = 8,
                        .heads_kv = 4,
                        .seqlen_q = 1500,
                        .seqlen_k = 1700,
                        .head_dim_qk = head_dim,
                        .head_dim_v = head_dim,
                        .mask = mask};
        std::vector<std::string> names{"dq", "dk", "dv"};
        if (with_traits) {
          call.problem.bias = BiasKind::alibi;
          call.problem.sink = call.problem.dalibi = call.problem.dsink = true;
          names.insert(names.end(), {"dsink", "dalibi"});
        }
        const auto problem_case = AttentionBackwardCase::create(call);
        ASSERT_TRUE(problem_case);
        const auto plan = dispatcher.plan(problem_case->problem());
        ASSERT_TRUE(plan) << plan.error().text();
        auto trial = Trial<AttentionBwd>::create(*problem_case, kBackwardDevice);
        ASSERT_TRUE(trial);
        std::vector<std::vector<float>> first;
        for (int repeat = 0; repeat < 15; ++repeat) {
          const auto outputs = trial->run(**plan);
          ASSERT_TRUE(outputs) << outputs.error().text();
          std::vector<std::vector<float>> now;
          for (const std::string& name : names) now.push_back(outputs->array(name).to_floats());
          if (first.empty()) first = now;
          ASSERT_EQ(now, first) << "repeat " << repeat << " of head dim " << head_dim;
        }
      }
    }
  }
}

TEST_F(CudaAttentionBackwardTest, SumsOfABiasGradientHaveAFixedOrderWhereBitsMustRepeat) {
  Dispatcher dispatcher({.device = kBackwardDevice});
  // By rows of batch, head, query, key: 1 where the bias broadcasts. Each data type once over all of them.
  constexpr std::array<std::array<std::int64_t, 4>, 7> kShapes{{{1, 1, 170, 190},
                                                                {2, 1, 170, 190},
                                                                {1, 4, 170, 190},
                                                                {2, 4, 1, 190},
                                                                {2, 4, 170, 1},
                                                                {1, 4, 1, 190},
                                                                {1, 1, 1, 1}}};
  for (const auto& shape : kShapes) {
    for (const DataType type : {DataType::bf16, DataType::fp32}) {
      RandomCall<AttentionBwd> call;
      call.problem = {.batch = 2,
                      .heads_q = 4,
                      .heads_kv = 2,
                      .seqlen_q = 170,
                      .seqlen_k = 190,
                      .head_dim_qk = 64,
                      .head_dim_v = 64,
                      .mask = MaskKind::bottom_right,
                      .soft_cap = true};
      call.problem.data_type = type;
      call.numbers.soft_cap = 2;
      call.problem.bias = BiasKind::elementwise;
      call.problem.dbias = true;
      AttentionBackwardInputs inputs;
      const std::vector<std::int64_t> sizes(shape.begin(), shape.end());
      std::vector<float> bias(static_cast<std::size_t>(shape[0] * shape[1] * shape[2] * shape[3]));
      for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<float>(i * 37 % 101) / 50.0F - 1.0F;
      inputs.forward.bias = make_array(ElementType::fp32, sizes, bias);
      const auto problem_case = AttentionBackwardCase::create(call, std::move(inputs));
      ASSERT_TRUE(problem_case) << problem_case.error().text();
      auto trial = Trial<AttentionBwd>::create(*problem_case, kBackwardDevice);
      ASSERT_TRUE(trial);
      const auto plan = dispatcher.plan(problem_case->problem());
      ASSERT_TRUE(plan) << plan.error().text();
      SCOPED_TRACE(fmt::format("{} of bias {}", name_of(type), fmt::join(shape, "x")));
      const auto verdict = trial->verify(**plan, **problem_case->reference());
      ASSERT_TRUE(verdict) << verdict.error().text();
      EXPECT_EQ(verdict->outcome, Outcome::pass) << verdict->tensor << ": " << verdict->reason;
      std::vector<float> first;
      for (int repeat = 0; repeat < 5; ++repeat) {
        const auto outputs = trial->run(**plan);
        ASSERT_TRUE(outputs) << outputs.error().text();
        const std::vector<float> now = outputs->array("dbias").to_floats();
        if (first.empty()) first = now;
        ASSERT_EQ(now, first) << "repeat " << repeat;
      }
    }
  }
}

}  // namespace
}  // namespace tilesmith
