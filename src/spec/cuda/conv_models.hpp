// What the models of convolution kernels count with: figures of a chip that measurements fitted ("conv.models" in
// specs/cuda/*.json; docs/enumeration.md says which ones and how). Clocks are those at which cycles were counted.
#pragma once

#include "base/error.hpp"
#include "spec/json_reader.hpp"

namespace tilesmith {

/// The general template. A launch begins, by direction; a tile begins and ends, longer for each result of a thread. A
/// step takes as long as a thread's copies, one after the other, in backward data longer for columns, which are filters
/// far apart, or as those of an SM, `sm_copy_ns` each. Kernels that may cut a sum take `cuts` times as long. Filters
/// that leave one by one: of a thread's results those beyond `kept_results`, whose instructions no SM keeps, take
/// `beyond_times` as long again.
struct CudaConvGatherModel {
  double begin_us = 0, data_begin_us = 0, weight_begin_us = 0, tile_us = 0, result_ns = 0, weight_result_ns = 0;
  double copy_ns = 0, data_column_copy_ns = 0, weight_copy_ns = 0, sm_copy_ns = 0, cuts = 0;
  double kept_results = 0, beyond_times = 0;
};

/// Instructions that an SM issues in a cycle, of a warp and at most; cycles of a block beside its instructions, for a
/// step and for a run.
struct CudaConvIssueModel {
  double issued_of_warp = 0, issued = 0, step_cycles = 0, run_cycles = 0;
};

/// Depthwise kernels. `cached`: the rate of the L2 cache, times memory's. `overlap` of this and of other models: 1
/// where one time waits for the other; the larger, the more the longer hides the other.
struct CudaConvDepthwiseModel {
  double clock_ghz = 0, cached = 0, overlap = 0;
  CudaConvIssueModel data, weight;
};

/// Small groups, without tensor maps. What a block waits for in a step counts as so many instructions of a warp;
/// forward and backward data begin with filters.
struct CudaConvGroupsModel {
  double clock_ghz = 0, cached = 0, issued_of_warp = 0, issued = 0, step_instructions = 0, data_run_cycles = 0;
};

/// First layers. Multiply-adds that mma.sync does in a cycle; of an SM, cycles of a unit that is brought, and of a
/// step; the warps that are enough to hide what each waits for; what a launch takes beside.
struct CudaConvStemModel {
  double clock_ghz = 0, products = 0, unit_cycles = 0, step_cycles = 0, warps = 0, begin_us = 0;
};

/// Few channels by boxes: what an SM takes for a load of four matrices of operands and what it is multiplied with, for
/// 16 bytes of a pixel, a result, each warp of a box, and 16 bytes of filters; and what a launch takes beside.
struct CudaConvDirectModel {
  double clock_ghz = 0, load_cycles = 0, copy_cycles = 0, result_cycles = 0, box_cycles = 0, filter_cycles = 0;
  double begin_us = 0;
};

/// Few channels and one tap: what an SM takes for the products of 16 pixels, 32 channels that are read and 32 of the
/// result, and for 16 bytes of filters; what a launch takes beside; how much longer memory takes than at its rate, and
/// as much longer again where an SM has only `under_way_bytes` of pixels under way; and what is written again of
/// results that begin within sectors.
struct CudaConvPointwiseModel {
  double clock_ghz = 0, product_cycles = 0, filter_cycles = 0, begin_us = 0, memory = 0, under_way_bytes = 0;
  double straddle = 0;
};

/// Depthwise by strips. Instructions of a load, and of one whose strips meet the same banks.
struct CudaConvStripsModel {
  double clock_ghz = 0, overlap = 0, issued = 0, load = 0, conflicting_load = 0, step_cycles = 0, run_cycles = 0;
};

/// Cycles, or microseconds, of a number of taps.
struct CudaConvOfTaps {
  double base = 0, tap = 0;
  [[nodiscard]] double of(double taps) const { return base + tap * taps; }
};

/// Bands. Cycles of a block for a tile, of several images and of one; of weights also with tiles under way ahead; what
/// an SM takes for one of each of its blocks; and a run.
struct CudaConvBandsModel {
  double clock_ghz = 0, overlap = 0, data_run_cycles = 0, weight_run_cycles = 0;
  CudaConvOfTaps data, small_data, shared_data, weight, staged_weight, small_weight;
};

/// Bands of whole images: microseconds of a step, of a block beside its steps, and of a launch.
struct CudaConvWholeModel {
  double launch_us = 0;
  CudaConvOfTaps step_us, block_us;
};

/// Groups through tensor maps: cycles of an SM for a pixel, in groups of 16 and of others (backward weight: of 16, each
/// sixteen of more, and of fewer), for a block's step, and for a run.
struct CudaConvMapsModel {
  double clock_ghz = 0, step_cycles = 0, run_cycles = 0;
  double pixel_cycles = 0, pixel_cycles_of_16 = 0, weight_pixel_cycles = 0, weight_pixel_cycles_of_16 = 0;
};

/// Backward weight by halo tiles: how much longer a step takes with three stages, with two, and with a stride; what the
/// launch that adds parts takes beside its bytes.
struct CudaConvHaloModel {
  double overlap = 0, three_stages = 0, two_stages = 0, stride = 0, join_us = 0;
};

/// Through im2col maps: what a launch takes beside its tiles, forward and backward data, and backward weight; and each
/// tile of backward data beside what it takes forward.
struct CudaConvWindowModel {
  double begin_us = 0, data_tile_us = 0, weight_begin_us = 0;
};

/// Backward weight through im2col maps. With equal shares: how much longer a step takes whose tile has no whole number
/// of blocks, and where one tile has all channels; a tile that is cut, by its share; the least part of a tile's end
/// that a block has. With split sums: how memory's time and the L2 cache's overlap, and both with products.
struct CudaConvWeightModel {
  double scattered = 0, whole = 0, cut = 0, least_end = 0, cache_overlap = 0, step_overlap = 0;
};

/// GEMM's candidates for filters of one tap. A tile with all channels goes first within `nearly` of the least. Backward
/// weight, times GEMM's prediction: split products of more blocks than `crowd` of the chip, equal shares, and tiles
/// that begin within lines of the cache; then products whose parts are added. Forward and backward data, the copy
/// engine takes `cut_row_ns` for each row of a box that ends within it, of all tiles of an SM but one. Where GEMM's
/// candidates stand among others, a launch takes so much beside, of the portable pipeline and of Hopper's.
struct CudaConvMatrixModel {
  double nearly = 0, split = 0, crowd = 0, scattered = 0, within_lines = 0, joined = 0, cut_row_ns = 0;
  double portable_begin_us = 0, begin_us = 0;
};

/// A cluster lies in one of so many parts of a chip, of which one has fewer SMs than the others.
struct CudaConvClusters {
  double parts = 0, missing_sms = 0;
};

struct CudaConvModels {
  CudaConvGatherModel gather;
  CudaConvDepthwiseModel depthwise;
  CudaConvGroupsModel groups;
  CudaConvStemModel stem;
  CudaConvDirectModel direct;
  CudaConvPointwiseModel pointwise;
  CudaConvMatrixModel matrix;
  // Of kernels for Hopper.
  CudaConvStripsModel strips;
  CudaConvBandsModel bands;
  CudaConvWholeModel whole;
  CudaConvMapsModel maps;
  CudaConvHaloModel halo;
  CudaConvWindowModel window;
  CudaConvWeightModel weight;
  CudaConvClusters clusters;
};

/// `hopper`: whether the pipelines made for it are there, so that their models must be.
[[nodiscard]] Result<CudaConvModels> read_cuda_conv_models(const JsonReader& reader, bool hopper);

}  // namespace tilesmith
