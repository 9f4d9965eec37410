// The general template suits every problem; its times follow from a share of the chip's peak.
#include <fmt/format.h>

#include <algorithm>

#include "choose/conv/cuda_pipelines.hpp"
#include "choose/conv/cuda_work.hpp"
#include "choose/rounding.hpp"
#include "instances/conv/cuda_resources.hpp"
#include "problem/conv/problem.hpp"

namespace tilesmith {
namespace {

/// A step that is gathered element by element takes about so many times as long as one of 16-byte copies, and one of
/// 8-byte copies.
double reading_cost(int bits, const CudaConvGatherModel& model) {
  return bits == 128 ? 1 : bits == 64 ? model.halves : model.elements;
}

/// Elements that a problem's tensors let kernels read together.
int gather_reads(const ConvProblem& p) {
  const int bits = bits_of(p.data_type);
  if (cuda_conv_access(p).aligned) return 128 / bits;
  const bool halves = p.direction == ConvDirection::backward_weight && bits == 16 && p.c % 4 == 0 && p.k % 4 == 0;
  return halves && !p.unaligned ? 4 : 1;
}

std::optional<std::string> gather_unsuited(const KernelConfig& config, const ConvProblem& problem) {
  const CudaConvResources facts = cuda_conv_resources(config);
  const CudaConvAccess access = cuda_conv_access(problem);
  const int read = config.algorithm.vector[0];
  if (read <= gather_reads(problem) && (!facts.pairs || access.pairs)) return {};
  return fmt::format("reads {} elements, writes {}; c {}, k {}, unaligned {}", read, facts.pairs ? "pairs" : "elements",
                     problem.c, problem.k, problem.unaligned);
}

bool gather_is_needless(const KernelConfig& config, const ConvProblem& problem) {
  const CudaConvResources facts = cuda_conv_resources(config);
  const CudaConvAccess access = cuda_conv_access(problem);
  return config.algorithm.vector[0] != gather_reads(problem) || facts.pairs != access.pairs;
}

double gather_seconds(const KernelConfig& config, const CudaGemmTile& row, const CudaSpec& spec,
                      const ConvProblem& problem) {
  const CudaConvResources facts = cuda_conv_resources(config);
  const CudaConvWork work = cuda_conv_work(config, spec, problem);
  const Algorithm& a = config.algorithm;
  const double peak = 1e12 * std::max(spec.reference.tflops_of(problem.data_type), 1.0);
  const double step = 2.0 * a.tile[0] * a.tile[1] * facts.stage_k * static_cast<double>(work.places) /
                      (peak * row.efficiency) *
                      reading_cost(a.vector[0] * bits_of(problem.data_type), spec.conv.models.gather);
  const double rounds = static_cast<double>(ceil_div(work.items(), work.places));
  double seconds = rounds * (static_cast<double>(ceil_div(work.steps, std::int64_t{work.splits})) + a.stages) * step;
  if (work.splits > 1 && problem.direction == ConvDirection::backward_weight)
    seconds += spec.reference.launch_seconds() + 1e-6 * spec.conv.join.runs_us +
               static_cast<double>(work.items() * facts.part_bytes) / spec.conv.join.runs_bytes_per_second;
  else if (work.splits > 1)
    seconds += 1e-6 * spec.gemm.join_us +
               work.splits * static_cast<double>(facts.part_bytes) / spec.gemm.join_bytes_per_second;
  return std::max(seconds, spec.reference.memory_seconds(bytes_of(problem))) + spec.reference.launch_seconds();
}

}  // namespace

const CudaConvChoosing& cuda_conv_choosing_mma_sm80() {
  static const CudaConvChoosing choosing{gather_unsuited, gather_is_needless, gather_seconds};
  return choosing;
}

}  // namespace tilesmith
