// Enumeration of NVIDIA GEMM instances: which signatures the templates of kernels/cuda/gemm carry, and which tiles a
// chip holds.
//
// `vector` of the algorithm is how wide memory is accessed: A and B 16 bytes at a time or by elements; D and what the
// epilogue reads by 16 bytes (the copy engine's), by pairs, or by elements. So it says what alignment a call must have.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "instances/gemm/cuda_resources.hpp"
#include "instances/gemm/variants.hpp"
#include "instances/rule.hpp"
#include "instances/sink.hpp"
#include "spec/cuda/spec.hpp"

namespace tilesmith {

/// What the rules look at.
struct CudaGemmSubject {
  const KernelConfig& config;
  const CudaSpec& spec;

  [[nodiscard]] const GemmSignature& signature() const { return std::get<GemmSignature>(config.signature); }
  [[nodiscard]] const Algorithm& algorithm() const { return config.algorithm; }
  [[nodiscard]] int tile_m() const { return config.algorithm.tile[0]; }
  [[nodiscard]] int tile_n() const { return config.algorithm.tile[1]; }
  [[nodiscard]] int tile_k() const { return config.algorithm.tile[2]; }
  /// Those given, or worked out once for all rules: a new problem is ranked by asking some hundred subjects.
  [[nodiscard]] const CudaGemmResources& facts() const {
    if (given_facts != nullptr) return *given_facts;
    if (!found_facts) found_facts = cuda_gemm_resources(config);
    return *found_facts;
  }

  const CudaGemmResources* given_facts = nullptr;  ///< the config's
  mutable std::optional<CudaGemmResources> found_facts = {};
};

using CudaGemmRules = std::span<const Rule<CudaGemmSubject>>;

[[nodiscard]] CudaGemmRules cuda_gemm_rules();
/// The first of them, which look at signature and pipeline alone; those that look at all but the widths of access and
/// ask for two stages; and the others.
[[nodiscard]] CudaGemmRules cuda_gemm_signature_rules();
[[nodiscard]] CudaGemmRules cuda_gemm_tile_rules();
[[nodiscard]] CudaGemmRules cuda_gemm_access_rules();
/// Those of the last that look at the number of stages.
[[nodiscard]] CudaGemmRules cuda_gemm_stage_rules();

/// The fewest stages a pipeline of copies has.
inline constexpr int kFewestStages = 2;
/// Gives a config that the tile rules accept as many stages as the access rules let it have, `most` at the most; false
/// when they refuse the fewest.
[[nodiscard]] bool give_stages(KernelConfig& config, const CudaSpec& spec, int most);

/// The instances of one architecture for one signature: every pipeline, tile and width of access that the rules accept,
/// each once, in the tile table's order.
void enumerate_cuda_gemm(const CudaSpec& spec, const GemmSignature& signature, ConfigSink sink);

/// Elements of A, B and D that are accessed at a time.
using CudaGemmWidths = std::array<std::uint8_t, 3>;

/// The widths of access of a pipeline, the widest first.
[[nodiscard]] std::vector<CudaGemmWidths> cuda_gemm_widths(const GemmSignature& signature, Pipeline pipeline);

/// The plain signatures that listings hold, of one layout by the letters of A, B and D ("rcr"; empty: all four): every
/// data type, the results usual for it, the epilogues of the spec.
void listed_gemm_signatures(const CudaSpec& spec, std::string_view layout, GemmSignatureSink sink);

/// The instances of one architecture and layout, by the letters of A, B and D ("rcr"; empty: all four), of the plain
/// signatures.
void enumerate_cuda_gemm(const CudaSpec& spec, std::string_view layout, ConfigSink sink);

}  // namespace tilesmith
