// Rows of attention backward whose log-sum-exp has no fraction in float32: they add nothing, as rows that see no key.
#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "trial/attention_backward/case.hpp"
#include "trial/trial.hpp"

namespace tilesmith {

/// A bias (seqlen_q, seqlen_k): of five rows in turn one is of all -1e9, one of all 1e9, one has a single 1e9; these
/// are lost, and -infinity where `hidden`. Of the others one has -1e9 for every third key, one is 0.5 and less.
inline HostArray bias_of_lost_rows(const AttentionBackwardProblem& p, bool hidden) {
  std::vector<float> values(static_cast<std::size_t>(p.seqlen_q * p.seqlen_k));
  for (std::int64_t i = 0; i < p.seqlen_q; ++i) {
    for (std::int64_t j = 0; j < p.seqlen_k; ++j) {
      const float small = 0.5F - 0.25F * static_cast<float>(j % 7);
      const float of_rows[] = {small, -1e9F, j % 3 == 1 ? -1e9F : small, 1e9F, j == 0 ? 1e9F : small};
      const bool lost = i % 5 == 1 || i % 5 >= 3;
      values[static_cast<std::size_t>(i * p.seqlen_k + j)] =
          lost && hidden ? -std::numeric_limits<float>::infinity() : of_rows[i % 5];
    }
  }
  return make_array(ElementType::fp32, {p.seqlen_q, p.seqlen_k}, values);
}

/// The problem's gradients beside such a bias agree with the reference, and bit by bit with those of a bias that hides
/// lost rows. `plan_of`: from a problem to a plan of its.
template <class PlanOf>
void expect_lost_rows_add_nothing(RandomCall<AttentionBwd> call, Device device, const PlanOf& plan_of) {
  call.problem.bias = BiasKind::elementwise;
  std::vector<std::string> names{"dq", "dk", "dv"};
  if (call.problem.dbias) names.push_back("dbias");
  std::vector<std::vector<float>> of_hidden;
  for (const bool hidden : {true, false}) {
    AttentionBackwardInputs inputs;
    inputs.forward.bias = bias_of_lost_rows(call.problem, hidden);
    const auto made = AttentionBackwardCase::create(call, std::move(inputs));
    ASSERT_TRUE(made) << made.error().text();
    const auto plan = plan_of(made->problem());
    ASSERT_TRUE(plan) << plan.error().text();
    auto trial = Trial<AttentionBwd>::create(*made, device);
    ASSERT_TRUE(trial) << trial.error().text();
    const auto verdict = trial->verify(**plan, **made->reference());
    ASSERT_TRUE(verdict) << verdict.error().text();
    EXPECT_EQ(verdict->outcome, Outcome::pass) << verdict->tensor << ": " << verdict->reason;
    const auto outputs = trial->run(**plan);
    ASSERT_TRUE(outputs) << outputs.error().text();
    std::vector<std::vector<float>> got;
    for (const std::string& name : names) got.push_back(outputs->array(name).to_floats());
    if (hidden)
      of_hidden = got;
    else
      EXPECT_EQ(got, of_hidden) << (*plan)->kernel_name();
  }
}

}  // namespace tilesmith
