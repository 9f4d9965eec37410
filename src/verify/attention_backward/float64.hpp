// Attention backward in float64, from inputs already rounded to their storage type, o and lse included: what every
// kernel is compared with. The formulas stand in include/tilesmith/attention_backward.hpp.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.hpp"
#include "verify/attention/tensors.hpp"

namespace tilesmith {

/// One attention-backward call as the checks see it.
struct AttentionBackwardTensors {
  AttentionTensors forward;
  TensorView o, dout;
  const float* lse = nullptr;
  TensorStrides lse_strides{};
  const float* dlse = nullptr;  ///< null: 0
  TensorStrides dlse_strides{};
  bool dbias = false, dalibi = false, dsink = false;  ///< which of these are wanted
  /// Of dbias: whether (batch, head, row, column) has its own size, or is summed over.
  bool dbias_batch = false, dbias_head = true, dbias_row = true, dbias_column = true;
  bool dalibi_batch = false;

  /// Elements of dbias along each dimension.
  [[nodiscard]] TensorExtents dbias_extents() const {
    return {dbias_batch ? forward.batch : 1, dbias_head ? forward.heads_q : 1, dbias_row ? forward.seqlen_q : 1,
            dbias_column ? forward.seqlen_k : 1};
  }
};

/// A gradient with what its error bound needs.
struct Gradient64 {
  std::vector<double> values;
  std::vector<float> spread;  ///< per element: the root of the sum of its terms' squares
  std::vector<float> total;   ///< per element: the sum of its terms' sizes, each with its row's size of logits

  void resize(std::size_t count) {
    values.assign(count, 0);
    spread.assign(count, 0);
    total.assign(count, 0);
  }
};

/// dq in the order of output_row; dk and dv by (batch, heads_kv, seqlen_k), or (heads_kv, total_k) in group mode;
/// dbias by its extents; dalibi by (batch or 1, heads_q).
struct Float64AttentionBackward {
  Gradient64 dq, dk, dv, dbias, dalibi, dsink;
};

/// threads = 0: as many as the machine has. The result does not depend on it.
[[nodiscard]] Result<Float64AttentionBackward> float64_attention_backward(const AttentionBackwardTensors& tensors,
                                                                          unsigned threads = 0);

/// The row of dk and dv that key j of sequence b has.
[[nodiscard]] std::int64_t key_row(const AttentionTensors& tensors, std::int64_t b, std::int64_t head_kv,
                                   std::int64_t j);
[[nodiscard]] std::int64_t key_rows(const AttentionTensors& tensors);

}  // namespace tilesmith
