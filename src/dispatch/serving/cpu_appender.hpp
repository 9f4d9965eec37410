// New keys and values on their way into a cache on the CPU, as independent tasks: of append_kv, and of attention on
// what it appends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/host_array.hpp"
#include "tilesmith/serving.hpp"

namespace tilesmith {

class CpuAppender {
 public:
  /// Of a call that was accepted.
  explicit CpuAppender(const AppendKv& call);

  /// In any order and several at a time: each has some of the heads of one token.
  [[nodiscard]] long long tasks() const { return c_.batch * c_.seqlen * parts_; }
  void run(long long task) const;

 private:
  struct Token {
    std::int64_t batch, row;  // of q, k and v; batch 0 where sequences are packed
    std::int64_t sequence;
    std::int64_t page, page_row;  // page -1: written nowhere
    std::int64_t position;
  };
  /// Where the elements of a cache's row lie: `run` neighbours, and `step` elements on the next.
  struct Place {
    std::byte* to;
    std::int64_t run, step;
  };

  [[nodiscard]] Token token_of(std::int64_t b, std::int64_t t, std::int64_t index, std::int64_t row) const;
  void write_key(const Token& token, std::int64_t h, std::span<float> room) const;
  void write_value(const Token& token, std::int64_t h, std::span<float> room) const;
  [[nodiscard]] const std::byte* at(const void* tensor, const AttentionStrides& s, const Token& token,
                                    std::int64_t h) const;
  [[nodiscard]] Place key_place(const Token& token, std::int64_t h) const;
  [[nodiscard]] Place value_place(const Token& token, std::int64_t h) const;
  void store(std::span<const float> x, const Place& place) const;
  void scale(std::span<float> x, const AttentionScale& read, float* written, const AttentionStrides& written_strides,
             const Token& token, std::int64_t h) const;
  void load(const std::byte* from, std::int64_t position, std::span<float> x) const;

  AppendKv c_;
  ElementType type_, cache_type_;
  std::int64_t size_, cache_size_, unit_;
  std::int64_t parts_;  ///< of a token's heads
  bool copied_;         ///< rows that are not turned go to the cache as they are
};

}  // namespace tilesmith
