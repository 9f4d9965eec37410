#include "trial/gemm/cuda.hpp"

#include <array>

#include "problem/gemm/problem.hpp"

namespace tilesmith {

Result<std::unique_ptr<GemmTrial>> CudaGemmTrial::create(const GemmCase& problem_case, int device_index) {
  TS_ASSIGN(const CudaContext* context, CudaContext::of(device_index));
  const CudaCurrent current(*context);
  TS_TRY(current.status());
  TS_ASSIGN(CudaBench bench, CudaBench::create(*context, problem_case.inputs()));
  TS_ASSIGN(CudaBuffer amax, bench.allocate(sizeof(float)));
  return std::unique_ptr<GemmTrial>(new CudaGemmTrial(problem_case, std::move(bench), std::move(amax)));
}

Result<GemmArguments> CudaGemmTrial::arguments() const {
  GemmOutputs none;
  GemmArguments a = case_.arguments(none);
  bench_.move(a.a.data);
  bench_.move(a.b.data);
  bench_.move(a.a2.data);
  bench_.move(a.b2.data);
  bench_.move(a.c.data);
  bench_.move(a.scale_a.data);
  bench_.move(a.scale_b.data);
  bench_.move(a.zero_b.data);
  const void* ends = a.group_ends;
  bench_.move(ends);
  a.group_ends = static_cast<const std::int32_t*>(ends);
  for (EpilogueOperand& operand : a.epilogue) bench_.move(operand.data);
  a.amax = static_cast<float*>(amax_.data());
  TS_TRY(fill_bytes(bench_.context(), a.amax, 0, sizeof(float), bench_.stream()));
  return a;
}

Status CudaGemmTrial::run(const GemmPlan& plan, GemmOutputs& outputs) {
  const CudaCurrent current(bench_.context());
  TS_TRY(current.status());
  TS_ASSIGN(const CudaBuffer d, bench_.allocate(outputs.d.bytes()));
  TS_ASSIGN(GemmArguments a, arguments());
  a.d = d.data();
  TS_TRY(plan.run(a, {.stream = bench_.stream()}));
  TS_TRY(copy_to_host(bench_.context(), outputs.d.data(), d.data(), d.bytes(), bench_.stream()));
  TS_TRY(copy_to_host(bench_.context(), &outputs.amax, a.amax, sizeof(float), bench_.stream()));
  return bench_.synchronize();
}

Result<Verdict> CudaGemmTrial::verify(const GemmPlan& plan, const GemmReference& reference) {
  const CudaCurrent current(bench_.context());
  TS_TRY(current.status());
  // Kernels of aligned problems may ask for rows of whole 16 bytes: 16 elements of the smallest type.
  const std::int64_t row_step = case_.problem().unaligned ? 1 : 16;
  return verify_guarded(case_, reference, row_step, [&](GemmArguments a, GuardedBuffer& d, float& amax) -> Status {
    TS_TRY(bench_.run_guarded(std::array{&d}, [&](std::span<std::byte* const> tensors) -> Status {
      TS_ASSIGN(GemmArguments on_device, arguments());
      on_device.d = tensors[0];
      on_device.d_leading = a.d_leading;
      on_device.d_batch = a.d_batch;
      return plan.run(on_device, {.stream = bench_.stream()});
    }));
    TS_TRY(copy_to_host(bench_.context(), &amax, amax_.data(), sizeof(float), bench_.stream()));
    return bench_.synchronize();
  });
}

Result<TrialTiming> CudaGemmTrial::time(const GemmPlan& plan, const MeasureOptions& options) {
  const CudaCurrent current(bench_.context());
  TS_TRY(current.status());
  TS_ASSIGN(const CudaBuffer d, bench_.allocate(case_.make_outputs().d.bytes()));
  TS_ASSIGN(GemmArguments a, arguments());
  a.d = d.data();
  TS_ASSIGN(const Timing timing, bench_.time([&] { return plan.run(a, {.stream = bench_.stream()}); }, options));
  return trial_timing(timing, case_.flops(), bytes_of(case_.problem()));
}

}  // namespace tilesmith
