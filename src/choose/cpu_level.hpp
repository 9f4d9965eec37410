// A kernel's level on a machine: whether the machine runs it at all.
#pragma once

#include <string_view>

#include "base/error.hpp"
#include "spec/cpu/facts.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// Error: unsupported, when the config is for no level that the machine runs.
[[nodiscard]] Status check_runs_on(const CpuFacts& facts, const KernelConfig& config);

/// The machine's highest level.
[[nodiscard]] std::string_view name_of(const CpuFacts& facts);

}  // namespace tilesmith
