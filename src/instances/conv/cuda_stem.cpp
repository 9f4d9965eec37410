// Images of 1 to 4 channels: kernels/cuda/conv/stem.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "instances/conv/cuda_pipelines.hpp"
#include "kernels/cuda/common/mma_sm80.h"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

constexpr int kRegistersOfStemSm = 65536;
constexpr int kStemColumns = 16;  // of a tile
/// Of a thread beside its sums: elements on their way, places, and fragments, fewer in backward weight; where an
/// epilogue reads tensors, more, and a quarter of the sums; of fp32 results half of the sums where they are written by
/// elements, else an eighth. Found by compiling.
constexpr int kRegistersOfUnits = 64, kRegistersOfWeight = 48, kRegistersOfStemTensors = 8;

/// Warps of backward weight, and the most sums and units that one has.
constexpr int kStemWeightWarps = 8, kMostSumsOfWarp = 80, kMostUnitsOfWarp = 10;
/// Units of a part of the filter: 3 x 3 taps of three channels take 4, 4 x 4 6, 5 x 5 10, 7 x 7 20, by lines of a
/// channel 22.
constexpr std::array kStemUnits{4, 6, 10, 20, 24};

bool is_of_filters(const ConvSignature& s) {
  return s.direction == ConvDirection::backward_weight;
}

CudaConvResources stem_resources(const KernelConfig& config) {
  const Algorithm& a = config.algorithm;
  const CudaStemTile tile = cuda_stem_tile(a);
  CudaConvResources r;
  r.threads = 32 * a.wave[0];
  r.blocks_per_sm = std::max<int>(a.block_per_cu, 1);
  r.aligned = a.vector[0] > 1;
  r.pairs = a.vector[2] > 1;
  r.shared_bytes = TS_MMA_SM80_SHARED_BYTES;  // the most; a launch asks for what its problem needs
  if (r.threads == 0) return r;
  if (is_of_filters(std::get<ConvSignature>(config.signature))) {
    // kernels/cuda/conv/stem/weight.cuh
    const int unit_groups = tile.units > kMostUnitsOfWarp ? 2 : 1, sums = tile.units * tile.filters / 4 / unit_groups;
    const int filter_groups = sums <= kMostSumsOfWarp ? 1 : sums <= 2 * kMostSumsOfWarp ? 2 : 4;
    r.accumulators = sums / filter_groups;
    r.part_bytes = 32L * tile.filters * tile.units;
    r.folded_bytes = kStemWeightWarps / unit_groups / filter_groups / 2 * r.part_bytes;
  } else {
    r.accumulators = kStemColumns * tile.rows * tile.filters / r.threads;
  }
  r.launch_registers = std::min(255, kRegistersOfStemSm / (r.threads * r.blocks_per_sm) / 8 * 8);
  return r;
}

bool stem_reads_tensors(const ConvSignature& s) {
  return std::ranges::any_of(s.epilogue_ops, [](EpilogueOp op) { return reads_tensor(op); });
}

int stem_registers(const KernelConfig& config) {
  const auto& s = std::get<ConvSignature>(config.signature);
  const int sums = stem_resources(config).accumulators;
  const int of_tensors = stem_reads_tensors(s) ? kRegistersOfStemTensors + sums / 4 : 0;
  if (is_of_filters(s)) return sums + kRegistersOfWeight;
  const int of_words = s.type_out != DataType::fp32 ? 0 : config.algorithm.vector[2] == 1 ? sums / 2 : sums / 8;
  return sums + kRegistersOfUnits + of_tensors + of_words;
}

std::vector<Algorithm> stem_algorithms(const ConvSignature& s, const CudaGemmTile& row) {
  std::vector<Algorithm> out;
  const bool weight = is_of_filters(s);
  // A row of the table is for backward weight where it is cut into runs.
  if (s.depthwise || s.direction == ConvDirection::backward_data || weight != (row.splits > 1)) return out;
  Algorithm a{.pipeline = Pipeline::stem,
              .instruction = Instruction::mma_sync,
              .tile = {static_cast<std::uint16_t>(row.tile_m), static_cast<std::uint16_t>(row.tile_n)},
              .wave = {static_cast<std::uint16_t>(row.wave.front())},
              .stages = 2,
              .block_per_cu = static_cast<std::int16_t>(row.blocks_per_sm),
              .split_k = weight};
  if (!weight) {
    for (const int written : {2, 1}) {
      a.vector = {1, 1, static_cast<std::uint8_t>(written)};
      out.push_back(a);
    }
    return out;
  }
  for (const int units : kStemUnits)
    for (const int read : {8, 1}) {
      a.tile[2] = static_cast<std::uint16_t>(units);
      a.vector = {static_cast<std::uint8_t>(read), 1, 1};
      out.push_back(a);
    }
  return out;
}

constexpr CudaConvRule kStemRules[] = {
    {"images_have_few_channels",
     "forward and backward weight of 16-bit tensors; sizes, filters, strides and layouts are run-time numbers",
     [](const CudaConvSubject& s) {
       return has_sizes_of_16_bits(s) && s.signature().direction != ConvDirection::backward_data;
     },
     direction_and_type},
    {"warps_have_sixteens",
     "a tile is whole rows of 16 results, as many for each warp, and a block has a multiple of 32 filters, at most "
     "256; "
     "backward weight has 8 warps, 32 or 64 filters, and 4, 6, 10, 20 or 24 units of a filter",
     [](const CudaConvSubject& s) {
       const Algorithm& a = s.algorithm();
       if (a.wave[0] < 1 || a.wave[0] > 32 || a.tile[0] < kStemColumns || a.tile[1] < 32 || a.tile[1] % 32 != 0)
         return false;
       if (is_of_filters(s.signature()))
         return a.wave[0] == kStemWeightWarps && a.tile[0] % kStemColumns == 0 && a.tile[1] <= 64 &&
                std::ranges::find(kStemUnits, a.tile[2]) != kStemUnits.end();
       return a.tile[0] % (kStemColumns * a.wave[0]) == 0 && a.tile[1] <= 256 && a.tile[2] == 0;
     },
     [](const CudaConvSubject& s) {
       return fmt::format("{} results, {} filters, {} units, {} warps", s.algorithm().tile[0], s.algorithm().tile[1],
                          s.algorithm().tile[2], s.algorithm().wave[0]);
     }},
    {"tensors_lie_as_pairs", "an epilogue reads tensors where y is written by pairs",
     [](const CudaConvSubject& s) { return s.algorithm().vector[2] > 1 || !stem_reads_tensors(s.signature()); },
     [](const CudaConvSubject& s) { return fmt::format("vector {}", s.algorithm().vector[2]); }},
    {"fields_belong_to_pipeline",
     "warps, blocks that share an SM, and whether y goes by elements or wider are its only options, beside two stages; "
     "backward weight is cut into runs",
     [](const CudaConvSubject& s) {
       const Algorithm& a = s.algorithm();
       const bool weight = is_of_filters(s.signature());
       Algorithm rest{.pipeline = a.pipeline, .instruction = a.instruction, .stages = 2, .split_k = weight};
       std::copy_n(a.tile.begin(), 3, rest.tile.begin());
       rest.wave[0] = a.wave[0];
       rest.block_per_cu = a.block_per_cu;
       rest.vector = {a.vector[0], 1, a.vector[2]};
       const bool widths = weight ? (a.vector[0] == 1 || a.vector[0] == 8) && a.vector[2] == 1
                                  : a.vector[0] == 1 && (a.vector[2] == 1 || a.vector[2] == 2);
       return a.block_per_cu >= 1 && widths && rest == a;
     },
     [](const CudaConvSubject& s) {
       return fmt::format("stages {}, blocks {}, vector {} and {}, runs {}", s.algorithm().stages,
                          s.algorithm().block_per_cu, s.algorithm().vector[0], s.algorithm().vector[2],
                          s.algorithm().split_k);
     }},
    {"registers_hold_sums", "sums, and elements on their way to shared memory, stay in registers",
     [](const CudaConvSubject& s) { return stem_registers(s.config) <= stem_resources(s.config).launch_registers; },
     [](const CudaConvSubject& s) {
       return fmt::format("about {} of {}", stem_registers(s.config), stem_resources(s.config).launch_registers);
     }},
};

}  // namespace

CudaStemTile cuda_stem_tile(const Algorithm& a) {
  return {.rows = a.tile[0] / kStemColumns, .filters = a.tile[1], .units = a.tile[2]};
}

std::span<const int> cuda_stem_units() {
  return kStemUnits;
}

const CudaConvPipeline& cuda_conv_stem() {
  static const CudaConvPipeline pipeline{kStemRules, stem_resources, stem_algorithms};
  return pipeline;
}

}  // namespace tilesmith
