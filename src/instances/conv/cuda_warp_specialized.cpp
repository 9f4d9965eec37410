// Forward and backward data on Hopper: kernels/cuda/conv/hopper/conv.cuh.
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

constexpr int kMostWindowStages = 12;

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

const CudaGemmRule* refusal_of_product(const CudaConvSubject& s) {
  const KernelConfig gemm = gemm_of_window(s.config);
  return first_refusal(cuda_gemm_rules(), CudaGemmSubject{gemm, s.spec});
}

std::vector<Algorithm> window_algorithms(const ConvSignature& s, const CudaGemmTile& row) {
  const int out_bytes = std::max(bits_of(s.type_out) / 8, 1);
  Algorithm a{.pipeline = Pipeline::warp_specialized,
              .instruction = Instruction::wgmma,
              .tile = {static_cast<std::uint16_t>(row.tile_m), static_cast<std::uint16_t>(row.tile_n), 64},
              .block_per_cu = static_cast<std::int16_t>(row.blocks_per_sm),
              .split_k = row.splits > 1,
              .ping_pong = row.ping_pong};
  for (std::size_t i = 0; i < row.wave.size(); ++i) a.wave[i] = static_cast<std::uint16_t>(row.wave[i]);
  std::vector<Algorithm> out;
  for (const int written : {16 / out_bytes, 2, 1}) {
    a.vector = {8, 8, static_cast<std::uint8_t>(written)};
    // As many stages as fit.
    for (a.stages = kMostWindowStages; a.stages > 2; --a.stages) {
      const KernelConfig config{.arch = {}, .signature = s, .algorithm = a};
      constexpr long kSharedOfHopper = 232448;  // what a block may have there
      if (cuda_gemm_resources(gemm_of_window(config)).shared_bytes <= kSharedOfHopper / a.block_per_cu) break;
    }
    out.push_back(a);
  }
  return out;
}

constexpr CudaConvRule kWindowRules[] = {
    {"window_is_carried", "forward and backward data of 16-bit tensors, with the image's dimensions fixed",
     [](const CudaConvSubject& s) {
       return s.signature().direction != ConvDirection::backward_weight && bits_of(s.signature().data_type) == 16 &&
              !s.signature().depthwise;
     },
     [](const CudaConvSubject& s) {
       return fmt::format("{} of {}, {} dimensions, depthwise {}", name_of(s.signature().direction),
                          name_of(s.signature().data_type), s.signature().spatial_dims, s.signature().depthwise);
     }},
    {"copies_are_whole", "a step is 64 channels of one tap, copied by one block for itself, and tiles lie as they are",
     [](const CudaConvSubject& s) {
       const Algorithm& a = s.algorithm();
       return a.tile[2] == 64 && a.cluster[0] == 1 && a.cluster[1] == 1 && !a.stream_k && !a.transpose_c &&
              !a.split_k_atomic;
     },
     [](const CudaConvSubject& s) {
       return fmt::format("depth {}, cluster {}x{}, stream_k {}, transpose_c {}", s.algorithm().tile[2],
                          s.algorithm().cluster[0], s.algorithm().cluster[1], s.algorithm().stream_k,
                          s.algorithm().transpose_c);
     }},
    {"elements_leave_registers",
     "a warpgroup with a tile of its own writes pairs of elements, or more: single ones have an address and a test "
     "each, "
     "which spilled beside its sums (ptxas 13.0)",
     [](const CudaConvSubject& s) { return !s.algorithm().ping_pong || s.algorithm().vector[2] > 1; },
     [](const CudaConvSubject& s) {
       return fmt::format("pingpong {}, {} elements", s.algorithm().ping_pong, s.algorithm().vector[2]);
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
  g.bias = s.type_bias;
  g.layout_b = s.direction == ConvDirection::forward ? MatrixOrder::column : MatrixOrder::row;
  g.epilogue_ops = s.epilogue_ops;
  return {.arch = conv.arch, .signature = g, .algorithm = conv.algorithm};
}

const CudaConvPipeline& cuda_conv_warp_specialized() {
  static const CudaConvPipeline pipeline{kWindowRules, window_resources, window_algorithms};
  return pipeline;
}

}  // namespace tilesmith
