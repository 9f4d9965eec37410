// The sources of the kernels that copy rows. There is one of each, for all types.
#pragma once

#include "base/error.hpp"
#include "codegen/source.hpp"
#include "spec/cuda/spec.hpp"

namespace tilesmith {

/// To rows of whole 16 bytes: two matrices.
[[nodiscard]] Result<Source> cuda_pad_rows_source(const CudaSpec& spec);

/// Of the heads of up to five tensors, to rows of whole 16 bytes or back.
[[nodiscard]] Result<Source> cuda_copy_rows_source(const CudaSpec& spec);

}  // namespace tilesmith
