// The name of any config, in the grammar of its origin: Composable Kernel's (ck.hpp) or Tilesmith's own (native.hpp).
#pragma once

#include <string>
#include <string_view>

#include "base/error.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

[[nodiscard]] std::string kernel_name(const KernelConfig& config);

/// A Composable Kernel name leaves the architecture empty: it does not say which.
[[nodiscard]] Result<KernelConfig> parse_kernel_name(std::string_view name);

}  // namespace tilesmith
