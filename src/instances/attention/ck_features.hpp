// The features of an AMD attention family: what its products (specs/amd/ck/attention.json) hold for one data type and
// pair of head dims.
#pragma once

#include <vector>

#include "instances/attention/ck.hpp"

namespace tilesmith {

/// Data types of the query on its chip, in upstream's order (by name).
[[nodiscard]] std::vector<DataType> amd_attention_data_types(const AmdAttentionQuery& query, AttentionFamily family);

/// The features for tiles with `tag`, in upstream's order; the sequence mode is left at batch.
[[nodiscard]] std::vector<AttentionFeature> amd_attention_features(const AmdAttentionQuery& query,
                                                                   AttentionFamily family, DataType type, HeadDims dims,
                                                                   TileTag tag = TileTag::none);

/// The head dims the family's products list for a data type; empty when they leave them to the data type.
[[nodiscard]] std::vector<HeadDims> amd_product_head_dims(const AmdAttentionQuery& query, AttentionFamily family,
                                                          DataType type);

/// Rules between features. The last two compare with the tile and hold for any feature that has none.
[[nodiscard]] std::span<const Rule<AmdAttentionSubject>> amd_attention_feature_rules();

/// Whether the padding lets the kernel take sequences of different lengths.
[[nodiscard]] bool group_mode_is_padded(AttentionFamily family, const std::array<std::uint8_t, 4>& pad);

[[nodiscard]] AttentionFeature feature_of(const KernelConfig& config);

}  // namespace tilesmith
