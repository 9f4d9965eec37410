// The figures of launches are those that stand at the top of the kernels in kernels/cuda/serving.
#include <fmt/format.h>

#include "codegen/serving/cuda.hpp"
#include "dispatch/serving/cuda.hpp"
#include "dispatch/serving/cuda_arguments.hpp"
#include "kernels/cuda/serving/abi.h"
#include "problem/serving/types.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kMergeThreads = 256;

/// Sets where the parts are. Error: unsupported, for more than are listed and not equally far apart.
Status place_parts(const MergeStates& c, std::int64_t size, TsCudaMergeArgs& out) {
  out.listed = c.states <= TS_CUDA_LISTED_STATES;
  const std::int64_t listed = out.listed != 0 ? c.states : 1;
  for (std::int64_t i = 0; i < listed; ++i) {
    out.outputs[i] = c.outputs[i];
    out.lses[i] = c.lses[i];
  }
  if (out.listed != 0) return {};
  const auto apart = [](const void* from, const void* to) {
    return static_cast<const std::byte*>(to) - static_cast<const std::byte*>(from);
  };
  const std::ptrdiff_t output_bytes = apart(c.outputs[0], c.outputs[1]), lse_bytes = apart(c.lses[0], c.lses[1]);
  bool equal = output_bytes % size == 0 && lse_bytes % 4 == 0;
  for (std::int64_t i = 2; equal && i < c.states; ++i)
    equal = apart(c.outputs[i - 1], c.outputs[i]) == output_bytes && apart(c.lses[i - 1], c.lses[i]) == lse_bytes;
  if (!equal)
    return fail(ErrorCode::unsupported,
                fmt::format("{} parts that are not equally far apart on a CUDA device", c.states),
                fmt::format("at most {}, or one tensor of all parts", TS_CUDA_LISTED_STATES));
  out.output_step = output_bytes / size;
  out.lse_step = lse_bytes / 4;
  return {};
}

}  // namespace

Result<CudaLaunch> serving_launch(std::int64_t work, std::int64_t of_block, int major, void* stream) {
  constexpr std::int64_t kMostBlocks = 0x7fffffff;
  const std::int64_t blocks = (work + of_block - 1) / of_block;
  if (blocks > kMostBlocks)
    return fail(ErrorCode::unsupported, fmt::format("{} blocks are beyond a CUDA kernel's launch", blocks),
                fmt::format("at most {}", kMostBlocks));
  CudaLaunch launch;
  launch.grid = {static_cast<unsigned>(blocks), 1, 1};
  launch.block = {256, 1, 1};
  launch.overlaps_previous = major >= 9;
  launch.stream = static_cast<cu::Stream>(stream);
  return launch;
}

Status CudaMergeStates::run(const MergeStates& c, const RunOptions& options) {
  if (c.batch == 0 || c.heads == 0 || c.seqlen == 0) return {};
  const auto size = static_cast<std::int64_t>(size_of(floating_element(c.data_type)));
  TsCudaMergeArgs out{};
  TS_TRY(place_parts(c, size, out));
  out.o = c.o;
  out.lse = c.lse;
  out.output_strides = kernel_strides(c.output_strides);
  out.input_lse_strides = kernel_strides(c.input_lse_strides);
  out.o_strides = kernel_strides(c.o_strides);
  out.lse_strides = kernel_strides(c.lse_strides);
  out.states = c.states;
  out.batch = c.batch;
  out.heads = c.heads;
  out.seqlen = c.seqlen;
  out.head_dim = c.head_dim;
  const std::int64_t group = 16 / size;
  bool aligned = in_groups(c.o, c.o_strides, c.head_dim, size, group) && out.output_step % group == 0;
  for (std::int64_t i = 0; i < (out.listed != 0 ? c.states : 1); ++i)
    aligned = aligned && in_groups(c.outputs[i], c.output_strides, c.head_dim, size, group);
  out.aligned = aligned ? 1 : 0;
  TS_ASSIGN(const CudaKernel* const kernel, kernels_.find(static_cast<std::size_t>(c.data_type), [&] {
    return cuda_merge_states_source(c.data_type, spec_);
  }));
  const std::int64_t columns = aligned ? c.head_dim / group : c.head_dim;
  TS_ASSIGN(const CudaLaunch launch,
            serving_launch(c.batch * c.heads * c.seqlen * columns, kMergeThreads, spec_.major, options.stream));
  const CudaCurrent current(kernel->context());
  TS_TRY(current.status());
  return launch_with(*kernel, launch, out);
}

}  // namespace tilesmith
