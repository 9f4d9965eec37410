#include "capi/last_plan.hpp"

#include "capi/last_error.hpp"
#include "capi/sized_struct.hpp"

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

Status write_plan(const Plan& plan, const char* operation, tilesmith_plan_info* out) {
  thread_local std::vector<tilesmith_plan_stage> stages;
  stages.clear();
  for (const PlanStage& stage : plan.stages()) stages.push_back({stage.kernel.c_str(), stage.stage.c_str()});
  // kernel_name() and reason() are views of whole strings, which end with a zero.
  return write_struct(
      "tilesmith_plan_info", out,
      {sizeof *out, device_in_c(plan.device()), operation, plan.kernel_name().data(), plan.reason().data(),
       stages.data(), static_cast<int64_t>(stages.size()), plan.workspace_bytes()});
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
