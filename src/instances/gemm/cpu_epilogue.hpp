// An epilogue in the terms of the CPU's GEMM kernels (kernels/cpu/gemm/abi.h), which know one order:
//
//   scales of rows and columns; beta * C; bias; activation or gate; added or multiplied tensors; clamp; amax
//
// Whatever fits that order is carried: a tensor added before the activation takes C's place when C is free, and a relu
// after it is a clamp.
#pragma once

#include <array>

#include "base/error.hpp"
#include "tilesmith/gemm_epilogue.hpp"

namespace tilesmith {

struct CpuGemmEpilogue {
  static constexpr int kMaxExtras = 4;  // TS_GEMM_MAX_EXTRAS

  // Where in the list each term stands; -1: it is absent.
  int row_scale = -1;
  int column_scale = -1;
  int c = -1;  ///< the tensor in C's place
  int bias = -1;
  int clamp = -1;
  std::array<int, kMaxExtras> extra{-1, -1, -1, -1};

  int extras = 0;
  bool extras_multiply = false;
  bool bias_along_m = false;
  EpilogueOp activation = EpilogueOp::none;  ///< of a gate, its function's
  bool gated = false;
  bool clamp_is_relu = false;
  bool amax = false;

  /// The same terms in the kernels' order, C left out: what tells kernels apart.
  [[nodiscard]] GemmEpilogue normal_form() const;
};

/// The terms of a problem's epilogue, whose C is there when `beta`. Errors: unsupported, with the operation that does
/// not fit.
[[nodiscard]] Result<CpuGemmEpilogue> cpu_gemm_epilogue(const GemmEpilogue& epilogue, bool beta);

/// The terms of a kernel, whose list is in normal form.
[[nodiscard]] Result<CpuGemmEpilogue> cpu_gemm_kernel_terms(const GemmEpilogue& normal);

}  // namespace tilesmith
