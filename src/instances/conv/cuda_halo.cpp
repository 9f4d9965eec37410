// 3 x 3 and 3 x 3 x 3 filters by halo tiles on Hopper: kernels/cuda/conv/halo.
#include <fmt/format.h>

#include <algorithm>

#include "instances/conv/cuda_pipelines.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

constexpr long kSharedOfHaloBlock = 232448;
constexpr int kMostHaloStages = 8;
constexpr int kHaloTileElements = 64 * 9 * 64;

long halo_stage_bytes(const CudaHaloTile& t) {
  const auto whole = [](long bytes) { return (bytes + 1023) / 1024 * 1024; };
  const long y = t.rows * 8L * 128;
  return y + (t.stride == 1 ? whole((t.rows + 2) * 10L * 128) : 4 * whole((t.rows + 1) * 9L * 128));
}

bool adds_up_filters(const ConvSignature& s) {
  return s.direction == ConvDirection::backward_weight;
}

/// Forward and backward data: pixels of a stage, and filters of 9 taps by 64 x 64 channels.
long halo_data_stage_bytes(const CudaHaloTile& t) {
  return ((t.rows + 2) * 10L * 128 + 1023) / 1024 * 1024;
}
constexpr long kHaloTapBytes = 64 * 128;
/// Of all taps; in three dimensions of a ring of four rows of taps.
long halo_filter_bytes(const ConvSignature& s) {
  return (s.spatial_dims == 3 ? 4 * 3 : 9) * kHaloTapBytes;
}

CudaConvResources halo_data_resources(const KernelConfig& config) {
  const CudaHaloTile t = cuda_halo_tile(config.algorithm);
  const auto& s = std::get<ConvSignature>(config.signature);
  const long barriers = (8L * (2 * config.algorithm.stages + (s.spatial_dims == 3 ? 10 : 3)) + 15) / 16 * 16;
  return {.threads = 384,
          .shared_bytes = halo_filter_bytes(s) + config.algorithm.stages * halo_data_stage_bytes(t) + barriers + 1024,
          .blocks_per_sm = 1,
          .accumulators = t.rows * 4,
          .launch_registers = 168,
          .stage_k = 64,
          .aligned = true,
          .pairs = true};
}

CudaConvResources halo_resources(const KernelConfig& config) {
  if (!adds_up_filters(std::get<ConvSignature>(config.signature))) return halo_data_resources(config);
  const CudaHaloTile t = cuda_halo_tile(config.algorithm);
  return {.threads = 512,
          .shared_bytes = config.algorithm.stages * (halo_stage_bytes(t) + 16) + 1024,
          .blocks_per_sm = 1,
          .accumulators = 96,
          .launch_registers = 128,
          .stage_k = t.rows * 8,
          .aligned = true,
          .pairs = true,
          .part_bytes = 4L * kHaloTileElements};
}

std::vector<Algorithm> halo_algorithms(const ConvSignature& s, const CudaGemmTile& row) {
  std::vector<Algorithm> out;
  // Backward weight has three warpgroups that multiply, the others two.
  const bool weight = row.wave.front() == 3;
  if (adds_up_filters(s) != weight || s.spatial_dims < 2 || (weight && s.spatial_dims > 2) || s.depthwise) return out;
  if (!weight) {
    Algorithm a{.pipeline = Pipeline::halo,
                .instruction = Instruction::wgmma,
                .tile = {static_cast<std::uint16_t>(row.tile_m), 1},
                .stages = kMostHaloStages};
    while (a.stages > 1 &&
           halo_data_resources({.arch = {}, .signature = s, .algorithm = a}).shared_bytes > kSharedOfHaloBlock)
      --a.stages;
    out.push_back(a);
    return out;
  }
  for (const int stride : {1, 2}) {
    Algorithm a{.pipeline = Pipeline::halo,
                .instruction = Instruction::wgmma,
                .tile = {static_cast<std::uint16_t>(row.tile_m), static_cast<std::uint16_t>(stride)},
                .stages = kMostHaloStages};
    const long stage = halo_stage_bytes(cuda_halo_tile(a));
    a.stages = static_cast<std::uint8_t>(std::min<long>(kMostHaloStages, (kSharedOfHaloBlock - 1024) / (stage + 16)));
    if (a.stages >= 2) out.push_back(a);
  }
  return out;
}

constexpr CudaConvRule kHaloRules[] = {
    {"filters_are_3x3",
     "16-bit tensors in two dimensions, forward and backward data also in three, strides of 1, of backward weight also "
     "of 2",
     [](const CudaConvSubject& s) {
       const CudaHaloTile t = cuda_halo_tile(s.algorithm());
       const int dims = s.signature().spatial_dims;
       return bits_of(s.signature().data_type) == 16 && !s.signature().depthwise &&
              (dims == 2 || (dims == 3 && !adds_up_filters(s.signature()))) &&
              (t.stride == 1 || (t.stride == 2 && adds_up_filters(s.signature())));
     },
     [](const CudaConvSubject& s) {
       return fmt::format("{} of {}, {} dimensions, stride {}", name_of(s.signature().direction),
                          name_of(s.signature().data_type), s.signature().spatial_dims,
                          cuda_halo_tile(s.algorithm()).stride);
     }},
    {"boxes_are_sixteens",
     "a box has an even number of rows of 8 pixels, at most 32; forward and backward data 14 or more",
     [](const CudaConvSubject& s) {
       const int rows = cuda_halo_tile(s.algorithm()).rows;
       return rows >= (adds_up_filters(s.signature()) ? 2 : 14) && rows <= 32 && rows % 2 == 0;
     },
     [](const CudaConvSubject& s) { return fmt::format("{} rows", cuda_halo_tile(s.algorithm()).rows); }},
    {"results_are_boxes",
     "results of forward and backward data have 16 bits and leave by the copy engine; their epilogue reads no tensors",
     [](const CudaConvSubject& s) {
       if (adds_up_filters(s.signature())) return true;
       return bits_of(s.signature().type_out) == 16 && std::ranges::none_of(s.signature().epilogue_ops, reads_tensor);
     },
     [](const CudaConvSubject& s) {
       return fmt::format("{} to {}, {} operations", name_of(s.signature().direction), name_of(s.signature().type_out),
                          s.signature().epilogue_ops.size());
     }},
    {"fields_belong_to_pipeline",
     "rows of a box, the stride and two stages or more, of forward and backward data three, are its only options",
     [](const CudaConvSubject& s) {
       const Algorithm& a = s.algorithm();
       Algorithm rest{.pipeline = a.pipeline, .instruction = a.instruction};
       std::copy_n(a.tile.begin(), 2, rest.tile.begin());
       rest.stages = a.stages;
       return a.stages >= (adds_up_filters(s.signature()) ? 2 : 3) && rest == a;
     },
     [](const CudaConvSubject& s) {
       return fmt::format("stages {}, blocks {}, split_k {}", s.algorithm().stages, s.algorithm().block_per_cu,
                          s.algorithm().split_k);
     }},
    {"shared_memory_fits", "the stages fit what a block has",
     [](const CudaConvSubject& s) { return halo_resources(s.config).shared_bytes <= s.spec.shared_bytes_per_block; },
     [](const CudaConvSubject& s) {
       return fmt::format("{} of {} bytes", halo_resources(s.config).shared_bytes, s.spec.shared_bytes_per_block);
     }},
};

}  // namespace

CudaHaloTile cuda_halo_tile(const Algorithm& a) {
  return {.rows = a.tile[0], .stride = a.tile[1]};
}

const CudaConvPipeline& cuda_conv_halo() {
  static const CudaConvPipeline pipeline{kHaloRules, halo_resources, halo_algorithms, true};
  return pipeline;
}

}  // namespace tilesmith
