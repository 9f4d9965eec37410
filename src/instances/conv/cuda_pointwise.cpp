// Few channels and one tap, from memory straight to tensor cores: kernels/cuda/conv/pointwise.
#include <fmt/format.h>

#include <algorithm>

#include "instances/conv/cuda_pipelines.hpp"
#include "kernels/cuda/common/mma_sm80.h"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

constexpr int kRegistersOfPointwiseSm = 65536;
/// Of a thread beside its pixels and sums: filters, places, and the walk. Found by compiling (ptxas 13.0).
constexpr int kRegistersOfPixels = 40;
/// More of an epilogue, and of one that reads a tensor: fewer, and 4 to 64 bytes went to memory.
constexpr int kRegistersOfPointwiseEpilogue = 36, kRegistersOfPointwiseTensor = 52;
/// And more where results are of 32 bits: 4 bytes of 64 x 96 went to memory.
constexpr int kRegistersOfWideTensor = 14;

constexpr int kMostInRegisters = 160, kMostByRuns = 256;  // channels that are read

/// Sixteens of pixels of a warp.
int pointwise_sixteens(const Algorithm& a) {
  return a.tile[0] / 16 / std::max<int>(a.wave[0], 1);
}

CudaConvResources pointwise_resources(const KernelConfig& config) {
  const Algorithm& a = config.algorithm;
  CudaConvResources r;
  r.threads = 32 * a.wave[0];
  r.blocks_per_sm = std::max<int>(a.block_per_cu, 1);
  r.aligned = r.pairs = !pointwise_by_runs(a);
  r.shared_bytes = TS_MMA_SM80_SHARED_BYTES;  // the most; a launch asks for what its problem needs
  if (r.threads == 0) return r;
  r.accumulators = 16 * pointwise_sixteens(a);
  r.launch_registers = std::min(255, kRegistersOfPointwiseSm / (r.threads * r.blocks_per_sm) / 8 * 8);
  return r;
}

int pointwise_registers(const KernelConfig& config) {
  const Algorithm& a = config.algorithm;
  const auto& s = std::get<ConvSignature>(config.signature);
  const int of_tensor = kRegistersOfPointwiseTensor + (s.type_out == DataType::fp32 ? kRegistersOfWideTensor : 0);
  const int of_epilogue = std::ranges::any_of(s.epilogue_ops, reads_tensor) ? of_tensor
                          : s.epilogue_ops.empty()                          ? 0
                                                                            : kRegistersOfPointwiseEpilogue;
  const int stages = pointwise_by_runs(a) ? 1 : a.stages;
  return stages * pointwise_sixteens(a) * a.tile[1] / 4 + pointwise_resources(config).accumulators +
         kRegistersOfPixels + of_epilogue;
}

std::vector<Algorithm> pointwise_algorithms(const ConvSignature& s, const CudaGemmTile& row) {
  if (s.depthwise || s.direction == ConvDirection::backward_weight) return {};
  Algorithm octets{.pipeline = Pipeline::pointwise,
                   .instruction = Instruction::mma_sync,
                   .tile = {static_cast<std::uint16_t>(row.tile_m), static_cast<std::uint16_t>(row.tile_n)},
                   .wave = {static_cast<std::uint16_t>(row.wave.front())},
                   .stages = static_cast<std::uint8_t>(row.stages),
                   .block_per_cu = static_cast<std::int16_t>(row.blocks_per_sm),
                   .vector = {8, 8, 8}};
  Algorithm runs = octets;
  runs.vector = {1, 1, 1};
  return {octets, runs};
}

constexpr CudaConvRule kPointwiseRules[] = {
    {"pixels_are_of_16_bits", "forward and backward data of 16-bit tensors; sizes and groups are run-time numbers",
     [](const CudaConvSubject& s) {
       return has_sizes_of_16_bits(s) && s.signature().direction != ConvDirection::backward_weight;
     },
     direction_and_type},
    {"warps_have_sixteens_of_pixels",
     "a block has a multiple of 16 pixels for each warp, of a multiple of 32 channels: by runs at most 256, in "
     "registers "
     "160; 192 went through memory (ptxas 13.0)",
     [](const CudaConvSubject& s) {
       const Algorithm& a = s.algorithm();
       return a.wave[0] >= 1 && a.wave[0] <= 16 && a.tile[0] > 0 && a.tile[0] % (16 * a.wave[0]) == 0 &&
              a.tile[1] > 0 && a.tile[1] <= (pointwise_by_runs(a) ? kMostByRuns : kMostInRegisters) &&
              a.tile[1] % 32 == 0 && a.tile[2] == 0;
     },
     [](const CudaConvSubject& s) {
       return fmt::format("{} pixels, {} channels, {} warps", s.algorithm().tile[0], s.algorithm().tile[1],
                          s.algorithm().wave[0]);
     }},
    {"fields_belong_to_pipeline",
     "warps, two to four stages and blocks that share an SM are its only options; octets are read and written, or runs",
     [](const CudaConvSubject& s) {
       const Algorithm& a = s.algorithm();
       Algorithm rest{.pipeline = a.pipeline, .instruction = a.instruction, .stages = a.stages};
       rest.vector = a.vector[0] == 1 ? std::array<std::uint8_t, 3>{1, 1, 1} : std::array<std::uint8_t, 3>{8, 8, 8};
       std::copy_n(a.tile.begin(), 3, rest.tile.begin());
       rest.wave[0] = a.wave[0];
       rest.block_per_cu = a.block_per_cu;
       return a.block_per_cu >= 1 && a.stages >= 2 && a.stages <= 4 && rest == a;
     },
     [](const CudaConvSubject& s) {
       return fmt::format("stages {}, blocks {}", s.algorithm().stages, s.algorithm().block_per_cu);
     }},
    {"epilogues_read_vectors",
     "tensors that an epilogue reads took 8 to 64 bytes more than the registers beside several sixteens (ptxas 13.0)",
     [](const CudaConvSubject& s) {
       return pointwise_sixteens(s.algorithm()) == 1 || std::ranges::none_of(s.signature().epilogue_ops, reads_tensor);
     },
     [](const CudaConvSubject& s) {
       return fmt::format("{} sixteens, {} operations", pointwise_sixteens(s.algorithm()),
                          s.signature().epilogue_ops.size());
     }},
    {"registers_hold_pixels", "the pixels of all stages, sums and places stay in registers",
     [](const CudaConvSubject& s) {
       return pointwise_registers(s.config) <= pointwise_resources(s.config).launch_registers;
     },
     [](const CudaConvSubject& s) {
       return fmt::format("about {} of {}", pointwise_registers(s.config),
                          pointwise_resources(s.config).launch_registers);
     }},
};

}  // namespace

bool pointwise_by_runs(const Algorithm& a) {
  return a.vector[0] == 1;
}

const CudaConvPipeline& cuda_conv_pointwise() {
  static const CudaConvPipeline pipeline{kPointwiseRules, pointwise_resources, pointwise_algorithms};
  return pipeline;
}

}  // namespace tilesmith
