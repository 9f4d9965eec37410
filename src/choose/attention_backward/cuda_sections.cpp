#include "choose/attention_backward/cuda_sections.hpp"

#include <algorithm>
#include <cmath>

#include "choose/attention_backward/cuda_walk_parts.hpp"
#include "choose/rounding.hpp"
#include "instances/attention_backward/cuda_resources.hpp"
#include "kernels/cuda/attention/backward/abi.h"
#include "problem/attention/problem.hpp"
#include "problem/attention_backward/problem.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kPassedRows = 64;  // of a tile, of keys and of queries
constexpr std::int64_t kPassedTileBytes = kPassedRows * kPassedRows * 2;

std::int64_t blocks_of(std::int64_t rows, std::int64_t size) {
  return (rows + size - 1) / size;
}

/// Whether items of dq end sooner by gradients of scores that items of keys pass than by their own: those have fewer
/// products, these need not wait until all keys of a section are done, and fill the SMs that have no keys. Blocks wait
/// for one another as long as for two launches (docs/log/2026-11-cuda-backward.md).
bool is_worth_passing(const AttentionBackwardProblem& p, const KernelConfig& products, const CudaSpec& spec,
                      double efficiency, std::int64_t sections) {
  constexpr double kLaunches = 2, kRows = kPassedRows, kQueries = 2 * kRows;  // of an item of dq
  const CudaReferenceChip& chip = spec.reference;
  const double pairs = static_cast<double>(p.batch * p.heads_q) * static_cast<double>(p.seqlen_q * p.seqlen_k);
  const double visible = visible_pairs(forward_of(p)) / pairs, sms = chip.sms;
  const double qk = ceil_div(static_cast<double>(p.head_dim_qk), 16.0) * 16;
  const double v = ceil_div(static_cast<double>(p.head_dim_v), 16.0) * 16;
  const double column = 2 * kRows * kRows / (chip.tflops_of(p.data_type) * 1e12 / sms * efficiency);  // seconds
  const auto parts = static_cast<double>(cuda_walk_parts(p, products, spec).all());
  const auto heads = static_cast<double>(p.batch * p.heads_q), heads_kv = static_cast<double>(p.batch * p.heads_kv);
  const double key_blocks = ceil_div(static_cast<double>(p.seqlen_k), kRows);
  const double key_items = heads_kv * key_blocks * parts;
  const double query_items = heads * ceil_div(static_cast<double>(p.seqlen_q), kQueries);
  // Of an item, and a step for its start and end.
  const double of_keys = (heads / heads_kv * ceil_div(static_cast<double>(p.seqlen_q), kRows) * visible / parts + 1) *
                         column * 2 * (qk + v);
  const double steps = key_blocks * visible + 1;
  const double of_passed = steps * column * 2 * qk, of_own = steps * column * 2 * (2 * qk + v);
  // Items of dq of a section before fill SMs that have no keys of the next.
  const auto rounds = [&](double items) { return sections > 1 ? items / sms : std::ceil(items / sms); };
  const double passing =
      rounds(key_items) * of_keys + rounds(query_items) * of_passed + kLaunches * chip.launch_us * 1e-6;
  const double own = std::max({(key_items * of_keys + query_items * of_own) / sms, of_keys, of_own});
  return passing < own;
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
  if (!is_worth_passing(p, products, spec, figures->efficiency, passed.sections))
    return {.efficiency = figures->efficiency};
  passed.section_heads = width;
  passed.tile_bytes = places * tiles_of_head * kPassedTileBytes;
  passed.counts = heads + passed.sections;
  passed.efficiency = figures->efficiency;
  return passed;
}

}  // namespace tilesmith
