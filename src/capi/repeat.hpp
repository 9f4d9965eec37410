// What repeats calls of an operation whose plan is known, for callers within the library.
#pragma once

#include "capi/operation.hpp"

namespace tilesmith::capi {

struct Repeat {
  tilesmith_status (*compute)(tilesmith_context*, const void* call);
  tilesmith_status (*plan_for)(tilesmith_context*, const void* call, const void** plan);
  /// A call that differs from the planned one in its pointers and numbers alone. On GPUs another alignment of pointers
  /// is another problem.
  tilesmith_status (*run)(const void* plan, const void* call);
  /// 0: nobody predicted them.
  double (*predicted_seconds)(const void* plan);
};

template <class Op>
constexpr Repeat repeat_of() {
  using Call = typename Op::Call;
  using Handle = typename Op::Handle;
  return {.compute = [](tilesmith_context* context,
                        const void* call) { return compute<Op>(context, static_cast<const Call*>(call)); },
          .plan_for =
              [](tilesmith_context* context, const void* call, const void** plan) {
                const Handle* handle = nullptr;
                const tilesmith_status status = capi::plan_for<Op>(context, static_cast<const Call*>(call), &handle);
                *plan = handle;
                return status;
              },
          .run =
              [](const void* plan, const void* call) {
                const auto& handle = *static_cast<const Handle*>(plan);
                return guarded(
                    [&] { return run_plan<Op>(*handle.context, *handle.plan, *static_cast<const Call*>(call)); });
              },
          .predicted_seconds =
              [](const void* plan) { return static_cast<const Handle*>(plan)->plan->info().predicted_seconds; }};
}

extern const Repeat repeat_attention, repeat_conv, repeat_gemm;

}  // namespace tilesmith::capi
