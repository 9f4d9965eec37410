// One GEMM's structure as the C++ interface's problem and arguments.
#pragma once

#include "base/error.hpp"
#include "tilesmith.h"
#include "tilesmith/device.hpp"
#include "tilesmith/gemm.hpp"

namespace tilesmith::capi {

/// The caller's structure, checked, with every field the library knows; `room` takes the copy of a shorter one.
[[nodiscard]] Result<const tilesmith_gemm*> whole_call(const tilesmith_gemm* call, tilesmith_gemm& room);

/// Errors: invalid_argument, a number that is no value of its enumeration, or a field set that nothing asks for.
[[nodiscard]] Result<GemmProblem> problem_of(const tilesmith_gemm& call, Device device);
[[nodiscard]] GemmArguments arguments_of(const tilesmith_gemm& call);

}  // namespace tilesmith::capi
