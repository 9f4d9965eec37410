// What the pages of a call must be, and which of them it reads.
#pragma once

#include <cstdint>

#include "kernels/contract/paged_keys.h"
#include "tilesmith/attention.hpp"
#include "tilesmith/device.hpp"

namespace tilesmith {

/// The first key that any query of a sequence sees; its length when none sees one. What lies before is not read.
[[nodiscard]] std::int64_t first_key_seen(const AttentionProblem& problem, std::int64_t seqlen_q,
                                          std::int64_t seqlen_k);

/// Elements of k and v that have 16 bytes: the unit of vectorized pages.
[[nodiscard]] std::int64_t page_vector(const AttentionProblem& problem);

/// What kernels read of a call's pages. Of a problem with a page_size.
[[nodiscard]] TsPagedKeys paged_keys(const AttentionProblem& problem, const AttentionPages& pages);

/// Whether a call's list of pages is empty, so that none of its sequences has a key.
[[nodiscard]] bool lists_no_page(const AttentionPages& pages);

/// Checks the pages of a call whose problem has a page_size. On the CPU lengths and page numbers are read, as far as
/// the call reads them; on a device they are device memory. Error: invalid_argument, with the sequence and the entry.
[[nodiscard]] Status check_pages(const AttentionProblem& problem, const AttentionArguments& arguments,
                                 DeviceKind device);

}  // namespace tilesmith
