// The source of a CPU attention kernel: constants that say what the instance is, then the template fragments of kernels/cpu.
// This file knows the templates' parameters and nothing of kernel configs; those are mapped to parameters elsewhere.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace tilesmith {

enum class CpuElement : std::uint8_t { fp32, bf16, fp16 };

/// What multiplies: f32 lanes, pairs of bf16 (AVX512-BF16), or bf16 tiles (AMX).
enum class CpuInstruction : std::uint8_t { fma_f32, dpbf16, amx_bf16 };

/// Sets of instructions a machine has; each includes those before it.
enum class CpuLevel : std::uint8_t { x86_64_v3, x86_64_v4, x86_64_v4_bf16, x86_64_amx };

/// forward: a task is a block of queries. decode: few queries, a task is a piece of the keys.
enum class CpuAttentionPipeline : std::uint8_t { forward, decode };

struct CpuAttentionParameters {
  std::string name;                       ///< the instance's name, kept in the kernel table
  std::array<std::uint64_t, 2> key{};     ///< the instance's key: high, low
  CpuLevel level = CpuLevel::x86_64_v3;
  CpuAttentionPipeline pipeline = CpuAttentionPipeline::forward;
  CpuInstruction instruction = CpuInstruction::fma_f32;
  CpuElement element = CpuElement::fp32;
  int head_dim_qk = 64;                   ///< 8..256, a multiple of 8
  int head_dim_v = 64;
  int tile_m = 96;                        ///< forward: queries of a task, a multiple of the lanes. decode: query rows of a task, 1..16
  int tile_n = 64;                        ///< keys of a block, a multiple of 16 (AMX: 32)
  bool mask = false;                      ///< windows are given at run time
  bool bias = false;
  bool alibi = false;
  bool soft_cap = false;
  bool sink = false;
  bool dropout = false;
  bool lse = false;
  bool group_mode = false;
};

struct CpuSource {
  std::string text;                       ///< one translation unit that includes nothing
  std::string entry;                      ///< the exported TsCpuKernel
  std::vector<std::string> options;       ///< language and instruction-set options for g++ or clang++
};

/// The source of the kernel with these parameters; an error when the templates do not cover them.
[[nodiscard]] Result<CpuSource> cpu_attention_source(const CpuAttentionParameters& parameters);

/// Compiler options that allow a level's instructions; explicit, so that a binary does not depend on the building machine.
[[nodiscard]] std::vector<std::string> cpu_level_options(CpuLevel level);

}  // namespace tilesmith
