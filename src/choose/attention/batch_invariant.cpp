#include "choose/attention/batch_invariant.hpp"

namespace tilesmith {

AttentionProblem usual_sequence_of(const AttentionProblem& problem) {
  constexpr std::int64_t kUsualKeys = 4096, kUsualQueries = 64, kUsualPage = 64;
  AttentionProblem usual = problem;
  usual.batch = 1;
  usual.seqlen_k = kUsualKeys;
  if (usual.mode == SequenceMode::group) usual.seqlen_q = kUsualQueries;
  if (usual.page_size > 0) usual.page_size = kUsualPage;
  usual.splits = 0;
  return usual;
}

}  // namespace tilesmith
