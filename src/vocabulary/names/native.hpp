// Names of Tilesmith's own kernels (CPU and NVIDIA): readable, over [a-z0-9_], and an inverse of each other with the
// config.
//
//   <operation>_<family>_<types...>_<traits...>_<pipeline>_<instruction>_tile<..>_<rest...>_on_<arch>
//   attention_fwd_bf16_batch_d128_dv128_mask_generic_lse_flash_dpbf16_tile64x256_on_x86_64_v4_bf16
//
// Tokens stand in field order. A field that has its default value is left out, except those that every name shows. A
// flag is its label, an integer its label and digits, an enum its label and value (or the value alone), an array its
// label and figures without trailing zeros, a list its label and the names
// of its values without underscores.
#pragma once

#include <string>
#include <string_view>

#include "base/error.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

[[nodiscard]] std::string native_name(const KernelConfig& config);

/// The config with this name; the error quotes the part that could not be read.
[[nodiscard]] Result<KernelConfig> parse_native_name(std::string_view name);

}  // namespace tilesmith
