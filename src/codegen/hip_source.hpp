// What the sources of all own kernels for AMD GPUs have alike.
#pragma once

#include <span>
#include <string_view>

#include "base/embedded.hpp"
#include "base/error.hpp"
#include "codegen/constants_table.hpp"
#include "codegen/source.hpp"
#include "spec/hip/spec.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// Adds the constants of kernels/hip/common/matrix.h.
void add_hip_fragment(ConstantsTable& table, const HipSpec& spec, const HipFragment& fragment);

/// The table, the names of the entry and of the matrix instruction, and the template with everything it includes.
/// Error: internal, for a template that is not among `files`.
[[nodiscard]] Result<Source> hip_source(const KernelConfig& config, const ConstantsTable& table,
                                        const HipFragment& fragment, std::span<const EmbeddedFile> files,
                                        std::string_view entry_file);

}  // namespace tilesmith
