// Matrices whose rows are no whole 16 bytes, copied to where they are: a launch in front of kernels that copy by so
// many.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/error.hpp"
#include "choose/padded_rows.hpp"
#include "kernels/cuda/copy/abi.h"
#include "runtime/cuda/kernel.hpp"

namespace tilesmith {

/// The copy of a matrix at `from`, with these bytes between its rows and between members, to `to`.
[[nodiscard]] inline TsPadMatrix pad_matrix(const PaddedRows& rows, const void* from, std::int64_t stride,
                                            std::int64_t batch_stride, void* to) {
  TsPadMatrix out{};
  out.from = from;
  out.to = to;
  out.from_stride = stride;
  out.from_batch_stride = batch_stride;
  out.to_stride = rows.stride();
  out.to_batch_stride = rows.rows * rows.stride();
  out.rows = static_cast<int>(rows.rows);
  out.row_bytes = static_cast<int>(rows.row_bytes);
  out.chunks = static_cast<int>(rows.stride() / 16);
  out.items = static_cast<int>(rows.bytes() / 16);
  return out;
}

/// Queues the copies, of at most TS_PAD_MATRICES matrices, behind what is in the stream.
[[nodiscard]] inline Status pad_rows(const CudaKernel& kernel, std::span<const TsPadMatrix> matrices, int sms,
                                     cu::Stream stream) {
  constexpr std::int64_t kBlocksOfSm = 8;
  TsPadArgs args{};
  std::int64_t items = 0;
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    args.matrices[i] = matrices[i];
    items += matrices[i].items;
  }
  if (items == 0) return {};
  const std::int64_t blocks = std::min((items + TS_PAD_THREADS - 1) / TS_PAD_THREADS, sms * kBlocksOfSm);
  return launch_with(kernel,
                     {.grid = {static_cast<unsigned>(blocks), 1, 1},
                      .block = {TS_PAD_THREADS, 1, 1},
                      .overlaps_previous = true,
                      .stream = stream},
                     args);
}

}  // namespace tilesmith
