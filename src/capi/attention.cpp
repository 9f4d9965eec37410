// Attention forward: in one call, and in the two steps it is made of.
#include <fmt/format.h>

#include <cstddef>

#include "capi/attention_call.hpp"
#include "capi/context.hpp"
#include "capi/last_error.hpp"
#include "capi/last_plan.hpp"
#include "capi/sized_struct.hpp"

namespace tilesmith::capi {
namespace {

constexpr const char* kOperation = "attention_fwd";

Result<const AttentionPlan*> plan_of(tilesmith_context& context, const tilesmith_attention& call) {
  TS_ASSIGN(const Device device, device_from_c(call.device, context.device()));
  TS_ASSIGN(const AttentionProblem problem, problem_of(call, device));
  return context.dispatcher(device).plan(problem);
}

Status run(const tilesmith_context& context, const AttentionPlan& plan, const tilesmith_attention& call) {
  TS_ASSIGN(const RunOptions options, options_of(call, plan));
  TS_ASSIGN(const AttentionArguments arguments, arguments_of(call, plan.device()));
  TS_TRY(plan.run(arguments, options));
  remember(context, plan, kOperation);
  return {};
}

/// `room` takes the copy of a call from a program of before the scales were added.
Result<const tilesmith_attention*> whole(const tilesmith_attention* call, tilesmith_attention& room) {
  return read_struct("tilesmith_attention", call, offsetof(tilesmith_attention, q_scale), room);
}

}  // namespace
}  // namespace tilesmith::capi

using namespace tilesmith;

tilesmith_status tilesmith_attention_dense(tilesmith_attention* call, int32_t layout) {
  return capi::guarded([&]() -> Status {
    tilesmith_attention room;
    TS_ASSIGN(const tilesmith_attention* given, capi::whole(call, room));
    if (layout != TILESMITH_BHSD && layout != TILESMITH_BSHD)
      return fail(ErrorCode::invalid_argument, fmt::format("layout is {}", layout), "a tilesmith_layout");
    TS_ASSIGN(const AttentionProblem problem, capi::problem_of(*given, Device{}));
    TS_TRY(validate(problem));
    const AttentionArguments dense =
        dense_arguments(problem, layout == TILESMITH_BHSD ? AttentionLayout::bhsd : AttentionLayout::bshd,
                        call->total_q, call->total_k);
    const auto in_c = [](const AttentionStrides& s) { return tilesmith_strides{s.batch, s.head, s.row}; };
    call->q_strides = in_c(dense.q_strides);
    call->k_strides = in_c(dense.k_strides);
    call->v_strides = in_c(dense.v_strides);
    call->o_strides = in_c(dense.o_strides);
    call->lse_strides = in_c(dense.lse_strides);
    call->bias_strides = {dense.bias_strides.batch, dense.bias_strides.head, dense.bias_strides.row,
                          dense.bias_strides.column};
    call->scale = dense.scale;
    return {};
  });
}

tilesmith_status tilesmith_attention_forward(tilesmith_context* context, const tilesmith_attention* given) {
  return capi::guarded([&]() -> Status {
    tilesmith_attention room;
    TS_ASSIGN(const tilesmith_attention* call, capi::whole(given, room));
    tilesmith_context& in = capi::context_or_default(context);
    TS_ASSIGN(const AttentionPlan* plan, capi::plan_of(in, *call));
    return capi::run(in, *plan, *call);
  });
}

tilesmith_status tilesmith_attention_plan_for(tilesmith_context* context, const tilesmith_attention* given,
                                              const tilesmith_attention_plan** out) {
  return capi::guarded([&]() -> Status {
    if (out == nullptr) return fail(ErrorCode::invalid_argument, "out is null", "a place for the plan");
    *out = nullptr;
    tilesmith_attention room;
    TS_ASSIGN(const tilesmith_attention* call, capi::whole(given, room));
    tilesmith_context& in = capi::context_or_default(context);
    TS_ASSIGN(const AttentionPlan* plan, capi::plan_of(in, *call));
    *out = &in.handle(*plan);
    return {};
  });
}

tilesmith_status tilesmith_attention_run(const tilesmith_attention_plan* handle, const tilesmith_attention* given) {
  return capi::guarded([&]() -> Status {
    if (handle == nullptr) return fail(ErrorCode::invalid_argument, "the plan is null", "tilesmith_attention_plan_for");
    tilesmith_attention room;
    TS_ASSIGN(const tilesmith_attention* call, capi::whole(given, room));
    const AttentionPlan& plan = *handle->plan;
    TS_ASSIGN(const Device device, capi::device_from_c(call->device, plan.device()));
    if (device != plan.device())
      return fail(ErrorCode::invalid_argument,
                  fmt::format("the call is for {}, the plan for {}", to_string(device), to_string(plan.device())));
    TS_ASSIGN(AttentionProblem problem, capi::problem_of(*call, device));
    problem.unaligned_bias |= plan.problem().unaligned_bias;
    problem.unaligned |= plan.problem().unaligned;  // a plan that expects less of the pointers serves more
    if (problem != plan.problem())
      return fail(ErrorCode::invalid_argument, "the call's problem is not the plan's",
                  "a plan for this problem, or tilesmith_attention_forward, which finds it");
    return capi::run(*handle->context, plan, *call);
  });
}

tilesmith_status tilesmith_attention_plan_facts(const tilesmith_attention_plan* handle, tilesmith_plan_info* out) {
  return capi::guarded([&]() -> Status {
    if (handle == nullptr) return fail(ErrorCode::invalid_argument, "the plan is null", "tilesmith_attention_plan_for");
    return capi::write_plan(*handle->plan, capi::kOperation, out);
  });
}
