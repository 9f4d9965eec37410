#include "choose/serving/ck.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "choose/attention/ck_instances.hpp"
#include "choose/compute_unit.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kRotaryStep = 16;  // elements of a head that a lane turns at a time, with their partners

std::string_view obstacle(const AppendKv& c) {
  const auto is_head_dim = [](std::int64_t dim) { return dim > 0 && dim <= std::numeric_limits<std::uint16_t>::max(); };
  if (!is_head_dim(c.head_dim_qk) || !is_head_dim(c.head_dim_v)) return "head dims are 1 to 65535";
  if (c.batch < 0 || c.seqlen < 0 || c.heads_q < 0 || c.heads_kv < 1)
    return "batch, seqlen and heads_q are at least 0, heads_kv at least 1";
  if (c.mode != SequenceMode::batch) return "every sequence gets as many new tokens: Composable Kernel has no offsets";
  if (c.cache != KvElements::as_queries) return "Composable Kernel's caches have the type of the new tokens";
  if (c.slots != nullptr) return "Composable Kernel finds a token's row by the sequence's length, not by a slot";
  if (c.positions != nullptr) return "a token's position is the sequence's length plus its place";
  if (c.rotary.dim % kRotaryStep != 0) return "rotary_dim is no multiple of 16";
  if (c.rotary.dim > 0 && c.heads_q == 0) return "its blocks are those of query heads, which are turned with the keys";
  if (c.heads_q % c.heads_kv != 0) return "heads_q is no multiple of heads_kv";
  return {};
}

AttentionSignature wanted_of(const AppendKv& c) {
  return {.family = AttentionFamily::fwd_appendkv,
          .data_type = c.data_type,
          .head_dim_qk = static_cast<std::uint16_t>(c.head_dim_qk),
          .head_dim_v = static_cast<std::uint16_t>(c.head_dim_v),
          .paged_kv = c.pages.numbers != nullptr,
          .rope = c.rotary.dim == 0                            ? RopeKind::none
                  : c.rotary.style == RotaryStyle::interleaved ? RopeKind::interleaved
                                                               : RopeKind::half_rotated};
}

std::string_view obstacle_to_sizes(const KernelConfig& config, const AppendKv& c) {
  const AttentionSignature& s = config.attention();
  const Algorithm& a = config.algorithm;
  if (!ck_fits(c.head_dim_qk, s.head_dim_qk, a.pad[2])) return "head_dim_qk is no whole tile, and is not padded";
  if (!ck_fits(c.head_dim_v, s.head_dim_v, a.pad[3])) return "head_dim_v is no whole tile, and is not padded";
  if (a.pad[0] == 0 && c.heads_q > 0 && c.seqlen % a.tile[0] != 0)
    return "rows of queries are no whole tiles, and are not padded";
  if (a.pad[1] == 0 && c.seqlen % a.tile[1] != 0) return "new tokens are no whole tiles, and are not padded";
  return {};
}

Result<CkInstances> instances_of(const CkFacts& facts, const AppendKv& call) {
  if (const std::string_view why = obstacle(call); !why.empty())
    return fail(ErrorCode::unsupported,
                fmt::format("no instance of Composable Kernel for {} appends these keys and values: {}",
                            facts.chip.arch.text(), why),
                "tilesmith list --origin ck --variant appendkv shows what there is");
  return ck_attention_instances(facts, wanted_of(call),
                                [&](const KernelConfig& config) { return obstacle_to_sizes(config, call); });
}

double predicted_seconds(const KernelConfig& config, const CkFacts& facts, const AppendKv& c) {
  const auto tokens = static_cast<double>(c.batch * c.seqlen);
  const auto heads_q = static_cast<double>(c.rotary.dim > 0 ? c.heads_q : 0),
             heads_kv = static_cast<double>(c.heads_kv);
  const auto dim_qk = static_cast<double>(c.head_dim_qk), dim_v = static_cast<double>(c.head_dim_v);
  // Each element is read and written.
  const double turned = 2 * tokens * (heads_q + heads_kv) * dim_qk, copied = 2 * tokens * heads_kv * dim_v;
  const double bytes = bits_of(c.data_type) / 8.0;
  // Where a head dim is padded its elements pass one by one, in transactions of four bytes.
  const auto passed = [&](double elements, std::uint8_t pad) { return elements * (pad != 0 ? 4 : bytes); };
  const double through_cache = (passed(turned, config.algorithm.pad[2]) + passed(copied, config.algorithm.pad[3])) /
                               (compute_unit::kCacheBytes * facts.reference.clock_hz * facts.reference.compute_units);
  return compute_unit::kLaunchSeconds +
         std::max(through_cache, compute_unit::memory_seconds((turned + copied) * bytes, facts.reference));
}

}  // namespace

Result<Ranking> rank(const CkFacts& facts, const AppendKv& call) {
  TS_ASSIGN(const CkInstances instances, instances_of(facts, call));
  Ranking ranking{{}, "model"};
  for (const KernelConfig& config : instances.serving)
    ranking.candidates.push_back({.recipe = config, .predicted_seconds = predicted_seconds(config, facts, call)});
  // Of equal ones that with fewer padded dimensions.
  std::ranges::stable_sort(ranking.candidates, {}, [](const Candidate& candidate) {
    return std::pair(candidate.predicted_seconds, ck_padded_dimensions(candidate.recipe.main()));
  });
  return ranking;
}

Result<std::vector<Refusal>> refusals(const CkFacts& facts, const AppendKv& call) {
  TS_ASSIGN(CkInstances instances, instances_of(facts, call));
  return std::move(instances.refused);
}

}  // namespace tilesmith
