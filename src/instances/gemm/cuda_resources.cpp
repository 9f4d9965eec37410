#include "instances/gemm/cuda_resources.hpp"

#include <algorithm>

#include "instances/gemm/family.hpp"
#include "kernels/cuda/gemm/abi.h"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

constexpr int ceil_div(int a, int b) {
  return (a + b - 1) / b;
}
constexpr int round_up(int a, int b) {
  return ceil_div(a, b) * b;
}

constexpr int kRegisters = 65536;        // of an SM
constexpr int kAlignment = 1024;         // of the swizzle pattern, spare
constexpr int kFewCopyRows = 16;         // of A at a time, where groups end within a tile
constexpr long kMostShared = 227 << 10;  // of a block of sm_90
constexpr int kFlag = 16;                // a word of the split products' last block

/// Columns that are finished together: fewer when several operations keep something for every column, or where a row
/// of D would be longer than the copy engine's 128 bytes.
int slab_columns(const GemmSignature& s, int span, const CudaGemmResources& facts) {
  const int result_bytes = facts.result_bytes;
  const auto readers =
      std::ranges::count_if(
          s.epilogue_ops,
          [](EpilogueOp op) { return reads_tensor(op) || op == EpilogueOp::bias || op == EpilogueOp::scale_n; }) -
      static_cast<std::ptrdiff_t>(facts.copied_tensor);
  const int share = s.epilogue_ops.gated() ? 2 : 1;
  for (int columns = readers > 1 && !facts.epilogue_on_sums ? 32 : 64; columns > 16; columns /= 2)
    if (span % columns == 0 && columns * result_bytes / share <= 128) return columns;
  return 16;
}

/// What a producer's warpgroup leaves to those that multiply. ptxas holds its branch to the 32 registers that suffice
/// for three warpgroups, but where it copies a part of a panel for others (8 to 12 bytes went to memory).
void redistribute_registers(int warpgroups, bool copies_shares, CudaGemmResources& facts) {
  facts.launch_registers = kRegisters / (facts.threads * facts.blocks_per_sm) / 8 * 8;
  const bool words = facts.transposed_rows > 0 && facts.element_bytes == 4;  // are transposed in registers
  facts.producer_registers = words ? 56 : warpgroups == 3 && !copies_shares ? 32 : 40;
  const int share = (std::min(facts.launch_registers, 248) * (warpgroups + 1) - facts.producer_registers) / warpgroups;
  facts.consumer_registers = std::min(share / 8 * 8, 240);
}

/// Transposed tiles: the rows that are turned together, of those that a block finishes.
int turned_rows(int rows) {
  return rows <= 16 ? 16 : rows <= 32 ? 32 : 64;
}

/// Transposed tiles: whether their epilogue reads vectors at most, and so is applied to sums as they lie.
bool reads_vectors_alone(const GemmSignature& s, const CudaGemmResources& facts) {
  return facts.store_box && facts.result_bytes == 2 && !has_weights(s) && s.grouping == GemmGrouping::none &&
         !s.epilogue_ops.empty() && !s.epilogue_ops.gated() && std::ranges::none_of(s.epilogue_ops, reads_tensor);
}

/// Transposed tiles: bytes in which a warpgroup turns its sums, unless the store of matrices turns all of them.
long turned_bytes(const GemmSignature& s, int rows, const CudaGemmResources& facts) {
  constexpr int kPitch = 64 + 4;  // floats
  const bool matrices =
      facts.store_box && (s.epilogue_ops.empty() || facts.epilogue_on_sums) && facts.result_bytes == 2;
  return matrices && s.grouping == GemmGrouping::none ? 0 : 4L * turned_rows(rows) * kPitch;
}

void transposed_store(const GemmSignature& s, int rows, CudaGemmResources& facts) {
  CudaGemmResources by_slabs = facts;
  by_slabs.epilogue_on_sums = false;
  facts.epilogue_columns = slab_columns(s, turned_rows(rows), by_slabs);
  facts.box_rows = rows % 64 == 0 ? 64 : rows % 32 == 0 ? 32 : rows % 16 == 0 ? 16 : 8;
  facts.slab_row_bytes =
      slab_columns(s, turned_rows(rows), facts) * facts.result_bytes / (s.epilogue_ops.gated() ? 2 : 1);
}

/// Whether slabs of a result for which there is no room may lie in the stages that a tile multiplied last. An epilogue
/// by slabs would leave no registers for that: 192 x 192 of int8 with an added tensor spilled 40 bytes (ptxas 13.0).
bool slabs_fit_ring(const GemmSignature& s, const Algorithm& a, const CudaGemmResources& facts) {
  const bool plain = facts.store_box && facts.result_bytes == 2 && (s.epilogue_ops.empty() || facts.epilogue_on_sums) &&
                     s.layout_a == MatrixOrder::row && s.layout_b == MatrixOrder::column && !s.mm_plus_mm &&
                     s.grouping == GemmGrouping::none && !has_block_scales(s);
  return plain && a.wave[0] > 1 && (a.transpose_c || a.wave[0] == 3) && !a.ping_pong && a.stages >= 3 &&
         a.stages <= 6 && !a.split_k && !a.stream_k && a.cluster_k <= 1;
}

/// All that depends on the number of stages.
void lay_out_shared(const GemmSignature& s, const Algorithm& a, CudaGemmResources& facts) {
  facts.shared_bytes = a.stages * facts.stage_bytes + facts.slab_bytes + facts.fixed_bytes;
  facts.slabs_in_ring =
      a.pipeline == Pipeline::warp_specialized && facts.shared_bytes > kMostShared && slabs_fit_ring(s, a, facts);
  if (facts.slabs_in_ring) facts.shared_bytes -= facts.slab_bytes;
}

void warp_specialized_facts(const GemmSignature& s, const Algorithm& a, CudaGemmResources& facts) {
  const int tile_m = a.tile[0], tile_n = a.tile[1], warpgroups = std::max<int>(a.wave[0], 1);
  facts.threads = 128 * (warpgroups + 1);
  facts.warps = 4 * warpgroups;
  facts.persistent = facts.tensor_maps = true;
  // What does not lie along k comes in squares: 128 bytes by as many elements of k.
  const bool along_a = s.layout_a == MatrixOrder::row, along_b = s.layout_b == MatrixOrder::column;
  const int square = 128 / std::max(facts.element_bytes, 1);
  const int rows_a = along_a ? tile_m : round_up(tile_m, square);
  const int rows_b = along_b ? tile_n : round_up(tile_n, square);
  // The tile that groups of few rows take leaves out what they do not have.
  const bool ends_early =
      s.grouping != GemmGrouping::none && along_a && tile_m == 64 && a.cluster[0] * a.cluster[1] == 1;
  facts.copy_rows = ends_early ? kFewCopyRows : tile_m / std::max<int>(a.cluster[1], 1);
  if (facts.element_bytes != 2) facts.transposed_rows = (along_a ? 0 : rows_a) + (along_b ? 0 : rows_b);
  // Of a tile that a cluster shares by k, a block finishes a share of wgmma's columns.
  const int shares = std::max<int>(a.cluster_k, 1);
  const int across = warpgroups_across(a), own_rows = 8 * ceil_div(tile_m, 8 * shares * across);
  facts.epilogue_columns = slab_columns(s, tile_n / shares, facts);
  facts.slab_row_bytes = facts.epilogue_columns * facts.result_bytes / (s.epilogue_ops.gated() ? 2 : 1);
  facts.epilogue_on_sums = a.transpose_c && reads_vectors_alone(s, facts);
  if (a.transpose_c) transposed_store(s, own_rows, facts);
  facts.slab_bytes = facts.store_box ? 2L * warpgroups * round_up(64 * facts.slab_row_bytes, 1024) : 0;
  const long turned = a.transpose_c ? warpgroups * turned_bytes(s, own_rows, facts) : 0;
  const long received = shares == 1 ? 0 : 4L * (a.transpose_c ? shares * own_rows : tile_m) * tile_n;
  const long barriers = 8L * (2 + (shares > 1 ? warpgroups : 0));
  facts.stage_bytes = (rows_a + rows_b) * 128L + 8L * (facts.transposed_rows > 0 ? 3 : 2);
  facts.fixed_bytes = turned + received + barriers + kFlag + kAlignment;
  facts.part_bytes = 4L * tile_m * tile_n;
  facts.counters = a.ping_pong ? 1 : warpgroups;

  const int rows = a.transpose_c ? tile_n : tile_m, columns = a.transpose_c ? tile_m : tile_n;  // of wgmma
  const int warpgroup_rows = a.ping_pong ? rows : rows * across / warpgroups;
  if (turned > 0 && turned_shares_are_boxes(tile_m, shares))
    facts.turned_blocks = ceil_div(own_rows, 64) * warpgroup_rows / 64;
  facts.accumulators = warpgroup_rows / 64 * (columns / across) / 2 * (has_block_scales(s) ? 2 : 1);
  redistribute_registers(warpgroups, a.cluster[0] * a.cluster[1] > 1, facts);
}

/// The product is transposed: a warpgroup has 64 columns of B, and of all rows of the tile.
void mixed_facts(const GemmSignature& s, const Algorithm& a, CudaGemmResources& facts) {
  const int tile_m = a.tile[0], tile_n = a.tile[1], warpgroups = std::max<int>(a.wave[0], 1);
  facts.threads = 128 * (warpgroups + 1);
  facts.warps = 4 * warpgroups;
  facts.persistent = facts.tensor_maps = true;
  facts.copy_rows = tile_m;
  facts.row_bytes_of_b = facts.stage_k * facts.bits_of_b / 8;
  transposed_store(s, tile_m, facts);
  facts.slab_bytes = facts.store_box ? 2L * warpgroups * round_up(64 * facts.slab_row_bytes, 1024) : 0;
  constexpr long kBarriers = 16;
  facts.stage_bytes = 2L * facts.stage_k * tile_m + 1L * tile_n * facts.row_bytes_of_b + kBarriers;
  facts.fixed_bytes = warpgroups * turned_bytes(s, tile_m, facts) + kBarriers + kFlag + kAlignment;
  facts.part_bytes = 4L * tile_m * tile_n;
  facts.counters = warpgroups;
  facts.accumulators = tile_m / 2;
  redistribute_registers(warpgroups, false, facts);
}
void portable_facts(const GemmSignature& s, const Algorithm& a, CudaGemmResources& facts) {
  const int tile_m = a.tile[0], tile_n = a.tile[1];
  facts.warps = a.wave[0] * a.wave[1];
  facts.threads = 32 * facts.warps;
  // Rows along k, or, 16-bit and contiguous along m or n, rows as they lie; 16 bytes more against bank conflicts.
  const auto operand = [&](int tile, bool along_k) {
    return along_k || facts.element_bytes != 2 ? tile * (64L + 16) : 32 * (2L * tile + 16);
  };
  facts.stage_bytes =
      operand(tile_m, s.layout_a == MatrixOrder::row) + operand(tile_n, s.layout_b == MatrixOrder::column);
  facts.fixed_bytes = kFlag;
  facts.part_bytes = 4L * tile_m * tile_n;
  if (facts.threads == 0) return;
  facts.accumulators = tile_m * tile_n / facts.threads * (has_block_scales(s) ? 2 : 1);
  facts.launch_registers = facts.consumer_registers =
      std::min(255, kRegisters / (facts.threads * facts.blocks_per_sm) / 8 * 8);
}

/// Bytes of a product in a list's table.
int entry_bytes(const GemmSignature& s) {
  return static_cast<int>(sizeof(TsCudaGemmListEntry) + s.epilogue_ops.size() * sizeof(TsCudaGemmListOperand));
}

void few_rows_facts(const Algorithm& a, CudaGemmResources& facts) {
  const int rows = a.tile[0], columns = a.tile[1], warps = a.wave[2];
  facts.warps = warps;
  facts.persistent = true;
  const int tiles = ceil_div(rows, 16) * (columns / 8);  // of 16 x 8
  facts.accumulators = tiles * 4;
  if (a.pipeline == Pipeline::skinny_tma) {
    facts.tensor_maps = true;
    facts.copy_rows = rows;
    facts.threads = 32 * warps + 32;
    facts.stage_bytes = 128L * facts.tma_boxes * (rows + columns) + 16;  // with two barriers
    const bool wgmma = a.instruction == Instruction::wgmma;
    if (wgmma) facts.accumulators = columns / 16 / std::max(warps, 1) * rows / 2;
    // The sums of all warps, or those of d as it lies.
    const long sums = wgmma ? 4L * rows * (columns + 4) : 512L * warps * tiles;
    facts.fixed_bytes = sums + kFlag + kAlignment;
    facts.part_bytes = 512L * warps * ceil_div(tiles, std::max(warps, 1));
  } else {
    facts.threads = 32 * warps;
    facts.stage_bytes = 64L * warps * columns;
    facts.fixed_bytes = 4L * rows * warps * columns + kFlag;
    facts.part_bytes = 64L * columns;
  }
  // ptxas counts with whole warps for each of an SM's four schedulers: 9 warps have 168 registers a thread.
  if (facts.threads > 0)
    facts.launch_registers = facts.consumer_registers =
        std::min(255, kRegisters / (round_up(facts.threads, 128) * facts.blocks_per_sm) / 8 * 8);
}

}  // namespace

int warpgroups_across(const Algorithm& a) {
  const bool whole = a.pipeline != Pipeline::warp_specialized || !a.transpose_c || a.ping_pong || a.wave[0] != 2;
  return whole || a.tile[1] % 128 == 0 ? 1 : 2;
}

bool turned_shares_are_boxes(int rows, int cluster_k) {
  const int blocks = std::max(cluster_k, 1);
  return rows > 32 * blocks && (blocks == 1 || rows % (8 * blocks) == 0);
}

CudaGemmResources cuda_gemm_resources(const KernelConfig& config) {
  const auto& s = std::get<GemmSignature>(config.signature);
  const Algorithm& a = config.algorithm;
  CudaGemmResources facts;
  facts.element_bytes = bits_of(s.a) / 8;
  facts.bits_of_b = bits_of(s.b);
  facts.result_bytes = bits_of(s.c) / 8;
  facts.blocks_per_sm = std::max<int>(a.block_per_cu, 1);
  facts.stage_k = a.tile[2];
  facts.tma_boxes = facts.stage_k * facts.element_bytes / 128;
  facts.aligned = a.vector[0] * facts.element_bytes == 16;
  facts.store_box = (a.pipeline == Pipeline::warp_specialized || a.pipeline == Pipeline::weight_only) &&
                    a.vector[2] * facts.result_bytes == 16;
  facts.pairs = a.vector[2] > 1;
  facts.staged_tensors = a.pipeline == Pipeline::warp_specialized && !a.transpose_c && facts.store_box &&
                         facts.result_bytes == 2 && !s.epilogue_ops.gated() &&
                         std::ranges::any_of(s.epilogue_ops, reads_tensor);
  facts.copied_tensor = facts.staged_tensors && bits_of(s.aux) == 16;
  if (s.family == GemmFamily::grouped_gemm) facts.list_products = TS_GEMM_LIST_BYTES / entry_bytes(s);
  if (a.pipeline == Pipeline::warp_specialized)
    warp_specialized_facts(s, a, facts);
  else if (a.pipeline == Pipeline::weight_only)
    mixed_facts(s, a, facts);
  else if (a.pipeline == Pipeline::mma_sm80)
    portable_facts(s, a, facts);
  else
    few_rows_facts(a, facts);
  lay_out_shared(s, a, facts);
  return facts;
}

void change_stages(const KernelConfig& config, CudaGemmResources& facts) {
  lay_out_shared(std::get<GemmSignature>(config.signature), config.algorithm, facts);
}

}  // namespace tilesmith
