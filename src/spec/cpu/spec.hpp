// Facts about CPU architecture levels (specs/cpu/*.json): instruction sets, compiler flags, and the tiles worth trying
// on them.
//
// A level is a set of CPU features. A machine belongs to the highest level whose features it all has, and runs the
// kernels of that level and of every level it includes.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "spec/cpu/attention_model.hpp"
#include "spec/cpu/conv_model.hpp"
#include "spec/cpu/gemm_model.hpp"
#include "vocabulary/algorithm.hpp"
#include "vocabulary/arch_name.hpp"
#include "vocabulary/data_type.hpp"
#include "vocabulary/traits.hpp"

namespace tilesmith {

/// The tiles of one pipeline: query rows (tile_m) and keys (tile_n).
struct CpuTiles {
  Pipeline pipeline = Pipeline::flash;
  std::vector<int> tile_m;
  std::vector<int> tile_n;
};

/// Products a cycle by the beginning of vendor and family of /proc/cpuinfo ("AuthenticAMD 25").
using ProductsOnChips = std::vector<std::pair<std::string, double>>;

/// What one instruction offers attention.
struct CpuAttentionInstruction {
  Instruction instruction = Instruction::fma_f32;
  std::vector<DataType> data_types;
  int lanes = 0;                  ///< what a vector or matrix tile holds: query rows of forward, keys of backward
  double products_per_cycle = 0;  ///< of backward: multiplications and additions a cycle that its kernels reach
  ProductsOnChips products_on;    ///< where they reach others
  std::vector<CpuTiles> pipelines;
};

/// The tiles of one GEMM pipeline: rows and columns of a task, elements of k between two visits of its sums.
struct CpuGemmTiles {
  Pipeline pipeline = Pipeline::blocked;
  std::vector<int> tile_m;
  std::vector<int> tile_n;
  std::vector<int> tile_k;
};

/// What one instruction offers GEMM.
struct CpuGemmInstruction {
  Instruction instruction = Instruction::fma_f32;
  std::vector<DataType> data_types;  ///< of A and B
  int rows = 0;                      ///< what the registers hold, of which tiles are multiples: rows of A,
  int columns = 0;                   ///< columns of B,
  int depth = 0;                     ///< elements of k
  int elements_per_word = 1;         ///< elements of k in a 32-bit word of the packed matrices
  double products_per_cycle = 0;     ///< multiplications and additions a core does at best
  ProductsOnChips products_on;       ///< where it does others
  std::vector<CpuGemmTiles> pipelines;
};

struct CpuSpec {
  ArchName arch;
  std::string about;
  std::vector<ArchName> includes;          ///< levels whose kernels run here too, nearest first
  std::vector<std::string> features;       ///< names as in /proc/cpuinfo
  std::vector<std::string> compile_flags;  ///< g++ and clang++ alike
  int vector_bits = 0;
  int vector_bits_per_cycle = 0;      ///< what a unit computes at a time: half where its units have half the width
  double clock_hz = 0;                ///< nominal: turns the cost models' cycles into seconds
  double memory_bytes_per_cycle = 0;  ///< what one core reads from memory
  int vector_registers = 0;
  /// Chips (vendor and family of /proc/cpuinfo, "AuthenticAMD 25") that compute a vector of this level in two halves.
  std::vector<std::string> half_width_units;
  long l1d_bytes = 0;  ///< smallest of the level's chips; the machine's own figures win where known
  long l2_bytes = 0;
  int head_dim_min = 0;
  int head_dim_max = 0;
  int head_dim_step = 0;
  int head_dim_listed_max = 0;
  std::vector<std::pair<int, int>> unequal_head_dims;  ///< (head_dim_qk, head_dim_v) pairs listed beside the equal ones
  std::vector<CpuAttentionInstruction> attention_fwd;
  CpuAttentionModel attention_model;  ///< of attention forward, on the chips that `attention_models_on` does not have
  /// By the beginning of a chip's vendor and family: "AuthenticAMD" is every family.
  std::vector<std::pair<std::string, CpuAttentionModel>> attention_models_on;
  std::vector<CpuAttentionInstruction> attention_bwd;  ///< of the same head dims; empty where no template is faster
  std::vector<CpuGemmInstruction> gemm;                ///< and convolution
  std::vector<GemmEpilogue> gemm_epilogues;            ///< those that listings hold; dispatch makes any
  CpuGemmModel gemm_model;                             ///< in cold caches: which kernel goes first
  CpuGemmModel gemm_warm_model;                        ///< in warm caches: how many threads a call is worth
  /// Beginnings of the chips whose kernels go by the warm model too, as nothing was measured there in cold caches.
  std::vector<std::string> gemm_warm_on;
  /// Of the models' term `far`: so many pages a core follows from panel to panel, and products of so many cycles hide
  /// the wait for a row that it does not.
  double gemm_followed_pages = 0, gemm_hidden_cycles = 0;
  CpuConvModel conv_model;
};

/// The level on a chip of this vendor and family: with the products a cycle of its own instructions and the model that
/// was fitted to such chips; where its units have half the width, half the products a cycle and half a vector at a
/// time.
[[nodiscard]] CpuSpec on_chip(CpuSpec spec, std::string_view family);

/// All levels, lowest first. The first error in a spec is returned with file, path and value.
[[nodiscard]] Result<std::vector<CpuSpec>> load_cpu_specs();

/// One spec from JSON text; `file` is used in errors.
[[nodiscard]] Result<CpuSpec> parse_cpu_spec(std::string_view file, std::string_view text);

}  // namespace tilesmith
