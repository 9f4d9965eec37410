#include "instances/attention/gpu_signature.hpp"

namespace tilesmith {
namespace {

bool walk_narrow_caches(AttentionSignature signature, AttentionSignatureSink sink) {
  for (const KvElements cache : {KvElements::fp8, KvElements::int8})
    for (const QuantScale scale : {QuantScale::none, QuantScale::kv_blockscale}) {
      signature.cache = cache;
      signature.qscale = scale;
      if (!sink(signature)) return false;
    }
  return true;
}

}  // namespace

bool walk_gpu_attention_traits(AttentionSignature signature, bool pages, AttentionSignatureSink sink) {
  for (const SequenceMode mode : {SequenceMode::batch, SequenceMode::group})
    for (const MaskKind mask : {MaskKind::none, MaskKind::causal, MaskKind::generic})
      for (const BiasKind bias : {BiasKind::none, BiasKind::elementwise, BiasKind::alibi})
        for (unsigned flags = 0; flags < (pages ? 64 : 32); ++flags) {
          signature.mode = mode;
          signature.mask = mask;
          signature.bias = bias;
          signature.lse = (flags & 1) != 0;
          signature.dropout = (flags & 2) != 0;
          signature.soft_cap = (flags & 4) != 0;
          signature.sink = (flags & 8) != 0;
          signature.negative_scale = (flags & 16) != 0;
          signature.paged_kv = (flags & 32) != 0;
          if (gpu_attention_signature(signature) != signature) continue;  // the same kernels again
          if (!sink(signature)) return false;
          if (signature.paged_kv && signature.qscale == QuantScale::none && !walk_narrow_caches(signature, sink))
            return false;
        }
  return true;
}

}  // namespace tilesmith
