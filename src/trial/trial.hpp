// Trial: a kernel on one case and device. Is it right, and how long does it take? `run` and a sweep ask this.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "trial/case.hpp"
#include "trial/device.hpp"
#include "trial/host_outputs.hpp"
#include "trial/report.hpp"
#include "verify/guarded_outputs.hpp"

namespace tilesmith {

/// Whether a verified run looks at its inputs: on a device they all travel back.
enum class InputCheck : std::uint8_t { compared, trusted };

struct VerifiedRun {
  Verdict verdict;
  HostOutputs outputs;  ///< what was judged, bit for bit; zeros where the call writes nothing
};

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
    TS_TRY(device_->run(memory, plan.workspace_bytes(), binder(plan)));
    return outputs;
  }

  /// Runs once on poisoned outputs between red zones (and, on a CPU, in a poisoned workspace), judges the result, and
  /// looks whether the inputs are as they were before the trial's first verified run. `reference` must have been made
  /// before any kernel ran on the case. `inputs` may be trusted to stay as they are.
  [[nodiscard]] Result<VerifiedRun> run_verified(const Plan& plan, const Reference& reference,
                                                 InputCheck inputs = InputCheck::compared) {
    VerifiedRun done{.verdict = {}, .outputs = HostOutputs(case_->outputs())};
    TS_ASSIGN(done.verdict, verify(plan, reference, inputs, &done.outputs));
    return done;
  }
  /// The same; what was judged is given where it is asked for.
  [[nodiscard]] Result<Verdict> verify(const Plan& plan, const Reference& reference,
                                       InputCheck inputs = InputCheck::compared, HostOutputs* judged = nullptr) {
    const std::vector<OutputSpec> outputs = case_->guarded_outputs(device_->kind());
    if (inputs == InputCheck::compared) TS_TRY(device_->keep_inputs());
    const auto run_on = [&](std::span<GuardedBuffer> buffers) -> Status {
      std::vector<OutputMemory> memory;
      for (std::size_t i = 0; i < outputs.size(); ++i)
        memory.push_back({.spec = &outputs[i], .storage = buffers[i].storage(), .offset = buffers[i].offset()});
      TS_TRY(device_->run(memory, plan.workspace_bytes(), binder(plan)));
      if (judged != nullptr)
        for (std::size_t i = 0; i < outputs.size(); ++i)
          copy_written(outputs[i], buffers[i].data(), judged->specs()[i], judged->memory(i).data());
      return {};
    };
    TS_ASSIGN(Verdict verdict, verify_guarded(outputs, reference, run_on));
    if (inputs == InputCheck::compared) TS_TRY(judge_inputs(verdict));
    return verdict;
  }

  [[nodiscard]] Result<TrialTiming> time(const Plan& plan, const MeasureOptions& options) {
    TS_ASSIGN(const Timing timing, device_->time(case_->outputs(), binder(plan), options));
    return trial_timing(timing, case_->flops(), case_->bytes());
  }

 private:
  /// A call that writes what it should only read spoils every later result, its own included.
  [[nodiscard]] Status judge_inputs(Verdict& verdict) {
    TS_ASSIGN(const std::optional<ChangedInput> changed, device_->changed_input());
    if (!changed) return {};
    verdict.tensor = changed->name;
    fails(verdict, Check::guards,
          "the call changed its input " + changed->name + " at byte " + std::to_string(changed->byte));
    return {};
  }

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
