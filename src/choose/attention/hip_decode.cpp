#include "choose/attention/hip_decode.hpp"

#include <algorithm>

#include "choose/attention/compute_unit_model.hpp"
#include "choose/compute_unit.hpp"
#include "choose/rounding.hpp"
#include "instances/attention/hip_resources.hpp"
#include "problem/attention/problem.hpp"

namespace tilesmith {
namespace {

/// Pieces that an item may have: more only make the join longer.
constexpr std::int64_t kMostPieces = 256;
/// Rows of the largest tile.
constexpr std::int64_t kMostRows = 64;
/// How long a block waits for a block of keys or of values: assumed, not measured.
constexpr double kFetchSeconds = 1e-6;
/// Floats of a partial row's state (TS_HIP_STATE_FLOATS of kernels/hip/attention/abi.h).
constexpr double kStateFloats = 4;

std::int64_t group_of(const AttentionProblem& p) {
  return p.heads_kv > 0 ? p.heads_q / p.heads_kv : 1;
}

/// The most blocks of keys that an item sees: a window may begin amid one, and its tile's queries see as many keys more
/// as they are.
std::int64_t most_tiles(const AttentionProblem& p, std::int64_t tile_keys) {
  const std::int64_t all = std::max<std::int64_t>(1, ceil_div(p.seqlen_k, tile_keys));
  const MaskWindow window = window_of(p);
  constexpr std::int64_t kFar = std::int64_t{1} << 40;
  if (window.left < 0 || window.right < 0 || window.left > kFar || window.right > kFar) return all;
  return std::min(all, (window.left + window.right + 1 + p.seqlen_q) / tile_keys + 2);
}

}  // namespace

bool suits_hip_decode(const AttentionProblem& p) {
  return p.page_size > 0 || p.latent || p.cache != KvElements::as_queries || p.seqlen_q * group_of(p) <= kMostRows;
}

HipDecodeWork hip_decode_work(const KernelConfig& config, const HipSpec& spec, const AttentionProblem& p) {
  const AttentionSignature& s = config.attention();
  const HipAttentionResources facts =
      hip_attention_resources(config, spec, *spec.fragment(s.data_type, config.algorithm.warp[0]));
  HipDecodeWork work;
  work.row_tiles = std::max<std::int64_t>(1, ceil_div(p.seqlen_q * group_of(p), std::int64_t{facts.tile_rows}));
  work.items = p.batch * p.heads_kv * work.row_tiles;
  const std::int64_t tiles = most_tiles(p, facts.tile_keys);
  const double rows = facts.tile_rows, keys = facts.tile_keys, columns = s.head_dim_qk + s.head_dim_v;
  // Every column's waves compute the scores.
  const double products = facts.column_waves * s.head_dim_qk + s.head_dim_v;

  const auto cut = [&](std::int64_t pieces) {
    HipDecodeWork out = work;
    out.piece_tiles = ceil_div(tiles, std::clamp<std::int64_t>(pieces, 1, tiles));
    out.pieces = ceil_div(tiles, out.piece_tiles);
    const ComputeUnitAttention each{.blocks = work.items * out.pieces,
                                    .steps = static_cast<double>(out.piece_tiles),
                                    .flops_of_step = 2 * rows * keys * products,
                                    .scores_of_step = facts.column_waves * rows * keys,
                                    .local_of_step = (facts.waves + 1) * keys * 2 * columns,
                                    .fetched_of_step = keys * static_cast<double>(cache_bytes(p)) * columns,
                                    .memory_bytes = bytes_of(p),
                                    .blocks_per_cu = facts.blocks_per_cu,
                                    .busy_share = facts.busy_share};
    // A block has one fetch under way: few blocks wait for memory, whatever its bandwidth.
    const std::int64_t places = std::int64_t{spec.reference.compute_units} * facts.blocks_per_cu;
    const double waits = static_cast<double>(ceil_div(each.blocks, std::max<std::int64_t>(places, 1))) *
                         (each.steps + 1) * kFetchSeconds;
    out.seconds = std::max(seconds_of(each, spec.reference, s.data_type), waits);
    if (out.pieces > 1)
      out.seconds += compute_unit::pass_seconds(2 * 4 * static_cast<double>(each.blocks) *
                                                    std::min(rows, static_cast<double>(p.seqlen_q * group_of(p))) *
                                                    (s.head_dim_v + kStateFloats),
                                                spec.reference);
    return out;
  };
  if (p.splits > 0) return cut(p.splits);
  HipDecodeWork best = cut(1);
  for (std::int64_t pieces = 2; pieces <= std::min(tiles, kMostPieces); ++pieces)
    if (const HipDecodeWork one = cut(pieces); one.seconds < best.seconds) best = one;
  return best;
}

}  // namespace tilesmith
