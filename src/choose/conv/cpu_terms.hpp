// What a CPU convolution kernel does, counted: the terms of the model that predicts its seconds
// (src/spec/cpu/conv_model.hpp).
//
// The counts follow the templates (kernels/cpu/conv): how they cut a problem into micro-tiles, panels and tasks, what
// they read as it lies and what they copy. Of backward data with a stride all phases are taken for their mean.
#pragma once

#include "spec/cpu/spec.hpp"
#include "tilesmith/conv.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// Seconds at a cycle of the level's clock for each of what is counted, of a call on one thread with channels last.
[[nodiscard]] CpuConvTerms cpu_conv_terms(const ConvProblem& problem, const KernelConfig& config, const CpuSpec& spec);

}  // namespace tilesmith
