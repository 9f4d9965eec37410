// Enumeration of CPU attention-forward instances: which signatures the templates carry, and which tiles are worth
// trying for each.
#pragma once

#include <span>

#include "instances/rule.hpp"
#include "instances/sink.hpp"
#include "spec/cpu/spec.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// What the rules look at. The spec's cache sizes are the machine's own when it is the machine at hand.
struct CpuAttentionSubject {
  const KernelConfig& config;
  const CpuSpec& spec;

  [[nodiscard]] const AttentionSignature& signature() const { return config.attention(); }
  [[nodiscard]] int tile_m() const { return config.algorithm.tile[0]; }
  [[nodiscard]] int tile_n() const { return config.algorithm.tile[1]; }
  [[nodiscard]] bool is_generic() const { return config.algorithm.pipeline == Pipeline::generic; }
};

[[nodiscard]] std::span<const Rule<CpuAttentionSubject>> cpu_attention_rules();

/// Bytes of thread-private memory one task of the kernel works on: Q, a block of K and V, scores, accumulators. They
/// should stay in L2.
[[nodiscard]] long working_set_bytes(const CpuAttentionSubject& subject);

/// A config of the level's space, and the first rule that refuses it; null: it is an instance. Returns false to stop.
using CpuAttentionVisit = FunctionRef<bool(const KernelConfig&, const Rule<CpuAttentionSubject>* refused)>;

/// The space of one signature: every instruction, pipeline and tile that the level's facts list.
void walk_cpu_attention(const CpuSpec& spec, const AttentionSignature& signature, CpuAttentionVisit visit);

/// The instances of one level for one signature: what the rules accept of its space, in the same order.
void enumerate_cpu_attention(const CpuSpec& spec, const AttentionSignature& signature, ConfigSink sink);

/// The level's kernel of a data type that takes every trait and head dim at run time: it serves what no other does.
[[nodiscard]] KernelConfig generic_cpu_attention(const CpuSpec& spec, DataType type);

/// The data types that generic kernels exist for.
[[nodiscard]] std::span<const DataType> generic_cpu_attention_types();

/// The signatures that listings hold, but those of generic kernels: every data type, head dim of the facts and trait.
void listed_attention_signatures(const CpuSpec& spec, AttentionSignatureSink sink);

/// All instances of one level: every data type, head dim, trait and tile that the rules accept.
void enumerate_cpu_attention(const CpuSpec& spec, ConfigSink sink);

}  // namespace tilesmith
