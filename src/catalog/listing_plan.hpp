// How a listing walks one backend's instances of one operation. Adding a backend is one function here and one line in
// listing.cpp.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "catalog/listing.hpp"
#include "spec/amd/chip.hpp"
#include "spec/cpu/spec.hpp"
#include "spec/cuda/spec.hpp"
#include "spec/hip/spec.hpp"

namespace tilesmith {

struct ListingPlan {
  std::function<void(ConfigSink)> enumerate;
  std::function<std::string_view(const KernelConfig&)>
      refusal;  ///< the rule that makes an instance unsound, or nothing; absent: not asked
  std::function<bool(const KernelConfig&)> in_profile;  ///< absent: all are
};

[[nodiscard]] Result<ListingPlan> plan_amd_attention(const AmdChip& chip, const ListRequest& request);
[[nodiscard]] Result<ListingPlan> plan_amd_gemm(const AmdChip& chip, const ListRequest& request);
[[nodiscard]] Result<ListingPlan> plan_amd_conv(const AmdChip& chip, const ListRequest& request);
[[nodiscard]] Result<ListingPlan> plan_cpu_attention(const CpuSpec& spec, const ListRequest& request);
[[nodiscard]] Result<ListingPlan> plan_cpu_conv(const CpuSpec& spec, const ListRequest& request);
[[nodiscard]] Result<ListingPlan> plan_cpu_gemm(const CpuSpec& spec, const ListRequest& request);
[[nodiscard]] Result<ListingPlan> plan_cuda_attention(const CudaSpec& spec, const ListRequest& request);
[[nodiscard]] Result<ListingPlan> plan_cuda_conv(const CudaSpec& spec, const ListRequest& request);
[[nodiscard]] Result<ListingPlan> plan_cuda_gemm(const CudaSpec& spec, const ListRequest& request);
[[nodiscard]] Result<ListingPlan> plan_hip_attention(const HipSpec& spec, const ListRequest& request);
[[nodiscard]] Result<ListingPlan> plan_hip_gemm(const HipSpec& spec, const ListRequest& request);

[[nodiscard]] Result<std::vector<DataType>> parse_data_types(const std::vector<std::string>& names);

}  // namespace tilesmith
