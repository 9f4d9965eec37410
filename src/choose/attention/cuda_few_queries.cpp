#include "choose/attention/cuda_few_queries.hpp"

#include <algorithm>
#include <cmath>

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
  const double keys = static_cast<double>(shape.seqlen_k) * shape.visible;
  const double steps = ceil_div(keys, static_cast<double>(facts.tile_keys));
  const double step_bytes = bits_of(s.data_type) / 8.0 * facts.tile_keys * (s.head_dim_qk + s.head_dim_v);
  // Heads that are not packed read their group's keys again, from L2.
  const double tiles_of_keys = tiles / static_cast<double>(std::max<std::int64_t>(1, shape.batch * shape.heads_kv));
  const Algorithm& a = config.algorithm;
  const double rate = chip.bytes_per_second * chip.reached_bandwidth * model.bandwidth_share *
                      std::clamp(tiles_of_keys, 1.0, model.shared_reads);
  // From one tile to the next a block's copies stop, unless there is room for those of the next, or others of the SM go
  // on: beside these the last step is as short as its keys, too.
  const bool has_others = facts.blocks_per_sm > 1;
  const bool goes_on = has_others || (a.ping_pong && a.q_stages > 1 && a.stages > 2);
  const double last_steps = has_others && steps > 0 ? keys / (steps * facts.tile_keys) : 1;
  // A step of so many blocks, of which an SM has up to `of_sm`.
  const double read_bytes = step_bytes * last_steps * (step_bytes < model.short_steps.bytes ? model.short_copies : 1);
  const auto step = [&](double blocks, double of_sm) {
    return std::max(model.step_us * kMicrosecond + of_sm * step_bytes / model.sm_bytes_per_second,
                    read_bytes * blocks / rate);
  };
  // A long queue is shared out evenly. Of a short one the blocks of the last round share the bandwidth among them, and
  // fall to SMs that have all of theirs.
  constexpr double kLongQueue = 4;
  const double turns = tiles / slots, rounds = turns > kLongQueue ? turns : std::floor(turns);
  const double rest = turns > kLongQueue ? 0 : tiles - rounds * slots;
  const double of_sm = rounds > 0 ? std::min(rest, static_cast<double>(facts.blocks_per_sm)) : 1;
  const double walk = steps * (rounds * step(slots, 1) + (rest > 0 ? step(rest, of_sm) : 0));
  const double turning = goes_on ? 0 : std::max(0.0, turns - 1) * model.turn_us * kMicrosecond;
  // Measured at 2 to 6 % more where heads that could be packed are not (docs/log/2026-11-cuda-decode.md).
  const double again = tiles_of_keys > 1 ? 1.02 : 1;
  // Where tiles follow one another, and others of the SM multiply meanwhile, the first copies of short steps come in
  // the time of the last tile: 1 to 9 % of shapes of head dims 64 and 128 (docs/log/2026-11-cuda-decode.md).
  const int head_dim = std::max(s.head_dim_qk, s.head_dim_v);
  const bool short_steps = facts.tile_keys * (head_dim <= 64 ? 64 : 128) <= model.short_steps.elements;
  const bool hides_copies = short_steps && model.short_steps.head_dim.holds(head_dim) &&
                            (facts.blocks_per_sm > 1 || (a.ping_pong && a.q_stages > 1));
  const double filled = tiles > slots && hides_copies ? 0 : std::min(1.0, tiles / slots);
  return (chip.launch_us + model.start_us + filled * model.fill_us) * kMicrosecond + again * walk + turning;
}

}  // namespace tilesmith
