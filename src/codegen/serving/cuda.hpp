// The sources of CUDA's serving kernels. There is one for each set of data types and nothing to choose, so they have
// names and no configs.
#pragma once

#include "base/error.hpp"
#include "codegen/source.hpp"
#include "spec/cuda/spec.hpp"
#include "tilesmith/types.hpp"

namespace tilesmith {

/// Of outputs of fp32, fp16 or bf16.
[[nodiscard]] Result<Source> cuda_merge_states_source(DataType type, const CudaSpec& spec);
/// Of queries, keys and values of fp32, fp16 or bf16. Error: unsupported, where the architecture cannot round to e4m3.
[[nodiscard]] Result<Source> cuda_append_kv_source(DataType type, KvElements cache, const CudaSpec& spec);

}  // namespace tilesmith
