// Channels that are no whole sixteens of bytes: the same problem with channels of zeros behind them, between copies.
// Kernels of the copy engine and of 16-byte accesses serve that one, and take a fraction of what reading element by
// element takes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "choose/candidate.hpp"
#include "spec/cuda/spec.hpp"
#include "tilesmith/conv.hpp"

namespace tilesmith {

/// The problem whose channels that are read (backward data and weight: all) are filled up where they are no whole
/// octets, to such, more than 32 to whole sixteens; nothing where they all are, where tensors are unaligned or not of
/// 16 bits, where an epilogue reads what is filled up, or nothing is computed.
[[nodiscard]] std::optional<ConvProblem> with_filled_channels(const ConvProblem& problem);

/// The kernel that copies; nothing where the chip has none.
[[nodiscard]] std::optional<KernelConfig> padding_kernel(const CudaSpec& spec, DataType type);

/// What a kernel of the padded problem is between copies: {prepare, compute}, or {prepare, compute, convert} where the
/// result has fewer channels than the kernel's.
[[nodiscard]] Recipe padded_recipe(const KernelConfig& copies, const KernelConfig& main, const ConvProblem& problem,
                                   const ConvProblem& padded);

/// The tensors that are copied, each with its elements behind the copy: x, w, y; 0 for those that stay as they are.
[[nodiscard]] std::array<std::int64_t, 3> padded_elements(const ConvProblem& problem, const ConvProblem& padded);

/// What the copies take.
[[nodiscard]] double padding_seconds(const CudaSpec& spec, const ConvProblem& problem, const ConvProblem& padded);

}  // namespace tilesmith
