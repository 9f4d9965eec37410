// A tree of drafted tokens from a file, as the bias of a call.
#pragma once

#include <string>

#include "base/host_array.hpp"
#include "trial/attention/case.hpp"

namespace tilesmith::cli {

/// The mask is (batch, seqlen_q, keys), with offsets (rows of q, keys), of at least seqlen_q keys: element t of query i
/// is not 0 where it sees key t of its sequence's last ones, as many as it has queries. The bias is (batch, 1,
/// seqlen_q, seqlen_k). Errors: invalid_argument, and those of reading.
[[nodiscard]] Result<HostArray> read_tree_mask(const std::string& file, const AttentionProblem& problem,
                                               const AttentionInputs& inputs);

}  // namespace tilesmith::cli
