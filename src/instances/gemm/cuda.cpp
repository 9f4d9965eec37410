#include "instances/gemm/cuda.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "instances/gemm/family.hpp"

namespace tilesmith {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// Steps of so many elements along k; a second product begins with one of its own.
std::int64_t steps_of(const CudaGemmShape& shape, std::int64_t step) {
  return ceil_div(shape.k, step) + ceil_div(shape.k2, step);
}

bool passes(CudaGemmRules rules, const KernelConfig& config, const CudaSpec& spec) {
  return first_refusal(rules, CudaGemmSubject{config, spec}) == nullptr;
}

const GemmSignature& signature_of(const KernelConfig& config) {
  return std::get<GemmSignature>(config.signature);
}

/// Everything but the stages, where the table leaves them open, and the widths of access.
Algorithm algorithm_of(const GemmSignature& signature, const CudaGemmPipeline& pipeline, const CudaGemmTile& tile) {
  const int bits = bits_of(pipeline.pipeline == Pipeline::skinny ? signature.b : signature.a);
  const bool boxes = pipeline.pipeline == Pipeline::skinny_tma || pipeline.pipeline == Pipeline::weight_only;
  const int stage_bytes = boxes ? 128 * tile.tma_boxes : pipeline.pipeline == Pipeline::warp_specialized ? 128 : 64;
  Algorithm a;
  a.pipeline = pipeline.pipeline;
  a.instruction = pipeline.instruction;
  a.tile = {static_cast<std::uint16_t>(tile.tile_m), static_cast<std::uint16_t>(tile.tile_n),
            static_cast<std::uint16_t>(8 * stage_bytes / std::max(bits, 1))};
  for (std::size_t i = 0; i < tile.wave.size(); ++i) a.wave[i] = static_cast<std::uint16_t>(tile.wave[i]);
  a.stages = static_cast<std::uint8_t>(tile.stages);
  a.block_per_cu = static_cast<std::int16_t>(tile.blocks_per_sm);
  a.cluster = {static_cast<std::uint8_t>(tile.cluster_m), static_cast<std::uint8_t>(tile.cluster_n)};
  a.ping_pong = tile.ping_pong;
  a.split_k = tile.splits > 1;
  a.split_k_atomic = tile.split_k_atomic;
  a.stream_k = tile.stream_k;
  return a;
}

/// More stages than these hide nothing more.
int most_stages(Pipeline pipeline) {
  return pipeline == Pipeline::warp_specialized || pipeline == Pipeline::weight_only ? 12 : 39;
}

/// Whether the signature rules accept the config's signature for a pipeline, which it is then of.
bool takes_signature(KernelConfig& config, const CudaGemmPipeline& pipeline, const CudaSpec& spec) {
  config.algorithm = {};
  config.algorithm.pipeline = pipeline.pipeline;
  config.algorithm.instruction = pipeline.instruction;
  return passes(cuda_gemm_signature_rules(), config, spec);
}

/// Whether the tile rules accept the table's tile, at its fewest stages.
bool holds_tile(KernelConfig& config, const CudaSpec& spec) {
  if (config.algorithm.stages == 0) config.algorithm.stages = kFewestStages;
  return passes(cuda_gemm_tile_rules(), config, spec);
}

/// Whether the access rules accept the config with so many stages, which it gets.
bool fits(KernelConfig& config, const CudaSpec& spec, int stages) {
  config.algorithm.stages = static_cast<std::uint8_t>(stages);
  return passes(cuda_gemm_access_rules(), config, spec);
}

/// Gives a config that the tile rules accept the table's stages, or as many as fit; false when the other rules refuse.
bool settle(KernelConfig& config, const CudaGemmTile& tile, const CudaSpec& spec) {
  return tile.stages > 0 ? fits(config, spec, tile.stages)
                         : give_stages(config, spec, most_stages(config.algorithm.pipeline));
}

/// Whether a tile is meant for such products: groups take those that are for groups alone, where a pipeline has some.
bool is_meant_for(const GemmSignature& signature, const CudaGemmPipeline& pipeline, const CudaGemmTile& tile) {
  const bool groups = signature.grouping != GemmGrouping::none;
  return tile.groups == groups || (groups && std::ranges::none_of(pipeline.tiles, &CudaGemmTile::groups));
}

/// The tile table's entry a config stands for; null for one that was made by hand.
const CudaGemmTile* tile_of(const KernelConfig& config, const CudaSpec& spec) {
  const CudaGemmPipeline* pipeline = spec.gemm.pipeline(config.algorithm.pipeline);
  if (pipeline == nullptr) return nullptr;
  for (const CudaGemmTile& tile : pipeline->tiles) {
    if (!is_meant_for(signature_of(config), *pipeline, tile)) continue;
    Algorithm a = algorithm_of(signature_of(config), *pipeline, tile);
    a.vector = config.algorithm.vector;
    a.prefetch_weights = config.algorithm.prefetch_weights;
    if (tile.stages == 0) a.stages = config.algorithm.stages;
    if (a == config.algorithm) return &tile;
  }
  return nullptr;
}

/// Whether the rows of A and B, taken for packed, straddle the sectors of memory.
struct Straddling {
  bool a, b;
};
Straddling straddling(const GemmSignature& signature, const CudaGemmShape& shape) {
  constexpr std::int64_t kSectorBits = 256;
  const auto odd = [](std::int64_t elements, DataType type) { return elements * bits_of(type) % kSectorBits != 0; };
  const auto straddles = [&](bool along_k, std::int64_t across, DataType type) {
    return along_k ? odd(shape.k, type) || odd(shape.k2, type) : odd(across, type);
  };
  return {straddles(signature.layout_a == MatrixOrder::row, shape.m, signature.a),
          !has_weights(signature) && straddles(signature.layout_b == MatrixOrder::column, shape.n, signature.b)};
}

bool is_first_for(const CudaGemmTile& tile, const GemmSignature& signature, const CudaGemmShape& shape) {
  if (!tile.first_for || !is_along_k(signature) || shape.batch != 1) return false;
  // Measured on rows that straddle nothing; tiles of one row share no panel of B, so clusters have nothing to bring.
  if (shape.m > tile.tile_m && straddling(signature, shape).a) return false;
  const CudaGemmCondition& c = *tile.first_for;
  return (!c.element_bytes || *c.element_bytes == bits_of(signature.a) / 8) && (!c.most_m || shape.m <= *c.most_m) &&
         (!c.most_n || shape.n <= *c.most_n) && (!c.most_k || shape.k + shape.k2 <= *c.most_k);
}

bool is_few_rows(Pipeline pipeline) {
  return pipeline == Pipeline::skinny_tma || pipeline == Pipeline::skinny;
}

/// The results worth listing for matrices of a type.
std::vector<DataType> results_of(DataType type) {
  switch (type) {
    case DataType::int8:
      return {DataType::int32, DataType::bf16, DataType::fp32, DataType::int8};
    case DataType::fp8:
    case DataType::bf8:
      return {DataType::bf16, DataType::fp16, DataType::fp32, DataType::fp8};
    case DataType::fp32:
    case DataType::tf32:
      return {DataType::fp32};
    default:
      return {type, DataType::fp32};
  }
}

double tflops_of(const CudaReferenceChip& chip, DataType type) {
  const double half = chip.tflops_of(DataType::bf16);
  switch (type) {
    case DataType::fp8:
    case DataType::bf8:
    case DataType::int8:
      return 2 * half;
    case DataType::tf32:
      return half / 2;
    case DataType::fp32:
      return half / 6;  // three products in tf32
    default:
      return half;
  }
}

constexpr std::int64_t kMostSplits = 16;  // of a tile beside the table

/// Blocks that run at a time.
std::int64_t places_of(const KernelConfig& config, const CudaSpec& spec) {
  return std::int64_t{spec.reference.sms} * cuda_gemm_resources(config).blocks_per_sm;
}

/// Members of the batch that have rows, at most.
std::int64_t groups_with_rows(const CudaGemmShape& shape) {
  return shape.grouping == GemmGrouping::contiguous ? std::min(shape.batch, shape.m) : shape.batch;
}

/// What there should be of groups, whose rows the host does not know.
struct ExpectedGroups {
  double with_rows;
  double rows;  ///< of each of them
};

/// Contiguous groups as if every row went to any of them, masked ones with half of their room, which is there for the
/// worst case.
ExpectedGroups expected_groups(const CudaGemmShape& shape) {
  const auto rows = static_cast<double>(shape.m), groups = static_cast<double>(shape.batch);
  if (shape.grouping != GemmGrouping::contiguous) return {groups, std::ceil(rows / 2)};
  const double with_rows = groups * (1 - std::pow(1 - 1 / groups, rows));
  return {with_rows, std::ceil(rows / with_rows)};
}

/// Rounds of the tiles that groups should have, not whole ones: their number is a guess.
double expected_rounds(const KernelConfig& config, const CudaSpec& spec, const CudaGemmShape& shape) {
  const Algorithm& a = config.algorithm;
  const int m = a.tile[0] * a.cluster[0], n = a.tile[1] * a.cluster[1];
  const ExpectedGroups groups = expected_groups(shape);
  const double tiles = groups.with_rows * std::ceil(groups.rows / m) *
                       static_cast<double>(ceil_div(shape.n, n) * a.cluster[0] * a.cluster[1]);
  return std::max(tiles / static_cast<double>(places_of(config, spec)), 1.0);
}

constexpr double kReachedBandwidth = 0.9;  // of the chip's, by a stream through memory

/// What parts of a tile cost when a block leaves or reads so many. Estimated: what one SM reads from the L2 cache, and
/// a fence, a counter and a barrier.
double join_seconds(const CudaGemmResources& facts, int parts) {
  constexpr double kBytesPerSecond = 110e9, kJoin = 1.5e-6;
  return kJoin + parts * static_cast<double>(facts.part_bytes) / kBytesPerSecond;
}

/// A stage of k of one of so many parts of a tile.
double step_microseconds(const KernelConfig& config, const CudaGemmResources& facts, const CudaGemmTile& tile,
                         const CudaSpec& spec, const CudaGemmShape& shape, int splits) {
  const GemmSignature& g = signature_of(config);
  const Algorithm& a = config.algorithm;
  double step = tile.step_us;
  // Integers draw less power: the smaller tile is not held back by it.
  if (g.a == DataType::int8 && a.ping_pong && shape.k + shape.k2 <= 8192) step *= 0.94;
  // What lies across k comes in whole squares.
  const auto rows_in_squares = [&](bool along_k, int rows) {
    return along_k ? rows : static_cast<int>(ceil_div(rows, facts.stage_k)) * facts.stage_k;
  };
  const double rows_a = rows_in_squares(g.layout_a == MatrixOrder::row, a.tile[0]);
  const double rows_b = rows_in_squares(g.layout_b == MatrixOrder::column, a.tile[1]);
  step *= (rows_a + rows_b) / (a.tile[0] + a.tile[1]);
  const Straddling straddles = straddling(g, shape);
  const double straddling_rows = (straddles.a ? rows_a / a.cluster[1] : 0) + (straddles.b ? rows_b / a.cluster[0] : 0);
  const double busy =
      static_cast<double>(cuda_gemm_tiles(config, shape) * splits) / static_cast<double>(places_of(config, spec));
  step = std::max(step, 1e-3 * spec.gemm.straddle_ns * straddling_rows * facts.blocks_per_sm * std::min(busy, 1.0));
  step += spec.gemm.transpose_us * facts.transposed_rows / 128;
  // A's rows that a group does not have are left out.
  if (shape.grouping != GemmGrouping::none && facts.copy_rows > 0 && facts.copy_rows * a.cluster[1] < a.tile[0]) {
    const double copied = std::ceil(expected_groups(shape).rows / facts.copy_rows) * facts.copy_rows;
    step *= (std::min<double>(copied, a.tile[0]) + a.tile[1]) / (a.tile[0] + a.tile[1]);
  }
  // While one block's scales wait, another block of the SM may multiply.
  if (has_block_scales(g)) step += spec.gemm.scale_us / facts.blocks_per_sm;
  return step;
}

/// Seconds of one work item: a tile, or one of so many parts of it, of which the last adds up all.
double item_seconds(const KernelConfig& config, const CudaGemmTile* tile, const CudaSpec& spec,
                    const CudaGemmShape& shape, int splits) {
  const GemmSignature& g = signature_of(config);
  const Algorithm& a = config.algorithm;
  const CudaGemmResources facts = cuda_gemm_resources(config);
  const CudaReferenceChip& chip = spec.reference;
  const std::int64_t steps = ceil_div(steps_of(shape, std::max(facts.stage_k, 1)), splits);
  const auto real_steps = static_cast<double>(steps);
  double seconds = 0;
  if (is_few_rows(a.pipeline)) {  // its share of B passes once
    const double rate = kReachedBandwidth * chip.bytes_per_second / chip.sms / facts.blocks_per_sm;
    const double k = splits > 1 ? real_steps * facts.stage_k : static_cast<double>(shape.k + shape.k2);
    // Beside weights, which are narrow, A's way to the products counts: it is read again for every group of columns.
    const double beside = has_weights(g) ? static_cast<double>(a.tile[0]) * facts.element_bytes : 0;
    seconds = (a.tile[1] * facts.bits_of_b / 8.0 + beside) * k / rate;
  } else if (tile != nullptr && tile->step_us > 0) {
    const double step = step_microseconds(config, facts, *tile, spec, shape, splits);
    seconds = 1e-6 * (real_steps * step + tile->end_us);
  } else {
    // A tile beside the table is taken for a middling one.
    const double efficiency = tile == nullptr || tile->efficiency == 0 ? 0.3 : tile->efficiency;
    const double rate = tflops_of(chip, g.a) * 1e12 / chip.sms * efficiency / facts.blocks_per_sm;
    // The stages it walks over, and two for its start and end.
    seconds = 2.0 * a.tile[0] * a.tile[1] * (real_steps + 2) * facts.stage_k / rate;
  }
  // Added as they come, a part is left and the sum of all read, whatever their number.
  return splits > 1 ? seconds + join_seconds(facts, a.split_k_atomic ? 2 : splits) : seconds;
}

}  // namespace

std::vector<CudaGemmWidths> cuda_gemm_widths(const GemmSignature& signature, Pipeline pipeline) {
  const int bytes = bits_of(signature.a) / 8, result_bytes = bits_of(signature.c) / 8;
  if (bytes == 0 || result_bytes == 0) return {};
  const auto wide = static_cast<std::uint8_t>(16 / bytes), box = static_cast<std::uint8_t>(16 / result_bytes);
  std::vector<CudaGemmWidths> widths;
  if (pipeline == Pipeline::warp_specialized || pipeline == Pipeline::weight_only) widths.push_back({wide, wide, box});
  widths.push_back({wide, wide, 2});
  widths.push_back({wide, wide, 1});
  if (pipeline == Pipeline::mma_sm80) widths.push_back({1, 1, 1});
  return widths;
}

bool give_stages(KernelConfig& config, const CudaSpec& spec, int most) {
  // Of what the rules look at only shared memory depends on the stages, and grows with them: halve the range.
  int few = kFewestStages, many = most + 1;
  if (!fits(config, spec, few)) return false;
  while (many - few > 1) {
    const int middle = (few + many) / 2;
    (fits(config, spec, middle) ? few : many) = middle;
  }
  config.algorithm.stages = static_cast<std::uint8_t>(few);
  return true;
}

bool cuda_gemm_suits(const KernelConfig& config, const CudaGemmShape& shape) {
  const GemmSignature& g = signature_of(config);
  const Algorithm& a = config.algorithm;
  const CudaGemmResources facts = cuda_gemm_resources(config);
  if (is_few_rows(a.pipeline) && shape.m > a.tile[0]) return false;
  // Only the portable template goes on without a single step of k.
  if (shape.k == 0 && a.pipeline != Pipeline::mma_sm80) return false;
  // The cp.async stream reads whole 16 bytes of k and may not pass the row's end.
  if (a.pipeline == Pipeline::skinny && shape.k * facts.bits_of_b % 128 != 0) return false;
  if (a.prefetch_weights && !shape.prefetch_weights) return false;
  if (shape.unaligned && (facts.aligned || facts.pairs)) return false;
  if (facts.pairs && shape.n % 2 != 0) return false;
  const std::int64_t columns = g.epilogue_ops.gated() ? shape.n / 2 : shape.n;
  return !facts.store_box || columns * facts.result_bytes % 16 == 0;
}

std::int64_t cuda_gemm_tiles(const KernelConfig& config, const CudaGemmShape& shape) {
  const Algorithm& a = config.algorithm;
  const std::int64_t m = std::int64_t{a.tile[0]} * a.cluster[0], n = std::int64_t{a.tile[1]} * a.cluster[1];
  // A contiguous group that has rows adds those that fill up its last tile.
  const std::int64_t rows_of_tiles = shape.grouping == GemmGrouping::contiguous
                                         ? (shape.m + groups_with_rows(shape) * (m - 1)) / m
                                         : shape.batch * ceil_div(shape.m, m);
  return rows_of_tiles * ceil_div(shape.n, n) * a.cluster[0] * a.cluster[1];
}

int cuda_gemm_splits(const KernelConfig& config, const CudaSpec& spec, const CudaGemmShape& shape) {
  if (!config.algorithm.split_k) return 1;
  const CudaGemmTile* tile = tile_of(config, spec);
  const std::int64_t most = tile == nullptr ? kMostSplits : std::max(tile->splits, 2);
  const std::int64_t steps = steps_of(shape, std::max<int>(config.algorithm.tile[2], 1));
  const std::int64_t tiles = std::max<std::int64_t>(cuda_gemm_tiles(config, shape), 1);
  const std::int64_t one_round = places_of(config, spec) / tiles;
  const int limit = static_cast<int>(std::min(std::clamp<std::int64_t>(one_round, 2, most), steps));
  int best = std::min(limit, 2);
  for (int splits = best + 1; splits <= limit; ++splits)
    if (item_seconds(config, tile, spec, shape, splits) < item_seconds(config, tile, spec, shape, best)) best = splits;
  return std::max(best, 1);
}

CudaGemmWork cuda_gemm_work(const KernelConfig& config, const CudaSpec& spec, const CudaGemmShape& shape) {
  // A cluster's run of stream-K is not worth its parts when it is shorter, nor a tile when it has more parts.
  constexpr std::int64_t kLeastSteps = 4, kMostParts = 16;
  const Algorithm& a = config.algorithm;
  const CudaGemmResources facts = cuda_gemm_resources(config);
  const std::int64_t cluster = std::int64_t{a.cluster[0]} * a.cluster[1];
  const std::int64_t tiles = std::max(cuda_gemm_tiles(config, shape), cluster);
  const std::int64_t at_a_time = std::max<std::int64_t>(places_of(config, spec) / cluster, 1);
  CudaGemmWork work;
  if (a.stream_k) {
    const std::int64_t each = tiles / cluster, steps = std::max<std::int64_t>(steps_of(shape, facts.stage_k), 1);
    const std::int64_t clusters =
        std::min({at_a_time, each * kMostParts, std::max(each * steps / kLeastSteps, std::min(each, at_a_time))});
    work.items = tiles;
    work.blocks = clusters * cluster;
    work.places = 2 * work.blocks;
    work.counters = std::min(2 * clusters, each) * cluster * facts.counters;
    return work;
  }
  work.splits = cuda_gemm_splits(config, spec, shape);
  work.items = tiles * work.splits;
  work.blocks = facts.persistent ? std::min(work.items, at_a_time * cluster) : work.items;
  if (a.split_k) {
    work.places = a.split_k_atomic ? tiles : work.items;
    work.counters = tiles * facts.counters;
  }
  if (a.pipeline == Pipeline::warp_specialized && shape.grouping == GemmGrouping::none) {
    const std::int64_t rows_of_tiles = ceil_div(shape.m, std::int64_t{a.tile[0]} * a.cluster[0]) * a.cluster[0];
    const std::int64_t steps = steps_of(shape, facts.stage_k) / work.splits;
    const auto at_most = [](std::int64_t value, double limit) { return static_cast<double>(value) <= limit; };
    work.b_first = at_most(shape.m, spec.gemm.b_first_m);
    work.late_launch_dependents = rows_of_tiles > 1 && at_most(rows_of_tiles, spec.gemm.next_at_end_rows) &&
                                  !at_most(steps, spec.gemm.next_at_end_steps - 1) &&
                                  2 * work.blocks > places_of(config, spec);
  }
  return work;
}

bool cuda_gemm_shares(const KernelConfig& config, const CudaSpec& spec, const CudaGemmShape& shape) {
  const CudaGemmWork work = cuda_gemm_work(config, spec, shape);
  return work.splits > 1 || (config.algorithm.stream_k && work.items % work.blocks != 0);
}

void enumerate_cuda_gemm(const CudaSpec& spec, const GemmSignature& signature, ConfigSink sink) {
  KernelConfig config{.arch = spec.arch, .signature = signature, .algorithm = {}};
  for (const CudaGemmPipeline& pipeline : spec.gemm.pipelines) {
    if (!takes_signature(config, pipeline, spec)) continue;
    const std::vector<CudaGemmWidths> all_widths = cuda_gemm_widths(signature, pipeline.pipeline);
    std::vector<Algorithm> seen;  // a tile may be the first choice for several shapes
    for (const CudaGemmTile& tile : pipeline.tiles) {
      if (!is_meant_for(signature, pipeline, tile)) continue;
      const Algorithm algorithm = algorithm_of(signature, pipeline, tile);
      if (std::ranges::find(seen, algorithm) != seen.end()) continue;
      seen.push_back(algorithm);
      config.algorithm = algorithm;
      if (!holds_tile(config, spec)) continue;
      for (const CudaGemmWidths& widths : all_widths) {
        config.algorithm.prefetch_weights = false;
        config.algorithm.vector = widths;
        if (!settle(config, tile, spec)) continue;
        if (!sink(config)) return;
        if (pipeline.pipeline != Pipeline::skinny_tma) continue;
        config.algorithm.prefetch_weights = true;
        if (!sink(config)) return;
      }
    }
  }
}

void enumerate_cuda_gemm(const CudaSpec& spec, std::string_view layout, ConfigSink sink) {
  bool wanted = true;
  const auto forward = [&](const KernelConfig& config) { return wanted = sink(config); };
  listed_gemm_signatures(spec, layout, [&](const GemmSignature& signature) {
    enumerate_cuda_gemm(spec, signature, forward);
    return wanted;
  });
}

void listed_gemm_signatures(const CudaSpec& spec, std::string_view layout, GemmSignatureSink sink) {
  std::vector<DataType> types;
  for (const CudaGemmPipeline& pipeline : spec.gemm.pipelines)
    for (const DataType type : pipeline.data_types)
      if (std::ranges::find(types, type) == types.end()) types.push_back(type);
  GemmSignature signature;
  for (const DataType type : types)
    for (const DataType result : results_of(type))
      for (const MatrixOrder order_a : {MatrixOrder::row, MatrixOrder::column})
        for (const MatrixOrder order_b : {MatrixOrder::column, MatrixOrder::row}) {
          if (!layout.empty() && layout != fmt::format("{}{}r", name_of(order_a), name_of(order_b))) continue;
          for (const GemmEpilogue& epilogue : spec.gemm.epilogues) {
            if (result == DataType::int32 && !epilogue.empty()) continue;
            const bool has_bias = std::ranges::any_of(
                epilogue, [](EpilogueOp op) { return op == EpilogueOp::bias || op == EpilogueOp::bias_m; });
            const bool wide = result == DataType::fp32 || result == DataType::fp16 || result == DataType::bf16;
            signature.layout_a = order_a;
            signature.layout_b = order_b;
            signature.a = signature.b = type;
            signature.c = signature.aux = result;
            signature.accumulator = type == DataType::int8 ? DataType::int32 : DataType::fp32;
            signature.bias = !has_bias ? GemmSignature{}.bias : wide ? result : DataType::fp32;
            signature.epilogue_ops = epilogue;
            if (!sink(signature)) return;
          }
        }
}

std::vector<RankedCudaGemm> ranked_cuda_gemm(const CudaSpec& spec, const GemmSignature& signature,
                                             const CudaGemmShape& shape) {
  struct Ranked {
    RankedCudaGemm one;
    int place;  // few rows, then the table's first choices in their order, then the rest
  };
  constexpr int kFewRows = -1000, kOthers = 1000, kShared = 1001, kAdded = 1002;
  constexpr std::int64_t kLeastFull = 4;  // first choices were measured on chips a quarter full or more
  std::vector<Ranked> ranked;
  for (const CudaGemmPipeline& pipeline : spec.gemm.pipelines) {
    KernelConfig config{.arch = spec.arch, .signature = signature, .algorithm = {}};
    if (!takes_signature(config, pipeline, spec)) continue;
    const std::vector<CudaGemmWidths> all_widths = cuda_gemm_widths(signature, pipeline.pipeline);
    int place = 0;
    std::vector<Algorithm> seen;
    for (const CudaGemmTile& tile : pipeline.tiles) {
      ++place;
      const bool first = is_first_for(tile, signature, shape);
      if ((tile.first_for && !first) || !is_meant_for(signature, pipeline, tile)) continue;
      const Algorithm algorithm = algorithm_of(signature, pipeline, tile);
      if (std::ranges::find(seen, algorithm) != seen.end()) continue;
      config.algorithm = algorithm;
      if (!holds_tile(config, spec)) continue;
      for (const CudaGemmWidths& widths : all_widths) {
        config.algorithm.vector = widths;
        config.algorithm.prefetch_weights = shape.prefetch_weights && pipeline.pipeline == Pipeline::skinny_tma;
        if (!settle(config, tile, spec) || !cuda_gemm_suits(config, shape)) continue;
        seen.push_back(algorithm);
        const bool is_measured =
            first && kLeastFull * cuda_gemm_work(config, spec, shape).items >= places_of(config, spec);
        ranked.push_back({{config, estimated_seconds(config, spec, shape)},
                          is_few_rows(pipeline.pipeline) ? kFewRows
                          : is_measured                  ? place
                          : tile.stream_k                ? kShared
                          : tile.split_k_atomic          ? kAdded
                                                         : kOthers});
        break;
      }
    }
  }
  std::ranges::stable_sort(ranked, [](const Ranked& a, const Ranked& b) {
    return a.place != b.place ? a.place < b.place : a.one.seconds < b.one.seconds;
  });
  std::vector<RankedCudaGemm> out;
  out.reserve(ranked.size());
  for (Ranked& r : ranked) out.push_back(std::move(r.one));
  return out;
}

double estimated_seconds(const KernelConfig& config, const CudaSpec& spec, const CudaGemmShape& shape) {
  const CudaGemmResources facts = cuda_gemm_resources(config);
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  const double columns = signature_of(config).epilogue_ops.gated() ? real(shape.n) / 2 : real(shape.n);
  const bool groups = shape.grouping != GemmGrouping::none, contiguous = shape.grouping == GemmGrouping::contiguous;
  const double rows = real(shape.m) * (contiguous ? 1 : real(shape.batch));
  const double matrices_b = groups ? expected_groups(shape).with_rows : real(shape.batch);
  const double depth = real(shape.k + shape.k2);
  const double bytes = rows * (facts.element_bytes * depth + facts.result_bytes * columns) +
                       matrices_b * facts.bits_of_b / 8 * real(shape.n) * depth;
  const CudaGemmWork work = cuda_gemm_work(config, spec, shape);
  const double item = item_seconds(config, tile_of(config, spec), spec, shape, work.splits);
  const double rounds =
      groups ? expected_rounds(config, spec, shape) : real(ceil_div(work.items, places_of(config, spec)));
  // Stream-K leaves one part of a tile in memory, reads another and its own.
  const double seconds = config.algorithm.stream_k
                             ? real(work.items) / real(std::max<std::int64_t>(work.blocks, 1)) * item +
                                   (cuda_gemm_shares(config, spec, shape) ? join_seconds(facts, 3) : 0)
                             : rounds * item;
  const double memory = bytes / (kReachedBandwidth * spec.reference.bytes_per_second);
  // Groups of few rows: large tiles multiply mostly what the groups do not have, which memory's time hides only in
  // part.
  return spec.gemm.launch_us * 1e-6 + (groups ? std::hypot(seconds, memory) : std::max(seconds, memory));
}

}  // namespace tilesmith
