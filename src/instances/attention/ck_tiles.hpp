// The tiles of AMD attention kernels: swept over axes under rules, or fixed per family and head dims.
#pragma once

#include <vector>

#include "instances/attention/ck.hpp"

namespace tilesmith {

struct AttentionTile {
  std::array<std::uint16_t, 9> tile{};
  std::array<std::uint16_t, 9> wave{};
  std::array<std::uint16_t, 9> warp{};
  TileTag tag = TileTag::none;
  bool use_trload = false;
  bool batch_only = false;
};

/// The tiles of a family for one data type, head dims and pipeline, in upstream's order.
[[nodiscard]] std::vector<AttentionTile> amd_attention_tiles(const AmdAttentionQuery& query, AttentionFamily family,
                                                             DataType type, HeadDims dims, Pipeline pipeline);

/// The tags whose tiles the backward family has for these head dims, each with its tile, in upstream's order. Main
/// tiles come first.
[[nodiscard]] std::vector<AttentionTile> amd_backward_tiles(const AmdAttentionSpec& spec, HeadDims dims, bool main);

/// What makes a tile of the axes a candidate, and what the rules ask of a candidate.
[[nodiscard]] std::span<const Rule<AmdAttentionSubject>> amd_candidate_tile_rules();
[[nodiscard]] std::span<const Rule<AmdAttentionSubject>> amd_forward_tile_rules();
[[nodiscard]] std::span<const Rule<AmdAttentionSubject>> amd_splitkv_tile_rules();

/// Bytes of local memory the asynchronous pipelines take for a tile: three buffers of the larger of K and V as they lie
/// there.
[[nodiscard]] long amd_async_lds_bytes(const AmdAttentionSubject& subject);
[[nodiscard]] long amd_sync_lds_bytes(const AmdAttentionSubject& subject);
[[nodiscard]] bool is_async(const AmdAttentionSpec& spec, Pipeline pipeline);

}  // namespace tilesmith
