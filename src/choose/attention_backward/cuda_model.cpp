#include "choose/attention_backward/cuda_model.hpp"

#include <algorithm>

#include "choose/attention_backward/cuda_sections.hpp"
#include "choose/attention_backward/cuda_single_block.hpp"
#include "choose/attention_backward/cuda_walk_parts.hpp"
#include "choose/rounding.hpp"
#include "instances/attention_backward/cuda_resources.hpp"
#include "problem/attention/problem.hpp"
#include "problem/attention_backward/problem.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {

double predicted_seconds(const KernelConfig& products, const CudaBackwardTile& row, const CudaSpec& spec,
                         const AttentionBackwardProblem& p) {
  const CudaBackwardResources facts = cuda_backward_resources(products);
  const CudaReferenceChip& chip = spec.reference;
  const auto number = [](auto x) { return static_cast<double>(x); };
  const double pairs = number(p.seqlen_q) * number(p.seqlen_k);
  const double heads = number(p.batch) * number(p.heads_q);
  const double visible = pairs > 0 && heads > 0 ? visible_pairs(forward_of(p)) / (pairs * heads) : 0;

  // Steps of a block of keys over the tiles that see one of its keys, and one for its start and end. A mask's diagonal
  // cuts through as many tiles as a block has queries.
  const bool adds = facts.sum_columns > 0;  // else a block has rows of a gradient, and walks those of the other side
  const double tile = products.algorithm.tile[adds ? 0 : 1], keys = products.algorithm.tile[adds ? 1 : 0];
  const double of_mask = visible < 1 ? keys / tile : 0;
  const double tiles =
      std::min(ceil_div(number(p.seqlen_q) * visible, tile) + of_mask, ceil_div(number(p.seqlen_q), tile));
  const double group = number(p.heads_q) / number(std::max<std::int64_t>(1, p.heads_kv));
  const double parts = number(cuda_walk_parts(p, products, spec).all());
  const double steps = group * tiles / parts + 1;
  const double longest = group * ceil_div(number(p.seqlen_q) * std::min(1.0, 2 * visible), tile) / parts + 1;
  const double blocks = parts * number(p.batch) * number(p.heads_kv) * ceil_div(number(p.seqlen_k), keys);
  const bool in_turn = products.attention().deterministic && adds;
  constexpr double kOrderedShare = 0.95;  // of the rate, where blocks add in turn; measured: 0.93 to 1
  const PassedGradients passed = passed_gradients(p, products, spec);
  const double share = (passed.efficiency > 0 ? passed.efficiency : row.efficiency) * (in_turn ? kOrderedShare : 1);
  const double rate = chip.tflops_of(p.data_type) * 1e12 / chip.sms * share;
  const double of_products = std::max(ceil_div(blocks, number(chip.sms)) * steps, blocks > 0 ? longest : 0) *
                             backward_step_flops(p, tile, keys) / rate;

  // The first kernel reads o and do and zeroes dq's sums, which ordered additions do not need; the last reads those and
  // writes dq. Where the products store dq there are no sums, and mostly nothing for the last to do.
  const double element = number(input_bytes(p.data_type));
  const bool stores_dq = products_store_dq(p, products);
  const double of_sums = stores_dq ? 0 : (in_turn ? 1 : 2) * 4 * facts.sum_columns;
  const double of_row = element * (2 * number(p.head_dim_v) + number(p.head_dim_qk)) + of_sums;
  const double bandwidth = chip.bytes_per_second * chip.reached_bandwidth;
  // Parts of dk and dv are stored and read again.
  const double of_parts = parts > 1 ? blocks * walk_part_bytes(p, keys) : 0;
  const int launches = stores_dq && parts == 1 && !p.dsink && !p.dalibi ? 2 : 3;
  return launches * chip.launch_us * 1e-6 + of_products + (heads * number(p.seqlen_q) * of_row + of_parts) / bandwidth;
}

}  // namespace tilesmith
