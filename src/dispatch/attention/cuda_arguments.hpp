// A call's arguments for CUDA attention kernels of any pipeline: what is asked of them, and the part of a kernel's
// structure that all have.
#pragma once

#include <concepts>

#include "dispatch/attention/gpu_arguments.hpp"
#include "instances/attention/cuda_resources.hpp"
#include "kernels/cuda/attention/abi.h"

namespace tilesmith {

inline constexpr std::int64_t kCudaGridLimit = 65535;  ///< blocks along y and z

/// Error: invalid_argument, unsupported; what a kernel of these facts cannot take.
[[nodiscard]] Status check_cuda_attention(const AttentionProblem& problem, const CudaAttentionResources& facts,
                                          const AttentionArguments& arguments);

template <std::derived_from<TsCudaAttentionArgs> Args>
[[nodiscard]] Args cuda_attention_arguments(const AttentionProblem& p, const AttentionArguments& a) {
  auto out = gpu_attention_arguments<Args>(p, a);
  const auto scale = [](const AttentionScale& s) { return TsScale{s.data, s.batch, s.head, s.block}; };
  out.q_scale = scale(a.q_scale);
  out.k_scale = scale(a.k_scale);
  out.v_scale = scale(a.v_scale);
  return out;
}

}  // namespace tilesmith
