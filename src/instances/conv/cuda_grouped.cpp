// Groups of a few channels: kernels/cuda/conv/grouped.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "instances/conv/cuda_mapped.hpp"
#include "instances/conv/cuda_pipelines.hpp"
#include "kernels/cuda/common/mma_sm80.h"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

constexpr int kRegistersOfGroupedSm = 65536;
/// Of a thread beside its sums: places of pixels and what a tap needs. Found by compiling.
constexpr int kRegistersOfTap = 60, kRegistersOfSixteen = 8;
/// More, in groups of 2 or 4 on sm_80: beside 128 registers 4 to 24 bytes went to memory (ptxas 13.0), on other chips
/// none.
constexpr int kRegistersOfSmallGroupsSm80 = 6;
/// Of backward weight, beside its sums and a tap's place for each product. Found by compiling.
constexpr int kRegistersOfProducts = 44;
constexpr int kThreadsOfTeam = 128;  // that share a tile's octets

// Groups of several channels whose tiles come through tensor maps: kernels/cuda/conv/grouped/mapped_data.cuh.
constexpr int kTapsOfMapped = 3;
constexpr int kTapsOfPhases = 2;  // backward data with a stride of 2: the most that meet a pixel
constexpr int kPhases = 4;
constexpr int kBytesOfPixel = 128, kMappedAlignment = 1024;
/// Of a thread beside sums and weights; smaller groups pair what rows have at a tap, and so much more takes an epilogue
/// of backward data; larger ones count sixteens of channels. Found by compiling.
constexpr int kRegistersOfMapped = 40, kRegistersOfMappedWeight = 36, kRegistersOfPairs = 30;
constexpr int kRegistersOfSixteens = 22;
constexpr int kRegistersOfPhases = 14;  // of smaller groups without an epilogue, in place of those of pairs
/// In backward weight of groups of 16, for each sixteen of a warp's pixels: of four 4 bytes went to memory beside 128
/// registers (ptxas 13.0), of two none.
constexpr int kRegistersOfOwnSixteen = 6;

// Groups of one channel: kernels/cuda/conv/banded.
constexpr int kSideOfBands = 16, kSideOfSmall = 8;  // of a tile; small ones have as many results, of several images
constexpr int kChannelsOfBands = 32;                // of a block
constexpr int kOctetsOfBands = kChannelsOfBands / 8;
constexpr int kBytesToAlignBands = 512;  // the first tile
/// Of a thread beside its sums and what they are made of, of forward and backward data and of backward weight. Found by
/// compiling.
constexpr int kRegistersOfBands = 50, kRegistersOfDiagonals = 44;

constexpr std::array kGroupChannels{2, 4, 8, 16};
constexpr std::array kMappedChannels{2, 4, 8, 16, 32};  // through tensor maps
constexpr int kColumnsOfTwoImages = 8;                  // backward weight: of either
constexpr std::array kTapsOfBands{3, 5, 7};
constexpr std::array kGroupedPaces{1, 2};
constexpr int kTapsOfGroupedPart = 3;  // a side of the part of a filter that backward weight adds up

bool adds_filters(const ConvSignature& s) {
  return s.direction == ConvDirection::backward_weight;
}

/// Four warps share a block's octets, and all fours the tile's results.
int sixteens_of_warp(const Algorithm& a) {
  const CudaGroupedTile tile = cuda_grouped_tile(a);
  return tile.rows * tile.columns / 16 / std::max(a.wave[0] / 4, 1);
}

/// Whether mapped tiles are so many strips for each four warps: eight columns of an even number of rows, or of backward
/// weight sixteen columns of as many rows.
bool strips_are_whole(const CudaGroupedTile& tile, int teams, bool weight) {
  if (teams == 0) return false;
  if (!weight) return tile.rows % 2 == 0 && tile.columns % (8 * teams) == 0;
  const int depth = std::max(tile.channels / 16, 1), columns = tile.columns * tile.images;
  if (teams % depth != 0) return false;
  teams /= depth;  // that share pixels
  const int along = std::clamp(columns / 16, 1, teams);
  return columns % (16 * along) == 0 && teams % along == 0 && tile.rows % (teams / along) == 0;
}

/// Whether bands can leave a result: results go by sixteens of a row, of the tensors' type, with channels as rows.
bool bands_leave(const ConvSignature& s) {
  return adds_filters(s) || (s.type_out == s.data_type && std::ranges::none_of(s.epilogue_ops, [](EpilogueOp op) {
                               return op == EpilogueOp::add || op == EpilogueOp::multiply;
                             }));
}

/// Products of an octet of y: of groups of 16 one for each tap, of smaller ones one for two.
int products_of_octet(const CudaGroupedTile& tile) {
  const int taps = tile.tap_rows * tile.taps;
  return tile.channels >= 16 ? taps : (taps + 1) / 2;
}

/// plane_bytes() of kernels/cuda/conv/banded/planes.cuh.
long bytes_of_plane(const CudaGroupedTile& tile, int rows) {
  const long pairs = (rows + 1) / 2;
  return tile.images == 1 ? pairs * 96 + 16 : 2 * tile.images * (pairs * 32 + 16) + 16;
}

CudaConvResources banded_resources(const KernelConfig& config) {
  const CudaGroupedTile tile = cuda_grouped_tile(config.algorithm);
  const int taps = tile.taps, warps = std::max<int>(config.algorithm.wave[0], 1), rows = tile.rows - 1 + taps;
  CudaConvResources r;
  r.threads = 32 * warps;
  r.blocks_per_sm = std::max<int>(config.algorithm.block_per_cu, 1);
  r.aligned = true;
  const int rows_of_x = 3 * (taps + 1);  // matrices that neighbouring rows of results meet
  const long pitch = tile.images == 1 ? 24 : 16;
  const int stages = config.algorithm.stages;
  const bool weight = adds_filters(std::get<ConvSignature>(config.signature));
  const auto take = [&](int of_tile, long columns) {
    r.shared_bytes +=
        kChannelsOfBands * (stages * 2L * tile.images * of_tile * columns + bytes_of_plane(tile, of_tile));
  };
  if (is_whole(config.algorithm)) {  // tiles of x are as those of y, and their steps are not planned
    r.shared_bytes = 8L * stages + kBytesToAlignBands + kChannelsOfBands * bytes_of_plane(tile, rows) +
                     kChannelsOfBands * 2L * stages * tile.images * tile.rows * tile.columns;
  } else {
    r.shared_bytes = kPlanBytes + kGateBytes * stages + kBytesToAlignBands;
    take(rows, pitch);
  }
  if (weight) {
    take(tile.rows, tile.columns);
    r.accumulators = kChannelsOfBands / warps * taps * 4 + rows_of_x + 4;
    r.part_bytes = 4L * kChannelsOfBands * taps * taps;
  } else {
    r.shared_bytes += kChannelsOfBands * taps * 96L;
    r.accumulators = 2 * (8 + rows_of_x + 2 * taps);  // of two channels
  }
  r.launch_registers = std::min(255, kRegistersOfGroupedSm / (r.threads * r.blocks_per_sm) / 8 * 8);
  return r;
}

CudaConvResources mapped_resources(const KernelConfig& config) {
  const CudaGroupedTile tile = cuda_grouped_tile(config.algorithm);
  CudaConvResources r;
  r.threads = 32 * config.algorithm.wave[0];
  r.blocks_per_sm = std::max<int>(config.algorithm.block_per_cu, 1);
  r.aligned = r.pairs = true;
  const auto bytes = [&](long rows, long columns) {
    return (tile.images * rows * columns * kBytesOfPixel + kMappedAlignment - 1) / kMappedAlignment * kMappedAlignment;
  };
  long weights = 0;
  long stage = bytes((tile.rows - 1L) * tile.pace + tile.taps, (tile.columns - 1L) * tile.pace + tile.taps);
  if (adds_filters(std::get<ConvSignature>(config.signature))) {
    stage += bytes(tile.rows, tile.columns);
    r.accumulators = 2 * 4 * products_of_octet(tile);
    r.part_bytes = 4L * r.accumulators * kThreadsOfTeam * std::max(tile.channels / 16, 1);
  } else {  // a strip's sums, and the words of a column of taps and a sixteen of channels
    const int words = tile.channels >= 16 ? 4 : 2;
    r.accumulators = tile.rows / 2 * 8 * (tile.in_phases ? kPhases : 1) + kTapsOfMapped * words;
    weights = kTapsOfMapped * kTapsOfMapped * words * 4L * kThreadsOfTeam * std::max(tile.channels / 16, 1);
  }
  r.shared_bytes = std::max(config.algorithm.stages * stage, r.part_bytes) + weights +
                   kGateBytes * config.algorithm.stages + kPlanBytes + kMappedAlignment;
  if (r.threads > 0) r.launch_registers = std::min(255, kRegistersOfGroupedSm / (r.threads * r.blocks_per_sm) / 8 * 8);
  return r;
}

CudaConvResources grouped_resources(const KernelConfig& config) {
  if (is_banded(config.algorithm)) return banded_resources(config);
  if (is_mapped(config.algorithm)) return mapped_resources(config);
  const CudaGroupedTile tile = cuda_grouped_tile(config.algorithm);
  CudaConvResources r;
  r.threads = 32 * config.algorithm.wave[0];
  r.blocks_per_sm = std::max<int>(config.algorithm.block_per_cu, 1);
  r.aligned = r.pairs = true;
  r.shared_bytes = TS_MMA_SM80_SHARED_BYTES;  // what every chip has; a launch asks for what its problem needs
  if (adds_filters(std::get<ConvSignature>(config.signature))) {
    r.accumulators = 2 * 4 * products_of_octet(tile);
    r.part_bytes = 4L * r.accumulators * kThreadsOfTeam;
  } else {
    r.accumulators = sixteens_of_warp(config.algorithm) * 8;
  }
  if (r.threads > 0) r.launch_registers = std::min(255, kRegistersOfGroupedSm / (r.threads * r.blocks_per_sm) / 8 * 8);
  return r;
}

/// Of a block. Registers bound how many bands share an SM; there are fewer where shared memory does.
long shared_limit(const KernelConfig& config, const CudaSpec& spec) {
  if (is_banded(config.algorithm)) return spec.shared_bytes_per_block;
  const long share = spec.shared_bytes_per_sm / grouped_resources(config).blocks_per_sm - spec.shared_bytes_reserved;
  return std::min<long>(spec.shared_bytes_per_block, share);
}

int grouped_registers(const KernelConfig& config, const CudaSpec& spec) {
  const int sums = grouped_resources(config).accumulators;
  if (is_banded(config.algorithm))
    return sums + (adds_filters(std::get<ConvSignature>(config.signature)) ? kRegistersOfDiagonals : kRegistersOfBands);
  if (is_mapped(config.algorithm)) {
    const auto& s = std::get<ConvSignature>(config.signature);
    if (adds_filters(s)) {
      const int sixteens = config.algorithm.tile[0] == 16 ? sixteens_of_warp(config.algorithm) : 0;
      return sums + kRegistersOfMappedWeight + sixteens * kRegistersOfOwnSixteen;
    }
    const bool plain = s.epilogue_ops.empty() && bits_of(s.type_out) == 16;
    const bool more = config.algorithm.tile[0] < 16 || (s.direction == ConvDirection::backward_data && !plain);
    const bool in_phases = plain && cuda_grouped_tile(config.algorithm).in_phases;
    return sums + kRegistersOfMapped + (more ? (in_phases ? kRegistersOfPhases : kRegistersOfPairs) : 0) +
           (config.algorithm.tile[0] > 16 ? kRegistersOfSixteens : 0);
  }
  if (adds_filters(std::get<ConvSignature>(config.signature)))
    return sums + kRegistersOfProducts + products_of_octet(cuda_grouped_tile(config.algorithm));
  const bool more = config.algorithm.tile[0] <= 4 && spec.major == 8 && spec.minor == 0;
  return sums + kRegistersOfTap + kRegistersOfSixteen * sixteens_of_warp(config.algorithm) +
         (more ? kRegistersOfSmallGroupsSm80 : 0);
}

std::span<const int> channels_of_groups(bool mapped) {
  if (mapped) return kMappedChannels;
  return kGroupChannels;
}

std::vector<Algorithm> grouped_algorithms(const ConvSignature& s, const CudaGemmTile& row) {
  std::vector<Algorithm> out;
  // A row of the table is for backward weight where it is cut into runs, square tiles are for groups of one, and
  // where a tile is a box, it comes through a map.
  const bool mapped = row.tma_boxes > 0, banded = row.tile_m == row.tile_n && !mapped;
  if (s.depthwise != banded || adds_filters(s) != (row.splits > 1)) return out;
  const auto add = [&](int channels, int second, int taps_of_mapped = kTapsOfMapped) {
    out.push_back({.pipeline = Pipeline::grouped,
                   .instruction = Instruction::mma_sync,
                   .tile = {static_cast<std::uint16_t>(channels), static_cast<std::uint16_t>(second),
                            static_cast<std::uint16_t>(mapped ? taps_of_mapped : 0)},
                   .wave = {static_cast<std::uint16_t>(row.wave.front())},
                   .stages = static_cast<std::uint8_t>(row.stages),
                   .block_per_cu = static_cast<std::int16_t>(row.blocks_per_sm),
                   .cluster = {static_cast<std::uint8_t>(row.cluster_m), static_cast<std::uint8_t>(row.cluster_n)},
                   .split_k = adds_filters(s),
                   .subtile = {static_cast<std::uint8_t>(row.tile_m), static_cast<std::uint8_t>(row.tile_n)}});
  };
  if (banded) {
    for (const int taps : kTapsOfBands) add(1, taps);
    return out;
  }
  const bool data = s.direction == ConvDirection::backward_data;
  // Clusters of wide tiles are for groups of at most four channels with a stride, whose pixels bound: a block has its
  // SM alone. Products of more channels take less time by two, and without a stride tiles of eight columns are as fast.
  // (32 groups on 56x56, 64 images, two and alone: of 4 channels 24.9 and 22.4 us, of 8 39.3 and 41.6; of 16 on
  // 28x28 28.6 and 35.5; H200.)
  constexpr int kColumnsOfImages = 8, kMostOfWideClusters = 4;
  const bool wide_clusters = row.cluster_m > 1 && row.tile_n > kColumnsOfImages;
  for (const int channels : channels_of_groups(mapped)) {
    for (const int pace : kGroupedPaces) {
      if (pace > 1 && data) continue;
      if (wide_clusters && (channels > kMostOfWideClusters || pace == 1)) continue;
      add(channels, pace);
    }
    if (mapped && data) add(channels, 1, kTapsOfPhases);
  }
  return out;
}

constexpr CudaConvRule kGroupedRules[] = {
    {"groups_are_octets",
     "16-bit tensors in groups of 2, 4, 8 or 16 channels to as many (through maps also 32), of pixels 1 or 2 apart "
     "(backward data 1), or of one to one in bands of 3, 5 or 7 taps; through maps of 3 x 3 taps, in backward data "
     "also "
     "the 2 x 2 that meet a pixel in phases; sizes, filters and strides are run-time numbers",
     [](const CudaConvSubject& s) {
       const CudaGroupedTile t = cuda_grouped_tile(s.algorithm());
       const ConvDirection direction = s.signature().direction;
       if (bits_of(s.signature().data_type) != 16 || s.signature().spatial_dims != 3 ||
           s.signature().depthwise != is_banded(s.algorithm()))
         return false;
       if (is_banded(s.algorithm()))
         return !is_mapped(s.algorithm()) && std::ranges::find(kTapsOfBands, t.taps) != kTapsOfBands.end();
       if (is_mapped(s.algorithm()) && t.taps != kTapsOfMapped &&
           !(t.in_phases && direction == ConvDirection::backward_data))
         return false;
       const std::span<const int> channels = channels_of_groups(is_mapped(s.algorithm()));
       return std::ranges::find(channels, t.channels) != channels.end() &&
              (t.pace == 1 || (t.pace == 2 && direction != ConvDirection::backward_data));
     },
     [](const CudaConvSubject& s) {
       const CudaGroupedTile t = cuda_grouped_tile(s.algorithm());
       return fmt::format("{} of {}, {} dimensions, groups of {}, {} apart", name_of(s.signature().direction),
                          name_of(s.signature().data_type), s.signature().spatial_dims, t.channels, t.pace);
     }},
    {"results_are_sixteens",
     "a block has a multiple of 4 warps, and a tile 16 results for each four, or a multiple; with bands 16 x 16 for 4 "
     "warps, backward weight 8, or 8 x 8 of four images for 8; through maps an even number of rows, and eight columns "
     "for "
     "each four warps",
     [](const CudaConvSubject& s) {
       const CudaGroupedTile t = cuda_grouped_tile(s.algorithm());
       const int warps = s.algorithm().wave[0];
       if (is_banded(s.algorithm())) {
         const bool small = t.images > 1;
         const int of_octet = small || adds_filters(s.signature()) ? 2 : 1;
         return t.rows == (small ? kSideOfSmall : kSideOfBands) && t.columns == t.rows &&
                warps == of_octet * kOctetsOfBands;
       }
       if (warps < 4 || warps > 32 || warps % 4 != 0 || t.rows < 1 || t.columns < 1) return false;
       if (is_mapped(s.algorithm())) return strips_are_whole(t, warps / 4, adds_filters(s.signature()));
       return t.rows * t.columns % (16 * (warps / 4)) == 0;
     },
     [](const CudaConvSubject& s) {
       const CudaGroupedTile t = cuda_grouped_tile(s.algorithm());
       return fmt::format("{} warps, {} x {} results", s.algorithm().wave[0], t.rows, t.columns);
     }},
    {"bands_leave_results", "with bands results are of the tensors' type, and no epilogue reads tensors",
     [](const CudaConvSubject& s) { return !is_banded(s.algorithm()) || bands_leave(s.signature()); },
     [](const CudaConvSubject& s) {
       return fmt::format("{} to {}, {} operations", name_of(s.signature().data_type), name_of(s.signature().type_out),
                          s.signature().epilogue_ops.size());
     }},
    {"fields_belong_to_pipeline",
     "warps, two stages or more (with bands one or two), and blocks that share an SM are its only options; backward "
     "weight is cut into runs, of whole images in bands and through maps up to 8 of a cluster",
     [](const CudaConvSubject& s) {
       const Algorithm& a = s.algorithm();
       Algorithm rest{.pipeline = a.pipeline, .instruction = a.instruction, .split_k = adds_filters(s.signature())};
       std::copy_n(a.tile.begin(), 3, rest.tile.begin());
       rest.wave[0] = a.wave[0];
       rest.stages = a.stages;
       rest.block_per_cu = a.block_per_cu;
       rest.subtile = a.subtile;
       rest.cluster = a.cluster;
       if (a.cluster != Algorithm{}.cluster &&
           ((is_banded(a) ? cuda_grouped_tile(a).images == 1 : !is_mapped(a)) || !adds_filters(s.signature()) ||
            a.cluster[0] > kMostRunsOfCluster || a.cluster[1] > 1))
         return false;
       if (is_mapped(a) && a.stages > kMostMappedStages) return false;
       return (is_banded(a) ? a.stages >= 1 && a.stages <= 2 : a.stages >= 2) && a.block_per_cu >= 1 && rest == a;
     },
     [](const CudaConvSubject& s) {
       const Algorithm& a = s.algorithm();
       return fmt::format("stages {}, blocks {}, vector {}, runs {}, cluster {}x{}", a.stages, a.block_per_cu,
                          a.vector[0], a.split_k, a.cluster[0], a.cluster[1]);
     }},
    {"tiles_fit", "what a block brings through maps fits shared memory; without bands, with its neighbours' on the SM",
     [](const CudaConvSubject& s) {
       return !(is_banded(s.algorithm()) || is_mapped(s.algorithm())) ||
              grouped_resources(s.config).shared_bytes <= shared_limit(s.config, s.spec);
     },
     [](const CudaConvSubject& s) {
       return fmt::format("{} of {} bytes", grouped_resources(s.config).shared_bytes, shared_limit(s.config, s.spec));
     }},
    {"registers_hold_sums", "sums, and the places of a warp's pixels, stay in registers",
     [](const CudaConvSubject& s) {
       const CudaConvResources r = grouped_resources(s.config);
       return grouped_registers(s.config, s.spec) <= r.launch_registers;
     },
     [](const CudaConvSubject& s) {
       const CudaConvResources r = grouped_resources(s.config);
       return fmt::format("about {} of {}", grouped_registers(s.config, s.spec), r.launch_registers);
     }},
};

}  // namespace

bool is_mapped(const Algorithm& a) {
  if (a.pipeline == Pipeline::depthwise) return a.split_k ? a.cluster[0] > 1 : a.tile[0] > 0;
  return a.pipeline == Pipeline::grouped && a.tile[2] > 0;
}

bool is_banded(const Algorithm& a) {
  return a.pipeline == Pipeline::grouped && a.tile[0] == 1;
}

bool is_whole(const Algorithm& a) {
  return is_banded(a) && a.cluster[0] > 1;
}

std::span<const int> cuda_banded_taps() {
  return kTapsOfBands;
}

CudaGroupedTile cuda_grouped_tile(const Algorithm& a) {
  if (is_banded(a))
    return {.rows = a.subtile[0],
            .columns = a.subtile[1],
            .channels = 1,
            .pace = 1,
            .tap_rows = a.tile[1],
            .taps = a.tile[1],
            .images = a.subtile[0] == kSideOfSmall ? 4 : 1};
  const int taps = a.split_k ? kTapsOfGroupedPart : a.tile[2];
  return {.rows = a.subtile[0],
          .columns = a.subtile[1],
          .channels = a.tile[0],
          .pace = a.tile[1],
          .tap_rows = taps,
          .taps = taps,
          .images = is_mapped(a) && a.split_k && a.subtile[1] == kColumnsOfTwoImages ? 2 : 1,
          .in_phases = taps == kTapsOfPhases};
}

const CudaConvPipeline& cuda_conv_grouped() {
  static const CudaConvPipeline pipeline{kGroupedRules, grouped_resources, grouped_algorithms};
  return pipeline;
}

}  // namespace tilesmith
