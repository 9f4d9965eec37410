// Types and epilogues in the words of kernels/gpu/gemm/words.h, which all GPU templates of products read.
#pragma once

#include "base/error.hpp"
#include "codegen/constants_table.hpp"
#include "vocabulary/signature.hpp"

namespace tilesmith {

/// The number of an element type. Errors: unsupported, for a type that no GPU template carries.
[[nodiscard]] Result<int> gemm_type_number(DataType type);

/// The constants of an epilogue whose tensors and bias have these types: kEpilogue, kEpilogueTypes, kEpilogueLength.
[[nodiscard]] Status add_gemm_epilogue(ConstantsTable& table, const GemmEpilogue& epilogue, DataType tensors,
                                       DataType bias);

}  // namespace tilesmith
