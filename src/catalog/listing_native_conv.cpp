// Listings of Tilesmith's own convolution instances.
#include <fmt/format.h>

#include <algorithm>

#include "catalog/listing_plan.hpp"
#include "instances/conv/cpu.hpp"
#include "instances/conv/cuda.hpp"

namespace tilesmith {

namespace {

template <class Spec>
Result<ListingPlan> plan_conv(const Spec& spec, const ListRequest& request, void (*walk)(const Spec&, ConfigSink)) {
  std::optional<ConvDirection> direction;
  if (!request.variant.empty()) {
    TS_ASSIGN(direction, parse_enum<ConvDirection>(request.variant));
  }
  if (std::ranges::any_of(request.spatial_dims, [](int dims) { return dims < 1 || dims > 3; }))
    return fail(ErrorCode::invalid_argument, "spatial dimensions of a convolution",
                "1, 2 or 3: a kernel takes them all");
  TS_ASSIGN(const std::vector<DataType> types, parse_data_types(request.data_types));
  ListingPlan plan;
  plan.enumerate = [spec, direction, types, walk](ConfigSink sink) {
    walk(spec, [&](const KernelConfig& config) {
      const auto& signature = std::get<ConvSignature>(config.signature);
      const bool wanted = (!direction || signature.direction == *direction) &&
                          (types.empty() || std::ranges::find(types, signature.data_type) != types.end());
      return !wanted || sink(config);
    });
  };
  return plan;
}

}  // namespace

Result<ListingPlan> plan_cpu_conv(const CpuSpec& spec, const ListRequest& request) {
  return plan_conv<CpuSpec>(spec, request, enumerate_cpu_conv);
}

Result<ListingPlan> plan_cuda_conv(const CudaSpec& spec, const ListRequest& request) {
  return plan_conv<CudaSpec>(spec, request, enumerate_cuda_conv);
}

}  // namespace tilesmith
