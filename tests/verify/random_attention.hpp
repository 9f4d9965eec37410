// A random attention problem that owns its tensors, for tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "verify/attention/tensors.hpp"

namespace tilesmith {

/// What to make; every field has a plain default, so that a test names only what it is about.
struct CaseOptions {
  ElementType type = ElementType::fp32;
  std::int64_t batch = 2, heads_q = 4, heads_kv = 2, seqlen_q = 9, seqlen_k = 13, head_dim_qk = 8, head_dim_v = 6;
  bool group = false;         ///< random lengths up to seqlen_q, seqlen_k, some of them 0
  bool heads_inside = false;  ///< (batch, seqlen, heads, dim) instead of (batch, heads, seqlen, dim)
  std::int64_t row_gap = 0;   ///< unused elements after each row
  bool bias = false, alibi = false, sink = false;
  bool bias_broadcast = false;  ///< one bias for all batches and heads
  std::int64_t window_left = -1, window_right = -1;
  bool bottom_right = false;
  float soft_cap = 0;
  std::uint32_t drop_threshold = 0;
  float scale = 0;  ///< 0: 1 / sqrt(head_dim_qk)
  std::uint64_t seed = 1;
};

class RandomAttention {
 public:
  explicit RandomAttention(const CaseOptions& options);
  RandomAttention(const RandomAttention&) = delete;
  RandomAttention& operator=(const RandomAttention&) = delete;

  /// Sets element (b, h, row, column) of q, k or v; rows count within the sequence.
  void set(TensorView& view, std::int64_t b, std::int64_t h, std::int64_t row, std::int64_t column, double value);
  [[nodiscard]] double get(const TensorView& view, std::int64_t b, std::int64_t h, std::int64_t row,
                           std::int64_t column) const;

  AttentionTensors tensors;
  std::vector<float> bias, alibi, sink;
  std::vector<std::int32_t> cu_seqlens_q, cu_seqlens_k;

 private:
  TensorView make(const CaseOptions& options, std::vector<std::byte>& storage, std::int64_t heads, std::int64_t rows,
                  std::int64_t columns, std::uint64_t stream);
  std::int64_t offset(const TensorView& view, std::int64_t b, std::int64_t h, std::int64_t row,
                      std::int64_t column) const;

  std::vector<std::byte> q_, k_, v_;
};

/// A random choice of sizes and traits for `type`, reproducible from `seed`; sizes stay small.
[[nodiscard]] CaseOptions random_options(ElementType type, std::uint64_t seed);
[[nodiscard]] std::string describe(const CaseOptions& options);

}  // namespace tilesmith
