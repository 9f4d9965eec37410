#include "dispatch/conv/cuda_halo_plan.hpp"

#include <fmt/format.h>

#include "dispatch/conv/cuda_halo_maps.hpp"
#include "dispatch/conv/cuda_plan.hpp"
#include "problem/conv/problem.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kLongestOfHalo = std::int64_t{1} << 30;  // kernels count boxes and parts in 32 bits

}  // namespace

Result<std::unique_ptr<ConvPlan>> CudaHaloPlan::make(const ConvProblem& p, PlanInfo info, const KernelConfig& config,
                                                     const CudaSpec& spec, CudaSteps steps,
                                                     CudaSplitMemory* split_memory) {
  const CudaHaloWork work = cuda_halo_work(config, spec, p);
  const CudaConvResources facts = cuda_conv_resources(config);
  for (const auto& [what, size] :
       {std::pair{"boxes of pixels", p.batch * work.boxes_h * work.boxes_w}, std::pair{"parts of tiles", work.items()},
        std::pair{"pixels of x along a coordinate", p.in_h + p.in_w + p.pad_h + p.pad_w}})
    if (size > kLongestOfHalo)
      return fail(ErrorCode::unsupported, fmt::format("{} {} are beyond a CUDA kernel's launch", size, what),
                  fmt::format("at most {}", kLongestOfHalo));
  const CudaSplitMemory::Size size{.part_bytes = static_cast<std::size_t>(work.items() * facts.part_bytes)};
  TS_TRY(reserve_partials(*split_memory, size, info));
  std::unique_ptr<CudaHaloPlan> made(new CudaHaloPlan(p, std::move(info), std::move(steps), split_memory));
  made->split_size_ = size;
  made->tile_ = cuda_halo_tile(config.algorithm);
  made->work_ = work;
  CudaLaunch& launch = made->steps_.launch();
  launch.grid.x = static_cast<unsigned>(spec.reference.sms);
  launch.block = {static_cast<unsigned>(facts.threads), 1, 1};
  launch.dynamic_shared_bytes = static_cast<unsigned>(facts.shared_bytes);
  launch.overlaps_previous = true;
  return made;
}

Status CudaHaloPlan::encode_maps(const ConvArguments& a, TsCudaConvHaloMaps& maps) const {
  const ConvProblem& p = problem();
  const int border = tile_.stride == 1 ? 2 : 1;
  TS_TRY(encode_halo_map(steps_.context(), p, a.y, a.y_strides, p.k, p.out(), 8, tile_.rows, 1, maps.y));
  return encode_halo_map(steps_.context(), p, a.x, a.x_strides, p.c, p.in(), 8 + border, tile_.rows + border,
                         tile_.stride, maps.x);
}

Status CudaHaloPlan::run(const ConvArguments& a, const RunOptions& options) const {
  const ConvProblem& p = problem();
  TS_TRY(validate(p, a));
  TS_TRY(check_conv_alignment(p, a));
  return steps_.run(options.stream, [&](std::size_t, const auto& send) -> Status {
    TS_ASSIGN(const CudaSplitMemory::Place place, split_memory_->place_for(options, split_size_));
    TsCudaConvHaloMaps maps{};
    TS_TRY(encode_maps(a, maps));
    const auto number = [](std::int64_t value) { return static_cast<int>(value); };
    TsCudaConvHaloArgs arguments{.out = a.out,
                                 .partials = place.parts,
                                 .group_stride = a.w_strides.group,
                                 .filter_stride = a.w_strides.batch,
                                 .tap_stride = a.w_strides.spatial[2],
                                 .groups = number(p.groups),
                                 .c = number(p.c),
                                 .k = number(p.k),
                                 .images = number(p.batch),
                                 .boxes_h = number(work_.boxes_h),
                                 .boxes_w = number(work_.boxes_w),
                                 .pad_h = number(p.pad_h),
                                 .pad_w = number(p.pad_w),
                                 .splits = number(work_.splits),
                                 .join = 0};
    TS_TRY(send(maps, arguments));
    arguments.join = 1;
    return send(maps, arguments);
  });
}

}  // namespace tilesmith
