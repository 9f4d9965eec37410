// The launch of a CUDA kernel whose blocks have runs of tiles (kernels/cuda/conv/grouped, kernels/cuda/conv/stem).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "spec/cuda/spec.hpp"
#include "tilesmith/conv.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// Of shared memory, for what a block does step by step: kStepBytes of kernels/cuda/conv/depthwise/stages.cuh.
constexpr std::int64_t kCudaConvPlanBytes = 32 * 104;

struct CudaConvRuns {
  std::array<int, 3> phases{}, tiles_along{};  ///< by coordinate; of the largest phase
  std::int64_t tiles = 0;                      ///< of a block of channels, in all
  std::int64_t units = 0;                      ///< blocks of channels, times parts of the filter where the result is w
  std::int64_t runs = 1;                       ///< into which the tiles are cut
  std::int64_t resident = 1;                   ///< blocks that share an SM
  double rounds = 1;                           ///< of blocks on the chip
  double uneven = 1;                           ///< what the longest share of the chip is of an equal one
  int depth_steps = 1;                         ///< of a tile
  std::int64_t stage_bytes = 0, shared_bytes = 0;
  double seconds = 0;  ///< predicted

  [[nodiscard]] std::int64_t blocks() const { return units * runs; }
  /// Steps of all blocks.
  [[nodiscard]] double steps() const { return static_cast<double>(tiles * units) * depth_steps; }
  /// Tiles of the longest run.
  [[nodiscard]] double steps_of_run() const { return static_cast<double>((tiles + runs - 1) / runs); }
};

/// The tiles of `rows` x `columns` results of `images` images.
[[nodiscard]] CudaConvRuns cuda_conv_tiles(const ConvProblem& problem, int rows, int columns, int images = 1);

/// Backward weight: into how many parts of so many taps the filter is cut.
[[nodiscard]] std::int64_t cuda_filter_parts(const ConvProblem& problem, int tap_rows, int taps);

/// Why copies through tensor maps cannot bring what so many results by so many taps meet, pixels `pace` apart.
[[nodiscard]] std::optional<std::string> cuda_maps_unsuited(const ConvProblem& problem, int rows, int columns, int taps,
                                                            int pace);

/// Cuts the tiles into as many runs as fill the chip, of blocks of which `most` share an SM at most; so many blocks of
/// a unit are a cluster.
void cut_into_runs(CudaConvRuns& work, const CudaSpec& spec, int most, int cluster = 1);

/// What the launch takes that adds up runs, which have left so many bytes.
[[nodiscard]] double join_seconds(const CudaSpec& spec, double join_us, std::int64_t bytes, double bytes_per_second);
/// Of kernels whose runs are read at the usual rate.
[[nodiscard]] double runs_join_seconds(const CudaSpec& spec, double join_us, std::int64_t bytes);

/// How many clusters of so many blocks run at a time, of which `resident` share an SM.
[[nodiscard]] std::int64_t cuda_clusters_at_a_time(const CudaSpec& spec, std::int64_t cluster, std::int64_t resident);

[[nodiscard]] CudaConvRuns cuda_grouped_work(const KernelConfig& config, const CudaSpec& spec,
                                             const ConvProblem& problem);
/// Of depthwise kernels whose tiles come through tensor maps.
[[nodiscard]] CudaConvRuns cuda_mapped_depthwise_work(const KernelConfig& config, const CudaSpec& spec,
                                                      const ConvProblem& problem);
[[nodiscard]] CudaConvRuns cuda_stem_work(const KernelConfig& config, const CudaSpec& spec, const ConvProblem& problem);

}  // namespace tilesmith
