#include "dispatch/conv/cuda_padded_plan.hpp"

#include <algorithm>
#include <cstdint>

#include "choose/conv/cuda_padded.hpp"
#include "dispatch/conv/cuda_plan.hpp"
#include "dispatch/workspace.hpp"
#include "kernels/cuda/conv/rowwise/abi.h"
#include "problem/conv/problem.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

constexpr int kBlocksOfCopies = 8;  // of an SM: all threads that it has
constexpr std::size_t kRegionsApart = 256;

/// Pixels, or taps, are evenly apart, as the problem is not unaligned.
std::int64_t step_along(const ConvStrides& s, const ConvSpatial& size) {
  for (std::size_t d = size.size(); d-- > 0;)
    if (size[d] > 1) return s.spatial[d];
  return 0;
}

TsCudaConvRowsArgs rows_of(const std::array<std::int64_t, 3>& step, const std::array<std::int64_t, 3>& size,
                           std::int64_t there, std::int64_t channels, std::int64_t padded) {
  TsCudaConvRowsArgs rows{};
  for (std::size_t d = 0; d < size.size(); ++d) {
    rows.step[d] = step[d];
    rows.size[d] = static_cast<int>(size[d]);
  }
  rows.there = static_cast<int>(there);
  rows.channels = static_cast<int>(channels);
  rows.padded = static_cast<int>(padded);
  return rows;
}

/// The same rows of elements that are up to four times as large: neighbours that are always copied together.
TsCudaConvRowsArgs of_larger_elements(TsCudaConvRowsArgs rows) {
  constexpr int kLargest = 8;
  const auto halves = [&] {
    bool even = rows.channels % 2 == 0 && reinterpret_cast<std::uintptr_t>(rows.tensor) % (2 * rows.bytes) == 0;
    for (std::size_t d = 0; d < 3; ++d) even = even && (rows.size[d] == 1 || rows.step[d] % 2 == 0);
    return even;
  };
  while (rows.bytes < kLargest && halves()) {
    rows.channels /= 2;
    rows.padded /= 2;
    for (long long& step : rows.step) step /= 2;
    rows.bytes *= 2;
  }
  return rows;
}

/// Bytes of the rows.
double bytes_of_rows(const TsCudaConvRowsArgs& rows) {
  return 1.0 * rows.size[0] * rows.size[1] * rows.size[2] * rows.padded * rows.bytes;
}

/// Of x or y: a pixel's groups lie behind one another.
TsCudaConvRowsArgs rows_of_image(const ConvProblem& p, const ConvStrides& s, const ConvSpatial& size,
                                 std::int64_t channels, std::int64_t padded) {
  const std::int64_t of_image = size[0] * size[1] * size[2], pixels = p.batch * of_image;
  return rows_of({s.group, of_image > 1 ? step_along(s, size) : s.batch, 0}, {p.groups, pixels, 1}, pixels, channels,
                 padded);
}

/// Of w: taps, filters, and groups, which are filled up with filters.
TsCudaConvRowsArgs rows_of_filters(const ConvProblem& p, const ConvStrides& s, const ConvProblem& padded) {
  return rows_of({step_along(s, p.filter()), s.batch, s.group}, {taps_of(p), padded.k, p.groups}, p.k, p.c, padded.c);
}

}  // namespace

Result<std::unique_ptr<ConvPlan>> CudaPaddedPlan::make(const ConvProblem& p, PlanInfo info, const CudaSpec& spec,
                                                       CudaSteps steps, int threads, std::unique_ptr<ConvPlan> inner,
                                                       CudaSplitMemory& memory) {
  const ConvProblem& padded = inner->problem();
  const std::array<std::int64_t, 3> elements = padded_elements(p, padded);
  const std::array<bool, 3> result{p.direction == ConvDirection::backward_data,
                                   p.direction == ConvDirection::backward_weight,
                                   p.direction == ConvDirection::forward};
  constexpr std::array<const char*, 3> kNames{"x", "w", "y"};
  WorkspaceLayout layout;
  std::array<std::size_t, 3> offsets{};
  for (std::size_t i = 0; i < elements.size(); ++i)
    offsets[i] =
        layout.add(kNames[i], static_cast<std::size_t>(elements[i] * bits_of(result[i] ? p.type_out : p.data_type) / 8),
                   kRegionsApart);
  const CudaSplitMemory::Size size{.part_bytes = layout.bytes()};
  const std::size_t of_kernel = layout.add("kernel", inner->workspace_bytes(), kRegionsApart);
  layout.tell(info);
  TS_TRY(memory.reserve(size));
  std::unique_ptr<CudaPaddedPlan> made(
      new CudaPaddedPlan(p, std::move(info), std::move(steps), std::move(inner), memory));
  made->size_ = size;
  made->elements_ = elements;
  made->offsets_ = offsets;
  made->of_kernel_ = of_kernel;
  CudaLaunch& launch = made->steps_.launch();
  made->blocks_ = static_cast<int>(kBlocksOfCopies * spec.reference.sms);
  launch.grid.x = static_cast<unsigned>(made->blocks_);
  launch.block = {static_cast<unsigned>(threads), 1, 1};
  launch.overlaps_previous = spec.major >= 9;
  return made;
}

Status CudaPaddedPlan::run(const ConvArguments& a, const RunOptions& options) const {
  const ConvProblem &p = problem(), &padded = inner_->problem();
  TS_TRY(validate(p, a));
  TS_TRY(check_conv_alignment(p, a));
  TS_ASSIGN(const CudaSplitMemory::Place place, memory_.place_for(options, size_));
  char* const memory = reinterpret_cast<char*>(place.parts);
  ConvArguments of_inner = dense_arguments(padded, ConvLayout::channels_last);
  const bool of_result[]{p.direction == ConvDirection::backward_data, p.direction == ConvDirection::backward_weight,
                         p.direction == ConvDirection::forward};
  const ConvStrides* const given[]{&a.x_strides, &a.w_strides, &a.y_strides};
  ConvStrides* const strides[]{&of_inner.x_strides, &of_inner.w_strides, &of_inner.y_strides};
  const void* const read[]{a.x, a.w, a.y};
  const void** const to_read[]{&of_inner.x, &of_inner.w, &of_inner.y};
  TsCudaConvRowsArgs rows[]{rows_of_image(p, a.x_strides, p.in(), p.c, padded.c),
                            rows_of_filters(p, a.w_strides, padded),
                            rows_of_image(p, a.y_strides, p.out(), p.k, padded.k)};
  of_inner.out = a.out;
  of_inner.epilogue = a.epilogue;
  for (std::size_t i = 0; i < 3; ++i) {
    const void* const copy = memory + offsets_[i];
    if (elements_[i] == 0) *strides[i] = *given[i];
    if (of_result[i]) {
      if (elements_[i] > 0) of_inner.out = const_cast<void*>(copy);
    } else {
      *to_read[i] = elements_[i] > 0 ? copy : read[i];
    }
    rows[i].tensor = of_result[i] ? a.out : const_cast<void*>(read[i]);
    rows[i].rows = const_cast<void*>(copy);
    rows[i].bytes = bits_of(of_result[i] ? p.type_out : p.data_type) / 8;
    rows[i].back = of_result[i];
  }
  const auto copy = [&](bool results) -> Status {
    TsCudaConvRowsCall call{.tensors = {}, .blocks = blocks_};
    std::size_t count = 0;
    for (std::size_t i = 0; i < 3; ++i)
      if (elements_[i] > 0 && of_result[i] == results) call.tensors[count++] = of_larger_elements(rows[i]);
    if (count == 0) return {};
    if (count == 2) {
      const double first = bytes_of_rows(call.tensors[0]), second = bytes_of_rows(call.tensors[1]);
      call.blocks = std::clamp(static_cast<int>(blocks_ * first / (first + second)), 1, blocks_ - 1);
    }
    return steps_.run(options.stream, [&](std::size_t, const auto& send) -> Status { return send(call); });
  };
  RunOptions inner_options = options;
  if (options.workspace != nullptr) inner_options.workspace = static_cast<char*>(options.workspace) + of_kernel_;
  TS_TRY(copy(false));
  TS_TRY(inner_->run(of_inner, inner_options));
  return copy(true);
}

}  // namespace tilesmith
