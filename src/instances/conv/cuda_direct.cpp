// Few channels, by boxes of results: kernels/cuda/conv/direct.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "instances/conv/cuda_pipelines.hpp"
#include "kernels/cuda/common/mma_sm80.h"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

constexpr int kRegistersOfDirectSm = 65536;
/// Of a thread beside its sums: places, fragments, and the walk over boxes. Found by compiling (ptxas 13.0).
constexpr int kRegistersOfBoxes = 96;
/// More of an epilogue whose results go element by element (8 to 44 bytes went to memory), of 64 columns (4 to 20), or
/// where 8 bytes are read at a time (4 to 12).
constexpr int kRegistersOfDirectEpilogue = 10;

CudaConvResources direct_resources(const KernelConfig& config) {
  const Algorithm& a = config.algorithm;
  CudaConvResources r;
  r.threads = 32 * a.wave[0];
  r.blocks_per_sm = std::max<int>(a.block_per_cu, 1);
  r.aligned = a.vector[0] > 1;
  r.pairs = a.vector[2] > 1;
  r.shared_bytes = TS_MMA_SM80_SHARED_BYTES;  // the most; a launch asks for what its problem needs
  if (r.threads == 0) return r;
  r.accumulators = a.tile[0] * a.tile[1] / r.threads;
  r.launch_registers = std::min(255, kRegistersOfDirectSm / (r.threads * r.blocks_per_sm) / 8 * 8);
  return r;
}

int direct_registers(const KernelConfig& config) {
  const Algorithm& a = config.algorithm;
  const auto& signature = std::get<ConvSignature>(config.signature);
  const bool scarce = a.vector[2] == 1 || a.tile[1] > 32 || a.vector[0] == 4;
  return direct_resources(config).accumulators + kRegistersOfBoxes +
         (scarce && !signature.epilogue_ops.empty() ? kRegistersOfDirectEpilogue : 0);
}

std::vector<Algorithm> direct_algorithms(const ConvSignature& s, const CudaGemmTile& row) {
  std::vector<Algorithm> out;
  if (s.depthwise || s.direction == ConvDirection::backward_weight) return out;
  Algorithm a{.pipeline = Pipeline::direct,
              .instruction = Instruction::mma_sync,
              .tile = {static_cast<std::uint16_t>(row.tile_m), static_cast<std::uint16_t>(row.tile_n)},
              .wave = {static_cast<std::uint16_t>(row.wave.front())},
              .stages = static_cast<std::uint8_t>(row.stages),
              .block_per_cu = static_cast<std::int16_t>(row.blocks_per_sm)};
  for (const std::uint8_t read : std::to_array<std::uint8_t>({8, 4})) {
    for (const std::uint8_t written : std::to_array<std::uint8_t>({2, 1})) {
      a.vector = {read, read, written};
      if (row.tile_n > kEightColumns) out.push_back(a);
    }
    a.vector = {read, 1, 1};
    if (s.direction == ConvDirection::backward_data) out.push_back(a);
  }
  return out;
}

constexpr CudaConvRule kDirectRules[] = {
    {"pixels_are_of_16_bits",
     "forward and backward data of 16-bit tensors; sizes, filters, strides and groups are run-time numbers",
     [](const CudaConvSubject& s) {
       return has_sizes_of_16_bits(s) && s.signature().direction != ConvDirection::backward_weight;
     },
     direction_and_type},
    {"warps_have_sixteens_of_results",
     "a box has a multiple of 16 results for each warp, at most 256, and 16, 32 or 64 columns, of all phases also 8",
     [](const CudaConvSubject& s) {
       const Algorithm& a = s.algorithm();
       return a.wave[0] >= 1 && a.wave[0] <= 16 && a.tile[0] > 0 && a.tile[0] <= 256 &&
              a.tile[0] % (16 * a.wave[0]) == 0 &&
              (a.tile[1] == 16 || a.tile[1] == 32 || a.tile[1] == 64 ||
               (a.tile[1] == kEightColumns && cuda_direct_has_all_phases(a))) &&
              a.tile[2] == 0;
     },
     [](const CudaConvSubject& s) {
       return fmt::format("{} results, {} columns, {} warps", s.algorithm().tile[0], s.algorithm().tile[1],
                          s.algorithm().wave[0]);
     }},
    {"fields_belong_to_pipeline",
     "warps, two to four stages, blocks that share an SM, 16 or 8 bytes read at a time, and elements or pairs written "
     "are its only options; backward data may have the channels of all phases as columns, and reads and writes them by "
     "elements then",
     [](const CudaConvSubject& s) {
       const Algorithm& a = s.algorithm();
       Algorithm rest{.pipeline = a.pipeline, .instruction = a.instruction, .stages = a.stages};
       std::copy_n(a.tile.begin(), 3, rest.tile.begin());
       rest.wave[0] = a.wave[0];
       rest.block_per_cu = a.block_per_cu;
       const bool all_phases = cuda_direct_has_all_phases(a);
       rest.vector = {a.vector[0], all_phases ? std::uint8_t{1} : a.vector[0], a.vector[2]};
       return a.block_per_cu >= 1 && a.stages >= 2 && a.stages <= 4 && (a.vector[0] == 8 || a.vector[0] == 4) &&
              (a.vector[2] == 1 || (a.vector[2] == 2 && !all_phases)) &&
              (!all_phases || s.signature().direction == ConvDirection::backward_data) && rest == a;
     },
     [](const CudaConvSubject& s) {
       return fmt::format("stages {}, blocks {}, vector {} and {}", s.algorithm().stages, s.algorithm().block_per_cu,
                          s.algorithm().vector[0], s.algorithm().vector[2]);
     }},
    {"epilogues_read_vectors",
     "tensors that an epilogue reads took 4 to 480 bytes more than the registers (ptxas 13.0)",
     [](const CudaConvSubject& s) { return std::ranges::none_of(s.signature().epilogue_ops, reads_tensor); },
     [](const CudaConvSubject& s) { return fmt::format("{} operations", s.signature().epilogue_ops.size()); }},
    {"registers_hold_sums", "sums, places and fragments stay in registers",
     [](const CudaConvSubject& s) { return direct_registers(s.config) <= direct_resources(s.config).launch_registers; },
     [](const CudaConvSubject& s) {
       return fmt::format("about {} of {}", direct_registers(s.config), direct_resources(s.config).launch_registers);
     }},
};

}  // namespace

bool cuda_direct_has_all_phases(const Algorithm& a) {
  return a.vector[1] == 1;
}

const CudaConvPipeline& cuda_conv_direct() {
  static const CudaConvPipeline pipeline{kDirectRules, direct_resources, direct_algorithms};
  return pipeline;
}

}  // namespace tilesmith
