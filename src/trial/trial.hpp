// Trial: a kernel on one case and device. Is it right, and how long does it take? `run` and a sweep ask this.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "trial/case.hpp"
#include "trial/device.hpp"
#include "trial/host_outputs.hpp"
#include "trial/report.hpp"
#include "verify/guarded_outputs.hpp"

namespace tilesmith {

/// A case of the operation `Op` on a device. The case must outlive the trial.
template <class Op>
class Trial {
 public:
  using Plan = typename Case<Op>::Plan;

  /// Errors: those of open_trial_device.
  [[nodiscard]] static Result<Trial> create(const Case<Op>& problem_case, Device device) {
    TS_ASSIGN(std::unique_ptr<TrialDevice> memory, open_trial_device(device, problem_case.inputs()));
    return Trial(problem_case, std::move(memory));
  }

  /// Runs once and brings the outputs back.
  [[nodiscard]] Result<HostOutputs> run(const Plan& plan) {
    HostOutputs outputs(case_->outputs());
    std::vector<OutputMemory> memory;
    for (std::size_t i = 0; i < outputs.specs().size(); ++i)
      memory.push_back({.spec = &outputs.specs()[i], .storage = outputs.memory(i)});
    TS_TRY(device_->run(memory, binder(plan)));
    return outputs;
  }

  /// Runs once on poisoned outputs between red zones and judges the result.
  [[nodiscard]] Result<Verdict> verify(const Plan& plan, const Reference& reference) {
    const std::vector<OutputSpec> outputs = case_->guarded_outputs(device_->kind());
    return verify_guarded(outputs, reference, [&](std::span<GuardedBuffer> buffers) {
      std::vector<OutputMemory> memory;
      for (std::size_t i = 0; i < outputs.size(); ++i)
        memory.push_back({.spec = &outputs[i], .storage = buffers[i].storage(), .offset = buffers[i].offset()});
      return device_->run(memory, binder(plan));
    });
  }

  [[nodiscard]] Result<TrialTiming> time(const Plan& plan, const MeasureOptions& options) {
    TS_ASSIGN(const Timing timing, device_->time(case_->outputs(), binder(plan), options));
    return trial_timing(timing, case_->flops(), case_->bytes());
  }

 private:
  Trial(const Case<Op>& problem_case, std::unique_ptr<TrialDevice> device)
      : case_(&problem_case), device_(std::move(device)) {}

  [[nodiscard]] auto binder(const Plan& plan) const {
    return [this, &plan](const CallMemory& memory, const RunOptions& options) -> ReadyCall {
      return [&plan, arguments = case_->arguments(memory), options] { return plan.run(arguments, options); };
    };
  }

  const Case<Op>* case_;
  std::unique_ptr<TrialDevice> device_;
};

template <class Op>
[[nodiscard]] Result<Trial<Op>> make_trial(const Case<Op>& problem_case, Device device) {
  return Trial<Op>::create(problem_case, device);
}

}  // namespace tilesmith
