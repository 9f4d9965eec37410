// The figures of launches are those that stand at the top of the templates in kernels/cuda/conv.
#include "dispatch/conv/cuda_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "dispatch/conv/cuda_tile_maps.hpp"
#include "dispatch/workspace.hpp"
#include "problem/conv/problem.hpp"
#include "problem/derive.hpp"
#include "runtime/cuda/memory.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kLongestOfConv = std::int64_t{1} << 30;  // kernels count pixels, taps and channels in 32 bits

}  // namespace

TsCudaConvArgs cuda_conv_arguments(const ConvProblem& p, const ConvArguments& a) {
  TsCudaConvArgs out{};
  static_cast<TsConvCall&>(out) = kernel_call(p, a);
  const bool forward = p.direction == ConvDirection::forward;
  for (std::size_t i = 0; i < p.epilogue.size(); ++i) {
    const EpilogueOp op = p.epilogue[i];
    const ConvOperand& x = a.epilogue[i];
    TsCudaConvOperand& operand = out.epilogue[i];
    operand.data = x.data;
    if (reads_tensor(op)) {
      operand.strides = kernel_strides(x.strides);
      operand.value = 1;
    } else if (reads_vector(op)) {
      operand.strides.group = forward ? p.k : p.c;
    } else if (op == EpilogueOp::clamp) {
      operand.value = x.low;
      operand.limit = x.high;
    }
  }
  for (std::size_t d = 0; d < 3; ++d) {
    const std::int64_t common = std::gcd(p.stride()[d], p.dilation()[d]);
    out.tap_step[d] = static_cast<int>(p.stride()[d] / common);
    out.pixel_step[d] = static_cast<int>(p.dilation()[d] / common);
  }
  out.splits = 1;
  return out;
}

Status check_cuda_conv_sizes(const ConvProblem& p) {
  const auto limit = [](std::string_view what, std::int64_t size) -> Status {
    if (size <= kLongestOfConv) return {};
    return fail(ErrorCode::unsupported, fmt::format("{} {} is beyond a CUDA kernel's launch", size, what),
                fmt::format("at most {}", kLongestOfConv));
  };
  TS_TRY(limit("images", p.batch));
  TS_TRY(limit("groups", p.groups));
  TS_TRY(limit("channels of y", p.k));
  for (std::size_t d = 0; d < 3; ++d) {
    TS_TRY(limit("pixels of x along a coordinate", p.in()[d] + p.pad()[d] + p.pad_high()[d]));
    TS_TRY(limit("taps along a coordinate", p.filter()[d]));
  }
  return limit("taps and channels", taps_of(p) * p.c);
}

Status check_conv_alignment(const ConvProblem& p, const ConvArguments& a) {
  if (p.unaligned || !derived(p, a).unaligned) return {};
  return fail(ErrorCode::invalid_argument,
              "a tensor of the convolution has its channels apart, or begins or steps off multiples of 16 bytes",
              "plan the problem with unaligned, for a kernel that asks for neither");
}

Status reserve_partials(CudaSplitMemory& memory, const CudaSplitMemory::Size& size, PlanInfo& info) {
  // As CudaSplitMemory::place_in lays it out. Where the caller brings no workspace, the library keeps it for each
  // stream.
  constexpr std::size_t kApart = 256;
  WorkspaceLayout layout;
  layout.add("counters", size.counters * 4, kApart);
  layout.add("partials", size.part_bytes, kApart);
  layout.tell(info);
  return memory.reserve(size);
}

Result<std::unique_ptr<ConvPlan>> CudaConvPlan::make(const ConvProblem& p, PlanInfo info, const KernelConfig& config,
                                                     const CudaSpec& spec, CudaSteps steps,
                                                     CudaSplitMemory* split_memory) {
  TS_TRY(check_cuda_conv_sizes(p));
  const CudaConvLaunch figures = cuda_conv_launch(config, spec, p);
  if (figures.part_bytes == 0 && figures.counters == 0) split_memory = nullptr;  // the sum is not cut
  CudaSplitMemory::Size size;
  if (split_memory != nullptr) {
    if (figures.blocks > kLongestOfConv)
      return fail(ErrorCode::unsupported,
                  fmt::format("{} parts of tiles are beyond a CUDA kernel's launch", figures.blocks),
                  fmt::format("at most {}", kLongestOfConv));
    size = {.part_bytes = static_cast<std::size_t>(figures.part_bytes),
            .counters = static_cast<std::size_t>(figures.counters)};
    TS_TRY(reserve_partials(*split_memory, size, info));
  }
  std::unique_ptr<CudaConvPlan> made(new CudaConvPlan(p, std::move(info), std::move(steps), split_memory));
  made->split_size_ = size;
  made->figures_ = figures;
  CudaLaunch& launch = made->steps_.launch();
  launch.grid.x = static_cast<unsigned>(std::clamp<std::int64_t>(figures.blocks, 1, kLongestOfConv));
  launch.block = {static_cast<unsigned>(figures.threads), 1, 1};
  launch.dynamic_shared_bytes = static_cast<unsigned>(figures.shared_bytes);
  launch.cluster = {static_cast<unsigned>(figures.cluster), 1, 1};
  launch.overlaps_previous = spec.major >= 9;
  return made;
}

Status CudaConvPlan::run(const ConvArguments& a, const RunOptions& options) const {
  TS_TRY(validate(problem(), a));
  if (is_empty(problem())) return {};
  TS_TRY(check_conv_alignment(problem(), a));
  return steps_.run(options.stream, [&](std::size_t, const auto& send) -> Status {
    TsCudaConvArgs arguments = cuda_conv_arguments(problem(), a);
    arguments.splits = static_cast<int>(figures_.splits);
    arguments.lanes = figures_.lanes;
    arguments.depth_steps = figures_.depth_steps;
    std::ranges::copy(figures_.phases, arguments.phases);
    std::ranges::copy(figures_.tiles, arguments.tiles);
    arguments.stage_bytes = static_cast<int>(figures_.stage_bytes);
    arguments.boxes = figures_.boxes;
    if (split_memory_ != nullptr) {
      TS_ASSIGN(const CudaSplitMemory::Place place, split_memory_->place_for(options, split_size_));
      arguments.counters = place.counters;
      arguments.partials = place.parts;
    }
    const bool mapped = figures_.mapped.channels > 0;
    TsCudaConvTileMaps maps{};
    if (mapped) TS_TRY(encode_tile_maps(steps_.context(), problem(), a, figures_.mapped, maps));
    const auto launch = [&] { return mapped ? send(maps, arguments) : send(arguments); };
    if (figures_.joins) {
      TS_TRY(launch());
      arguments.join = 1;
    }
    return launch();
  });
}

}  // namespace tilesmith
