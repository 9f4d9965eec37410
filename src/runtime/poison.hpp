// Memory that nobody has written. A program that verifies kernels fills it with NaNs, so that what a kernel reads
// before it writes shows in its result, instead of being the zeros that the system gave or what an earlier call left.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstring>
#include <span>

namespace tilesmith {

/// Of every floating type a NaN.
inline constexpr unsigned char kPoison = 0xff;

inline void poison(std::span<std::byte> memory) {
  if (!memory.empty()) std::memset(memory.data(), kPoison, memory.size());
}

/// Whether planning fills the scratch of the CPU's threads so. For programs that verify, before they plan; elsewhere it
/// would cost time for nothing.
inline std::atomic<bool> poisons_scratch{false};

}  // namespace tilesmith
