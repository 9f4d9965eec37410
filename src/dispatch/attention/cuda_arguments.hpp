// A call's arguments for CUDA attention kernels of any pipeline: what is asked of them, and the part of a kernel's
// structure that all have.
#pragma once

#include <concepts>

#include "dispatch/attention/gpu_arguments.hpp"
#include "instances/attention/cuda_resources.hpp"
#include "kernels/cuda/attention/abi.h"
#include "runtime/cuda/context.hpp"
#include "runtime/cuda/tensor_map.hpp"

namespace tilesmith {

inline constexpr std::int64_t kCudaGridLimit = 65535;  ///< blocks along y and z

/// Error: invalid_argument, unsupported; what a kernel of these facts cannot take.
[[nodiscard]] Status check_cuda_attention(const AttentionProblem& problem, const CudaAttentionResources& facts,
                                          const AttentionArguments& arguments);

inline constexpr std::int64_t kMapRowBytes = 128;  ///< of a box of a tensor map: one swizzled row

[[nodiscard]] TensorMapFormat tensor_map_format(DataType type);
/// Strides in elements.
[[nodiscard]] TensorMapDimension tensor_map_dimension(DataType type, std::int64_t extent, std::int64_t stride,
                                                      std::int64_t box);
/// The map of keys or values in tensors: dimensions {columns, rows, heads, batch}, of a box `box_columns` elements of
/// `box_rows` rows. A page is a member of the batch. Error: what the copy engine does not take.
[[nodiscard]] Status encode_key_map(const CudaContext& context, const AttentionProblem& problem,
                                    const AttentionArguments& arguments, const TensorMapFormat& format,
                                    const void* address, const AttentionStrides& strides, std::int64_t columns,
                                    std::int64_t box_columns, std::int64_t box_rows, TsCudaTensorMap& map);
/// Of elements as the cache has them, in boxes of 128 bytes a row.
[[nodiscard]] Status encode_key_map(const CudaContext& context, const AttentionProblem& problem,
                                    const AttentionArguments& arguments, const void* address,
                                    const AttentionStrides& strides, std::int64_t head_dim, std::int64_t box_columns,
                                    std::int64_t box_rows, TsCudaTensorMap& map);

/// Rows of a box of the maps of keys and values in pages that lies in one page wherever it begins, `most` at most; 0
/// where the copy engine does not take them.
[[nodiscard]] std::int64_t page_box_rows(const AttentionProblem& problem, const AttentionArguments& arguments,
                                         std::int64_t most);
/// Writes where pages lie, but for the rows of a box.
void set_pages(const AttentionProblem& problem, const AttentionArguments& arguments, TsCudaAttentionArgs& out);

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
