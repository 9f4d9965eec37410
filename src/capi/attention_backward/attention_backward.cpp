// Attention backward: in one call, and in the two steps it is made of.
#include "capi/attention/call.hpp"
#include "capi/attention_backward/call.hpp"
#include "capi/operation.hpp"
#include "capi/sized_struct.hpp"

namespace tilesmith::capi {
namespace {

struct AttentionBackward {
  using Call = tilesmith_attention_gradients;
  using Plan = AttentionBackwardPlan;
  using Handle = tilesmith_attention_backward_plan;
  static constexpr const char* kName = "attention_bwd";
  static constexpr const char* kPlanFor = "tilesmith_attention_backward_plan_for";

  static Result<const Call*> whole(const Call* call, Call& room) {
    return read_struct("tilesmith_attention_gradients", call, {}, room);
  }
  static Result<AttentionBackwardProblem> problem_of(const Call& call, Device device) {
    return capi::problem_of(call, device);
  }
  static Result<AttentionBackwardArguments> arguments_of(const Call& call, Device device) {
    return capi::arguments_of(call, device);
  }
  /// A plan that expects less of the pointers serves more.
  static void widen(AttentionBackwardProblem& problem, const AttentionBackwardProblem& of_plan) {
    problem.unaligned_bias |= of_plan.unaligned_bias;
    problem.unaligned |= of_plan.unaligned;
  }
};

}  // namespace
}  // namespace tilesmith::capi

using namespace tilesmith;

tilesmith_status tilesmith_attention_backward_dense(tilesmith_attention_gradients* call, int32_t layout) {
  return capi::guarded([&]() -> Status {
    tilesmith_attention_gradients room;
    TS_ASSIGN(const tilesmith_attention_gradients* given, capi::AttentionBackward::whole(call, room));
    TS_ASSIGN(const AttentionLayout order, capi::layout_of(layout));
    TS_ASSIGN(const AttentionBackwardProblem problem, capi::problem_of(*given, Device{}));
    TS_TRY(validate(problem));
    const AttentionBackwardArguments dense =
        dense_arguments(problem, order, given->forward->total_q, given->forward->total_k);
    call->dout_strides = capi::in_c(dense.dout_strides);
    call->dlse_strides = capi::in_c(dense.dlse_strides);
    call->dq_strides = capi::in_c(dense.dq_strides);
    call->dk_strides = capi::in_c(dense.dk_strides);
    call->dv_strides = capi::in_c(dense.dv_strides);
    call->dbias_strides = capi::in_c(dense.dbias_strides);
    return {};
  });
}

tilesmith_status tilesmith_attention_backward(tilesmith_context* context, const tilesmith_attention_gradients* call) {
  return capi::compute<capi::AttentionBackward>(context, call);
}

tilesmith_status tilesmith_attention_backward_plan_for(tilesmith_context* context,
                                                       const tilesmith_attention_gradients* call,
                                                       const tilesmith_attention_backward_plan** out) {
  return capi::plan_for<capi::AttentionBackward>(context, call, out);
}

tilesmith_status tilesmith_attention_backward_run(const tilesmith_attention_backward_plan* plan,
                                                  const tilesmith_attention_gradients* call) {
  return capi::run<capi::AttentionBackward>(plan, call);
}

tilesmith_status tilesmith_attention_backward_candidates(tilesmith_context* context,
                                                         const tilesmith_attention_gradients* call,
                                                         tilesmith_candidates* out) {
  return capi::candidates<capi::AttentionBackward>(context, call, out);
}

tilesmith_status tilesmith_attention_backward_plan_info(const tilesmith_attention_backward_plan* plan,
                                                        tilesmith_plan_info* out) {
  return capi::plan_facts<capi::AttentionBackward>(plan, out);
}
