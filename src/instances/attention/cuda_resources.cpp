#include "instances/attention/cuda_resources.hpp"

#include <algorithm>

#include "instances/attention/gpu_signature.hpp"
#include "kernels/cuda/attention/decode/abi.h"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

constexpr int ceil_div(int a, int b) {
  return (a + b - 1) / b;
}
constexpr int round_up(int a, int b) {
  return ceil_div(a, b) * b;
}

/// Of the accumulator of a block of threads.
int output_columns(const AttentionSignature& s, const CudaAttentionResources& facts) {
  return round_up(ceil_div(s.head_dim_v, facts.column_blocks), 16);
}

/// Registers beside scores, probabilities and output: row states, addresses, loop counters, what a trait keeps at hand.
/// Found by compiling the tile table with each trait (NVRTC 13.0): with less to spare the compiler spills hundreds of
/// bytes or runs the products one by one; with this much at most a few words, most of them the producer's, which has
/// few registers and time to spare.
int overhead_registers(const AttentionSignature& s, const Algorithm& a, const CudaAttentionResources& facts) {
  const bool biased = s.bias == BiasKind::elementwise;
  if (a.pipeline == Pipeline::decode_wgmma && s.latent) return 36 + (biased ? 28 : 0);
  if (a.pipeline == Pipeline::decode_wgmma) return 40 + (biased ? std::max(28, 3 * a.tile[1] / 8) : 0);
  if (facts.key_warps > 0 || facts.column_warps > 0)
    return 64;  // few enough that the compiler has registers to spare, and takes them
  if (!facts.persistent) {
    const int portable = (bits_of(s.data_type) == 32 ? 110 : 72) + (biased && s.dropout ? 24 : 0);
    // Short sums, and the rests of 32 probabilities, beside the scores of the other keys.
    return portable + (s.data_type == DataType::fp32 && a.tile[1] > 32 ? 24 : 0);
  }
  const bool wide = facts.consumer_registers >= 200;
  int registers = wide ? 36 : 28;
  if (biased && s.dropout)
    registers += a.bias_stages > 0 ? 44 : 76;
  else if (biased)
    registers += 28;
  else if (s.dropout)
    registers += wide ? 36 : 28;
  // Reading a bias of any strides beside the products of 8 bits, whose probabilities are packed twice.
  if (biased && input_type(s.data_type) == DataType::fp8) registers += s.soft_cap ? 16 : 8;
  // A store between two tiles' work keeps both tiles' places.
  if (!a.late_store && (biased || s.dropout)) registers += 24;
  return registers;
}

void persistent_facts(const AttentionSignature& s, const Algorithm& a, CudaAttentionResources& facts) {
  const int warpgroups = a.tile[0] / 64, blocks = std::max<int>(a.block_per_cu, 1);
  facts.warpgroups = warpgroups;
  facts.warps = 4 * warpgroups;
  facts.threads = 128 * (warpgroups + 1);
  facts.blocks_per_sm = blocks;
  facts.persistent = facts.tensor_maps = true;
  facts.bias_map = a.bias_stages > 0;
  const bool has_free_warps = s.mask != MaskKind::none && !s.paged_kv && input_type(s.data_type) != DataType::fp8;
  facts.free_warps = !has_free_warps ? 0 : facts.bias_map ? 3 - warpgroups : 3;
  facts.exact_boxes = !s.paged_kv && bits_of(input_type(s.data_type)) == 16;

  // Operands stand in columns of 128 bytes. In fp8 values come into two raw stages, and are transposed into the ring.
  // Narrow keys and values in pages come into raw stages of their own, and are widened into it.
  const bool fp8 = input_type(s.data_type) == DataType::fp8, widens = s.paged_kv && has_narrow_cache(s);
  const int column = fp8 ? 128 : 64, raw_stages = fp8 || widens ? 2 : 0;
  const int columns_qk = ceil_div(s.head_dim_qk, column), columns_v = ceil_div(s.head_dim_v, column);
  const long queries = 64L * 128 * columns_qk * warpgroups * a.q_stages;
  const long values = fp8 ? 128L * ceil_div(a.tile[1], 128) * round_up(s.head_dim_v, 16) : 128L * a.tile[1] * columns_v;
  const int raw_columns = widens ? ceil_div(s.head_dim_qk, 128) + ceil_div(s.head_dim_v, 128) : columns_v;
  const long ring = (128L * a.tile[1] * columns_qk + values) * a.stages + 128L * a.tile[1] * raw_columns * raw_stages;
  const long bias = 64L * 4 * a.tile[1] * warpgroups * a.bias_stages;
  const long words = s.dropout ? 32L * a.tile[1] * facts.warps : 0;  // the dropout stream of a block
  const int barriers = 4 * a.stages + 2 * warpgroups * (a.q_stages + a.bias_stages) + (widens ? 4 : 2) * raw_stages + 8;
  constexpr int kTileRing = 4 * 12 * 4, kScratch = 16, kAlignment = 1024;
  facts.shared_bytes = queries + ring + bias + words + round_up(8 * barriers, 16) + kTileRing + kScratch + kAlignment;

  facts.launch_registers = 65536 / (facts.threads * blocks) / 8 * 8;
  if (warpgroups == 3)
    facts.producer_registers = !fp8 ? 32 : s.head_dim_v > 64 ? 56 : 72;
  else if (warpgroups == 2)
    facts.producer_registers = blocks > 1 ? 24 : fp8 ? 72 : widens ? 56 : 40;
  else
    facts.producer_registers = blocks > 2 ? (s.paged_kv ? 40 : 24) : 56;
  const int share =
      warpgroups == 0 ? 0 : (facts.launch_registers * (warpgroups + 1) - facts.producer_registers) / warpgroups / 8 * 8;
  facts.consumer_registers = std::min(share, 240);
}

void portable_facts(const AttentionSignature& s, const Algorithm& a, CudaAttentionResources& facts) {
  facts.warps = a.tile[0] / 16;
  facts.threads = 32 * facts.warps;
  const int element = bits_of(s.data_type) / 8;
  // What 99 KiB of shared memory hold beside 32 keys at least, and registers beside the operands of a warp's 16 rows:
  // halves of float32 are two registers each.
  constexpr int kWholeBytes = 512;
  const int columns = element == 4 && s.bias == BiasKind::elementwise && s.dropout ? 128 : 256;
  const bool whole = s.head_dim_qk * element <= kWholeBytes;
  facts.chunk_qk = whole ? round_up(s.head_dim_qk, 16) : kWholeBytes / element;
  facts.column_blocks = std::max(1, ceil_div(s.head_dim_v, columns));
  // A row is whole products of depth 16, and 16 bytes more against bank conflicts.
  const long pitch_qk = element * facts.chunk_qk + 16, pitch_v = element * output_columns(s, facts) + 16;
  facts.shared_bytes = (a.tile[0] + a.tile[1]) * pitch_qk + a.tile[1] * pitch_v;
  if (facts.threads > 0)
    facts.launch_registers = facts.consumer_registers = std::min(255, 65536 / facts.threads / 8 * 8);
}

/// Of keys and values beside queries of 16 bits: kernels/cuda/attention/decode/narrow.cuh.
struct NarrowRows {
  int step;         ///< elements that a row is rounded up to
  int bytes;        ///< of an element
  bool scale;       ///< each key and value has one of its own
  int query_scale;  ///< bytes beside a row of queries
};
NarrowRows narrow_rows(const AttentionSignature& s) {
  const bool narrow = has_narrow_cache(s);
  return {.step = narrow ? 32 : 16,
          .bytes = narrow ? 1 : 2,
          .scale = s.qscale == QuantScale::kv_blockscale,
          .query_scale = narrow && output_type(s.data_type) == DataType::bf16 ? 4 : 0};
}

/// The figures of kernels/cuda/attention/decode/latent_layout.cuh.
void latent_facts(const AttentionSignature& s, const Algorithm& a, CudaAttentionResources& facts) {
  facts.warp_keys = 16;
  facts.row_warps = a.tile[0] / 16;
  facts.column_warps = std::max(1, a.tile[1] / facts.warp_keys);
  facts.warps = facts.row_warps * facts.column_warps;
  facts.threads = 32 * facts.warps;
  facts.blocks_per_sm = std::max<int>(a.block_per_cu, 1);
  const NarrowRows rows = narrow_rows(s);
  const int columns = round_up(s.head_dim_v, rows.step * facts.column_warps);
  const int depth = round_up(s.head_dim_qk, rows.step);
  const long stage = a.tile[1] * (rows.bytes * depth + 16L + (rows.scale ? 4 : 0));
  const long walk = a.tile[0] * (2L * depth + 16) + a.stages * stage;
  const long results = 4L * a.tile[0] * (columns + 8) + 4L * a.tile[0] * (1 + facts.column_warps);
  facts.shared_bytes = std::max<long>(walk, (results + 15) / 16 * 16) + a.tile[0] * (2L * a.tile[1] + 16) +
                       4L * a.tile[0] * facts.column_warps + 16 + facts.threads / 4 + rows.query_scale * a.tile[0];
  if (facts.threads > 0)
    facts.launch_registers = facts.consumer_registers =
        std::min(255, 65536 / (facts.threads * facts.blocks_per_sm) / 8 * 8);
}

/// The figures of kernels/cuda/attention/decode/hopper/key_layout.cuh.
void decode_wgmma_facts(const AttentionSignature& s, const Algorithm& a, CudaAttentionResources& facts) {
  facts.warpgroups = 1;
  facts.warps = 4;
  facts.threads = 256;
  facts.warp_keys = a.tile[1];
  facts.key_maps = facts.takes_from_queue = true;
  facts.grid_entry = s.paged_kv && s.mode == SequenceMode::batch;
  facts.blocks_per_sm = std::max<int>(a.block_per_cu, 1);
  // Columns of 128 bytes of queries, keys and values; barriers, a flag and two lists. Of 8 bits the ring's stages
  // beside one step of what is widened, and scales of queries.
  const NarrowRows rows = narrow_rows(s);
  const int columns_qk = ceil_div(s.head_dim_qk, 64), columns_v = ceil_div(s.head_dim_v, 64);
  const int narrow_stages = rows.bytes == 1 ? a.stages : 0, places = rows.bytes == 1 ? 1 : a.stages;
  const long narrow = long{narrow_stages} * (ceil_div(s.head_dim_qk, 128) + ceil_div(s.head_dim_v, 128));
  const long operands = 128L * (a.tile[0] * columns_qk + a.tile[1] * (places * (columns_qk + columns_v) + narrow));
  facts.shared_bytes =
      operands + 8 * (2 + 4 * (places + narrow_stages)) + 16 + facts.threads / 4 + rows.query_scale * a.tile[0];
  facts.launch_registers = 65536 / (facts.threads * facts.blocks_per_sm) / 8 * 8;
  facts.producer_registers = facts.blocks_per_sm > 1 ? 72 : 136;
  facts.consumer_registers = std::min(240, 2 * facts.launch_registers - facts.producer_registers);
}

/// The figures of kernels/cuda/attention/decode/hopper/layout.cuh, and of 8 bits of narrow_layout.cuh.
void latent_wgmma_facts(const AttentionSignature& s, const Algorithm& a, CudaAttentionResources& facts) {
  facts.warpgroups = 2;
  facts.warps = 4 * facts.warpgroups;
  facts.threads = 128 * (facts.warpgroups + 1);
  facts.warp_keys = a.tile[1] / facts.warpgroups;
  facts.key_maps = facts.takes_from_queue = true;
  facts.blocks_per_sm = std::max<int>(a.block_per_cu, 1);
  const NarrowRows rows = narrow_rows(s);
  const int columns = ceil_div(s.head_dim_qk, 64);
  const long queries = 128L * a.tile[0] * columns, behind = 16 + facts.threads / 4 + rows.query_scale * a.tile[0];
  if (rows.bytes == 1) {
    // Columns of 128 bytes of queries and probabilities, units of 32 rows, tables of the queries, barriers, a flag and
    // two lists, and scales of queries.
    constexpr long kMostUnits = 12, kMostBytes = 220 << 10;
    const long operands = queries + 128L * a.tile[0] * facts.warpgroups;
    facts.unit_keys = 32;
    facts.row_pitch = 64 * columns + 16;
    const long unit = long{facts.unit_keys} * facts.row_pitch,
               units = std::min(kMostUnits, (kMostBytes - operands) / unit);
    const long tables = (3 * 8 + 2 * 4 + 4L * facts.warps) * a.tile[0];
    facts.shared_bytes = operands + units * unit + tables + 8 * (2 + 2 * units) + behind;
  } else {
    // Columns of 128 bytes of queries, keys and probabilities; barriers, rows' states and sums, a flag and two lists.
    const int barriers = 2 + 2 * a.stages * facts.warpgroups * columns;
    const long operands = queries + 128L * (a.tile[0] + a.stages * a.tile[1] * columns);
    facts.shared_bytes = operands + 8 * barriers + 12 * facts.warpgroups * a.tile[0] + behind;
  }
  facts.launch_registers = 65536 / facts.threads / 8 * 8;
  facts.producer_registers = rows.bytes == 1 ? 40 : 56;
  facts.consumer_registers =
      (facts.launch_registers * (facts.warpgroups + 1) - facts.producer_registers) / facts.warpgroups / 8 * 8;
}

void decode_facts(const AttentionSignature& s, const Algorithm& a, CudaAttentionResources& facts) {
  facts.row_warps = a.tile[0] / 16;
  facts.key_warps = facts.row_warps > 0 ? decode_warps(a.tile[1]) / facts.row_warps : 0;
  facts.warps = facts.row_warps * facts.key_warps;
  facts.warp_keys = facts.key_warps > 0 ? a.tile[1] / facts.key_warps : 0;
  facts.threads = 32 * facts.warps;
  facts.blocks_per_sm = std::max<int>(a.block_per_cu, 1);
  // As in the portable template, but for keys and values of 8 bits and their scales; behind the ring's place, which the
  // warps' results take later, a flag and a word for each warp, and scales of queries of bf16 beside narrow keys.
  const NarrowRows rows = narrow_rows(s);
  const int depth = round_up(s.head_dim_qk, rows.step), columns = round_up(s.head_dim_v, rows.step);
  const int pad = rows.bytes == 1 && depth % 128 == 0 && columns % 128 == 0 ? 0 : 16;
  const long pitch_q = 2 * depth + 16, pitch_k = rows.bytes * depth + pad, pitch_v = rows.bytes * columns + pad;
  const long ring = a.stages * a.tile[1] * (pitch_k + pitch_v + (rows.scale ? 8 : 0));
  const long results = long{facts.key_warps} * a.tile[0] * (4 * (columns + 8) + 8);
  facts.shared_bytes = a.tile[0] * (pitch_q + rows.query_scale) + std::max(ring, results) + 16 + facts.threads / 4;
  const long cluster_part = 4L * a.tile[0] * (s.head_dim_v + TS_DECODE_STATE_FLOATS);
  facts.takes_from_queue = rows.bytes == 1 && a.tile[0] == 16;
  facts.joins_in_cluster = s.mode != SequenceMode::group && a.tile[0] == 16 && results + cluster_part <= ring;
  if (facts.threads > 0)
    facts.launch_registers = facts.consumer_registers =
        std::min(255, 65536 / (facts.threads * facts.blocks_per_sm) / 8 * 8);
}

}  // namespace

CudaAttentionResources cuda_attention_resources(const KernelConfig& config) {
  const AttentionSignature& s = config.attention();
  const Algorithm& a = config.algorithm;
  CudaAttentionResources facts;
  facts.tile_rows = a.tile[0];
  facts.tile_keys = a.tile[1];
  if (a.pipeline == Pipeline::warp_specialized)
    persistent_facts(s, a, facts);
  else if (a.pipeline == Pipeline::decode_wgmma && s.latent)
    latent_wgmma_facts(s, a, facts);
  else if (a.pipeline == Pipeline::decode_wgmma)
    decode_wgmma_facts(s, a, facts);
  else if (a.pipeline == Pipeline::decode && s.latent)
    latent_facts(s, a, facts);
  else if (a.pipeline == Pipeline::decode)
    decode_facts(s, a, facts);
  else
    portable_facts(s, a, facts);
  // A thread holds two rows of its warp's 16: half a register for each score, a quarter for a packed probability.
  // float32 probabilities stay where the scores were.
  const bool halves = a.pipeline == Pipeline::decode_wgmma && s.latent;
  const int columns = halves                   ? ceil_div(s.head_dim_v, 128) * 64
                      : facts.column_warps > 0 ? ceil_div(s.head_dim_v, 16 * facts.column_warps) * 16
                                               : output_columns(s, facts);
  const int bits = bits_of(s.data_type);
  const int keys = facts.warp_keys > 0 ? facts.warp_keys : a.tile[1];
  // Of widened latent rows they go to shared memory as they come.
  const int probabilities = bits == 32 || (halves && has_narrow_cache(s)) ? 0 : keys * bits / 64;
  facts.needed_registers = keys / 2 + probabilities + columns / 2 + overhead_registers(s, a, facts);
  facts.operand_registers = facts.warpgroups > 0 ? std::max(keys, columns) / 2 : 4;
  return facts;
}

}  // namespace tilesmith
