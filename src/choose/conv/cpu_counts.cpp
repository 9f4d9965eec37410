#include "choose/conv/cpu_counts.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "choose/rounding.hpp"
#include "instances/conv/cpu.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith::cpu_conv {

double to_multiple(double size, double step) {
  return ceil_div(size, step) * step;
}

double pixels(const ConvProblem& p, const ConvSpatial& size) {
  return static_cast<double>(p.batch) * static_cast<double>(size[0]) * static_cast<double>(size[1]) *
         static_cast<double>(size[2]);
}

double met(const ConvProblem& p, std::size_t d) {
  constexpr std::int64_t kMost = 512;  // taps that are looked at; the others are taken to be like them
  const std::int64_t stride = p.stride()[d], taps = std::min(p.filter()[d], kMost);
  double pairs = 0;
  for (std::int64_t tap = 0; tap < taps; ++tap) {
    const std::int64_t offset = tap * p.dilation()[d] - p.pad()[d], last = p.in()[d] - 1 - offset;
    const std::int64_t first = offset < 0 ? (-offset + stride - 1) / stride : 0;
    if (last >= 0)
      pairs += static_cast<double>(std::max<std::int64_t>(0, std::min(p.out()[d], last / stride + 1) - first));
  }
  return pairs * static_cast<double>(p.filter()[d]) / static_cast<double>(std::max<std::int64_t>(taps, 1));
}

double reached(const ConvProblem& p, std::size_t d) {
  const std::int64_t period = p.stride()[d] / std::gcd(p.stride()[d], p.dilation()[d]);
  const std::int64_t phases = std::min(p.stride()[d], p.in()[d]);
  return static_cast<double>(std::min({p.filter()[d], period, phases})) / static_cast<double>(phases);
}

Kernel::Kernel(const ConvProblem& p, const KernelConfig& config, const CpuSpec& spec)
    : facts(*CpuConvSubject{config, spec}.facts()),
      tiles(facts.instruction == Instruction::amx_bf16 || facts.instruction == Instruction::amx_int8),
      stored(facts.instruction != Instruction::dot_int16 && facts.elements_per_word * bits_of(p.data_type) == 32),
      wide(spec.vector_bits == 512),
      lanes(spec.vector_bits / 32.0),
      pack(facts.elements_per_word),
      rows(facts.rows),
      least_rows(tiles ? 16 : facts.rows / 2.0),
      panel(facts.columns),
      step(tiles ? 16 : 1),
      tile_m(config.algorithm.tile[0]),
      tile_n(config.algorithm.tile[1]),
      tile_k(config.algorithm.tile[2]),
      cycles(lanes * pack / facts.products_per_cycle) {}

double Kernel::filled(double some, double strips) const {
  const double each = some / strips;
  return strips * (tiles ? std::max(least_rows, to_multiple(each, least_rows)) : std::max(least_rows, each));
}

double straddling_share(const ConvProblem& p, const Kernel& kernel) {
  constexpr std::int64_t kLine = 64;  // bytes
  const std::int64_t size = bits_of(p.type_out) / 8, vector = static_cast<std::int64_t>(kernel.lanes) * size;
  const std::int64_t pixel = p.groups * (p.direction == ConvDirection::forward ? p.k : p.c) * size;
  // Pixels begin at any multiple of this.
  const std::int64_t step = std::min(std::gcd(pixel, kLine), vector);
  return static_cast<double>(vector - step) / static_cast<double>(kLine);
}

void Kernel::multiply(Counts& counts, double some, double strips, double vectors, double words) const {
  const double panels = ceil_div(vectors * lanes, panel), all = filled(some, strips);
  counts.products += all * vectors * words * cycles;
  counts.loads += words * (all * panels + strips * vectors) / step;
  counts.steps += strips * panels * words / step;
}

}  // namespace tilesmith::cpu_conv
