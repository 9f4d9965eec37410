// The launch of a grouped convolution on Composable Kernel.
#pragma once

#include <hip/hip_runtime.h>

#include <ck_tile/core.hpp>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "tilesmith_ck/conv.h"

namespace tilesmith_ck {

/// A depthwise kernel stores its sums itself; its class still asks an epilogue for these types.
template <class Output>
struct NoEpilogue {
  using DsLayout = ck_tile::tuple<>;
  using DsDataType = ck_tile::tuple<>;
  using ODataType = Output;
  using AccDataType = float;
  using CDElementwise = ck_tile::element_wise::PassThrough;
};

/// As a vector of the integer type that the version of Composable Kernel asks for.
struct Figures {
  const int* first;
  int count;
  template <class Integer>
  operator std::vector<Integer>() const {
    return std::vector<Integer>(first, first + count);
  }
};

inline ck_tile::conv::ConvParam conv_parameters(const ConvArguments& a) {
  return ck_tile::conv::ConvParam(a.dims, a.groups, a.n, a.k, a.c, Figures{a.filter, a.dims}, Figures{a.input, a.dims},
                                  Figures{a.stride, a.dims}, Figures{a.dilation, a.dims}, Figures{a.left_pad, a.dims},
                                  Figures{a.right_pad, a.dims});
}

/// The kernel's arguments; `w` is where a backward-weight kernel leaves its sums.
template <class Kernel, ConvDirection kDirection>
auto conv_arguments(const ConvArguments& a, void* w) {
  const ck_tile::conv::ConvParam p = conv_parameters(a);
  if constexpr (kDirection == ConvDirection::fwd)
    return Kernel::MakeKernelArgs(ck_tile::GroupedConvFwdHostArgs<>(p, a.x, w, {}, a.y, a.k_batch));
  else if constexpr (kDirection == ConvDirection::bwd_data)
    return Kernel::MakeKernelArgs(ck_tile::GroupedConvBwdDataHostArgs(p, a.x, w, {}, a.y, a.k_batch));
  else
    return Kernel::MakeKernelArgs(ck_tile::GroupedConvBwdWeightHostArgs(p, a.x, w, {}, a.y, a.k_batch));
}

inline std::size_t weight_elements(const ConvArguments& a) {
  return static_cast<std::size_t>(a.groups) * a.k * a.c * filter_points(a);
}

/// Whether a kernel starts all lanes of its pipeline: one with waves that only load has more than those that multiply,
/// and an earlier Composable Kernel would leave them out.
template <class Kernel, class = void>
struct StartsAllLanes : std::true_type {};
template <class Kernel>
struct StartsAllLanes<Kernel, std::void_t<decltype(Kernel::GemmPipeline::LaunchBlockSize)>>
    : std::bool_constant<Kernel::kBlockSize == Kernel::GemmPipeline::LaunchBlockSize> {};

/// Gradients of the image are added by several blocks, and those of the filters by parts of the sum: what they are
/// added into is zero before every repetition. `make_launch(kernel, grid, block, arguments...)` gives a launch.
template <class Kernel, ConvDirection kDirection, class Element, class MakeLaunch>
float launch_conv(const ConvArguments& a, const ck_tile::stream_config& stream, MakeLaunch make_launch) {
  static_assert(StartsAllLanes<Kernel>::value, "this Composable Kernel does not know waves that only load");
  const auto kernel_arguments = conv_arguments<Kernel, kDirection>(a, a.w);
  if (!Kernel::IsSupportedArgument(kernel_arguments)) return kRefused;
  const auto launch = make_launch(Kernel{}, Kernel::GridSize(kernel_arguments), Kernel::BlockSize(), kernel_arguments);
  if constexpr (kDirection == ConvDirection::fwd) {
    return ck_tile::launch_kernel(stream, launch);
  } else {
    constexpr bool kImage = kDirection == ConvDirection::bwd_data;
    const std::size_t elements =
        kImage ? static_cast<std::size_t>(a.groups) * a.n * a.c * image_points(a) : weight_elements(a);
    const auto zero = [&] {
      if (kImage || a.k_batch > 1)
        (void)hipMemsetAsync(kImage ? a.x : a.w, 0, elements * sizeof(Element), stream.stream_id_);
    };
    return ck_tile::launch_kernel_time_mask(stream, zero, launch);
  }
}

template <class Kernel>
std::size_t stream_k_workspace(const ConvArguments& a) {
  return Kernel::GetWorkSpaceSize(conv_arguments<Kernel, ConvDirection::bwd_weight>(a, a.w));
}

template <class Kernel, class MakeLaunch>
float launch_conv_stream_k(const ConvArguments& a, const ck_tile::stream_config& stream, MakeLaunch make_launch) {
  auto kernel_arguments = conv_arguments<Kernel, ConvDirection::bwd_weight>(a, a.w);
  if (!Kernel::IsSupportedArgument(kernel_arguments)) return kRefused;
  const std::size_t bytes = Kernel::GetWorkSpaceSize(kernel_arguments);
  if (bytes > 0 && a.workspace == nullptr) return kRefused;
  Kernel::SetWorkSpacePointer(kernel_arguments, a.workspace);
  const auto zero = [&] {
    if (bytes > 0) (void)hipMemsetAsync(a.workspace, 0, bytes, stream.stream_id_);
  };
  return ck_tile::launch_kernel_time_mask(
      stream, zero, make_launch(Kernel{}, Kernel::GridSize(kernel_arguments), Kernel::BlockSize(), kernel_arguments));
}

template <class Kernel>
std::size_t two_stage_workspace(const ConvArguments& a) {
  return weight_elements(a) * sizeof(float);
}

/// The sums in float32 into the workspace, then a kernel that converts them.
template <class Kernel, class Convert, class Element, int kConvertTile, class MakeLaunch>
float launch_conv_two_stage(const ConvArguments& a, const ck_tile::stream_config& stream, MakeLaunch make_launch) {
  static_assert(StartsAllLanes<Kernel>::value, "this Composable Kernel does not know waves that only load");
  if (a.workspace == nullptr) return kRefused;
  const auto kernel_arguments = conv_arguments<Kernel, ConvDirection::bwd_weight>(a, a.workspace);
  if (!Kernel::IsSupportedArgument(kernel_arguments)) return kRefused;
  const ck_tile::index_t rows = a.groups * a.k;
  const auto columns = static_cast<ck_tile::index_t>(a.c * filter_points(a));
  const auto shape = ck_tile::make_tuple(rows, columns), strides = ck_tile::make_tuple(columns, 1);
  if (!Convert::IsSupportedArgument(shape)) return kRefused;
  const auto sums = ck_tile::make_tuple(static_cast<float*>(a.workspace));
  const std::size_t elements = weight_elements(a);
  const auto zero = [&] {
    if (a.k_batch > 1) (void)hipMemsetAsync(a.workspace, 0, elements * sizeof(float), stream.stream_id_);
  };
  const auto blocks = static_cast<unsigned>((elements + kConvertTile - 1) / kConvertTile);
  return ck_tile::launch_kernel_time_mask(
      stream, zero,
      make_launch(Kernel{}, Kernel::GridSize(kernel_arguments), Kernel::BlockSize(), kernel_arguments),
      make_launch(Convert{}, dim3(blocks), dim3(Convert::BlockSize()), shape, strides, strides, sums,
                  static_cast<Element*>(a.w)));
}

}  // namespace tilesmith_ck
