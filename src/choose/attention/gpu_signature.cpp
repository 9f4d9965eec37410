#include "choose/attention/gpu_signature.hpp"

#include "instances/attention/gpu_signature.hpp"
#include "problem/attention/problem.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {

AttentionSignature gpu_signature_of(const AttentionProblem& p) {
  AttentionSignature s = signature_of(p);
  s.data_type = p.data_type;
  const MaskWindow window = window_of(p);
  s.mask = window.left >= 0 ? MaskKind::generic : window.right >= 0 ? MaskKind::causal : MaskKind::none;
  s.negative_scale = p.negative_scale;
  // A kernel that copies rows 16 bytes at a time would copy what lies behind other rows.
  const int bits = bits_of(s.data_type);
  const std::int64_t cached = 8 * cache_bytes(p);
  s.unaligned = p.unaligned || p.head_dim_qk * bits % 128 != 0 || p.head_dim_v * bits % 128 != 0 ||
                p.head_dim_qk * cached % 128 != 0 || p.head_dim_v * cached % 128 != 0;
  s.latent = p.latent;
  if (p.page_scale) s.qscale = QuantScale::kv_blockscale;
  if (input_type(p.data_type) == DataType::fp8)
    s.qscale = p.block_scale ? QuantScale::blockscale : QuantScale::pertensor;
  return gpu_attention_signature(s);
}

}  // namespace tilesmith
