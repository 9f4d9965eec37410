#include "choose/attention/hip_model.hpp"

#include <algorithm>

#include "choose/attention/compute_unit_model.hpp"
#include "choose/rounding.hpp"
#include "instances/attention/hip_resources.hpp"
#include "problem/attention/problem.hpp"

namespace tilesmith {

double predicted_seconds(const KernelConfig& config, const HipSpec& spec, const AttentionProblem& p) {
  const AttentionSignature& s = config.attention();
  const HipAttentionResources facts =
      hip_attention_resources(config, spec, *spec.fragment(s.data_type, config.algorithm.warp[0]));
  const double pairs = static_cast<double>(p.batch) * static_cast<double>(p.heads_q) * static_cast<double>(p.seqlen_q) *
                       static_cast<double>(p.seqlen_k);
  const double visible = pairs > 0 ? visible_pairs(p) / pairs : 0;
  const double rows = facts.tile_rows, keys = facts.tile_keys;
  const double columns = s.head_dim_qk + s.head_dim_v, bytes = 2 * columns;
  // A mask's edge crosses a block of keys that is computed whole.
  const double walked =
      static_cast<double>(ceil_div(p.seqlen_k, std::int64_t{facts.tile_keys})) * visible + (visible < 1 ? 0.5 : 0);
  const ComputeUnitAttention work{
      .blocks = p.batch * p.heads_q * ceil_div(p.seqlen_q, std::int64_t{facts.tile_rows}),
      .steps = walked,
      .flops_of_step = 2 * rows * keys * columns,
      .scores_of_step = rows * keys,
      // Every wave reads the block of keys and values, which is written once; and its rows, where they are there.
      .local_of_step = (facts.waves + 1) * keys * bytes + (facts.queries_in_lds ? 2 * rows * s.head_dim_qk : 0),
      // Elements that are fetched one by one take a transaction each.
      .fetched_of_step = keys * bytes * (s.unaligned ? 2 : 1),
      .memory_bytes = bytes_of(p),
      .blocks_per_cu = facts.blocks_per_cu,
      .busy_share = facts.busy_share};
  return seconds_of(work, spec.reference, s.data_type);
}

}  // namespace tilesmith
