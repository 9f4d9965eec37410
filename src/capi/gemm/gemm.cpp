// GEMM: in one call, and in the two steps it is made of.
#include "capi/gemm/call.hpp"
#include "capi/packing.hpp"
#include "capi/repeat.hpp"

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
  static void widen(GemmProblem& problem, const GemmProblem& of_plan) {
    problem.unaligned |= of_plan.unaligned;
    problem.prefetch_weights &= of_plan.prefetch_weights;
  }
};

/// What packing B asks for.
struct GemmPacking {
  Dispatcher& dispatcher;
  GemmProblem problem;
  GemmOperand b;

  [[nodiscard]] static Result<GemmPacking> of(tilesmith_context* context, const tilesmith_gemm* given) {
    tilesmith_gemm room;
    TS_ASSIGN(const tilesmith_gemm* call, whole_call(given, room));
    tilesmith_context& in = context_or_default(context);
    TS_ASSIGN(const Device device, device_from_c(call->device, in.device()));
    TS_ASSIGN(const GemmProblem problem, capi::problem_of(*call, device));
    if (problem.packed_b)
      return fail(ErrorCode::invalid_argument, "flags has TILESMITH_PACKED_B",
                  "a plain matrix b, which is to be packed");
    return GemmPacking{in.dispatcher(device), problem, capi::arguments_of(*call).b};
  }
  [[nodiscard]] Result<std::size_t> bytes() const { return dispatcher.packed_b_bytes(problem); }
  [[nodiscard]] Status pack(void* to) const { return dispatcher.pack_b(problem, b, to); }
};

}  // namespace

const Repeat repeat_gemm = repeat_of<Gemm>();

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
    if (!has(offsetof(tilesmith_gemm, options))) return {};
    fill(call->a2, dense.a2);
    fill(call->b2, dense.b2);
    if (problem.zero_points) fill_scale(call->zero_b, dense.zero_b);
    return {};
  });
}

tilesmith_status tilesmith_gemm_compute(tilesmith_context* context, const tilesmith_gemm* call) {
  return capi::compute<capi::Gemm>(context, call);
}

tilesmith_status tilesmith_gemm_packed_bytes(tilesmith_context* context, const tilesmith_gemm* call, uint64_t* out) {
  return capi::packed_bytes<capi::GemmPacking>(context, call, out);
}

tilesmith_status tilesmith_gemm_pack_b(tilesmith_context* context, const tilesmith_gemm* call, void* packed,
                                       uint64_t packed_bytes) {
  return capi::pack<capi::GemmPacking>(context, call, packed, packed_bytes);
}

tilesmith_status tilesmith_gemm_plan_for(tilesmith_context* context, const tilesmith_gemm* call,
                                         const tilesmith_gemm_plan** out) {
  return capi::plan_for<capi::Gemm>(context, call, out);
}

tilesmith_status tilesmith_gemm_run(const tilesmith_gemm_plan* plan, const tilesmith_gemm* call) {
  return capi::run<capi::Gemm>(plan, call);
}

tilesmith_status tilesmith_gemm_candidates(tilesmith_context* context, const tilesmith_gemm* call,
                                           tilesmith_candidates* out) {
  return capi::candidates<capi::Gemm>(context, call, out);
}

tilesmith_status tilesmith_gemm_plan_info(const tilesmith_gemm_plan* plan, tilesmith_plan_info* out) {
  return capi::plan_facts<capi::Gemm>(plan, out);
}
