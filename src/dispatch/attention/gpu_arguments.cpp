#include "dispatch/attention/gpu_arguments.hpp"

#include <fmt/format.h>

#include <cstdint>

#include "vocabulary/data_type.hpp"

namespace tilesmith {

Status check_gpu_alignment(const char* name, const void* pointer, const AttentionStrides& s, std::int64_t members,
                           std::int64_t heads, std::int64_t element_bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const std::int64_t steps = (members > 1 ? s.batch : 0) | (heads > 1 ? s.head : 0) | s.row;
  if (((address | static_cast<std::uintptr_t>(steps * element_bytes)) % kGpuAlignment) == 0) return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("{} at address {} with strides {}, {}, {} is not aligned to {} bytes", name, pointer, s.batch,
                          s.head, s.row, kGpuAlignment),
              "plan the problem with unaligned, for a kernel that asks for no alignment");
}

Status check_gpu_attention(const AttentionProblem& p, const AttentionArguments& a, DeviceKind device) {
  TS_TRY(validate(p, a, device));
  if (a.scale < 0 && !p.negative_scale)
    return fail(ErrorCode::invalid_argument, fmt::format("scale is {}", a.scale),
                "plan the problem with negative_scale: it is a trait of kernels on GPUs");
  if (a.total_q > kLongestOfGpu || a.total_k > kLongestOfGpu)
    return fail(ErrorCode::unsupported,
                fmt::format("total_q {}, total_k {} are beyond a kernel's rows", a.total_q, a.total_k),
                fmt::format("at most {}", kLongestOfGpu));
  if (p.unaligned) return {};
  const std::int64_t bytes = input_bytes(p.data_type), cached = cache_bytes(p);
  const std::int64_t batches = p.mode == SequenceMode::group ? 1 : p.batch;
  const std::int64_t batches_k = p.page_size > 0 ? a.pages.num_pages : batches;
  TS_TRY(check_gpu_alignment("q", a.q, a.q_strides, batches, p.heads_q, bytes));
  TS_TRY(check_gpu_alignment("k", a.k, a.k_strides, batches_k, p.heads_kv, cached));
  if (!p.latent) TS_TRY(check_gpu_alignment("v", a.v, a.v_strides, batches_k, p.heads_kv, cached));
  return check_gpu_alignment("o", a.o, a.o_strides, batches, p.heads_q, bits_of(output_type(p.data_type)) / 8);
}

}  // namespace tilesmith
