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

/// Elements that a problem's tensors let kernels read together.
int gather_reads(const ConvProblem& p) {
  const int bits = bits_of(p.data_type);
  if (cuda_conv_access(p).aligned) return 128 / bits;
  const bool halves = p.direction == ConvDirection::backward_weight && bits == 16 && p.c % 4 == 0 && p.k % 4 == 0;
  return halves && !p.unaligned ? 4 : 1;
}

std::optional<std::string> gather_unsuited(const KernelConfig& config, const CudaSpec&, const ConvProblem& problem) {
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

double begin_us(const CudaConvGatherModel& model, ConvDirection direction) {
  return direction == ConvDirection::forward         ? model.begin_us
         : direction == ConvDirection::backward_data ? model.data_begin_us
                                                     : model.weight_begin_us;
}

/// A step of a block, of which an SM has so many: a thread works out the place of each of its copies, or all blocks
/// multiply at a share of the chip's peak. Of 3700 timings on an H200 (copies of 2, 8 and 16 bytes, all directions)
/// tiles took 65 to 120 ns for each copy of a thread, whatever its width (docs/log/2026-11-cuda-conv.md).
double step_seconds(const KernelConfig& config, const CudaGemmTile& row, const CudaSpec& spec,
                    const ConvProblem& problem, std::int64_t resident) {
  const CudaConvGatherModel& model = spec.conv.models.gather;
  const CudaConvResources facts = cuda_conv_resources(config);
  const Algorithm& a = config.algorithm;
  const double products = 2.0 * a.tile[0] * a.tile[1] * facts.stage_k *
                          static_cast<double>(resident * spec.reference.sms) /
                          (1e12 * std::max(spec.reference.tflops_of(problem.data_type), 1.0) * row.efficiency);
  const bool weight = problem.direction == ConvDirection::backward_weight;
  double ns = (weight ? model.weight_copy_ns : model.copy_ns) * (a.tile[0] + a.tile[1]);
  if (problem.direction == ConvDirection::backward_data) {
    // Columns beyond the result's are not read.
    const auto tiles = static_cast<double>(ceil_div(problem.c, std::int64_t{a.tile[1]}));
    ns += (model.data_column_copy_ns - model.copy_ns) * static_cast<double>(problem.c) / tiles;
  }
  const double of_thread = ns * facts.stage_k / a.vector[0] / facts.threads;
  const double of_sm =
      model.sm_copy_ns * static_cast<double>(resident * (a.tile[0] + a.tile[1]) * facts.stage_k) / a.vector[0];
  const double copies = 1e-9 * std::max(of_thread, of_sm);
  return std::max(products, copies);
}

/// Filters whose sum is not cut leave one by one, each with its own place; the instructions of many of a thread are
/// more than an SM keeps. A tile of 128 x 128 took 54 us for its results by four warps, 23 by eight, one of 64 x 64 two
/// (H200).
double result_seconds(const KernelConfig& config, const CudaConvResources& facts, const CudaConvGatherModel& model,
                      bool weight, int splits) {
  const Algorithm& a = config.algorithm;
  const double results = static_cast<double>(a.tile[0] * a.tile[1]) / facts.threads;
  if (!weight) return 1e-9 * model.result_ns * results;
  const bool alone = splits == 1 && a.vector[0] * bits_of(std::get<ConvSignature>(config.signature).data_type) < 128;
  const double beyond = alone ? std::max(results - model.kept_results, 0.0) * model.beyond_times : 0;
  return 1e-9 * model.weight_result_ns * (results + beyond);
}

/// Backward data with a stride: the taps of a phase in the mean, as a share of the most.
double share_of_taps(const ConvProblem& p) {
  if (p.direction != ConvDirection::backward_data) return 1;
  double share = 1;
  for (std::size_t d = 0; d < 3; ++d) {
    const std::int64_t phases = std::min(p.stride()[d], p.in()[d]);
    share *= static_cast<double>(p.filter()[d]) / static_cast<double>(phases * ceil_div(p.filter()[d], phases));
  }
  return share;
}

double gather_seconds(const KernelConfig& config, const CudaGemmTile& row, const CudaSpec& spec,
                      const ConvProblem& problem) {
  const CudaConvGatherModel& model = spec.conv.models.gather;
  const CudaConvResources facts = cuda_conv_resources(config);
  const CudaConvWork work = cuda_conv_work(config, &row, spec, problem);
  const Algorithm& a = config.algorithm;
  const std::int64_t resident =
      std::clamp<std::int64_t>(ceil_div(work.items(), std::int64_t{spec.reference.sms}), 1, facts.blocks_per_sm);
  const double rounds = std::max(1.0, static_cast<double>(ceil_div(work.items(), work.places)));
  const double steps = static_cast<double>(ceil_div(work.steps, std::int64_t{work.splits})) *
                       (1 + (rounds - 1) * share_of_taps(problem)) / rounds;
  const bool weight = problem.direction == ConvDirection::backward_weight;
  const double of_tile = 1e-6 * model.tile_us + result_seconds(config, facts, model, weight, work.splits);
  double seconds = 1e-6 * begin_us(model, problem.direction) + spec.reference.launch_seconds() +
                   rounds * (of_tile + steps * step_seconds(config, row, spec, problem, resident));
  if (a.split_k) seconds *= model.cuts;
  if (work.splits > 1 && weight)
    seconds += spec.reference.launch_seconds() + 1e-6 * spec.conv.join.runs_us +
               static_cast<double>(work.items() * facts.part_bytes) / spec.conv.join.runs_bytes_per_second;
  else if (work.splits > 1)
    seconds += 1e-6 * spec.gemm.join_us +
               work.splits * static_cast<double>(facts.part_bytes) / spec.gemm.join_bytes_per_second;
  return std::max(seconds, spec.reference.memory_seconds(bytes_of(problem)) + spec.reference.launch_seconds());
}

}  // namespace

const CudaConvChoosing& cuda_conv_choosing_mma_sm80() {
  static const CudaConvChoosing choosing{[](const ConvProblem&) { return true; }, gather_unsuited, gather_is_needless,
                                         gather_seconds};
  return choosing;
}

}  // namespace tilesmith
