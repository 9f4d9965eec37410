#include "bench/gemm_trial.hpp"

#include <fmt/format.h>

#include "dispatch/gemm_problem.hpp"
#include "verify/guarded_buffer.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kGap = 5;  // elements between the rows of a guarded output

class CpuGemmTrial final : public GemmTrial {
 public:
  explicit CpuGemmTrial(const GemmCase& problem_case) : case_(problem_case) {}

  [[nodiscard]] Status run(const GemmPlan& plan, GemmOutputs& outputs) override {
    outputs.amax = 0;
    return plan.run(case_.arguments(outputs));
  }

  [[nodiscard]] Result<Verdict> verify(const GemmPlan& plan, const GemmExpectation& expectation) override {
    const GemmProblem& p = case_.problem();
    const std::int64_t leading = p.columns_of_d() + kGap;
    const TensorStrides strides{.batch = p.m * leading + kGap, .row = leading, .column = 1};
    GuardedBuffer d(case_.output_type(), {p.batch, 1, p.m, p.columns_of_d()}, strides);
    GemmOutputs outputs;
    GemmArguments arguments = case_.arguments(outputs);
    arguments.d = d.data();
    arguments.d_leading = strides.row;
    arguments.d_batch = strides.batch;
    TS_TRY(plan.run(arguments));
    if (const auto damage = d.damage()) {
      Verdict verdict;
      fails(verdict, Check::guards, fmt::format("d: {}", *damage));
      return verdict;
    }
    const std::vector<double> output = read_output(case_.tensors(), d.view());
    if (!case_.wants_amax()) return expectation.judge(output);
    return expectation.judge(output, outputs.amax);
  }

  [[nodiscard]] Result<TrialTiming> time(const GemmPlan& plan, const MeasureOptions& options) override {
    GemmOutputs outputs = case_.make_outputs();
    const GemmArguments arguments = case_.arguments(outputs);
    Status status;
    const Timing timing = measure(
        [&] {
          if (status) status = plan.run(arguments);
        },
        case_.touched(outputs), options);
    if (!status) return std::unexpected(status.error());
    return trial_timing(timing, flops_of(case_.problem()), bytes_of(case_.problem()));
  }

 private:
  const GemmCase& case_;
};

}  // namespace

Result<std::unique_ptr<GemmTrial>> make_trial(const GemmCase& problem_case, Device device) {
  if (device.kind == DeviceKind::cpu) return std::make_unique<CpuGemmTrial>(problem_case);
  return fail(ErrorCode::unsupported, fmt::format("GEMM does not run on {}", to_string(device)), "cpu");
}

}  // namespace tilesmith
