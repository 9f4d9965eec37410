// Attention backward on the CPU: biases that broadcast, guards, determinism, and what plans and calls refuse.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "choose/attention_backward/cpu.hpp"
#include "dispatch/cpu_registry.hpp"
#include "dispatch/lost_rows.hpp"
#include "dispatch/test_store.hpp"
#include "problem/line.hpp"
#include "trial/attention_backward/case.hpp"
#include "trial/trial.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

RandomCall<AttentionBwd> small_call() {
  RandomCall<AttentionBwd> call;
  call.problem = {.data_type = DataType::fp32,
                  .batch = 3,
                  .heads_q = 4,
                  .heads_kv = 2,
                  .seqlen_q = 37,
                  .seqlen_k = 70,
                  .head_dim_qk = 24,
                  .head_dim_v = 40,
                  .mask = MaskKind::bottom_right};
  return call;
}

TEST(AttentionBackward, TheBiasGradientSumsWhatTheBiasBroadcasts) {
  Dispatcher dispatcher;
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{3, 4, 37, 70},
                                                 {4, 37, 70},
                                                 {3, 1, 37, 70},
                                                 {37, 70},
                                                 {3, 4, 1, 70},
                                                 {1, 70},
                                                 {3, 4, 37, 1},
                                                 {37, 1},
                                                 {4, 1, 1},
                                                 {1}}) {
    for (const SequenceMode mode : {SequenceMode::batch, SequenceMode::group}) {
      SCOPED_TRACE(shape_text(shape) + " " + std::string(name_of(mode)));
      RandomCall<AttentionBwd> call = small_call();
      call.problem.mode = mode;
      call.problem.bias = BiasKind::elementwise;
      call.problem.dbias = true;
      std::int64_t count = 1;
      for (const std::int64_t size : shape) count *= size;
      std::vector<float> values(static_cast<std::size_t>(count));
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7) * 0.25F - 0.5F;
      AttentionBackwardInputs inputs;
      inputs.forward.bias = make_array(ElementType::fp32, shape, values);
      const auto problem_case = AttentionBackwardCase::create(call, std::move(inputs));
      ASSERT_TRUE(problem_case) << problem_case.error().text();
      const auto plan = dispatcher.plan(problem_case->problem());
      ASSERT_TRUE(plan) << plan.error().text();
      auto trial = Trial<AttentionBwd>::create(*problem_case, Device{});
      const auto verdict = trial->verify(**plan, **problem_case->reference());
      ASSERT_TRUE(verdict) << verdict.error().text();
      EXPECT_EQ(verdict->outcome, Outcome::pass) << verdict->tensor << ": " << verdict->reason;
    }
  }
}

/// Shapes whose last tile is ragged and whose blocks a window cuts, by type. (fp16 has the templates of fp32.)
class EveryKernel : public ::testing::TestWithParam<const char*> {};

TEST_P(EveryKernel, AgreesWithTheReference) {
  const CpuMachine& machine = *this_cpu_machine();
  for (const char* options : {"--heads-q 4 --heads-kv 2 --seqlen-q 217 --seqlen-k 251 --head-dim-qk 64 "
                              "--mask bottom_right --random-sink --dsink",
                              "--mode group --batch 3 --heads-q 2 --heads-kv 1 --seqlen-q 113 --seqlen-k 201 "
                              "--head-dim-qk 40 --head-dim-v 72 --window 70,33 --random-alibi --softcap 3 "
                              "--dropout 0.25"}) {
    const auto line = parse_line(fmt::format("attention_bwd --dtype {} {}", GetParam(), options));
    ASSERT_TRUE(line) << line.error().text();
    const auto problem_case = AttentionBackwardCase::create(std::get<RandomCall<AttentionBwd>>(*line));
    ASSERT_TRUE(problem_case) << problem_case.error().text();
    const auto ranking = rank(machine, problem_case->problem());
    ASSERT_TRUE(ranking) << ranking.error().text();
    std::vector<KernelConfig> configs;
    for (const Candidate& candidate : ranking->candidates) configs.push_back(candidate.recipe.main());
    ASSERT_GT(configs.size(), machine.levels.size()) << "no flash kernel";
    CpuRegistry registry(machine);
    for (const Status& built : registry.build(configs, 0, {})) ASSERT_TRUE(built) << built.error().text();
    const auto reference = problem_case->reference();
    ASSERT_TRUE(reference) << reference.error().text();
    for (const KernelConfig& config : configs) {
      Dispatcher dispatcher({.threads = 2, .kernel = native_name(config)});
      const auto plan = dispatcher.plan(problem_case->problem());
      ASSERT_TRUE(plan) << plan.error().text();
      auto trial = Trial<AttentionBwd>::create(*problem_case, Device{});
      const auto verdict = trial->verify(**plan, **reference);
      ASSERT_TRUE(verdict) << verdict.error().text();
      EXPECT_EQ(verdict->outcome, Outcome::pass)
          << native_name(config) << " " << verdict->tensor << ": " << verdict->reason;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, EveryKernel, ::testing::Values("fp32", "bf16"),
                         [](const auto& type) { return std::string(type.param); });

TEST(AttentionBackward, RowsWhoseLogSumExpIsLostAddNothing) {
  for (const DataType type : {DataType::fp32, DataType::bf16, DataType::fp16})
    for (const std::int64_t head_dim : {64, 37})
      for (const bool others : {false, true}) {  // a log-sum-exp's gradient and that of the bias, behind a mask
        SCOPED_TRACE(fmt::format("{} {} {}", name_of(type), head_dim, others));
        RandomCall<AttentionBwd> call = small_call();
        call.problem.data_type = type;
        call.problem.head_dim_qk = call.problem.head_dim_v = head_dim;
        call.problem.dbias = call.problem.dlse = others;
        if (!others) call.problem.mask = MaskKind::none;
        Dispatcher dispatcher({.threads = 2});
        expect_lost_rows_add_nothing(call, Device{},
                                     [&](const AttentionBackwardProblem& p) { return dispatcher.plan(p); });
      }
}

class Bits : public ::testing::TestWithParam<AttentionBackwardProblem> {};

TEST_P(Bits, DependOnNoThreads) {
  RandomCall<AttentionBwd> call;
  call.problem = GetParam();
  call.problem.sink = call.problem.dsink = true;
  const auto problem_case = AttentionBackwardCase::create(call);
  ASSERT_TRUE(problem_case);
  std::vector<std::vector<float>> first;
  for (const int threads : {1, 2, 3, 3}) {
    Dispatcher dispatcher({.threads = threads});
    const auto plan = dispatcher.plan(problem_case->problem());
    ASSERT_TRUE(plan) << plan.error().text();
    auto trial = Trial<AttentionBwd>::create(*problem_case, Device{});
    const auto outputs = trial->run(**plan);
    ASSERT_TRUE(outputs);
    std::vector<std::vector<float>> now;
    for (const char* name : {"dq", "dk", "dv", "dsink"}) now.push_back(outputs->array(name).to_floats());
    if (first.empty()) first = now;
    EXPECT_EQ(now, first) << threads << " threads";
  }
}

/// The second has two splits of its keys, and head dims of a flash kernel.
INSTANTIATE_TEST_SUITE_P(Problems, Bits,
                         ::testing::Values(small_call().problem,
                                           AttentionBackwardProblem{.data_type = DataType::fp32,
                                                                    .heads_q = 3,
                                                                    .heads_kv = 1,
                                                                    .seqlen_q = 100,
                                                                    .seqlen_k = 1100,
                                                                    .head_dim_qk = 64,
                                                                    .head_dim_v = 64,
                                                                    .mask = MaskKind::bottom_right}),
                         [](const auto& which) { return std::to_string(which.index); });

TEST(AttentionBackward, RefusesWhatMakesNoSense) {
  AttentionBackwardProblem p{.dbias = true};
  EXPECT_FALSE(validate(p));
  p = {.bias = BiasKind::elementwise, .dalibi = true};
  EXPECT_FALSE(validate(p));
  p = {.dsink = true};
  EXPECT_FALSE(validate(p));
  p = {.data_type = DataType::fp8bf16};
  EXPECT_FALSE(validate(p));
  EXPECT_EQ(validate(p).error().code, ErrorCode::unsupported);

  const auto problem_case = AttentionBackwardCase::create(small_call());
  ASSERT_TRUE(problem_case);
  Dispatcher dispatcher;
  const auto plan = dispatcher.plan(problem_case->problem());
  ASSERT_TRUE(plan);
  const AttentionBackwardArguments without_outputs = problem_case->arguments(CallMemory(problem_case->inputs()));
  const Status status = (*plan)->run(without_outputs);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().text().find("dq"), std::string::npos) << status.error().text();
}

}  // namespace
}  // namespace tilesmith
