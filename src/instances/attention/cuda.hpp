// Enumeration of NVIDIA attention-forward instances: which signatures the templates of kernels/cuda carry, which tiles
// a chip holds, and in which order they are worth trying.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "instances/attention/cuda_resources.hpp"
#include "instances/rule.hpp"
#include "instances/sink.hpp"
#include "spec/cuda/spec.hpp"

namespace tilesmith {

/// What the rules look at.
struct CudaAttentionSubject {
  const KernelConfig& config;
  const CudaSpec& spec;

  [[nodiscard]] const AttentionSignature& signature() const { return config.attention(); }
  [[nodiscard]] const Algorithm& algorithm() const { return config.algorithm; }
  [[nodiscard]] int tile_m() const { return config.algorithm.tile[0]; }
  [[nodiscard]] int tile_n() const { return config.algorithm.tile[1]; }
  [[nodiscard]] bool is_warp_specialized() const { return config.algorithm.pipeline == Pipeline::warp_specialized; }
};

[[nodiscard]] std::span<const Rule<CudaAttentionSubject>> cuda_attention_rules();

/// The sizes of a problem, as far as they decide between tiles. Group mode: the longest sequence's.
struct CudaAttentionShape {
  std::int64_t batch = 1;
  std::int64_t heads_q = 1;
  std::int64_t heads_kv = 1;
  std::int64_t seqlen_q = 0;
  std::int64_t seqlen_k = 0;
  /// An elementwise bias suits the copy engine: contiguous keys, a pointer and rows of whole 16 bytes.
  bool bias_can_be_copied = true;
  double visible = 1;  ///< share of the query-key pairs that the mask leaves
};

/// The signature without what makes no difference to a kernel: a negative scale is told apart only where the softmax
/// holds the scale, which it does not with a soft cap or an elementwise bias.
[[nodiscard]] AttentionSignature cuda_attention_signature(AttentionSignature signature);

/// The instances of one architecture for one signature: every pipeline and tile that the rules accept, in the tile
/// table's order, each with every number of packed heads in `pack_gqa`.
void enumerate_cuda_attention(const CudaSpec& spec, const AttentionSignature& signature, std::span<const int> pack_gqa,
                              ConfigSink sink);

/// All instances of one architecture: every data type, head dim, trait, tile and listed packing that the rules accept.
void enumerate_cuda_attention(const CudaSpec& spec, ConfigSink sink);

/// The instances that can compute a problem, the one to run first in front: the tile table's first choice for it, then
/// the others by `estimated_seconds`. Heads are packed where that leaves fewer tiles. Empty when the rules refuse all.
[[nodiscard]] std::vector<KernelConfig> ranked_cuda_attention(const CudaSpec& spec, const AttentionSignature& signature,
                                                              const CudaAttentionShape& shape);

/// Seconds that an instance should take on the spec's reference chip (whose figures may be set to the device's at
/// hand): waves of tiles over the SMs at the tile's efficiency, or the time the tensors take to pass through memory. It
/// orders alternatives; it predicts no more than that.
[[nodiscard]] double estimated_seconds(const KernelConfig& config, const CudaSpec& spec,
                                       const CudaAttentionShape& shape);

}  // namespace tilesmith
