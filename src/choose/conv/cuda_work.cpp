#include "choose/conv/cuda_work.hpp"

#include <algorithm>

#include "choose/rounding.hpp"
#include "instances/conv/cuda.hpp"
#include "problem/conv/problem.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kFewestSteps = 8;  // of a part of the sum: below, leaving and adding parts costs more

}  // namespace

std::int64_t read_channels(const ConvProblem& p) {
  return p.direction == ConvDirection::backward_data ? p.k : p.c;
}
std::int64_t written_channels(const ConvProblem& p) {
  return p.direction == ConvDirection::backward_data ? p.c : p.k;
}

CudaConvShape cuda_conv_shape(const ConvProblem& p) {
  CudaConvShape shape{.groups = p.groups};
  const std::int64_t taps = taps_of(p);
  if (p.direction == ConvDirection::forward) {
    shape.rows = pixels_of_y(p);
    shape.columns = p.k;
    shape.depth = taps * p.c;
  } else if (p.direction == ConvDirection::backward_weight) {
    shape.rows = p.k;
    shape.columns = taps * p.c;
    shape.depth = pixels_of_y(p);
  } else {
    shape.rows = p.batch;
    shape.columns = p.c;
    shape.depth = p.k;
    for (std::size_t d = 0; d < 3; ++d) {
      const std::int64_t phases = std::min(p.stride()[d], p.in()[d]);
      shape.phases *= phases;
      shape.rows *= ceil_div(p.in()[d], p.stride()[d]);
      shape.depth *= ceil_div(p.filter()[d], phases);
    }
  }
  return shape;
}

CudaConvWork cuda_conv_work(const KernelConfig& config, const CudaSpec& spec, const ConvProblem& problem) {
  return cuda_conv_work(config, config.algorithm.split_k ? cuda_conv_row(config, spec) : nullptr, spec, problem);
}

CudaConvWork cuda_conv_work(const KernelConfig& config, const CudaGemmTile* row, const CudaSpec& spec,
                            const ConvProblem& problem) {
  const CudaConvShape shape = cuda_conv_shape(problem);
  const CudaConvResources facts = cuda_conv_resources(config);
  const Algorithm& a = config.algorithm;
  CudaConvWork work;
  work.tiles = ceil_div(shape.rows, std::int64_t{a.tile[0]}) * ceil_div(shape.columns, std::int64_t{a.tile[1]}) *
               shape.groups * shape.phases;
  work.steps = ceil_div(shape.depth, std::int64_t{std::max(facts.stage_k, 1)});
  work.places = std::int64_t{spec.reference.sms} * facts.blocks_per_sm;
  if (!a.split_k || work.tiles == 0) return work;
  std::int64_t most = work.steps / kFewestSteps;
  // Parts of backward weight are added up by a launch of its own, others by one block.
  if (problem.direction != ConvDirection::backward_weight)
    most = std::min<std::int64_t>(row == nullptr ? 1 : row->splits, most);
  work.splits =
      static_cast<int>(std::clamp<std::int64_t>(work.places / work.tiles, 1, std::max<std::int64_t>(most, 1)));
  return work;
}

int cuda_conv_dimensions(const ConvProblem& p) {
  const auto does_something = [&](std::size_t d) {
    return p.in()[d] > 1 || p.filter()[d] > 1 || p.stride()[d] > 1 || p.pad()[d] + p.pad_high()[d] > 0;
  };
  return does_something(0) ? 3 : does_something(1) ? 2 : 1;
}

CudaConvAccess cuda_conv_access(const ConvProblem& p) {
  if (p.unaligned) return {};
  const std::int64_t wide = 128 / bits_of(p.data_type);
  const bool forward = p.direction == ConvDirection::forward;
  const std::int64_t written = forward ? p.k : p.c;  // backward weight: w's, along its taps
  return {.aligned = p.c % wide == 0 && (forward || p.k % wide == 0), .pairs = written % 2 == 0};
}

}  // namespace tilesmith
