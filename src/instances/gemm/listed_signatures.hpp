// The plain GEMM signatures that listings of GPU kernels hold.
#pragma once

#include <span>
#include <string_view>

#include "instances/sink.hpp"

namespace tilesmith {

/// Every data type with the results usual for it and the epilogues, of one layout by the letters of A, B and D ("rcr";
/// empty: all four).
void listed_gemm_signatures(std::span<const DataType> types, std::span<const GemmEpilogue> epilogues,
                            std::string_view layout, GemmSignatureSink sink);

}  // namespace tilesmith
