#include "choose/attention_backward/cuda_walk_parts.hpp"

#include <algorithm>

#include "choose/attention_backward/cuda_single_block.hpp"
#include "choose/rounding.hpp"
#include "instances/attention_backward/cuda_resources.hpp"
#include "kernels/cuda/attention/backward/abi.h"
#include "problem/attention/problem.hpp"
#include "problem/attention_backward/problem.hpp"

namespace tilesmith {
namespace {

/// Of a block of keys, in the mean over the blocks.
std::int64_t tiles_of_walk(const AttentionBackwardProblem& p, std::int64_t tile_queries) {
  const double pairs =
      static_cast<double>(p.batch * p.heads_q) * static_cast<double>(p.seqlen_q) * static_cast<double>(p.seqlen_k);
  const double visible = pairs > 0 ? visible_pairs(forward_of(p)) / pairs : 1;
  return static_cast<std::int64_t>(visible * static_cast<double>(ceil_div(p.seqlen_q, tile_queries)) + 0.5);
}

}  // namespace

double backward_step_flops(const AttentionBackwardProblem& p, double tile, double keys) {
  const double depth = 3 * ceil_div(static_cast<double>(p.head_dim_qk), 16.0) * 16 +
                       2 * ceil_div(static_cast<double>(p.head_dim_v), 16.0) * 16;
  return 2 * tile * keys * depth;
}

double walk_part_bytes(const AttentionBackwardProblem& p, double keys) {
  return 2.0 * 4 * keys * static_cast<double>(p.head_dim_qk + p.head_dim_v);
}

CudaWalkParts cuda_walk_parts(const AttentionBackwardProblem& p, const KernelConfig& products, const CudaSpec& spec) {
  const CudaBackwardResources facts = cuda_backward_resources(products);
  // Slopes' gradients are summed head by head and block by block.
  if (products.algorithm.pipeline == Pipeline::mma_sm80 || p.dalibi) return {};
  const bool adds = facts.sum_columns > 0;  // else items of keys have half as many, or one of their gradients
  const std::int64_t block = adds ? TS_CUDA_BACKWARD_ROWS : facts.box_keys;
  const std::int64_t queries = adds ? facts.tile_queries : facts.box_queries;
  const std::int64_t items = p.batch * p.heads_kv * ceil_div(p.seqlen_k, block);
  if (items == 0 || p.seqlen_q == 0) return {};
  const std::int64_t group = p.heads_q / p.heads_kv, tiles = tiles_of_walk(p, queries);
  const std::int64_t most = std::min(spec.reference.sms / items, group * tiles);
  // A part's keys are loaded and its sums begun in the time of a step, and the sums are stored and read again.
  const auto keys = static_cast<double>(block);
  const double step = backward_step_flops(p, static_cast<double>(queries), keys) /
                      (spec.reference.tflops_of(p.data_type) * 1e12 / spec.reference.sms);
  const double sums = static_cast<double>(items) * walk_part_bytes(p, keys) / spec.reference.bytes_per_second;
  // A launch adds them up, which else rounds dq, too, unless the products store it.
  const double launch = !adds || products_store_dq(p, products) ? spec.reference.launch_us * 1e-6 : 0;
  CudaWalkParts best;
  double least = static_cast<double>(group * tiles) * step;
  const auto take = [&](const CudaWalkParts& parts) {
    const std::int64_t steps = group / parts.of_heads * ceil_div(tiles, parts.of_tiles);
    const double seconds = static_cast<double>(steps + 1) * step + static_cast<double>(parts.all()) * sums + launch;
    if (seconds < least) best = parts, least = seconds;
  };
  std::int64_t all_heads = 1;  // the most that the group's heads divide into
  for (std::int64_t heads = 2; heads <= std::min(most, group); ++heads) {
    if (group % heads != 0) continue;
    take({heads, 1});
    all_heads = heads;
  }
  for (std::int64_t of_tiles = 2; of_tiles <= std::min(most / all_heads, tiles); ++of_tiles)
    take({all_heads, of_tiles});
  return best;
}

}  // namespace tilesmith
