// Where enumerations send their instances: one call per config, in enumeration order. The config belongs to the
// enumerator and changes after the call, so a list of any length is walked in constant memory.
#pragma once

#include "base/function_ref.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// Returns false to stop the enumeration.
using ConfigSink = FunctionRef<bool(const KernelConfig&)>;
using AttentionSignatureSink = FunctionRef<bool(const AttentionSignature&)>;
using GemmSignatureSink = FunctionRef<bool(const GemmSignature&)>;

}  // namespace tilesmith
