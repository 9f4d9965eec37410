// Loops over the elements of an output on all threads: judging a result must not take longer than timing it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "base/parallel.hpp"

namespace tilesmith {

/// What of(begin, end) gives of each chunk of [0, count), in their order. The chunks do not depend on the number of
/// threads (0: all that the machine has), so that sums over them do not either. of must not throw.
template <class Of>
[[nodiscard]] auto of_chunks(std::size_t count, Of of, unsigned threads = 0) {
  constexpr std::size_t kChunk = std::size_t{1} << 15;
  std::vector<std::invoke_result_t<Of&, std::size_t, std::size_t>> results((count + kChunk - 1) / kChunk);
  parallel_for(results.size(), threads,
               [&](std::size_t chunk) { results[chunk] = of(chunk * kChunk, std::min(count, (chunk + 1) * kChunk)); });
  return results;
}

}  // namespace tilesmith
