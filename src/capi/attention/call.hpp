// One call's structure as the C++ interface's problem and arguments.
#pragma once

#include <cstdint>

#include "base/error.hpp"
#include "tilesmith.h"
#include "tilesmith/attention.hpp"
#include "tilesmith/device.hpp"

namespace tilesmith::capi {

/// The caller's structure, checked, with every field the library knows. `room` takes the copy of a call from a program
/// of before the scales, the diagonal, the options, the pages, the splits, or the cache were added.
[[nodiscard]] Result<const tilesmith_attention*> whole_call(const tilesmith_attention* call, tilesmith_attention& room);

/// Errors: invalid_argument, a number that is no value of its enumeration, or a field set that no trait asks for.
[[nodiscard]] Result<AttentionProblem> problem_of(const tilesmith_attention& call, Device device);
/// Errors: invalid_argument, offsets beyond the tensors' rows, where the processor can read them.
[[nodiscard]] Result<AttentionArguments> arguments_of(const tilesmith_attention& call, Device device);

[[nodiscard]] AttentionStrides strides_of(const tilesmith_strides& strides);
[[nodiscard]] BiasStrides strides_of(const tilesmith_bias_strides& strides);
[[nodiscard]] tilesmith_strides in_c(const AttentionStrides& strides);
[[nodiscard]] tilesmith_bias_strides in_c(const BiasStrides& strides);
/// Errors: invalid_argument, no tilesmith_layout.
[[nodiscard]] Result<AttentionLayout> layout_of(std::int32_t layout);
/// Whether the tensor's rows are no whole 16 bytes, or do not begin at them.
[[nodiscard]] bool tensor_is_unaligned(const void* pointer, const tilesmith_strides& strides, int element_bits);

}  // namespace tilesmith::capi
