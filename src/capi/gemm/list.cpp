// Several GEMM calls as one.
#include <algorithm>
#include <memory>
#include <vector>

#include "capi/gemm/call.hpp"
#include "capi/operation.hpp"
#include "dispatch/gemm/list.hpp"

namespace tilesmith::capi {
namespace {

/// A list of calls taken apart. A thread keeps one, so that it need not allocate each time, with the plan it ran last.
struct List {
  std::vector<GemmProblem> problems;
  std::vector<GemmArguments> arguments;
  Device device;
  void* stream = nullptr;
  const tilesmith_context_options* options = nullptr;

  std::uint64_t context = 0;        ///< of the plan
  DispatcherOptions planned_under;  ///< likewise
  std::unique_ptr<const GemmListPlan> plan;

  /// Fills in everything but the plan.
  [[nodiscard]] Status read(const tilesmith_gemm* const* calls, std::size_t count, Device of_context);

 private:
  [[nodiscard]] Status add(const tilesmith_gemm* given, Device of_context);
};

Status List::read(const tilesmith_gemm* const* calls, std::size_t count, Device of_context) {
  problems.clear();
  arguments.clear();
  for (std::size_t i = 0; i < count; ++i)
    if (const Status status = add(calls[i], of_context); !status)
      return std::unexpected(of_product(status.error(), i, count));
  return {};
}

Status List::add(const tilesmith_gemm* given, Device of_context) {
  tilesmith_gemm room;
  TS_ASSIGN(const tilesmith_gemm* call, whole_call(given, room));
  TS_ASSIGN(const Device its, device_from_c(call->device, of_context));
  if (problems.empty()) {
    device = its;
    stream = call->stream;
    options = call->options;
  }
  if (its != device)
    return fail(ErrorCode::invalid_argument,
                fmt::format("it is for {}, the first for {}", to_string(its), to_string(device)), "one device for all");
  if (call->stream != stream)
    return fail(ErrorCode::invalid_argument, fmt::format("its stream is {}, the first's {}", call->stream, stream),
                "one stream for all");
  if (call->options != options)
    return fail(ErrorCode::invalid_argument, "its options are at another address than the first's", "one for all");
  TS_TRY(check_unused("workspace", call->workspace != nullptr, "make it a call of its own"));
  TS_ASSIGN(const GemmProblem problem, problem_of(*call, device));
  problems.push_back(problem);
  arguments.push_back(arguments_of(*call));
  return {};
}

}  // namespace
}  // namespace tilesmith::capi

using namespace tilesmith;

tilesmith_status tilesmith_gemm_compute_list(tilesmith_context* context, const tilesmith_gemm* const* calls,
                                             int64_t count) {
  return capi::guarded([&]() -> Status {
    if (count < 0) return fail(ErrorCode::invalid_argument, fmt::format("count is {}", count), "0 or more");
    if (count == 0) return {};
    if (calls == nullptr) return fail(ErrorCode::invalid_argument, "calls is null", "an array of pointers to calls");
    thread_local capi::List list;
    tilesmith_context& in = capi::context_or_default(context);
    TS_TRY(list.read(calls, static_cast<std::size_t>(count), in.device()));
    Dispatcher& dispatcher = in.dispatcher(list.device);
    const DispatcherOptions* under = &dispatcher.options();
    if (list.options != nullptr) {
      TS_ASSIGN(under, capi::options_of_call(list.options, list.device));
    }
    std::unique_ptr<const GemmListPlan> made;
    const GemmListPlan* plan = list.plan.get();
    if (plan == nullptr || list.context != in.id() || plan->device() != list.device || list.planned_under != *under ||
        !std::ranges::equal(plan->problems(), list.problems)) {
      TS_ASSIGN(made, dispatcher.plan(list.problems, *under));
      plan = made.get();
    }
    TS_ASSIGN(const RunOptions options, capi::options_of(list.stream, nullptr, 0, *plan));
    TS_TRY(plan->run(list.arguments, options));
    capi::remember(in, *plan, "gemm");
    if (made != nullptr) {  // what it replaces is nobody's last plan any more
      list.plan = std::move(made);
      list.context = in.id();
      list.planned_under = *under;
    }
    return {};
  });
}
