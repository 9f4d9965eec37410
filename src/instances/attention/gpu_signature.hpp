// Signatures of attention kernels on GPUs of every vendor.
#pragma once

#include "instances/sink.hpp"
#include "vocabulary/signature.hpp"

namespace tilesmith {

/// The signature without what makes no difference to a kernel: a negative scale is told apart only where the softmax
/// holds the scale, which it does not with a soft cap or an elementwise bias.
[[nodiscard]] inline AttentionSignature gpu_attention_signature(AttentionSignature signature) {
  if (signature.soft_cap || signature.bias == BiasKind::elementwise) signature.negative_scale = false;
  return signature;
}

/// Whether keys and values have 8 bits beside wider queries.
[[nodiscard]] constexpr bool has_narrow_cache(const AttentionSignature& signature) {
  return signature.cache != KvElements::as_queries;
}

/// Every mode, mask, bias and flag of the signature, each once; `pages`: also with keys in pages, of 16 bits and of 8,
/// these with scales of sequences and of pages, unless the signature has scales already. Returns whether the sink
/// wanted all.
bool walk_gpu_attention_traits(AttentionSignature signature, bool pages, AttentionSignatureSink sink);

}  // namespace tilesmith
