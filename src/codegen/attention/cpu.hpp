// The source of a CPU attention kernel: constants that say what the instance is, then the template fragments of
// kernels/cpu. This file knows the templates' parameters and nothing of kernel configs; those are mapped to parameters
// elsewhere.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "codegen/cpu_source.hpp"

namespace tilesmith {

struct CpuAttentionParameters {
  std::string name;                    ///< the instance's name, kept in the kernel table
  std::array<std::uint64_t, 2> key{};  ///< the instance's key: high, low
  CpuLevel level = CpuLevel::x86_64_v3;
  Pipeline pipeline = Pipeline::flash;             ///< flash, decode, or generic, which asks for no trait and head dim
  Instruction instruction = Instruction::fma_f32;  ///< fma_f32, dpbf16 or amx_bf16
  ElementType element = ElementType::fp32;         ///< fp32, bf16 or fp16, of q, k, v and o; generic: also fp8e4m3
  ElementType output = ElementType::fp32;          ///< generic: of o
  ElementType cache = ElementType::fp32;           ///< of k and v: as `element`, or fp8e4m3 or int8; not of generic
  int head_dim_qk = 64;                            ///< 8..576, a multiple of 8
  int head_dim_v = 64;
  int tile_m = 96;    ///< flash: query rows of a task, a multiple of the lanes. decode: 1, rows are grouped at run time
  int tile_n = 64;    ///< keys of a block, a multiple of 16 (AMX: 32)
  bool mask = false;  ///< windows are given at run time
  bool bias = false;
  bool alibi = false;
  bool soft_cap = false;
  bool sink = false;
  bool dropout = false;
  bool lse = false;
  bool group_mode = false;
  bool paged = false;  ///< keys and values lie in pages
};

/// The source of the kernel with these parameters; an error when the templates do not cover them.
[[nodiscard]] Result<Source> cpu_attention_source(const CpuAttentionParameters& parameters);

}  // namespace tilesmith
