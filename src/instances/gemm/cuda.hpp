// Enumeration of NVIDIA GEMM instances: which signatures the templates of kernels/cuda/gemm carry, which tiles a chip
// holds, and in which order they are worth trying.
//
// `vector` of the algorithm is how wide memory is accessed: A and B 16 bytes at a time or by elements; D and what the
// epilogue reads by 16 bytes (the copy engine's), by pairs, or by elements. So it says what alignment a call must have.
#pragma once

#include <array>
#include <cstdint>
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
};

using CudaGemmRules = std::span<const Rule<CudaGemmSubject>>;

[[nodiscard]] CudaGemmRules cuda_gemm_rules();
/// The first of them, which look at signature and pipeline alone; those that look at all but the widths of access and
/// ask for two stages; and the others.
[[nodiscard]] CudaGemmRules cuda_gemm_signature_rules();
[[nodiscard]] CudaGemmRules cuda_gemm_tile_rules();
[[nodiscard]] CudaGemmRules cuda_gemm_access_rules();

/// The fewest stages a pipeline of copies has.
inline constexpr int kFewestStages = 2;
/// Gives a config that the tile rules accept as many stages as the access rules let it have, `most` at the most; false
/// when they refuse the fewest.
[[nodiscard]] bool give_stages(KernelConfig& config, const CudaSpec& spec, int most);

/// The sizes of a problem, as far as they decide between instances. All are at least 1, but for k.
struct CudaGemmShape {
  std::int64_t m = 1;
  std::int64_t n = 1;
  std::int64_t k = 1;
  std::int64_t batch = 1;
  bool unaligned = false;                      ///< a pointer, row or batch stride is no multiple of 16 bytes
  GemmGrouping grouping = GemmGrouping::none;  ///< contiguous: m rows of all members together
  std::int64_t k2 = 0;                         ///< of a second product; 0: there is none
  bool prefetch_weights = false;               ///< no kernel before, that may still run, writes B
};

/// Whether an instance computes problems of this shape: rows that a skinny kernel holds, columns and alignment that its
/// accesses suit.
[[nodiscard]] bool cuda_gemm_suits(const KernelConfig& config, const CudaGemmShape& shape);

/// Tiles of A x B, whole clusters of them, over the whole batch; of groups, the most there may be.
[[nodiscard]] std::int64_t cuda_gemm_tiles(const KernelConfig& config, const CudaGemmShape& shape);

/// Parts into which an instance that splits k cuts it: as many as should take the least time, up to the tile table's
/// number and one round of the chip; each has a stage of k. 1 for others.
[[nodiscard]] int cuda_gemm_splits(const KernelConfig& config, const CudaSpec& spec, const CudaGemmShape& shape);

/// How a launch divides a problem.
struct CudaGemmWork {
  std::int64_t items = 0;     ///< tiles, or parts of tiles: at most so many blocks have something to do
  std::int64_t blocks = 0;    ///< of the grid
  int splits = 1;             ///< parts of each tile
  std::int64_t places = 0;    ///< for parts of tiles, where those are shared; with split_k_atomic for their sums
  std::int64_t counters = 0;  ///< 32-bit words beside them
  bool b_first = false;       ///< of a step, B is asked for before A
  bool late_launch_dependents =
      false;  ///< a kernel that may overlap this one starts when blocks end, not when they begin
};
[[nodiscard]] CudaGemmWork cuda_gemm_work(const KernelConfig& config, const CudaSpec& spec, const CudaGemmShape& shape);

/// Whether blocks share tiles of this problem at all: k has steps for two parts, or stream-K's last round is not full.
[[nodiscard]] bool cuda_gemm_shares(const KernelConfig& config, const CudaSpec& spec, const CudaGemmShape& shape);

/// The instances of one architecture for one signature: every pipeline, tile and width of access that the rules accept,
/// each once, in the tile table's order.
void enumerate_cuda_gemm(const CudaSpec& spec, const GemmSignature& signature, ConfigSink sink);

/// Elements of A, B and D that are accessed at a time.
using CudaGemmWidths = std::array<std::uint8_t, 3>;

/// The widths of access of a pipeline, the widest first.
[[nodiscard]] std::vector<CudaGemmWidths> cuda_gemm_widths(const GemmSignature& signature, Pipeline pipeline);

/// Every instance that the rules accept whose tile has powers of two of 16 to 256 for its sides (of few rows 8 or 16
/// rows), whatever the tile table holds: all warps, stages, clusters, ways to share k and widths of access. With a
/// shape, of those that compute it the ones that its sizes do not make another's equal: no side is twice one that holds
/// all of m, n or k.
void exhaustive_cuda_gemm(const CudaSpec& spec, const GemmSignature& signature, const CudaGemmShape* shape,
                          ConfigSink sink);

/// The plain signatures that listings hold, of one layout by the letters of A, B and D ("rcr"; empty: all four): every
/// data type, the results usual for it, the epilogues of the spec.
void listed_gemm_signatures(const CudaSpec& spec, std::string_view layout, GemmSignatureSink sink);

/// The instances of one architecture and layout, by the letters of A, B and D ("rcr"; empty: all four), of the plain
/// signatures.
void enumerate_cuda_gemm(const CudaSpec& spec, std::string_view layout, ConfigSink sink);

struct RankedCudaGemm {
  KernelConfig config;
  double seconds = 0;  ///< estimated
};

/// The instances that compute a problem, with the widest accesses that suit it; the one to run first in front: streams
/// of few rows, the tile table's first choice for the shape, then the others by estimated time; behind them stream-K,
/// and what may give other bits from run to run. Empty when the rules refuse all.
[[nodiscard]] std::vector<RankedCudaGemm> ranked_cuda_gemm(const CudaSpec& spec, const GemmSignature& signature,
                                                           const CudaGemmShape& shape);

/// Seconds that an instance should take on the spec's reference chip (whose figures may be set to the device's at
/// hand): rounds of tiles over the SMs, or the time the matrices take to pass through memory.
[[nodiscard]] double estimated_seconds(const KernelConfig& config, const CudaSpec& spec, const CudaGemmShape& shape);

}  // namespace tilesmith
