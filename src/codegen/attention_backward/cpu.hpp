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
  ElementType element = ElementType::fp32;  ///< fp32, bf16 or fp16, of all tensors with a head dimension
  int tile_m = 16;                          ///< queries of a tile, a multiple of 4
  int tile_n = 64;                          ///< keys of a tile, a multiple of 32
};

/// The source of the kernel with these parameters; an error when the template does not cover them.
[[nodiscard]] Result<Source> cpu_attention_backward_source(const CpuAttentionBackwardParameters& parameters);

}  // namespace tilesmith
