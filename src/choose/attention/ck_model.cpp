#include "choose/attention/ck_model.hpp"

#include "choose/attention/ck.hpp"
#include "choose/attention/ck_instances.hpp"
#include "choose/compute_unit.hpp"
#include "choose/rounding.hpp"
#include "problem/attention/problem.hpp"

namespace tilesmith {

double predicted_seconds(const Recipe& recipe, const CkFacts& facts, const AttentionProblem& p) {
  const KernelConfig& config = recipe.main();
  const auto& tile = config.algorithm.tile;
  const auto& wave = config.algorithm.wave;
  const double m0 = tile[0], n0 = tile[1], columns = tile[5] + tile[3];
  const double bytes = static_cast<double>(input_bytes(p.data_type));
  const double pairs = static_cast<double>(p.batch) * static_cast<double>(p.heads_q) * static_cast<double>(p.seqlen_q) *
                       static_cast<double>(p.seqlen_k);
  const double visible = pairs > 0 ? visible_pairs(p) / pairs : 0;
  const bool is_split = recipe.steps.size() > 1;
  const std::int64_t splits = is_split ? ck_num_splits(facts, p, tile[1]) : 1;
  const std::int64_t rows = ceil_div(p.seqlen_q, tile[0]);
  // A mask's edge crosses a block of keys that is computed whole.
  const double walked = static_cast<double>(ceil_div(p.seqlen_k, tile[1])) * visible + (visible < 1 ? 0.5 : 0);
  const int blocks_per_cu = ck_blocks_per_cu(config, facts.chip);
  const std::int64_t blocks = p.batch * p.heads_q * rows * splits;
  const ComputeUnitAttention work{.blocks = blocks,
                                  .steps = walked / static_cast<double>(splits),
                                  .flops_of_step = 2 * m0 * n0 * columns,
                                  .scores_of_step = m0 * n0,
                                  .local_of_step = wave[0] * wave[1] * n0 * columns * bytes,
                                  .fetched_of_step = n0 * static_cast<double>(p.head_dim_qk + p.head_dim_v) * bytes,
                                  .memory_bytes = bytes_of(p),
                                  .blocks_per_cu = blocks_per_cu,
                                  .busy_share = facts.busy_share(wave[0] * wave[1], blocks, blocks_per_cu)};
  double seconds = seconds_of(work, facts.reference, input_type(config.attention().data_type));
  if (is_split) {
    // Each part's sums and log-sum-exp, in float32, are written and read once.
    const double parts = static_cast<double>(p.batch * p.heads_q * p.seqlen_q * splits);
    seconds += compute_unit::pass_seconds(2 * parts * 4 * static_cast<double>(p.head_dim_v + 1), facts.reference);
  }
  return seconds;
}

}  // namespace tilesmith
