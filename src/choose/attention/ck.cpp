#include "choose/attention/ck.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "choose/attention/ck_instances.hpp"
#include "choose/attention/ck_model.hpp"
#include "choose/ck_serves.hpp"
#include "choose/rounding.hpp"

namespace tilesmith {
namespace {

using F = AttentionFamily;

bool is_transposed(const KernelConfig& config) {
  return config.algorithm.pipeline == Pipeline::qr_async_trload || is_ck_v3(config);
}

/// Whether sequences of keys end where the call's arrays say, not at seqlen_k.
bool has_ragged_keys(const AttentionProblem& p) {
  return p.mode == SequenceMode::group || p.page_size > 0;
}

std::string_view obstacle_to_sizes(const KernelConfig& config, const AttentionProblem& p) {
  const AttentionSignature& s = config.attention();
  const Algorithm& a = config.algorithm;
  if (s.family == F::fwd_splitkv_combine) {
    constexpr int kRows = 8;  // of a block: a wave of 64 lanes, eight of which hold 32 columns
    if (!ck_fits(p.head_dim_v, s.head_dim_v, a.pad[3])) return "head_dim_v is no whole tile, and is not padded";
    return a.pad[0] != 0 || (p.mode == SequenceMode::batch && p.seqlen_q % kRows == 0)
               ? std::string_view()
               : "rows of queries are no whole tiles, and are not padded";
  }
  if (!ck_fits(p.head_dim_qk, s.head_dim_qk, a.pad[2])) return "head_dim_qk is no whole tile, and is not padded";
  if (!ck_fits(p.head_dim_v, s.head_dim_v, a.pad[3])) return "head_dim_v is no whole tile, and is not padded";
  const bool copies_ahead = a.pipeline == Pipeline::qr_async || is_transposed(config);
  if (a.pad[0] == 0 && !copies_ahead && (p.mode == SequenceMode::group || p.seqlen_q % a.tile[0] != 0))
    return "rows of queries are no whole tiles, and are not padded";
  if (a.pad[1] == 0 && !is_transposed(config) && (has_ragged_keys(p) || p.seqlen_k == 0 || p.seqlen_k % a.tile[1] != 0))
    return "keys are no whole tiles, and are not padded";
  return {};
}

std::string_view obstacle(const CkFacts& facts, const AttentionProblem& p) {
  if (p.cache != KvElements::as_queries) return "Composable Kernel reads keys and values of the queries' type";
  if (p.latent) return "Composable Kernel has no instances for latent caches";
  if (p.append) return "Composable Kernel appends new keys in a call of its own";
  if (p.page_scale) return "scales of pages lie otherwise in Composable Kernel's caches";
  if (input_type(p.data_type) == DataType::fp8 && facts.chip.fp8_encoding != Fp8Encoding::ocp)
    return "the chip's fp8 is another (fnuz), or there is none";
  return ck_attention_obstacle(p);
}

/// What an instance of the family must be to compute the problem.
AttentionSignature wanted_of(const AttentionProblem& p, F family) {
  AttentionSignature s{.family = family,
                       .data_type = p.data_type == DataType::tf32 ? DataType::fp32 : p.data_type,
                       .mode = p.mode,
                       .head_dim_qk = static_cast<std::uint16_t>(p.head_dim_qk),
                       .head_dim_v = static_cast<std::uint16_t>(p.head_dim_v),
                       .lse = p.lse};
  if (family == F::fwd_splitkv_combine) return s;
  s.mask = ck_mask_of(p, family == F::fwd || family == F::fwd_pagedkv);
  s.bias = p.bias;
  s.soft_cap = p.soft_cap;
  s.sink = p.sink;
  s.dropout = p.dropout;
  s.paged_kv = p.page_size > 0;
  if (family == F::fwd_splitkv) s.lse = true;  // each part's, which the combining kernel reads
  // Scales are numbers of a call, so an instance without them would not take every call.
  if (input_type(p.data_type) == DataType::fp8)
    s.qscale = p.block_scale ? QuantScale::blockscale : QuantScale::pertensor;
  if (family == F::batch_prefill) {
    s.page_size = static_cast<std::uint16_t>(std::min<std::int64_t>(p.page_size, 65535));
    s.kv_layout = p.vectorized_pages ? KvLayout::vectorized : KvLayout::linear;
    s.kv_lookup = KvLookup::vllm;
  }
  return s;
}

/// The families that may compute the problem in a step of their own, the split at last.
std::vector<F> families_for(const AttentionProblem& p) {
  if (p.page_size == 0) return {F::fwd, F::fwd_splitkv};
  if (p.vectorized_pages) return {F::batch_prefill};
  if (p.mode == SequenceMode::group) return {F::fwd_pagedkv, F::batch_prefill, F::fwd_splitkv};
  return {F::fwd_pagedkv, F::fwd_splitkv};
}

/// What there is for a problem.
struct Space {
  std::vector<Recipe> recipes;  ///< in upstream's order, the split ones at last
  std::vector<Refusal> refused;
  std::optional<Error> first_error;
};

Result<Space> space_of(const CkFacts& facts, const AttentionProblem& p) {
  if (const std::string_view why = obstacle(facts, p); !why.empty())
    return fail(
        ErrorCode::unsupported,
        fmt::format("no instance of Composable Kernel for {} computes this problem: {}", facts.chip.arch.text(), why),
        "tilesmith list --origin ck shows what there is");
  if (facts.reference.tflops_of(input_type(wanted_of(p, F::fwd).data_type)) == 0)
    return fail(ErrorCode::unsupported,
                fmt::format("{} has no rate for {}", facts.reference.chip, name_of(p.data_type)),
                "another data type, or the rate in specs/hip");
  Space space;
  const auto suits = [&](const KernelConfig& config) { return obstacle_to_sizes(config, p); };
  for (const F family : families_for(p)) {
    auto found = ck_attention_instances(facts, wanted_of(p, family), suits);
    std::optional<KernelConfig> combine;
    if (found && family == F::fwd_splitkv) {
      auto combining = ck_attention_instances(facts, wanted_of(p, F::fwd_splitkv_combine), suits);
      if (combining) {
        combine = *std::ranges::min_element(combining->serving, {}, ck_padded_dimensions);
        std::ranges::move(combining->refused, std::back_inserter(space.refused));
      } else {
        found = std::unexpected(combining.error());
      }
    }
    if (!found) {
      if (found.error().code != ErrorCode::unsupported) return std::unexpected(found.error());
      if (!space.first_error) space.first_error = found.error();
      continue;
    }
    for (KernelConfig& config : found->serving)
      space.recipes.push_back(
          combine ? Recipe(std::vector<Step>{{std::move(config), StepRole::compute}, {*combine, StepRole::compute}})
                  : Recipe(std::move(config)));
    std::ranges::move(found->refused, std::back_inserter(space.refused));
  }
  if (space.recipes.empty()) return std::unexpected(*space.first_error);
  return space;
}

std::vector<Candidate> candidates_of(const Space& space, const CkFacts& facts, const AttentionProblem& p) {
  std::vector<Candidate> candidates;
  for (const Recipe& recipe : space.recipes)
    candidates.push_back({.recipe = recipe, .predicted_seconds = predicted_seconds(recipe, facts, p)});
  return candidates;
}

}  // namespace

bool is_ck_v3(const KernelConfig& config) {
  return config.algorithm.pipeline == Pipeline::qr_async_trload_v3;
}

std::int64_t ck_num_splits(const CkFacts& facts, const AttentionProblem& p, int n0) {
  // Upstream's figures: rows of queries that it counts on, blocks of a compute unit, most parts, shares of the best.
  constexpr std::int64_t kRows = 64, kBlocksOfUnit = 2, kMost = 128;
  constexpr double kIsFull = 0.8, kGoodEnough = 0.85;
  const std::int64_t blocks_of_keys = std::max<std::int64_t>(ceil_div(p.seqlen_k, n0), 1);
  if (p.splits > 0) return std::min({p.splits, blocks_of_keys, kMost});
  const std::int64_t blocks = p.batch * p.heads_q * ceil_div(p.seqlen_q, kRows);
  const std::int64_t places = facts.reference.compute_units * kBlocksOfUnit;
  if (blocks == 0 || static_cast<double>(blocks) >= kIsFull * static_cast<double>(places)) return 1;
  const std::int64_t most = std::min({kMost, places, blocks_of_keys});
  const auto efficiency = [&](std::int64_t splits) {
    const double rounds = static_cast<double>(blocks * splits) / static_cast<double>(places);
    return rounds / std::ceil(rounds);
  };
  double best = 0;
  for (std::int64_t splits = 1; splits <= most; ++splits) best = std::max(best, efficiency(splits));
  std::int64_t splits = 1;
  while (efficiency(splits) < kGoodEnough * best) ++splits;
  return splits;
}

Result<Ranking> rank(const CkFacts& facts, const AttentionProblem& problem) {
  TS_ASSIGN(const Space space, space_of(facts, problem));
  Ranking ranking{candidates_of(space, facts, problem), "model"};
  best_first(ranking.candidates);
  return ranking;
}

Result<Ranking> upstream_ranking(const CkFacts& facts, const AttentionProblem& problem) {
  TS_ASSIGN(const Space space, space_of(facts, problem));
  Ranking ranking{candidates_of(space, facts, problem), "upstream"};
  const auto is_split = [](const Candidate& c) { return c.recipe.main().attention().family == F::fwd_splitkv; };
  const bool splits = std::ranges::any_of(ranking.candidates, [&](const Candidate& c) {
    return is_split(c) && ck_num_splits(facts, problem, c.recipe.main().algorithm.tile[1]) > 1;
  });
  if (!std::ranges::all_of(ranking.candidates, is_split) && std::ranges::any_of(ranking.candidates, is_split))
    std::erase_if(ranking.candidates, [&](const Candidate& c) { return is_split(c) != splits; });
  // Composable Kernel's copying pipeline takes keys that need no padding unpadded.
  const auto is_padded_for_nothing = [&](const Candidate& c) {
    const Algorithm& a = c.recipe.main().algorithm;
    return a.pipeline == Pipeline::qr_async && a.pad[1] != 0 && !has_ragged_keys(problem) && problem.seqlen_k > 0 &&
           problem.seqlen_k % a.tile[1] == 0;
  };
  if (!std::ranges::all_of(ranking.candidates, is_padded_for_nothing))
    std::erase_if(ranking.candidates, is_padded_for_nothing);
  int most_rows = 0;
  for (const Candidate& c : ranking.candidates) most_rows = std::max<int>(most_rows, c.recipe.main().algorithm.tile[0]);
  std::ranges::stable_sort(ranking.candidates, {}, [&](const Candidate& c) {
    const KernelConfig& config = c.recipe.main();
    const bool v3_first = is_ck_v3(config) && problem.seqlen_q > 1;
    return std::tuple(!v3_first, ck_category(problem.seqlen_q, config.algorithm.tile[0], most_rows),
                      config.algorithm.tile[0], ck_padded_dimensions(config));
  });
  return ranking;
}

Status serves(const CkFacts& facts, const Recipe& recipe, const AttentionProblem& problem) {
  TS_ASSIGN(const Space space, space_of(facts, problem));
  return ck_serves(recipe, space.recipes, space.refused);
}

Result<std::vector<Refusal>> refusals(const CkFacts& facts, const AttentionProblem& problem) {
  TS_ASSIGN(Space space, space_of(facts, problem));
  return std::move(space.refused);
}

}  // namespace tilesmith
