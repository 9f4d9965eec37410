// merge_states on random partial results, some of which saw nothing.
#pragma once

#include <cstdint>

#include "tilesmith/serving.hpp"
#include "trial/serving/direct_case.hpp"

namespace tilesmith {

struct MergeStatesSizes {
  DataType data_type = DataType::bf16;
  std::int64_t states = 2, batch = 1, heads = 1, seqlen = 1, head_dim = 128;
  std::uint64_t seed = 0;
};

/// Errors: invalid_argument, out_of_memory.
[[nodiscard]] Result<std::unique_ptr<const DirectCase>> merge_states_case(const MergeStatesSizes& sizes);

}  // namespace tilesmith
