// Enumeration of own GEMM instances for AMD GPUs: which signatures the template of kernels/hip/gemm carries, and which
// tiles a chip holds. Composable Kernel's are ck.hpp.
//
// `vector` of the algorithm is how wide memory is accessed: A and B 16 bytes at a time or by elements; D and what the
// epilogue reads by runs of four elements or one by one. So it says what alignment a call must have.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "instances/gemm/hip_resources.hpp"
#include "instances/gemm/variants.hpp"
#include "instances/rule.hpp"
#include "instances/sink.hpp"
#include "spec/hip/spec.hpp"

namespace tilesmith {

/// What the rules look at.
struct HipGemmSubject {
  const KernelConfig& config;
  const HipSpec& spec;

  [[nodiscard]] const GemmSignature& signature() const { return std::get<GemmSignature>(config.signature); }
  [[nodiscard]] const Algorithm& algorithm() const { return config.algorithm; }
  /// The instruction; null where the chip has none for the types and the side.
  [[nodiscard]] const HipFragment* fragment() const { return spec.fragment(signature().a, config.algorithm.warp[0]); }
};

[[nodiscard]] std::span<const Rule<HipGemmSubject>> hip_gemm_rules();

/// The algorithm that a row of the tile table stands for, with the widest accesses.
[[nodiscard]] Algorithm hip_gemm_algorithm(const HipSpec& spec, const GemmSignature& signature,
                                           const HipGemmTile& tile);

/// Elements of A, B and D that are accessed at a time.
using HipGemmWidths = std::array<std::uint8_t, 3>;
/// The widths of access, the widest first.
[[nodiscard]] std::vector<HipGemmWidths> hip_gemm_widths(const GemmSignature& signature);

/// The instances of one architecture for one signature: every tile and width of access that the rules accept, in the
/// tile table's order.
void enumerate_hip_gemm(const HipSpec& spec, const GemmSignature& signature, ConfigSink sink);

/// The plain signatures that listings hold, of one layout by the letters of A, B and D ("rcr"; empty: all four).
void listed_gemm_signatures(const HipSpec& spec, std::string_view layout, GemmSignatureSink sink);

}  // namespace tilesmith
