// The launch of a GEMM on Composable Kernel.
#pragma once

#include <hip/hip_runtime.h>

#include <array>
#include <ck_tile/core.hpp>
#include <cstddef>

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

}  // namespace tilesmith_ck
