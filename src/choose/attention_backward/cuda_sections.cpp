#include "choose/attention_backward/cuda_sections.hpp"

#include <algorithm>

#include "instances/attention_backward/cuda_resources.hpp"
#include "kernels/cuda/attention/backward/abi.h"

namespace tilesmith {
namespace {

constexpr std::int64_t kPassedRows = 64;  // of a tile, of keys and of queries
constexpr std::int64_t kPassedTileBytes = kPassedRows * kPassedRows * 2;

std::int64_t blocks_of(std::int64_t rows, std::int64_t size) {
  return (rows + size - 1) / size;
}

const CudaPassedGradients* figures_of(const CudaSpec& spec, const KernelConfig& products) {
  for (const CudaBackwardPipeline& one : spec.attention_bwd)
    if (one.pipeline == products.algorithm.pipeline && one.passed_gradients) return &*one.passed_gradients;
  return nullptr;
}

}  // namespace

std::int64_t even_section(std::int64_t wanted, std::int64_t heads) {
  const std::int64_t fit = std::clamp<std::int64_t>(wanted, 1, heads);
  const auto missing = [&](std::int64_t each) { return blocks_of(heads, each) * each - heads; };  // in the last section
  std::int64_t best = fit;
  for (std::int64_t each = blocks_of(2 * fit, 3); each <= std::min(4 * fit / 3, heads); ++each)
    if (missing(each) <= missing(best)) best = each;
  return best;
}

PassedGradients passed_gradients(const AttentionBackwardProblem& p, const KernelConfig& products,
                                 const CudaSpec& spec) {
  const CudaPassedGradients* const figures = figures_of(spec, products);
  if (figures == nullptr || !cuda_backward_resources(products).passes_score_gradients) return {};
  const std::int64_t heads = p.batch * p.heads_kv;
  if (heads == 0 || p.seqlen_q == 0 || p.seqlen_k == 0) return {};

  PassedGradients passed;
  passed.key_blocks = blocks_of(p.seqlen_k, kPassedRows);
  const std::int64_t width = even_section(blocks_of(figures->section_blocks, passed.key_blocks), heads);
  passed.sections = blocks_of(heads, width);
  const std::int64_t tiles_of_head = p.heads_q / p.heads_kv * passed.key_blocks * blocks_of(p.seqlen_q, kPassedRows);
  const std::int64_t places = std::min<std::int64_t>(passed.sections, TS_CUDA_BACKWARD_SECTIONS) * width;
  if (tiles_of_head > figures->most_bytes / kPassedTileBytes / places) return {};
  passed.section_heads = width;
  passed.tile_bytes = places * tiles_of_head * kPassedTileBytes;
  passed.counts = heads + passed.sections;
  passed.efficiency = figures->efficiency;
  return passed;
}

}  // namespace tilesmith
