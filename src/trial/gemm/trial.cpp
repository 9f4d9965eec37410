#include "trial/gemm/trial.hpp"

#include <fmt/format.h>

#include <utility>

#include "problem/gemm/problem.hpp"
#include "trial/gemm/cuda.hpp"

namespace tilesmith {
namespace {

class CpuGemmTrial final : public GemmTrial {
 public:
  explicit CpuGemmTrial(const GemmCase& problem_case) : case_(problem_case) {}

  [[nodiscard]] Status run(const GemmPlan& plan, GemmOutputs& outputs) override {
    outputs.amax = 0;
    return plan.run(case_.arguments(outputs));
  }

  [[nodiscard]] Result<Verdict> verify(const GemmPlan& plan, const GemmReference& reference) override {
    return verify_guarded(case_, reference, 1, [&](const GemmArguments& arguments, GuardedBuffer&, float& amax) {
      GemmArguments a = arguments;
      a.amax = &amax;
      return plan.run(a);
    });
  }

  [[nodiscard]] Result<TrialTiming> time(const GemmPlan& plan, const MeasureOptions& options) override {
    GemmOutputs outputs = case_.make_outputs();
    const GemmArguments arguments = case_.arguments(outputs);
    std::vector<MemoryRange> touched = case_.inputs();
    touched.push_back({outputs.d.data(), outputs.d.bytes()});
    Status status;
    const Timing timing = measure(
        [&] {
          if (status) status = plan.run(arguments);
        },
        touched, options);
    if (!status) return std::unexpected(status.error());
    return trial_timing(timing, case_.flops(), bytes_of(case_.problem()));
  }

 private:
  const GemmCase& case_;
};

}  // namespace

Result<Verdict> verify_guarded(const GemmCase& problem_case, const GemmReference& reference, std::int64_t row_step,
                               FunctionRef<Status(const GemmArguments&, GuardedBuffer&, float&)> run) {
  constexpr std::int64_t kGap = 5;  // elements between rows
  const auto with_gap = [&](std::int64_t length) { return (length + kGap + row_step - 1) / row_step * row_step; };
  const GemmProblem& p = problem_case.problem();
  const bool by_rows = p.order_d == MatrixOrder::row;
  const std::int64_t lines = by_rows ? p.m : p.columns_of_d(), length = by_rows ? p.columns_of_d() : p.m;
  const std::int64_t leading = with_gap(length);
  const TensorStrides strides{.batch = with_gap(lines * leading), .row = leading, .column = 1};
  GuardedBuffer d(problem_case.output_type(), {row_members(p), 1, lines, length}, strides);
  GemmOutputs outputs;
  GemmArguments arguments = problem_case.arguments(outputs);
  arguments.d = d.data();
  arguments.d_leading = strides.row;
  arguments.d_batch = strides.batch;
  TS_TRY(run(arguments, d, outputs.amax));
  const GemmTensors tensors = problem_case.tensors();
  if (const auto damage = d.damage(
          [&](std::int64_t matrix, std::int64_t line) { return !by_rows || tensors.is_computed(matrix, line); })) {
    Verdict verdict;
    fails(verdict, Check::guards, fmt::format("d: {}", *damage));
    return verdict;
  }
  TensorView written = d.view();
  if (!by_rows) std::swap(written.strides.row, written.strides.column);
  if (tensors.contiguous) written.strides.batch = 0;
  const std::vector<double> output = read_output(tensors, written);
  if (!problem_case.wants_amax()) return reference.judge(output);
  return reference.judge(output, outputs.amax);
}

Result<std::unique_ptr<GemmTrial>> make_trial(const GemmCase& problem_case, Device device) {
  if (device.kind == DeviceKind::cuda) return CudaGemmTrial::create(problem_case, device.index);
  return std::make_unique<CpuGemmTrial>(problem_case);
}

}  // namespace tilesmith
