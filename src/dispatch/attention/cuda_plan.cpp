// The figures of launches are those that stand at the top of kernels/cuda/attention/hopper/attention_fwd.cuh and
// kernels/cuda/attention/mma_sm80/attention_fwd.cuh.
#include "dispatch/attention/cuda_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/error.hpp"
#include "choose/attention/seen_queries.hpp"
#include "choose/rounding.hpp"
#include "dispatch/attention/cuda_arguments.hpp"
#include "dispatch/attention/cuda_launch.hpp"
#include "runtime/cuda/tensor_map.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

static_assert(kScaleBlock == TS_SCALE_BLOCK);

/// Heads that are walked together, a section, longest rows first, and the sections before the last one.
struct Sections {
  int heads;
  int before_last;
};

/// A section's keys and values stay in L2 until every row tile has read them; it has four heads where half of L2 holds
/// them. Small sections spread the first reads of keys and values over the call. The last one is large, about two tiles
/// for each of the `places` that run at once, so that the call ends with many short ones
/// (docs/log/2026-11-cuda-attention.md).
Sections sections_of(const AttentionProblem& p, std::int64_t pack_gqa, std::int64_t heads, std::int64_t row_tiles,
                     std::int64_t places, long l2_bytes) {
  constexpr double kShare = 0.14, kMostShare = 0.57;
  constexpr std::int64_t kLeastHeads = 4, kLastTiles = 2;
  const std::int64_t head_bytes =
      std::max<std::int64_t>(1, p.seqlen_k * (p.head_dim_qk + p.head_dim_v) * input_bytes(p.data_type));
  const std::int64_t group = pack_gqa == 1 ? p.heads_q / p.heads_kv : 1;
  const std::int64_t all = std::max<std::int64_t>(1, p.batch * heads);
  const auto power_of_two = [&](std::int64_t most) {
    return static_cast<std::int64_t>(
        std::bit_floor(static_cast<std::uint64_t>(std::clamp<std::int64_t>(most, 1, all))));
  };
  const auto fit = [&](double share) {
    return power_of_two(static_cast<std::int64_t>(share * static_cast<double>(l2_bytes)) / head_bytes);
  };
  const std::int64_t width = std::min(std::max(fit(kShare), std::min(kLeastHeads, fit(kMostShare))) * group, all);
  const std::int64_t last = power_of_two(kLastTiles * places / std::max<std::int64_t>(row_tiles, 1));
  return {static_cast<int>(width), static_cast<int>((all - last) / width)};
}

/// Tiles of each head whose queries see no key, all in front; one tile of the others is left at least. None where a
/// kernel could not count their rows.
std::int64_t hidden_tiles(const AttentionProblem& p, std::int64_t pack_gqa, std::int64_t tile_rows) {
  const std::int64_t hidden = hidden_queries(p) * pack_gqa / tile_rows;
  const std::int64_t most = ceil_div(p.seqlen_q * pack_gqa, tile_rows) - 1;
  const double rows = static_cast<double>(p.batch) * static_cast<double>(p.heads_q) * static_cast<double>(p.seqlen_q);
  return rows < INT32_MAX ? std::clamp<std::int64_t>(hidden, 0, std::max<std::int64_t>(most, 0)) : 0;
}

}  // namespace

Result<std::unique_ptr<AttentionPlan>> CudaAttentionPlan::make(const AttentionProblem& p, PlanInfo info,
                                                               const KernelConfig& config, const CudaSpec& spec,
                                                               CudaSteps steps, CudaTileCounters* counters) {
  std::unique_ptr<CudaAttentionPlan> made(
      new CudaAttentionPlan(p, std::move(info), config, std::move(steps), counters));
  const auto too_large = [](const char* what, std::int64_t value, std::int64_t limit) {
    return fail(ErrorCode::unsupported, fmt::format("{} {} is beyond a CUDA kernel's launch", what, value),
                fmt::format("at most {}", limit));
  };
  if (p.seqlen_q * made->pack_gqa_ > kLongestOfGpu)
    return too_large("seqlen_q", p.seqlen_q, kLongestOfGpu / made->pack_gqa_);
  if (p.seqlen_k > kLongestOfGpu) return too_large("seqlen_k", p.seqlen_k, kLongestOfGpu);
  const CudaAttentionResources& facts = made->facts_;
  const std::int64_t all_tiles = ceil_div(p.seqlen_q * made->pack_gqa_, facts.tile_rows);
  const std::int64_t first_tile = facts.free_warps > 0 ? hidden_tiles(p, made->pack_gqa_, facts.tile_rows) : 0;
  const std::int64_t row_tiles = all_tiles - first_tile;
  CudaLaunch& launch = made->steps_.launch();
  launch.block = {static_cast<unsigned>(facts.threads), 1, 1};
  launch.dynamic_shared_bytes = static_cast<unsigned>(facts.shared_bytes);
  made->first_tile_ = static_cast<int>(first_tile);
  made->row_tiles_ = static_cast<int>(row_tiles);
  if (facts.persistent) {
    const std::int64_t heads = made->pack_gqa_ > 1 ? p.heads_kv : p.heads_q;
    const std::int64_t items = p.batch * heads * row_tiles;
    if (items > INT32_MAX) return too_large("tiles", items, INT32_MAX);
    made->work_items_ = static_cast<int>(items);
    const std::int64_t places = std::int64_t{spec.reference.sms} * facts.blocks_per_sm;
    made->sections_ = static_cast<int>(p.batch * heads);
    if (made->mask_ != MaskKind::none) {
      const Sections sections = sections_of(p, made->pack_gqa_, heads, row_tiles, places, spec.reference.l2_bytes);
      made->section_heads_ = sections.heads;
      made->sections_ = sections.before_last;
    }
    // Few tiles beside many hidden ones have blocks to write those.
    launch.grid = {
        static_cast<unsigned>(std::clamp<std::int64_t>(std::max(items, p.batch * heads * first_tile), 1, places)), 1,
        1};
    // These kernels themselves wait for the launch before. Blocks that fill the chip, or have an SM each, come to lie
    // as they would without it. Where tiles share keys nothing is gained.
    const bool one_each = items <= spec.reference.sms;
    launch.overlaps_previous = row_tiles == 1 && (one_each || items >= places);
    if (one_each) keep_apart(spec, launch);
  } else {
    if (p.heads_q > kCudaGridLimit) return too_large("heads_q", p.heads_q, kCudaGridLimit);
    if (p.batch > kCudaGridLimit) return too_large("batch", p.batch, kCudaGridLimit);
    launch.grid = {static_cast<unsigned>(row_tiles * facts.column_blocks), static_cast<unsigned>(p.heads_q),
                   static_cast<unsigned>(p.batch)};
  }
  return made;
}

CudaAttentionPlan::CudaAttentionPlan(const AttentionProblem& p, PlanInfo info, const KernelConfig& config,
                                     CudaSteps steps, CudaTileCounters* counters)
    : AttentionPlan(p, std::move(info)),
      steps_(std::move(steps)),
      counters_(counters),
      facts_(cuda_attention_resources(config)),
      pack_gqa_(std::max<int>(1, config.algorithm.pack_gqa)),
      mask_(config.attention().mask) {}

TsCudaAttentionArgs CudaAttentionPlan::kernel_arguments(const AttentionArguments& a) const {
  auto out = cuda_attention_arguments<TsCudaAttentionArgs>(problem(), a);
  out.work_items = work_items_;
  out.row_tiles = row_tiles_;
  out.first_tile = first_tile_;
  out.section_heads = section_heads_;
  out.sections = sections_;
  set_pages(problem(), a, out);
  return out;
}

/// The maps of a row's whole columns and of what they leave, as far as it has them; one of all columns where boxes may
/// reach beyond the row. `encode` makes a map of boxes of so many elements.
template <class Encode>
Status CudaAttentionPlan::encode_columns(std::int64_t head_dim, std::int64_t column, TsCudaTensorMap& whole,
                                         TsCudaTensorMap& rest, const Encode& encode) const {
  if (!facts_.exact_boxes || head_dim >= column) TS_TRY(encode(column, whole));
  if (!facts_.exact_boxes || head_dim % column == 0) return {};
  return encode(head_dim % column, rest);
}

/// The rows of a box of keys and values; 0 in pages where the copy engine does not take them.
Result<int> CudaAttentionPlan::encode_key_maps(const AttentionArguments& a, TsCudaTensorMaps& maps) const {
  const AttentionProblem& p = problem();
  const bool paged = p.page_size > 0;
  const std::int64_t rows = paged ? page_box_rows(p, a, facts_.tile_keys) : facts_.tile_keys;
  if (rows == 0) return 0;
  const auto encode = [&](const void* address, const AttentionStrides& s, std::int64_t head_dim, TsCudaTensorMap& whole,
                          TsCudaTensorMap& rest) {
    return encode_columns(head_dim, kMapRowBytes / cache_bytes(p), whole, rest, [&](std::int64_t columns, auto& map) {
      return encode_key_map(steps_.context(), p, a, address, s, head_dim, columns, rows, map);
    });
  };
  Status encoded = encode(a.k, a.k_strides, p.head_dim_qk, maps.k, maps.k_rest);
  if (encoded) encoded = encode(a.v, a.v_strides, p.head_dim_v, maps.v, maps.v_rest);
  if (encoded) return static_cast<int>(rows);
  if (paged) return 0;
  return std::unexpected(encoded.error());
}

Status CudaAttentionPlan::encode_maps(const AttentionArguments& a, TsCudaTensorMaps& maps) const {
  const AttentionProblem& p = problem();
  const bool group = p.mode == SequenceMode::group;
  const std::int64_t batch = group ? 1 : p.batch;
  const TensorMapFormat format = tensor_map_format(p.data_type);
  const auto dimension = [&](std::int64_t extent, std::int64_t stride, std::int64_t box) {
    return tensor_map_dimension(p.data_type, extent, stride, box);
  };
  const std::int64_t packed = pack_gqa_;
  const std::int64_t heads = p.heads_q / packed;
  TS_TRY(encode_columns(p.head_dim_qk, kMapRowBytes / input_bytes(p.data_type), maps.q, maps.q_rest,
                        [&](std::int64_t columns, auto& map) {
                          const std::array q{
                              dimension(p.head_dim_qk, 1, columns), dimension(packed, a.q_strides.head, packed),
                              dimension(group ? a.total_q : p.seqlen_q, a.q_strides.row, 64 / packed),
                              dimension(heads, a.q_strides.head * packed, 1), dimension(batch, a.q_strides.batch, 1)};
                          return encode_tensor_map(steps_.context(), format, a.q, q, map);
                        }));
  if (!facts_.bias_map || p.bias != BiasKind::elementwise || a.bias == nullptr || p.seqlen_k == 0) return {};
  const BiasStrides& b = a.bias_strides;
  const auto of_bias = [](std::int64_t extent, std::int64_t stride, std::int64_t box) {
    return TensorMapDimension{static_cast<std::uint64_t>(extent),
                              static_cast<std::uint64_t>(extent > 1 ? stride * 4 : kGpuAlignment),
                              static_cast<std::uint32_t>(box)};
  };
  const std::array bias{TensorMapDimension{static_cast<std::uint64_t>(p.seqlen_k), 0, 32},
                        of_bias(packed, b.head, packed), of_bias(p.seqlen_q, b.row, 64 / packed),
                        of_bias(heads, b.head * packed, 1), of_bias(p.batch, b.batch, 1)};
  return encode_tensor_map(steps_.context(), {.element = TensorMapElement::f32}, a.bias, bias, maps.bias);
}

Status CudaAttentionPlan::run(const AttentionArguments& a, const RunOptions& options) const {
  TS_TRY(check_cuda_attention(problem(), facts_, a));
  if (!has_queries(problem(), a)) return {};
  return steps_.run(options.stream, [&](std::size_t, const auto& send) -> Status {
    TsCudaAttentionArgs arguments = kernel_arguments(a);
    if (!facts_.tensor_maps) return send(arguments);
    if (counters_ != nullptr) {
      TS_ASSIGN(arguments.tile_counters, counters_->of(static_cast<cu::Stream>(options.stream)));
    }
    TsCudaTensorMaps maps;
    TS_TRY(encode_maps(a, maps));
    TS_ASSIGN(arguments.map_rows, encode_key_maps(a, maps));
    return send(maps, arguments);
  });
}

}  // namespace tilesmith
