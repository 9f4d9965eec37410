#include "instances/attention/hip_resources.hpp"

#include <algorithm>

namespace tilesmith {
namespace {

// Addresses of the loops, the row's place and state, temporary values.
constexpr int kOtherRegisters = 30;
// Found by compiling with clang 22: with fewer, kernels of gfx1100 and gfx1201 with head dims near 256 spill a few;
// with 8 of unaligned rows, decode of head dim 224 on gfx1100 spilled 10 to 18.
constexpr int kDropoutRegisters = 20, kUnalignedRegisters = 12;

int ceil_div(int a, int b) {
  return (a + b - 1) / b;
}

}  // namespace

HipAttentionResources hip_attention_resources(const KernelConfig& config, const HipSpec& spec,
                                              const HipFragment& fragment) {
  const AttentionSignature& s = config.attention();
  const Algorithm& a = config.algorithm;
  const int lanes = spec.lanes_per_wave, column_waves = std::max<int>(a.wave[1], 1), side = fragment.side;
  const int waves = a.wave[0] * column_waves;
  HipAttentionResources out;
  out.threads = waves * lanes;
  out.tile_rows = a.wave[0] * side;
  out.waves = waves;
  out.column_waves = column_waves;
  out.tile_keys = a.tile[1];
  // A lane reads whole chunks, which serve one instruction or several.
  const int step_chunks = fragment.groups_k * std::max(1, fragment.operand_words / 4);
  const int depth_chunks = ceil_div(ceil_div(s.head_dim_qk, kHipAttentionChunk), step_chunks) * step_chunks;
  const int columns = ceil_div(s.head_dim_v, side * column_waves) * side * column_waves;
  // Where all parts of a wave bring the same, each lane would keep its whole row.
  const int query_words = depth_chunks / fragment.groups_k * 4;
  out.queries_in_lds = query_words > spec.registers_per_lane / (s.latent ? 4 : 8);
  out.shared_place = s.latent;
  const long row_bytes = 16L * depth_chunks;
  const long key_bytes = out.tile_keys * row_bytes, value_bytes = 2L * out.tile_keys * columns;
  out.lds_bytes = (out.shared_place ? std::max(key_bytes, value_bytes) : key_bytes + value_bytes) +
                  (out.queries_in_lds ? out.tile_rows * row_bytes : 0) +
                  (s.qscale == QuantScale::kv_blockscale ? 8L * out.tile_keys : 0);
  out.blocks_per_cu = std::max<int>(a.block_per_cu, 1);
  if (a.pipeline == Pipeline::rowwise) {  // a wave for each row, which holds a column or a few
    out.threads = lanes;
    out.lds_bytes = 0;
    out.registers = kOtherRegisters + ceil_div(s.head_dim_v, lanes);
    out.registers_allowed = spec.registers_per_lane;
    return out;
  }
  out.waves_per_simd = std::max(1, out.blocks_per_cu * waves / spec.simds_per_compute_unit);
  out.busy_share = std::min(1.0, static_cast<double>(out.blocks_per_cu * waves) / spec.simds_per_compute_unit);

  const int results = side * side / lanes;
  const int scores = out.tile_keys / side * results, outputs = columns / side / column_waves * results;
  const int moved = 4 * std::max(ceil_div(out.tile_keys * depth_chunks, out.threads),
                                 ceil_div(out.tile_keys * columns / kHipAttentionChunk, out.threads));
  // Of a step: the row's operand and those of all fragments of keys; or probabilities and values.
  const int operands = std::max(4, fragment.operand_words) * (1 + out.tile_keys / side);
  out.registers = outputs + scores + moved + operands + (out.queries_in_lds ? 0 : query_words) + kOtherRegisters;
  // Where all parts of a wave bring the same, the others' probabilities; single elements, before they are packed.
  if (fragment.groups_k == 1) out.registers += fragment.operand_words;
  if (s.dropout) out.registers += kDropoutRegisters;
  if (s.unaligned) out.registers += moved + kUnalignedRegisters;
  out.registers_allowed = std::min(spec.registers_per_lane, spec.registers_of_simd / out.waves_per_simd);
  return out;
}

}  // namespace tilesmith
