#include "choose/attention_backward/cpu_model.hpp"

#include <algorithm>

#include "choose/rounding.hpp"
#include "kernels/cpu/attention_backward/abi.h"
#include "problem/attention/problem.hpp"
#include "problem/attention_backward/problem.hpp"

namespace tilesmith {
namespace {

constexpr double kBackwardCallCycles = 2000;
constexpr double kWeightCycles = 20;  // of a vector: exp2, and both gradients of a logit
constexpr double kCopyCycles = 3;     // of a vector: read, order, store
constexpr double kPanelColumns = 64;
constexpr double kPanelShareOfL1 = 0.8;
constexpr double kBeyondL1 = 1.3;  // docs/log/2026-11-backward.md: fp32, tiles of 96 and of 192 keys
constexpr double kStripKeys = 48;  // a panel's keys, of which half is beyond a mask's edge

/// The generic kernel computes the weights twice, in fp32, at a share of the lanes' products.
double generic_cycles(const AttentionBackwardProblem& p, const CpuSpec& spec, int threads) {
  constexpr double kShare = 0.25;  // a broadcast and a load for each two products, and two conversions
  const double again = 7.0 / 5.0 + (p.dbias ? 2.0 / 5.0 : 0);
  return flops_of(p) / 2 * again / (kShare * spec.vector_bits_per_cycle / 32.0) / std::max(threads, 1);
}

double products_of(const CpuSpec& spec, Instruction instruction) {
  for (const CpuAttentionInstruction& facts : spec.attention_bwd)
    if (facts.instruction == instruction) return facts.products_per_cycle;
  return spec.vector_bits_per_cycle / 32.0;
}

double flash_cycles(const AttentionBackwardProblem& p, const KernelConfig& config, const CpuSpec& spec, int threads) {
  const double lanes = spec.vector_bits_per_cycle / 32.0;
  const double m = config.algorithm.tile[0], n = config.algorithm.tile[1];
  const double qk = static_cast<double>(p.head_dim_qk), v = static_cast<double>(p.head_dim_v), dims = qk + v;
  const double rows = static_cast<double>(p.batch * p.heads_q) * static_cast<double>(p.seqlen_q);
  const double keys = static_cast<double>(p.seqlen_k);
  if (rows == 0 || keys == 0) return 0;
  const double visible = visible_pairs(forward_of(p));
  const bool masked = visible < rows * keys;
  // Under a mask the products of logits and the weights run to the end of a panel of keys.
  const double logits = std::min(rows * keys, visible + (masked ? rows * kStripKeys / 2 : 0));
  // dq's products read a panel of all keys of a block for each strip; from L2 where L1 does not keep it.
  const bool pairs = config.algorithm.instruction != Instruction::fma_f32;
  const double panel_bytes = n * std::min(qk, kPanelColumns) * (pairs ? 2 : 4);
  const double dq = panel_bytes > kPanelShareOfL1 * static_cast<double>(spec.l1d_bytes) ? kBeyondL1 : 1;
  const double products =
      (logits * dims + visible * (qk * (1 + dq) + v)) / products_of(spec, config.algorithm.instruction);
  // Rows of queries are copied for every block of keys that they see, and so are dq's sums; keys' sums for every tile.
  const double blocks = std::max(1.0, std::min(keys, visible / rows + (masked ? n : 0)) / n);
  const double copies = kCopyCycles / lanes * rows * blocks * (dims + qk + n / m * dims);
  const double cycles = products + logits * kWeightCycles / lanes + copies + rows * qk * kCopyCycles / lanes;
  const double tasks =
      static_cast<double>(p.batch * p.heads_kv * ts_attention_backward_splits(p.batch, p.heads_kv, p.seqlen_k) *
                          ts_attention_backward_parts(p.batch, p.heads_q, p.heads_kv, p.seqlen_k));
  return cycles / tasks * ceil_div(tasks, static_cast<double>(std::max(threads, 1)));
}

}  // namespace

double predicted_seconds(const AttentionBackwardProblem& p, const KernelConfig& config, const CpuSpec& spec,
                         int threads) {
  const double cycles = config.algorithm.pipeline == Pipeline::generic ? generic_cycles(p, spec, threads)
                                                                       : flash_cycles(p, config, spec, threads);
  return (cycles + kBackwardCallCycles) / spec.clock_hz;
}

}  // namespace tilesmith
