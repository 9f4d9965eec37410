#include "codegen/attention/cuda.hpp"

#include <fmt/format.h>

#include "codegen/attention/gpu_traits.hpp"
#include "codegen/flatten.hpp"
#include "instances/attention/cuda_resources.hpp"
#include "vocabulary/data_type.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {

namespace {

void add_hopper(ConstantsTable& table, const Algorithm& a, const CudaAttentionResources& facts) {
  table.add("kWarpgroups", facts.warpgroups);
  table.add("kTileN", facts.tile_keys);
  table.add("kStages", a.stages);
  table.add("kQStages", a.q_stages);
  table.add("kBiasStages", a.bias_stages);
  table.add("kBlocksPerSm", facts.blocks_per_sm);
  table.add("kPackGqa", a.pack_gqa);
  table.add("kPingPong", a.ping_pong);
  table.add("kDynamicScheduler", a.dynamic_scheduler);
  table.add("kLateWait", a.late_wait);
  table.add("kLateStore", a.late_store);
}

void add_cache(ConstantsTable& table, const AttentionSignature& s) {
  table.add("kCacheFp8", s.cache == KvElements::fp8);
  table.add("kCacheInt8", s.cache == KvElements::int8);
  table.add("kPageScale", s.qscale == QuantScale::kv_blockscale);
}

void add_decode(ConstantsTable& table, const AttentionSignature& s, const Algorithm& a,
                const CudaAttentionResources& facts) {
  if (a.pipeline == Pipeline::decode_wgmma) {
    table.add("kLateWait", a.late_wait);
    if (s.latent) table.add("kTileM", facts.tile_rows);
  } else {
    table.add("kRowWarps", facts.row_warps);
    if (facts.column_warps > 0)
      table.add("kColumnWarps", facts.column_warps);
    else
      table.add("kKeyWarps", facts.key_warps);
  }
  table.add("kTileN", facts.warp_keys);
  table.add("kStages", a.stages);
  table.add("kBlocksPerSm", facts.blocks_per_sm);
  table.add("kTakesFromQueue", facts.takes_from_queue);
  table.add("kPaged", s.paged_kv);
  add_cache(table, s);
}

void add_mma_sm80(ConstantsTable& table, const AttentionSignature& s, const CudaAttentionResources& facts) {
  table.add("kFp32", bits_of(s.data_type) == 32);
  table.add("kTf32x3", s.data_type == DataType::fp32);
  table.add("kChunkQk", facts.chunk_qk);
  table.add("kColumnBlocks", facts.column_blocks);
  table.add("kUnaligned", s.unaligned);
  table.add("kWarps", facts.warps);
  table.add("kTileN", facts.tile_keys);
}

std::string_view template_of(Pipeline pipeline, const AttentionSignature& s) {
  const bool latent = s.latent, narrow = s.cache != KvElements::as_queries;
  if (pipeline == Pipeline::decode_wgmma && narrow)
    return latent ? "cuda/attention/decode/hopper/narrow_latent_fwd.cuh"
                  : "cuda/attention/decode/hopper/narrow_fwd.cuh";
  if (pipeline == Pipeline::decode_wgmma && latent) return "cuda/attention/decode/hopper/latent_fwd.cuh";
  return pipeline == Pipeline::warp_specialized   ? "cuda/attention/hopper/attention_fwd.cuh"
         : pipeline == Pipeline::decode_wgmma     ? "cuda/attention/decode/hopper/attention_fwd.cuh"
         : pipeline == Pipeline::decode && latent ? "cuda/attention/decode/latent_fwd.cuh"
         : pipeline == Pipeline::decode           ? "cuda/attention/decode/attention_fwd.cuh"
                                                  : "cuda/attention/mma_sm80/attention_fwd.cuh";
}

}  // namespace

Result<Source> cuda_attention_source(const KernelConfig& config) {
  const bool is_hopper = config.algorithm.pipeline == Pipeline::warp_specialized;
  const CudaAttentionResources facts = cuda_attention_resources(config);
  ConstantsTable table;
  add_attention_traits(table, config.attention());
  const AttentionSignature& signature = config.attention();
  if (is_hopper) {
    add_hopper(table, config.algorithm, facts);
    table.add("kFp8", input_type(signature.data_type) == DataType::fp8);
    table.add("kBlockScale", signature.qscale == QuantScale::blockscale);
    table.add("kPaged", signature.paged_kv);
    add_cache(table, signature);
  } else if (is_decode(config.algorithm.pipeline)) {
    add_decode(table, signature, config.algorithm, facts);
  } else {
    add_mma_sm80(table, signature, facts);
  }
  TS_ASSIGN(const std::string text,
            flatten_includes(embedded_kernels(), template_of(config.algorithm.pipeline, config.attention())));
  Source source;
  source.name = native_name(config);
  source.entry_symbol = source.name;
  source.language = Language::cuda;
  source.arch = std::string(config.arch.text());
  // The rules keep the tile in registers; a few words of the schedule and of rare traits may be spilled. Up to 128
  // bytes cost nothing that could be measured. The cost of more has not been measured, but without it some kernels
  // would not be built, and their problems would go to the mma_sm80 pipeline.
  constexpr std::uint32_t kHopperSpills = 256;
  // Beside pages a producer of few registers spills where it stands; it waits for the consumers anyway.
  constexpr std::uint32_t kHopperPagesSpills = 1024;
  // float32 of 256 columns fills the registers to the last: some words are spilled, beside hundreds of products.
  constexpr std::uint32_t kFp32Spills = 512;
  // Of decode's widest tiles some words, where a kernel has many traits: those of a piece, beside hundreds of products.
  constexpr std::uint32_t kDecodeSpills = 32;
  source.spill_limit_bytes = is_hopper && signature.paged_kv        ? kHopperPagesSpills
                             : is_hopper                            ? kHopperSpills
                             : is_decode(config.algorithm.pipeline) ? kDecodeSpills
                             : bits_of(signature.data_type) == 32   ? kFp32Spills
                                                                    : 0;
  source.options = {"-std=c++17", "-default-device"};
  std::string entries = fmt::format("#define TS_ENTRY {}\n", source.entry_symbol);
  if (facts.grid_entry) entries += fmt::format("#define TS_GRID_ENTRY {}_of_grid\n", source.entry_symbol);
  source.text = table.text() + entries + "\n" + text;
  return source;
}

}  // namespace tilesmith
