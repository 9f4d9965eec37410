// Facts about one architecture of AMD GPUs that own kernels need (specs/hip/*.json): limits, the matrix instructions
// with the places of their operands, and the tiles worth trying. What Composable Kernel's lists need is spec/amd.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "spec/reference_chip.hpp"
#include "vocabulary/algorithm.hpp"
#include "vocabulary/arch_name.hpp"
#include "vocabulary/data_type.hpp"
#include "vocabulary/traits.hpp"

namespace tilesmith {

/// How a matrix instruction's builtin takes its operands.
enum class HipOperand : std::uint8_t {
  f16,
  bf16,
  bf16_bits,  ///< bf16 in vectors of 16-bit integers
  bytes,      ///< 8-bit types in words
};
template <>
struct EnumTable<HipOperand> {
  static constexpr std::string_view kWhat = "operand of a matrix instruction";
  static constexpr auto kNames = enum_names<HipOperand>({{HipOperand::f16, "f16"},
                                                         {HipOperand::bf16, "bf16"},
                                                         {HipOperand::bf16_bits, "bf16_bits"},
                                                         {HipOperand::bytes, "bytes"}});
};

/// One matrix instruction. It multiplies a square fragment. With side s, a lane brings operand_words 32-bit words along
/// k of row (of B: column) lane % s. Lanes that share a row bring groups_k parts of k that follow one another; 1: they
/// all bring the same. Of the result, value r of lane l is in column l % s and in row (r / run_of_results * lanes / s +
/// l / s) * run_of_results + r % run_of_results.
struct HipFragment {
  std::vector<DataType> data_types;
  DataType accumulator = DataType::fp32;
  int side = 0;
  int k = 0;
  std::string builtin;  ///< without "__builtin_amdgcn_"
  HipOperand operand = HipOperand::f16;
  int operand_words = 0;
  int groups_k = 0;
  int run_of_results = 0;
  bool fnuz = false;  ///< of fp8: operands in the encoding without infinities and -0, whose bits mean half of fp8's
};

struct HipGemmTile {
  int tile_m = 0, tile_n = 0, tile_k = 0;  ///< of a block
  int waves_m = 0, waves_n = 0;
  int fragment = 0;  ///< the side of the instruction's
  int stages = 0;    ///< tiles in local memory
  int blocks_per_cu = 1;
};

/// The tiles for matrices of some types, in order of preference.
struct HipGemmTable {
  std::vector<DataType> data_types;
  std::vector<HipGemmTile> tiles;
};

/// A tile of the attention template.
struct HipAttentionTile {
  Pipeline pipeline = Pipeline::flash;
  int waves = 0;         ///< of a block, a fragment's rows each
  int column_waves = 1;  ///< that share these rows, and divide the columns of outputs
  int tile_n = 0;        ///< keys of a block of keys
  int fragment = 0;      ///< the side of the instruction's
  int blocks_per_cu = 1;
  int head_dim_low = 0, head_dim_high = 0;  ///< of the larger head dim

  [[nodiscard]] bool is_for(int head_dim) const { return head_dim >= head_dim_low && head_dim <= head_dim_high; }
};

struct HipSpec {
  ArchName arch;
  std::string about;
  std::string source;   ///< where the facts come from
  bool tested = false;  ///< its kernels have run and been checked on such a chip
  Instruction matrix_unit = Instruction::mfma;
  int lanes_per_wave = 0;
  int simds_per_compute_unit = 0;
  int registers_per_lane = 0;  ///< most vector registers, accumulation registers among them
  int registers_of_simd = 0;   ///< that the lanes of its waves share
  long lds_bytes = 0;          ///< of a block
  ReferenceChip reference;     ///< whose figures own kernels are predicted by
  std::vector<HipFragment> fragments;
  std::vector<GemmEpilogue> gemm_epilogues;  ///< of listed kernels
  std::vector<HipGemmTable> gemm_tables;

  int head_dim_min = 0, head_dim_max = 0;
  int head_dim_step = 0;  ///< of listed head dims
  int head_dim_listed_max = 0;
  std::vector<std::pair<int, int>> unequal_head_dims;
  std::vector<DataType> attention_types;
  std::vector<HipAttentionTile> attention_tiles;  ///< in order of preference

  /// The instruction for matrices of this type with fragments of this side; null where there is none.
  [[nodiscard]] const HipFragment* fragment(DataType type, int side) const;
  [[nodiscard]] const HipGemmTable* gemm_table(DataType type) const;
};

[[nodiscard]] Result<HipSpec> parse_hip_spec(std::string_view file, std::string_view text);

/// All architectures, by name.
[[nodiscard]] Result<std::vector<HipSpec>> load_hip_specs();

}  // namespace tilesmith
