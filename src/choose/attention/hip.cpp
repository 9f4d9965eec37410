#include "choose/attention/hip.hpp"

#include <fmt/format.h>

#include "choose/attention/gpu_signature.hpp"
#include "choose/attention/hip_decode.hpp"
#include "choose/attention/hip_model.hpp"
#include "choose/gpu_serves.hpp"
#include "instances/attention/hip.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

Recipe recipe_of(const KernelConfig& config) {
  if (config.algorithm.pipeline != Pipeline::decode) return config;
  return Recipe({{config}, {hip_attention_join(config), StepRole::join}});
}

/// Why an instance of the problem's signature is no candidate; empty: it is.
std::string_view attention_obstacle(const KernelConfig& config, const AttentionProblem& p) {
  if (p.vectorized_pages) return "pages are vectorized";
  if (config.algorithm.pipeline == Pipeline::decode && !suits_hip_decode(p))
    return "the queries of a key head are more than the largest tile of decode";
  return {};
}

double seconds_of(const KernelConfig& config, const HipSpec& spec, const AttentionProblem& p) {
  return config.algorithm.pipeline == Pipeline::decode ? hip_decode_work(config, spec, p).seconds
                                                       : predicted_seconds(config, spec, p);
}

std::vector<Candidate> attention_candidates(const HipSpec& spec, const AttentionSignature& signature,
                                            const AttentionProblem& p) {
  std::vector<Candidate> candidates;
  walk_hip_attention(spec, signature, [&](const KernelConfig& config, const Rule<HipAttentionSubject>* refused) {
    if (refused == nullptr && attention_obstacle(config, p).empty())
      candidates.push_back({.recipe = recipe_of(config), .predicted_seconds = seconds_of(config, spec, p)});
    return true;
  });
  best_first(candidates);
  return candidates;
}

/// With the rule that refuses the table's last tile.
Error no_attention(const HipSpec& spec, const AttentionSignature& signature) {
  Error error{ErrorCode::unsupported, fmt::format("no kernel of {} computes this attention", spec.arch.text()),
              "tilesmith arch and docs/amd.md say which types a chip has"};
  walk_hip_attention(spec, signature, [&](const KernelConfig& config, const Rule<HipAttentionSubject>* rule) {
    if (rule == nullptr) return true;
    error.message = fmt::format("no kernel of {} computes this problem: rule {}: {}", spec.arch.text(), rule->name,
                                rule->figures(HipAttentionSubject{config, spec}));
    error.hint = rule->about;
    return true;
  });
  return error;
}

}  // namespace

Result<Ranking> rank(const HipSpec& spec, const AttentionProblem& problem) {
  if (problem.vectorized_pages)
    return fail(ErrorCode::unsupported, "vectorized pages, and no kernel of ours reads them on an AMD GPU",
                "pages of rows, the CPU or a CUDA device");
  if (problem.append)
    return fail(ErrorCode::unsupported, "new keys are to be appended, and no kernel of ours does that on an AMD GPU",
                "the CPU or a CUDA device");
  if (problem.batch_invariant)
    return fail(ErrorCode::unsupported, "batch_invariant is asked for, and no kernel of an AMD GPU promises it",
                "the CPU or a CUDA device");
  const AttentionSignature signature = gpu_signature_of(problem);
  std::vector<Candidate> candidates = attention_candidates(spec, signature, problem);
  if (candidates.empty()) return std::unexpected(no_attention(spec, signature));
  return Ranking{std::move(candidates), "model"};
}

Status serves(const HipSpec& spec, const Recipe& recipe, const AttentionProblem& problem) {
  const KernelConfig& config = recipe.main();
  TS_TRY(is_instance(config, spec, Operation::attention, hip_attention_rules()));
  if (const AttentionSignature wanted = gpu_signature_of(problem); config.attention() != wanted)
    return other_signature(config, wanted);
  if (recipe != recipe_of(config))
    return fail(ErrorCode::invalid_argument, fmt::format("kernel {} is no recipe as it stands", native_name(config)),
                recipe_name(recipe_of(config)));
  if (const std::string_view why = attention_obstacle(config, problem); !why.empty())
    return fail(ErrorCode::invalid_argument,
                fmt::format("kernel {} does not suit {} queries of {} heads of a key head: {}", native_name(config),
                            problem.seqlen_q, problem.heads_q / problem.heads_kv, why),
                "a kernel of the pipeline flash");
  return {};
}

Result<std::vector<Refusal>> refusals(const HipSpec& spec, const AttentionProblem& problem) {
  const AttentionSignature signature = gpu_signature_of(problem);
  RefusalList list(attention_candidates(spec, signature, problem));
  walk_hip_attention(spec, signature, [&](const KernelConfig& config, const Rule<HipAttentionSubject>* rule) {
    if (rule != nullptr)
      list.add(*rule, HipAttentionSubject{config, spec});
    else if (const std::string_view why = attention_obstacle(config, problem); !why.empty())
      list.add(config, "suits_shape", std::string(why));
    return true;
  });
  return list.take();
}

}  // namespace tilesmith
