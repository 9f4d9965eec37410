// What the pages of a call must be, and which of them it reads.
#pragma once

#include <cstdint>

#include "tilesmith/attention.hpp"
#include "tilesmith/device.hpp"

namespace tilesmith {

/// The first key that any query of a sequence sees; its length when none sees one. What lies before is not read.
[[nodiscard]] std::int64_t first_key_seen(const AttentionProblem& problem, std::int64_t seqlen_q,
                                          std::int64_t seqlen_k);

/// Checks the pages of a call whose problem has a page_size. On the CPU lengths and page numbers are read, as far as
/// the call reads them; on a device they are device memory. Error: invalid_argument, with the sequence and the entry.
[[nodiscard]] Status check_pages(const AttentionProblem& problem, const AttentionArguments& arguments,
                                 DeviceKind device);

}  // namespace tilesmith
