#include "instances/gemm/cuda_rows.hpp"

#include <algorithm>

namespace tilesmith {
namespace {

const CudaGemmRule* refusal(CudaGemmRules rules, const KernelConfig& config, const CudaSpec& spec) {
  return first_refusal(rules, CudaGemmSubject{config, spec});
}

/// What the access rules say of the config, whose facts these are.
const CudaGemmRule* refusal_by_access(const KernelConfig& config, const CudaSpec& spec,
                                      const CudaGemmResources& facts) {
  return first_refusal(cuda_gemm_access_rules(), CudaGemmSubject{config, spec, &facts});
}

/// Gives a config with the fewest stages as many as fit, `most` at the most, and its facts what follows from them,
/// unless it is refused as it is.
const CudaGemmRule* refusal_of_fewest(KernelConfig& config, const CudaSpec& spec, int most, CudaGemmResources& facts) {
  if (const CudaGemmRule* refused = refusal_by_access(config, spec, facts)) return refused;
  // Of what the rules look at only shared memory depends on the stages, and grows evenly with them, but that results
  // may come to lie in them: the guess is one off at most.
  const CudaGemmResources fewest = facts;
  const long step = std::max(1L, fewest.stage_bytes), blocks = config.algorithm.block_per_cu;
  const long guess = kFewestStages + std::max(0L, spec.shared_bytes_per_block / blocks - fewest.shared_bytes) / step;
  int stages = static_cast<int>(std::clamp<long>(guess, kFewestStages, most));
  const long room = std::min(spec.shared_bytes_per_block, spec.shared_bytes_per_sm / blocks);  // the limit or more
  const auto fits = [&](int tried) {
    if (fewest.shared_bytes - fewest.slab_bytes + (tried - kFewestStages) * step > room) return false;
    config.algorithm.stages = static_cast<std::uint8_t>(tried);
    change_stages(config, facts);
    return first_refusal(cuda_gemm_stage_rules(), CudaGemmSubject{config, spec, &facts}) == nullptr;
  };
  const int guessed = stages;
  while (stages < most && fits(stages + 1)) ++stages;
  if (stages == guessed)
    while (stages > kFewestStages && !fits(stages)) --stages;
  config.algorithm.stages = static_cast<std::uint8_t>(stages);
  change_stages(config, facts);
  return nullptr;
}

/// More stages than these hide nothing more.
int most_stages(Pipeline pipeline) {
  return pipeline == Pipeline::warp_specialized || pipeline == Pipeline::weight_only ? 12 : 39;
}

/// Elements of k in a stage of the row's kernels.
int stage_k_of(const GemmSignature& signature, Pipeline pipeline, const CudaGemmTile& row) {
  const int bits = bits_of(pipeline == Pipeline::skinny ? signature.b : signature.a);
  const bool boxes = pipeline == Pipeline::skinny_tma || pipeline == Pipeline::weight_only;
  const int stage_bytes = boxes ? 128 * row.tma_boxes : pipeline == Pipeline::warp_specialized ? 128 : 64;
  return 8 * stage_bytes / std::max(bits, 1);
}

bool shares_by_k(const CudaGemmTile& row, int blocks) {
  return row.cluster_k == 1 ? blocks == 1 : blocks >= 2 && blocks <= row.cluster_k;
}

bool has_wave(const Algorithm& a, const CudaGemmTile& row) {
  for (std::size_t i = 0; i < a.wave.size(); ++i)
    if (a.wave[i] != (i < row.wave.size() ? row.wave[i] : 0)) return false;
  return true;
}

}  // namespace

bool is_meant_for(const GemmSignature& signature, const CudaGemmPipeline& pipeline, const CudaGemmTile& row) {
  const bool groups = signature.grouping != GemmGrouping::none;
  return row.groups == groups || (groups && std::ranges::none_of(pipeline.tiles, &CudaGemmTile::groups));
}

Algorithm algorithm_of(const GemmSignature& signature, const CudaGemmPipeline& pipeline, const CudaGemmTile& row) {
  Algorithm a;
  a.pipeline = pipeline.pipeline;
  a.instruction = row.instruction.value_or(pipeline.instruction);
  a.tile = {static_cast<std::uint16_t>(row.tile_m), static_cast<std::uint16_t>(row.tile_n),
            static_cast<std::uint16_t>(stage_k_of(signature, pipeline.pipeline, row))};
  for (std::size_t i = 0; i < row.wave.size(); ++i) a.wave[i] = static_cast<std::uint16_t>(row.wave[i]);
  a.stages = static_cast<std::uint8_t>(row.stages);
  a.block_per_cu = static_cast<std::int16_t>(row.blocks_per_sm);
  a.cluster = {static_cast<std::uint8_t>(row.cluster_m), static_cast<std::uint8_t>(row.cluster_n)};
  a.cluster_k = static_cast<std::uint8_t>(row.cluster_k);
  a.ping_pong = row.ping_pong;
  a.split_k = row.splits > 1;
  a.split_k_atomic = row.split_k_atomic;
  a.stream_k = row.stream_k;
  a.transpose_c = row.transpose_c;
  return a;
}

const CudaGemmRule* refusal_of_pipeline(KernelConfig& config, const CudaGemmPipeline& pipeline, const CudaSpec& spec) {
  config.algorithm = {};
  config.algorithm.pipeline = pipeline.pipeline;
  config.algorithm.instruction = pipeline.instruction;
  return refusal(cuda_gemm_signature_rules(), config, spec);
}

const CudaGemmRule* refusal_of_tile(KernelConfig& config, const CudaSpec& spec) {
  if (config.algorithm.stages == 0) config.algorithm.stages = kFewestStages;
  return refusal(cuda_gemm_tile_rules(), config, spec);
}

const CudaGemmRule* refusal_of_tile(const KernelConfig& config, const CudaSpec& spec, const CudaGemmResources& facts) {
  return first_refusal(cuda_gemm_tile_rules(), CudaGemmSubject{config, spec, &facts});
}

const CudaGemmRule* refusal_of_access(KernelConfig& config, const CudaGemmTile& row, const CudaSpec& spec,
                                      CudaGemmResources& facts) {
  return row.stages > 0 ? refusal_by_access(config, spec, facts)
                        : refusal_of_fewest(config, spec, most_stages(config.algorithm.pipeline), facts);
}

const CudaGemmRule* refusal_of_access(KernelConfig& config, const CudaGemmTile& row, const CudaSpec& spec) {
  config.algorithm.stages = static_cast<std::uint8_t>(row.stages > 0 ? row.stages : kFewestStages);
  CudaGemmResources facts = cuda_gemm_resources(config);
  return refusal_of_access(config, row, spec, facts);
}

bool give_stages(KernelConfig& config, const CudaSpec& spec, int most) {
  config.algorithm.stages = kFewestStages;
  CudaGemmResources facts = cuda_gemm_resources(config);
  return refusal_of_fewest(config, spec, most, facts) == nullptr;
}

const CudaGemmTile* row_of(const KernelConfig& config, const CudaSpec& spec) {
  const auto& signature = std::get<GemmSignature>(config.signature);
  const Algorithm& a = config.algorithm;
  const CudaGemmPipeline* pipeline = spec.gemm.pipeline(a.pipeline);
  if (pipeline == nullptr) return nullptr;
  const auto made_from = [&](const CudaGemmTile& row) {
    return a.instruction == row.instruction.value_or(pipeline->instruction) && a.tile[0] == row.tile_m &&
           a.tile[1] == row.tile_n && (row.stages == 0 || a.stages == row.stages) &&
           a.block_per_cu == row.blocks_per_sm && a.cluster[0] == row.cluster_m && a.cluster[1] == row.cluster_n &&
           shares_by_k(row, a.cluster_k) && a.ping_pong == row.ping_pong && a.split_k == (row.splits > 1) &&
           a.split_k_atomic == row.split_k_atomic && a.stream_k == row.stream_k && a.transpose_c == row.transpose_c &&
           has_wave(a, row) && a.tile[2] == stage_k_of(signature, a.pipeline, row) &&
           is_meant_for(signature, *pipeline, row);
  };
  const auto found = std::ranges::find_if(pipeline->tiles, made_from);
  return found == pipeline->tiles.end() ? nullptr : &*found;
}

}  // namespace tilesmith
