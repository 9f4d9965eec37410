// What models of GPUs made of compute units take such a unit to do, beside the public figures of its chip.
#pragma once

#include "spec/reference_chip.hpp"

namespace tilesmith::compute_unit {

// Bytes that a compute unit gets for each clock: from its cache, and from local memory (AMD CDNA 3 white paper; the
// other chips' are taken to be the same).
inline constexpr double kCacheBytes = 64, kLdsBytes = 128;
// Shares of the public figures that kernels reach, and the start of one: assumed, not measured.
inline constexpr double kReachedRate = 0.7, kReachedBandwidth = 0.8, kLaunchSeconds = 5e-6;
// Steps that a block waits for at its start and its end.
inline constexpr int kIdleSteps = 2;

/// Of so many bytes through memory.
[[nodiscard]] inline double memory_seconds(double bytes, const ReferenceChip& chip) {
  return bytes / (kReachedBandwidth * chip.bytes_per_second);
}
/// Of a kernel that passes so many bytes through memory, and does little else.
[[nodiscard]] inline double pass_seconds(double bytes, const ReferenceChip& chip) {
  return kLaunchSeconds + memory_seconds(bytes, chip);
}

}  // namespace tilesmith::compute_unit
