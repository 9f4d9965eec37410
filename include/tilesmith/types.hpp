// The types a problem is described with.
#pragma once

#include <cstdint>

namespace tilesmith {

/// Data types of tensor elements, and of operations whose inputs and outputs differ (fp8bf16 reads fp8 and writes
/// bf16). The compound names are those of Composable Kernel, so that AMD users find what they know.
enum class DataType : std::uint8_t {
  fp32,
  fp16,
  bf16,
  fp8,  ///< e4m3
  bf8,  ///< e5m2
  int8,
  int4,
  int32,
  tf32,  ///< fp32 in memory, 10 mantissa bits in the product
  fp64,
  fp8fp16,  ///< fp8 inputs, fp16 output
  fp8bf16,  ///< fp8 inputs, bf16 output
  fp8fp32,  ///< fp8 inputs, fp32 output
  mxfp8,    ///< fp8 with one e8m0 scale per 32 elements
  mxfp4,    ///< fp4 with one e8m0 scale per 32 elements
  pk_fp4,   ///< two fp4 values in a byte
};

/// batch: all sequences have one length. group: variable lengths, given by cumulative offsets.
enum class SequenceMode : std::uint8_t { batch, group };

/// top_left and bottom_right are causal: query i sees keys j <= i + o, with o = 0 or o = seqlen_k - seqlen_q.
/// Two kinds exist in kernels only, both with bounds and diagonal given at run time: generic, a window bounded on both
/// sides, covers all the others; causal, bounded on the right and open on the left, covers top_left and bottom_right.
enum class MaskKind : std::uint8_t { none, top_left, bottom_right, generic, causal };

enum class BiasKind : std::uint8_t { none, elementwise, alibi };

/// row: the elements of a row are neighbours in memory; column: those of a column.
enum class MatrixOrder : std::uint8_t { row, column };

/// GEMM, when the members of a batch have different numbers of rows, known on the device only.
/// contiguous: the rows of all groups lie behind one another in one A and one D. masked: every group has an A and a D
/// of its own with room for m rows.
enum class GemmGrouping : std::uint8_t { none, contiguous, masked };

/// Which of a convolution's three tensors is computed from the other two.
enum class ConvDirection : std::uint8_t {
  forward,          ///< y of x and w
  backward_data,    ///< x (its gradient) of y and w; a transposed convolution
  backward_weight,  ///< w (its gradient) of x and y
};

/// Elements of keys and values in a cache, where they are not those of the queries: 8 bits, and a scale.
enum class KvElements : std::uint8_t { as_queries, fp8, int8 };

/// What the same call on the same device may give from run to run.
enum class Determinism : std::uint8_t {
  bitwise,   ///< the same bits
  tolerant,  ///< sums may be added up in any order, and so rounded otherwise, where that is faster
};

}  // namespace tilesmith
