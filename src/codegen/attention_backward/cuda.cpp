#include "codegen/attention_backward/cuda.hpp"

#include <fmt/format.h>

#include "codegen/constants_table.hpp"
#include "codegen/flatten.hpp"
#include "instances/attention_backward/cuda_resources.hpp"
#include "vocabulary/data_type.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

std::string_view backward_template(const KernelConfig& config) {
  const AttentionFamily family = config.attention().family;
  const Pipeline pipeline = config.algorithm.pipeline;
  return family == AttentionFamily::bwd_dot_do_o     ? "cuda/attention/backward/dot_do_o.cuh"
         : family == AttentionFamily::bwd_convert_dq ? "cuda/attention/backward/convert_dq.cuh"
         : family == AttentionFamily::bwd_dbias      ? "cuda/attention/backward/mma_sm80/bias_gradient.cuh"
         : pipeline == Pipeline::mma_sm80            ? "cuda/attention/backward/mma_sm80/gradient_rows.cuh"
         : pipeline == Pipeline::flash               ? "cuda/attention/backward/rows/gradient_rows.cuh"
                                                     : "cuda/attention/backward/hopper/dq_dk_dv.cuh";
}

void add_products(ConstantsTable& table, const AttentionSignature& s, const Algorithm& a) {
  table.add("kStages", a.stages);
  table.add("kMaskRight", s.mask != MaskKind::none);
  table.add("kMaskLeft", s.mask == MaskKind::generic);
  table.add("kSoftCap", s.soft_cap);
  table.add("kBias", s.bias == BiasKind::elementwise);
  table.add("kAlibi", s.bias == BiasKind::alibi);
  table.add("kDalibi", s.dbias && s.bias == BiasKind::alibi);
  table.add("kDropout", s.dropout);
}

/// Bytes that a thread of the products may spill: a hundred or two are the producer's, which has few registers and time
/// to spare. Beside wide heads' sums there is no room for what several of these traits keep at the same time, nor, on
/// mma_sm80, beside the halves of split float32 operands for one. Where gradients of scores pass through memory the
/// producer has more to keep, and consumers what they read again once an item.
std::uint32_t backward_spills(const KernelConfig& config) {
  const AttentionSignature& s = config.attention();
  const int traits = int{s.soft_cap} + int{s.dropout} + int{s.bias != BiasKind::none};
  if (traits >= 2 || config.algorithm.pipeline == Pipeline::mma_sm80) return 960;
  return cuda_backward_resources(config).passes_score_gradients ? 640 : 352;
}

}  // namespace

Result<Source> cuda_attention_backward_source(const KernelConfig& config) {
  const AttentionSignature& s = config.attention();
  const bool is_products = s.family == AttentionFamily::bwd_dq_dk_dv || s.family == AttentionFamily::bwd_dbias;
  const CudaBackwardResources facts = cuda_backward_resources(config);
  ConstantsTable table;
  table.add("kFp32", bits_of(s.data_type) == 32);
  table.add("kTf32x3", s.data_type == DataType::fp32);
  table.add("kBf16", s.data_type == DataType::bf16);
  table.add("kUnaligned", s.unaligned);
  table.add("kGroupMode", s.mode == SequenceMode::group);
  table.add("kHeadDimQk", s.head_dim_qk);
  table.add("kHeadDimV", s.head_dim_v);
  table.add("kTileM", facts.tile_queries);
  table.add("kTileN", config.algorithm.tile[1]);
  table.add("kSumColumns", facts.sum_columns);
  table.add("kDbias", s.dbias && s.bias == BiasKind::elementwise);
  table.add("kDeterministic", s.deterministic);
  if (is_products) add_products(table, s, config.algorithm);
  TS_ASSIGN(const std::string text, flatten_includes(embedded_kernels(), backward_template(config)));
  Source source;
  source.name = native_name(config);
  source.entry_symbol = source.name;
  source.language = Language::cuda;
  source.arch = std::string(config.arch.text());
  source.spill_limit_bytes = is_products ? backward_spills(config) : 0;
  source.options = {"-std=c++17", "-default-device"};
  source.text = table.text() + fmt::format("#define TS_ENTRY {}\n\n", source.entry_symbol) + text;
  return source;
}

}  // namespace tilesmith
