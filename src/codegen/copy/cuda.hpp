// The source of the kernel that copies rows to rows of whole 16 bytes. There is one, for all types.
#pragma once

#include "base/error.hpp"
#include "codegen/source.hpp"
#include "spec/cuda/spec.hpp"

namespace tilesmith {

[[nodiscard]] Result<Source> cuda_pad_rows_source(const CudaSpec& spec);

}  // namespace tilesmith
