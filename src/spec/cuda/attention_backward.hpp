// The tiles of attention backward that a spec has ("attention_bwd" in specs/cuda/*.json).
#pragma once

#include <vector>

#include "base/error.hpp"
#include "spec/cuda/range.hpp"
#include "spec/json_reader.hpp"
#include "vocabulary/algorithm.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {

/// One tile of the kernel of dq, dk and dv. The fields are those of Algorithm.
struct CudaBackwardTile {
  int tile_m = 0;         ///< queries of a step
  int tile_n = 0;         ///< keys of a block of threads
  int stages = 0;         ///< steps in flight
  CudaRange head_dim;     ///< of the larger head dim
  double efficiency = 0;  ///< share of the dense peak that a long problem's five products reach
};

struct CudaBackwardPipeline {
  Pipeline pipeline = Pipeline::warp_specialized;
  Instruction instruction = Instruction::wgmma;
  std::vector<DataType> data_types;
  std::vector<CudaBackwardTile> tiles;
};

/// {"pipelines": {NAME: {"instruction", "data_types", "tiles": [{"tile", "stages", "head_dim", "efficiency"}]}}}
[[nodiscard]] Result<std::vector<CudaBackwardPipeline>> read_cuda_backward(const JsonReader& reader);

}  // namespace tilesmith
