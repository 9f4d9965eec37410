#include "instances/gemm/hip_resources.hpp"

#include <algorithm>

namespace tilesmith {
namespace {

// Addresses of the loop, counters, the epilogue's values.
constexpr int kOtherRegisters = 40;

}  // namespace

HipGemmResources hip_gemm_resources(const KernelConfig& config, const HipSpec& spec, const HipFragment& fragment) {
  const auto& signature = std::get<GemmSignature>(config.signature);
  const Algorithm& a = config.algorithm;
  const int m = a.tile[0], n = a.tile[1], k = a.tile[2], waves = a.wave[0] * a.wave[1];
  HipGemmResources out;
  out.element_bytes = std::max(bits_of(signature.a) / 8, 1);
  out.threads = waves * spec.lanes_per_wave;
  const long step_bytes = static_cast<long>(m + n) * k * out.element_bytes;
  out.lds_bytes = a.stages * step_bytes;
  out.blocks_per_cu = std::max<int>(a.block_per_cu, 1);
  out.waves_per_simd = std::max(1, out.blocks_per_cu * waves / spec.simds_per_compute_unit);
  const int rows = m / a.wave[0] / fragment.side, columns = n / a.wave[1] / fragment.side;
  out.accumulators = rows * columns * fragment.side * fragment.side / spec.lanes_per_wave;
  // Of 16 bytes, with an address each.
  const int chunks = static_cast<int>((step_bytes / 16 + out.threads - 1) / out.threads);
  const int lane_words = std::max(4, fragment.operand_words);
  out.registers = out.accumulators + chunks * (4 + 2) + (rows + columns) * lane_words + kOtherRegisters;
  out.registers_allowed = std::min(spec.registers_per_lane, spec.registers_of_simd / out.waves_per_simd);
  out.aligned = a.vector[0] > 1;
  out.wide = a.vector[2] > 1;
  return out;
}

}  // namespace tilesmith
