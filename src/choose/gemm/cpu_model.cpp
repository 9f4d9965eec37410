#include "choose/gemm/cpu_model.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "choose/cpu_threads.hpp"
#include "choose/gemm/cpu_terms.hpp"
#include "choose/rounding.hpp"
#include "instances/gemm/cpu.hpp"
#include "problem/gemm/group.hpp"
#include "problem/gemm/problem.hpp"

namespace tilesmith {
namespace {

/// A generic kernel turns tiles of A and B into floats, without keeping any for its neighbours, and broadcasts A.
double generic_seconds(const GemmProblem& p, const CpuGemmSubject& subject, int threads) {
  constexpr double kShare = 0.25;         // of the lanes' products: a broadcast and a load for each two
  constexpr double kElementCycles = 0.5;  // read, perhaps scaled and turned, and stored
  constexpr double kTaskCycles = 1000;
  const double m = static_cast<double>(p.m), n = static_cast<double>(p.n), batch = static_cast<double>(p.batch);
  const double k = static_cast<double>(p.k) + static_cast<double>(p.k2);
  const double row_tiles = ceil_div(m, subject.tile_m()), column_tiles = ceil_div(n, subject.tile_n());
  const double products = m * n * k / (kShare * subject.spec.vector_bits_per_cycle / 32.0);
  const double elements = k * (m * column_tiles + n * row_tiles) * kElementCycles;
  const double tasks = std::max(1.0, batch * row_tiles * column_tiles);
  const double cycles = batch * (products + elements) + bytes_of(p) / subject.spec.memory_bytes_per_cycle;
  return (cycles / std::min<double>(threads, tasks) + kTaskCycles) / subject.spec.clock_hz;
}

double seconds_by(const CpuGemmModel& model, const GemmProblem& p, const KernelConfig& config, const CpuSpec& spec,
                  int threads) {
  const CpuGemmSubject subject{config, spec};
  if (subject.is_generic()) return generic_seconds(p, subject, threads);
  if (subject.facts() == nullptr) return std::numeric_limits<double>::infinity();
  const CpuGemmTerms terms = cpu_gemm_terms(p, config, spec, threads);
  const CpuGemmTerms& cycles = model.coefficients(config.algorithm.pipeline, p.type_a);
  return std::inner_product(terms.begin(), terms.end(), cycles.begin(), 0.0);
}

}  // namespace

double predicted_seconds(const GemmProblem& p, const KernelConfig& config, const CpuSpec& spec, int threads) {
  return seconds_by(spec.gemm_model, p, config, spec, threads);
}

int threads_worth(const GemmProblem& p, const KernelConfig& config, const CpuSpec& spec, int most) {
  return most <= 1 ? 1 : threads_worth(seconds_by(spec.gemm_warm_model, p, config, spec, 1), most);
}

GemmProblem typical_call(const GemmProblem& p) {
  if (p.grouping == GemmGrouping::none) return p;
  const bool contiguous = p.grouping == GemmGrouping::contiguous && p.batch > 0;
  return problem_of_group(p, contiguous ? (p.m + p.batch - 1) / p.batch : p.m);
}

}  // namespace tilesmith
