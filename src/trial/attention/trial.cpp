#include "trial/attention/trial.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "trial/attention/cuda.hpp"

namespace tilesmith {
namespace {

using nlohmann::json;

/// JSON has no infinity or NaN: they become null.
json finite(double value) {
  return std::isfinite(value) ? json(value) : json(nullptr);
}

json to_json(const ErrorFigures& figures) {
  return {{"count", figures.count},
          {"max_abs", finite(figures.max_abs)},
          {"max_rel", finite(figures.max_rel)},
          {"rms", finite(figures.rms)},
          {"mean_abs", finite(figures.mean_abs)},
          {"norm_wise", finite(figures.norm_wise)},
          {"max_ratio_to_naive", finite(figures.max_ratio)},
          {"mean_ratio_to_naive", finite(figures.mean_ratio)}};
}

TensorStrides rank4(const AttentionStrides& s) {
  return {s.batch, s.head, s.row, 1};
}

class CpuTrial final : public Trial {
 public:
  explicit CpuTrial(const AttentionCase& problem_case) : case_(problem_case) {}

  [[nodiscard]] Status run(const AttentionPlan& plan, AttentionOutputs& outputs) override {
    return plan.run(case_.arguments(outputs));
  }

  [[nodiscard]] Result<Verdict> verify(const AttentionPlan& plan, const AttentionReference& reference) override {
    return verify_guarded(case_, reference, [&](GuardedBuffer& o, GuardedBuffer& lse) {
      AttentionOutputs unused;
      AttentionArguments arguments = case_.arguments(unused);
      arguments.o = o.data();
      arguments.lse = case_.problem().lse ? reinterpret_cast<float*>(lse.data()) : nullptr;
      return plan.run(arguments);
    });
  }

  [[nodiscard]] Result<TrialTiming> time(const AttentionPlan& plan, const MeasureOptions& options) override {
    AttentionOutputs outputs = case_.make_outputs();
    const AttentionArguments arguments = case_.arguments(outputs);
    std::vector<MemoryRange> touched = case_.inputs();
    touched.push_back({outputs.o.data(), outputs.o.bytes()});
    Status status;
    const Timing timing = measure(
        [&] {
          if (status) status = plan.run(arguments);
        },
        touched, options);
    if (!status) return std::unexpected(status.error());
    return trial_timing(timing, case_.flops(), case_.bytes());
  }

 private:
  const AttentionCase& case_;
};

}  // namespace

Result<Verdict> verify_guarded(const AttentionCase& problem_case, const AttentionReference& reference,
                               FunctionRef<Status(GuardedBuffer& o, GuardedBuffer& lse)> run) {
  const AttentionProblem& p = problem_case.problem();
  const AttentionTensors tensors = problem_case.tensors();
  AttentionOutputs unused;
  const AttentionArguments arguments = problem_case.arguments(unused);

  const bool group = p.mode == SequenceMode::group;
  const std::int64_t batches = group ? 1 : p.batch;
  const std::int64_t rows = group ? std::int64_t{arguments.cu_seqlens_q[p.batch]} : p.seqlen_q;
  GuardedBuffer o(output_element_type_of(p), {batches, p.heads_q, rows, p.head_dim_v}, rank4(arguments.o_strides));
  GuardedBuffer lse(ElementType::fp32, {batches, p.heads_q, rows, 1}, rank4(arguments.lse_strides));
  TS_TRY(run(o, lse));

  for (const auto& [name, buffer] : {std::pair{"o", &o}, std::pair{"lse", &lse}})
    if (const auto damage = buffer->damage()) {
      Verdict verdict;
      verdict.outcome = Outcome::fail;
      verdict.check = Check::guards;
      verdict.reason = fmt::format("{}: {}", name, *damage);
      return verdict;
    }
  const std::vector<float> output = read_output(tensors, o.view(), p.head_dim_v);
  if (!p.lse) return reference.judge(output);
  return reference.judge(output, read_output(tensors, lse.view(), 1));
}

TrialTiming trial_timing(const Timing& timing, double flops, double bytes) {
  return {.median_s = timing.median(),
          .best_s = timing.best(),
          .spread = timing.spread(),
          .samples = static_cast<int>(timing.samples.size()),
          .flops = flops,
          .bytes = bytes};
}

Result<std::unique_ptr<Trial>> make_trial(const AttentionCase& problem_case, Device device) {
  if (device.kind == DeviceKind::cuda) return CudaTrial::create(problem_case, device.index);
  return std::make_unique<CpuTrial>(problem_case);
}

json to_json(const TrialTiming& timing) {
  return {{"median_ms", timing.median_s * 1e3}, {"best_ms", timing.best_s * 1e3}, {"spread", timing.spread},
          {"samples", timing.samples},          {"gflops", timing.gflops()},      {"gbps", timing.gbps()}};
}

json to_json(const Verdict& verdict) {
  json out = {{"outcome", to_string(verdict.outcome)}, {"output", to_json(verdict.output)}};
  if (!verdict.reason.empty()) out["reason"] = verdict.reason;
  if (verdict.check != Check::none) out["check"] = to_string(verdict.check);
  if (verdict.lse.count > 0) out["lse"] = to_json(verdict.lse);
  return out;
}

}  // namespace tilesmith
