#include "dispatch/attention/cuda_arguments.hpp"

#include <fmt/format.h>

#include <cstdint>

#include "base/error.hpp"

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

}  // namespace tilesmith
