#include "capi/candidates.hpp"

#include <utility>
#include <vector>

#include "capi/sized_struct.hpp"

namespace tilesmith::capi {

Status write_candidates(ChoiceInfo info, tilesmith_candidates* out) {
  thread_local ChoiceInfo kept;
  thread_local std::vector<tilesmith_candidate> candidates;
  thread_local std::vector<tilesmith_refusal> refusals;
  kept = std::move(info);
  candidates.clear();
  refusals.clear();
  for (const CandidateInfo& each : kept.candidates) candidates.push_back({each.recipe.c_str(), each.predicted_seconds});
  for (const RefusalInfo& each : kept.refusals)
    refusals.push_back({each.kernel.c_str(), each.rule.c_str(), each.figures.c_str()});
  return write_struct("tilesmith_candidates", out,
                      {.struct_size = sizeof *out,
                       .policy = kept.policy.c_str(),
                       .candidates = candidates.data(),
                       .candidate_count = static_cast<int64_t>(candidates.size()),
                       .refusals = refusals.data(),
                       .refusal_count = static_cast<int64_t>(refusals.size())});
}

}  // namespace tilesmith::capi
