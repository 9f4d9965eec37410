#include "choose/attention/cuda_terms.hpp"

#include <algorithm>
#include <cmath>

#include "choose/rounding.hpp"
#include "instances/attention/cuda_resources.hpp"

namespace tilesmith {
namespace {

/// Blocks that fit into an SM: by design, or as many as shared memory, threads and registers allow.
double resident_blocks(const CudaAttentionResources& facts, const CudaSpec& spec) {
  if (facts.persistent) return facts.blocks_per_sm;
  const long by_memory = spec.shared_bytes_per_sm / (facts.shared_bytes + spec.shared_bytes_reserved);
  const long by_threads = spec.threads_per_sm / facts.threads;
  const long by_registers =
      spec.registers_per_sm / (long{facts.threads} * std::min(spec.registers_per_thread, facts.needed_registers));
  return static_cast<double>(std::clamp<long>(std::min({by_memory, by_threads, by_registers}), 1, spec.blocks_per_sm));
}

/// Lengths of packed sequences, of which but the longest is known: it is one, the others are anything up to it.
double mean_length(const CudaAttentionShape& shape) {
  return shape.ragged ? 0.5 + 0.5 / static_cast<double>(std::max<std::int64_t>(1, shape.batch)) : 1;
}

/// Tiles of a head's rows: whole ones, or in the mean over lengths, half a tile more than the rows.
double tiles_of_head(const KernelConfig& config, const CudaAttentionResources& facts, const CudaAttentionShape& shape) {
  const double tiles = static_cast<double>(shape.seqlen_q) * config.algorithm.pack_gqa / facts.tile_rows;
  const double share = mean_length(shape);
  return share < 1 && tiles > 1 ? share * tiles + 0.5 : std::ceil(tiles);
}

/// Of a tile's rows those that are multiplied: whole warpgroups, or warps, that have a query, and a share of idle
/// warpgroups', without which a step hides less of its scores. Of one round's tiles the fullest takes longest, of
/// several the mean over a head's tiles.
double multiplied_rows(const KernelConfig& config, const CudaAttentionResources& facts, const CudaAttentionShape& shape,
                       bool one_round, double idle_rows) {
  const double at_once = facts.persistent ? 64 : 16, rows = facts.tile_rows;
  const double queries = static_cast<double>(shape.seqlen_q) * config.algorithm.pack_gqa;
  if (queries <= 0) return rows;
  const double multiplied = ceil_div(queries, at_once) * at_once;
  const double of_tile = one_round ? std::min(multiplied, rows) : multiplied / ceil_div(queries, rows);
  return facts.persistent ? of_tile + idle_rows * (rows - of_tile) : of_tile;
}

/// What an SM takes for so many elements of rows that begin anywhere, of which each warp loads its share by itself.
double element_seconds(double elements, double warps, const CudaAttentionModel& model) {
  return 1e-9 * elements * (model.element_ns + model.element_wait_ns / warps);
}

/// What the traits of a kernel add to the products of a score, in seconds of an SM.
double trait_seconds(const KernelConfig& config, const CudaAttentionModel& model) {
  const CudaScorePicoseconds* figures = model.score_picoseconds(config.algorithm.pipeline);
  if (figures == nullptr) return 0;
  const AttentionSignature& s = config.attention();
  double picoseconds = s.dropout ? figures->dropout : 0;
  if (s.bias == BiasKind::alibi) picoseconds += figures->alibi;
  if (s.bias == BiasKind::elementwise)
    picoseconds += config.algorithm.bias_stages > 0 ? figures->copied_bias : figures->loaded_bias;
  return 1e-12 * picoseconds;
}

}  // namespace

double row_ns(int head_dim, DataType type, bool exact_boxes, const CudaAttentionModel& model) {
  constexpr int kSectorBits = 256, kBoxBits = 1024;
  const int bits = head_dim * bits_of(type);
  if (bits % kSectorBits == 0) return 0;
  return bits / kBoxBits * model.straddling_box_ns + (bits % kBoxBits == 0 ? 0
                                                      : exact_boxes        ? model.rest_box_ns
                                                                           : model.cut_box_ns);
}

CudaAttentionTerms cuda_attention_terms(const KernelConfig& config, const CudaTile& row, const CudaSpec& spec,
                                        const CudaAttentionShape& shape) {
  const AttentionSignature& s = config.attention();
  const CudaAttentionResources facts = cuda_attention_resources(config);
  const CudaReferenceChip& chip = spec.reference;
  const double resident = resident_blocks(facts, spec), keys_of_step = facts.tile_keys;
  const double heads =
      static_cast<double>(shape.batch) * static_cast<double>(shape.heads_q) / config.algorithm.pack_gqa;
  const double tiles = heads * tiles_of_head(config, facts, shape) * facts.column_blocks;
  // Tiles of sequences whose lengths nobody knows do not come out even: half a tile more than the mean.
  const double share = tiles / chip.sms;
  // Blocks that take tiles of different lengths as they come end nearly together.
  const CudaAttentionModel none, &model = spec.attention_model ? *spec.attention_model : none;
  const bool evened = shape.visible < 1 && config.algorithm.dynamic_scheduler;
  const double whole = evened ? std::min(std::ceil(share), share + model.uneven_end) : std::ceil(share);
  const double of_one_sm = std::max(1.0, mean_length(shape) < 1 ? share + 0.5 : whole);
  const double at_once = std::min(resident, of_one_sm);
  const double rounds = of_one_sm / at_once;

  const auto seqlen_k = static_cast<double>(shape.seqlen_k);
  const double length = mean_length(shape), keys = seqlen_k * shape.visible * length;
  // Behind a mask a tile goes as far as its last row sees, half its rows beyond the mean, and half a step more in the
  // mean; nothing ends before the longest tile.
  const bool unequal = shape.visible < 1 || length < 1;
  const double queries_of_tile =
      std::min(static_cast<double>(facts.tile_rows) / config.algorithm.pack_gqa, static_cast<double>(shape.seqlen_q));
  const double steps_of_tile = unequal ? std::min(seqlen_k * length, keys + queries_of_tile / 2) / keys_of_step + 0.5
                                       : ceil_div(keys, keys_of_step);
  const double longest = unequal ? ceil_div(std::min(seqlen_k, 2 * seqlen_k * shape.visible), keys_of_step) : 0;
  const double steps = std::max(rounds * steps_of_tile, longest);

  // A block of columns has all scores, and its share of the output's columns.
  const double depth_qk = ceil_div(static_cast<double>(s.head_dim_qk), 16.0) * 16;
  const double depth_v = ceil_div(static_cast<double>(s.head_dim_v) / facts.column_blocks, 16.0) * 16;
  const double rate = chip.tflops_of(input_type(s.data_type)) * 1e12 / chip.sms * row.efficiency;
  const double multiplied = multiplied_rows(config, facts, shape, of_one_sm <= 1, model.idle_rows);
  // A block hides its waits behind those beside it, as many as the kernel is made for.
  const double lonely = facts.persistent ? 1 + model.missing_block * (resident - at_once) : 1;
  const double of_depth = steps * at_once * 2 * multiplied * keys_of_step / rate * lonely;
  // Copies that take longer than products hide them.
  const double rows_copied = facts.persistent ? steps * at_once * keys_of_step : 0;
  const auto of_row = [&](int head_dim) { return row_ns(head_dim, s.data_type, facts.exact_boxes, model); };
  const double copies = 1e-9 * rows_copied * (of_row(s.head_dim_qk) + of_row(s.head_dim_v));
  const double of_heads = of_depth * (depth_qk + depth_v), products = std::max(of_heads, copies);
  const double of_traits = steps * at_once * multiplied * keys_of_step * lonely * trait_seconds(config, model);
  const double widest = row.head_dim.high + row.head_dim_v.value_or(row.head_dim).high;

  const double rows_by_elements = steps * at_once * keys_of_step + of_one_sm * facts.tile_rows;
  const double of_elements =
      s.unaligned ? element_seconds(rows_by_elements * (depth_qk + depth_v), at_once * facts.warps, model) : 0;
  const double bytes = bits_of(s.data_type) / 8.0 * (s.head_dim_qk + s.head_dim_v);
  const double queries = static_cast<double>(shape.batch * shape.heads_q) * static_cast<double>(shape.seqlen_q);
  // Behind a window few queries read few keys.
  const double keys_seen = static_cast<double>(shape.window_keys < shape.seqlen_k
                                                   ? std::min(shape.seqlen_k, shape.window_keys + shape.seqlen_q)
                                                   : shape.seqlen_k);
  const double keys_read = static_cast<double>(shape.batch * shape.heads_kv) * keys_seen;
  constexpr double kMicrosecond = 1e-6;
  return {kMicrosecond,
          rounds * row.round_us * kMicrosecond,
          steps * kMicrosecond,
          products + of_traits,
          std::max(0.0, std::max(of_depth * widest, of_heads) - products),
          steps * at_once * keys_of_step * bytes / facts.warps / (chip.bytes_per_second / chip.sms) + of_elements,
          bytes * length * (queries + keys_read) / chip.bytes_per_second};
}

bool is_fitted_for(const CudaSpec& spec, const AttentionSignature& signature) {
  if (!spec.attention_model) return false;
  const bool has_traits = signature.bias != BiasKind::none || signature.dropout;
  const CudaAttentionModel& model = *spec.attention_model;
  if (std::ranges::find(model.data_types, signature.data_type) == model.data_types.end()) return false;
  return std::ranges::all_of(spec.attention_fwd, [&](const CudaAttentionPipeline& pipeline) {
    return is_decode(pipeline.pipeline) ||  // has a model of its own
           std::ranges::find(pipeline.data_types, signature.data_type) == pipeline.data_types.end() ||
           (model.coefficients(pipeline.pipeline) != nullptr &&
            (!has_traits || model.score_picoseconds(pipeline.pipeline) != nullptr));
  });
}

}  // namespace tilesmith
