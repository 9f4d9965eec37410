// A call that appends new keys and values before it attends, as the two calls that it is made of.
#pragma once

#include "tilesmith/attention.hpp"
#include "tilesmith/device.hpp"
#include "tilesmith/serving.hpp"

namespace tilesmith {

/// What is left to do when the new keys are in the cache: the problem itself where it appends nothing.
[[nodiscard]] AttentionProblem attended(const AttentionProblem& problem);
/// Its arguments: the queries are the turned ones.
[[nodiscard]] AttentionArguments attended(const AttentionProblem& problem, const AttentionArguments& arguments);

/// What comes before it. Of a problem with `append`.
[[nodiscard]] AppendKv append_of(const AttentionProblem& problem, const AttentionArguments& arguments,
                                 DeviceKind device);

/// Checks append_of a call whose other arguments have been checked. Errors: invalid_argument, unsupported.
[[nodiscard]] Status check_append(const AttentionProblem& problem, const AttentionArguments& arguments,
                                  DeviceKind device);

}  // namespace tilesmith
