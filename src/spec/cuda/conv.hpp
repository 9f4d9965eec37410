// The convolution tiles of an NVIDIA architecture ("conv" in specs/cuda/*.json). A tile's fields are those of a GEMM's:
// m, n and k are the rows, columns and depth of the product that a convolution is (kernels/cuda/conv).
#pragma once

#include <vector>

#include "base/error.hpp"
#include "spec/cuda/gemm.hpp"
#include "spec/json_reader.hpp"
#include "tilesmith/gemm_epilogue.hpp"

namespace tilesmith {

struct CudaConvSpec {
  std::vector<GemmEpilogue> epilogues;      ///< those that listings hold; dispatch makes any
  std::vector<CudaGemmPipeline> pipelines;  ///< empty: no kernels of convolution

  /// Null when the architecture does not offer the pipeline.
  [[nodiscard]] const CudaGemmPipeline* pipeline(Pipeline pipeline) const;
};

/// {"epilogues": [["bias"], ...], "pipelines": as of "gemm"}
[[nodiscard]] Result<CudaConvSpec> read_cuda_conv(const JsonReader& reader);

}  // namespace tilesmith
