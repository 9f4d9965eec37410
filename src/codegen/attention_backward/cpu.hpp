// The source of a CPU attention-backward kernel: constants, then the template fragments of kernels/cpu.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "codegen/cpu_source.hpp"

namespace tilesmith {

struct CpuAttentionBackwardParameters {
  std::string name;                    ///< the instance's name, kept in the kernel table
  std::array<std::uint64_t, 2> key{};  ///< the instance's key: high, low
  CpuLevel level = CpuLevel::x86_64_v3;
  Pipeline pipeline = Pipeline::generic;           ///< flash, or generic, which asks for no trait and head dim
  Instruction instruction = Instruction::fma_f32;  ///< fma_f32, or of bf16 dpbf16 or amx_bf16
  ElementType element = ElementType::fp32;         ///< fp32, bf16 or fp16, of all tensors with a head dimension
  int head_dim_qk = 0;                             ///< flash: 8..256, a multiple of 8; amx_bf16: of 32
  int head_dim_v = 0;
  int tile_m = 16;  ///< queries of a tile: a multiple of 4; flash: of 24; amx_bf16: of 32
  int tile_n = 64;  ///< keys of a tile: a multiple of 32; flash: of three vectors; amx_bf16: of 32
  bool bias = false;
  bool alibi = false;
  bool soft_cap = false;
  bool dropout = false;
};

/// The source of the kernel with these parameters; an error when the template does not cover them.
[[nodiscard]] Result<Source> cpu_attention_backward_source(const CpuAttentionBackwardParameters& parameters);

}  // namespace tilesmith
