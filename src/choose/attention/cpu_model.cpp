#include "choose/attention/cpu_model.hpp"

#include <algorithm>
#include <numeric>

#include "choose/attention/cpu_terms.hpp"
#include "choose/rounding.hpp"
#include "problem/attention/problem.hpp"

namespace tilesmith {
namespace {

constexpr double kTaskCycles = 2000;  // of a generic kernel; a call without work

/// A generic kernel, for which nothing was fitted: beside others it comes last.
double generic_seconds(const AttentionProblem& p, double rows, const KernelConfig& config, const CpuSpec& spec,
                       int threads) {
  constexpr double kShare = 0.25;  // of the lanes' products: a broadcast and a load for each two
  constexpr double kSoftmaxCycles = 24, kConvertCycles = 2, kRescaleCycles = 3;
  const double lanes = spec.vector_bits_per_cycle / 32.0, dims = static_cast<double>(p.head_dim_qk + p.head_dim_v);
  const double m = config.algorithm.tile[0], n = config.algorithm.tile[1];
  const double tiles = static_cast<double>(p.batch * p.heads_q) * ceil_div(static_cast<double>(p.seqlen_q), m);
  // A masked tile sees a ragged edge on each bounded side: half a tile and half a block more than its rows' average.
  const bool masked = signature_of(p).mask == MaskKind::generic;
  const double keys = std::min(static_cast<double>(p.seqlen_k), visible_pairs(p) / rows + (masked ? (m + n) / 2 : 0));
  const double pairs = tiles * m * ceil_div(keys, n) * n;
  const double per_pair = dims / (kShare * lanes) + kSoftmaxCycles / lanes + dims * kConvertCycles / (lanes * m) +
                          static_cast<double>(p.head_dim_v) * kRescaleCycles / (lanes * n);
  const double cycles = pairs * per_pair + tiles * kTaskCycles + bytes_of(p) / spec.memory_bytes_per_cycle;
  return cycles / tiles * ceil_div(tiles, static_cast<double>(threads)) / spec.clock_hz;
}

}  // namespace

double predicted_seconds(const AttentionProblem& p, const KernelConfig& config, const CpuSpec& spec, int threads) {
  const double rows = static_cast<double>(p.batch * p.heads_q) * static_cast<double>(p.seqlen_q);
  if (rows == 0 || p.seqlen_k == 0) return kTaskCycles / spec.clock_hz;
  const CpuAttentionTerms* cycles =
      spec.attention_model.coefficients(config.algorithm.pipeline, config.attention().data_type);
  if (cycles == nullptr) return generic_seconds(p, rows, config, spec, threads);
  const CpuAttentionTerms terms = cpu_attention_terms(p, config, spec, threads);
  return std::inner_product(terms.begin(), terms.end(), cycles->begin(), 0.0);
}

}  // namespace tilesmith
