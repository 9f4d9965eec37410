// GEMM: in one call, and in the two steps it is made of.
#include "capi/gemm_call.hpp"
#include "capi/operation.hpp"

namespace tilesmith::capi {
namespace {

struct Gemm {
  using Call = tilesmith_gemm;
  using Plan = GemmPlan;
  using Handle = tilesmith_gemm_plan;
  static constexpr const char* kName = "gemm";
  static constexpr const char* kPlanFor = "tilesmith_gemm_plan_for";

  static Result<const Call*> whole(const Call* call, Call& room) { return whole_call(call, room); }
  static Result<GemmProblem> problem_of(const Call& call, Device device) { return capi::problem_of(call, device); }
  static Result<GemmArguments> arguments_of(const Call& call, Device) { return capi::arguments_of(call); }
  /// A plan that expects less of the pointers serves more.
  static void widen(GemmProblem& problem, const GemmProblem& of_plan) { problem.unaligned |= of_plan.unaligned; }
};

}  // namespace
}  // namespace tilesmith::capi

using namespace tilesmith;

tilesmith_status tilesmith_gemm_dense(tilesmith_gemm* call) {
  return capi::guarded([&]() -> Status {
    tilesmith_gemm room;
    TS_ASSIGN(const tilesmith_gemm* given, capi::Gemm::whole(call, room));
    TS_ASSIGN(const GemmProblem problem, capi::problem_of(*given, Device{}));
    TS_TRY(validate(problem));
    const GemmArguments dense = dense_arguments(problem);
    const auto fill = [](tilesmith_matrix& matrix, const GemmOperand& operand) {
      matrix.leading = operand.leading;
      matrix.batch = operand.batch;
    };
    fill(call->a, dense.a);
    fill(call->b, dense.b);
    fill(call->c, dense.c);
    call->d_leading = dense.d_leading;
    call->d_batch = dense.d_batch;
    for (std::size_t i = 0; i < problem.epilogue.size(); ++i) {
      call->epilogue[i].leading = dense.epilogue[i].leading;
      call->epilogue[i].batch = dense.epilogue[i].batch;
    }
    const auto has = [&](std::size_t end) {
      return call->struct_size >= end;
    };  // what lies behind is not the library's
    if (!has(offsetof(tilesmith_gemm, group_ends))) return {};
    const auto fill_scale = [](tilesmith_block_scale& scale, const GemmScales& scales) {
      scale.row = scales.row;
      scale.block = scales.block;
      scale.batch = scales.batch;
    };
    fill_scale(call->scale_a, dense.scale_a);
    fill_scale(call->scale_b, dense.scale_b);
    if (!has(sizeof(tilesmith_gemm))) return {};
    fill(call->a2, dense.a2);
    fill(call->b2, dense.b2);
    return {};
  });
}

tilesmith_status tilesmith_gemm_compute(tilesmith_context* context, const tilesmith_gemm* call) {
  return capi::compute<capi::Gemm>(context, call);
}

tilesmith_status tilesmith_gemm_plan_for(tilesmith_context* context, const tilesmith_gemm* call,
                                         const tilesmith_gemm_plan** out) {
  return capi::plan_for<capi::Gemm>(context, call, out);
}

tilesmith_status tilesmith_gemm_run(const tilesmith_gemm_plan* plan, const tilesmith_gemm* call) {
  return capi::run<capi::Gemm>(plan, call);
}

tilesmith_status tilesmith_gemm_plan_facts(const tilesmith_gemm_plan* plan, tilesmith_plan_info* out) {
  return capi::plan_facts<capi::Gemm>(plan, out);
}
