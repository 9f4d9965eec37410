// Listings of Tilesmith's own attention instances.
#include <fmt/format.h>

#include <algorithm>

#include "catalog/listing_plan.hpp"
#include "instances/attention/cpu.hpp"
#include "instances/attention/cuda.hpp"
#include "instances/attention/hip.hpp"
#include "instances/attention_backward/cpu.hpp"
#include "instances/attention_backward/cuda.hpp"

namespace tilesmith {
namespace {

template <class Spec>
Result<ListingPlan> plan_attention(const Spec& spec, const ListRequest& request, std::string_view variant,
                                   void (*enumerate)(const Spec&, ConfigSink)) {
  if (!request.variant.empty() && request.variant != "fwd" && request.variant != variant)
    return fail(ErrorCode::unsupported,
                fmt::format("variant {} of attention is not built for {}", request.variant, spec.arch.text()), "fwd");
  TS_ASSIGN(const std::vector<DataType> types, parse_data_types(request.data_types));
  ListingPlan plan;
  plan.enumerate = [spec, enumerate, types, dims = request.head_dims](ConfigSink sink) {
    enumerate(spec, [&](const KernelConfig& config) {
      const AttentionSignature& s = config.attention();
      const bool wanted =
          (types.empty() || std::ranges::find(types, s.data_type) != types.end()) &&
          (dims.empty() || std::ranges::find(dims, std::pair<int, int>(s.head_dim_qk, s.head_dim_v)) != dims.end());
      return !wanted || sink(config);
    });
  };
  return plan;
}

}  // namespace

Result<ListingPlan> plan_cpu_attention(const CpuSpec& spec, const ListRequest& request) {
  using Enumerate = void (*)(const CpuSpec&, ConfigSink);
  const Enumerate forward = enumerate_cpu_attention, backward = enumerate_cpu_attention_backward;
  return plan_attention(spec, request, request.variant == "bwd" ? "bwd" : "fwd",
                        request.variant == "bwd" ? backward : forward);
}

Result<ListingPlan> plan_cuda_attention(const CudaSpec& spec, const ListRequest& request) {
  if (request.variant == "bwd" && !spec.attention_bwd.empty())
    return plan_attention(spec, request, "bwd", enumerate_cuda_backward);
  return plan_attention(spec, request, "fwd", enumerate_cuda_attention);
}

Result<ListingPlan> plan_hip_attention(const HipSpec& spec, const ListRequest& request) {
  return plan_attention(spec, request, "fwd", enumerate_hip_attention);
}

}  // namespace tilesmith
