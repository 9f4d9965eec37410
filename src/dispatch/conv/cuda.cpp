#include "dispatch/conv/cuda.hpp"

#include "choose/conv/cuda_padded.hpp"
#include "dispatch/conv/cuda_gemm_plan.hpp"
#include "dispatch/conv/cuda_halo_data_plan.hpp"
#include "dispatch/conv/cuda_halo_plan.hpp"
#include "dispatch/conv/cuda_padded_plan.hpp"
#include "dispatch/conv/cuda_plan.hpp"
#include "dispatch/conv/cuda_slices_plan.hpp"
#include "dispatch/conv/cuda_window_plan.hpp"
#include "dispatch/plan_info.hpp"
#include "instances/conv/cuda_resources.hpp"

namespace tilesmith {

Result<Ranking> CudaConv::rank(const ConvProblem& problem) const {
  return tilesmith::rank(spec_, problem, {.own = &kept_, .products = &gemm_.kept()});
}

Result<std::vector<Refusal>> CudaConv::refusals(const ConvProblem& problem) const {
  return tilesmith::refusals(spec_, problem);
}

Status CudaConv::check(const Recipe& recipe, const ConvProblem& problem) const {
  if (recipe.steps.size() > 1)
    if (const auto padded = with_filled_channels(problem))
      if (const auto copies = padding_kernel(spec_, problem.data_type);
          copies && recipe == padded_recipe(*copies, recipe.main(), problem, *padded))
        return serves(spec_, recipe.main(), *padded);
  TS_TRY(check_one_step(recipe));
  return serves(spec_, recipe.main(), problem);
}

CudaSplitMemory& CudaConv::split_memory(const CudaContext& context) {
  const std::lock_guard lock(mutex_);
  if (split_memory_ == nullptr) split_memory_ = std::make_unique<CudaSplitMemory>(context);
  return *split_memory_;
}

CudaSplitMemory& CudaConv::padded_memory(const CudaContext& context) {
  const std::lock_guard lock(mutex_);
  if (padded_memory_ == nullptr) padded_memory_ = std::make_unique<CudaSplitMemory>(context);
  return *padded_memory_;
}

Result<std::unique_ptr<ConvPlan>> CudaConv::plan_padded(const ConvProblem& problem, const Candidate& chosen,
                                                        std::string reason, BuildPolicy build) {
  const auto padded = with_filled_channels(problem);
  if (!padded) return fail(ErrorCode::internal, "copies for a convolution whose channels are not filled up");
  TS_ASSIGN(const CudaContext* context, CudaContext::of(device_index_));
  const KernelConfig& copies = chosen.recipe.steps.front().config;
  TS_ASSIGN(CudaSteps steps, CudaSteps::load(copies, [&](const KernelConfig& step, std::size_t) {
              return registry_.find(*context, step, 0, build);
            }));
  TS_ASSIGN(std::unique_ptr<ConvPlan> inner, plan(*padded, {.recipe = chosen.recipe.main()}, reason, build));
  PlanInfo info = plan_info({DeviceKind::cuda, device_index_}, chosen, std::move(reason));
  return CudaPaddedPlan::make(problem, std::move(info), spec_, std::move(steps), cuda_conv_resources(copies).threads,
                              std::move(inner), padded_memory(*context));
}

Result<std::unique_ptr<ConvPlan>> CudaConv::plan(const ConvProblem& problem, const Candidate& chosen,
                                                 std::string reason, BuildPolicy build) {
  if (chosen.recipe.steps.size() > 1) return plan_padded(problem, chosen, std::move(reason), build);
  if (chosen.recipe.main().operation() == Operation::gemm)
    return conv_by_gemm(problem, gemm_, chosen, std::move(reason), build);
  if (const ConvProblem seen = cuda_conv_seen(chosen.recipe.main(), problem); seen != problem) {
    TS_ASSIGN(std::unique_ptr<ConvPlan> images, plan(seen, chosen, std::move(reason), build));
    return conv_by_slices(problem, std::move(images));
  }
  TS_ASSIGN(const CudaContext* context, CudaContext::of(device_index_));
  TS_ASSIGN(CudaSteps steps, CudaSteps::load(chosen.recipe, [&](const KernelConfig& step, std::size_t) {
              return registry_.find(*context, step, static_cast<std::size_t>(cuda_conv_resources(step).shared_bytes),
                                    build);
            }));
  const KernelConfig& config = chosen.recipe.main();
  const Pipeline pipeline = config.algorithm.pipeline;
  const bool halo_weight = pipeline == Pipeline::halo && problem.direction == ConvDirection::backward_weight;
  const bool cuts = config.algorithm.split_k || config.algorithm.stream_k || halo_weight;
  CudaSplitMemory* const memory = cuts ? &split_memory(*context) : nullptr;
  PlanInfo info = plan_info({DeviceKind::cuda, device_index_}, chosen, std::move(reason));
  const auto make = pipeline == Pipeline::warp_specialized ? CudaWindowPlan::make
                    : halo_weight                          ? CudaHaloPlan::make
                    : pipeline == Pipeline::halo           ? CudaHaloDataPlan::make
                                                           : CudaConvPlan::make;
  return make(problem, std::move(info), config, spec_, std::move(steps), memory);
}

}  // namespace tilesmith
