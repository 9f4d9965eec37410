// A GEMM signature in the words of kernels/gpu/gemm/words.h, which all GPU templates read.
#pragma once

#include "base/error.hpp"
#include "codegen/constants_table.hpp"
#include "vocabulary/signature.hpp"

namespace tilesmith {

/// The number of an element type. Errors: unsupported, for a type that no GPU template carries.
[[nodiscard]] Result<int> gemm_type_number(DataType type);

/// The constants of the epilogue: kEpilogue, kEpilogueTypes, kEpilogueLength.
[[nodiscard]] Status add_gemm_epilogue(ConstantsTable& table, const GemmSignature& signature);

}  // namespace tilesmith
