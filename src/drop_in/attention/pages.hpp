// Caches of pages: every page is used once, in the caller's order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "drop_in/memory.hpp"
#include "tilesmith/attention.hpp"

namespace tilesmith::drop_in {

/// What Composable Kernel's library takes where a caller names no size.
inline constexpr int kPageSize = 64;

[[nodiscard]] constexpr int page_size_of(int page_block_size) {
  return page_block_size > 0 ? page_block_size : kPageSize;
}

[[nodiscard]] constexpr std::int64_t pages_of(std::int64_t tokens, std::int64_t page_size) {
  return (tokens + page_size - 1) / page_size;
}

/// The pages of `batch` sequences of up to `capacity` tokens, of which each has `length`: as a table, or as one list.
[[nodiscard]] Result<AttentionPages> pages_in_order(std::int64_t batch, std::int64_t capacity, std::int64_t length,
                                                    std::int64_t page_size, bool list, Memory& memory);

/// A vectorized cache, (dim / chunk, tokens, chunk) for each head of a page where `along_dim`, else (tokens / chunk,
/// dim, chunk), as (tokens, dim). `heads` counts those of all pages. Error: unsupported, where a size is no multiple of
/// the chunk's 16 bytes.
[[nodiscard]] Result<std::vector<std::byte>> as_rows(const std::vector<std::byte>& vectorized, std::int64_t heads,
                                                     std::int64_t tokens, std::int64_t dim, std::size_t element_bytes,
                                                     bool along_dim);

}  // namespace tilesmith::drop_in
