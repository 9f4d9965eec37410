// The launch of a convolution by halo tiles on Hopper (kernels/cuda/conv/halo).
#pragma once

#include <cstdint>

#include "spec/cuda/spec.hpp"
#include "tilesmith/conv.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

struct CudaHaloWork {
  std::int64_t tiles = 0;  ///< of the filters; forward and backward data: blocks of channels of the result
  std::int64_t boxes_h = 0, boxes_w = 0;  ///< of an image, or a slice of one
  std::int64_t slices = 1;                ///< of an image of the result
  std::int64_t splits = 1;                ///< parts of all boxes, as many as fill the chip
  [[nodiscard]] std::int64_t boxes(std::int64_t images) const { return images * slices * boxes_h * boxes_w; }
  [[nodiscard]] std::int64_t items() const { return tiles * splits; }
};
[[nodiscard]] CudaHaloWork cuda_halo_work(const KernelConfig& config, const CudaSpec& spec, const ConvProblem& problem);

}  // namespace tilesmith
