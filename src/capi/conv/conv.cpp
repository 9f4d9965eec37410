// Convolution: in one call, and in the two steps it is made of.
#include "capi/conv/call.hpp"
#include "capi/packing.hpp"
#include "capi/repeat.hpp"
#include "capi/sized_struct.hpp"

namespace tilesmith::capi {
namespace {

struct Conv {
  using Call = tilesmith_conv;
  using Plan = ConvPlan;
  using Handle = tilesmith_conv_plan;
  static constexpr const char* kName = "conv";
  static constexpr const char* kPlanFor = "tilesmith_conv_plan_for";

  static Result<const Call*> whole(const Call* call, Call& room) {
    return read_struct("tilesmith_conv", call, {offsetof(tilesmith_conv, flags)}, room);
  }
  static Result<ConvProblem> problem_of(const Call& call, Device device) { return capi::problem_of(call, device); }
  static Result<ConvArguments> arguments_of(const Call& call, Device) { return capi::arguments_of(call); }
  /// A plan that expects less of the memory serves more.
  static void widen(ConvProblem& problem, const ConvProblem& of_plan) { problem.unaligned |= of_plan.unaligned; }
};

/// What packing w asks for.
struct ConvPacking {
  Dispatcher& dispatcher;
  ConvProblem problem;
  const void* w;
  ConvStrides strides;

  [[nodiscard]] static Result<ConvPacking> of(tilesmith_context* context, const tilesmith_conv* given) {
    tilesmith_conv room;
    TS_ASSIGN(const tilesmith_conv* call, Conv::whole(given, room));
    tilesmith_context& in = context_or_default(context);
    TS_ASSIGN(const Device device, device_from_c(call->device, in.device()));
    TS_ASSIGN(const ConvProblem problem, capi::problem_of(*call, device));
    if (problem.packed_w)
      return fail(ErrorCode::invalid_argument, "flags has TILESMITH_PACKED_W",
                  "plain filters w, which are to be packed");
    return ConvPacking{in.dispatcher(device), problem, call->w, capi::arguments_of(*call).w_strides};
  }
  [[nodiscard]] Result<std::size_t> bytes() const { return dispatcher.packed_w_bytes(problem); }
  [[nodiscard]] Status pack(void* to) const { return dispatcher.pack_w(problem, w, strides, to); }
};

}  // namespace

const Repeat repeat_conv = repeat_of<Conv>();

}  // namespace tilesmith::capi

using namespace tilesmith;

tilesmith_status tilesmith_conv_dense(tilesmith_conv* call, int32_t layout) {
  return capi::guarded([&]() -> Status {
    tilesmith_conv room;
    TS_ASSIGN(const tilesmith_conv* given, capi::Conv::whole(call, room));
    TS_TRY(capi::check_enum("layout", layout, TILESMITH_CHANNELS_FIRST, "tilesmith_conv_layout"));
    TS_ASSIGN(const ConvProblem problem, capi::problem_of(*given));
    TS_TRY(validate(problem));
    const ConvArguments dense = dense_arguments(problem, static_cast<ConvLayout>(layout));
    call->x_strides = capi::in_c(dense.x_strides);
    call->w_strides = capi::in_c(dense.w_strides);
    call->y_strides = capi::in_c(dense.y_strides);
    for (std::size_t i = 0; i < problem.epilogue.size(); ++i)
      if (reads_tensor(problem.epilogue[i])) call->epilogue[i].strides = capi::in_c(dense.epilogue[i].strides);
    return {};
  });
}

tilesmith_status tilesmith_conv_compute(tilesmith_context* context, const tilesmith_conv* call) {
  return capi::compute<capi::Conv>(context, call);
}

tilesmith_status tilesmith_conv_packed_bytes(tilesmith_context* context, const tilesmith_conv* call, uint64_t* out) {
  return capi::packed_bytes<capi::ConvPacking>(context, call, out);
}

tilesmith_status tilesmith_conv_pack_w(tilesmith_context* context, const tilesmith_conv* call, void* packed,
                                       uint64_t packed_bytes) {
  return capi::pack<capi::ConvPacking>(context, call, packed, packed_bytes);
}

tilesmith_status tilesmith_conv_plan_for(tilesmith_context* context, const tilesmith_conv* call,
                                         const tilesmith_conv_plan** out) {
  return capi::plan_for<capi::Conv>(context, call, out);
}

tilesmith_status tilesmith_conv_run(const tilesmith_conv_plan* plan, const tilesmith_conv* call) {
  return capi::run<capi::Conv>(plan, call);
}

tilesmith_status tilesmith_conv_candidates(tilesmith_context* context, const tilesmith_conv* call,
                                           tilesmith_candidates* out) {
  return capi::candidates<capi::Conv>(context, call, out);
}

tilesmith_status tilesmith_conv_plan_info(const tilesmith_conv_plan* plan, tilesmith_plan_info* out) {
  return capi::plan_facts<capi::Conv>(plan, out);
}
