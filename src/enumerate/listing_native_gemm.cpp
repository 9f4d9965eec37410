// Listings of Tilesmith's own GEMM instances.
#include <fmt/format.h>

#include <algorithm>

#include "enumerate/cpu_gemm.hpp"
#include "enumerate/cuda_gemm.hpp"
#include "enumerate/listing_plan.hpp"

namespace tilesmith {
namespace {

constexpr std::string_view kAll = "all";
constexpr std::string_view kLayouts[] = {"rcr", "rrr", "crr", "ccr", kAll};

template <class Spec>
Result<ListingPlan> plan_gemm(const Spec& spec, const ListRequest& request,
                              void (*enumerate)(const Spec&, std::string_view, ConfigSink)) {
  if (!request.variant.empty() && request.variant != name_of(GemmFamily::standard))
    return fail(ErrorCode::unsupported,
                fmt::format("variant {} of gemm is not built for {}", request.variant, spec.arch.text()), "standard");
  if (std::ranges::find(kLayouts, request.layout) == std::end(kLayouts))
    return fail(ErrorCode::invalid_argument, fmt::format("layout \"{}\" is not built", request.layout.substr(0, 64)),
                "rcr, rrr, crr, ccr or all");
  TS_ASSIGN(const std::vector<DataType> types, parse_data_types(request.data_types));
  ListingPlan plan;
  plan.enumerate = [spec, enumerate, types, layout = request.layout == kAll ? "" : request.layout](ConfigSink sink) {
    enumerate(spec, layout, [&](const KernelConfig& config) {
      const bool wanted =
          types.empty() || std::ranges::find(types, std::get<GemmSignature>(config.signature).a) != types.end();
      return !wanted || sink(config);
    });
  };
  return plan;
}

}  // namespace

Result<ListingPlan> plan_cpu_gemm(const CpuSpec& spec, const ListRequest& request) {
  return plan_gemm(spec, request, enumerate_cpu_gemm);
}

Result<ListingPlan> plan_cuda_gemm(const CudaSpec& spec, const ListRequest& request) {
  return plan_gemm(spec, request, enumerate_cuda_gemm);
}

}  // namespace tilesmith
