// A call's arguments for CUDA attention kernels of any pipeline: what is asked of them, and the part of a kernel's
// structure that all have.
#pragma once

#include <concepts>

#include "instances/attention/cuda_resources.hpp"
#include "kernels/cuda/attention/abi.h"
#include "problem/attention/kernel_arguments.hpp"

namespace tilesmith {

inline constexpr std::int64_t kLongestOfCuda = std::int64_t{1} << 30;  ///< kernels count rows in 32 bits
inline constexpr std::int64_t kCudaGridLimit = 65535;                  ///< blocks along y and z
inline constexpr std::int64_t kCudaAlignment = 16;  ///< bytes: of a tensor copy, and of an asynchronous one

/// Error: invalid_argument, a tensor of `members` by `heads` by rows that cannot be copied 16 bytes at a time.
[[nodiscard]] Status check_cuda_alignment(const char* name, const void* pointer, const AttentionStrides& strides,
                                          std::int64_t members, std::int64_t heads, std::int64_t element_bytes);

/// Error: invalid_argument, unsupported; what a kernel of these facts cannot take.
[[nodiscard]] Status check_cuda_attention(const AttentionProblem& problem, const CudaAttentionResources& facts,
                                          const AttentionArguments& arguments);

template <std::derived_from<TsCudaAttentionArgs> Args>
[[nodiscard]] Args cuda_attention_arguments(const AttentionProblem& p, const AttentionArguments& a) {
  auto out = shared_kernel_args<Args>(p, a);
  // A kernel with a bound the problem lacks is given one beyond every sequence.
  out.window_left = out.window_left < 0 ? kLongestOfCuda : out.window_left - p.diagonal;
  out.window_right = out.window_right < 0 ? kLongestOfCuda : out.window_right + p.diagonal;
  // One block of keys is loaded and masked even without keys; there is no bias to load with it, and no tensor map of
  // one.
  if (p.seqlen_k == 0) out.bias = nullptr;
  const auto scale = [](const AttentionScale& s) { return TsCudaScale{s.data, s.batch, s.head, s.block}; };
  out.q_scale = scale(a.q_scale);
  out.k_scale = scale(a.k_scale);
  out.v_scale = scale(a.v_scale);
  return out;
}

}  // namespace tilesmith
