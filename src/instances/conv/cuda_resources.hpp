// What an instance of a CUDA convolution template takes of a chip, as its source in kernels/cuda/conv lays it out.
#pragma once

#include <span>

#include "vocabulary/config.hpp"

namespace tilesmith {

struct CudaConvResources {
  int threads = 0;
  long shared_bytes = 0;
  int blocks_per_sm = 1;
  int accumulators = 0;      ///< registers of a thread for sums
  int launch_registers = 0;  ///< that a thread may have
  int stage_k = 0;           ///< depth of a step, in elements
  bool aligned = false;      ///< tensors are read 16 bytes at a time
  bool pairs = false;        ///< the result is written two elements at a time, or more
  long part_bytes = 0;       ///< of one tile's partial sums
  long folded_bytes = 0;     ///< shared memory through which warps with the same sums add them up
};

/// All zeros for a pipeline that convolution does not have.
[[nodiscard]] CudaConvResources cuda_conv_resources(const KernelConfig& config);

/// What a thread of a depthwise kernel has: results (backward weight: pixels of y), and the part of a filter that it
/// multiplies at a time (backward weight: that it adds up), whose pixels are `pace` apart from one result to the next.
/// Mapped kernels (kernels/cuda/conv/depthwise/strips.cuh) have so many channels in a block, whose results these are,
/// and that filter alone; whole images are those of kernels/cuda/conv/depthwise/whole_data.cuh, a warp has one.
struct CudaDepthwiseTile {
  int rows = 0, columns = 0;
  int tap_rows = 0, taps = 0;
  int pace = 0;
  int channels = 0;  ///< of a mapped kernel's block
  int images = 1;
  bool whole = false;
};
[[nodiscard]] CudaDepthwiseTile cuda_depthwise_tile(const Algorithm& algorithm);
/// The numbers of taps for which there are kernels of so many rows and such a pace, in rising order; longer filters go
/// in parts.
[[nodiscard]] std::span<const int> cuda_depthwise_taps(ConvDirection direction, int rows, int pace);

/// A kernel for groups of a few channels: rows and columns of a tile's results (backward weight: of pixels of y);
/// channels of a group, and pixels from one result of a row to the next; of backward weight the part of a filter that
/// it adds up at a time. Mapped kernels bring tiles through tensor maps: those of forward and backward data meet so
/// many taps along either coordinate (kernels/cuda/conv/grouped/mapped_data.cuh); where these are two, of filters of
/// three, a tile's rows and columns are places, with a pixel of each phase of a stride of 2
/// (kernels/cuda/conv/grouped/mapped_phases.cuh). Groups of one channel are multiplied by bands
/// (kernels/cuda/conv/banded): taps are the most that meet a result along either coordinate, or a side of the part, and
/// small tiles have several images.
struct CudaGroupedTile {
  int rows = 0, columns = 0, channels = 0, pace = 0;
  int tap_rows = 0, taps = 0;
  int images = 1;
  bool in_phases = false;
};
[[nodiscard]] CudaGroupedTile cuda_grouped_tile(const Algorithm& algorithm);
[[nodiscard]] bool is_banded(const Algorithm& algorithm);
/// Bands of whole images, whose runs are a cluster (kernels/cuda/conv/banded/whole_weight.cuh).
[[nodiscard]] bool is_whole(const Algorithm& algorithm);
/// Of groups of several channels, or of one without bands.
[[nodiscard]] bool is_mapped(const Algorithm& algorithm);
/// The numbers of taps for which there are banded kernels, in rising order.
[[nodiscard]] std::span<const int> cuda_banded_taps();

/// A kernel for images of 1 to 4 channels: rows of sixteen results of a tile (backward weight: of pixels of y), and
/// filters of a block; of backward weight also the units of a part of the filter that a block adds up.
struct CudaStemTile {
  int rows = 0, filters = 0, units = 0;
};
[[nodiscard]] CudaStemTile cuda_stem_tile(const Algorithm& algorithm);
/// The numbers of units for which there are kernels of backward weight, in rising order; larger filters go in parts.
[[nodiscard]] std::span<const int> cuda_stem_units();

/// Whether the columns of a kernel for few channels (kernels/cuda/conv/direct) are the channels of all phases of
/// backward data, for which it reads w by elements; and the columns of the narrowest, which has no other use.
[[nodiscard]] bool cuda_direct_has_all_phases(const Algorithm& algorithm);
inline constexpr int kEightColumns = 8;

/// Whether pixels of a kernel of one tap pass shared memory as runs of memory (kernels/cuda/conv/pointwise/runs.cuh),
/// so that it takes any channels; else it reads and writes octets of them.
[[nodiscard]] bool pointwise_by_runs(const Algorithm& algorithm);

/// Halo tiles: rows of a box of pixels, and the stride.
struct CudaHaloTile {
  int rows = 0, stride = 0;
};
[[nodiscard]] CudaHaloTile cuda_halo_tile(const Algorithm& algorithm);

}  // namespace tilesmith
