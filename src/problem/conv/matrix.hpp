// Convolutions that are products of matrices as they lie: a filter of one tap that meets every pixel.
#pragma once

#include <optional>

#include "tilesmith/conv.hpp"
#include "tilesmith/gemm.hpp"

namespace tilesmith {

/// Whether there is one tap, which meets every pixel of an image whose tensors are not unaligned.
[[nodiscard]] bool is_pointwise(const ConvProblem& problem);

/// The product that the problem is; its batch are the groups. Nothing where it is none: more taps, a stride, padding,
/// unaligned tensors, no images, or vectors of an epilogue that differ from group to group.
///
///                     a                    b                  d
///   forward           x (pixels x c)       w^T (c x k)        y (pixels x k)
///   backward data     y (pixels x k)       w (k x c)          x (pixels x c)
///   backward weight   y^T (k x pixels)     x (pixels x c)     w (k x c)
[[nodiscard]] std::optional<GemmProblem> gemm_of(const ConvProblem& problem);

/// A call's arguments as those of its product.
[[nodiscard]] GemmArguments gemm_arguments(const ConvProblem& problem, const ConvArguments& arguments);

}  // namespace tilesmith
