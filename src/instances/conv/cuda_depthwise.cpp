// Groups of one channel to one: kernels/cuda/conv/depthwise.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "instances/conv/cuda_mapped.hpp"
#include "instances/conv/cuda_pipelines.hpp"
#include "kernels/cuda/common/mma_sm80.h"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

constexpr int kRegistersOfDepthwiseSm = 65536;
/// Of a thread beside its sums and the pixels that it multiplies. Found by compiling.
constexpr int kRegistersOfStep = 28;
/// And with an epilogue: beside 164 others of 168 registers 4 to 20 bytes of most went to memory, beside 160 none (7 x
/// 7 results by 7 and by 5 taps of pixels two apart, ptxas 13.0).
constexpr int kRegistersOfEpilogue = 8;

constexpr std::array kPaces{1, 2};

// Tiles that come through tensor maps: kernels/cuda/conv/depthwise/mapped_data.cuh.
constexpr int kColumnsOfStrip = 7;
constexpr std::array kTapsOfStrip{3, 5};      // 5 of results two pixels apart alone: bands take those of neighbours
constexpr std::array kStripChannels{32, 64};  // of a block
// Images that are whole in registers: kernels/cuda/conv/depthwise/whole_data.cuh.
constexpr int kSideOfWhole = 7, kChannelsOfWhole = 64;
constexpr std::array kTapsOfWhole{3, 5, 7};
constexpr long kStripAlignment = 128;
/// Of a thread beside sums, weights and pixels; so many more take weights of 5 x 5 taps, and an epilogue. Found by
/// compiling.
constexpr int kRegistersOfStrip = 24, kRegistersOfWeights = 60, kRegistersOfFinish = 50;

bool is_weight(const ConvSignature& s) {
  return s.direction == ConvDirection::backward_weight;
}

bool is_one_of(std::span<const int> numbers, int number) {
  return std::ranges::find(numbers, number) != numbers.end();
}

/// Rows of a thread's strip of a mapped tile; 0 where the strips of a block do not share the tile evenly.
int rows_of_strip(const Algorithm& a) {
  const CudaDepthwiseTile tile = cuda_depthwise_tile(a);
  const int lanes = tile.channels / 2, strips = lanes == 0 ? 0 : 32 * a.wave[0] / lanes;
  const int along = tile.columns / kColumnsOfStrip;
  if (along == 0 || tile.columns % kColumnsOfStrip != 0 || strips == 0 || strips % along != 0) return 0;
  return tile.rows % (strips / along) == 0 ? tile.rows / (strips / along) : 0;
}

/// What follows from the warps of a block and the blocks of an SM alone.
CudaConvResources warps_resources(const Algorithm& a) {
  CudaConvResources r;
  r.threads = 32 * a.wave[0];
  r.blocks_per_sm = std::max<int>(a.block_per_cu, 1);
  r.aligned = r.pairs = true;
  if (r.threads > 0)
    r.launch_registers = std::min(255, kRegistersOfDepthwiseSm / (r.threads * r.blocks_per_sm) / 8 * 8);
  return r;
}

CudaConvResources strip_resources(const KernelConfig& config) {
  const auto& s = std::get<ConvSignature>(config.signature);
  const CudaDepthwiseTile tile = cuda_depthwise_tile(config.algorithm);
  CudaConvResources r = warps_resources(config.algorithm);
  const long pixels = ((tile.rows - 1L) * tile.pace + tile.tap_rows) * ((tile.columns - 1L) * tile.pace + tile.taps);
  const auto bytes = [&](long count) {
    return (count * 2 * tile.channels + kStripAlignment - 1) / kStripAlignment * kStripAlignment;
  };
  long stages = config.algorithm.stages * bytes(pixels);
  if (is_weight(s)) {
    r.part_bytes = 4L * tile.tap_rows * tile.taps * tile.channels;
    const long strips = tile.channels == 0 ? 0 : 2L * r.threads / tile.channels;
    stages =
        std::max(stages + config.algorithm.stages * bytes(long{tile.rows} * tile.columns), (strips + 1) * r.part_bytes);
  }
  r.shared_bytes = stages + config.algorithm.stages * kGateBytes + kPlanBytes + kStripAlignment;
  // Rows of results leave as they are whole, and rows of y come as they are met; with an epilogue all stay to the end.
  const bool plain = is_weight(s) || (s.epilogue_ops.empty() && bits_of(s.type_out) == 16);
  const int rows = rows_of_strip(config.algorithm), met = (tile.tap_rows + tile.pace - 1) / tile.pace;
  const int sums = (plain ? std::min(rows, met) : rows) * kColumnsOfStrip;
  r.accumulators = 2 * (sums + tile.tap_rows * tile.taps + (kColumnsOfStrip - 1) * tile.pace + tile.taps);
  return r;
}

CudaConvResources whole_resources(const KernelConfig& config) {
  const CudaDepthwiseTile tile = cuda_depthwise_tile(config.algorithm);
  CudaConvResources r = warps_resources(config.algorithm);
  const long stage = 2L * tile.images * tile.rows * tile.columns * tile.channels;
  r.shared_bytes = config.algorithm.stages * (stage + kGateBytes) + 4L * tile.tap_rows * tile.taps * tile.channels +
                   kPlanBytes + kStripAlignment;
  r.accumulators = 4 * tile.rows * tile.columns;  // of an image and of its results
  return r;
}

CudaConvResources depthwise_resources(const KernelConfig& config) {
  if (cuda_depthwise_tile(config.algorithm).whole) return whole_resources(config);
  if (is_mapped(config.algorithm)) return strip_resources(config);
  const auto& s = std::get<ConvSignature>(config.signature);
  const CudaDepthwiseTile tile = cuda_depthwise_tile(config.algorithm);
  CudaConvResources r = warps_resources(config.algorithm);
  r.shared_bytes = TS_MMA_SM80_SHARED_BYTES;  // the most; a launch asks for what its problem needs
  const int window = tile.pace > tile.taps ? tile.columns * tile.taps : (tile.columns - 1) * tile.pace + tile.taps;
  const int sums = is_weight(s) ? tile.tap_rows * tile.taps + tile.columns : tile.rows * tile.columns;
  r.accumulators = 2 * (sums + window);
  return r;
}

std::vector<Algorithm> depthwise_algorithms(const ConvSignature& s, const CudaGemmTile& row) {
  const bool weight = is_weight(s);
  std::vector<Algorithm> out;
  // A row of the table is for backward weight where it is cut into runs.
  if (!s.depthwise || weight != (row.splits > 1)) return out;
  const bool line = row.tile_m == 1, mapped = row.tma_boxes > 0;
  if (mapped && bits_of(s.data_type) != 16) return out;
  const auto add = [&](int first, int taps, int pace) {
    out.push_back({.pipeline = Pipeline::depthwise,
                   .instruction = Instruction::fma_f32,
                   .tile = {static_cast<std::uint16_t>(first), static_cast<std::uint16_t>(taps),
                            static_cast<std::uint16_t>(pace)},
                   .wave = {static_cast<std::uint16_t>(row.wave.front())},
                   .stages = static_cast<std::uint8_t>(row.stages),
                   .block_per_cu = static_cast<std::int16_t>(row.blocks_per_sm),
                   .cluster = {static_cast<std::uint8_t>(row.cluster_m), static_cast<std::uint8_t>(row.cluster_n)},
                   .split_k = weight,
                   .subtile = {static_cast<std::uint8_t>(row.tile_m), static_cast<std::uint8_t>(row.tile_n)}});
  };
  if (mapped && row.tile_m == kSideOfWhole && row.tile_n == kSideOfWhole) {
    for (const int taps : kTapsOfWhole) add(kChannelsOfWhole, taps, 1);
    return out;
  }
  if (mapped) {
    for (const int channels : kStripChannels)
      for (const int pace : kPaces)
        for (const int taps : kTapsOfStrip)
          if (pace == 1 ? taps == kTapsOfStrip.front() : s.direction != ConvDirection::backward_data)
            add(channels, taps, pace);
    return out;
  }
  for (const int pace : kPaces)
    for (const int tap : cuda_depthwise_taps(s.direction, row.tile_m, pace)) {
      if (pace > 1 && s.direction == ConvDirection::backward_data) continue;
      add(!weight ? 0 : line ? 1 : tap, tap, pace);
    }
  return out;
}

int registers_needed(const CudaConvSubject& s, const CudaConvResources& r) {
  const CudaDepthwiseTile tile = cuda_depthwise_tile(s.algorithm());
  if (tile.whole) return r.accumulators + kRegistersOfStrip;
  if (is_mapped(s.algorithm())) {
    const bool plain =
        is_weight(s.signature()) || (s.signature().epilogue_ops.empty() && bits_of(s.signature().type_out) == 16);
    return r.accumulators + kRegistersOfStrip + (tile.taps > 3 ? kRegistersOfWeights : 0) +
           (plain ? 0 : kRegistersOfFinish);
  }
  return r.accumulators + kRegistersOfStep + (s.signature().epilogue_ops.empty() ? 0 : kRegistersOfEpilogue);
}

constexpr CudaConvRule kDepthwiseRules[] = {
    {"groups_are_channels",
     "groups have one channel of x and one of y; sizes, filters and strides are run-time numbers",
     [](const CudaConvSubject& s) { return s.signature().depthwise && s.signature().spatial_dims == 3; },
     [](const CudaConvSubject& s) {
       return fmt::format("depthwise {}, {} dimensions", s.signature().depthwise, s.signature().spatial_dims);
     }},
    {"strips_miss_banks",
     "a thread has 1 to 8 rows of an odd number of columns, at most 31: strips that share a warp then read different "
     "banks of shared memory",
     [](const CudaConvSubject& s) {
       if (is_mapped(s.algorithm())) return true;
       const auto [rows, columns] = s.algorithm().subtile;
       return rows >= 1 && rows <= 8 && columns % 2 == 1 && columns <= 31;
     },
     [](const CudaConvSubject& s) {
       return fmt::format("{} x {}", s.algorithm().subtile[0], s.algorithm().subtile[1]);
     }},
    {"taps_are_unrolled",
     "2, 3, 5 or 7 taps of a row are multiplied at a time (of a filter that is one row 4 or 8, backward weight of "
     "neighbouring pixels 16 for 8), of pixels 1 or 2 apart, backward data 1; through maps 3, of pixels 2 apart also "
     "5, of whole images 3, 5 or 7",
     [](const CudaConvSubject& s) {
       const CudaDepthwiseTile t = cuda_depthwise_tile(s.algorithm());
       const bool weight = is_weight(s.signature()), line = t.rows == 1;
       if (t.pace > 1 && s.signature().direction == ConvDirection::backward_data) return false;
       if (t.whole) return is_one_of(kTapsOfWhole, t.taps) && t.pace == 1 && !weight;
       if (is_mapped(s.algorithm()))
         return t.pace == 1 ? t.taps == kTapsOfStrip.front() : t.pace == 2 && is_one_of(kTapsOfStrip, t.taps);
       return is_one_of(cuda_depthwise_taps(s.signature().direction, t.rows, t.pace), t.taps) &&
              t.tap_rows == (!weight ? 0
                             : line  ? 1
                                     : t.taps) &&
              is_one_of(kPaces, t.pace);
     },
     [](const CudaConvSubject& s) {
       const CudaDepthwiseTile t = cuda_depthwise_tile(s.algorithm());
       return fmt::format("{} of {} rows, {} apart", t.taps, t.tap_rows, t.pace);
     }},
    {"fields_belong_to_pipeline",
     "warps, two stages or more, and blocks that share an SM are its only options; backward weight is cut into runs, "
     "through maps in clusters of 2 to 8",
     [](const CudaConvSubject& s) {
       Algorithm rest = s.algorithm();
       if (is_mapped(rest) && rest.stages > kMostMappedStages) return false;
       if (rest.stages < 2 || rest.block_per_cu < 1 || rest.wave[0] < 1 || rest.wave[0] > 32 ||
           rest.split_k != is_weight(s.signature()))
         return false;
       for (const std::size_t i : {3, 4, 5, 6, 7, 8})
         if (rest.tile[i] != 0) return false;
       for (std::size_t i = 1; i < rest.wave.size(); ++i)
         if (rest.wave[i] != 0) return false;
       if (is_mapped(rest) && is_weight(s.signature()) && rest.cluster[0] <= kMostRunsOfCluster) rest.cluster[0] = 1;
       rest.tile = {};
       rest.wave = {};
       rest.subtile = {};
       rest.stages = 0;
       rest.block_per_cu = -1;
       rest.split_k = false;
       return rest == Algorithm{.pipeline = rest.pipeline, .instruction = rest.instruction};
     },
     [](const CudaConvSubject& s) {
       return fmt::format("{} warps, stages {}, blocks {}, runs {}", s.algorithm().wave[0], s.algorithm().stages,
                          s.algorithm().block_per_cu, s.algorithm().split_k);
     }},
    {"strips_share_tiles",
     "through maps tensors are of 16 bits and blocks of 32 or 64 channels, strips of 7 columns share a tile evenly, no "
     "epilogue reads tensors, and what a block brings fits shared memory with its neighbours' on the SM",
     [](const CudaConvSubject& s) {
       if (!is_mapped(s.algorithm())) return true;
       if (std::ranges::any_of(s.signature().epilogue_ops, reads_tensor)) return false;
       const CudaDepthwiseTile t = cuda_depthwise_tile(s.algorithm());
       const CudaConvResources r = depthwise_resources(s.config);
       const long share = s.spec.shared_bytes_per_sm / r.blocks_per_sm - s.spec.shared_bytes_reserved;
       return bits_of(s.signature().data_type) == 16 && is_one_of(kStripChannels, t.channels) &&
              (t.whole ? t.channels == kChannelsOfWhole : rows_of_strip(s.algorithm()) > 0) &&
              r.shared_bytes <= std::min<long>(s.spec.shared_bytes_per_block, share);
     },
     [](const CudaConvSubject& s) {
       const CudaDepthwiseTile t = cuda_depthwise_tile(s.algorithm());
       return fmt::format("{}, {} channels, {} x {} by {} warps, {} bytes", name_of(s.signature().data_type),
                          t.channels, t.rows, t.columns, s.algorithm().wave[0],
                          depthwise_resources(s.config).shared_bytes);
     }},
    {"registers_hold_sums", "sums, the pixels that they are made of, and an epilogue's words stay in registers",
     [](const CudaConvSubject& s) {
       const CudaConvResources r = depthwise_resources(s.config);
       return registers_needed(s, r) <= r.launch_registers;
     },
     [](const CudaConvSubject& s) {
       const CudaConvResources r = depthwise_resources(s.config);
       return fmt::format("about {} of {}", registers_needed(s, r), r.launch_registers);
     }},
};

}  // namespace

CudaDepthwiseTile cuda_depthwise_tile(const Algorithm& a) {
  const bool mapped = is_mapped(a), whole = mapped && a.subtile[0] == kSideOfWhole && a.subtile[1] == kSideOfWhole;
  return {.rows = a.subtile[0],
          .columns = a.subtile[1],
          .tap_rows = mapped ? a.tile[1] : a.tile[0],
          .taps = a.tile[1],
          .pace = a.tile[2],
          .channels = mapped ? a.tile[0] : 0,
          .images = whole ? a.wave[0] : 1,
          .whole = whole};
}

std::span<const int> cuda_depthwise_taps(ConvDirection direction, int rows, int pace) {
  static constexpr int kOfRows[] = {2, 3, 5, 7}, kOfLine[] = {4, 8}, kWeightOfLine[] = {4, 16};
  if (rows != 1) return kOfRows;
  // What 16 taps meet of pixels two apart is more than the registers have.
  if (direction == ConvDirection::backward_weight && pace == 1) return kWeightOfLine;
  return kOfLine;
}

const CudaConvPipeline& cuda_conv_depthwise() {
  static const CudaConvPipeline pipeline{kDepthwiseRules, depthwise_resources, depthwise_algorithms};
  return pipeline;
}

}  // namespace tilesmith
