// A signature's kernels by the chip's table, and what the rules say of them, each worked out once: choosing meets the
// same kernels with every problem of the signature.
#pragma once

#include <vector>

#include "instances/conv/cuda.hpp"

namespace tilesmith {

/// For one user at a time: what was not worked out yet is when a walk comes to it.
class CudaConvAsked {
 public:
  /// The spec outlives what is said of it.
  CudaConvAsked(const CudaSpec& spec, const ConvSignature& signature);

  /// As walk_cuda_conv. False when the visitor did not want to go on.
  bool walk(const CudaConvVisit& visit, const CudaConvWanted& wanted);

 private:
  struct Kernel {
    Algorithm algorithm;
    const CudaGemmTile* row;
    const CudaConvRule* refused = nullptr;
    bool is_asked = false;
  };
  struct Kernels {
    const CudaGemmPipeline* pipeline;
    std::vector<Kernel> kernels;
    bool are_made = false;
  };

  void make(Kernels& kernels) const;

  const CudaSpec& spec_;
  KernelConfig config_;  ///< of the signature, with the algorithm at hand
  std::vector<Kernels> pipelines_;
};

}  // namespace tilesmith
