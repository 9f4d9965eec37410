// Enumeration of AMD attention instances: what Composable Kernel's dispatcher builds on a chip, in its order.
//
// A list is a product of features (specs/amd/ck/attention.json, amd_attention_features.hpp) and tiles (swept under
// named rules or fixed, amd_attention_tiles.hpp), walked family by family in constant memory.
#pragma once

#include <vector>

#include "base/error.hpp"
#include "instances/mode.hpp"
#include "instances/rule.hpp"
#include "instances/sink.hpp"
#include "instances/sweep.hpp"
#include "spec/amd/chip.hpp"
#include "spec/amd/ck_attention.hpp"

namespace tilesmith {

struct AmdAttentionQuery {
  const AmdChip& chip;
  const AmdAttentionSpec& spec;
  EnumerationMode mode = EnumerationMode::rules;
  int receipt = 0;
  AttentionSweep sweep{};
  std::vector<HeadDims> head_dims{};  ///< empty: all
};

/// What the rules look at.
struct AmdAttentionSubject {
  const KernelConfig& config;
  const AmdChip& chip;
  const AmdAttentionSpec& spec;

  [[nodiscard]] const AttentionSignature& signature() const { return config.attention(); }
  [[nodiscard]] const Algorithm& algorithm() const { return config.algorithm; }
  [[nodiscard]] int m0() const { return config.algorithm.tile[0]; }
  [[nodiscard]] int n0() const { return config.algorithm.tile[1]; }
  [[nodiscard]] int k0() const { return config.algorithm.tile[2]; }
  [[nodiscard]] const AmdAttentionSpec::TypeProperties* facts() const { return spec.facts_of(signature().data_type); }
};

/// The pairs of head dims that a family is built for with a data type.
[[nodiscard]] std::vector<HeadDims> amd_attention_head_dims(const AmdChip& chip, const AmdAttentionSpec& spec,
                                                            AttentionFamily family, DataType type);

/// The families a variant consists of, in enumeration order.
[[nodiscard]] std::vector<AttentionFamily> families_of(AttentionVariant variant);
[[nodiscard]] AttentionVariant variant_of(AttentionFamily family);

/// The instances of one variant in upstream's order. The chip must have attention facts. Mode sound enumerates the same
/// list as rules: whoever wants only the sound ones asks amd_attention_sound_rules() of each.
void enumerate_amd_attention(const AmdAttentionQuery& query, AttentionVariant variant, ConfigSink sink);

/// Why a config is or is not in the chip's list of mode rules: its type, its features, its tile.
[[nodiscard]] std::span<const Rule<AmdAttentionSubject>> amd_attention_list_rules(AttentionFamily family);

/// What upstream's validator and the silicon ask of an instance.
[[nodiscard]] std::span<const Rule<AmdAttentionSubject>> amd_attention_sound_rules();

/// What Composable Kernel's templates ask of an instance whose source is to compile to a kernel.
[[nodiscard]] std::span<const Rule<AmdAttentionSubject>> amd_attention_source_rules();

/// Fills in what a name does not say: waves, the fragments of further products, the last backward figures.
void complete_amd_attention(const AmdAttentionSpec& spec, KernelConfig& config);

}  // namespace tilesmith
