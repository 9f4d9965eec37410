// Enumeration of CPU attention-backward instances.
#pragma once

#include <span>

#include "instances/rule.hpp"
#include "instances/sink.hpp"
#include "spec/cpu/spec.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

struct CpuAttentionBackwardSubject {
  const KernelConfig& config;
  const CpuSpec& spec;

  [[nodiscard]] const AttentionSignature& signature() const { return config.attention(); }
  [[nodiscard]] int tile_m() const { return config.algorithm.tile[0]; }
  [[nodiscard]] int tile_n() const { return config.algorithm.tile[1]; }
  [[nodiscard]] bool is_generic() const { return config.algorithm.pipeline == Pipeline::generic; }
};

[[nodiscard]] std::span<const Rule<CpuAttentionBackwardSubject>> cpu_attention_backward_rules();

/// The level's kernel of a data type that takes every trait and head dim at run time: it serves what no other does.
[[nodiscard]] KernelConfig generic_cpu_attention_backward(const CpuSpec& spec, DataType type);

/// The data types that generic kernels exist for.
[[nodiscard]] std::span<const DataType> generic_cpu_attention_backward_types();

/// The signature of the flash kernels that compute problems of a signature: what they take at run time is the same in
/// all of them. What they do not carry stays, for the rules to refuse.
[[nodiscard]] AttentionSignature flash_backward_signature(AttentionSignature wanted);

/// Bytes of thread-private memory that a tile works on: its operands in the orders that the products read, weights,
/// sums of its keys. They should stay in L2.
[[nodiscard]] long backward_working_set_bytes(const CpuAttentionBackwardSubject& subject);

/// A config of the level's space, and the first rule that refuses it; null: it is an instance. Returns false to stop.
using CpuAttentionBackwardVisit =
    FunctionRef<bool(const KernelConfig&, const Rule<CpuAttentionBackwardSubject>* refused)>;

/// The flash kernels for problems of a signature: every instruction and tile that the level's facts list.
void walk_cpu_attention_backward(const CpuSpec& spec, const AttentionSignature& wanted,
                                 CpuAttentionBackwardVisit visit);

/// The instances of one level for one signature: flash kernels that the rules accept, or the generic one.
void enumerate_cpu_attention_backward(const CpuSpec& spec, const AttentionSignature& signature, ConfigSink sink);

/// The signatures of flash kernels that listings hold: every data type, head dim of the facts and trait.
void listed_backward_signatures(const CpuSpec& spec, AttentionSignatureSink sink);

/// All instances of one level.
void enumerate_cpu_attention_backward(const CpuSpec& spec, ConfigSink sink);

}  // namespace tilesmith
