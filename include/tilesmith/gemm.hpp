// GEMM: the problem (what decides which kernel runs) and the arguments of one call (pointers, strides, run-time
// numbers).
//
//   D = epilogue(alpha * op(A) x op(B) + beta * C)        op(A) is m x k, op(B) is k x n, C is m x n; `batch` times
//
// Sums are fp32, or int32 (modulo 2^32) of int8. The epilogue (gemm_epilogue.hpp) is computed in fp32 and rounded once,
// to D's type. D is m x n, or m x n / 2 when the epilogue has a gate. A, B and D are of either order, and a layout is
// named by their letters: rcr (torch.nn.Linear: both along k), rrr, crr, ccr, and the same with a column-major D (rcc,
// rrc, crc, ccc), which C and the epilogue's tensors share. Such a D is the row-major result of the transposed product,
// D^T = op(B)^T x op(A)^T, and costs what that costs; it goes with neither gates, groups, scales along k, weights nor a
// packed B.
//
// m, n or batch of 0 computes nothing; k of 0 makes the products zeros.
//
// Groups (mixtures of experts): the members of the batch are groups, each with its own B and its own number of rows,
// which the call's `group_ends` tell: group g has rows start(g) .. group_ends[g] - 1.
//
//   contiguous   start(g) is group_ends[g - 1], and 0 for the first; A and D are one matrix each of m rows (the
//                capacity: the last end may be less), and so are C, the epilogue's tensors and vectors over m
//   masked       start(g) is 0; A, D, C, the tensors and vectors over m are one for each group, of m rows each
//
// Groups may be empty and may start at any row. Rows of D that belong to no group are left as they are. B, and vectors
// over n, step by their batch strides from group to group.
//
// Scales: with `group_size`, elements of k have scales in common, in blocks of that many.
//
//   8-bit floats   depth 128: row i of A has scale_a of (i, k / 128), columns j of B scale_b of (j / 128, k / 128), in
//                  fp32; D = sum over blocks q of scale_a(i, q) scale_b(j / 128, q) (A x B over block q)
//   weights        A is fp16 or bf16, B int8 or int4: element (k, j) of B stands for B(k, j) * scale_b(j, k / depth),
//                  taken in fp32 and rounded to A's type; with zero points for (B(k, j) - zero_b(j, k / depth)) *
//                  scale_b(j, k / depth). Two int4 share a byte, the one of lower k in its low half; they have their
//                  sign in two's complement, and k is even. Zero points are int8, beside int4 at most 119.
//                  Weights without a sign, as AWQ and GPTQ have them (0 .. 15 and 0 .. 255), are these with their top
//                  bit turned, and so are their zero points: q - z is (q - 8) - (z - 8), or 128 instead of 8
//
// Matrices with scales lie along k (rcr).
//
// Without `group_size` scale_a and scale_b are one number each, fp32, on the device like a matrix, or absent:
//
//   D = epilogue(alpha * scale_a * scale_b * op(A) x op(B) + beta * C)
//
// So a scale that the device has computed needs no copy to the host, and no vector. No plan depends on them. They are
// not read where alpha is 0, and go neither with an int32 D nor with a list's shared launches on CUDA devices.
//
// A second product: with `k2`, A2 (m x k2) and B2 (k2 x n), of A's and B's types, orders and batches, are multiplied
// too, and the sums go on:
//
//   D = epilogue(alpha * (op(A) x op(B) + op(A2) x op(B2)) + beta * C)
//
// It goes with neither groups, scales along k nor weights.
//
// Packed B: with `packed_b`, B is a buffer that Dispatcher::pack_b made of one matrix, which the batch shares. The
// CPU's kernels then read it as it is, call after call, whatever m and the epilogue are. It goes with neither groups,
// scales along k, weights nor a second product.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "tilesmith/error.hpp"
#include "tilesmith/gemm_epilogue.hpp"
#include "tilesmith/types.hpp"

namespace tilesmith {

/// Everything a plan depends on. Two equal problems have one plan. gemm_problem() fills in the usual types.
struct GemmProblem {
  DataType type_a = DataType::bf16;  ///< fp32, tf32 (fp32 in memory), fp16, bf16, fp8, bf8 or int8
  DataType type_b = DataType::bf16;  ///< A's; fp8 and bf8 mix; int8 and int4 weights of fp16 and bf16
  DataType type_c = DataType::bf16;  ///< of C and of the tensors that add and multiply read; int32 exactly where D is
  DataType type_d = DataType::bf16;  ///< fp32, fp16, bf16, fp8, bf8; of int8 also int32 and int8
  DataType type_bias = DataType::bf16;  ///< fp32, fp16 or bf16
  MatrixOrder order_a = MatrixOrder::row;
  MatrixOrder order_b = MatrixOrder::column;
  MatrixOrder order_d = MatrixOrder::row;  ///< of C, D and the epilogue's tensors
  std::int64_t m = 1;
  std::int64_t n = 1;  ///< columns of B; D has half of them when the epilogue has a gate
  std::int64_t k = 1;
  std::int64_t k2 = 0;  ///< columns of A2 and rows of B2, a second product; 0: there is none
  std::int64_t batch = 1;
  bool beta = false;                           ///< the call's beta is not 0
  GemmEpilogue epilogue{};                     ///< none where D is int32
  GemmGrouping grouping = GemmGrouping::none;  ///< `batch` counts the groups
  /// Elements of k that share a scale, 0 without scales. 8-bit floats: 128. Weights: a power of two from 32 on, or k.
  std::int64_t group_size = 0;
  DataType type_scale = DataType::fp32;  ///< of scales: fp32; of weights also A's
  bool packed_b = false;                 ///< B is what Dispatcher::pack_b made of a matrix of order_b; CPU
  bool zero_points = false;              ///< of weights: each scale has a zero point beside it
  /// A promise for CUDA devices: B (and B2) holds weights, which no kernel writes that may still be running in the
  /// stream when this one is launched. Kernels of few rows then begin to read B while the kernel before ends.
  bool prefetch_weights = false;
  bool unaligned = false;  ///< a pointer, row or batch stride is no multiple of 16 bytes; the CPU does not ask
  /// Beside unaligned: those of A and B alone. Of D, C and what the epilogue reads they are multiples of as many bytes
  /// as dense rows of n elements are, up to 16.
  bool aligned_d = false;

  [[nodiscard]] std::int64_t columns_of_d() const { return epilogue.gated() ? n / 2 : n; }

  friend bool operator==(const GemmProblem&, const GemmProblem&) = default;

  /// Calls visit(name, field) for every field in order: hashes, identities, JSON, CSV and command lines come from here.
  template <class Self, class Visitor>
  static constexpr void fields(Self& self, Visitor&& visit) {
    visit("type_a", self.type_a);
    visit("type_b", self.type_b);
    visit("type_c", self.type_c);
    visit("type_d", self.type_d);
    visit("type_bias", self.type_bias);
    visit("order_a", self.order_a);
    visit("order_b", self.order_b);
    visit("order_d", self.order_d);
    visit("m", self.m);
    visit("n", self.n);
    visit("k", self.k);
    visit("k2", self.k2);
    visit("batch", self.batch);
    visit("beta", self.beta);
    visit("epilogue", self.epilogue);
    visit("grouping", self.grouping);
    visit("group_size", self.group_size);
    visit("type_scale", self.type_scale);
    visit("packed_b", self.packed_b);
    visit("zero_points", self.zero_points);
    visit("prefetch_weights", self.prefetch_weights);
    visit("unaligned", self.unaligned);
    visit("aligned_d", self.aligned_d);
  }
};

/// The problem with inputs of one type and the usual others: D and C of `output` (absent: the inputs' own type; int32
/// for int8, bf16 for 8-bit floats, fp32 for tf32), a bias of D's type where that is a floating type of 16 bits or
/// more, else fp32.
[[nodiscard]] TILESMITH_API GemmProblem gemm_problem(DataType type, std::int64_t m, std::int64_t n, std::int64_t k,
                                                     std::optional<DataType> output = {});

/// What is wrong with the problem, or success. The message has the offending figures, the hint what would be right.
[[nodiscard]] TILESMITH_API Status validate(const GemmProblem& problem);

/// One matrix per member of the batch. Element (i, j) of member b is at index b * batch + i * leading + j of a
/// row-major matrix, at b * batch + j * leading + i of a column-major one. A batch stride of 0 shares the matrix,
/// and that of an only member is not read.
struct GemmOperand {
  const void* data = nullptr;
  std::int64_t leading = 0;  ///< of a packed B: the buffer's bytes, 0 where they are not known
  std::int64_t batch = 0;
};

/// Scales of blocks of k: that of row i of A (of column j of B, or of its columns 128 i ..), block q of k and member b
/// is at index b * batch + i * row + q * block.
struct GemmScales {
  const void* data = nullptr;
  std::int64_t row = 0;
  std::int64_t block = 0;
  std::int64_t batch = 0;  ///< of A: ignored with contiguous groups, where rows run on
};

/// What one operation of the epilogue reads.
struct EpilogueOperand {
  /// bias, scale: n or m elements behind one another; add, multiply: a matrix, of D's order
  const void* data = nullptr;
  std::int64_t leading = 0;  ///< of a matrix
  std::int64_t batch = 0;    ///< of a matrix, and of a vector with groups; 0 shares it
  float low = 0;             ///< of clamp
  float high = 0;
};

/// On a CUDA device every pointer is to memory the device can read. D may be C or a tensor of the epilogue, element for
/// element; it may overlap nothing else.
struct GemmArguments {
  GemmOperand a, b;
  GemmOperand a2, b2;  ///< with k2
  GemmOperand c;       ///< read when beta is not 0; int4 matrices count leading dimensions and strides in elements
  GemmScales scale_a;  ///< with group_size, of 8-bit floats; without, one number (no strides) or null
  GemmScales scale_b;  ///< with group_size; without, one number or null
  GemmScales zero_b;   ///< with zero_points: int8
  /// With groups: for each of them the first row beyond its last, rising (contiguous) and at most m. The CPU checks
  /// it; a CUDA kernel reads it on the device, and limits what is beyond.
  const std::int32_t* group_ends = nullptr;
  void* d = nullptr;
  std::int64_t d_leading = 0;
  std::int64_t d_batch = 0;
  std::array<EpilogueOperand, GemmEpilogue::kMax> epilogue{};  ///< in the order of the problem's
  float* amax = nullptr;  ///< one number for the call, not NaN and at least 0 beforehand
  float alpha = 1;        ///< 0 or 1 where D is int32; at 0, A, B, A2 and B2 are not read
  float beta = 0;         ///< a whole number where D is int32
};

/// Leading dimensions and batch strides of dense matrices: scales by rows of A and columns of B, blocks of k behind one
/// another; with groups, vectors over n (masked: over m too) that lie behind one another. A packed B has none.
[[nodiscard]] TILESMITH_API GemmArguments dense_arguments(const GemmProblem& problem);

}  // namespace tilesmith
