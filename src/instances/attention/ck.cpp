#include "instances/attention/ck.hpp"

#include <algorithm>

#include "instances/attention/ck_features.hpp"
#include "instances/attention/ck_tiles.hpp"

namespace tilesmith {
namespace {

using F = AttentionFamily;

/// Walks families; `go` turns false when the sink has enough.
class Walk {
 public:
  Walk(const AmdAttentionQuery& query, ConfigSink sink) : query_(query), sink_(sink) {
    config_.origin = Origin::ck;
    config_.arch = query.chip.arch;
  }

  void variant(AttentionVariant variant);

 private:
  /// One family for one data type and one pair of head dims. Tiles are outermost, except for fwd in the modes with
  /// rules.
  void family(F family, DataType type, HeadDims dims);
  void backward(DataType type);
  void backward_tiles(DataType type, HeadDims dims, bool main);

  void tiles_first(F family, const std::vector<AttentionTile>& tiles, const std::vector<AttentionFeature>& features);
  void features_first(const std::vector<AttentionFeature>& features, DataType type, HeadDims dims);
  /// Features of one mode that the sweep wants and the padding allows.
  [[nodiscard]] std::vector<AttentionFeature> in_mode(const std::vector<AttentionFeature>& features,
                                                      SequenceMode mode) const;

  void set(const AttentionTile& tile);
  void set(const AttentionFeature& feature);
  bool send() { return go_ = sink_(config_); }

  [[nodiscard]] std::vector<HeadDims> head_dims(F family, DataType type) const;
  [[nodiscard]] bool exhaustive() const { return query_.mode == EnumerationMode::exhaustive; }

  const AmdAttentionQuery& query_;
  ConfigSink sink_;
  KernelConfig config_;
  bool go_ = true;
};

/// The modes a family is built for.
std::vector<SequenceMode> modes_of(F family) {
  if (family == F::fwd_appendkv) return {SequenceMode::batch};
  if (family == F::batch_prefill) return {SequenceMode::group};
  return {SequenceMode::batch, SequenceMode::group};
}

void Walk::set(const AttentionTile& tile) {
  config_.algorithm.tile = tile.tile;
  config_.algorithm.wave = tile.wave;
  config_.algorithm.warp = tile.warp;
  config_.algorithm.tag = tile.tag;
  config_.algorithm.use_trload = tile.use_trload;
}

void Walk::set(const AttentionFeature& feature) {
  config_.attention() = feature.signature;
  config_.algorithm.pipeline = feature.pipeline;
  config_.algorithm.pad = feature.pad;
}

std::vector<AttentionFeature> Walk::in_mode(const std::vector<AttentionFeature>& features, SequenceMode mode) const {
  std::vector<AttentionFeature> out;
  for (const AttentionFeature& feature : features) {
    AttentionFeature candidate = feature;
    candidate.signature.mode = mode;
    const bool padded =
        exhaustive() || mode == SequenceMode::batch || group_mode_is_padded(candidate.signature.family, candidate.pad);
    if (padded && query_.sweep.allows(candidate.signature.family, candidate)) out.push_back(candidate);
  }
  return out;
}

void Walk::features_first(const std::vector<AttentionFeature>& features, DataType type, HeadDims dims) {
  std::array<std::vector<AttentionTile>, enum_size<Pipeline>()> tiles;
  std::array<bool, enum_size<Pipeline>()> known{};
  for (const SequenceMode mode : modes_of(F::fwd))
    for (const AttentionFeature& feature : in_mode(features, mode)) {
      const auto pipeline = static_cast<std::size_t>(feature.pipeline);
      if (!known[pipeline]) tiles[pipeline] = amd_attention_tiles(query_, F::fwd, type, dims, feature.pipeline);
      known[pipeline] = true;
      set(feature);
      for (const AttentionTile& tile : tiles[pipeline]) {
        set(tile);
        for (const std::int16_t per_cu : query_.sweep.block_per_cu) {
          config_.algorithm.block_per_cu = per_cu;
          if (!send()) return;
        }
      }
    }
}

void Walk::tiles_first(F family, const std::vector<AttentionTile>& tiles,
                       const std::vector<AttentionFeature>& features) {
  std::array<std::vector<AttentionFeature>, 2> by_mode;
  for (const SequenceMode mode : modes_of(family)) by_mode[static_cast<std::size_t>(mode)] = in_mode(features, mode);
  const std::vector<std::int16_t> swept = family == F::fwd ? query_.sweep.block_per_cu : std::vector<std::int16_t>{-1};
  const AmdAttentionSubject subject{config_, query_.chip, query_.spec};
  const Rule<AmdAttentionSubject>& page_rule = amd_attention_feature_rules()[3];
  for (const AttentionTile& tile : tiles) {
    set(tile);
    for (const SequenceMode mode : modes_of(family)) {
      if (tile.batch_only && mode == SequenceMode::group) continue;
      for (const AttentionFeature& feature : by_mode[static_cast<std::size_t>(mode)]) {
        set(feature);
        if (feature.signature.qscale == QuantScale::kv_blockscale && !page_rule.accepts(subject)) continue;
        for (const std::int16_t per_cu : swept) {
          config_.algorithm.block_per_cu = per_cu;
          if (!send()) return;
        }
      }
    }
  }
}

std::vector<HeadDims> Walk::head_dims(F family, DataType type) const {
  std::vector<HeadDims> dims;
  const bool listed_by_product =
      family == F::fwd_splitkv_combine || family == F::bwd_dot_do_o || family == F::bwd_convert_dq;
  if (listed_by_product)
    dims = amd_product_head_dims(query_, family, type);
  else if (const auto* facts = query_.spec.facts_of(type))
    dims = facts->head_dims;
  // Upstream restricts neither the combine kernels nor, by its rules, the backward ones.
  const bool restricted = !listed_by_product || (exhaustive() && family != F::fwd_splitkv_combine);
  if (restricted && !query_.head_dims.empty())
    std::erase_if(dims,
                  [&](HeadDims each) { return std::ranges::find(query_.head_dims, each) == query_.head_dims.end(); });
  return dims;
}

void Walk::family(F family, DataType type, HeadDims dims) {
  const std::vector<AttentionFeature> features = amd_attention_features(query_, family, type, dims);
  if (features.empty()) return;
  if (family == F::fwd && !exhaustive()) {
    features_first(features, type, dims);
    return;
  }
  // Exhaustive forward lists go through the pipelines one after the other; the rest have one.
  std::vector<Pipeline> pipelines;
  for (const AttentionFeature& feature : features)
    if (std::ranges::find(pipelines, feature.pipeline) == pipelines.end()) pipelines.push_back(feature.pipeline);
  for (const Pipeline pipeline : pipelines) {
    std::vector<AttentionFeature> own;
    std::ranges::copy_if(features, std::back_inserter(own),
                         [&](const AttentionFeature& f) { return f.pipeline == pipeline; });
    tiles_first(family, amd_attention_tiles(query_, family, type, dims, pipeline), own);
    if (!go_) return;
  }
}

void Walk::backward_tiles(DataType type, HeadDims dims, bool main) {
  for (const AttentionTile& tile : amd_backward_tiles(query_.spec, dims, main)) {
    tiles_first(F::bwd_dq_dk_dv, {tile}, amd_attention_features(query_, F::bwd_dq_dk_dv, type, dims, tile.tag));
    if (!go_) return;
  }
}

void Walk::backward(DataType type) {
  const auto each = [&](F name) {
    for (const HeadDims dims : head_dims(name, type)) {
      if (!go_) return;
      family(name, type, dims);
    }
  };
  each(F::bwd_dot_do_o);
  if (exhaustive()) {
    each(F::bwd_dq_dk_dv);
  } else {
    std::vector<HeadDims> dims;
    for (const auto& tile : query_.spec.backward_tiles)
      if (std::ranges::find(dims, tile.head_dims) == dims.end()) dims.push_back(tile.head_dims);
    for (const bool main : {true, false})
      for (const HeadDims pair : dims)
        if (go_) backward_tiles(type, pair, main);
  }
  each(F::bwd_convert_dq);
}

void Walk::variant(AttentionVariant variant) {
  if (variant == AttentionVariant::bwd) {
    for (const DataType type : amd_attention_data_types(query_, F::bwd_dq_dk_dv))
      if (go_) backward(type);
    return;
  }
  for (const F name : families_of(variant)) {
    if (name == F::fwd_splitkv_combine && exhaustive()) continue;
    for (const DataType type : amd_attention_data_types(query_, name))
      for (const HeadDims dims : head_dims(name, type)) {
        if (!go_) return;
        family(name, type, dims);
      }
  }
}

}  // namespace

std::vector<AttentionFamily> families_of(AttentionVariant variant) {
  switch (variant) {
    case AttentionVariant::fwd:
      return {F::fwd};
    case AttentionVariant::splitkv:
      return {F::fwd_splitkv, F::fwd_splitkv_combine};
    case AttentionVariant::pagedkv:
      return {F::fwd_pagedkv};
    case AttentionVariant::appendkv:
      return {F::fwd_appendkv};
    case AttentionVariant::batch_prefill:
      return {F::batch_prefill};
    case AttentionVariant::bwd:
      return {F::bwd_dot_do_o, F::bwd_dq_dk_dv, F::bwd_convert_dq};
  }
  return {};
}

AttentionVariant variant_of(AttentionFamily family) {
  for (const auto& entry : EnumTable<AttentionVariant>::kNames)
    if (std::ranges::count(families_of(entry.value), family) > 0) return entry.value;
  return AttentionVariant::fwd;
}

void enumerate_amd_attention(const AmdAttentionQuery& query, AttentionVariant variant, ConfigSink sink) {
  if (query.chip.attention) Walk(query, sink).variant(variant);
}

}  // namespace tilesmith
