// Attention forward: in one call, and in the two steps it is made of.
#include "capi/attention/call.hpp"
#include "capi/repeat.hpp"

namespace tilesmith::capi {
namespace {

struct Attention {
  using Call = tilesmith_attention;
  using Plan = AttentionPlan;
  using Handle = tilesmith_attention_plan;
  static constexpr const char* kName = "attention_fwd";
  static constexpr const char* kPlanFor = "tilesmith_attention_plan_for";

  static Result<const Call*> whole(const Call* call, Call& room) { return whole_call(call, room); }
  static Result<AttentionProblem> problem_of(const Call& call, Device device) { return capi::problem_of(call, device); }
  static Result<AttentionArguments> arguments_of(const Call& call, Device device) {
    return capi::arguments_of(call, device);
  }
  /// A plan that expects less of the pointers serves more.
  static void widen(AttentionProblem& problem, const AttentionProblem& of_plan) {
    problem.unaligned_bias |= of_plan.unaligned_bias;
    problem.unaligned |= of_plan.unaligned;
  }
};

}  // namespace

const Repeat repeat_attention = repeat_of<Attention>();

}  // namespace tilesmith::capi

using namespace tilesmith;

tilesmith_status tilesmith_attention_dense(tilesmith_attention* call, int32_t layout) {
  return capi::guarded([&]() -> Status {
    tilesmith_attention room;
    TS_ASSIGN(const tilesmith_attention* given, capi::Attention::whole(call, room));
    TS_ASSIGN(const AttentionLayout order, capi::layout_of(layout));
    TS_ASSIGN(const AttentionProblem problem, capi::problem_of(*given, Device{}));
    TS_TRY(validate(problem));
    const AttentionArguments dense = dense_arguments(problem, order, call->total_q, call->total_k);
    call->q_strides = capi::in_c(dense.q_strides);
    call->k_strides = capi::in_c(dense.k_strides);
    call->v_strides = capi::in_c(dense.v_strides);
    call->o_strides = capi::in_c(dense.o_strides);
    call->lse_strides = capi::in_c(dense.lse_strides);
    call->bias_strides = capi::in_c(dense.bias_strides);
    call->scale = dense.scale;
    return {};
  });
}

tilesmith_status tilesmith_attention_forward(tilesmith_context* context, const tilesmith_attention* call) {
  return capi::compute<capi::Attention>(context, call);
}

tilesmith_status tilesmith_attention_plan_for(tilesmith_context* context, const tilesmith_attention* call,
                                              const tilesmith_attention_plan** out) {
  return capi::plan_for<capi::Attention>(context, call, out);
}

tilesmith_status tilesmith_attention_run(const tilesmith_attention_plan* plan, const tilesmith_attention* call) {
  return capi::run<capi::Attention>(plan, call);
}

tilesmith_status tilesmith_attention_candidates(tilesmith_context* context, const tilesmith_attention* call,
                                                tilesmith_candidates* out) {
  return capi::candidates<capi::Attention>(context, call, out);
}

tilesmith_status tilesmith_attention_plan_info(const tilesmith_attention_plan* plan, tilesmith_plan_info* out) {
  return capi::plan_facts<capi::Attention>(plan, out);
}
