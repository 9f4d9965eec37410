#include "choose/attention_backward/ck.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "choose/attention/ck_instances.hpp"
#include "choose/attention/ck_model.hpp"
#include "choose/ck_serves.hpp"
#include "choose/compute_unit.hpp"
#include "choose/rounding.hpp"
#include "problem/attention/problem.hpp"

namespace tilesmith {
namespace {

using F = AttentionFamily;

constexpr int kRowsOfPass = 64;  // queries of a block of the kernels before and behind

std::string_view obstacle(const AttentionBackwardProblem& p) {
  if (p.soft_cap) return "Composable Kernel's backward has no soft cap";
  if (p.dlse) return "Composable Kernel's backward takes no gradient of the log-sum-exp";
  if (p.dalibi) return "Composable Kernel's backward writes no gradient of ALiBi's slopes";
  if (p.dsink) return "Composable Kernel's backward writes no gradient of the sinks";
  return ck_attention_obstacle(p);
}

AttentionSignature wanted_of(const AttentionBackwardProblem& p, F family) {
  AttentionSignature s{.family = family,
                       .data_type = p.data_type == DataType::tf32 ? DataType::fp32 : p.data_type,
                       .mode = p.mode,
                       .head_dim_qk = static_cast<std::uint16_t>(p.head_dim_qk),
                       .head_dim_v = static_cast<std::uint16_t>(p.head_dim_v)};
  if (family == F::bwd_dot_do_o) return s;
  s.deterministic = true;
  if (family == F::bwd_convert_dq) return s;
  s.mask = ck_mask_of(p, true);
  s.bias = p.bias;
  s.dbias = p.dbias;
  s.dropout = p.dropout;
  s.dropout_variant = p.dropout ? DropoutVariant::wg16 : DropoutVariant::no;
  return s;
}

std::string_view obstacle_to_sizes(const KernelConfig& config, const AttentionBackwardProblem& p) {
  const AttentionSignature& s = config.attention();
  const Algorithm& a = config.algorithm;
  if (s.family != F::bwd_dot_do_o && !ck_fits(p.head_dim_qk, s.head_dim_qk, a.pad[2]))
    return "head_dim_qk does not suit the padding";
  if (s.family != F::bwd_convert_dq && !ck_fits(p.head_dim_v, s.head_dim_v, a.pad[3]))
    return "head_dim_v does not suit the padding";
  if (s.family != F::bwd_dq_dk_dv)
    return a.pad[0] != 0 || (p.mode == SequenceMode::batch && p.seqlen_q % kRowsOfPass == 0)
               ? std::string_view()
               : "rows of queries are no whole tiles, and are not padded";
  const bool is_short = a.max_seqlen_q == 0 ||
                        (p.mode == SequenceMode::batch && s.mask == MaskKind::none && p.seqlen_q <= a.max_seqlen_q);
  return is_short ? std::string_view() : "more queries than the kernel takes";
}

struct Space {
  std::vector<Recipe> recipes;  ///< in upstream's order
  std::vector<Refusal> refused;
};

Result<Space> space_of(const CkFacts& facts, const AttentionBackwardProblem& p) {
  if (const std::string_view why = obstacle(p); !why.empty())
    return fail(
        ErrorCode::unsupported,
        fmt::format("no instance of Composable Kernel for {} computes this problem: {}", facts.chip.arch.text(), why),
        "tilesmith list --origin ck --variant bwd shows what there is");
  const auto suits = [&](const KernelConfig& config) { return obstacle_to_sizes(config, p); };
  const auto instances = [&](F family) { return ck_attention_instances(facts, wanted_of(p, family), suits); };
  TS_ASSIGN(CkInstances computing, instances(F::bwd_dq_dk_dv));
  TS_ASSIGN(CkInstances before, instances(F::bwd_dot_do_o));
  TS_ASSIGN(CkInstances behind, instances(F::bwd_convert_dq));
  const auto least_padded = [](const CkInstances& of) {
    return *std::ranges::min_element(of.serving, {}, ck_padded_dimensions);
  };
  const Step first{least_padded(before), StepRole::prepare}, last{least_padded(behind), StepRole::convert};
  Space space;
  for (KernelConfig& config : computing.serving) {
    const bool writes_dq = config.algorithm.max_seqlen_q != 0;
    std::vector<Step> steps{first, {std::move(config), StepRole::compute}};
    if (!writes_dq) steps.push_back(last);
    space.recipes.emplace_back(std::move(steps));
  }
  for (CkInstances* each : {&computing, &before, &behind})
    std::ranges::move(each->refused, std::back_inserter(space.refused));
  return space;
}

double predicted_seconds(const Recipe& recipe, const CkFacts& facts, const AttentionBackwardProblem& p) {
  const KernelConfig& config = recipe.main();
  const auto& tile = config.algorithm.tile;
  const auto& wave = config.algorithm.wave;
  const AttentionProblem forward = forward_of(p);
  const double m0 = tile[0], n0 = tile[1];
  const double head_dims = config.attention().head_dim_qk + config.attention().head_dim_v;
  const double bytes = static_cast<double>(input_bytes(p.data_type));
  const double rows = static_cast<double>(p.batch * p.heads_q) * static_cast<double>(p.seqlen_q);
  const double pairs = rows * static_cast<double>(p.seqlen_k);
  const double visible = pairs > 0 ? visible_pairs(forward) / pairs : 0;
  const std::int64_t blocks_of_keys = ceil_div(p.seqlen_k, tile[1]);
  // Each block of keys leaves its sums of dq apart from the others', in float32.
  const double sums = static_cast<double>(blocks_of_keys) * rows * static_cast<double>(p.head_dim_qk) * 4;
  const int blocks_per_cu = ck_blocks_per_cu(config, facts.chip);
  const std::int64_t blocks = p.batch * p.heads_q * blocks_of_keys;
  const ComputeUnitAttention work{
      .blocks = blocks,
      .steps = static_cast<double>(ceil_div(p.seqlen_q, tile[0])) * visible + (visible < 1 ? 0.5 : 0),
      // scores, their gradient and three gradients of inputs
      .flops_of_step = 2 * m0 * n0 * (3.0 * config.attention().head_dim_qk + 2.0 * config.attention().head_dim_v),
      .scores_of_step = 2 * m0 * n0,
      .local_of_step = wave[0] * wave[1] * (m0 + n0) * head_dims * bytes,
      .fetched_of_step = m0 * head_dims * bytes + m0 * static_cast<double>(p.head_dim_qk) * 4,
      .memory_bytes = 2 * bytes_of(forward) + sums,
      .blocks_per_cu = blocks_per_cu,
      .busy_share = facts.busy_share(wave[0] * wave[1], blocks, blocks_per_cu)};
  double seconds = seconds_of(work, facts.reference, p.data_type == DataType::tf32 ? DataType::fp32 : p.data_type);
  seconds += compute_unit::pass_seconds(2 * rows * static_cast<double>(p.head_dim_v) * bytes, facts.reference);
  if (recipe.steps.size() == 3)
    seconds += compute_unit::pass_seconds(sums + rows * static_cast<double>(p.head_dim_qk) * bytes, facts.reference);
  return seconds;
}

std::vector<Candidate> candidates_of(const Space& space, const CkFacts& facts, const AttentionBackwardProblem& p) {
  std::vector<Candidate> candidates;
  for (const Recipe& recipe : space.recipes)
    candidates.push_back({.recipe = recipe, .predicted_seconds = predicted_seconds(recipe, facts, p)});
  return candidates;
}

}  // namespace

Result<Ranking> rank(const CkFacts& facts, const AttentionBackwardProblem& problem) {
  TS_ASSIGN(const Space space, space_of(facts, problem));
  Ranking ranking{candidates_of(space, facts, problem), "model"};
  best_first(ranking.candidates);
  return ranking;
}

Result<Ranking> upstream_ranking(const CkFacts& facts, const AttentionBackwardProblem& problem) {
  TS_ASSIGN(const Space space, space_of(facts, problem));
  Ranking ranking{candidates_of(space, facts, problem), "upstream"};
  // Upstream takes the kernels of transposed loads with 128 keys a block for few keys alone.
  const auto is_for_few_keys = [&](const Candidate& c) {
    const Algorithm& a = c.recipe.main().algorithm;
    return a.use_trload && a.tile[1] == 128 && a.max_seqlen_q == 0 && problem.seqlen_k > 256;
  };
  if (!std::ranges::all_of(ranking.candidates, is_for_few_keys)) std::erase_if(ranking.candidates, is_for_few_keys);
  int most_rows = 0;
  for (const Candidate& c : ranking.candidates) most_rows = std::max<int>(most_rows, c.recipe.main().algorithm.tile[0]);
  std::ranges::stable_sort(ranking.candidates, {}, [&](const Candidate& c) {
    const KernelConfig& config = c.recipe.main();
    return std::tuple(config.algorithm.max_seqlen_q == 0,
                      ck_category(problem.seqlen_q, config.algorithm.tile[0], most_rows), config.algorithm.tile[0],
                      ck_padded_dimensions(config));
  });
  return ranking;
}

Status serves(const CkFacts& facts, const Recipe& recipe, const AttentionBackwardProblem& problem) {
  TS_ASSIGN(const Space space, space_of(facts, problem));
  return ck_serves(recipe, space.recipes, space.refused);
}

Result<std::vector<Refusal>> refusals(const CkFacts& facts, const AttentionBackwardProblem& problem) {
  TS_ASSIGN(Space space, space_of(facts, problem));
  return std::move(space.refused);
}

}  // namespace tilesmith
