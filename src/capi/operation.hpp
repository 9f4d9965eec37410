// The functions of an operation (a call in one step, its plan, a run of the plan, the plan's facts, the candidates),
// alike for each.
//
// An operation is a struct of
//   Call, Plan, Handle        the C structure, the C++ plan, what the C plan points to
//   kName, kPlanFor           "gemm", and the C function that plans, for hints
//   whole(call, room)         the caller's structure, checked, with every field the library knows
//   problem_of(call, device)  its problem
//   arguments_of(call, device)
//   widen(problem, plan's)    what a plan serves beyond its own problem
#pragma once

#include <fmt/format.h>

#include "capi/call_checks.hpp"
#include "capi/call_options.hpp"
#include "capi/candidates.hpp"
#include "capi/context.hpp"
#include "capi/last_error.hpp"
#include "capi/last_plan.hpp"

namespace tilesmith::capi {

template <class Op>
Result<const typename Op::Plan*> plan_of(tilesmith_context& context, const typename Op::Call& call) {
  TS_ASSIGN(const Device device, device_from_c(call.device, context.device()));
  TS_ASSIGN(const auto problem, Op::problem_of(call, device));
  if (call.options == nullptr) return context.dispatcher(device).plan(problem);
  TS_ASSIGN(const DispatcherOptions* options, options_of_call(call.options, device));
  return context.dispatcher(device).plan(problem, *options);
}

template <class Op>
Status run_plan(const tilesmith_context& context, const typename Op::Plan& plan, const typename Op::Call& call) {
  TS_ASSIGN(const RunOptions options, options_of(call.stream, call.workspace, call.workspace_bytes, plan));
  TS_ASSIGN(const auto arguments, Op::arguments_of(call, plan.device()));
  TS_TRY(plan.run(arguments, options));
  remember(context, plan, Op::kName);
  return {};
}

template <class Op>
tilesmith_status compute(tilesmith_context* context, const typename Op::Call* given) noexcept {
  return guarded([&]() -> Status {
    typename Op::Call room;
    TS_ASSIGN(const typename Op::Call* call, Op::whole(given, room));
    tilesmith_context& in = context_or_default(context);
    TS_ASSIGN(const typename Op::Plan* plan, plan_of<Op>(in, *call));
    return run_plan<Op>(in, *plan, *call);
  });
}

template <class Op>
tilesmith_status plan_for(tilesmith_context* context, const typename Op::Call* given,
                          const typename Op::Handle** out) noexcept {
  return guarded([&]() -> Status {
    if (out == nullptr) return fail(ErrorCode::invalid_argument, "out is null", "a place for the plan");
    *out = nullptr;
    typename Op::Call room;
    TS_ASSIGN(const typename Op::Call* call, Op::whole(given, room));
    tilesmith_context& in = context_or_default(context);
    TS_ASSIGN(const typename Op::Plan* plan, plan_of<Op>(in, *call));
    *out = &in.handle(*plan);
    return {};
  });
}

template <class Op>
tilesmith_status run(const typename Op::Handle* handle, const typename Op::Call* given) noexcept {
  return guarded([&]() -> Status {
    if (handle == nullptr) return fail(ErrorCode::invalid_argument, "the plan is null", Op::kPlanFor);
    typename Op::Call room;
    TS_ASSIGN(const typename Op::Call* call, Op::whole(given, room));
    const typename Op::Plan& plan = *handle->plan;
    TS_ASSIGN(const Device device, device_from_c(call->device, plan.device()));
    if (device != plan.device())
      return fail(ErrorCode::invalid_argument,
                  fmt::format("the call is for {}, the plan for {}", to_string(device), to_string(plan.device())));
    TS_ASSIGN(auto problem, Op::problem_of(*call, device));
    Op::widen(problem, plan.problem());
    if (problem != plan.problem())
      return fail(ErrorCode::invalid_argument, "the call's problem is not the plan's",
                  fmt::format("a plan for this problem, from {}", Op::kPlanFor));
    return run_plan<Op>(*handle->context, plan, *call);
  });
}

template <class Op>
tilesmith_status plan_facts(const typename Op::Handle* handle, tilesmith_plan_info* out) noexcept {
  return guarded([&]() -> Status {
    if (handle == nullptr) return fail(ErrorCode::invalid_argument, "the plan is null", Op::kPlanFor);
    return write_plan(*handle->plan, Op::kName, out);
  });
}

template <class Op>
tilesmith_status candidates(tilesmith_context* context, const typename Op::Call* given,
                            tilesmith_candidates* out) noexcept {
  return guarded([&]() -> Status {
    typename Op::Call room;
    TS_ASSIGN(const typename Op::Call* call, Op::whole(given, room));
    tilesmith_context& in = context_or_default(context);
    TS_ASSIGN(const Device device, device_from_c(call->device, in.device()));
    TS_ASSIGN(const auto problem, Op::problem_of(*call, device));
    Dispatcher& dispatcher = in.dispatcher(device);
    const DispatcherOptions* options = &dispatcher.options();
    if (call->options != nullptr) {
      TS_ASSIGN(options, options_of_call(call->options, device));
    }
    TS_ASSIGN(ChoiceInfo info, dispatcher.candidates(problem, *options));
    return write_candidates(std::move(info), out);
  });
}

}  // namespace tilesmith::capi
