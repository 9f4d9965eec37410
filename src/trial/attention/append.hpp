// What a call appends in a trial: new keys and values, made from what the cache holds when the call has ended.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "base/host_array.hpp"
#include "base/random.hpp"
#include "problem/attention/numbers.hpp"
#include "tilesmith/attention.hpp"
#include "trial/attention/pages.hpp"
#include "trial/call_memory.hpp"

namespace tilesmith {

/// Angles are quarters of a circle, so that a turned row is exact and every kernel writes the same bits: the caches as
/// a call finds them lack the new rows, and after it they must be those that the reference attends to, bit for bit.
struct RandomAppend {
  /// The tensors that a call attends to: queries already turned.
  struct Attended {
    HostArray &q, &k, &v;
  };

  HostArray q;               ///< as a call is given them
  HostArray q_out, q_after;  ///< where they go, and what it holds then: queries of padding stay where they are
  HostArray k_new, v_new;
  HostArray k_cache, v_cache;  ///< as a call finds them
  std::vector<float> cos, sin, k_scale, v_scale;
  std::vector<std::int32_t> lengths_before;

  /// Rounds the new rows of `from` to the queries' type, and takes what a call is given from them.
  [[nodiscard]] static Result<RandomAppend> take(const AttentionProblem& problem, const AttentionNumbers& numbers,
                                                 const RandomPages& pages, std::span<const std::int32_t> cu_seqlens_q,
                                                 Attended from, RandomStream stream);
  /// Makes the caches that a call finds: these, in pages of rows, without the new rows.
  void hide(const HostArray& k, const HostArray& v);
  /// The same of scales by page, head and row.
  void hide_scales(std::span<const float> k, std::span<const float> v);

  /// Puts what a call finds in place of what it leaves, and adds "q_out", "k_new", "v_new", "cos", "sin",
  /// "seqlens_before".
  void tell(std::vector<NamedInput>& inputs) const;
  [[nodiscard]] AttentionAppend arguments(const AttentionProblem& problem, const AttentionNumbers& numbers,
                                          const CallMemory& memory, std::int64_t total_q) const;

 private:
  struct Token {
    std::int64_t member, row;  // of q: the sequence, or 0 where they are packed
    std::int64_t page, page_row, position;
  };
  [[nodiscard]] std::vector<float> turned_back(const Token& token, std::span<const float> row, RotaryStyle style) const;
  [[nodiscard]] std::int64_t at(std::int64_t member, std::int64_t head, std::int64_t row, std::int64_t heads,
                                std::int64_t rows) const;

  AttentionLayout layout_ = AttentionLayout::bhsd;
  std::int64_t heads_kv_ = 0, page_size_ = 0, rotary_dim_ = 0;
  std::vector<Token> tokens_;
};

}  // namespace tilesmith
