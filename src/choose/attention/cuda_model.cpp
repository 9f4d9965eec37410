#include "choose/attention/cuda_model.hpp"

#include <algorithm>
#include <numeric>

#include "choose/attention/cuda_decode.hpp"
#include "choose/attention/cuda_few_queries.hpp"
#include "choose/attention/cuda_terms.hpp"
#include "choose/rounding.hpp"
#include "instances/attention/cuda_resources.hpp"
#include "problem/attention/problem.hpp"

namespace tilesmith {

CudaAttentionShape cuda_attention_shape(const AttentionProblem& p) {
  const double pairs = static_cast<double>(p.batch) * static_cast<double>(p.heads_q) * static_cast<double>(p.seqlen_q) *
                       static_cast<double>(p.seqlen_k);
  const MaskWindow window = window_of(p);
  CudaAttentionShape shape{.batch = p.batch,
                           .heads_q = p.heads_q,
                           .heads_kv = p.heads_kv,
                           .seqlen_q = p.seqlen_q,
                           .seqlen_k = p.seqlen_k,
                           .bias_can_be_copied = !p.unaligned_bias,
                           .visible = pairs > 0 ? visible_pairs(p) / pairs : 1};
  shape.splits = p.splits;
  shape.paged = p.page_size > 0;
  shape.vectorized_pages = p.vectorized_pages;
  shape.narrow = p.cache != KvElements::as_queries;
  shape.batch_invariant = p.batch_invariant;
  shape.ragged = p.mode == SequenceMode::group;
  shape.uneven = shape.paged || shape.ragged;
  const bool sees_all = p.mask == MaskKind::none && p.window_left < 0 && p.window_right < 0;
  const bool sees_its_own = p.mask == MaskKind::bottom_right && p.diagonal == 0;
  shape.appends = p.append;
  shape.may_write_new_keys = p.append && shape.paged && !shape.narrow && !p.latent && !p.vectorized_pages &&
                             !p.unaligned && (sees_all || sees_its_own);
  if (window.left >= 0 && window.right >= 0) shape.window_keys = window.left + window.right + 1;
  return shape;
}

double cuda_row_blocks(const KernelConfig& config, const CudaAttentionShape& shape) {
  const double packed = config.algorithm.pack_gqa;
  return static_cast<double>(shape.batch) * static_cast<double>(shape.heads_q) / packed *
         ceil_div(static_cast<double>(shape.seqlen_q) * packed, static_cast<double>(config.algorithm.tile[0]));
}

namespace {

/// Whether tiles of different lengths are dealt to blocks before the kernel begins.
bool deals_uneven_tiles(const KernelConfig& config, const CudaAttentionShape& shape) {
  return config.algorithm.pipeline == Pipeline::warp_specialized && !config.algorithm.dynamic_scheduler &&
         (shape.uneven || config.attention().mask != MaskKind::none);
}

/// predicted_seconds of a problem that appends nothing.
double attending_seconds(const KernelConfig& config, const CudaTile& row, const CudaSpec& spec,
                         const CudaAttentionShape& shape) {
  const AttentionSignature& s = config.attention();
  if (is_decode(config.algorithm.pipeline)) return cuda_decode_work(config, spec, shape).seconds;
  if (is_fitted_for(spec, s)) {
    if (const CudaFewQueriesModel* few = few_queries_model(config, spec, shape))
      return few_queries_seconds(config, *few, spec, shape);
    if (const CudaAttentionTerms* fitted = spec.attention_model->coefficients(config.algorithm.pipeline)) {
      const CudaAttentionTerms terms = cuda_attention_terms(config, row, spec, shape);
      return (shape.narrow ? spec.attention_model->narrow_keys_times(std::max(s.head_dim_qk, s.head_dim_v)) : 1) *
             (deals_uneven_tiles(config, shape) ? spec.attention_model->dealt_uneven_times : 1) *
             std::inner_product(terms.begin(), terms.end(), fitted->begin(), 0.0);
    }
  }
  const CudaAttentionResources facts = cuda_attention_resources(config);
  const double flops_per_second = spec.reference.tflops_of(input_type(s.data_type)) * 1e12 / spec.reference.sms *
                                  row.efficiency / facts.blocks_per_sm;
  const double depth = s.head_dim_qk + s.head_dim_v;
  const double scored = s.head_dim_qk * (facts.column_blocks - 1);  // once more by each further block of columns
  const double keys = static_cast<double>(shape.seqlen_k) * shape.visible;
  // The blocks of keys a tile walks over, and one for its start and end.
  const double blocks_of_keys = ceil_div(keys, static_cast<double>(facts.tile_keys)) + 1;
  const double tile_seconds =
      2 * blocks_of_keys * facts.tile_rows * facts.tile_keys * (depth + scored) / flops_per_second;
  const double waves =
      ceil_div(cuda_row_blocks(config, shape), static_cast<double>(spec.reference.sms * facts.blocks_per_sm));

  const double queries = static_cast<double>(shape.batch * shape.heads_q) * static_cast<double>(shape.seqlen_q);
  const double keys_read = static_cast<double>(shape.batch * shape.heads_kv) * static_cast<double>(shape.seqlen_k);
  const double bytes = bits_of(s.data_type) / 8.0 * (queries + keys_read) * depth;
  return spec.reference.launch_us * 1e-6 + std::max(waves * tile_seconds, bytes / spec.reference.bytes_per_second);
}

}  // namespace

bool writes_new_keys(const KernelConfig& config, const CudaAttentionShape& shape) {
  constexpr int kTileRows = 16;  // kAppends of kernels/cuda/attention/decode/layout.cuh
  const std::int64_t rows = shape.heads_kv > 0 ? shape.seqlen_q * (shape.heads_q / shape.heads_kv) : 0;
  return shape.may_write_new_keys && config.algorithm.pipeline == Pipeline::decode &&
         config.algorithm.tile[0] == kTileRows && rows <= kTileRows;
}

double predicted_seconds(const KernelConfig& config, const CudaTile& row, const CudaSpec& spec,
                         const CudaAttentionShape& shape) {
  const double append = shape.appends && !shape.batch_invariant && !writes_new_keys(config, shape) ? spec.append_us : 0;
  return attending_seconds(config, row, spec, shape) + append * 1e-6;
}

}  // namespace tilesmith
