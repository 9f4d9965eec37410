// The source of a CUDA GEMM kernel: the table of constants that its template reads, then the template of
// kernels/cuda/gemm with everything it includes.
#pragma once

#include "base/error.hpp"
#include "codegen/constants_table.hpp"
#include "codegen/source.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// `config` is one the rules accept (instances/gemm/cuda.hpp). The entry symbol is the instance's native name, and the
/// options are NVRTC's; the architecture it is compiled for is the source's arch.
[[nodiscard]] Result<Source> cuda_gemm_source(const KernelConfig& config);

/// The constants that GEMM's templates read of a config, and the template's file. Another producer in the place of
/// GEMM's may ask for more registers, a multiple of 8; consumers that have them to spare give them up.
[[nodiscard]] Result<std::string_view> add_cuda_gemm_constants(ConstantsTable& table, const KernelConfig& config,
                                                               int least_producer_registers = 0);

}  // namespace tilesmith
