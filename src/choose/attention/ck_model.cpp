#include "choose/attention/ck_model.hpp"

#include <algorithm>
#include <cmath>

#include "choose/attention/ck.hpp"
#include "choose/attention/ck_instances.hpp"
#include "choose/compute_unit.hpp"
#include "choose/rounding.hpp"
#include "problem/attention/problem.hpp"

namespace tilesmith {
namespace {

// Lanes of a compute unit's vector units, of which every fourth clock gives an exponential (CDNA instruction set
// references: transcendental functions at a quarter of the rate), and instructions beside it for a score: scaling, the
// greatest, its difference, the sum, two conversions.
constexpr double kLanes = 64, kExponentialClocks = 4, kInstructionsOfScore = 6;
// Steps that a block waits for at its start and its end.
constexpr double kIdleSteps = 2;

}  // namespace

double seconds_of(const CkAttentionWork& work, const ReferenceChip& chip, DataType type) {
  const double unit_rate = chip.tflops_of(type) * 1e12 / chip.compute_units * compute_unit::kReachedRate;
  // The scores of a wave wait for its products; blocks that share a unit fill each other's waits, which is counted by
  // their number below.
  const double products = work.flops_of_step / unit_rate;
  const double scores = work.scores_of_step * (kExponentialClocks + kInstructionsOfScore) / (kLanes * chip.clock_hz);
  const double computing =
      (work.blocks_per_cu > 1 ? std::max(products, scores) + std::min(products, scores) / 2 : products + scores) /
      work.busy_share;
  const double local = work.local_of_step / (compute_unit::kLdsBytes * chip.clock_hz);
  const double fetched = work.fetched_of_step / (compute_unit::kCacheBytes * chip.clock_hz);
  const double block = (work.steps + kIdleSteps) * std::max({computing, local, fetched}) * work.blocks_per_cu;
  const std::int64_t places = std::int64_t{chip.compute_units} * work.blocks_per_cu;
  const std::int64_t rounds = ceil_div(work.blocks, places);
  // Blocks that are alone on a unit share it with nobody.
  const double share =
      std::max(std::min(1.0, static_cast<double>(work.blocks) / static_cast<double>(places)), 1.0 / work.blocks_per_cu);
  // Neither hides the other whole; and of kernels that wait for memory the one with less work goes first.
  return compute_unit::kLaunchSeconds +
         std::hypot(static_cast<double>(rounds) * block * share, compute_unit::memory_seconds(work.memory_bytes, chip));
}

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
  const CkAttentionWork work{.blocks = blocks,
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
