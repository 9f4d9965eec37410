// A pipeline's convolution kernels on every level that the machine has, beside float64 and on several threads.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "choose/conv/cpu.hpp"
#include "dispatch/test_store.hpp"
#include "instances/conv/cpu.hpp"
#include "runtime/cpu/machine.hpp"
#include "trial/conv/case.hpp"
#include "trial/trial.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith::testing {

/// The names of the pipeline's kernels that compute a problem.
inline std::vector<std::string> conv_kernels_of(Pipeline pipeline, const ConvProblem& problem) {
  std::vector<std::string> names;
  const auto& machine = this_cpu_machine();
  EXPECT_TRUE(machine);
  for (const CpuSpec& spec : machine->levels)
    enumerate_cpu_conv(spec, problem.direction, problem.data_type, [&](const KernelConfig& config) {
      if (config.algorithm.pipeline == pipeline && serves(*machine, config, problem))
        names.push_back(native_name(config));
      return true;
    });
  return names;
}

/// Each kernel passes beside float64, with the same bits on one thread and on three.
inline void expect_agreement(const ConvCase& conv, const std::vector<std::string>& kernels) {
  const auto reference = conv.reference(1);
  ASSERT_TRUE(reference) << reference.error().text();
  EXPECT_FALSE(kernels.empty());
  for (const std::string& kernel : kernels) {
    std::vector<float> first;
    for (const int threads : {1, 3}) {
      Dispatcher dispatcher({.threads = threads, .kernel = kernel});
      const auto plan = dispatcher.plan(conv.problem());
      ASSERT_TRUE(plan) << plan.error().text();
      auto trial = Trial<Conv>::create(conv, Device{});
      const auto verdict = trial->verify(**plan, **reference);
      ASSERT_TRUE(verdict) << verdict.error().text();
      EXPECT_EQ(verdict->outcome, Outcome::pass) << kernel << ": " << verdict->reason;
      const std::vector<float> result = trial->run(**plan)->array("out").to_floats();
      if (threads == 1) first = result;
      EXPECT_EQ(result, first) << kernel << " on " << threads << " threads";
    }
  }
}

}  // namespace tilesmith::testing
