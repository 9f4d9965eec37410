#include "choose/gemm/cuda_space.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include "choose/gemm/cuda_work.hpp"
#include "instances/gemm/cuda.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

constexpr int kLeastSide = 16, kMostSide = 256, kMostStages = 12;
constexpr int kBlocks[] = {1, 2, 3, 4};  // of an SM; more than two of small tiles alone
constexpr int kSmallTile = 64 * 64;
// Of k: none, by parts, by parts in any order, stream-K, clusters of 2 to 8, parts by such clusters.
constexpr int kFirstCluster = 4, kClusters = 7, kSharings = kFirstCluster + 2 * kClusters;

/// Whether a side is worth trying for a size: not the double of a side that holds all of it.
bool is_clamped(int side, int least, std::int64_t size) {
  return side <= least || side / 2 < size;
}

struct Space {
  const CudaSpec& spec;
  const CudaGemmShape* shape;
  ConfigSink sink;
  bool wanted = true;

  [[nodiscard]] bool passes(CudaGemmRules rules, const KernelConfig& config) const {
    return first_refusal(rules, CudaGemmSubject{config, spec}) == nullptr;
  }

  /// Whether sharing k changes anything for the shape, whatever widths and stages are.
  [[nodiscard]] bool shares_if_asked(const KernelConfig& config) const {
    const Algorithm& a = config.algorithm;
    return shape == nullptr || (!a.split_k && !a.stream_k) ||
           cuda_gemm_shares(config, cuda_gemm_work(config, spec, *shape));
  }

  /// Everything beside the tile. What the tile's rules refuse at its least, one block without a cluster and parts of k,
  /// they refuse; they are asked once for all widths and stages.
  void vary(KernelConfig config, std::span<const CudaGemmWidths> widths) {
    Algorithm& a = config.algorithm;
    a.block_per_cu = 1;
    a.stages = kFewestStages;
    if (!passes(cuda_gemm_tile_rules(), config)) return;
    const bool is_small = a.pipeline == Pipeline::mma_sm80 && a.tile[0] * a.tile[1] <= kSmallTile;
    for (const int blocks : is_small ? std::span(kBlocks) : std::span(kBlocks).first(2))
      for (const auto& [m, n] : {std::pair{1, 1}, std::pair{2, 1}, std::pair{1, 2}, std::pair{2, 2}})
        for (int shared = 0; shared < kSharings; ++shared) {
          a.block_per_cu = static_cast<std::int16_t>(blocks);
          a.cluster = {static_cast<std::uint8_t>(m), static_cast<std::uint8_t>(n)};
          const bool in_clusters = shared >= kFirstCluster, parts = shared >= kFirstCluster + kClusters;
          a.split_k = shared == 1 || shared == 2 || parts;
          a.split_k_atomic = shared == 2;
          a.stream_k = shared == 3;
          a.cluster_k = static_cast<std::uint8_t>(in_clusters ? 2 + (shared - kFirstCluster) % kClusters : 1);
          a.stages = kFewestStages;
          a.vector = widths.front();
          if (!passes(cuda_gemm_tile_rules(), config) || !shares_if_asked(config)) continue;
          for (const CudaGemmWidths& width : widths) {
            a.vector = width;
            if (shape != nullptr && !cuda_gemm_suits(config, *shape)) continue;
            if (!give_stages(config, spec, kMostStages)) continue;
            const int most = a.stages;
            for (int stages = kFewestStages; wanted && stages <= most; ++stages) {
              a.stages = static_cast<std::uint8_t>(stages);
              wanted = sink(config);
            }
          }
        }
  }

  /// By the pipeline's instruction, and by those that tiles of its table have instead.
  void walk(const CudaGemmPipeline& pipeline, const GemmSignature& signature) {
    std::vector<Instruction> instructions{pipeline.instruction};
    for (const CudaGemmTile& row : pipeline.tiles)
      if (row.instruction && std::ranges::find(instructions, *row.instruction) == instructions.end())
        instructions.push_back(*row.instruction);
    for (const Instruction instruction : instructions) walk(pipeline, instruction, signature);
  }

  void walk(const CudaGemmPipeline& pipeline, Instruction instruction, const GemmSignature& signature) {
    const bool few = pipeline.pipeline == Pipeline::skinny_tma || pipeline.pipeline == Pipeline::skinny;
    const bool takes_turns = pipeline.pipeline == Pipeline::warp_specialized;
    const bool groups = takes_turns || pipeline.pipeline == Pipeline::weight_only;
    const int least_m = few ? 8 : takes_turns ? 32 : kLeastSide;
    const int most_m = pipeline.pipeline == Pipeline::skinny_tma ? 64 : few ? 16 : kMostSide;
    const int stage_bytes = groups || pipeline.pipeline == Pipeline::skinny_tma ? 128 : 64;
    const int least_k = 8 * stage_bytes / bits_of(pipeline.pipeline == Pipeline::skinny ? signature.b : signature.a);
    const CudaGemmShape any{kMostSide, kMostSide, kMostSide};
    const CudaGemmShape& size = shape != nullptr ? *shape : any;
    KernelConfig config{.arch = spec.arch, .signature = signature, .algorithm = {}};
    Algorithm& a = config.algorithm;
    a.pipeline = pipeline.pipeline;
    a.instruction = instruction;
    if (!passes(cuda_gemm_signature_rules(), config)) return;
    const std::vector<CudaGemmWidths> widths = cuda_gemm_widths(signature, pipeline.pipeline);
    const auto with = [&](int x, int y, int z, bool ping_pong, bool transpose_c = false) {
      a.wave = {static_cast<std::uint16_t>(x), static_cast<std::uint16_t>(y), static_cast<std::uint16_t>(z)};
      a.ping_pong = ping_pong;
      a.transpose_c = transpose_c;
      if (wanted) vary(config, widths);
    };
    for (int m = least_m; m <= most_m && is_clamped(m, least_m, size.m); m *= 2)
      for (int n = kLeastSide; n <= kMostSide && is_clamped(n, kLeastSide, size.n); n *= 2)
        for (int k = least_k; k <= kMostSide && is_clamped(k, least_k, size.k); k *= 2) {
          a.tile = {static_cast<std::uint16_t>(m), static_cast<std::uint16_t>(n), static_cast<std::uint16_t>(k)};
          if (few)
            for (const int warps : {4, 8, 16}) with(1, 1, warps, false);
          else if (groups)
            for (const int count : {1, 2, 3}) with(count, 0, 0, false);
          else
            for (int along_m = 1; along_m <= 8; along_m *= 2)
              for (int along_n = 1; along_n <= 8; along_n *= 2) with(along_m, along_n, 0, false);
          if (takes_turns) {
            with(2, 0, 0, true);
            for (const int count : {1, 2, 3}) with(count, 0, 0, false, true);
            with(2, 0, 0, true, true);
          }
        }
  }
};

}  // namespace

void exhaustive_cuda_gemm(const CudaSpec& spec, const GemmSignature& signature, const CudaGemmShape* shape,
                          ConfigSink sink) {
  Space space{.spec = spec, .shape = shape, .sink = sink};
  for (const CudaGemmPipeline& pipeline : spec.gemm.pipelines) space.walk(pipeline, signature);
}

}  // namespace tilesmith
