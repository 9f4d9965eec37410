// The name of any config: Composable Kernel's grammar for AMD instances (ck_name.hpp), Tilesmith's own for the rest
// (native_name.hpp).
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
