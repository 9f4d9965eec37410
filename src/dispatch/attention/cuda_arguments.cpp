#include "dispatch/attention/cuda_arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "base/error.hpp"
#include "problem/attention/pages.hpp"
#include "runtime/cuda/tensor_map.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {

Status check_cuda_attention(const AttentionProblem& p, const CudaAttentionResources& facts,
                            const AttentionArguments& a) {
  TS_TRY(check_gpu_attention(p, a, DeviceKind::cuda));
  if (p.unaligned) return {};
  if (!facts.bias_map || a.bias == nullptr) return {};
  const BiasStrides& b = a.bias_strides;
  const std::int64_t steps = (p.batch > 1 ? b.batch : 0) | (p.heads_q > 1 ? b.head : 0) | (p.seqlen_q > 1 ? b.row : 0);
  const auto address = reinterpret_cast<std::uintptr_t>(a.bias);
  if ((p.seqlen_k <= 1 || b.column == 1) && ((address | static_cast<std::uintptr_t>(steps * 4)) % kGpuAlignment) == 0)
    return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("the bias at address {} with strides {}, {}, {}, {} cannot be copied {} bytes at a time",
                          static_cast<const void*>(a.bias), b.batch, b.head, b.row, b.column, kGpuAlignment),
              "plan the problem with unaligned_bias, for a kernel that reads it by elements");
}

TensorMapFormat tensor_map_format(DataType type) {
  return {.element = input_bytes(type) == 1   ? TensorMapElement::u8
                     : type == DataType::bf16 ? TensorMapElement::bf16
                                              : TensorMapElement::f16};
}

TensorMapDimension tensor_map_dimension(DataType type, std::int64_t extent, std::int64_t stride, std::int64_t box) {
  // A dimension of one element is never stepped along; its stride is only to be a valid one.
  return TensorMapDimension{static_cast<std::uint64_t>(std::max<std::int64_t>(1, extent)),
                            static_cast<std::uint64_t>(extent > 1 ? stride * input_bytes(type) : kGpuAlignment),
                            static_cast<std::uint32_t>(box)};
}

namespace {

DataType cache_type(const AttentionProblem& p) {
  return cache_bytes(p) == 1 ? DataType::fp8 : p.data_type;
}

}  // namespace

Status encode_key_map(const CudaContext& context, const AttentionProblem& p, const AttentionArguments& a,
                      const TensorMapFormat& format, const void* address, const AttentionStrides& s,
                      std::int64_t columns, std::int64_t box_columns, std::int64_t box_rows, TsCudaTensorMap& map) {
  const bool paged = p.page_size > 0, group = p.mode == SequenceMode::group;
  const std::int64_t rows = paged ? p.page_size : group ? a.total_k : p.seqlen_k;
  const std::int64_t batch = paged ? a.pages.num_pages : group ? 1 : p.batch;
  const auto dimension = [&](std::int64_t extent, std::int64_t stride, std::int64_t box) {
    return tensor_map_dimension(cache_type(p), extent, stride, box);
  };
  const std::array dimensions{
      TensorMapDimension{static_cast<std::uint64_t>(columns), 0, static_cast<std::uint32_t>(box_columns)},
      dimension(rows, s.row, box_rows), dimension(p.heads_kv, s.head, 1), dimension(batch, s.batch, 1)};
  // Without keys there may be no tensor: the map is read once, masked as a whole, and needs readable memory.
  return encode_tensor_map(context, format, address != nullptr ? address : a.q, dimensions, map);
}

Status encode_key_map(const CudaContext& context, const AttentionProblem& p, const AttentionArguments& a,
                      const void* address, const AttentionStrides& s, std::int64_t head_dim, std::int64_t box_columns,
                      std::int64_t box_rows, TsCudaTensorMap& map) {
  return encode_key_map(context, p, a, tensor_map_format(cache_type(p)), address, s, head_dim, box_columns, box_rows,
                        map);
}

std::int64_t page_box_rows(const AttentionProblem& p, const AttentionArguments& a, std::int64_t most) {
  constexpr std::int64_t kLeast = 8;  // one repeat of the swizzle
  if (a.pages.num_pages == 0) return 0;
  if (p.seqlen_k <= p.page_size) return most;
  const auto power_of_two = [](std::int64_t x) { return x & -x; };
  const std::int64_t rows = std::min(power_of_two(p.page_size), power_of_two(most));
  return rows < kLeast ? 0 : rows;
}

void set_pages(const AttentionProblem& p, const AttentionArguments& a, TsCudaAttentionArgs& out) {
  if (p.page_size == 0) return;
  out.paged = paged_keys(p, a.pages);
  divide_by_page(p.page_size, out);
  out.num_pages = static_cast<int>(std::min<std::int64_t>(a.pages.num_pages, std::numeric_limits<int>::max()));
  // Lengths are cut to it, and no page is read.
  if (a.pages.num_pages == 0 || lists_no_page(a.pages)) out.seqlen_k = 0;
}

}  // namespace tilesmith
