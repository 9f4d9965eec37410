#include "trial/attention/cuda.hpp"

#include <array>

namespace tilesmith {

Result<std::unique_ptr<Trial>> CudaTrial::create(const AttentionCase& problem_case, int device_index) {
  TS_ASSIGN(const CudaContext* context, CudaContext::of(device_index));
  const CudaCurrent current(*context);
  TS_TRY(current.status());
  TS_ASSIGN(CudaBench bench, CudaBench::create(*context, problem_case.inputs()));
  return std::unique_ptr<Trial>(new CudaTrial(problem_case, std::move(bench)));
}

AttentionArguments CudaTrial::arguments() const {
  AttentionOutputs none;
  AttentionArguments a = case_.arguments(none);
  bench_.move(a.q);
  bench_.move(a.k);
  bench_.move(a.v);
  bench_.move(a.bias);
  bench_.move(a.alibi);
  bench_.move(a.sink);
  bench_.move(a.cu_seqlens_q);
  bench_.move(a.cu_seqlens_k);
  bench_.move(a.q_scale.data);
  bench_.move(a.k_scale.data);
  bench_.move(a.v_scale.data);
  return a;
}

Status CudaTrial::run(const AttentionPlan& plan, AttentionOutputs& outputs) {
  const CudaCurrent current(bench_.context());
  TS_TRY(current.status());
  TS_ASSIGN(const CudaBuffer o, bench_.allocate(outputs.o.bytes()));
  TS_ASSIGN(const CudaBuffer lse, bench_.allocate(outputs.lse.size() * sizeof(float)));
  AttentionArguments a = arguments();
  a.o = o.data();
  a.lse = static_cast<float*>(lse.data());
  TS_TRY(plan.run(a, {.stream = bench_.stream()}));
  TS_TRY(copy_to_host(bench_.context(), outputs.o.data(), o.data(), o.bytes(), bench_.stream()));
  TS_TRY(copy_to_host(bench_.context(), outputs.lse.data(), lse.data(), lse.bytes(), bench_.stream()));
  return bench_.synchronize();
}

Result<Verdict> CudaTrial::verify(const AttentionPlan& plan, const AttentionReference& reference) {
  const CudaCurrent current(bench_.context());
  TS_TRY(current.status());
  return verify_guarded(case_, reference, [&](GuardedBuffer& o, GuardedBuffer& lse) -> Status {
    return bench_.run_guarded(std::array{&o, &lse}, [&](std::span<std::byte* const> tensors) {
      AttentionArguments a = arguments();
      a.o = tensors[0];
      a.lse = case_.problem().lse ? reinterpret_cast<float*>(tensors[1]) : nullptr;
      return plan.run(a, {.stream = bench_.stream()});
    });
  });
}

Result<TrialTiming> CudaTrial::time(const AttentionPlan& plan, const MeasureOptions& options) {
  const CudaCurrent current(bench_.context());
  TS_TRY(current.status());
  const AttentionOutputs sizes = case_.make_outputs();
  TS_ASSIGN(const CudaBuffer o, bench_.allocate(sizes.o.bytes()));
  TS_ASSIGN(const CudaBuffer lse, bench_.allocate(sizes.lse.size() * sizeof(float)));
  AttentionArguments a = arguments();
  a.o = o.data();
  a.lse = static_cast<float*>(lse.data());
  TS_ASSIGN(const Timing timing, bench_.time([&] { return plan.run(a, {.stream = bench_.stream()}); }, options));
  return trial_timing(timing, case_.flops(), case_.bytes());
}

}  // namespace tilesmith
