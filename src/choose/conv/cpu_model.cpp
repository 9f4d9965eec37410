#include "choose/conv/cpu_model.hpp"

#include <algorithm>
#include <numeric>

#include "choose/conv/cpu_terms.hpp"

namespace tilesmith {

double predicted_seconds(const ConvProblem& p, const KernelConfig& config, const CpuSpec& spec, int threads) {
  const CpuConvTerms terms = cpu_conv_terms(p, config, spec);
  const CpuConvTerms& cycles = spec.conv_model.coefficients(config.algorithm.pipeline, p.direction, p.data_type);
  // Threads share all of it, so that the order of kernels does not depend on their number.
  return std::inner_product(terms.begin(), terms.end(), cycles.begin(), 0.0) / std::max(threads, 1);
}

}  // namespace tilesmith
