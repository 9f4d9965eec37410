#include "tilesmith/tree_mask.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.hpp"
#include "problem/argument_checks.hpp"

namespace tilesmith {
namespace {

/// A sequence's rows among the mask's, its queries and its keys.
struct Drafted {
  std::int64_t first, queries, keys;
};

Result<Drafted> drafted(const TreeMask& m, std::int64_t b) {
  Drafted out{b * m.seqlen_q, m.seqlen_q, m.seqlen_k};
  if (m.cu_seqlens_q != nullptr) {
    out.first = m.cu_seqlens_q[b];
    out.queries = std::int64_t{m.cu_seqlens_q[b + 1]} - m.cu_seqlens_q[b];
    if ((b == 0 && out.first != 0) || out.queries < 0 || out.queries > m.seqlen_q)
      return fail(
          ErrorCode::invalid_argument,
          fmt::format("cu_seqlens_q gives sequence {} the rows {} to {}", b, out.first, out.first + out.queries),
          fmt::format("offsets that begin with 0 and rise by at most seqlen_q, {}", m.seqlen_q));
  }
  if (m.seqlens_k != nullptr) {
    out.keys = m.seqlens_k[b];
    if (out.keys < 0 || out.keys > m.seqlen_k)
      return fail(ErrorCode::invalid_argument, fmt::format("seqlens_k[{}] is {}", b, out.keys),
                  fmt::format("0 to seqlen_k, {}", m.seqlen_k));
  }
  return out;
}

}  // namespace

Status tree_bias(const TreeMask& m, float* bias) {
  TS_TRY(check_dimension("batch", m.batch, 0));
  TS_TRY(check_dimension("seqlen_q", m.seqlen_q, 0));
  TS_TRY(check_dimension("seqlen_k", m.seqlen_k, 0));
  TS_TRY(check_dimension("words", m.words, 0));
  if (m.words * 32 < m.seqlen_q)
    return fail(ErrorCode::invalid_argument, fmt::format("{} words of 32 bits for {} queries", m.words, m.seqlen_q),
                fmt::format("{} or more", (m.seqlen_q + 31) / 32));
  if (!product_fits({m.batch, m.seqlen_q, std::max(m.seqlen_k, m.words)}))
    return fail(ErrorCode::invalid_argument, "the bias has more than 2^62 elements", "fewer");
  const bool any = m.batch > 0 && m.seqlen_q > 0;
  TS_TRY(check_pointer("bits", m.bits, any, "the mask"));
  TS_TRY(check_pointer("bias", bias, any && m.seqlen_k > 0, "the result"));
  for (std::int64_t b = 0; b < m.batch; ++b) TS_TRY(drafted(m, b));  // nothing is written where any is wrong

  for (std::int64_t b = 0; b < m.batch; ++b) {
    const Drafted sequence = *drafted(m, b);
    float* const own = bias + b * m.seqlen_q * m.seqlen_k;
    std::fill_n(own, m.seqlen_q * m.seqlen_k, 0.0F);
    const std::int64_t first = sequence.keys - sequence.queries;
    for (std::int64_t i = 0; i < sequence.queries; ++i) {
      const std::uint32_t* const words = m.bits + (sequence.first + i) * m.words;
      for (std::int64_t t = std::max<std::int64_t>(0, -first); t < sequence.queries; ++t)
        if ((words[t / 32] >> (t % 32) & 1) == 0)
          own[i * m.seqlen_k + first + t] = -std::numeric_limits<float>::infinity();
    }
  }
  return {};
}

}  // namespace tilesmith
