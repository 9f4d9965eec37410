// append_kv on random tokens, into a cache whose pages are in a random order.
#pragma once

#include <cstdint>

#include "tilesmith/serving.hpp"
#include "trial/serving/direct_case.hpp"

namespace tilesmith {

struct AppendKvSizes {
  DataType data_type = DataType::bf16;
  KvElements cache = KvElements::as_queries;
  std::int64_t batch = 1, heads_q = 0, heads_kv = 1;
  std::int64_t seqlen = 1;    ///< new tokens of a sequence
  std::int64_t seqlen_k = 0;  ///< keys that the longest has already; the others have fewer
  std::int64_t head_dim_qk = 128, head_dim_v = 128;
  std::int64_t page_size = 16;
  std::int64_t rotary_dim = 0;
  RotaryStyle rotary_style = RotaryStyle::half;
  bool vectorized_pages = false;
  bool page_scale = false, row_scale = false;  ///< of a cache of 8 bits: scales of pages are read, of rows written
  bool lengths_after = false;                  ///< the call is given lengths that count its tokens too
  std::uint64_t seed = 0;
};

/// Errors: invalid_argument, unsupported.
[[nodiscard]] Result<std::unique_ptr<const DirectCase>> append_kv_case(const AppendKvSizes& sizes);

}  // namespace tilesmith
