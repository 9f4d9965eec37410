#include "choose/conv/cuda_launch.hpp"

#include "choose/conv/cuda_depthwise_work.hpp"
#include "choose/conv/cuda_direct_work.hpp"
#include "choose/conv/cuda_pointwise_work.hpp"
#include "choose/conv/cuda_runs.hpp"
#include "choose/conv/cuda_work.hpp"

namespace tilesmith {
namespace {

CudaConvLaunch gather_launch(const KernelConfig& config, const CudaSpec& spec, const ConvProblem& problem) {
  const CudaConvResources facts = cuda_conv_resources(config);
  const CudaConvWork work = cuda_conv_work(config, spec, problem);
  CudaConvLaunch launch{
      .blocks = work.items(), .threads = facts.threads, .shared_bytes = facts.shared_bytes, .splits = work.splits};
  const bool weight = problem.direction == ConvDirection::backward_weight;
  if (work.splits > 1) {
    launch.joins = weight;
    launch.part_bytes = work.items() * facts.part_bytes;
    launch.counters = weight ? 0 : work.tiles;
  }
  return launch;
}

CudaConvLaunch depthwise_launch(const KernelConfig& config, const CudaSpec& spec, const ConvProblem& problem) {
  const CudaDepthwiseWork work = cuda_depthwise_work(config, spec, problem);
  const CudaDepthwiseShape& shape = work.shape;
  CudaConvLaunch launch{.blocks = work.blocks(),
                        .threads = cuda_conv_resources(config).threads,
                        .shared_bytes = shape.shared_bytes,
                        .splits = work.runs,
                        .lanes = shape.lanes,
                        .depth_steps = shape.depth_steps,
                        .phases = shape.phases,
                        .tiles = shape.tiles_along,
                        .stage_bytes = shape.stage_bytes};
  if (config.algorithm.split_k) {
    launch.part_bytes = work.blocks() * shape.part_bytes;
    launch.joins = work.runs > 1;
  }
  return launch;
}

/// Of kernels whose blocks have runs of tiles.
CudaConvLaunch runs_launch(const KernelConfig& config, const CudaConvRuns& work, int lanes) {
  const CudaConvResources facts = cuda_conv_resources(config);
  const int cluster = config.algorithm.cluster[0];
  const bool weight = config.algorithm.split_k, joins = weight && cluster == 1;
  const bool parts = joins || (weight && work.runs > cluster);
  return {.blocks = work.blocks(),
          .threads = facts.threads,
          .shared_bytes = work.shared_bytes,
          .splits = work.runs,
          .cluster = cluster,
          .part_bytes = parts ? work.blocks() / cluster * facts.part_bytes : 0,
          .counters = parts && !joins ? work.blocks() : 0,
          .lanes = lanes,
          .depth_steps = work.depth_steps,
          .phases = work.phases,
          .tiles = work.tiles_along,
          .stage_bytes = work.stage_bytes,
          .joins = joins};
}

/// As the kernels' files say what their maps are.
CudaConvMappedTile mapped_tile(const KernelConfig& config) {
  const CudaGroupedTile tile = cuda_grouped_tile(config.algorithm);
  if (is_whole(config.algorithm))
    return {.channels = 32,
            .images = tile.images,
            .rows = tile.rows,
            .columns = tile.columns,
            .rows_of_y = tile.rows,
            .columns_of_y = tile.columns};
  if (is_banded(config.algorithm))
    return {.channels = 32,
            .images = tile.images,
            .rows = tile.rows - 1 + tile.taps,
            .columns = tile.columns + 8,
            .rows_of_y = tile.rows,
            .columns_of_y = tile.columns};
  if (!is_mapped(config.algorithm)) return {};
  if (config.algorithm.pipeline == Pipeline::depthwise) {
    const CudaDepthwiseTile strips = cuda_depthwise_tile(config.algorithm);
    if (strips.whole)
      return {.channels = strips.channels,
              .images = strips.images,
              .rows = strips.rows,
              .columns = strips.columns,
              .swizzled = false};
    return {.channels = strips.channels,
            .rows = (strips.rows - 1) * strips.pace + strips.taps,
            .columns = (strips.columns - 1) * strips.pace + strips.taps,
            .rows_of_y = strips.rows,
            .columns_of_y = strips.columns,
            .swizzled = false};
  }
  return {.channels = 64,
          .images = tile.images,
          .rows = (tile.rows - 1) * tile.pace + tile.taps,
          .columns = (tile.columns - 1) * tile.pace + tile.taps,
          .rows_of_y = tile.rows,
          .columns_of_y = tile.columns};
}

}  // namespace

CudaConvLaunch cuda_conv_launch(const KernelConfig& config, const CudaSpec& spec, const ConvProblem& problem) {
  switch (config.algorithm.pipeline) {
    case Pipeline::depthwise: {
      if (!is_mapped(config.algorithm)) return depthwise_launch(config, spec, problem);
      CudaConvLaunch launch = runs_launch(config, cuda_mapped_depthwise_work(config, spec, problem),
                                          cuda_depthwise_tile(config.algorithm).channels / 2);
      launch.mapped = mapped_tile(config);
      return launch;
    }
    case Pipeline::grouped: {
      CudaConvLaunch launch =
          runs_launch(config, cuda_grouped_work(config, spec, problem), is_banded(config.algorithm) ? 16 : 32);
      launch.mapped = mapped_tile(config);
      return launch;
    }
    case Pipeline::stem:
      // Backward weight: of y's channels.
      return runs_launch(config, cuda_stem_work(config, spec, problem),
                         config.algorithm.split_k ? cuda_stem_tile(config.algorithm).filters / 2 : 1);
    case Pipeline::direct: {
      const CudaDirectWork work = cuda_direct_work(config, spec, problem);
      return {.blocks = work.blocks,
              .threads = cuda_conv_resources(config).threads,
              .shared_bytes = work.shared_bytes,
              .stage_bytes = work.stage_bytes,
              .boxes = work.boxes};
    }
    case Pipeline::pointwise: {
      const CudaPointwiseWork work = cuda_pointwise_work(config, spec, problem);
      return {.blocks = work.parts * problem.groups,
              .threads = cuda_conv_resources(config).threads,
              .shared_bytes = work.shared_bytes,
              .splits = work.parts};
    }
    default:
      return gather_launch(config, spec, problem);
  }
}

}  // namespace tilesmith
