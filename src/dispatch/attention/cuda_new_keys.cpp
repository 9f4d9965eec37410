#include "dispatch/attention/cuda_new_keys.hpp"

#include <cstdint>

#include "dispatch/attention/gpu_arguments.hpp"
#include "dispatch/serving/cuda_arguments.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kUnit = 16;  // elements that are turned together

bool in_chunks(const void* data, const AttentionStrides& s, std::int64_t members, std::int64_t heads) {
  return check_gpu_alignment("", data, s, members, heads, 2).has_value();
}

bool at_chunk(const float* table) {
  return reinterpret_cast<std::uintptr_t>(table) % kGpuAlignment == 0;
}

}  // namespace

bool new_keys_in_chunks(const AttentionProblem& p, const AttentionArguments& a) {
  const AttentionAppend& n = a.append;
  const std::int64_t members = p.mode == SequenceMode::group ? 1 : p.batch;
  const Rotary& r = n.rotary;
  return n.slots == nullptr && in_chunks(n.k, n.k_strides, members, p.heads_kv) &&
         in_chunks(n.v, n.v_strides, members, p.heads_kv) && in_chunks(a.q, a.q_strides, members, p.heads_q) &&
         (r.dim == 0 ||
          (r.dim % kUnit == 0 && n.q_out != a.q && in_chunks(n.q_out, n.q_out_strides, members, p.heads_q) &&
           at_chunk(r.cos) && at_chunk(r.sin) &&
           r.row_stride * static_cast<std::int64_t>(sizeof(float)) % kGpuAlignment == 0));
}

TsCudaNewKeys cuda_new_keys(const AttentionAppend& n) {
  TsCudaNewKeys out{};
  out.k = n.k;
  out.v = n.v;
  out.k_strides = kernel_strides(n.k_strides);
  out.v_strides = kernel_strides(n.v_strides);
  out.q_out = n.rotary.dim > 0 ? n.q_out : nullptr;
  out.q_out_strides = kernel_strides(n.q_out_strides);
  out.positions = reinterpret_cast<const long long*>(n.positions);
  out.rotary_cos = n.rotary.cos;
  out.rotary_sin = n.rotary.sin;
  out.rotary_positions = n.rotary.positions;
  out.rotary_row_stride = n.rotary.row_stride;
  out.rotary_dim = static_cast<int>(n.rotary.dim);
  out.interleaved = n.rotary.style == RotaryStyle::interleaved ? 1 : 0;
  return out;
}

}  // namespace tilesmith
