// The tiles of attention backward that a spec has ("attention_bwd" in specs/cuda/*.json).
#pragma once

#include <cstdint>
#include <optional>
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

/// When items of keys pass gradients of scores to those of queries through memory, which then take five products
/// instead of seven (kernels/cuda/attention/backward/rows/score_gradients.cuh).
struct CudaPassedGradients {
  int section_blocks = 0;       ///< blocks of keys whose gradients are written while those before are read
  std::int64_t most_bytes = 0;  ///< of the gradients that have a place in a call's workspace
  double efficiency = 0;        ///< as CudaBackwardTile's
};

struct CudaBackwardPipeline {
  Pipeline pipeline = Pipeline::warp_specialized;
  Instruction instruction = Instruction::wgmma;
  std::vector<DataType> data_types;
  std::vector<CudaBackwardTile> tiles;
  std::optional<CudaPassedGradients> passed_gradients;
};

/// {"pipelines": {NAME: {"instruction", "data_types", "tiles": [{"tile", "stages", "head_dim", "efficiency"}],
/// "passed_gradients": {"section_blocks", "most_bytes", "efficiency"}}}}
[[nodiscard]] Result<std::vector<CudaBackwardPipeline>> read_cuda_backward(const JsonReader& reader);

}  // namespace tilesmith
