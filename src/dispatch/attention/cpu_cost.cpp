// The analytic cost model. It counts clock cycles, because only the order of candidates matters; a nominal clock turns
// them into seconds.
//
// Per visible pair of a flash tile of m queries and n keys, on L fp32 lanes, head dims d = head_dim_qk + head_dim_v:
//   products   2 d / (operations a cycle of the instruction)
//   softmax    the exponential and its surroundings, about kSoftmaxCycles vector instructions for L pairs
//   blocks     K and V of a block are converted or interleaved once per tile: d kConvertCycles / (L m)
//   rescale    accumulators are rescaled once per block: head_dim_v kRescaleCycles / (L n)
// and whole tiles, whole blocks and whole tasks per thread are counted, since that is what runs.
#include <algorithm>
#include <cmath>

#include "dispatch/attention/policy.hpp"
#include "problem/attention/problem.hpp"

namespace tilesmith {
namespace {

constexpr double kNominalClock = 3.0e9;
constexpr double kSoftmaxCycles = 24;
constexpr double kConvertCycles = 2;
constexpr double kRescaleCycles = 3;
constexpr double kTaskCycles = 2000;        // starting a task: packing Q, writing O
constexpr double kMemoryBytesPerCycle = 6;  // what one core reads from memory: 16 to 20 GB/s on current servers

double operations_per_cycle(Instruction instruction, double lanes) {
  switch (instruction) {
    case Instruction::dpbf16:
      return 4 * lanes;  // two products a lane
    case Instruction::amx_bf16:
      return 1024 * 0.5;  // half of the tile unit's rate is what whole kernels reach
    default:
      return 2 * lanes;
  }
}

double ceil_div(double a, double b) {
  return std::ceil(a / b);
}

}  // namespace

std::int64_t splits_for(const AttentionProblem& p, const KernelConfig& config, int threads) {
  if (config.algorithm.pipeline != Pipeline::decode) return 1;
  // Enough pieces that the last one a thread takes is small beside its whole share, none shorter than a block.
  const std::int64_t independent = std::max<std::int64_t>(1, p.batch * p.heads_kv);
  const std::int64_t wanted = threads <= 1 ? 1 : (4 * threads + independent - 1) / independent;
  const std::int64_t blocks = std::max<std::int64_t>(1, p.seqlen_k / config.algorithm.tile[1]);
  return std::clamp<std::int64_t>(wanted, 1, blocks);
}

double expected_seconds(const AttentionProblem& p, const KernelConfig& config, const CpuSpec& spec, int threads) {
  const double lanes = spec.vector_bits / 32.0;
  const double dims = static_cast<double>(p.head_dim_qk + p.head_dim_v);
  const double m = config.algorithm.tile[0];
  const double n = config.algorithm.tile[1];
  const double rows = static_cast<double>(p.batch * p.heads_q) * static_cast<double>(p.seqlen_q);
  if (rows == 0 || p.seqlen_k == 0) return kTaskCycles / kNominalClock;
  const double keys_per_row = visible_pairs(p) / rows;

  double cycles = 0;
  double tasks = 0;
  if (config.algorithm.pipeline == Pipeline::decode) {
    const double pairs = visible_pairs(p);
    const double per_pair = 2 * dims / (0.5 * 2 * lanes) + kSoftmaxCycles / 4;  // products with a reduction per key
    tasks = static_cast<double>(p.batch * p.heads_kv * splits_for(p, config, threads));
    cycles = std::max(pairs * per_pair, bytes_of(p) / kMemoryBytesPerCycle) + tasks * kTaskCycles;
  } else {
    const double tiles = static_cast<double>(p.batch * p.heads_q) * ceil_div(static_cast<double>(p.seqlen_q), m);
    const bool masked = signature_of(p).mask == MaskKind::generic;
    // A masked tile sees a ragged edge on each bounded side: half a tile and half a block more than its rows' average.
    const double keys = std::min(static_cast<double>(p.seqlen_k), keys_per_row + (masked ? (m + n) / 2 : 0));
    const double pairs = tiles * m * ceil_div(keys, n) * n;
    const double per_pair = 2 * dims / operations_per_cycle(config.algorithm.instruction, lanes) +
                            kSoftmaxCycles / lanes + dims * kConvertCycles / (lanes * m) +
                            static_cast<double>(p.head_dim_v) * kRescaleCycles / (lanes * n);
    tasks = tiles;
    cycles = std::max(pairs * per_pair, bytes_of(p) / kMemoryBytesPerCycle) + tasks * kTaskCycles;
  }
  const double rounds = ceil_div(tasks, threads);
  return cycles / tasks * rounds / kNominalClock;
}

void CostModelPolicy::rank(const AttentionProblem& problem, const CpuMachine& machine, int threads,
                           std::vector<Candidate>& candidates) const {
  for (Candidate& candidate : candidates) {
    const CpuSpec* spec = machine.level(candidate.recipe.main().arch);
    candidate.predicted_seconds = spec == nullptr ? std::numeric_limits<double>::infinity()
                                                  : expected_seconds(problem, candidate.recipe.main(), *spec, threads);
  }
  best_first(candidates);
}

}  // namespace tilesmith
