#include "choose/attention/cuda_decode.hpp"

#include <algorithm>
#include <cmath>

#include "choose/attention/cuda_terms.hpp"
#include "choose/rounding.hpp"
#include "instances/attention/cuda_resources.hpp"
#include "instances/attention/gpu_signature.hpp"
#include "kernels/cuda/attention/decode/abi.h"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

/// Pieces that an item may have: more only make the join longer.
constexpr std::int64_t kMostPieces = 512;
/// Blocks of a cluster on every chip that has clusters (CUDA C++ Programming Guide, thread block clusters).
constexpr std::int64_t kClusterBlocks = 8;
/// Of a piece of a batch-invariant call, at least. Partials of many rows, or of latent ones, are wide.
constexpr std::int64_t kInvariantKeys = 256, kInvariantKeysOfManyRows = 512, kInvariantLatentKeys = 1024;
constexpr std::int64_t kManyRows = 32;
/// Of threads, that a batch-invariant sequence is cut for: most SMs have one then, and a join takes one group in the
/// usual case of eight key heads.
constexpr std::int64_t kInvariantBlocks = 128;
/// Bytes that blocks read from L2 in the time of one from memory, at least: half of what the two rates say.
constexpr double kReadsOfL2 = 2;
/// Rows of the largest tile.
constexpr std::int64_t kMostRows = 16 * kDecodeWarps;
/// Tiles of a key head's rows, beside tiles of queries: more read its keys too often, and fill more of the chip uncut.
constexpr std::int64_t kFewTiles = 32;
/// Without a list, of the seconds that one long sequence takes with it: short ones beside it leave blocks without a
/// piece.
constexpr double kAloneMayTake = 1.05;
/// Of the seconds of another way, those of one that is clearly faster.
constexpr double kClearly = 0.95;

std::int64_t group_of(const CudaAttentionShape& shape) {
  return shape.heads_kv > 0 ? shape.heads_q / shape.heads_kv : 1;
}

/// What the last arrivers take: of a group, and of the groups. A thread joins four columns at a time, and waits for all
/// pieces' once for each four of its own.
double join_seconds(const CudaDecodeModel& model, double pieces, double rows, const AttentionSignature& s,
                    int threads) {
  if (pieces <= 1) return 0;
  const int head_dim_v = s.head_dim_v;
  const double group = ts_decode_group(head_dim_v);
  const double waits = std::max(1.0, rows * (s.latent ? head_dim_v / 32.0 : head_dim_v / 4.0) / threads);
  const double part_seconds = model.part_us * 1e-6 + rows * head_dim_v * sizeof(float) / model.join_bytes_per_second;
  if (pieces <= group) return model.join_us * 1e-6 * waits + pieces * part_seconds;
  return 2 * model.join_us * 1e-6 * waits + (group + std::ceil(pieces / group)) * part_seconds;
}

/// Warps of a block of `threads` that share a row's pieces out in a launch that joins: as few as have a share that they
/// load at once, for all of a block's do the same number of rows.
std::int64_t join_warps(std::int64_t pieces, int threads) {
  constexpr std::int64_t kShare = 8;
  const std::int64_t warps = threads / 32;
  std::int64_t of_row = 1;
  while (of_row < warps && (warps % of_row != 0 || ceil_div(pieces, of_row) > kShare)) ++of_row;
  return of_row;
}

/// What a launch that joins takes. How many items there are does not matter: each would take the last arriver longer,
/// too, and where a problem names splits a sequence's bits may not depend on it.
double join_launch_seconds(const CudaDecodeModel& model, std::int64_t pieces, int threads) {
  if (pieces <= 1) return 0;
  const auto share = static_cast<double>(ceil_div(pieces, join_warps(pieces, threads)));
  return (model.join_launch_us + share * model.part_us / 2) * 1e-6;
}

/// Of a row's columns, those that a warp of a launch that joins takes at once, of `blocks` blocks that each fill an SM
/// if it takes one: more, where they would take turns. Of no more pieces than a warp then loads together, so that a
/// row's bits do not depend on it.
std::int64_t join_units(std::int64_t pieces, std::int64_t blocks, int head_dim_v, const CudaReferenceChip& chip) {
  constexpr int kUnits = 4;
  if (ts_decode_join_units(head_dim_v) != kUnits || blocks <= chip.sms) return 1;
  return pieces <= 4 ? 4 : pieces <= 8 ? 2 : 1;
}

/// What the blocks of a cluster take to join an item's pieces.
double cluster_join_seconds(const CudaDecodeClusterModel& model, double pieces, double rows, int head_dim_v) {
  return model.join_us * 1e-6 + (pieces - 1) / pieces * rows * head_dim_v * sizeof(float) / model.bytes_per_second;
}

/// Clusters of so many blocks, each on an SM of its own, that the chip holds at a time.
std::int64_t clusters_of(std::int64_t blocks, const CudaSpec& spec) {
  const std::vector<double>& shares = spec.gemm.cluster_sms;
  const auto size = static_cast<std::size_t>(blocks - 2);
  return size < shares.size() ? static_cast<std::int64_t>(shares[size] * spec.reference.sms) / blocks : 0;
}

/// The greater of two limits, and near both a little more: the eighth root of the sum of eighth powers.
double near_both(double a, double b) {
  const double most = std::max(a, b);
  if (most <= 0) return 0;
  const double ratio = std::min(a, b) / most, square = ratio * ratio, fourth = square * square;
  return most * std::sqrt(std::sqrt(std::sqrt(1 + fourth * fourth)));
}

/// Pieces of a list whose sequences have one length: each block has one, or takes whole items in turn. 0: then too
/// many blocks would have nothing to do, or less than others.
std::int64_t pieces_of_even(std::int64_t items, std::int64_t blocks, double least_busy) {
  const std::int64_t pieces = items * std::max<std::int64_t>(1, blocks / std::max<std::int64_t>(1, items));
  const double busy = static_cast<double>(pieces) / static_cast<double>(ceil_div(pieces, blocks) * blocks);
  return busy < least_busy ? 0 : pieces;
}

/// Seconds of the products of a step over an SM, at the share of the peak that the row of the tile table reaches which
/// the config was made from. A narrower head than the row's widest has as many scores, so half of what it lacks counts.
double seconds_of_products(const CudaAttentionPipeline& pipeline, const KernelConfig& config,
                           const CudaAttentionResources& facts, const CudaReferenceChip& chip) {
  const AttentionSignature& s = config.attention();
  const Algorithm& a = config.algorithm;
  const auto row = std::ranges::find_if(pipeline.tiles, [&](const CudaTile& tile) {
    return tile.tile_m == a.tile[0] && tile.tile_n == a.tile[1] && tile.late_wait == a.late_wait &&
           tile.head_dim.holds(std::max(s.head_dim_qk, s.head_dim_v));
  });
  const double rate = chip.tflops_of(s.data_type) * 1e12 / chip.sms;
  const double depth = s.head_dim_qk + s.head_dim_v;
  if (row == pipeline.tiles.end()) return 2.0 * facts.tile_rows * facts.tile_keys * depth / rate;
  const double lacks = s.latent ? 0 : std::max(0.0, 2.0 * row->head_dim.high - depth);
  return 2.0 * facts.tile_rows * facts.tile_keys * (depth + 0.5 * lacks) / (rate * row->efficiency);
}

}  // namespace

const CudaDecodeModel& decode_model(const KernelConfig& config, const CudaSpec& spec) {
  const CudaAttentionPipeline& pipeline = *spec.attention_pipeline(config.algorithm.pipeline);
  return config.attention().latent && pipeline.decode_latent ? *pipeline.decode_latent : *pipeline.decode;
}

bool has_few_rows(const CudaAttentionShape& shape) {
  return shape.seqlen_q * group_of(shape) <= kMostRows;
}

bool suits_decode(const CudaAttentionShape& shape) {
  return shape.paged || shape.narrow || has_few_rows(shape);
}

bool has_few_tiles(const CudaAttentionShape& shape) {
  return !shape.ragged && !shape.batch_invariant && shape.seqlen_q * group_of(shape) <= kFewTiles * kMostRows;
}

CudaDecodeWork cuda_decode_work(const KernelConfig& config, const CudaSpec& spec, const CudaAttentionShape& shape) {
  const CudaAttentionResources facts = cuda_attention_resources(config);
  const CudaReferenceChip& chip = spec.reference;
  const CudaAttentionPipeline& pipeline = *spec.attention_pipeline(config.algorithm.pipeline);
  const CudaDecodeModel& model = decode_model(config, spec);
  constexpr double kMicrosecond = 1e-6;
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
  const bool narrow = shape.narrow && !s.latent;
  const double rate =
      chip.bytes_per_second * chip.reached_bandwidth * (narrow ? model.narrow_share : model.bandwidth_share);
  // A step takes as long as its copies or its products.
  const double products = seconds_of_products(pipeline, config, facts, chip);
  // Narrow keys of all of an SM's blocks are widened side by side; the figures are of head dims of 128.
  const auto widened = [&](int blocks) {
    const double keys = blocks * facts.warp_keys * (s.head_dim_qk + s.head_dim_v) / 256.0;
    return narrow ? (model.narrow_step_us + model.narrow_key_us * keys) * kMicrosecond : 0;
  };
  // Rows that straddle sectors, where the copy engine brings them.
  const bool by_engine = config.algorithm.pipeline == Pipeline::decode_wgmma && spec.attention_model && !narrow;
  const double straddling = by_engine
                                ? 1e-9 * facts.tile_keys *
                                      (row_ns(s.head_dim_qk, s.data_type, facts.exact_boxes, *spec.attention_model) +
                                       row_ns(s.head_dim_v, s.data_type, facts.exact_boxes, *spec.attention_model))
                                : 0;
  const double alone = std::max(
      {model.copy_us * kMicrosecond / std::max<int>(1, config.algorithm.stages), products, straddling, widened(1)});
  const auto slots = static_cast<double>(std::int64_t{chip.sms} * facts.blocks_per_sm);
  // Tiles of rows of one key head stand side by side: memory is read by the first, and L2 by the others.
  const double read_again = std::min(static_cast<double>(work.row_blocks), kReadsOfL2);
  const double of_full_chip =
      std::max({slots * tile_bytes / (rate * read_again), facts.blocks_per_sm * std::max(products, straddling),
                widened(facts.blocks_per_sm)});
  const auto part_rows = static_cast<double>(std::min<std::int64_t>(rows, facts.tile_rows));
  // Of narrow keys the start by mma.sync has the list in it.
  constexpr double kListKeys = 64;
  const bool narrow_by_mma = narrow && config.algorithm.pipeline == Pipeline::decode;
  const double list_us = shape.uneven && !narrow_by_mma ? model.list_us * facts.tile_keys / kListKeys : 0;
  // There a block that is alone looks the pages of its next piece up while nothing else runs on its SM.
  const double turn_us =
      model.turn_us + (shape.uneven && narrow_by_mma && facts.blocks_per_sm == 1 ? model.list_us : 0);
  CudaDecodeWork best;
  const auto take = [&](std::int64_t items, std::int64_t piece_tiles) {
    CudaDecodeWork cut = work;
    cut.piece_tiles = piece_tiles;
    cut.pieces = ceil_div(tiles, piece_tiles);
    cut.blocks = items * cut.pieces;
    const auto blocks = static_cast<double>(cut.blocks), pieces = static_cast<double>(cut.pieces);
    const double by_last = join_seconds(model, pieces, part_rows, s, facts.threads);
    const double apart = join_launch_seconds(model, cut.pieces, facts.threads);
    cut.join_warps = join_warps(cut.pieces, facts.threads);
    cut.joins_apart = apart < by_last;
    // Blocks share the bandwidth, so those of the last round, if few, are faster than others, up to what one alone and
    // what the SM with most of them reads. Beside other sequences' blocks some SM has as many of a list's as it holds,
    // although others have none.
    const double rounds = std::floor(blocks / slots), rest = blocks - rounds * slots;
    const bool crowded = shape.uneven && items < work.items && rest <= chip.sms && 2 * rest > chip.sms;
    const double on_busiest = crowded ? facts.blocks_per_sm : std::ceil(rest / chip.sms);
    const double of_busiest = on_busiest * tile_bytes / model.sm_bytes_per_second;
    const double shared = near_both(rest / slots * of_full_chip, of_busiest);
    const double steps = rounds * of_full_chip + (rest > 0 ? std::max(shared, alone) : 0);
    const double part_bytes =
        pieces > 1 ? 2 * blocks * part_rows * (s.head_dim_v + TS_DECODE_STATE_FLOATS) * sizeof(float) : 0;
    cut.seconds =
        (chip.launch_us + model.start_us + list_us + std::max(0.0, blocks / slots - 1) * turn_us) * kMicrosecond +
        static_cast<double>(piece_tiles) * steps + (cut.joins_apart ? apart : by_last) +
        part_bytes / model.part_bytes_per_second;
    return cut;
  };
  // Every item's pieces by a cluster. Lengths decide nothing, so there is no list.
  const auto by_cluster = [&](const CudaDecodeClusterModel& cluster, std::int64_t size) {
    CudaDecodeWork cut = work;
    cut.cluster = cut.pieces = size;
    cut.piece_tiles = ceil_div(tiles, size);
    cut.blocks = work.items * size;
    const auto blocks = static_cast<double>(cut.blocks);
    const double shared = near_both(blocks / slots * of_full_chip, tile_bytes / model.sm_bytes_per_second);
    // A block for each SM: nothing else runs while it waits for a step, or looks its pages up.
    const double step = model.copy_us * kMicrosecond * (shape.uneven ? cluster.list_step : cluster.step);
    cut.seconds = (chip.launch_us + model.start_us + (shape.uneven ? cluster.list_start * list_us : 0)) * kMicrosecond +
                  static_cast<double>(cut.piece_tiles) * std::max(shared, step) +
                  cluster_join_seconds(cluster, static_cast<double>(size), part_rows, s.head_dim_v);
    return cut;
  };
  const bool has_clusters = facts.joins_in_cluster && model.cluster && !shape.ragged;
  // Of half of the SMs, which chips of any division have in clusters: where more are needed, others' ways are as fast.
  const auto best_by_cluster = [&](const CudaDecodeWork& least, double limit) {
    if (!has_clusters || (work.row_blocks > 1 && work.items > model.cluster->items_of_many_rows)) return least;
    CudaDecodeWork best_cut = least;
    double seconds = std::min(model.cluster->share * least.seconds, limit);
    for (std::int64_t size = 2; size <= std::min(kClusterBlocks, tiles); ++size) {
      const bool all_have_keys = (size - 1) * ceil_div(tiles, size) < tiles;
      const bool fit = work.items <= clusters_of(size, spec) && work.items * size <= chip.sms / 2;
      if (!all_have_keys || !fit) continue;
      if (const CudaDecodeWork cut = by_cluster(*model.cluster, size); cut.seconds < seconds)
        best_cut = cut, seconds = cut.seconds;
    }
    return best_cut;
  };
  // Whole key heads for every SM, as many as there are, and the others cut: their pieces go where others have room.
  const std::int64_t whole = work.row_blocks == 1 ? work.items / chip.sms * chip.sms : 0, others = work.items - whole;
  const bool can_fill = !shape.uneven && whole > 0 && others > 0;
  const auto fill = [&](std::int64_t piece_tiles) {
    CudaDecodeWork cut = take(work.items, piece_tiles);
    cut.whole_heads = whole;
    cut.blocks = whole + others * cut.pieces;
    cut.joins_apart = false;
    cut.ends_unevenly = true;
    const auto blocks = static_cast<double>(cut.blocks), pieces = static_cast<double>(cut.pieces);
    const std::int64_t of_busiest =
        whole / chip.sms * tiles + ceil_div(others * cut.pieces, std::int64_t{chip.sms}) * piece_tiles;
    const double all = static_cast<double>(work.items * tiles) / slots * of_full_chip;
    const double steps = near_both(all, static_cast<double>(of_busiest) * tile_bytes / model.sm_bytes_per_second);
    cut.seconds = (chip.launch_us + model.start_us + std::max(0.0, blocks / slots - 1) * model.turn_us) * kMicrosecond +
                  std::max(steps, static_cast<double>(tiles) * alone) +
                  join_seconds(model, pieces, part_rows, s, facts.threads);
    return cut;
  };
  const auto best_of = [&](std::int64_t items, std::int64_t most_pieces = kMostPieces) {
    CudaDecodeWork least = take(items, tiles);
    // Every length that pieces can have, and of each the fewest pieces.
    std::int64_t length = tiles;
    while (length > 1) {
      const std::int64_t pieces = ceil_div(tiles, length - 1);
      if (pieces > most_pieces) break;
      length = ceil_div(tiles, pieces);
      if (const CudaDecodeWork cut = take(items, length); cut.seconds < least.seconds) least = cut;
      if (!can_fill) continue;
      if (const CudaDecodeWork cut = fill(length); cut.seconds < least.seconds) least = cut;
    }
    return least;
  };
  if (shape.batch_invariant) {
    const std::int64_t of_one_query = ceil_div(group_of(shape), std::int64_t{facts.tile_rows});
    const std::int64_t blocks = std::max<std::int64_t>(1, shape.heads_kv * of_one_query);
    const bool many_rows = std::min<std::int64_t>(group_of(shape), facts.tile_rows) >= kManyRows;
    const std::int64_t least_keys = s.latent    ? kInvariantLatentKeys
                                    : many_rows ? kInvariantKeysOfManyRows
                                                : kInvariantKeys;
    const std::int64_t piece_tiles = least_keys / facts.tile_keys;
    const std::int64_t most = std::max<std::int64_t>(1, kInvariantBlocks / blocks);
    // As the kernel counts them.
    const std::int64_t pieces = std::clamp<std::int64_t>((tiles + piece_tiles / 2) / piece_tiles, 1, most);
    best = take(work.items, ceil_div(tiles, pieces));
    best.piece_tiles = piece_tiles;
    best.pieces = pieces;
    best.blocks = work.items * pieces;
    best.most_pieces = most;
    // How an item is joined may follow neither from the bound of the lengths nor from how many queries others have.
    const auto rows_of_one = static_cast<double>(std::min<std::int64_t>(group_of(shape), facts.tile_rows));
    best.join_warps = join_warps(most, facts.threads);
    best.joins_apart = pieces > 1 && join_launch_seconds(model, most, facts.threads) <
                                         join_seconds(model, static_cast<double>(most), rows_of_one, s, facts.threads);
  } else if (shape.splits > 0) {
    best = take(work.items, ceil_div(tiles, std::min(shape.splits, tiles)));
  } else {
    best = best_of(work.items);
    double limit = best.seconds;  // of a cluster's seconds
    if (shape.uneven) {
      const CudaDecodeWork for_longest = best_of(shape.heads_kv * work.row_blocks);
      const auto take_least = [&](std::int64_t steps) {
        const std::int64_t of_keys = ceil_div(std::int64_t{model.list.piece_keys}, std::int64_t{facts.tile_keys});
        const std::int64_t enough = std::max(of_keys, steps);
        return take(work.items, std::max(for_longest.piece_tiles, std::min(best.piece_tiles, enough)));
      };
      // Partials of latent rows are wide, and where each block has one clusters join them: so pieces are longer there,
      // and of many heads, and where half of the SMs have one of the longest alone, which may begin behind others.
      const CudaDecodeWork longer = take_least(2 * std::int64_t{model.list.piece_steps});
      const bool many_heads = facts.tile_rows > kManyRows && part_rows >= static_cast<double>(kManyRows);
      const bool one_each = longer.blocks <= static_cast<std::int64_t>(slots);
      const bool spread = static_cast<double>(longer.pieces) >= model.list.busy * chip.sms / 2;  // of one sequence
      const bool behind = shape.batch > kMostOrderedSequences || shape.ragged;
      best = s.latent && (many_heads || one_each || (spread && behind)) ? longer : take_least(model.list.piece_steps);
      if (model.cluster) limit = model.cluster->may_take * for_longest.seconds;
      if (const std::int64_t at_once = static_cast<std::int64_t>(slots) / work.items; facts.grid_entry && at_once > 0) {
        const auto without_list = [&](CudaDecodeWork cut) {
          cut.of_grid = true;
          cut.seconds -= std::max(0.0, list_us - model.list.grid_us) * kMicrosecond;
          return cut;
        };
        const CudaDecodeWork of_grid = without_list(best_of(work.items, std::min(at_once, kMostPieces)));
        const CudaDecodeWork of_one = without_list(take(shape.heads_kv * work.row_blocks, of_grid.piece_tiles));
        if (of_one.seconds <= kAloneMayTake * for_longest.seconds) best = of_grid;
      }
    }
    best = best_by_cluster(best, limit);
  }
  if (shape.uneven && best.cluster == 0 && !best.of_grid) {
    // Where nearly every SM has an item, a block for each reads as fast as two, and of one length nothing is joined. Of
    // many keys that gains little, and lists whose lengths differ lose more (docs/log/2026-11-cuda-decode.md).
    const bool item_each =
        !s.latent && config.algorithm.pipeline == Pipeline::decode_wgmma && !shape.ragged && shape.splits == 0 &&
        !shape.batch_invariant && work.items <= chip.sms &&
        pieces_of_even(work.items, chip.sms, model.list.busy) == work.items &&
        take(work.items, tiles).seconds < kClearly * take(work.items, ceil_div(tiles, std::int64_t{2})).seconds;
    const std::int64_t at_once = item_each ? chip.sms : static_cast<std::int64_t>(slots);
    best.queued = facts.takes_from_queue && best.blocks > at_once;
    best.blocks = std::min(best.blocks, at_once);
    // Two pieces a block, so that rounding leaves little of the chip idle; partials of latent rows are too wide for
    // that.
    best.wanted_pieces = shape.splits > 0 || shape.batch_invariant ? 0 : best.blocks * (s.latent ? 1 : 2);
    const std::int64_t wanted_tiles = ceil_div(work.items * tiles, std::max<std::int64_t>(1, best.wanted_pieces));
    if (best.wanted_pieces > 0 && !s.latent) {
      if (!shape.ragged) best.wanted_of_even = pieces_of_even(work.items, best.blocks, model.list.busy);
      // Sequences as long as the bound says are cut into longer pieces than the shortest that there may be.
      // Of 16 bits the tile that is best for one length loses more where lengths differ, so others decide.
      const std::int64_t wanted = narrow && best.wanted_of_even > 0 ? best.wanted_of_even : best.wanted_pieces;
      const std::int64_t length = std::max(best.piece_tiles, ceil_div(work.items * tiles, wanted));
      const std::int64_t pieces =
          std::max<std::int64_t>(1, (tiles + length / 2) / length);  // as the kernel counts them
      best.seconds = take(work.items, ceil_div(tiles, pieces)).seconds;
    }
    // So are latent rows, and of 8 bits the tiles that there are differ in how short their shortest pieces are.
    if (best.wanted_pieces > 0 && s.latent && has_narrow_cache(s)) {
      const std::int64_t length = std::max(best.piece_tiles, wanted_tiles);
      const std::int64_t pieces = std::max<std::int64_t>(1, (tiles + length / 2) / length);
      best.seconds = take(work.items, ceil_div(tiles, pieces)).seconds;
    }
    // Where sequences of one length are not cut, a launch that joins would most often find nothing to do, and its
    // blocks of many registers take long to come and go: 20 of 254 us (docs/log/2026-11-cuda-decode.md).
    if (s.latent && best.wanted_pieces > 0 && 2 * tiles < 3 * std::max(best.piece_tiles, wanted_tiles))
      best.joins_apart = false;
  }
  // Where blocks are no more than SMs, and pieces no more than a cluster's blocks, a list could only give short
  // sequences fewer pieces.
  if (shape.uneven && s.latent && s.mode == SequenceMode::batch &&
      config.algorithm.pipeline == Pipeline::decode_wgmma && best.wanted_pieces > 0 && !best.queued &&
      best.pieces <= kClusterBlocks && best.blocks == best.items * best.pieces)
    best.cluster = best.pieces;
  if (best.joins_apart && best.join_warps == 1) {
    const int blocks = ts_decode_join_blocks(static_cast<int>(part_rows), s.head_dim_v, facts.threads, 1, 1);
    best.join_units = join_units(best.pieces, work.items * blocks, s.head_dim_v, chip);
  }
  best.apart = best.blocks <= chip.sms;
  if (!shape.uneven) {
    const std::int64_t in_last_round = best.blocks % static_cast<std::int64_t>(slots);
    best.ends_unevenly |= best.pieces == 1 && in_last_round > chip.sms;
  }
  return best;
}

}  // namespace tilesmith
