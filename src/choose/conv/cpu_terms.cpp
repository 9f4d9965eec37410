#include "choose/conv/cpu_terms.hpp"

#include "choose/conv/cpu_counts.hpp"
#include "problem/conv/problem.hpp"

namespace tilesmith {
namespace {

cpu_conv::Counts counts_of(const ConvProblem& p, const KernelConfig& config, const cpu_conv::Kernel& kernel) {
  const bool weight = p.direction == ConvDirection::backward_weight;
  if (std::get<ConvSignature>(config.signature).depthwise) {
    if (kernel.tiles) return channel_tiles(p, kernel);
    if (kernel.facts.instruction == Instruction::dot_int8 && p.c == 1) return depthwise_fours(p, kernel);
    return weight ? depthwise_weight(p, kernel) : depthwise_data(p, kernel);
  }
  if (config.algorithm.pipeline == Pipeline::direct) return weight ? direct_weight(p, kernel) : direct_data(p, kernel);
  return weight ? blocked_weight(p, kernel) : blocked_data(p, kernel);
}

}  // namespace

CpuConvTerms cpu_conv_terms(const ConvProblem& p, const KernelConfig& config, const CpuSpec& spec) {
  cpu_conv::Counts n;
  if (!is_empty(p) && p.batch > 0) n = counts_of(p, config, cpu_conv::Kernel(p, config, spec));
  CpuConvTerms terms = {n.products,
                        n.loads,
                        n.spread,
                        n.steps,
                        n.lines,
                        n.copied,
                        n.gathered,
                        n.scattered,
                        n.packing,
                        n.results,
                        n.straddling,
                        n.tails,
                        n.zeros,
                        n.tasks,
                        1,
                        bytes_of(p) / spec.memory_bytes_per_cycle};
  for (double& term : terms) term /= spec.clock_hz;
  return terms;
}

}  // namespace tilesmith
