#include "dispatch/gemm/cuda.hpp"

#include "codegen/copy/cuda.hpp"
#include "dispatch/gemm/cuda_plan.hpp"
#include "dispatch/gemm/transpose.hpp"
#include "dispatch/plan_info.hpp"
#include "runtime/cuda/stream.hpp"

namespace tilesmith {
namespace {

constexpr std::size_t kZeroBytes = 16;

bool may_share(const KernelConfig& config) {
  return config.algorithm.split_k || config.algorithm.stream_k;
}

}  // namespace

Result<Ranking> CudaGemm::rank(const GemmProblem& problem) const {
  return tilesmith::rank(spec_, problem, &kept_);
}

Result<std::vector<Refusal>> CudaGemm::refusals(const GemmProblem& problem) const {
  return tilesmith::refusals(spec_, problem);
}

Status CudaGemm::check(const Recipe& recipe, const GemmProblem& problem) const {
  TS_TRY(check_one_step(recipe));
  return serves(spec_, recipe.main(), problem);
}

Result<const void*> CudaGemm::zeros(const CudaContext& context) {
  const std::lock_guard lock(mutex_);
  if (zeros_.data() == nullptr) {
    const CudaCurrent current(context);
    TS_TRY(current.status());
    const CudaCaptureRelaxed relaxed(context.driver());
    TS_ASSIGN(CudaBuffer memory, CudaBuffer::allocate(context, kZeroBytes));
    TS_ASSIGN(const CudaStream stream, CudaStream::create(context));
    TS_TRY(fill_bytes(context, memory.data(), 0, kZeroBytes, stream.handle()));
    TS_TRY(stream.synchronize());
    zeros_ = std::move(memory);
  }
  return zeros_.data();
}

Result<std::unique_ptr<GemmPlan>> CudaGemm::plan(const GemmProblem& problem, const Candidate& chosen,
                                                 std::string reason, BuildPolicy build) {
  return plan_with_row_d(problem,
                         [&](const GemmProblem& row_d) { return plan_row_d(row_d, chosen, std::move(reason), build); });
}

Result<std::unique_ptr<GemmPlan>> CudaGemm::plan_row_d(const GemmProblem& problem, const Candidate& chosen,
                                                       std::string reason, BuildPolicy build) {
  const KernelConfig& config = chosen.recipe.main();
  TS_ASSIGN(const CudaContext* context, CudaContext::of(device_index_));
  TS_ASSIGN(CudaSteps steps, CudaSteps::load(chosen.recipe, [&](const KernelConfig& step, std::size_t) {
              return registry_.find(*context, step, static_cast<std::size_t>(cuda_gemm_resources(step).shared_bytes),
                                    build);
            }));
  TS_ASSIGN(const void* zero, zeros(*context));
  std::optional<CudaKernel> pad;
  if (cuda_gemm_pads(config, cuda_gemm_shape(problem))) {
    TS_ASSIGN(const Source source, cuda_pad_rows_source(spec_));
    TS_ASSIGN(pad, registry_.find(*context, source, build));
  }
  CudaSplitMemory* split_memory = nullptr;
  if (may_share(config) || pad) {
    const std::lock_guard lock(mutex_);
    if (split_memory_ == nullptr) split_memory_ = std::make_unique<CudaSplitMemory>(*context);
    split_memory = split_memory_.get();
  }
  PlanInfo info = plan_info({DeviceKind::cuda, device_index_}, chosen, std::move(reason));
  return CudaGemmPlan::make(problem, std::move(info), config, spec_, std::move(steps), zero, split_memory,
                            std::move(pad));
}

}  // namespace tilesmith
