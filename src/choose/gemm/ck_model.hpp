// What Composable Kernel's GEMM instances, and its convolutions as such, are predicted to take, from the public figures
// of the chip. Nothing of it was measured: no AMD GPU was at hand.
#pragma once

#include "choose/gemm/compute_unit_model.hpp"
#include "spec/amd/facts.hpp"
#include "vocabulary/algorithm.hpp"
#include "vocabulary/traits.hpp"

namespace tilesmith {

/// `type` is that of both matrices.
[[nodiscard]] double ck_gemm_seconds(const Algorithm& algorithm, DataType type, const CkFacts& facts,
                                     const ComputeUnitProduct& product);

/// Of a stream-K kernel: the type of both matrices and of the result, and how shared tiles are joined.
struct CkStreamK {
  DataType type, result;
  StreamKReduction reduction;
};
[[nodiscard]] double ck_stream_k_seconds(const Algorithm& algorithm, const CkStreamK& how, const CkFacts& facts,
                                         const ComputeUnitProduct& product);

}  // namespace tilesmith
