// Attention forward on AMD GPUs through dispatch, against the fake HIP runtime.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "dispatch/attention/random_problem.hpp"
#include "dispatch/emulated_hip.hpp"
#include "dispatch/test_store.hpp"
#include "runtime/hip/stream.hpp"
#include "trial/attention/case.hpp"
#include "trial/trial.hpp"

namespace tilesmith {
namespace {

using testing::EmulatedDevice;
using testing::fake;

class HipAttentionTest : public testing::EmulatedHipTest {};

/// Sizes that the emulation computes in a moment.
AttentionProblem small(AttentionProblem p) {
  p.batch = std::min<std::int64_t>(p.batch, 2);
  const std::int64_t group = std::min<std::int64_t>(p.heads_q / p.heads_kv, 2);
  p.heads_kv = std::min<std::int64_t>(p.heads_kv, 2);
  p.heads_q = p.heads_kv * group;
  p.seqlen_q = std::min<std::int64_t>(p.seqlen_q, 70);
  p.seqlen_k = std::min<std::int64_t>(p.seqlen_k, 150);
  return p;
}

/// A random call of these traits: odd strides between red zones, judged by the reference.
void expect_right(EmulatedDevice& hip, const AttentionProblem& traits, std::uint64_t seed) {
  testing::RandomCall call(small(testing::random_shape(traits, seed)), seed, traits.unaligned ? 1 : 16);
  SCOPED_TRACE(testing::describe(call.problem()));
  const auto plan = hip.plan(call.problem());
  ASSERT_TRUE(plan) << plan.error().text();
  const Status ran = call.run(**plan);
  ASSERT_TRUE(ran) << ran.error().text();
  EXPECT_EQ(call.judge(), "") << (*plan)->kernel_name();
}

/// The same by the first recipe that shares out keys.
void expect_decoded(EmulatedDevice& hip, const AttentionProblem& problem, std::uint64_t seed) {
  testing::RandomCall call(problem, seed, problem.unaligned ? 1 : 16);
  SCOPED_TRACE(testing::describe(call.problem()));
  OperationBackend<AttentionFwd>& attention = **hip.backend().find<AttentionFwd>();
  const auto ranking = attention.rank(call.problem());
  ASSERT_TRUE(ranking) << ranking.error().text();
  const auto decode = std::ranges::find_if(
      ranking->candidates, [](const Candidate& candidate) { return candidate.recipe.steps.size() == 2; });
  ASSERT_NE(decode, ranking->candidates.end());
  ASSERT_TRUE(attention.check(decode->recipe, call.problem()));
  EXPECT_FALSE(attention.check(decode->recipe.main(), call.problem())) << "half a recipe";
  for (const Step& step : decode->recipe.steps) {
    const Status emulated = hip.emulate(step.config);
    ASSERT_TRUE(emulated) << emulated.error().text();
  }
  const auto plan = attention.plan(call.problem(), *decode, "a test", BuildPolicy::allowed);
  ASSERT_TRUE(plan) << plan.error().text();
  const std::size_t launches = fake().launches.size();
  const Status ran = call.run(**plan);
  ASSERT_TRUE(ran) << ran.error().text();
  EXPECT_EQ(call.judge(), "") << recipe_name(decode->recipe);
  if (problem.splits > 1) {
    EXPECT_EQ(fake().launches.size(), launches + 2) << "nothing was joined";
    EXPECT_GT((*plan)->workspace_bytes(), 0u);
  }
}

TEST_F(HipAttentionTest, EveryChipComputesWhatIsAsked) {
  struct Row {
    DataType type;
    std::int64_t qk, v;
    const char* words;
  };
  constexpr Row kRows[] = {{DataType::bf16, 64, 64, ""},
                           {DataType::fp16, 128, 128, "mask lse"},
                           {DataType::bf16, 192, 128, "mask alibi cap lse"},
                           {DataType::fp16, 40, 72, "group mask odd bias sink lse"},
                           {DataType::bf16, 33, 65, "unaligned group mask drop sink"},
                           {DataType::fp16, 96, 96, "mask drop bias cap lse"}};
  for (int index = 0; index < testing::kFakeDevices; ++index) {
    SCOPED_TRACE(testing::kFakeHipDevices[index].name);
    EmulatedDevice hip(index);
    // Two rows for each chip; every row on a chip at least.
    for (std::size_t row = static_cast<std::size_t>(index) % 3; row < std::size(kRows); row += 3) {
      const Row& r = kRows[row];
      expect_right(hip, testing::traits(r.type, r.qk, r.v, r.words), 100 + row);
    }
  }
}

TEST_F(HipAttentionTest, KeysInPagesAndInPiecesAreJoined) {
  struct Row {
    const char* words;
    std::int64_t splits;
    DataType type;
    std::int64_t qk, v;
  };
  constexpr Row kRows[] = {{"paged mask lse", 3, DataType::bf16, 64, 64},
                           {"paged group mask sink cap lse", 2, DataType::fp16, 128, 128},
                           {"paged alibi", 0, DataType::bf16, 72, 40},
                           {"mask drop bias lse", 4, DataType::fp16, 64, 64},
                           {"group mask lse", 5, DataType::bf16, 192, 128},
                           {"unaligned paged group mask sink lse", 3, DataType::fp16, 33, 65},
                           {"paged cache8 mask lse", 2, DataType::bf16, 64, 64},
                           {"paged cachei8 pagescale mask cap lse", 3, DataType::fp16, 64, 96},
                           {"cachei8 mask drop bias lse", 3, DataType::bf16, 48, 64},
                           {"paged latent mask lse", 2, DataType::fp16, 576, 512},
                           {"paged cache8 pagescale group alibi", 2, DataType::fp16, 128, 64},
                           {"unaligned cache8 lse", 2, DataType::bf16, 33, 40}};
  for (int index = 0; index < testing::kFakeDevices; ++index) {
    SCOPED_TRACE(testing::kFakeHipDevices[index].name);
    EmulatedDevice hip(index);
    for (std::size_t row = static_cast<std::size_t>(index) % 3; row < std::size(kRows); row += 3) {
      const Row& r = kRows[row];
      AttentionProblem p = testing::traits(r.type, r.qk, r.v, r.words);
      p = small(testing::random_shape(p, 300 + row));
      p.batch = std::max<std::int64_t>(p.batch, 1);
      p.seqlen_q = 1 + static_cast<std::int64_t>(row) % 5;
      p.seqlen_k = 150 + static_cast<std::int64_t>(row);
      p.splits = r.splits;
      expect_decoded(hip, p, 300 + row);
    }
  }
}

TEST_F(HipAttentionTest, TrialsVerifyTimeAndFindWrongResults) {
  EmulatedDevice hip(1);
  AttentionProblem p = testing::traits(DataType::bf16, 64, 64, "mask lse");
  p.heads_q = 2;
  p.seqlen_q = p.seqlen_k = 40;
  const auto made = AttentionCase::create(usual_call(p));
  ASSERT_TRUE(made) << made.error().text();
  const auto plan = hip.plan(made->problem());
  ASSERT_TRUE(plan) << plan.error().text();
  const auto reference = made->reference(1).value();
  auto trial = make_trial(*made, hip.device);
  ASSERT_TRUE(trial) << trial.error().text();
  const auto right = trial->verify(**plan, *reference);
  ASSERT_TRUE(right) << right.error().text();
  EXPECT_NE(right->outcome, Outcome::fail) << right->reason;
  EXPECT_NE(fake().launches.back().stream, nullptr) << "the default stream waits for others";
  const auto timing = trial->time(**plan, {.cold = false, .max_samples = 2});
  ASSERT_TRUE(timing) << timing.error().text();
  testing::FakeLibamdhip64::Kernel& kernel = fake().kernels.at(std::string((*plan)->kernel_name()));
  const auto run = std::exchange(kernel.run, [](const void*, int) {});
  EXPECT_EQ(trial->verify(**plan, *reference)->outcome, Outcome::fail);
  kernel.run = run;
}

TEST_F(HipAttentionTest, PackedCallsWithoutQueriesLaunchNothing) {
  EmulatedDevice hip(0);
  AttentionProblem p = testing::traits(DataType::bf16, 64, 64, "group mask lse");
  p.batch = 2;
  p.seqlen_q = p.seqlen_k = 8;
  for (const std::int64_t splits : {1, 2}) {
    p.splits = splits;
    const auto plan = hip.plan(p);
    ASSERT_TRUE(plan) << plan.error().text();
    AttentionArguments a = dense_arguments(p, AttentionLayout::bhsd, 0, 0);
    const std::int32_t offsets[3] = {};
    a.cu_seqlens_q = a.cu_seqlens_k = offsets;
    const std::size_t launches = fake().launches.size();
    const Status ran = (*plan)->run(a, {});
    EXPECT_TRUE(ran) << ran.error().text();
    EXPECT_EQ(fake().launches.size(), launches);
  }
}

TEST_F(HipAttentionTest, ErrorsSayWhatIsWrong) {
  EmulatedDevice hip(0);
  AttentionProblem p = testing::traits(DataType::bf16, 64, 64, "");
  p.seqlen_q = p.seqlen_k = 8;
  const auto plan = hip.plan(p);
  ASSERT_TRUE(plan) << plan.error().text();
  alignas(16) static std::byte memory[4][2048];
  AttentionArguments a = dense_arguments(p, AttentionLayout::bhsd);
  a.q = memory[0] + 2;
  a.k = memory[1];
  a.v = memory[2];
  a.o = memory[3];
  const Status skewed = (*plan)->run(a, {});
  ASSERT_FALSE(skewed);
  EXPECT_NE(skewed.error().message.find("is not aligned to 16 bytes"), std::string::npos) << skewed.error().text();
  a.q = memory[0];
  a.scale = -1;
  const Status negative = (*plan)->run(a, {});
  ASSERT_FALSE(negative);
  EXPECT_NE(negative.error().hint.find("negative_scale"), std::string::npos) << negative.error().text();
  a.scale = 1;
  EXPECT_TRUE((*plan)->run(a, {}));

  const auto refused = [&](AttentionProblem wrong, std::string_view rule) {
    const auto none = hip.dispatcher.plan(wrong);
    ASSERT_FALSE(none) << rule;
    EXPECT_EQ(none.error().code, ErrorCode::unsupported) << none.error().text();
    EXPECT_NE(none.error().message.find(rule), std::string::npos) << none.error().text();
    EXPECT_FALSE(none.error().hint.empty());
  };
  AttentionProblem wrong = p;
  wrong.data_type = DataType::fp32;
  refused(wrong, "rule type_is_carried");
  wrong = p;
  wrong.head_dim_qk = wrong.head_dim_v = 512;
  refused(wrong, "rule head_dims_fit");
}

// A captured launch has memory for its pieces that no other has; the launches of a stream share theirs.
TEST_F(HipAttentionTest, GraphsKeepTheMemoryOfTheirPieces) {
  EmulatedDevice hip(0);
  AttentionProblem p = testing::traits(DataType::bf16, 32, 32, "paged mask lse");
  p.heads_q = 2;
  p.seqlen_q = 2;
  p.seqlen_k = 200;
  p.page_size = 16;
  p.splits = 2;
  testing::RandomCall call(p, 7, 16);
  const auto plan = hip.plan(p);
  ASSERT_TRUE(plan) << plan.error().text();
  ASSERT_TRUE(call.run(**plan));
  ASSERT_EQ(call.judge(), "");
  const auto device = HipDevice::open(*hip_library().value(), 0).value();
  const HipStream stream = HipStream::create(device).value();
  const auto run = [&] { return (*plan)->run(call.arguments(), {.stream = stream.handle()}); };
  ASSERT_TRUE(run());
  const std::size_t of_stream = fake().allocations.size();
  ASSERT_TRUE(run());
  EXPECT_EQ(fake().allocations.size(), of_stream) << "a stream's second launch allocates nothing";
  const auto first = HipGraph::capture(device, stream.handle(), run);
  ASSERT_TRUE(first) << first.error().text();
  const auto second = HipGraph::capture(device, stream.handle(), run);
  ASSERT_TRUE(second) << second.error().text();
  EXPECT_EQ(fake().allocations.size(), of_stream + 2) << "each graph has a piece for good";
  const auto partials = [](std::size_t from_last) {
    const auto& launch = *(fake().launches.end() - static_cast<std::ptrdiff_t>(from_last));
    return reinterpret_cast<const TsHipAttentionArgs*>(launch.arguments.data())->partials;
  };
  EXPECT_EQ(partials(1), partials(2)) << "what is joined is what was left";
  EXPECT_NE(partials(1), partials(3));
  EXPECT_NE(partials(3), partials(5)) << "a graph's memory is not the stream's";
  for (const auto* graph : {&first, &second}) {
    for (const testing::RandomCall::Memory& part : call.memory())
      if (part.written) std::memset(const_cast<std::byte*>(part.bytes.data()), 0xff, part.bytes.size());
    ASSERT_TRUE((*graph)->launch(stream.handle()));
    EXPECT_EQ(call.judge(), "");
  }
  // Where nothing is left, a run says so, and the next one is right.
  fake().malloc = hip::Code::out_of_memory;
  const HipStream other = HipStream::create(device).value();
  const Status none = (*plan)->run(call.arguments(), {.stream = other.handle()});
  fake().malloc = hip::Code::success;
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::out_of_memory) << none.error().text();
  EXPECT_TRUE((*plan)->run(call.arguments(), {.stream = other.handle()}));
}

TEST_F(HipAttentionTest, EmptyProblemsLaunchNothing) {
  EmulatedDevice hip(0);
  AttentionProblem p = testing::traits(DataType::bf16, 64, 64, "");
  p.seqlen_q = p.seqlen_k = 0;
  const auto plan = hip.plan(p);
  ASSERT_TRUE(plan) << plan.error().text();
  const std::size_t launches = fake().launches.size();
  EXPECT_TRUE((*plan)->run(dense_arguments(p, AttentionLayout::bhsd), {}));
  EXPECT_EQ(fake().launches.size(), launches);
}

}  // namespace
}  // namespace tilesmith
