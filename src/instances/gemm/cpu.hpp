// Enumeration of CPU GEMM instances: which signatures the templates carry, and which tiles are worth trying for each.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "instances/gemm/cpu_epilogue.hpp"
#include "instances/gemm/variants.hpp"
#include "instances/rule.hpp"
#include "instances/sink.hpp"
#include "spec/cpu/spec.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// What the rules look at. The spec's cache sizes are the machine's own when it is the machine at hand.
struct CpuGemmSubject {
  const KernelConfig& config;
  const CpuSpec& spec;

  [[nodiscard]] const GemmSignature& signature() const { return std::get<GemmSignature>(config.signature); }
  [[nodiscard]] bool is_generic() const { return config.algorithm.pipeline == Pipeline::generic; }
  [[nodiscard]] int tile_m() const { return config.algorithm.tile[0]; }
  [[nodiscard]] int tile_n() const { return config.algorithm.tile[1]; }
  [[nodiscard]] int tile_k() const { return config.algorithm.tile[2]; }
  /// Null when the level does not offer the instruction.
  [[nodiscard]] const CpuGemmInstruction* facts() const;
};

[[nodiscard]] std::span<const Rule<CpuGemmSubject>> cpu_gemm_rules();

/// Rows of A that a skinny kernel takes at most.
inline constexpr int kCpuSkinnyRows = 16;

/// Bytes of A's block that a task packs and reads once for each panel of B. It should stay in L2.
[[nodiscard]] long packed_block_bytes(const CpuGemmSubject& subject);

/// Elements of k that a skinny kernel takes at most: it counts the elements of a task in 32 bits
/// (kernels/cpu/gemm/skinny.h).
inline constexpr std::int64_t kCpuSkinnyDepth = std::int64_t{1} << 30;

/// A config of the level's space, and the first rule that refuses it; null: it is an instance. Returns false to stop.
using CpuGemmVisit = FunctionRef<bool(const KernelConfig&, const Rule<CpuGemmSubject>* refused)>;

/// The space of one signature: every instruction, pipeline and tile that the level's facts list, with and without parts
/// of k.
void walk_cpu_gemm(const CpuSpec& spec, const GemmSignature& signature, CpuGemmVisit visit);

/// The instances of one level for one signature: what the rules accept of its space, in the same order, and behind it
/// the generic kernel, if the signature is its own.
void enumerate_cpu_gemm(const CpuSpec& spec, const GemmSignature& signature, ConfigSink sink);

/// A level's generic kernel: it computes every problem whose B is not packed, whatever its types, orders and epilogue.
/// Its signature is that of plain products in fp32, which is what it computes in; absent where the level adds none of
/// them to those below.
[[nodiscard]] std::optional<KernelConfig> generic_cpu_gemm(const CpuSpec& spec);

/// The plain signatures that listings hold, of one layout by the letters of A, B and D ("rcr"; empty: all four): every
/// data type, the results usual for it, the epilogues of the level's facts.
void listed_gemm_signatures(const CpuSpec& spec, std::string_view layout, GemmSignatureSink sink);

/// The instances of one level and layout, of the plain signatures.
void enumerate_cpu_gemm(const CpuSpec& spec, std::string_view layout, ConfigSink sink);

}  // namespace tilesmith
