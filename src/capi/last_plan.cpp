#include "capi/last_plan.hpp"

#include <cstddef>

#include "capi/last_error.hpp"
#include "capi/sized_struct.hpp"
#include "problem/line.hpp"

namespace tilesmith::capi {
namespace {

struct LastPlan {
  const Plan* plan = nullptr;
  const char* operation = "";
  std::uint64_t context = 0;
  std::weak_ptr<const void> context_life{};
};
thread_local LastPlan last;

}  // namespace

void remember(const tilesmith_context& context, const Plan& plan, const char* operation) {
  last.plan = &plan;
  last.operation = operation;
  if (last.context == context.id()) return;
  last.context = context.id();
  last.context_life = context.life();
}

std::string problem_line(const Plan& plan) {
  if (const auto* attention = dynamic_cast<const AttentionPlan*>(&plan)) return to_line(attention->problem());
  if (const auto* backward = dynamic_cast<const AttentionBackwardPlan*>(&plan)) return to_line(backward->problem());
  if (const auto* gemm = dynamic_cast<const GemmPlan*>(&plan)) return to_line(gemm->problem());
  if (const auto* conv = dynamic_cast<const ConvPlan*>(&plan)) return to_line(conv->problem());
  return {};
}

Status write_plan(const Plan& plan, const char* operation, tilesmith_plan_info* out) {
  thread_local std::vector<tilesmith_plan_stage> stages;
  thread_local std::vector<tilesmith_plan_step> steps;
  thread_local std::vector<tilesmith_workspace_region> regions;
  thread_local std::string problem;
  stages.clear();
  steps.clear();
  regions.clear();
  for (const PlanStep& step : plan.steps()) {
    stages.push_back({step.kernel.c_str(), step.what.c_str()});
    steps.push_back({step.kernel.c_str(), step.role.c_str(), step.what.c_str()});
  }
  for (const WorkspaceRegion& region : plan.workspace())
    regions.push_back({region.name.c_str(), region.offset, region.bytes, region.library_only ? 1U : 0U});
  problem = problem_line(plan);
  const PlanInfo& info = plan.info();
  return write_struct("tilesmith_plan_info", out,
                      {.struct_size = sizeof *out,
                       .device = device_in_c(info.device),
                       .operation = operation,
                       .kernel = info.recipe.c_str(),
                       .reason = info.reason.c_str(),
                       .stages = stages.data(),
                       .stage_count = static_cast<int64_t>(stages.size()),
                       .workspace_bytes = info.workspace_bytes,
                       .predicted_seconds = info.predicted_seconds,
                       .steps = steps.data(),
                       .step_count = static_cast<int64_t>(steps.size()),
                       .regions = regions.data(),
                       .region_count = static_cast<int64_t>(regions.size()),
                       .source = info.source.c_str(),
                       .measured_seconds = info.measured_seconds,
                       .bound = info.bound,
                       .problem = problem.empty() ? nullptr : problem.c_str()},
                      {offsetof(tilesmith_plan_info, predicted_seconds), offsetof(tilesmith_plan_info, source)});
}

}  // namespace tilesmith::capi

tilesmith_status tilesmith_last_plan(tilesmith_plan_info* out) {
  using namespace tilesmith;
  return capi::guarded([&]() -> Status {
    if (capi::last.plan == nullptr)
      return fail(ErrorCode::not_found, "this thread has run nothing yet",
                  "ask after a call, on the thread that made it");
    if (capi::last.context_life.expired())
      return fail(ErrorCode::not_found, "the context of this thread's last plan was destroyed", "ask before that");
    return capi::write_plan(*capi::last.plan, capi::last.operation, out);
  });
}
