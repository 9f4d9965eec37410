// Products of tensor cores on Hopper: kernels/cuda/conv/hopper.
#include <fmt/format.h>

#include <algorithm>

#include "instances/conv/cuda_pipelines.hpp"
#include "instances/conv/cuda_window.hpp"
#include "instances/gemm/cuda.hpp"
#include "instances/gemm/cuda_resources.hpp"
#include "instances/gemm/cuda_rows.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

constexpr long kMostWindowStages = 12;

CudaConvResources window_resources(const KernelConfig& config) {
  const CudaGemmResources gemm = cuda_gemm_resources(gemm_of_window(config));
  return {.threads = gemm.threads,
          .shared_bytes = gemm.shared_bytes,
          .blocks_per_sm = gemm.blocks_per_sm,
          .accumulators = gemm.accumulators,
          .launch_registers = gemm.launch_registers,
          .stage_k = gemm.stage_k,
          .aligned = true,
          .pairs = gemm.pairs,
          .part_bytes = gemm.part_bytes};
}

/// Elements of 128 bytes, which are a step.
int step_elements(const ConvSignature& s) {
  return 1024 / std::max(bits_of(s.data_type), 1);
}

const CudaGemmRule* refusal_of_product(const CudaConvSubject& s) {
  const KernelConfig gemm = gemm_of_window(s.config);
  return first_refusal(cuda_gemm_rules(), CudaGemmSubject{gemm, s.spec});
}

/// Whether steps may have some taps. In backward weight slabs would have 64 columns of one tap, which a second launch
/// needs not; other sums that are split spilled 8 bytes in three dimensions (ptxas 13.0). Slabs lie in no part of a
/// stage that has rows of several taps.
bool may_share_steps(const ConvSignature& s, const Algorithm& a, const CudaGemmResources& facts) {
  constexpr int kMostBlocks = 8;  // of a tile's columns: places and taps of 16 took 4 to 12 bytes more than there are
  const bool weight = s.direction == ConvDirection::backward_weight;
  return bits_of(s.data_type) == 16 && a.split_k == weight &&
         (!weight || a.tile[1] * window_step_taps(a) <= 64 * kMostBlocks) && !facts.slabs_in_ring;
}

std::vector<Algorithm> window_algorithms(const ConvSignature& s, const CudaGemmTile& row) {
  const int out_bytes = std::max(bits_of(s.type_out) / 8, 1);
  std::vector<Algorithm> out;
  // A row of the table is for backward weight where blocks share tiles, or a sum has more parts than one block adds.
  constexpr int kMostAddedByOne = 16;
  const bool weight = row.stream_k || row.splits > kMostAddedByOne;
  if (weight != (s.direction == ConvDirection::backward_weight)) return out;
  if (row.splits > 1 && s.direction == ConvDirection::backward_data) return out;
  Algorithm a{.pipeline = Pipeline::warp_specialized,
              .instruction = Instruction::wgmma,
              .tile = {static_cast<std::uint16_t>(row.tile_m), static_cast<std::uint16_t>(row.tile_n),
                       static_cast<std::uint16_t>(step_elements(s))},
              .block_per_cu = static_cast<std::int16_t>(row.blocks_per_sm),
              .cluster = {static_cast<std::uint8_t>(row.cluster_m), static_cast<std::uint8_t>(row.cluster_n)},
              .split_k = row.splits > 1,
              .stream_k = row.stream_k,
              .ping_pong = row.ping_pong,
              .transpose_c = row.transpose_c};
  for (std::size_t i = 0; i < row.wave.size(); ++i) a.wave[i] = static_cast<std::uint16_t>(row.wave[i]);
  for (const int written : {16 / out_bytes, 2, 1}) {
    if (written != 16 / out_bytes && (s.direction != ConvDirection::forward || row.transpose_c)) continue;
    const auto read = static_cast<std::uint8_t>(step_elements(s) / 8);
    a.vector = {read, read, static_cast<std::uint8_t>(written)};
    // As many stages as fit, which have the tile's rows at least.
    constexpr long kSharedOfHopper = 232448;  // what a block may have there
    const long shared = kSharedOfHopper / a.block_per_cu, rows_bytes = 128L * (a.tile[0] + a.tile[1]);
    KernelConfig gemm = gemm_of_window({.arch = {}, .signature = s, .algorithm = a});
    CudaGemmResources facts;
    for (a.stages = static_cast<std::uint8_t>(std::clamp(shared / rows_bytes, 2L, kMostWindowStages));; --a.stages) {
      gemm.algorithm.stages = a.stages;
      facts = cuda_gemm_resources(gemm);
      if (a.stages == 2 || facts.shared_bytes <= shared) break;
    }
    for (const int taps : {1, 2, 4}) {
      a.tile[3] = static_cast<std::uint16_t>(taps > 1 ? taps : 0);
      if (taps == 1 || may_share_steps(s, a, facts)) out.push_back(a);
    }
  }
  return out;
}

constexpr CudaConvRule kWindowRules[] = {
    {"window_is_carried", "tensors of 16 bits, forward also of 8, with the image's dimensions fixed",
     [](const CudaConvSubject& s) {
       const ConvSignature& g = s.signature();
       const int bits = bits_of(g.data_type);
       return (bits == 16 || (bits == 8 && g.direction == ConvDirection::forward)) && !g.depthwise;
     },
     [](const CudaConvSubject& s) {
       return fmt::format("{}, {} dimensions, depthwise {}", name_of(s.signature().data_type),
                          s.signature().spatial_dims, s.signature().depthwise);
     }},
    {"copies_are_whole",
     "a step is 128 bytes of channels of one tap, or 64 pixels and blocks of 64 channels; a block copies it for "
     "itself, "
     "where a sum of backward weight is split whole blocks for its cluster, and tiles lie as they are",
     [](const CudaConvSubject& s) {
       const Algorithm& a = s.algorithm();
       const bool weight = s.signature().direction == ConvDirection::backward_weight;
       if (a.cluster[0] < 1 || a.cluster[1] < 1) return false;
       const bool alone = a.cluster[0] == 1 && a.cluster[1] == 1;
       const bool blocks = !weight || (a.tile[0] % (64 * a.cluster[1]) == 0 && a.tile[1] % (64 * a.cluster[0]) == 0);
       return a.tile[2] == step_elements(s.signature()) && blocks && (alone || (weight && a.split_k)) &&
              !a.split_k_atomic;
     },
     [](const CudaConvSubject& s) {
       const Algorithm& a = s.algorithm();
       return fmt::format("tile {}x{}x{}, cluster {}x{}", a.tile[0], a.tile[1], a.tile[2], a.cluster[0], a.cluster[1]);
     }},
    {"taps_share_steps",
     "a step has one tap, or two or four with equal shares of 64 channels of 16 bits, where slabs have a place of "
     "their own, and sums are split in backward weight alone",
     [](const CudaConvSubject& s) {
       const int taps = s.algorithm().tile[3];
       return taps == 0 || ((taps == 2 || taps == 4) && may_share_steps(s.signature(), s.algorithm(),
                                                                        cuda_gemm_resources(gemm_of_window(s.config))));
     },
     [](const CudaConvSubject& s) {
       return fmt::format("{} taps of {}, split_k {}", window_step_taps(s.algorithm()),
                          name_of(s.signature().data_type), s.algorithm().split_k);
     }},
    {"turned_tiles_leave_as_boxes",
     "tiles that are computed transposed are forward's and backward data's, of 16 bits to 16 bits, written 16 bytes at "
     "a time",
     [](const CudaConvSubject& s) {
       const ConvSignature& g = s.signature();
       return !s.algorithm().transpose_c ||
              (g.direction != ConvDirection::backward_weight && bits_of(g.data_type) == 16 &&
               bits_of(g.type_out) == 16 && s.algorithm().vector[2] == 8);
     },
     [](const CudaConvSubject& s) {
       return fmt::format("{}: {} to {}, {} elements, transpose_c {}", name_of(s.signature().direction),
                          name_of(s.signature().data_type), name_of(s.signature().type_out), s.algorithm().vector[2],
                          s.algorithm().transpose_c);
     }},
    {"gradients_leave_as_boxes",
     "gradients are written 16 bytes at a time; blocks share the tiles of backward weight (stream_k), or its sums are "
     "split, as forward's may be",
     [](const CudaConvSubject& s) {
       const Algorithm& a = s.algorithm();
       const ConvDirection direction = s.signature().direction;
       if (direction == ConvDirection::forward) return !a.stream_k;
       if ((a.stream_k || a.split_k) != (direction == ConvDirection::backward_weight)) return false;
       return a.vector[2] * bits_of(s.signature().type_out) == 128;
     },
     [](const CudaConvSubject& s) {
       return fmt::format("{}: {} elements, stream_k {}, split_k {}", name_of(s.signature().direction),
                          s.algorithm().vector[2], s.algorithm().stream_k, s.algorithm().split_k);
     }},
    {"elements_leave_registers",
     "a warpgroup with a tile of its own writes pairs of elements, or more: single ones have an address and a test "
     "each, "
     "which spilled beside its sums; so did 16 to 20 bytes of tiles of 256x128, and 8 to 12 of parts of 128x128, "
     "beside "
     "a tensor that is added; so did 8 bytes of parts of 128x128 with 32-bit results that leave 16 bytes at a time, "
     "beside such a tensor or two vectors (ptxas 13.0)",
     [](const CudaConvSubject& s) {
       const Algorithm& a = s.algorithm();
       const bool full = (a.tile[0] == 256 || a.split_k) && a.tile[1] > 64;
       const bool adds = full && std::ranges::any_of(s.signature().epilogue_ops, reads_tensor);
       const bool two_vectors = full && std::ranges::count_if(s.signature().epilogue_ops, reads_vector) > 1;
       if ((adds || two_vectors) && a.split_k && a.vector[2] == 4) return false;  // of 32 bits
       return a.vector[2] > 1 || (!a.ping_pong && !adds);
     },
     [](const CudaConvSubject& s) {
       return fmt::format("pingpong {}, {} elements, tile {}x{}, split_k {}", s.algorithm().ping_pong,
                          s.algorithm().vector[2], s.algorithm().tile[0], s.algorithm().tile[1], s.algorithm().split_k);
     }},
    {"parts_leave_registers",
     "parts of 8-bit products have tiles of at most 128 x 64: beside 64 sums 44 to 108 bytes went to memory; and "
     "where blocks share tiles of 256 columns, results have 16 bits: with 32 it was 8 bytes (ptxas 13.0)",
     [](const CudaConvSubject& s) {
       const Algorithm& a = s.algorithm();
       if (a.stream_k && a.tile[1] >= 256 && bits_of(s.signature().type_out) > 16) return false;
       return !a.split_k || bits_of(s.signature().data_type) > 8 || a.tile[0] * a.tile[1] <= 128 * 64;
     },
     [](const CudaConvSubject& s) {
       return fmt::format("split_k {}, stream_k {}, {} to {}, tile {}x{}", s.algorithm().split_k,
                          s.algorithm().stream_k, name_of(s.signature().data_type), name_of(s.signature().type_out),
                          s.algorithm().tile[0], s.algorithm().tile[1]);
     }},
    {"product_is_carried", "what GEMM's rules ask of the same tile (tilesmith explain names them)",
     [](const CudaConvSubject& s) { return refusal_of_product(s) == nullptr; },
     [](const CudaConvSubject& s) {
       const CudaGemmRule* refused = refusal_of_product(s);
       if (refused == nullptr) return std::string("all hold");
       const KernelConfig gemm = gemm_of_window(s.config);
       return fmt::format("{}: {}", refused->name, refused->figures(CudaGemmSubject{gemm, s.spec}));
     }},
};

}  // namespace

KernelConfig gemm_of_window(const KernelConfig& conv) {
  const auto& s = std::get<ConvSignature>(conv.signature);
  GemmSignature g;
  g.a = g.b = s.data_type;
  g.c = g.aux = s.type_out;
  g.accumulator = s.accumulator;
  g.bias = s.type_bias;
  g.layout_a = s.direction == ConvDirection::backward_weight ? MatrixOrder::column : MatrixOrder::row;
  g.layout_b = s.direction == ConvDirection::forward ? MatrixOrder::column : MatrixOrder::row;
  g.epilogue_ops = s.epilogue_ops;
  KernelConfig out{.arch = conv.arch, .signature = g, .algorithm = conv.algorithm};
  out.algorithm.tile[3] = 0;
  return out;
}

int window_step_taps(const Algorithm& algorithm) {
  return std::max<int>(algorithm.tile[3], 1);
}

const CudaConvPipeline& cuda_conv_warp_specialized() {
  static const CudaConvPipeline pipeline{kWindowRules, window_resources, window_algorithms, true};
  return pipeline;
}

}  // namespace tilesmith
