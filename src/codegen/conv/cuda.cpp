#include "codegen/conv/cuda.hpp"

#include <algorithm>

#include "codegen/flatten.hpp"
#include "codegen/gemm/cuda.hpp"
#include "codegen/gemm/gpu_words.hpp"
#include "instances/conv/cuda_resources.hpp"
#include "instances/conv/cuda_window.hpp"
#include "kernels/cuda/conv/abi.h"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

static_assert(TS_CONV_FORWARD == static_cast<int>(ConvDirection::forward) &&
              TS_CONV_BACKWARD_DATA == static_cast<int>(ConvDirection::backward_data) &&
              TS_CONV_BACKWARD_WEIGHT == static_cast<int>(ConvDirection::backward_weight));

/// What templates read that store with GEMM's epilogue. The constants that GEMM's files ask for and no convolution uses
/// are false, and a block shares its tiles with no cluster.
Status add_of_gemm(ConstantsTable& table, const ConvSignature& s) {
  TS_ASSIGN(const int type, gemm_type_number(s.data_type));
  TS_ASSIGN(const int out, gemm_type_number(s.type_out));
  table.add("kTypeA", type);
  table.add("kTypeB", type);
  table.add("kTypeD", out);
  table.add("kTypeScale", int{TS_GEMM_F32});
  table.add("kScaling", int{TS_GEMM_SCALE_TENSOR});
  table.add("kGrouping", int{TS_GEMM_UNGROUPED});
  for (const char* unused : {"kZeroPoints", "kMmPlusMm", "kSplitKAtomic", "kStagedTensors"}) table.add(unused, false);
  table.add("kClusterK", 1);
  return add_gemm_epilogue(table, s.epilogue_ops, s.type_out, s.type_bias);
}

/// The signature of a kernel for which channels are rows of the epilogue.
ConvSignature with_channels_as_rows(ConvSignature s) {
  GemmEpilogue of_rows;
  for (const EpilogueOp op : s.epilogue_ops)
    of_rows.push_back(op == EpilogueOp::bias      ? EpilogueOp::bias_m
                      : op == EpilogueOp::scale_n ? EpilogueOp::scale_m
                                                  : op);
  s.epilogue_ops = of_rows;
  return s;
}

/// The general template's file, once its table is written.
Result<std::string_view> add_gather(ConstantsTable& table, const KernelConfig& config) {
  const auto& s = std::get<ConvSignature>(config.signature);
  const Algorithm& a = config.algorithm;
  const CudaConvResources facts = cuda_conv_resources(config);
  TS_TRY(add_of_gemm(table, s));
  table.add("kTileM", a.tile[0]);
  table.add("kTileN", a.tile[1]);
  table.add("kStages", a.stages);
  table.add("kBlocksPerSm", facts.blocks_per_sm);
  table.add("kPairs", facts.pairs);
  table.add("kSplitK", a.split_k);
  table.add("kRowMajorA", s.direction != ConvDirection::backward_weight);
  table.add("kRowMajorB", s.direction != ConvDirection::forward);
  table.add("kWarpsM", a.wave[0]);
  table.add("kWarpsN", a.wave[1]);
  table.add("kAligned", facts.aligned);
  table.add("kRead", facts.aligned ? static_cast<int>(a.vector[0]) : 128 / bits_of(s.data_type));
  table.add("kTf32x3", s.data_type == DataType::fp32);
  return "cuda/conv/mma_sm80/conv.cuh";
}

/// The same of depthwise templates.
Result<std::string_view> add_depthwise(ConstantsTable& table, const KernelConfig& config) {
  const auto& s = std::get<ConvSignature>(config.signature);
  const CudaConvResources facts = cuda_conv_resources(config);
  const CudaDepthwiseTile tile = cuda_depthwise_tile(config.algorithm);
  TS_TRY(add_of_gemm(table, s));
  table.add("kPairs", facts.pairs);
  table.add("kRows", tile.rows);
  table.add("kColumns", tile.columns);
  table.add("kTapRows", tile.tap_rows);
  table.add("kTaps", tile.taps);
  table.add("kPace", tile.pace);
  table.add("kWarps", config.algorithm.wave[0]);
  table.add("kStages", config.algorithm.stages);
  table.add("kColumnsFirst", false);
  table.add("kTilesApart", is_mapped(config.algorithm));
  table.add("kBlocksPerSm", facts.blocks_per_sm);
  if (is_mapped(config.algorithm)) {
    if (tile.whole) {
      table.add("kImages", tile.images);
      return "cuda/conv/depthwise/whole_data.cuh";
    }
    table.add("kChannels", tile.channels);
    table.add("kCluster", config.algorithm.cluster[0]);
    return s.direction == ConvDirection::backward_weight ? "cuda/conv/depthwise/mapped_weight.cuh"
                                                         : "cuda/conv/depthwise/mapped_data.cuh";
  }
  return s.direction == ConvDirection::backward_weight ? "cuda/conv/depthwise/weight.cuh"
                                                       : "cuda/conv/depthwise/data.cuh";
}

/// The same of templates for groups of a few channels.
Result<std::string_view> add_grouped(ConstantsTable& table, const KernelConfig& config) {
  const CudaConvResources facts = cuda_conv_resources(config);
  const CudaGroupedTile tile = cuda_grouped_tile(config.algorithm);
  const auto& signature = std::get<ConvSignature>(config.signature);
  const bool banded = is_banded(config.algorithm);
  TS_TRY(add_of_gemm(table, banded ? with_channels_as_rows(signature) : signature));
  table.add("kPairs", facts.pairs);
  table.add("kChannels", tile.channels);
  table.add("kImages", tile.images);
  table.add("kRows", tile.rows);
  table.add("kColumns", tile.columns);
  table.add("kPace", tile.pace);
  // Forward and backward data have none; depthwise templates, whose files they include, ask for one.
  table.add("kTapRows", tile.tap_rows);
  table.add("kTaps", std::max(tile.taps, 1));
  table.add("kWarps", config.algorithm.wave[0]);
  table.add("kStages", config.algorithm.stages);
  table.add("kColumnsFirst", false);
  table.add("kTilesApart", banded || is_mapped(config.algorithm));
  table.add("kBlocksPerSm", facts.blocks_per_sm);
  table.add("kCluster", config.algorithm.cluster[0]);
  if (is_whole(config.algorithm)) return "cuda/conv/banded/whole_weight.cuh";
  if (banded) return config.algorithm.split_k ? "cuda/conv/banded/weight.cuh" : "cuda/conv/banded/data.cuh";
  if (tile.in_phases) return "cuda/conv/grouped/mapped_phases.cuh";
  if (is_mapped(config.algorithm))
    return config.algorithm.split_k ? "cuda/conv/grouped/mapped_weight.cuh" : "cuda/conv/grouped/mapped_data.cuh";
  return config.algorithm.split_k ? "cuda/conv/grouped/weight.cuh" : "cuda/conv/grouped/data.cuh";
}

/// The same of templates for images of few channels.
Result<std::string_view> add_stem(ConstantsTable& table, const KernelConfig& config) {
  const CudaConvResources facts = cuda_conv_resources(config);
  const CudaStemTile tile = cuda_stem_tile(config.algorithm);
  const bool weight = config.algorithm.split_k;
  const auto& signature = std::get<ConvSignature>(config.signature);
  // Filters are rows of the products where they are not neighbours.
  TS_TRY(add_of_gemm(table, facts.pairs ? signature : with_channels_as_rows(signature)));
  table.add("kPairs", facts.pairs);
  table.add("kRows", tile.rows);
  table.add("kColumns", 16);
  table.add("kFilters", tile.filters);
  table.add("kUnits", tile.units);
  table.add("kAligned", facts.aligned);
  // Depthwise templates, whose files these include, ask for a pace, and for the most taps of a part of the filter.
  table.add("kPace", 1);
  for (const char* taps : {"kTapRows", "kTaps"}) table.add(taps, weight ? 1 << 16 : 1);
  table.add("kWarps", config.algorithm.wave[0]);
  table.add("kStages", config.algorithm.stages);
  table.add("kColumnsFirst", true);
  table.add("kTilesApart", false);
  table.add("kBlocksPerSm", facts.blocks_per_sm);
  return weight ? "cuda/conv/stem/weight.cuh" : "cuda/conv/stem/forward.cuh";
}

/// The same of boxes of few channels.
Result<std::string_view> add_direct(ConstantsTable& table, const KernelConfig& config) {
  const Algorithm& a = config.algorithm;
  const CudaConvResources facts = cuda_conv_resources(config);
  const bool all_phases = cuda_direct_has_all_phases(a);
  const auto& signature = std::get<ConvSignature>(config.signature);
  TS_TRY(add_of_gemm(table, all_phases ? with_channels_as_rows(signature) : signature));
  table.add("kAllPhases", all_phases);
  table.add("kTileM", a.tile[0]);
  table.add("kTileN", a.tile[1]);
  table.add("kWarps", a.wave[0]);
  table.add("kStages", a.stages);
  table.add("kRead", a.vector[0]);
  table.add("kPairs", facts.pairs);
  table.add("kBlocksPerSm", facts.blocks_per_sm);
  return "cuda/conv/direct/data.cuh";
}

/// The same of filters of one tap.
Result<std::string_view> add_pointwise(ConstantsTable& table, const KernelConfig& config) {
  const Algorithm& a = config.algorithm;
  TS_TRY(add_of_gemm(table, std::get<ConvSignature>(config.signature)));
  table.add("kTileM", a.tile[0]);
  table.add("kDepth", a.tile[1]);
  table.add("kWarps", a.wave[0]);
  table.add("kStages", a.stages);
  table.add("kRead", a.vector[0]);
  const CudaConvResources facts = cuda_conv_resources(config);
  table.add("kPairs", facts.pairs);
  table.add("kBlocksPerSm", facts.blocks_per_sm);
  return pointwise_by_runs(a) ? "cuda/conv/pointwise/runs.cuh" : "cuda/conv/pointwise/data.cuh";
}

/// The same of halo tiles.
Result<std::string_view> add_halo(ConstantsTable& table, const KernelConfig& config) {
  const CudaHaloTile tile = cuda_halo_tile(config.algorithm);
  const auto& signature = std::get<ConvSignature>(config.signature);
  const bool weight = signature.direction == ConvDirection::backward_weight;
  TS_TRY(add_of_gemm(table, weight ? signature : with_channels_as_rows(signature)));
  table.add("kRowMajorA", signature.direction == ConvDirection::forward);
  table.add("kRowMajorB", weight);
  table.add("kTransposed", false);
  table.add("kRows", tile.rows);
  table.add("kStages", config.algorithm.stages);
  if (!weight) {
    table.add("kPairs", true);
    return signature.spatial_dims == 3 ? "cuda/conv/halo/volume.cuh" : "cuda/conv/halo/data.cuh";
  }
  table.add("kStride", tile.stride);
  return "cuda/conv/halo/weight.cuh";
}

/// The same of Hopper's, whose table is GEMM's.
Result<std::string_view> add_window(ConstantsTable& table, const KernelConfig& config) {
  const auto& s = std::get<ConvSignature>(config.signature);
  // A walk over parts of the sum beside a place and a tap in three dimensions takes more than the 40 of GEMM's
  // producer: 8 to 24 bytes were spilled (ptxas 13.0). The tiles that split leave consumers 64 sums of 224 registers.
  const int least = s.direction == ConvDirection::backward_weight                             ? 72
                    : s.direction == ConvDirection::backward_data || config.algorithm.split_k ? 56
                                                                                              : 0;
  TS_TRY(add_cuda_gemm_constants(table, gemm_of_window(config), least));
  table.add("kSpatial", s.spatial_dims);
  table.add("kStepTaps", window_step_taps(config.algorithm));
  switch (s.direction) {
    case ConvDirection::backward_data:
      return "cuda/conv/hopper/backward_data.cuh";
    case ConvDirection::backward_weight:
      return "cuda/conv/hopper/weight.cuh";
    case ConvDirection::forward:
      break;
  }
  return "cuda/conv/hopper/forward.cuh";
}

Result<std::string_view> add_conv_constants(ConstantsTable& table, const KernelConfig& config) {
  table.add("kDirection", static_cast<int>(std::get<ConvSignature>(config.signature).direction));
  switch (config.algorithm.pipeline) {
    case Pipeline::warp_specialized:
      return add_window(table, config);
    case Pipeline::depthwise:
      return add_depthwise(table, config);
    case Pipeline::grouped:
      return add_grouped(table, config);
    case Pipeline::halo:
      return add_halo(table, config);
    case Pipeline::stem:
      return add_stem(table, config);
    case Pipeline::direct:
      return add_direct(table, config);
    case Pipeline::pointwise:
      return add_pointwise(table, config);
    case Pipeline::rowwise:
      table.add("kWarps", config.algorithm.wave[0]);
      return "cuda/conv/rowwise/channels.cuh";
    default:
      return add_gather(table, config);
  }
}

}  // namespace

Result<Source> cuda_conv_source(const KernelConfig& config) {
  ConstantsTable table;
  TS_ASSIGN(const std::string_view file, add_conv_constants(table, config));
  TS_ASSIGN(const std::string text, flatten_includes(embedded_kernels(), file));
  Source source;
  source.name = native_name(config);
  source.entry_symbol = source.name;
  source.language = Language::cuda;
  source.arch = std::string(config.arch.text());
  source.options = {"-std=c++17", "-default-device"};
  source.text = table.text() + fmt::format("#define TS_ENTRY {}\n\n", source.entry_symbol) + text;
  return source;
}

}  // namespace tilesmith
