// The source of a CPU GEMM kernel: constants that say what the instance is, then the template fragments of kernels/cpu.
// What the kernel computes is written in kernels/contract/gemm.h and kernels/cpu/gemm/abi.h.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "codegen/cpu_source.hpp"
#include "vocabulary/traits.hpp"

namespace tilesmith {

enum class CpuGemmForm : std::uint8_t {
  blocked,  ///< B packed into panels, A packed block by block, for any shape
  skinny,   ///< up to 16 rows of A; B is read once, as it lies
  pack_b,   ///< packs B for blocked kernels with packed_b and the same level, instruction, element and tile_k
  generic,  ///< every other parameter but the tile is known at run time (kernels/cpu/gemm/generic_abi.h)
};

/// Scales along k: of blocks of 8-bit floats, or of B's integer weights.
enum class CpuGemmScales : std::uint8_t { none, blocks, int8_weights, int4_weights };

enum class GemmBias : std::uint8_t { none, along_n, along_m };

enum class GemmActivation : std::uint8_t { none, relu, gelu, gelu_tanh, silu, sigmoid, tanh };

struct CpuGemmParameters {
  std::string name;                    ///< the instance's name, kept in the kernel table
  std::array<std::uint64_t, 2> key{};  ///< the instance's key: high, low
  CpuLevel level = CpuLevel::x86_64_v3;
  CpuGemmForm form = CpuGemmForm::blocked;
  Instruction instruction = Instruction::fma_f32;  ///< fma_f32, dpbf16, amx_bf16, dot_int16, dot_int8 or amx_int8
  ElementType element = ElementType::fp32;         ///< of A and B: fp32, bf16, fp16, int8, fp8e4m3 or fp8e5m2
  std::optional<ElementType> element_b{};          ///< where it is not A's: the other one of the 8-bit floats
  CpuGemmScales scales = CpuGemmScales::none;      ///< weights: B's type is theirs, A's fp16 or bf16
  ElementType scale_type = ElementType::fp32;      ///< of weights' scales: fp32, bf16 or fp16
  bool zero_points = false;                        ///< of weights
  ElementType output = ElementType::fp32;          ///< of D: fp32, bf16 or fp16; for int8 also int32 and int8
  ElementType aux = ElementType::fp32;             ///< of C and the extras: any of D's types; int32 when D is int32
  ElementType bias_type = ElementType::fp32;       ///< of the bias: fp32, bf16 or fp16
  MatrixOrder order_a = MatrixOrder::row;
  MatrixOrder order_b = MatrixOrder::row;
  int tile_m = 192;         ///< rows of a task, a multiple of cpu_gemm_tile().rows
  int tile_n = 480;         ///< columns of a task, a multiple of cpu_gemm_tile().columns
  int tile_k = 384;         ///< elements of k between two visits of the sums, a multiple of cpu_gemm_tile().depth
  bool split_k = false;     ///< k may be cut into parts, whose partials are added in order
  bool packed_b = false;    ///< B comes from a pack_b kernel
  bool mm_plus_mm = false;  ///< A2 x B2 is added to A x B before the epilogue
  GemmBias bias = GemmBias::none;
  GemmActivation activation = GemmActivation::none;
  bool gated = false;  ///< neighbouring columns are a pair: D has n / 2 columns
  bool row_scale = false;
  bool column_scale = false;
  int extras = 0;                ///< tensors added to or multiplied with the activated result, up to 4
  bool extras_multiply = false;  ///< they are factors
  bool clamp = false;
  bool amax = false;
};

/// What a register tile covers: rows of A, columns of B, elements of k that sizes of a task are multiples of.
struct CpuGemmTile {
  int rows, columns, depth;
};
[[nodiscard]] CpuGemmTile cpu_gemm_tile(CpuLevel level, Instruction instruction);

/// tile_m, tile_n, tile_k for a machine with these caches per core, in bytes.
struct CpuGemmBlocking {
  int tile_m, tile_n, tile_k;
};
[[nodiscard]] CpuGemmBlocking cpu_gemm_blocking(CpuLevel level, CpuGemmForm form, Instruction instruction,
                                                long l1d_bytes, long l2_bytes);

/// The source of the kernel with these parameters; an error when the templates do not cover them.
[[nodiscard]] Result<Source> cpu_gemm_source(const CpuGemmParameters& parameters);

}  // namespace tilesmith
