// Listings of Tilesmith's own GEMM instances.
#include <fmt/format.h>

#include <algorithm>

#include "catalog/listing_plan.hpp"
#include "choose/gemm/cuda.hpp"
#include "choose/gemm/cuda_space.hpp"
#include "instances/gemm/cpu.hpp"
#include "instances/gemm/cuda.hpp"
#include "instances/gemm/hip.hpp"

namespace tilesmith {
namespace {

constexpr std::string_view kAll = "all";
constexpr std::string_view kLayouts[] = {"rcr", "rrr", "crr", "ccr", kAll};

Result<std::vector<GemmVariant>> parse_variants(const std::string& text) {
  if (text.empty()) return std::vector{GemmVariant::standard};
  std::vector<GemmVariant> all;
  for (const auto& [variant, name] : EnumTable<GemmVariant>::kNames) all.push_back(variant);
  if (text == kAll) return all;
  const auto one = parse_enum<GemmVariant>(text);
  if (!one) return fail(ErrorCode::unsupported, one.error().message, one.error().hint + ", or all");
  return std::vector{*one};
}

/// The instances of a signature, to a sink.
template <class Spec>
using SignatureWalk = std::function<void(const Spec&, const GemmSignature&, ConfigSink)>;

template <class Spec>
Result<ListingPlan> plan_gemm(const Spec& spec, const ListRequest& request, SignatureWalk<Spec> walk) {
  TS_ASSIGN(const std::vector<GemmVariant> variants, parse_variants(request.variant));
  if (std::ranges::find(kLayouts, request.layout) == std::end(kLayouts))
    return fail(ErrorCode::invalid_argument, fmt::format("layout \"{}\" is not built", request.layout.substr(0, 64)),
                "rcr, rrr, crr, ccr or all");
  TS_ASSIGN(const std::vector<DataType> types, parse_data_types(request.data_types));
  ListingPlan plan;
  plan.enumerate = [spec, walk, types, variants,
                    layout = request.layout == kAll ? "" : request.layout](ConfigSink sink) {
    bool wanted = true;
    const auto forward = [&](const KernelConfig& config) { return wanted = sink(config); };
    for (const GemmVariant variant : variants)
      listed_gemm_signatures(spec, layout, [&](const GemmSignature& plain) {
        if (!types.empty() && std::ranges::find(types, plain.a) == types.end()) return wanted;
        for (const GemmSignature& signature : variants_of(plain, variant))
          if (wanted) walk(spec, signature, forward);
        return wanted;
      });
  };
  return plan;
}

CudaGemmShape shape_of(const GemmSizes& sizes, const GemmSignature& signature) {
  return {.m = sizes.m,
          .n = sizes.n,
          .k = sizes.k,
          .batch = sizes.batch,
          .unaligned = sizes.unaligned,
          .grouping = signature.grouping,
          .k2 = signature.mm_plus_mm ? sizes.k : 0,
          .may_pad = true};
}

/// What dispatch has to choose from, in its order.
void walk_candidates(const CudaSpec& spec, const GemmSignature& signature, const GemmSizes& sizes, ConfigSink sink) {
  const CudaGemmShape shape = shape_of(sizes, signature);
  if (signature.epilogue_ops.gated() && shape.n % 2 != 0) return;
  for (const Candidate& candidate : ranked_cuda_gemm(spec, signature, shape))
    if (!sink(candidate.recipe.main())) return;
}

/// For backends whose lists hold all instances of a signature.
Status check_no_sizes(const ArchName& arch, const ListRequest& request) {
  if (request.sizes)
    return fail(ErrorCode::unsupported, fmt::format("instances are not narrowed by sizes on {}", arch.text()),
                "tilesmith run gemm says which kernel it chose, tilesmith bench times all");
  if (request.mode != EnumerationMode::rules)
    return fail(ErrorCode::unsupported, fmt::format("mode {} on {}", name_of(request.mode), arch.text()), "mode rules");
  return {};
}

}  // namespace

Result<ListingPlan> plan_cpu_gemm(const CpuSpec& spec, const ListRequest& request) {
  TS_TRY(check_no_sizes(spec.arch, request));
  return plan_gemm<CpuSpec>(spec, request, [](const CpuSpec& level, const GemmSignature& signature, ConfigSink sink) {
    enumerate_cpu_gemm(level, signature, sink);
  });
}

Result<ListingPlan> plan_hip_gemm(const HipSpec& spec, const ListRequest& request) {
  TS_TRY(check_no_sizes(spec.arch, request));
  return plan_gemm<HipSpec>(spec, request, [](const HipSpec& chip, const GemmSignature& signature, ConfigSink sink) {
    enumerate_hip_gemm(chip, signature, sink);
  });
}

Result<ListingPlan> plan_cuda_gemm(const CudaSpec& spec, const ListRequest& request) {
  const std::optional<GemmSizes>& sizes = request.sizes;
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  const auto is_size = [](std::int64_t size, std::int64_t least) { return size >= least && size <= kMost; };
  if (sizes && !(is_size(sizes->m, 1) && is_size(sizes->n, 1) && is_size(sizes->k, 0) && is_size(sizes->batch, 1)))
    return fail(ErrorCode::invalid_argument,
                fmt::format("a product of {} x {} x {}, {} times", sizes->m, sizes->n, sizes->k, sizes->batch),
                fmt::format("m, n and batch from 1, k from 0 to {}", kMost));
  const bool any_tile = request.mode == EnumerationMode::exhaustive;
  return plan_gemm<CudaSpec>(spec, request,
                             [sizes, any_tile](const CudaSpec& chip, const GemmSignature& signature, ConfigSink sink) {
                               if (any_tile) {
                                 const CudaGemmShape shape = shape_of(sizes.value_or(GemmSizes{}), signature);
                                 exhaustive_cuda_gemm(chip, signature, sizes ? &shape : nullptr, sink);
                               } else if (sizes) {
                                 walk_candidates(chip, signature, *sizes, sink);
                               } else {
                                 enumerate_cuda_gemm(chip, signature, sink);
                               }
                             });
}

}  // namespace tilesmith
