// A convolution whose slices are images (problem/conv/slices.hpp), planned and run as one of these.
#pragma once

#include <memory>

#include "tilesmith/dispatcher.hpp"

namespace tilesmith {

[[nodiscard]] std::unique_ptr<ConvPlan> conv_by_slices(const ConvProblem& problem, std::unique_ptr<ConvPlan> images);

}  // namespace tilesmith
