#include "dispatch/attention/cuda_arguments.hpp"

#include <fmt/format.h>

#include <cstdint>

#include "base/error.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {

Status check_cuda_alignment(const char* name, const void* pointer, const AttentionStrides& s, std::int64_t members,
                            std::int64_t heads, std::int64_t element_bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const std::int64_t steps = (members > 1 ? s.batch : 0) | (heads > 1 ? s.head : 0) | s.row;
  if (((address | static_cast<std::uintptr_t>(steps * element_bytes)) % kCudaAlignment) == 0) return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("{} at address {} with strides {}, {}, {} is not aligned to {} bytes", name, pointer, s.batch,
                          s.head, s.row, kCudaAlignment),
              "plan the problem with unaligned, for a kernel that asks for no alignment");
}

Status check_cuda_attention(const AttentionProblem& p, const CudaAttentionResources& facts,
                            const AttentionArguments& a) {
  TS_TRY(validate(p, a, DeviceKind::cuda));
  if (a.scale < 0 && !p.negative_scale)
    return fail(ErrorCode::invalid_argument, fmt::format("scale is {}", a.scale),
                "plan the problem with negative_scale: it is a trait of CUDA kernels");
  if (a.total_q > kLongestOfCuda || a.total_k > kLongestOfCuda)
    return fail(ErrorCode::unsupported,
                fmt::format("total_q {}, total_k {} are beyond a CUDA kernel's rows", a.total_q, a.total_k),
                fmt::format("at most {}", kLongestOfCuda));
  if (p.unaligned) return {};
  const std::int64_t bytes = input_bytes(p.data_type), cached = cache_bytes(p);
  const std::int64_t batches = p.mode == SequenceMode::group ? 1 : p.batch;
  const std::int64_t batches_k = p.page_size > 0 ? a.pages.num_pages : batches;
  TS_TRY(check_cuda_alignment("q", a.q, a.q_strides, batches, p.heads_q, bytes));
  TS_TRY(check_cuda_alignment("k", a.k, a.k_strides, batches_k, p.heads_kv, cached));
  if (!p.latent) TS_TRY(check_cuda_alignment("v", a.v, a.v_strides, batches_k, p.heads_kv, cached));
  TS_TRY(check_cuda_alignment("o", a.o, a.o_strides, batches, p.heads_q, bits_of(output_type(p.data_type)) / 8));
  if (!facts.bias_map || a.bias == nullptr) return {};
  const BiasStrides& b = a.bias_strides;
  const std::int64_t steps = (p.batch > 1 ? b.batch : 0) | (p.heads_q > 1 ? b.head : 0) | (p.seqlen_q > 1 ? b.row : 0);
  const auto address = reinterpret_cast<std::uintptr_t>(a.bias);
  if ((p.seqlen_k <= 1 || b.column == 1) && ((address | static_cast<std::uintptr_t>(steps * 4)) % kCudaAlignment) == 0)
    return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("the bias at address {} with strides {}, {}, {}, {} cannot be copied {} bytes at a time",
                          static_cast<const void*>(a.bias), b.batch, b.head, b.row, b.column, kCudaAlignment),
              "plan the problem with unaligned_bias, for a kernel that reads it by elements");
}

}  // namespace tilesmith
