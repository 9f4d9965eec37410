#include "drop_in/attention/pages.hpp"

#include <fmt/format.h>

#include <cstring>
#include <numeric>

namespace tilesmith::drop_in {

Result<AttentionPages> pages_in_order(std::int64_t batch, std::int64_t capacity, std::int64_t length,
                                      std::int64_t page_size, bool list, Memory& memory) {
  const std::int64_t each = pages_of(capacity, page_size);
  AttentionPages pages{.stride = each, .num_pages = batch * each};
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(pages.num_pages));
  std::iota(numbers.begin(), numbers.end(), 0);
  TS_ASSIGN(pages.numbers, memory.keep(std::move(numbers)));
  TS_ASSIGN(pages.lengths,
            memory.keep(std::vector<std::int32_t>(static_cast<std::size_t>(batch), static_cast<std::int32_t>(length))));
  if (list) {
    std::vector<std::int32_t> offsets;
    for (std::int64_t b = 0; b < batch; ++b) offsets.push_back(static_cast<std::int32_t>(b * each));
    TS_ASSIGN(pages.offsets, memory.keep(std::move(offsets)));
  }
  return pages;
}

Result<std::vector<std::byte>> as_rows(const std::vector<std::byte>& vectorized, std::int64_t heads,
                                       std::int64_t tokens, std::int64_t dim, std::size_t element_bytes,
                                       bool along_dim) {
  constexpr std::size_t kChunkBytes = 16;
  const auto chunk = static_cast<std::int64_t>(kChunkBytes / element_bytes);
  if ((along_dim ? dim : tokens) % chunk != 0)
    return fail(ErrorCode::unsupported,
                fmt::format("a vectorized cache has {} of {}", along_dim ? "keys" : "pages", along_dim ? dim : tokens),
                fmt::format("a multiple of {}", chunk));
  std::vector<std::byte> rows(vectorized.size());
  const std::byte* from = vectorized.data();
  const std::int64_t outer = (along_dim ? dim : tokens) / chunk, inner = along_dim ? tokens : dim;
  for (std::int64_t head = 0; head < heads; ++head) {
    std::byte* const to = rows.data() + static_cast<std::size_t>(head * tokens * dim) * element_bytes;
    for (std::int64_t i = 0; i < outer; ++i)
      for (std::int64_t j = 0; j < inner; ++j)
        for (std::int64_t e = 0; e < chunk; ++e, from += element_bytes) {
          const std::int64_t token = along_dim ? j : i * chunk + e, column = along_dim ? i * chunk + e : j;
          std::memcpy(to + static_cast<std::size_t>(token * dim + column) * element_bytes, from, element_bytes);
        }
  }
  return rows;
}

}  // namespace tilesmith::drop_in
