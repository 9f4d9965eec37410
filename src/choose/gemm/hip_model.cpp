#include "choose/gemm/hip_model.hpp"

#include "choose/gemm/compute_unit_model.hpp"
#include "instances/gemm/hip_resources.hpp"
#include "problem/gemm/problem.hpp"

namespace tilesmith {

double predicted_seconds(const KernelConfig& config, const HipSpec& spec, const GemmProblem& problem) {
  const Algorithm& a = config.algorithm;
  const HipFragment* fragment = spec.fragment(problem.type_a, a.warp[0]);
  const HipGemmResources facts = hip_gemm_resources(config, spec, *fragment);
  return predicted_seconds(ComputeUnitTile{.m = a.tile[0],
                                           .n = a.tile[1],
                                           .k = a.tile[2],
                                           .waves_m = a.wave[0],
                                           .waves_n = a.wave[1],
                                           .element_bytes = static_cast<double>(facts.element_bytes),
                                           .aligned = facts.aligned,
                                           .blocks_per_cu = facts.blocks_per_cu},
                           spec.reference, std::get<GemmSignature>(config.signature).a,
                           {problem.m, problem.n, problem.k, problem.batch, bytes_of(problem)});
}

}  // namespace tilesmith
