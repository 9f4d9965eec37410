// What every backend asks of a GEMM problem: its size, its identity, and whether a call's arguments fit it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/function_ref.hpp"
#include "problem/fields.hpp"
#include "tilesmith/gemm.hpp"

namespace tilesmith {

/// Columns of B and elements of k that share a scale of 8-bit floats.
inline constexpr std::int64_t kBlockDepth = 128;

/// Whether B holds integer weights of a floating A.
[[nodiscard]] inline bool has_weights(const GemmProblem& p) {
  return (p.type_a == DataType::fp16 || p.type_a == DataType::bf16) &&
         (p.type_b == DataType::int8 || p.type_b == DataType::int4);
}
/// Elements that an element of the product is the sum of: k, and those of the second product.
[[nodiscard]] inline std::int64_t depth_of(const GemmProblem& p) {
  return p.k + p.k2;
}
/// Members that A, C, D and the epilogue's tensors have: contiguous groups share one.
[[nodiscard]] inline std::int64_t row_members(const GemmProblem& p) {
  return p.grouping == GemmGrouping::contiguous && p.batch > 0 ? 1 : p.batch;
}
/// Of an operation that reads a vector.
[[nodiscard]] inline bool is_along_n(EpilogueOp op) {
  return op == EpilogueOp::bias || op == EpilogueOp::scale_n;
}

/// 2 m n (k + k2) floating-point operations for each member of the batch; of groups, for as many rows as there is room
/// for.
[[nodiscard]] double flops_of(const GemmProblem& problem);
/// Bytes of A, B, A2, B2, D, of C where it is read, of scales and of the epilogue's tensors, each once.
[[nodiscard]] double bytes_of(const GemmProblem& problem);

/// Checks one call's arguments against its problem: pointers that must be there, leading dimensions shorter than a row,
/// offsets that overflow, memory that D must not share, numbers out of range.
[[nodiscard]] Status validate(const GemmProblem& problem, const GemmArguments& arguments);

/// A matrix in memory: `lines` rows of a row-major matrix or columns of a column-major one. Distances are in elements.
struct GemmLines {
  std::string_view name;
  const void* data = nullptr;
  std::int64_t batch = 1, batch_stride = 0;
  std::int64_t lines = 0, leading = 0, length = 0;
  std::int64_t element_bytes = 1;

  [[nodiscard]] bool empty() const { return batch == 0 || lines == 0 || length == 0; }
  /// Bytes from the first element to behind the last.
  [[nodiscard]] std::int64_t extent() const {
    return ((batch - 1) * batch_stride + (lines - 1) * leading + length) * element_bytes;
  }
};
/// Whether two matrices share a byte. Matrices whose lines lie at one distance in one buffer, side by side, do not.
[[nodiscard]] bool overlap(const GemmLines& x, const GemmLines& y);
/// Shows D, and then all else that a call reads or writes which validate() accepts; names are there while it shows.
/// Nothing where D has no elements.
void show_memory(const GemmProblem& problem, const GemmArguments& arguments,
                 FunctionRef<void(const GemmLines& lines, bool is_d)> show);

/// What packing B depends on: the problem with packed_b and without all that B's panels do not depend on.
[[nodiscard]] GemmProblem packing_of(const GemmProblem& problem);

/// Checks the matrix that is to be packed, and where to: `packed_bytes` are written there.
[[nodiscard]] Status validate_packing(const GemmProblem& problem, const GemmOperand& b, const void* packed,
                                      std::size_t packed_bytes);

/// Checks the ends of groups, in memory of the host: they rise, up to m.
[[nodiscard]] Status check_group_ends(const GemmProblem& problem, const std::int32_t* ends);

}  // namespace tilesmith
