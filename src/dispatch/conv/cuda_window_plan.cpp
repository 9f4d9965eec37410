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

std::int64_t element_bytes(const ConvProblem& p) {
  return bits_of(p.data_type) / 8;
}
/// Elements of 128 bytes: channels, in backward weight pixels.
std::uint32_t step_of_window(const ConvProblem& p) {
  return static_cast<std::uint32_t>(128 / element_bytes(p));
}
/// Rows of so many elements.
TensorMapFormat operand_format(const ConvProblem& p, std::uint32_t row) {
  return {.element = element_bytes(p) == 1 ? TensorMapElement::u8 : TensorMapElement::u16,
          .swizzle = swizzle_of(static_cast<int>(row * element_bytes(p)))};
}

GemmProblem product_of(const ConvProblem& p, int step_taps) {
  const CudaGemmShape shape = cuda_window_shape(p, step_taps);
  GemmProblem g;
  g.type_a = g.type_b = p.data_type;
  g.type_c = g.type_d = p.type_out;
  g.type_bias = p.type_bias;
  g.m = shape.m;
  g.n = shape.n;
  g.k = shape.k;
  g.batch = shape.batch;
  g.epilogue = p.epilogue;
  if (p.direction != ConvDirection::forward) g.order_b = MatrixOrder::row;
  if (p.direction == ConvDirection::backward_weight) g.order_a = MatrixOrder::column;
  return g;
}

/// Elements from tap to tap, which are evenly apart; the stride of an only one is not the caller's.
std::int64_t tap_stride(const ConvProblem& p, const ConvStrides& w) {
  std::int64_t tap = (p.c + 15) / 16 * 16;
  for (std::size_t d = 0; d < 3; ++d)
    if (p.filter()[d] > 1) tap = w.spatial[d];
  return tap;
}

int number(std::int64_t value) {
  return static_cast<int>(value);
}

TsCudaConvWindow window_of(const ConvProblem& p) {
  TsCudaConvWindow out{};
  const auto windows = cuda_conv_windows(p);
  for (std::size_t d = 0; d < 3; ++d) {
    out.places[d] = number(windows[d].places);
    out.first[d] = number(windows[d].lower);
    out.step[d] = number(windows[d].step);
    out.taps[d] = number(windows[d].taps);
    out.offset[d] = number(windows[d].offset);
    out.tap_step[d] = number(windows[d].tap_step);
  }
  if (p.groups > 1) out.group_channels = number(p.c);
  return out;
}

TsCudaConvPhase phase_of(const CudaConvPhase& phase) {
  TsCudaConvPhase out{};
  out.rows = number(phase.rows);
  out.steps = number(phase.steps);
  for (std::size_t d = 0; d < 3; ++d) {
    const CudaConvWindow& w = phase.windows[d];
    out.places[d] = number(w.places);
    out.first[d] = number(w.lower);
    out.taps[d] = number(phase.taps == 0 ? 0 : w.taps);
    out.offset[d] = number(w.offset);
    out.tap_step[d] = number(w.tap_step);
    out.filter_tap[d] = number(phase.filter_tap[d]);
    out.filter_step[d] = number(phase.filter_step[d]);
  }
  return out;
}

}  // namespace

CudaWindowPlan::CudaWindowPlan(const ConvProblem& problem, PlanInfo info, const KernelConfig& config, CudaSteps steps,
                               CudaSplitMemory* split_memory)
    : ConvPlan(problem, std::move(info)),
      steps_(std::move(steps)),
      algorithm_(config.algorithm),
      facts_(cuda_gemm_resources(gemm_of_window(config))),
      split_memory_(split_memory),
      product_(product_of(problem, window_step_taps(config.algorithm))),
      spatial_dims_(std::get<ConvSignature>(config.signature).spatial_dims),
      tap_channels_(step_of_window(problem) / static_cast<unsigned>(window_step_taps(config.algorithm))) {
  if (problem.direction == ConvDirection::backward_data)
    phases_ = cuda_conv_phases(problem, window_step_taps(config.algorithm));
}

Result<std::unique_ptr<ConvPlan>> CudaWindowPlan::make(const ConvProblem& p, PlanInfo info, const KernelConfig& config,
                                                       const CudaSpec& spec, CudaSteps steps,
                                                       CudaSplitMemory* split_memory) {
  const CudaGemmShape shape = cuda_window_shape(p, window_step_taps(config.algorithm));
  const CudaGemmWork work = cuda_window_work(config, spec, p);
  for (const auto& [what, size] :
       {std::pair{"rows of the product", shape.m}, std::pair{"columns of the product", shape.n},
        std::pair{"terms of a sum", shape.k}, std::pair{"parts of tiles", work.items},
        std::pair{"steps of all tiles", config.algorithm.stream_k ? work.items * (shape.k / step_of_window(p)) : 0}})
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
  launch.cluster = {unsigned{config.algorithm.cluster[0]} * config.algorithm.cluster[1], 1, 1};
  launch.overlaps_previous = true;
  return made;
}

Status CudaWindowPlan::encode_image(const void* data, const ConvStrides& s, std::int64_t group_channels,
                                    const std::array<CudaConvWindow, 3>& windows, const TensorMapFormat& format,
                                    std::uint32_t channels, std::uint32_t places, TsCudaTensorMap& map) const {
  const ConvProblem& p = problem();
  const auto size = static_cast<std::int64_t>(bytes_of(format.element));
  const auto bytes = [&](std::int64_t elements) { return static_cast<std::uint64_t>(elements * size); };
  const std::int64_t all_channels = p.groups * group_channels;
  std::vector<Im2colDimension> image;  // inner to outer
  // The stride of an only pixel is not the caller's: any valid one will do.
  std::uint64_t step = (bytes(all_channels) + 15) / 16 * 16;
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
  return encode_im2col_map(steps_.context(), format, data, static_cast<std::uint64_t>(all_channels), image,
                           static_cast<std::uint64_t>(p.batch), step, channels, places, map);
}

Status CudaWindowPlan::encode_filters(const void* data, const ConvStrides& s, const TensorMapFormat& format,
                                      std::uint32_t channels, std::uint32_t filters, TsCudaTensorMap& map) const {
  const ConvProblem& p = problem();
  const auto extent = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  const auto stride = [&](std::int64_t members, std::int64_t elements) {
    return members > 1 ? extent(elements) * bytes_of(format.element) : std::uint64_t{16};
  };
  const TensorMapDimension dimensions[] = {{extent(p.c), 0, channels},
                                           {extent(taps_of(p)), extent(tap_stride(p, s)) * bytes_of(format.element), 1},
                                           {extent(p.k), stride(p.k, s.batch), filters},
                                           {extent(p.groups), stride(p.groups, s.group), 1}};
  return encode_tensor_map(steps_.context(), format, data, dimensions, map);
}

TensorMapFormat CudaWindowPlan::format_of_slab() const {
  const bool words = bits_of(problem().type_out) == 32;
  return {.element = words ? TensorMapElement::u32 : TensorMapElement::u16,
          .swizzle = swizzle_of(facts_.slab_row_bytes)};
}

std::uint32_t CudaWindowPlan::channels_of_slab() const {
  return static_cast<std::uint32_t>(facts_.slab_row_bytes * 8 / bits_of(problem().type_out));
}

Status CudaWindowPlan::encode_forward(const ConvArguments& a, const GemmArguments& results,
                                      TsCudaGemmMaps& maps) const {
  const ConvProblem& p = problem();
  const TensorMapFormat format = operand_format(p, tap_channels_);
  TS_TRY(encode_image(a.x, a.x_strides, p.c, cuda_conv_windows(p), format, tap_channels_, algorithm_.tile[0], maps.a));
  TS_TRY(encode_filters(a.w, a.w_strides, format, tap_channels_, algorithm_.tile[1], maps.b));
  return encode_result_maps(steps_.context(), product_, facts_, algorithm_, results, maps);
}

Status CudaWindowPlan::encode_phases(const ConvArguments& a, const GemmArguments& results,
                                     TsCudaConvPhaseMaps& maps) const {
  const ConvProblem& p = problem();
  const std::uint32_t columns = std::min<std::uint32_t>(step_of_window(p), algorithm_.tile[1]);
  TS_TRY(encode_filters(a.w, a.w_strides, operand_format(p, columns), columns, tap_channels_, maps.b));
  if (phases_.size() == 1) {
    TS_TRY(encode_result_maps(steps_.context(), product_, facts_, algorithm_, results, maps));
    maps.result[0] = maps.d;
  }
  for (std::size_t i = 0; i < phases_.size(); ++i) {
    const CudaConvPhase& phase = phases_[i];
    TS_TRY(encode_image(a.y, a.y_strides, p.k, phase.windows, operand_format(p, tap_channels_), tap_channels_,
                        algorithm_.tile[0], (&maps.a)[behind_map_a(static_cast<int>(i))]));
    if (phases_.size() == 1) break;
    // The phase's pixels of x, as an image of their own.
    ConvStrides strides = a.x_strides;
    std::array<CudaConvWindow, 3> pixels;
    std::int64_t first = 0;
    for (std::size_t d = 0; d < 3; ++d) {
      first += phase.first[d] * a.x_strides.spatial[d];
      strides.spatial[d] *= p.stride()[d];
      pixels[d].pixels = pixels[d].places = phase.windows[d].places;
    }
    char* const out = static_cast<char*>(a.out) + first * bits_of(p.type_out) / 8;
    TS_TRY(encode_image(out, strides, p.c, pixels, format_of_slab(), channels_of_slab(),
                        static_cast<std::uint32_t>(facts_.box_rows), maps.result[i]));
  }
  return {};
}

Status CudaWindowPlan::encode_weight(const ConvArguments& a, TsCudaGemmMaps& maps) const {
  const ConvProblem& p = problem();
  const GemmOperand y = gemm_arguments(p, a).a;
  const auto bytes = [&](std::int64_t elements) { return static_cast<std::uint64_t>(elements * element_bytes(p)); };
  const TensorMapDimension channels_of_y[] = {
      {static_cast<std::uint64_t>(p.k), 0, step_of_window(p)},
      {static_cast<std::uint64_t>(pixels_of_y(p)), bytes(y.leading), step_of_window(p)},
      {static_cast<std::uint64_t>(p.groups), p.groups > 1 ? bytes(y.batch) : std::uint64_t{16}, 1}};
  TS_TRY(encode_tensor_map(steps_.context(), operand_format(p, step_of_window(p)), a.y, channels_of_y, maps.a));
  TS_TRY(encode_image(a.x, a.x_strides, p.c, cuda_conv_windows(p), operand_format(p, tap_channels_), tap_channels_,
                      step_of_window(p), maps.b));
  return encode_filters(a.out, a.w_strides, format_of_slab(), channels_of_slab(),
                        static_cast<std::uint32_t>(facts_.box_rows), maps.d);
}

Status CudaWindowPlan::run(const ConvArguments& a, const RunOptions& options) const {
  const ConvProblem& p = problem();
  TS_TRY(validate(p, a));
  if (is_empty(p)) return {};
  TS_TRY(check_conv_alignment(p, a));
  const GemmArguments results = gemm_arguments(p, a);
  TsCudaGemmArgs arguments = cuda_gemm_arguments(product_, results);
  arguments.splits = splits_;
  // Tiles walked side by side, so that the panels they share stay in the L2 cache. Measured on an H200.
  arguments.band = product_.m * product_.n <= std::int64_t{4096} * 14336 ? 16 : 8;
  for (std::size_t i = 0; i < product_.epilogue.size(); ++i)
    if (reads_vector(product_.epilogue[i])) arguments.epilogue[i].batch_stride = product_.n;  // by group
  return steps_.run(options.stream, [&](std::size_t, const auto& send) -> Status {
    if (split_memory_ != nullptr) {
      TS_ASSIGN(const CudaSplitMemory::Place place, split_memory_->place_for(options, split_size_));
      arguments.counters = place.counters;
      arguments.partials = place.parts;
    }
    switch (p.direction) {
      case ConvDirection::backward_data: {
        TsCudaConvPhaseMaps maps{};
        TS_TRY(encode_phases(a, results, maps));
        TsCudaConvPhaseArgs of_phases{};
        static_cast<TsCudaGemmArgs&>(of_phases) = arguments;
        of_phases.phases = static_cast<int>(phases_.size());
        of_phases.group_channels = p.groups > 1 ? number(p.k) : 0;
        for (std::size_t d = 0; d < 3; ++d) of_phases.filter[d] = number(p.filter()[d]);
        std::ranges::transform(phases_, of_phases.phase, phase_of);
        return send(maps, of_phases);
      }
      case ConvDirection::backward_weight: {
        TsCudaGemmMaps maps{};
        TS_TRY(encode_weight(a, maps));
        const int blocks = number(product_.n / taps_of(p) / tap_channels_);
        TsCudaConvWeightArgs of_weight{arguments, window_of(p), blocks, 0, number(p.c), tap_stride(p, a.w_strides)};
        if (!algorithm_.split_k) return send(maps, of_weight);
        TS_TRY(send(maps, of_weight));
        of_weight.join = 1;
        return send(maps, of_weight);
      }
      case ConvDirection::forward:
        break;
    }
    TsCudaGemmMaps maps{};
    TS_TRY(encode_forward(a, results, maps));
    return send(maps, arguments, window_of(p));
  });
}

}  // namespace tilesmith
