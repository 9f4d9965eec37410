// Runs a kernel on poisoned outputs between red zones and judges what it left there: the same for every operation and
// device.
#pragma once

#include <span>

#include "base/error.hpp"
#include "base/function_ref.hpp"
#include "verify/guarded_buffer.hpp"
#include "verify/output.hpp"
#include "verify/reference.hpp"

namespace tilesmith {

/// Makes a buffer for each output, in their order, lets `run` write into them, looks for writes outside the outputs'
/// elements, and judges the elements. Errors: those of `run`.
[[nodiscard]] Result<Verdict> verify_guarded(std::span<const OutputSpec> outputs, const Reference& reference,
                                             FunctionRef<Status(std::span<GuardedBuffer> buffers)> run);

}  // namespace tilesmith
