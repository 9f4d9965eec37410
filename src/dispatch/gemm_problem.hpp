// What every backend asks of a GEMM problem: its size, its identity, and whether a call's arguments fit it.
#pragma once

#include <cstdint>

#include "tilesmith/gemm.hpp"

namespace tilesmith {

/// 2 m n k floating-point operations for each member of the batch.
[[nodiscard]] double flops_of(const GemmProblem& problem);
/// Bytes of A, B, D, of C where it is read and of the epilogue's tensors, each once.
[[nodiscard]] double bytes_of(const GemmProblem& problem);

/// Checks one call's arguments against its problem: pointers that must be there, leading dimensions shorter than a row,
/// offsets that overflow, memory that D must not share, numbers out of range.
[[nodiscard]] Status validate(const GemmProblem& problem, const GemmArguments& arguments);

/// A hash of all fields, equal for equal problems within a process.
[[nodiscard]] std::uint64_t hash_of(const GemmProblem& problem);

}  // namespace tilesmith
