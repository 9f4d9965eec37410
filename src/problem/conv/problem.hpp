// From a convolution problem to the signature of the kernels that compute it, and to the arguments a kernel reads.
#pragma once

#include "kernels/cpu/conv/abi.h"
#include "tilesmith/conv.hpp"
#include "tilesmith/device.hpp"
#include "vocabulary/signature.hpp"

namespace tilesmith {

/// The signature of the kernels for the problem. Sizes, strides and the epilogue are run-time numbers.
[[nodiscard]] ConvSignature signature_of(const ConvProblem& problem);

/// Taps of a filter; pixels of x and of y in the whole batch.
[[nodiscard]] std::int64_t taps_of(const ConvProblem& problem);
[[nodiscard]] std::int64_t pixels_of_x(const ConvProblem& problem);
[[nodiscard]] std::int64_t pixels_of_y(const ConvProblem& problem);

/// Twice the products of all taps with all pixels of y, those with the border included.
[[nodiscard]] double flops_of(const ConvProblem& problem);
/// Bytes of x, w and y, each once.
[[nodiscard]] double bytes_of(const ConvProblem& problem);

/// The type of a result that is not named: fp32 of int8, bf16 of fp8.
[[nodiscard]] DataType usual_type_out(DataType data_type);

/// Whether the problem's result has no elements.
[[nodiscard]] bool is_empty(const ConvProblem& problem);

/// Checks one call's arguments against its problem.
[[nodiscard]] Status validate(const ConvProblem& problem, const ConvArguments& arguments);

/// What packing w depends on: the problem with packed_w and without all that its panels do not depend on.
[[nodiscard]] ConvProblem packing_of(const ConvProblem& problem);

/// Checks the filters that are to be packed, and where to: `packed_bytes` are written there.
[[nodiscard]] Status validate_packing(const ConvProblem& problem, const void* w, const ConvStrides& strides,
                                      const void* packed, std::size_t packed_bytes);

/// What kernels of every backend read of a problem and a call (kernels/contract/conv.h).
[[nodiscard]] TsConvCall kernel_call(const ConvProblem& problem, const ConvArguments& arguments);
[[nodiscard]] TsConvStrides kernel_strides(const ConvStrides& strides);

/// The structure a CPU kernel reads; it refers to the arguments' epilogue. `workspace` is shared by all tasks.
[[nodiscard]] TsConvArgs cpu_arguments(const ConvProblem& problem, const ConvArguments& arguments, int threads,
                                       void* workspace);

}  // namespace tilesmith
