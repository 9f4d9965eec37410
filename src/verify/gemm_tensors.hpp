// One GEMM call as the checks see it. The meaning of every field is that of GemmArguments (include/tilesmith/gemm.hpp),
// restated here as code that uses nothing of the generator or of the kernels.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.hpp"
#include "tilesmith/gemm_epilogue.hpp"
#include "verify/tensor_view.hpp"

namespace tilesmith {

/// One operation of the epilogue. A vector is a view that stands still along the other dimension: stride 0.
struct GemmStep {
  EpilogueOp op = EpilogueOp::none;
  TensorView operand{};
  float low = 0, high = 0;
};

/// Element (i, j) of member b of a view lies at b * strides.batch + i * strides.row + j * strides.column. A is m x k, B
/// k x n, C m x n, whatever orders they are stored in.
struct GemmTensors {
  TensorView a, b, c;
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  float alpha = 1, beta = 0;
  std::vector<GemmStep> epilogue{};

  [[nodiscard]] bool gated() const;
  [[nodiscard]] std::int64_t columns_of_d() const { return gated() ? n / 2 : n; }
  [[nodiscard]] std::int64_t elements_of_d() const { return batch * m * columns_of_d(); }
};

/// Refuses calls that have no meaning: sizes below zero, missing data, gates on an odd number of columns.
[[nodiscard]] Status check_tensors(const GemmTensors& tensors);

/// Element (i, j) of member b.
[[nodiscard]] double element(const TensorView& view, std::int64_t b, std::int64_t i, std::int64_t j);

/// f of an activation, or of a gate.
[[nodiscard]] double activated(EpilogueOp op, double x);

}  // namespace tilesmith
