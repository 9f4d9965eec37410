#include "choose/device_class.hpp"

#include <fmt/format.h>

namespace tilesmith {

std::string device_class(const CpuFacts& facts) {
  const CpuSpec& level = facts.levels.front();
  return fmt::format("{};threads={};clock={:.3g};vector={};l1d={};l2={}", level.arch.text(), facts.threads,
                     level.clock_hz, level.vector_bits_per_cycle, level.l1d_bytes, level.l2_bytes);
}

std::string device_class(const CudaSpec& spec) {
  return fmt::format("{};sms={};l2={};bytes_per_second={:.3g}", spec.arch.text(), spec.reference.sms,
                     spec.reference.l2_bytes, spec.reference.bytes_per_second);
}

std::string device_class(const HipSpec& spec) {
  return fmt::format("{};compute_units={}", spec.arch.text(), spec.reference.compute_units);
}

}  // namespace tilesmith
