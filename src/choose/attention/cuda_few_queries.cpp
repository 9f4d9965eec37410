#include "choose/attention/cuda_few_queries.hpp"

#include <algorithm>

#include "choose/attention/cuda_decode.hpp"
#include "choose/rounding.hpp"
#include "instances/attention/cuda_resources.hpp"

namespace tilesmith {

const CudaFewQueriesModel* few_queries_model(const KernelConfig& config, const CudaSpec& spec,
                                             const CudaAttentionShape& shape) {
  const CudaAttentionPipeline* pipeline = spec.attention_pipeline(config.algorithm.pipeline);
  return pipeline != nullptr && pipeline->few_queries && has_few_rows(shape) ? &*pipeline->few_queries : nullptr;
}

double few_queries_seconds(const KernelConfig& config, const CudaFewQueriesModel& model, const CudaSpec& spec,
                           const CudaAttentionShape& shape) {
  const AttentionSignature& s = config.attention();
  const CudaAttentionResources facts = cuda_attention_resources(config);
  const CudaReferenceChip& chip = spec.reference;
  constexpr double kMicrosecond = 1e-6;
  const double tiles = cuda_row_blocks(config, shape);
  const double slots = static_cast<double>(chip.sms) * std::max(1, facts.blocks_per_sm);
  const double rounds = ceil_div(tiles, slots);
  const double steps =
      ceil_div(static_cast<double>(shape.seqlen_k) * shape.visible, static_cast<double>(facts.tile_keys));
  const double step_bytes = bits_of(s.data_type) / 8.0 * facts.tile_keys * (s.head_dim_qk + s.head_dim_v);
  // Heads that are not packed read their group's keys again, from L2.
  const double tiles_of_keys = tiles / static_cast<double>(std::max<std::int64_t>(1, shape.batch * shape.heads_kv));
  const double rate = chip.bytes_per_second * chip.reached_bandwidth * model.bandwidth_share *
                      std::clamp(tiles_of_keys, 1.0, model.shared_reads);
  const double step = std::max(model.step_us * kMicrosecond + step_bytes / model.sm_bytes_per_second,
                               step_bytes * std::min(tiles, slots) / rate);
  // A long queue is shared out evenly.
  constexpr double kLongQueue = 4;
  const double turns = tiles / slots > kLongQueue ? tiles / slots : rounds;
  // Measured at 2 to 6 % more where heads that could be packed are not (docs/log/2026-11-cuda-decode.md).
  const double again = tiles_of_keys > 1 ? 1.02 : 1;
  // Where tiles follow one another, and others of the SM multiply meanwhile, the first copies of short steps come in
  // the time of the last tile: 1 to 9 % of shapes of head dims 64 and 128 (docs/log/2026-11-cuda-decode.md).
  constexpr int kShortStep = 64 * 128, kMeasuredFrom = 33, kMeasuredTo = 128;
  const Algorithm& a = config.algorithm;
  const int head_dim = std::max(s.head_dim_qk, s.head_dim_v);
  const bool short_steps = facts.tile_keys * (head_dim <= 64 ? 64 : 128) <= kShortStep;
  const bool hides_copies = short_steps && head_dim >= kMeasuredFrom && head_dim <= kMeasuredTo &&
                            (facts.blocks_per_sm > 1 || (a.ping_pong && a.q_stages > 1));
  const double filled = tiles > slots && hides_copies ? 0 : std::min(1.0, tiles / slots);
  return (chip.launch_us + model.start_us + filled * model.fill_us) * kMicrosecond + again * turns * steps * step;
}

}  // namespace tilesmith
