// Device classes: devices on which the same kernel takes the same time, as far as the facts tell. What tuning measured
// on one device counts for its class. Two chips of one architecture with other numbers of processors, caches or memory
// are other classes.
#pragma once

#include <string>

#include "spec/cpu/facts.hpp"
#include "spec/cuda/spec.hpp"
#include "spec/hip/spec.hpp"

namespace tilesmith {

/// "x86_64_v4_bf16;threads=8;clock=3.7e+09;vector=512;l1d=32768;l2=1048576": the highest level, the threads of a call,
/// the figures of the machine.
[[nodiscard]] std::string device_class(const CpuFacts& facts);

/// "sm_90a;sms=132;l2=62914560;bytes_per_second=4.81e+12": `spec` with the figures of the device at hand.
[[nodiscard]] std::string device_class(const CudaSpec& spec);

/// "gfx942;compute_units=304": `spec` with the figures of the device at hand.
[[nodiscard]] std::string device_class(const HipSpec& spec);

}  // namespace tilesmith
