// What a kernel of convolution does on a CPU, counted template by template: a function for each, in files for blocked,
// direct and depthwise kernels.
#pragma once

#include <cstddef>

#include "spec/cpu/spec.hpp"
#include "tilesmith/conv.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith::cpu_conv {

/// In the order of kCpuConvTerms.
struct Counts {
  double products = 0, loads = 0, spread = 0, steps = 0, lines = 0, copied = 0, gathered = 0, scattered = 0,
         packing = 0, results = 0, straddling = 0, tails = 0, zeros = 0, tasks = 0;
};

[[nodiscard]] double to_multiple(double size, double step);
/// Of all members of a batch.
[[nodiscard]] double pixels(const ConvProblem& p, const ConvSpatial& size);
/// Pairs of a pixel of y and a tap that meet a pixel of x, of one coordinate.
[[nodiscard]] double met(const ConvProblem& p, std::size_t d);
/// The share of backward data's phases, of one coordinate, that taps reach: those a period apart leave one remainder.
[[nodiscard]] double reached(const ConvProblem& p, std::size_t d);

/// The kernel: what its instruction and its registers hold.
struct Kernel {
  const CpuGemmInstruction& facts;
  bool tiles, stored, wide;  ///< AMX; elements as they lie are the words; AVX-512
  double lanes, pack, rows, least_rows, panel, step, tile_m, tile_n, tile_k;
  double cycles;  ///< of a product of two vectors, or of as many products

  Kernel(const ConvProblem& p, const KernelConfig& config, const CpuSpec& spec);

  /// Rows in strips of micro-tiles, those that fill them up included.
  [[nodiscard]] double filled(double some, double strips) const;
  /// Counts micro-tiles: strips of `some` rows by vectors of columns along `words` of the sum.
  void multiply(Counts& counts, double some, double strips, double vectors, double words) const;
};

/// The share of vectors of the result, channels last, that lie in two lines of a cache.
[[nodiscard]] double straddling_share(const ConvProblem& p, const Kernel& kernel);

// kernels/cpu/conv/data_lines.h, joined_taps.h and data.h
[[nodiscard]] Counts blocked_data(const ConvProblem& p, const Kernel& kernel);
// kernels/cpu/conv/weight.h
[[nodiscard]] Counts blocked_weight(const ConvProblem& p, const Kernel& kernel);
// kernels/cpu/conv/direct.h
[[nodiscard]] Counts direct_data(const ConvProblem& p, const Kernel& kernel);
// kernels/cpu/conv/direct_weight.h
[[nodiscard]] Counts direct_weight(const ConvProblem& p, const Kernel& kernel);
// kernels/cpu/conv/depthwise.h
[[nodiscard]] Counts depthwise_data(const ConvProblem& p, const Kernel& kernel);
// kernels/cpu/conv/depthwise_fours.h
[[nodiscard]] Counts depthwise_fours(const ConvProblem& p, const Kernel& kernel);
// kernels/cpu/conv/channel_tiles.h
[[nodiscard]] Counts channel_tiles(const ConvProblem& p, const Kernel& kernel);
// kernels/cpu/conv/depthwise_weight.h
[[nodiscard]] Counts depthwise_weight(const ConvProblem& p, const Kernel& kernel);

}  // namespace tilesmith::cpu_conv
