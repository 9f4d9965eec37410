#include "dispatch/conv/cuda_halo_data_plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "dispatch/conv/cuda_halo_maps.hpp"
#include "dispatch/conv/cuda_plan.hpp"
#include "problem/conv/problem.hpp"
#include "runtime/cuda/tensor_map.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kLongestOfHaloData = std::int64_t{1} << 30;  // kernels count boxes and pixels in 32 bits

/// As `conv/halo/data.cuh` says: {channels of x, taps, channels of y, groups}.
Status encode_halo_filters(const CudaContext& context, const ConvProblem& p, const ConvArguments& a,
                           TsCudaTensorMap& map) {
  const auto extent = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  const auto stride = [&](std::int64_t members, std::int64_t elements) {
    return members > 1 ? extent(elements) * 2 : std::uint64_t{16};
  };
  const TensorMapDimension dimensions[] = {{extent(p.c), 0, 64},
                                           {extent(taps_of(p)), extent(a.w_strides.spatial[2]) * 2, 1},
                                           {extent(p.k), stride(p.k, a.w_strides.batch), 64},
                                           {extent(p.groups), stride(p.groups, a.w_strides.group), 1}};
  return encode_tensor_map(context, {.element = TensorMapElement::u16}, a.w, dimensions, map);
}

}  // namespace

Result<std::unique_ptr<ConvPlan>> CudaHaloDataPlan::make(const ConvProblem& p, PlanInfo info,
                                                         const KernelConfig& config, const CudaSpec& spec,
                                                         CudaSteps steps, CudaSplitMemory*) {
  const CudaHaloWork work = cuda_halo_work(config, spec, p);
  const CudaConvResources facts = cuda_conv_resources(config);
  const std::int64_t blocks = work.tiles * work.splits;
  for (const auto& [what, size] :
       {std::pair{"boxes of pixels", work.boxes(p.batch)}, std::pair{"blocks", blocks},
        std::pair{"channels", p.groups * std::max(p.c, p.k)},
        std::pair{"pixels along a coordinate", p.in_h + p.in_w + p.pad_h + p.pad_w + p.pad_high_h + p.pad_high_w},
        std::pair{"slices", p.in_d + p.pad_d + p.pad_high_d}})
    if (size > kLongestOfHaloData)
      return fail(ErrorCode::unsupported, fmt::format("{} {} are beyond a CUDA kernel's launch", size, what),
                  fmt::format("at most {}", kLongestOfHaloData));
  std::unique_ptr<CudaHaloDataPlan> made(new CudaHaloDataPlan(p, std::move(info), std::move(steps)));
  made->tile_ = cuda_halo_tile(config.algorithm);
  made->work_ = work;
  CudaLaunch& launch = made->steps_.launch();
  launch.grid.x = static_cast<unsigned>(blocks);
  launch.block = {static_cast<unsigned>(facts.threads), 1, 1};
  launch.dynamic_shared_bytes = static_cast<unsigned>(facts.shared_bytes);
  launch.overlaps_previous = true;
  return made;
}

Status CudaHaloDataPlan::encode_maps(const ConvArguments& a, TsCudaConvHaloDataMaps& maps) const {
  const ConvProblem& p = problem();
  const bool forward = p.direction == ConvDirection::forward;
  const auto encode = [&](bool of_x, const void* data, int border, TsCudaTensorMap& map) {
    return encode_halo_map(steps_.context(), p, data, of_x ? a.x_strides : a.y_strides, of_x ? p.c : p.k,
                           of_x ? p.in() : p.out(), 8 + border, tile_.rows + border, 1, map, p.filter_d > 1);
  };
  TS_TRY(encode(forward, forward ? a.x : a.y, 2, maps.read));
  TS_TRY(encode(!forward, a.out, 0, maps.result));
  return encode_halo_filters(steps_.context(), p, a, maps.filters);
}

Status CudaHaloDataPlan::run(const ConvArguments& a, const RunOptions& options) const {
  const ConvProblem& p = problem();
  TS_TRY(validate(p, a));
  if (is_empty(p)) return {};
  TS_TRY(check_conv_alignment(p, a));
  return steps_.run(options.stream, [&](std::size_t, const auto& send) -> Status {
    TsCudaConvHaloDataMaps maps{};
    TS_TRY(encode_maps(a, maps));
    const auto number = [](std::int64_t value) { return static_cast<int>(value); };
    const bool forward = p.direction == ConvDirection::forward;
    TsCudaConvHaloDataArgs arguments{};
    const TsCudaConvArgs all = cuda_conv_arguments(p, a);
    std::ranges::copy(all.epilogue, arguments.epilogue);
    arguments.groups = number(p.groups);
    arguments.channels = number(forward ? p.k : p.c);
    arguments.channel_blocks = number(work_.tiles / p.groups);
    arguments.read_channels = number(forward ? p.c : p.k);
    arguments.images = number(p.batch);
    arguments.boxes_h = number(work_.boxes_h);
    arguments.boxes_w = number(work_.boxes_w);
    // What the first result meets at its first tap or, of backward data, at its last.
    arguments.first_h = number(forward ? -p.pad_h : p.pad_h - 2);
    arguments.first_w = number(forward ? -p.pad_w : p.pad_w - 2);
    arguments.slices = number(forward ? p.out()[0] : p.in_d);
    arguments.read_slices = number(forward ? p.in_d : p.out()[0]);
    arguments.first_d = number(forward ? -p.pad_d : p.pad_d - 2);
    return send(maps, arguments);
  });
}

}  // namespace tilesmith
