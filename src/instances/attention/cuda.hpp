// Enumeration of NVIDIA attention-forward instances: which signatures the templates of kernels/cuda carry, which tiles
// a chip holds.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "instances/attention/cuda_resources.hpp"
#include "instances/attention/gpu_signature.hpp"
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
  [[nodiscard]] bool is_decode() const { return tilesmith::is_decode(config.algorithm.pipeline); }
  [[nodiscard]] bool is_decode_wgmma() const { return config.algorithm.pipeline == Pipeline::decode_wgmma; }
  /// Worked out once for all rules: a new problem is ranked by asking some dozens of subjects.
  [[nodiscard]] const CudaAttentionResources& facts() const {
    if (!known_facts) known_facts = cuda_attention_resources(config);
    return *known_facts;
  }

  mutable std::optional<CudaAttentionResources> known_facts = {};
};

[[nodiscard]] std::span<const Rule<CudaAttentionSubject>> cuda_attention_rules();

/// A config of the tile table, the row it was made from, and the first rule that refuses it; null: it is an instance.
/// Returns false to stop the walk.
using CudaAttentionVisit =
    FunctionRef<bool(const KernelConfig&, const CudaTile& row, const Rule<CudaAttentionSubject>* refused)>;

/// The space of one signature: every row of the tile table that is meant for its head dims and data type, in the
/// table's order, each with every number of packed heads in `pack_gqa`.
void walk_cuda_attention(const CudaSpec& spec, const AttentionSignature& signature, std::span<const int> pack_gqa,
                         CudaAttentionVisit visit);

/// The instances of one architecture for one signature: what the rules accept of its space, in the same
/// order.
void enumerate_cuda_attention(const CudaSpec& spec, const AttentionSignature& signature, std::span<const int> pack_gqa,
                              ConfigSink sink);

/// The signatures that listings hold: every data type, head dim of the facts and trait, each once.
void listed_attention_signatures(const CudaSpec& spec, AttentionSignatureSink sink);

/// All instances of one architecture: every data type, head dim, trait, tile and listed packing that the rules accept.
void enumerate_cuda_attention(const CudaSpec& spec, ConfigSink sink);

}  // namespace tilesmith
