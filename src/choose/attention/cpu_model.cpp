#include "choose/attention/cpu_model.hpp"

#include <algorithm>

#include "choose/rounding.hpp"
#include "problem/attention/problem.hpp"

namespace tilesmith {
namespace {

constexpr double kSoftmaxCycles = 24;
constexpr double kConvertCycles = 2;
constexpr double kRescaleCycles = 3;
constexpr double kAttentionTaskCycles = 2000;  // starting a task: packing Q, writing O

/// Multiplications and additions a cycle that the level's attention kernels reach with an instruction.
double products_per_cycle(const CpuSpec& spec, const Algorithm& algorithm) {
  constexpr double kGenericShare = 0.25;  // of the lanes' products: a broadcast and a load for each two
  if (algorithm.pipeline == Pipeline::generic) return kGenericShare * spec.vector_bits_per_cycle / 32.0;
  const Instruction instruction = algorithm.instruction;
  for (const CpuAttentionInstruction& facts : spec.attention_fwd)
    if (facts.instruction == instruction) return facts.products_per_cycle;
  return spec.vector_bits_per_cycle / 32.0;
}

}  // namespace

std::int64_t splits_for(const AttentionProblem& p, const KernelConfig& config, int threads) {
  if (config.algorithm.pipeline != Pipeline::decode) return 1;
  // Enough pieces that the last one a thread takes is small beside its whole share, none shorter than a block.
  // Pages are of sequences whose lengths differ much: the longest is cut as if it were alone. So a sequence's splits,
  // and its result's last bits, do not depend on its batch either.
  const std::int64_t independent = std::max<std::int64_t>(1, (p.page_size > 0 ? 1 : p.batch) * p.heads_kv);
  const std::int64_t wanted = threads <= 1 ? 1 : (4 * threads + independent - 1) / independent;
  const std::int64_t blocks = std::max<std::int64_t>(1, p.seqlen_k / config.algorithm.tile[1]);
  if (p.splits > 0) return std::min(p.splits, blocks);
  return std::clamp<std::int64_t>(wanted, 1, blocks);
}

double predicted_seconds(const AttentionProblem& p, const KernelConfig& config, const CpuSpec& spec, int threads) {
  const double lanes = spec.vector_bits_per_cycle / 32.0;
  const double dims = static_cast<double>(p.head_dim_qk + p.head_dim_v);
  const double m = config.algorithm.tile[0];
  const double n = config.algorithm.tile[1];
  const double rows = static_cast<double>(p.batch * p.heads_q) * static_cast<double>(p.seqlen_q);
  if (rows == 0 || p.seqlen_k == 0) return kAttentionTaskCycles / spec.clock_hz;
  const double keys_per_row = visible_pairs(p) / rows;

  double cycles = 0;
  double tasks = 0;
  if (config.algorithm.pipeline == Pipeline::decode) {
    const double pairs = visible_pairs(p);
    const double per_pair = 2 * dims / (0.5 * 2 * lanes) + kSoftmaxCycles / 4;  // products with a reduction per key
    tasks = static_cast<double>(p.batch * p.heads_kv * splits_for(p, config, threads));
    cycles = std::max(pairs * per_pair, bytes_of(p) / spec.memory_bytes_per_cycle) + tasks * kAttentionTaskCycles;
  } else {
    const double tiles = static_cast<double>(p.batch * p.heads_q) * ceil_div(static_cast<double>(p.seqlen_q), m);
    const bool masked = signature_of(p).mask == MaskKind::generic;
    // A masked tile sees a ragged edge on each bounded side: half a tile and half a block more than its rows' average.
    const double keys = std::min(static_cast<double>(p.seqlen_k), keys_per_row + (masked ? (m + n) / 2 : 0));
    const double pairs = tiles * m * ceil_div(keys, n) * n;
    const double per_pair = dims / products_per_cycle(spec, config.algorithm) + kSoftmaxCycles / lanes +
                            dims * kConvertCycles / (lanes * m) +
                            static_cast<double>(p.head_dim_v) * kRescaleCycles / (lanes * n);
    tasks = tiles;
    cycles = std::max(pairs * per_pair, bytes_of(p) / spec.memory_bytes_per_cycle) + tasks * kAttentionTaskCycles;
  }
  const double rounds = ceil_div(tasks, static_cast<double>(threads));
  return cycles / tasks * rounds / spec.clock_hz;
}

}  // namespace tilesmith
