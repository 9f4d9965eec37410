// The source of an own attention kernel for AMD GPUs: the table of constants that its template reads, then the template
// of kernels/hip/attention with everything it includes.
#pragma once

#include <span>

#include "base/embedded.hpp"
#include "base/error.hpp"
#include "codegen/flatten.hpp"
#include "codegen/source.hpp"
#include "spec/hip/spec.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// `config` is one the rules accept (instances/attention/hip.hpp). The entry symbol is the instance's native name, and
/// the options are clang's; the processor it is compiled for is the source's arch. `files` are the templates.
[[nodiscard]] Result<Source> hip_attention_source(const KernelConfig& config, const HipSpec& spec,
                                                  std::span<const EmbeddedFile> files = embedded_kernels());

}  // namespace tilesmith
