// Which kernel is chosen: the first candidate, but for what determinism allows.
#include "dispatch/choice.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "dispatch/plan_info.hpp"
#include "jit/resource_report.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

class NoPlan final : public GemmPlan {
 public:
  NoPlan(const GemmProblem& problem, PlanInfo facts) : GemmPlan(problem, std::move(facts)) {}
  [[nodiscard]] Status run(const GemmArguments&, const RunOptions&) const override { return {}; }
};

KernelConfig config_of(std::uint16_t columns, bool adds) {
  KernelConfig config{.arch = ArchName::parse("sm_90a").value(), .signature = GemmSignature{}, .algorithm = {}};
  config.algorithm = {.pipeline = Pipeline::warp_specialized,
                      .instruction = Instruction::wgmma,
                      .tile = {64, columns, 64},
                      .wave = {1},
                      .stages = 4,
                      .split_k = true,
                      .split_k_atomic = adds};
  return config;
}

/// Kernels of given times, of which the first `spilled` take more registers than there are, and the others can be had.
class Kernels final : public OperationBackend<Gemm> {
 public:
  explicit Kernels(std::vector<Candidate> candidates, std::size_t spilled = 0)
      : candidates_(std::move(candidates)), spilled_(spilled) {}

  [[nodiscard]] Result<Ranking> rank(const GemmProblem&) const override { return Ranking{candidates_, "test"}; }
  [[nodiscard]] std::vector<Candidate> fallbacks(const GemmProblem&) const override { return {}; }
  [[nodiscard]] Status check(const Recipe&, const GemmProblem&) const override { return {}; }
  [[nodiscard]] Result<std::unique_ptr<GemmPlan>> plan(const GemmProblem& problem, const Candidate& chosen,
                                                       std::string reason, BuildPolicy build) override {
    if (build == BuildPolicy::never) return fail(ErrorCode::not_found, "it is not compiled");
    const auto place = std::ranges::find(candidates_, chosen.recipe, &Candidate::recipe) - candidates_.begin();
    if (static_cast<std::size_t>(place) < spilled_)
      TS_TRY(check_resources({.functions = {{.function = "kernel", .spill_store_bytes = 400}}, .advisories = {}}, 64));
    return std::make_unique<NoPlan>(problem, plan_info({DeviceKind::cuda, 0}, chosen, std::move(reason)));
  }

 private:
  std::vector<Candidate> candidates_;
  std::size_t spilled_;
};

std::string chosen(const std::vector<Candidate>& candidates, Determinism determinism) {
  Kernels kernels(candidates);
  const auto plan = choose_plan<Gemm>(kernels, {}, {.determinism = determinism});
  return plan ? std::string((*plan)->kernel_name()) : plan.error().text();
}

TEST(Choice, WhatGivesOtherBitsIsChosenOnlyWhereThatIsToleratedAndFaster) {
  const Candidate kept{config_of(64, false), 2e-5}, fast{config_of(64, true), 1e-5}, slow{config_of(128, true), 3e-5};
  const auto name = [](const Candidate& candidate) { return native_name(candidate.recipe.main()); };
  EXPECT_EQ(chosen({kept, fast, slow}, Determinism::bitwise), name(kept));
  EXPECT_EQ(chosen({kept, fast, slow}, Determinism::tolerant), name(fast));
  EXPECT_EQ(chosen({kept, slow}, Determinism::tolerant), name(kept));
}

TEST(Choice, WhereNoKernelIsBitwiseThatIsAnErrorUnlessTolerated) {
  const Candidate fast{config_of(64, true), 1e-5}, slow{config_of(128, true), 3e-5};
  Kernels kernels({fast, slow});
  const auto refused = choose_plan<Gemm>(kernels, {}, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
  EXPECT_NE(refused.error().message.find("2 kernels compute this problem"), std::string::npos);
  EXPECT_EQ(refused.error().hint, "determinism tolerant");
  EXPECT_EQ(chosen({fast, slow}, Determinism::tolerant), native_name(fast.recipe.main()));
}

TEST(Choice, NoCandidateIsAnError) {
  EXPECT_EQ(chosen({}, Determinism::bitwise), "no kernel computes this problem");
  EXPECT_EQ(chosen({}, Determinism::tolerant), "no kernel computes this problem");
}

TEST(Choice, ANamedKernelThatGivesOtherBitsNeedsTheOption) {
  const Candidate fast{config_of(64, true), 1e-5};
  Kernels kernels({fast});
  DispatcherOptions options{.kernel = native_name(fast.recipe.main())};
  const auto refused = choose_plan<Gemm>(kernels, {}, options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().hint, "determinism tolerant");
  options.determinism = Determinism::tolerant;
  const auto plan = choose_plan<Gemm>(kernels, {}, options);
  ASSERT_TRUE(plan);
  EXPECT_EQ((*plan)->info().source, "name");
}

TEST(Choice, WhereAKernelSpillsOthersOfItsKindAreBuilt) {
  std::vector<Candidate> candidates;
  for (int i = 1; i <= 8; ++i) candidates.push_back({config_of(static_cast<std::uint16_t>(32 * i), false), i * 1e-5});
  const auto chosen = [&](std::size_t spilled) {
    Kernels kernels(candidates, spilled);
    return choose_plan<Gemm>(kernels, {}, {});
  };
  for (const std::size_t spilled : {0, 1, 4}) {
    const auto plan = chosen(spilled);
    ASSERT_TRUE(plan) << plan.error().text();
    EXPECT_EQ((*plan)->kernel_name(), native_name(candidates[spilled].recipe.main()));
    EXPECT_EQ((*plan)->info().source, spilled == 0 ? "model" : "fallback");
  }
  const auto none = chosen(5);  // four more builds are as many as a call waits for
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("spills registers: 400 bytes"), std::string::npos) << none.error().text();
}

TEST(Choice, APlanSaysWhatItRestsOn) {
  Candidate best{config_of(64, false), 2e-5};
  const auto info_of = [](const Candidate& candidate) {
    Kernels kernels({candidate});
    return choose_plan<Gemm>(kernels, {}, {}).value()->info();
  };
  EXPECT_EQ(info_of(best).source, "model");
  EXPECT_EQ(info_of(best).bound, 0);
  best.source = ChoiceSource::nearby;
  best.measured_seconds = 3e-5;
  best.bound = 1.04;
  EXPECT_EQ(info_of(best).source, "nearby");
  EXPECT_EQ(info_of(best).measured_seconds, 3e-5);
  EXPECT_EQ(info_of(best).bound, 1.04);
}

}  // namespace
}  // namespace tilesmith
