// Images of three dimensions whose outer coordinate no tap moves along: each slice is an image of two dimensions.
#pragma once

#include <optional>

#include "tilesmith/conv.hpp"

namespace tilesmith {

/// The same convolution of slices. Nothing where the outer coordinate has a filter, a stride or padding, or is one
/// pixel, or slices are not evenly apart over all images.
[[nodiscard]] std::optional<ConvProblem> images_of_slices(const ConvProblem& problem);

/// The arguments of a call of `problem`, of which there are such images, as those of a call of them.
[[nodiscard]] ConvArguments arguments_of_slices(const ConvProblem& problem, const ConvArguments& arguments);

}  // namespace tilesmith
