// The convolution tiles of an NVIDIA architecture ("conv" in specs/cuda/*.json). A tile's fields are those of a GEMM's:
// m, n and k are the rows, columns and depth of the product that a convolution is (kernels/cuda/conv).
#pragma once

#include <vector>

#include "base/error.hpp"
#include "spec/cuda/conv_models.hpp"
#include "spec/cuda/gemm.hpp"
#include "spec/json_reader.hpp"
#include "tilesmith/gemm_epilogue.hpp"

namespace tilesmith {

/// What is added to a gradient of filters whose parts are left and added up: by the blocks of one cluster, of several,
/// the last of which adds theirs, or of depthwise strips; by a second launch that reads runs, those of depthwise
/// kernels, or parts of split sums, at such a rate, of bands with `bands_us` beside; by blocks that share all tiles
/// equally. Only pipelines made for Hopper have bands, clusters, split sums and equal shares.
struct CudaConvJoin {
  double cluster_us = 0, clusters_us = 0, strips_us = 0;
  double runs_us = 0, runs_bytes_per_second = 0;
  double depthwise_us = 0, depthwise_bytes_per_second = 0, bands_us = 0;
  double split_us = 0, split_bytes_per_second = 0;
  double stream_k_us = 0;
};

/// What rows of 128 bytes take that im2col maps bring of pixels (`ns`) and of filters, where every SM asks for some:
/// nanoseconds of a row; more where rows lie in a sector more, as channels are no whole 32 bytes, of pixels forward, of
/// pixels in backward data, and of filters; and more for each tap that shares a step. How many SMs are enough to take
/// all that the L2 cache gives (fewer have more each); and how much longer a tile takes for its share of channels that
/// do not exist.
struct CudaConvRows {
  double ns = 0, filter_ns = 0;
  double straddle_ns = 0, data_straddle_ns = 0, filter_straddle_ns = 0, shared_ns = 0;
  double enough_sms = 0, cut = 0;
};

struct CudaConvSpec {
  CudaConvModels models;
  CudaConvRows rows;
  CudaConvJoin join;
  double box_us = 0;           ///< that a store of fewer than 64 pixels adds to a transposed tile of backward data
  double halo_filters_us = 0;  ///< that a block of halo tiles waits for its filters
  double cache_bytes_per_second = 0;        ///< at which split sums of backward weight read from the L2 cache
  std::vector<GemmEpilogue> epilogues;      ///< those that listings hold; dispatch makes any
  std::vector<CudaGemmPipeline> pipelines;  ///< empty: no kernels of convolution

  /// Null when the architecture does not offer the pipeline.
  [[nodiscard]] const CudaGemmPipeline* pipeline(Pipeline pipeline) const;
};

/// {"models": {...}, "join": {...}, "box_us": 0.2, ..., "epilogues": [["bias"], ...], "pipelines": as of "gemm"}
[[nodiscard]] Result<CudaConvSpec> read_cuda_conv(const JsonReader& reader);

}  // namespace tilesmith
