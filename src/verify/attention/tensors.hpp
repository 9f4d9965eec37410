// One attention-forward call as the checks see it: where its tensors lie and what it asks for.
//
// Every field means what it means in TsAttentionCall (kernels/contract/attention.h). Which keys a row sees and which
// pairs dropout keeps is written here a second time, without code of the generator or of the kernels, so that a mistake
// there is found.
#pragma once

#include <cstdint>
#include <utility>

#include "base/error.hpp"
#include "verify/tensor_view.hpp"

namespace tilesmith {

/// Where the keys of sequences lie in k and v, whose batch strides then lead from page to page.
struct PageTable {
  std::int64_t page_size = 0;             ///< 0: there are no pages
  const std::int32_t* lengths = nullptr;  ///< [b]
  const std::int32_t* numbers = nullptr;  ///< null: page b is all of sequence b
  const std::int32_t* offsets = nullptr;  ///< null: row b of the table begins at b * stride
  std::int64_t stride = 0;
  std::int64_t num_pages = 0;
};

struct AttentionTensors {
  TensorView q, k, v;
  const float* bias = nullptr;  ///< [b][h][i][j] by bias_strides; null: no bias
  TensorStrides bias_strides{};
  const float* alibi = nullptr;  ///< slopes [b][h]; null: no ALiBi
  std::int64_t alibi_batch_stride = 0;
  const float* sink = nullptr;                 ///< [heads_q]; null: no sink
  const std::int32_t* cu_seqlens_q = nullptr;  ///< both set, or the first one with pages: group mode
  const std::int32_t* cu_seqlens_k = nullptr;
  PageTable pages;  ///< k and v are paged when it has a page_size

  std::int64_t batch = 1, heads_q = 1, heads_kv = 1;
  std::int64_t seqlen_q = 0, seqlen_k = 0;  ///< group mode: the maxima
  std::int64_t head_dim_qk = 0, head_dim_v = 0;
  std::int64_t window_left = -1, window_right = -1;  ///< negative: unbounded
  bool mask_bottom_right = false;
  std::int64_t diagonal = 0;  ///< what the window is moved by, to the right
  float scale = 1.0F;
  float soft_cap = 0.0F;  ///< 0: none
  std::uint64_t seed = 0, offset = 0;
  std::uint32_t drop_threshold = 0;  ///< of 65536; 0: no dropout
  bool tf32 = false;                 ///< of fp32 tensors: products may round their operands to tf32

  [[nodiscard]] bool group_mode() const { return cu_seqlens_q != nullptr; }
};

/// Where sequence b lies and how long it is.
struct SequenceSpan {
  std::int64_t q_begin = 0, k_begin = 0;  ///< first row in group mode, 0 in batch mode
  std::int64_t seqlen_q = 0, seqlen_k = 0;

  /// Added to a query's row to find its diagonal among the keys.
  [[nodiscard]] std::int64_t diagonal_offset(bool bottom_right) const { return bottom_right ? seqlen_k - seqlen_q : 0; }
};

/// Refuses calls without a meaning: negative sizes, heads that do not divide, offsets that decrease, missing data.
[[nodiscard]] Status check_tensors(const AttentionTensors& tensors);

[[nodiscard]] SequenceSpan sequence_of(const AttentionTensors& tensors, std::int64_t b);
/// The keys [first, last) that row i of a sequence sees; empty when first >= last.
[[nodiscard]] std::pair<std::int64_t, std::int64_t> visible_keys(const AttentionTensors& tensors,
                                                                 const SequenceSpan& sequence, std::int64_t i);
/// Where key j of sequence b begins in `view`, which is k or v, in elements.
[[nodiscard]] std::int64_t key_offset(const AttentionTensors& tensors, const TensorView& view, std::int64_t b,
                                      std::int64_t head_kv, std::int64_t j);
/// What the elements of key j of sequence b are multiplied by.
[[nodiscard]] double key_scale(const AttentionTensors& tensors, const TensorView& view, std::int64_t b,
                               std::int64_t head_kv, std::int64_t j);
/// Where query i of sequence b begins in `view`, in elements.
[[nodiscard]] std::int64_t query_offset(const AttentionTensors& tensors, const TensorView& view, std::int64_t b,
                                        std::int64_t head, std::int64_t i);
/// Whether dropout keeps the pair (i, j).
[[nodiscard]] bool keeps(const AttentionTensors& tensors, std::int64_t b, std::int64_t h, std::int64_t i,
                         std::int64_t j);

/// The rows of the output, counted over heads and sequences, are numbered in the order of a dense tensor: (batch,
/// heads_q, seqlen_q) in batch mode, (heads_q, total_q) in group mode. References, lse and error positions use this
/// numbering.
[[nodiscard]] std::int64_t output_rows(const AttentionTensors& tensors);
[[nodiscard]] std::int64_t output_row(const AttentionTensors& tensors, std::int64_t b, std::int64_t h, std::int64_t i);

/// The inverse of output_row.
struct RowPosition {
  std::int64_t b = 0, h = 0, i = 0;
};
[[nodiscard]] RowPosition row_position(const AttentionTensors& tensors, std::int64_t row);

}  // namespace tilesmith
