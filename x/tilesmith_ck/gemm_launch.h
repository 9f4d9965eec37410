// The launch of a GEMM on Composable Kernel.
#pragma once

#include <hip/hip_runtime.h>

#include <array>
#include <ck_tile/core.hpp>
#include <cstddef>
#include <vector>

#include "tilesmith_ck/gemm.h"

namespace tilesmith_ck {

/// `make_launch(grid, kernel_arguments)` gives the launch. k in parts adds up in c, so c is zero before every
/// repetition of a timed run, and not before the first one only.
template <class Kernel, int kNumD, bool kPersistent, class MakeLaunch>
float launch_gemm(const GemmArguments& a, const ck_tile::stream_config& stream, std::size_t bytes_of_c,
                  MakeLaunch make_launch) {
  const auto kernel_arguments = [&] {
    if constexpr (kNumD == 0) {
      return Kernel::MakeKernelArgs(ck_tile::GemmHostArgs(a.a, a.b, a.c, a.k_batch, a.m, a.n, a.k, a.stride_a,
                                                          a.stride_b, a.stride_c));
    } else {
      std::array<const void*, kNumD> d;
      std::array<ck_tile::index_t, kNumD> strides;
      for (std::size_t i = 0; i < kNumD; ++i) {
        d[i] = a.d[i];
        strides[i] = a.stride_d[i];
      }
      return Kernel::MakeKernelArgs(ck_tile::GemmMultiDHostArgs<kNumD>(a.a, a.b, d, a.c, a.k_batch, a.m, a.n, a.k,
                                                                       a.stride_a, a.stride_b, strides, a.stride_c));
    }
  }();
  if (!Kernel::IsSupportedArgument(kernel_arguments)) return kRefused;
  const dim3 grid = [&] {
    if constexpr (kPersistent)
      return Kernel::MaxOccupancyGridSize(stream);
    else
      return Kernel::GridSize(a.m, a.n, a.k_batch);
  }();
  const auto launch = make_launch(grid, kernel_arguments);
  if (a.k_batch == 1) return ck_tile::launch_kernel(stream, launch);
  const auto zero_c = [&] { (void)hipMemsetAsync(a.c, 0, bytes_of_c, stream.stream_id_); };
  return ck_tile::launch_kernel_time_mask(stream, zero_c, launch);
}

inline ck_tile::StreamKHostArgs stream_k_arguments(const GemmArguments& a) {
  return ck_tile::StreamKHostArgs(a.a, a.b, a.c, a.m, a.n, a.k, a.stride_a, a.stride_b, a.stride_c);
}

template <class Kernel>
std::size_t stream_k_workspace(const GemmArguments& a) {
  return Kernel::GetWorkSpaceSize(Kernel::MakeKernelArgs(stream_k_arguments(a)));
}

/// Blocks that share a tile add their parts in c, or leave them in the workspace beside flags that say so. Either must
/// be zero before every repetition. `make_launch(kernel, grid, block, arguments...)` gives a launch.
template <class Kernel, StreamK kStreamK, class MakeLaunch>
float launch_stream_k(const GemmArguments& a, const ck_tile::stream_config& stream, std::size_t bytes_of_c,
                      MakeLaunch make_launch) {
  auto kernel_arguments = Kernel::MakeKernelArgs(stream_k_arguments(a));
  if (!Kernel::IsSupportedArgument(kernel_arguments)) return kRefused;
  const std::size_t bytes = Kernel::GetWorkSpaceSize(kernel_arguments);
  if (bytes > 0 && a.workspace == nullptr) return kRefused;
  Kernel::SetWorkSpacePointer(kernel_arguments, a.workspace);
  const auto zero = [&] {
    if constexpr (kStreamK == StreamK::atomic)
      (void)hipMemsetAsync(a.c, 0, bytes_of_c, stream.stream_id_);
    else if (bytes > 0)
      (void)hipMemsetAsync(a.workspace, 0, bytes, stream.stream_id_);
  };
  const dim3 grid = Kernel::GridSize(kernel_arguments.tile_partitioner);
  return ck_tile::launch_kernel_time_mask(stream, zero,
                                          make_launch(Kernel{}, grid, Kernel::BlockSize(), kernel_arguments));
}

inline std::vector<ck_tile::GroupedGemmHostArgs<0>> grouped_arguments(const GemmArguments& a) {
  std::vector<ck_tile::GroupedGemmHostArgs<0>> out;
  for (int i = 0; i < a.num_groups; ++i) {
    const GemmGroup& g = a.groups[i];
    out.emplace_back(g.a, g.b, std::array<const void*, 0>{}, g.c, a.k_batch, g.m, g.n, g.k, g.stride_a, g.stride_b,
                     std::array<ck_tile::index_t, 0>{}, g.stride_c);
  }
  return out;
}

template <class Kernel>
std::size_t grouped_workspace(const GemmArguments& a) {
  return Kernel::GetWorkSpaceSize(a.num_groups);
}

/// The kernel reads the list from the workspace. `bytes_of_c(group)` is what a group of parts of k must find zero.
template <class Kernel, bool kPersistent, class BytesOfC, class MakeLaunch>
float launch_grouped(const GemmArguments& a, const ck_tile::stream_config& stream, BytesOfC bytes_of_c,
                     MakeLaunch make_launch) {
  const auto host_arguments = grouped_arguments(a);
  const auto list = Kernel::MakeKargs(host_arguments);
  if (list.empty()) return 0.0f;
  if (a.workspace == nullptr || !Kernel::IsSupportedArgument(list)) return kRefused;
  // The list is read before this returns: it lies in pageable memory.
  if (hipMemcpyWithStream(a.workspace, list.data(), list.size() * sizeof(list[0]), hipMemcpyHostToDevice,
                          stream.stream_id_) != hipSuccess)
    return kRefused;
  const dim3 grid = [&] {
    if constexpr (kPersistent)
      return Kernel::MaxOccupancyGridSize(stream);
    else
      return Kernel::GridSize(host_arguments);
  }();
  const auto zero = [&] {
    for (int i = 0; i < a.num_groups && a.k_batch > 1; ++i)
      (void)hipMemsetAsync(a.groups[i].c, 0, bytes_of_c(a.groups[i]), stream.stream_id_);
  };
  return ck_tile::launch_kernel_time_mask(
      stream, zero,
      make_launch(Kernel{}, grid, Kernel::BlockSize(), ck_tile::cast_pointer_to_constant_address_space(a.workspace),
                  static_cast<ck_tile::index_t>(list.size())));
}

}  // namespace tilesmith_ck
