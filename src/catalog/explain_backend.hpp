// What each backend's enumeration says of one config.
#pragma once

#include <functional>

#include "catalog/explain.hpp"
#include "instances/sink.hpp"
#include "spec/amd/chip.hpp"
#include "spec/cpu/spec.hpp"
#include "spec/cuda/spec.hpp"
#include "spec/hip/spec.hpp"

namespace tilesmith {

[[nodiscard]] Result<Explanation> explain_amd_attention(const AmdChip& chip, KernelConfig config);
[[nodiscard]] Result<Explanation> explain_amd_gemm(const AmdChip& chip, KernelConfig config);
[[nodiscard]] Result<Explanation> explain_amd_conv(const AmdChip& chip, KernelConfig config);
/// By operation.
[[nodiscard]] Result<Explanation> explain_amd_instance(const AmdChip& chip, const KernelConfig& config);
[[nodiscard]] Result<Explanation> explain_cpu_attention(const CpuSpec& spec, KernelConfig config);
[[nodiscard]] Result<Explanation> explain_cpu_conv(const CpuSpec& spec, KernelConfig config);
[[nodiscard]] Result<Explanation> explain_cpu_gemm(const CpuSpec& spec, KernelConfig config);
[[nodiscard]] Result<Explanation> explain_cuda_attention(const CudaSpec& spec, KernelConfig config);
[[nodiscard]] Result<Explanation> explain_cuda_conv(const CudaSpec& spec, KernelConfig config);
[[nodiscard]] Result<Explanation> explain_cuda_gemm(const CudaSpec& spec, KernelConfig config);
[[nodiscard]] Result<Explanation> explain_hip_attention(const HipSpec& spec, KernelConfig config);
[[nodiscard]] Result<Explanation> explain_hip_gemm(const HipSpec& spec, KernelConfig config);

/// How many figures and fields tell two configs of one operation apart; tile figures count by their ratio.
/// Counting stops at `enough`.
[[nodiscard]] double config_distance(const KernelConfig& a, const KernelConfig& b, double enough);

/// "field: mine -> theirs" for each field that differs.
[[nodiscard]] std::vector<std::string> config_changes(const KernelConfig& mine, const KernelConfig& theirs);

/// Fills `nearest` and `changes` from a walk over sound instances.
void find_nearest(Explanation& explanation, const std::function<void(ConfigSink)>& walk);

}  // namespace tilesmith
