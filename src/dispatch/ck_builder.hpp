// Composable Kernel's instances from their sources into the store.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "dispatch/kernel_builder.hpp"

namespace tilesmith {

struct CkBuildOptions {
  std::string version{};                ///< of Composable Kernel; empty: the default
  std::uint32_t spill_limit_bytes = 0;  ///< bytes of vector registers that a lane may spill
};

/// A builder for a chip that this machine need not have. Errors: not_found for an unknown chip; those of
/// CkWriter::create. An instance without a source fails as `unsupported`, with the rule.
[[nodiscard]] Result<std::unique_ptr<KernelBuilder>> ck_builder_for(std::string_view arch,
                                                                    const CkBuildOptions& options = {});

}  // namespace tilesmith
