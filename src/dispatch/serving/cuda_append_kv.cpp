// The figures of launches are those that stand at the top of the kernels in kernels/cuda/serving.
#include <algorithm>

#include "codegen/serving/cuda.hpp"
#include "dispatch/serving/cuda.hpp"
#include "dispatch/serving/cuda_arguments.hpp"
#include "kernels/cuda/serving/abi.h"
#include "problem/serving/problem.hpp"
#include "problem/serving/types.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kAppendWarps = 8;  // of a block, each with a head's row of a token
constexpr std::int64_t kGroup = 4;        // elements that are moved at a time

/// Whether every tensor can be moved by groups.
bool in_groups(const AppendKv& c) {
  const auto size = static_cast<std::int64_t>(size_of(floating_element(c.data_type)));
  const auto cache_size = static_cast<std::int64_t>(size_of(cache_element(c.data_type, c.cache)));
  const auto fits = [](const void* data, const AttentionStrides& s, std::int64_t dim, std::int64_t bytes) {
    return tilesmith::in_groups(data, s, dim, bytes, kGroup);
  };
  const auto cache_fits = [&](const void* data, AttentionStrides s, std::int64_t dim) {
    if (c.vectorized_pages) s.row = 0;  // not read
    return fits(data, s, dim, cache_size);
  };
  return c.rotary.dim % (2 * kGroup) == 0 && fits(c.k, c.k_strides, c.head_dim_qk, size) &&
         fits(c.v, c.v_strides, c.head_dim_v, size) && cache_fits(c.k_cache, c.k_cache_strides, c.head_dim_qk) &&
         cache_fits(c.v_cache, c.v_cache_strides, c.head_dim_v) &&
         (c.heads_q == 0 ||
          (fits(c.q, c.q_strides, c.head_dim_qk, size) && fits(c.q_out, c.q_out_strides, c.head_dim_qk, size)));
}

}  // namespace

Status CudaAppendKv::run(const AppendKv& c, const RunOptions& options) {
  const std::int64_t tokens = total_tokens(c);
  if (c.batch == 0 || tokens == 0) return {};
  TsCudaAppendArgs out{};
  out.q = c.q;
  out.k = c.k;
  out.v = c.v;
  out.q_out = c.q_out;
  out.k_cache = c.k_cache;
  out.v_cache = c.v_cache;
  out.q_strides = kernel_strides(c.q_strides);
  out.k_strides = kernel_strides(c.k_strides);
  out.v_strides = kernel_strides(c.v_strides);
  out.q_out_strides = kernel_strides(c.q_out_strides);
  out.k_cache_strides = kernel_strides(c.k_cache_strides);
  out.v_cache_strides = kernel_strides(c.v_cache_strides);
  out.cu_seqlens = c.mode == SequenceMode::group ? c.cu_seqlens : nullptr;
  out.pages = {c.pages.lengths, c.pages.numbers, c.pages.offsets, c.pages.stride, c.page_size, 0};
  out.slots = reinterpret_cast<const long long*>(c.slots);
  out.positions = reinterpret_cast<const long long*>(c.positions);
  out.rotary_cos = c.rotary.cos;
  out.rotary_sin = c.rotary.sin;
  out.k_scale = {c.k_scale.data, c.k_scale.batch, c.k_scale.head, 0};
  out.v_scale = {c.v_scale.data, c.v_scale.batch, c.v_scale.head, 0};
  if (c.page_scale) out.k_scale.block = c.k_scale.block, out.v_scale.block = c.v_scale.block;
  out.page_scale = c.page_scale ? 1 : 0;
  out.lengths_after = c.lengths_after ? 1 : 0;
  out.vectorized_pages = c.vectorized_pages ? 1 : 0;
  out.k_row_scale = c.k_row_scale;
  out.v_row_scale = c.v_row_scale;
  out.k_row_scale_strides = kernel_strides(c.k_row_scale_strides);
  out.v_row_scale_strides = kernel_strides(c.v_row_scale_strides);
  out.rotary_dim = c.rotary.dim;
  out.rotary_positions = c.rotary.positions;
  out.rotary_row_stride = c.rotary.row_stride;
  out.tokens = tokens;
  out.batch = c.batch;
  out.seqlen = c.seqlen;
  out.heads_q = c.heads_q;
  out.heads_kv = c.heads_kv;
  out.head_dim_qk = c.head_dim_qk;
  out.head_dim_v = c.head_dim_v;
  out.num_pages = c.pages.num_pages;
  out.interleaved = c.rotary.style == RotaryStyle::interleaved ? 1 : 0;
  out.aligned = in_groups(c) ? 1 : 0;
  const auto at = static_cast<std::size_t>(c.data_type) + 3 * static_cast<std::size_t>(c.cache);
  TS_ASSIGN(const CudaKernel* const kernel,
            kernels_.find(at, [&] { return cuda_append_kv_source(c.data_type, c.cache, spec_); }));
  TS_ASSIGN(const CudaLaunch launch,
            serving_launch(tokens * (c.heads_q + 2 * c.heads_kv), kAppendWarps, spec_.major, options.stream));
  const CudaCurrent current(kernel->context());
  TS_TRY(current.status());
  return launch_with(*kernel, launch, out);
}

}  // namespace tilesmith
