#include "dispatch/conv/cuda_window_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "choose/conv/cuda_window.hpp"
#include "choose/conv/cuda_work.hpp"
#include "dispatch/conv/cuda_plan.hpp"
#include "dispatch/gemm/cuda_plan.hpp"
#include "instances/conv/cuda_window.hpp"
#include "problem/conv/matrix.hpp"
#include "problem/conv/problem.hpp"
#include "runtime/cuda/tensor_map.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kLongestOfWindows = std::int64_t{1} << 30;  // kernels count places and tiles in 32 bits
constexpr std::uint32_t kStepOfWindow = 64;                        // channels
constexpr std::uint64_t kWindowElement = 2;                        // bytes

GemmProblem product_of(const ConvProblem& p) {
  const CudaGemmShape shape = cuda_window_shape(p);
  GemmProblem g;
  g.type_a = g.type_b = p.data_type;
  g.type_c = g.type_d = p.type_out;
  g.type_bias = p.type_bias;
  g.m = shape.m;
  g.n = shape.n;
  g.k = shape.k;
  g.batch = shape.batch;
  g.epilogue = p.epilogue;
  return g;
}

}  // namespace

CudaWindowPlan::CudaWindowPlan(const ConvProblem& problem, PlanInfo info, const KernelConfig& config, CudaSteps steps,
                               CudaSplitMemory* split_memory)
    : ConvPlan(problem, std::move(info)),
      steps_(std::move(steps)),
      algorithm_(config.algorithm),
      facts_(cuda_gemm_resources(gemm_of_window(config))),
      split_memory_(split_memory),
      product_(product_of(problem)),
      spatial_dims_(std::get<ConvSignature>(config.signature).spatial_dims) {
  const auto windows = cuda_conv_windows(problem);
  const auto number = [](std::int64_t value) { return static_cast<int>(value); };
  for (std::size_t d = 0; d < 3; ++d) {
    window_.places[d] = number(windows[d].places);
    window_.first[d] = number(windows[d].lower);
    window_.step[d] = number(windows[d].step);
    window_.taps[d] = number(problem.filter()[d]);
    window_.offset[d] = number(windows[d].offset);
    window_.tap_step[d] = number(windows[d].tap_step);
  }
  if (problem.groups > 1)
    window_.group_channels = number(problem.direction == ConvDirection::forward ? problem.c : problem.k);
}

Result<std::unique_ptr<ConvPlan>> CudaWindowPlan::make(const ConvProblem& p, PlanInfo info, const KernelConfig& config,
                                                       const CudaSpec& spec, CudaSteps steps,
                                                       CudaSplitMemory* split_memory) {
  const CudaGemmShape shape = cuda_window_shape(p);
  const CudaGemmWork work = cuda_window_work(config, spec, p);
  for (const auto& [what, size] : {std::pair{"pixels of the result", shape.m}, std::pair{"taps and channels", shape.k},
                                   std::pair{"parts of tiles", work.items}})
    if (size > kLongestOfWindows)
      return fail(ErrorCode::unsupported, fmt::format("{} {} are beyond a CUDA kernel's launch", size, what),
                  fmt::format("at most {}", kLongestOfWindows));
  CudaSplitMemory::Size size;
  if (split_memory != nullptr) {
    size = {.part_bytes = static_cast<std::size_t>(work.places * cuda_conv_resources(config).part_bytes),
            .counters = static_cast<std::size_t>(work.counters)};
    TS_TRY(reserve_partials(*split_memory, size, info));
  }
  std::unique_ptr<CudaWindowPlan> made(new CudaWindowPlan(p, std::move(info), config, std::move(steps), split_memory));
  made->split_size_ = size;
  made->splits_ = work.splits;
  CudaLaunch& launch = made->steps_.launch();
  launch.grid.x = static_cast<unsigned>(work.blocks);
  launch.block = {static_cast<unsigned>(made->facts_.threads), 1, 1};
  launch.dynamic_shared_bytes = static_cast<unsigned>(made->facts_.shared_bytes);
  launch.overlaps_previous = true;
  return made;
}

Status CudaWindowPlan::encode_image(const ConvArguments& a, TsCudaTensorMap& map) const {
  const ConvProblem& p = problem();
  const bool forward = p.direction == ConvDirection::forward;
  const ConvStrides& s = forward ? a.x_strides : a.y_strides;
  const auto bytes = [](std::int64_t elements) { return static_cast<std::uint64_t>(elements) * kWindowElement; };
  const auto windows = cuda_conv_windows(p);
  const std::int64_t channels = p.groups * (forward ? p.c : p.k);
  std::vector<Im2colDimension> image;  // inner to outer
  // The stride of an only pixel is not the caller's: any valid one will do.
  std::uint64_t step = bytes((channels + 7) / 8 * 8);
  for (std::size_t d = 3; d-- > static_cast<std::size_t>(3 - spatial_dims_);) {
    const CudaConvWindow& w = windows[d];
    if (w.pixels > 1) step = bytes(s.spatial[d]);
    image.push_back({.extent = static_cast<std::uint64_t>(w.pixels),
                     .stride_bytes = step,
                     .lower = static_cast<int>(w.lower),
                     .upper = static_cast<int>(w.upper()),
                     .step = static_cast<std::uint32_t>(w.step)});
  }
  if (p.batch > 1) step = bytes(s.batch);
  return encode_im2col_map(steps_.context(), {.element = TensorMapElement::u16}, forward ? a.x : a.y,
                           static_cast<std::uint64_t>(channels), image, static_cast<std::uint64_t>(p.batch), step,
                           kStepOfWindow, std::uint32_t{algorithm_.tile[0]}, map);
}

Status CudaWindowPlan::encode_filters(const ConvArguments& a, TsCudaTensorMap& map) const {
  const ConvProblem& p = problem();
  const bool forward = p.direction == ConvDirection::forward;
  const ConvStrides& s = a.w_strides;
  // Taps are evenly apart; the stride of an only one is not the caller's.
  std::int64_t tap = (p.c + 7) / 8 * 8;
  for (std::size_t d = 0; d < 3; ++d)
    if (p.filter()[d] > 1) tap = s.spatial[d];
  const auto extent = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  const auto stride = [&](std::int64_t members, std::int64_t elements) {
    return members > 1 ? extent(elements) * kWindowElement : std::uint64_t{16};
  };
  const TensorMapDimension dimensions[] = {
      {extent(p.c), 0, kStepOfWindow},
      {extent(taps_of(p)), extent(tap) * kWindowElement, 1},
      {extent(p.k), stride(p.k, s.batch), forward ? std::uint32_t{algorithm_.tile[1]} : kStepOfWindow},
      {extent(p.groups), stride(p.groups, s.group), 1}};
  return encode_tensor_map(steps_.context(), {.element = TensorMapElement::u16}, a.w, dimensions, map);
}

Status CudaWindowPlan::run(const ConvArguments& a, const RunOptions& options) const {
  TS_TRY(validate(problem(), a));
  if (is_empty(problem())) return {};
  TS_TRY(check_conv_alignment(problem(), a));
  const GemmArguments results = gemm_arguments(problem(), a);
  TsCudaGemmArgs arguments = cuda_gemm_arguments(product_, results);
  arguments.splits = splits_;
  for (std::size_t i = 0; i < product_.epilogue.size(); ++i)
    if (reads_vector(product_.epilogue[i])) arguments.epilogue[i].batch_stride = product_.n;  // by group
  TsCudaGemmMaps maps{};
  TS_TRY(encode_image(a, maps.a));
  TS_TRY(encode_filters(a, maps.b));
  TS_TRY(encode_result_maps(steps_.context(), product_, facts_, algorithm_, results, maps));
  return steps_.run(options.stream, [&](std::size_t, const auto& send) -> Status {
    if (split_memory_ != nullptr) {
      TS_ASSIGN(const CudaSplitMemory::Place place, split_memory_->place_for(options, split_size_));
      arguments.counters = place.counters;
      arguments.partials = place.parts;
    }
    return send(maps, arguments, window_);
  });
}

}  // namespace tilesmith
