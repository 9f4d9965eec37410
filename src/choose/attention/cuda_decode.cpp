#include "choose/attention/cuda_decode.hpp"

#include <algorithm>
#include <cmath>

#include "choose/rounding.hpp"
#include "instances/attention/cuda_resources.hpp"
#include "instances/attention/gpu_signature.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

/// Pieces that an item may have: more only make the join longer.
constexpr std::int64_t kMostPieces = 512;
/// Blocks of keys of a piece whose start and end take little of its time.
constexpr std::int64_t kLongEnough = 16;
/// Rows of the largest tile.
constexpr std::int64_t kMostRows = 16 * kDecodeWarps;

// Read off runs on an H200 (docs/log/2026-11-cuda-decode.md): a launch until its first keys have come, beside what the
// chip's launches take anyway; what of that other blocks of the SM do not cover when one block follows another; how
// long a copy is under way, which bounds what a block alone reads; what the last arriver of an item takes, and for each
// partial that it reads; and the share that the copies reach of what one stream through memory does.
constexpr double kStartSeconds = 5.3e-6;
constexpr double kTurnSeconds = 0.3e-6;
constexpr double kCopySeconds = 2.2e-6;
constexpr double kJoinSeconds = 1.1e-6;
constexpr double kPartSeconds = 0.12e-6;
constexpr double kBandwidthShare = 0.93;

std::int64_t group_of(const CudaAttentionShape& shape) {
  return shape.heads_kv > 0 ? shape.heads_q / shape.heads_kv : 1;
}

}  // namespace

bool suits_decode(const CudaAttentionShape& shape) {
  return shape.paged || shape.seqlen_q * group_of(shape) <= kMostRows;
}

CudaDecodeWork cuda_decode_work(const KernelConfig& config, const CudaSpec& spec, const CudaAttentionShape& shape) {
  const CudaAttentionResources facts = cuda_attention_resources(config);
  const CudaReferenceChip& chip = spec.reference;
  CudaDecodeWork work;
  const std::int64_t rows = shape.seqlen_q * group_of(shape);
  work.row_blocks = std::max<std::int64_t>(1, ceil_div(rows, std::int64_t{facts.tile_rows}));
  work.items = shape.batch * shape.heads_kv * work.row_blocks;

  // A window may begin amid a block of keys, and its tile's queries see as many keys more as they are.
  const std::int64_t all_tiles = ceil_div(shape.seqlen_k, std::int64_t{facts.tile_keys});
  const std::int64_t seen = std::min(shape.seqlen_k, shape.window_keys + std::min(shape.seqlen_q, rows));
  const std::int64_t tiles = std::max<std::int64_t>(
      1, shape.window_keys < shape.seqlen_k ? std::min(all_tiles, seen / facts.tile_keys + 2) : all_tiles);

  const AttentionSignature& s = config.attention();
  const double tile_bytes = (has_narrow_cache(s) ? 8 : bits_of(s.data_type)) / 8.0 * facts.tile_keys *
                            (s.head_dim_qk + (s.latent ? 0 : s.head_dim_v));
  const double rate = chip.bytes_per_second * chip.reached_bandwidth * kBandwidthShare;
  const double alone = kCopySeconds / std::max<int>(1, config.algorithm.stages);
  const auto slots = static_cast<double>(std::int64_t{chip.sms} * facts.blocks_per_sm);
  CudaDecodeWork best;
  const auto take = [&](std::int64_t items, std::int64_t piece_tiles) {
    CudaDecodeWork cut = work;
    cut.piece_tiles = piece_tiles;
    cut.pieces = ceil_div(tiles, piece_tiles);
    cut.blocks = items * cut.pieces;
    const auto blocks = static_cast<double>(cut.blocks), pieces = static_cast<double>(cut.pieces);
    // Blocks share the bandwidth, so those of the last round, if few, are faster than others, up to what one alone
    // reads.
    const double rounds = std::floor(blocks / slots), rest = blocks - rounds * slots;
    const double steps =
        rounds * slots * tile_bytes / rate + (rest > 0 ? std::max(rest * tile_bytes / rate, alone) : 0);
    cut.seconds = chip.launch_us * 1e-6 + kStartSeconds + blocks / slots * kTurnSeconds +
                  static_cast<double>(piece_tiles) * steps +
                  (cut.pieces > 1 ? kJoinSeconds + kPartSeconds * pieces : 0);
    return cut;
  };
  const auto best_of = [&](std::int64_t items) {
    CudaDecodeWork least = take(items, tiles);
    for (std::int64_t pieces = 2; pieces <= std::min(tiles, kMostPieces); ++pieces)
      if (const CudaDecodeWork cut = take(items, ceil_div(tiles, pieces)); cut.seconds < least.seconds) least = cut;
    return least;
  };
  if (shape.splits > 0) {
    best = take(work.items, ceil_div(tiles, std::min(shape.splits, tiles)));
  } else {
    best = best_of(work.items);
    if (shape.uneven) {
      const std::int64_t for_longest = best_of(shape.heads_kv * work.row_blocks).piece_tiles;
      best = take(work.items, std::max(for_longest, std::min(best.piece_tiles, kLongEnough)));
    }
  }
  if (shape.uneven) best.blocks = std::min(best.blocks, static_cast<std::int64_t>(slots));
  return best;
}

}  // namespace tilesmith
