// Enumeration of own attention-forward instances for AMD GPUs: which signatures the template of kernels/hip/attention
// carries, and which tiles a chip holds. Composable Kernel's are ck.hpp.
#pragma once

#include <span>

#include "instances/attention/gpu_signature.hpp"
#include "instances/attention/hip_resources.hpp"
#include "instances/rule.hpp"
#include "instances/sink.hpp"
#include "spec/hip/spec.hpp"

namespace tilesmith {

/// What the rules look at.
struct HipAttentionSubject {
  const KernelConfig& config;
  const HipSpec& spec;

  [[nodiscard]] const AttentionSignature& signature() const { return config.attention(); }
  [[nodiscard]] const Algorithm& algorithm() const { return config.algorithm; }
  /// One of the two steps that share out keys: blocks of pieces of keys, and the join of their partial results.
  [[nodiscard]] bool is_split() const {
    return config.algorithm.pipeline == Pipeline::decode || config.algorithm.pipeline == Pipeline::rowwise;
  }
  /// The instruction; null where the chip has none for the type and the side.
  [[nodiscard]] const HipFragment* fragment() const {
    return spec.fragment(signature().data_type, config.algorithm.warp[0]);
  }
};

[[nodiscard]] std::span<const Rule<HipAttentionSubject>> hip_attention_rules();

/// The algorithm that a row of the tile table stands for.
[[nodiscard]] Algorithm hip_attention_algorithm(const HipSpec& spec, const AttentionSignature& signature,
                                                const HipAttentionTile& tile);

/// A config of the tile table and the first rule that refuses it; null: it is an instance. Returns false to stop.
using HipAttentionVisit = FunctionRef<bool(const KernelConfig&, const Rule<HipAttentionSubject>* refused)>;

/// Every row of the tile table that is meant for the signature's head dims, in the table's order.
void walk_hip_attention(const HipSpec& spec, const AttentionSignature& signature, HipAttentionVisit visit);

/// The kernel that joins the partial results of a decode kernel.
[[nodiscard]] KernelConfig hip_attention_join(KernelConfig decode);

/// The instances of one architecture for one signature, each decode kernel before the one that joins its results.
void enumerate_hip_attention(const HipSpec& spec, const AttentionSignature& signature, ConfigSink sink);

/// The signatures that listings hold: every data type, head dim of the facts and trait, each once.
void listed_attention_signatures(const HipSpec& spec, AttentionSignatureSink sink);

/// All instances of one architecture.
void enumerate_hip_attention(const HipSpec& spec, ConfigSink sink);

}  // namespace tilesmith
