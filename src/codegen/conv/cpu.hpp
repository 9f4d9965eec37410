// The source of a CPU convolution kernel: constants, then the template fragments of kernels/cpu.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "codegen/cpu_source.hpp"
#include "vocabulary/traits.hpp"

namespace tilesmith {

struct CpuConvParameters {
  std::string name;                    ///< the instance's name, kept in the kernel table
  std::array<std::uint64_t, 2> key{};  ///< the instance's key: high, low
  CpuLevel level = CpuLevel::x86_64_v3;
  ConvDirection direction = ConvDirection::forward;
  Pipeline pipeline = Pipeline::blocked;           ///< or depthwise, or direct
  Instruction instruction = Instruction::fma_f32;  ///< what the level multiplies the element with
  ElementType element = ElementType::fp32;         ///< fp32, bf16 or fp16, of the tensors that are read
  int tile_m = 96;   ///< blocked: rows of a task (pixels; backward weight: taps and channels of x), a multiple of 8
  int tile_n = 480;  ///< columns of a task (channels), a multiple of 48
  int tile_k = 256;  ///< words of a block of the sums, a multiple of 16
};

/// The source of the kernel with these parameters; an error when the templates do not cover them.
[[nodiscard]] Result<Source> cpu_conv_source(const CpuConvParameters& parameters);

}  // namespace tilesmith
