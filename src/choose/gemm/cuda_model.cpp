#include "choose/gemm/cuda_model.hpp"

#include <algorithm>
#include <cmath>

#include "choose/overlapped.hpp"
#include "choose/rounding.hpp"
#include "instances/gemm/cuda_resources.hpp"
#include "instances/gemm/family.hpp"
#include "kernels/cuda/gemm/abi.h"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

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
double expected_rounds(const KernelConfig& config, const CudaGemmResources& facts, const CudaSpec& spec,
                       const CudaGemmShape& shape) {
  const Algorithm& a = config.algorithm;
  const int m = a.tile[0] * a.cluster[0], n = a.tile[1] * a.cluster[1];
  const ExpectedGroups groups = expected_groups(shape);
  const double tiles = groups.with_rows * std::ceil(groups.rows / m) *
                       static_cast<double>(ceil_div(shape.n, n) * a.cluster[0] * a.cluster[1]);
  return std::max(tiles / static_cast<double>(cuda_gemm_places(facts, spec)), 1.0);
}

/// What a block adds for the parts of a tile that it leaves or reads.
double join_seconds(const KernelConfig& config, const CudaSpec& spec, const CudaGemmResources& facts, int parts) {
  if (config.algorithm.pipeline == Pipeline::mma_sm80 && spec.gemm.portable_part_us > 0) {
    constexpr double kElements = 64 * 64;  // of the tile that the figure is of
    const double size = config.algorithm.tile[0] * config.algorithm.tile[1] / kElements;
    return 1e-6 * (spec.gemm.portable_join_us + parts * size * spec.gemm.portable_part_us);
  }
  const int shares = std::max<int>(config.algorithm.cluster_k, 1);  // each block of a cluster joins one
  const auto round = [&](int count) {
    return 1e-6 * spec.gemm.join_us +
           count * static_cast<double>(facts.part_bytes) / shares / spec.gemm.join_bytes_per_second;
  };
  const bool in_groups = config.algorithm.pipeline == Pipeline::warp_specialized && !config.algorithm.split_k_atomic &&
                         config.algorithm.split_k && shares == 1 && parts > TS_GEMM_PART_GROUPS &&
                         facts.accumulators <= TS_GEMM_GROUPED_SUMS;
  if (!in_groups) return round(parts);
  const auto size = static_cast<int>(ceil_div(std::int64_t{parts}, std::int64_t{TS_GEMM_PART_GROUPS}));
  return round(size) + round(static_cast<int>(ceil_div(std::int64_t{parts}, std::int64_t{size})));
}

/// What the blocks of a cluster take to exchange partials of a tile: each receives a share of it from all others.
double cluster_join_seconds(const CudaSpec& spec, const CudaGemmResources& facts, int blocks) {
  const double received = static_cast<double>(facts.part_bytes) * (blocks - 1) / blocks;
  const double rate = spec.gemm.cluster_join_bytes_per_second;
  return 1e-6 * spec.gemm.cluster_join_us + (rate > 0 ? received / rate : 0);
}

/// What the rows of a share take that is no box: 152 x 64 by two blocks took 1.0 us longer than 144 x 64 at 129 x 4096
/// x 4096 in fp8, 80 x 64 0.5 us longer than 96 x 64 at 79 x 2880 x 4096 (H200).
double cluster_pairs_seconds(const CudaSpec& spec, const Algorithm& a, const CudaGemmShape& shape) {
  if (!a.transpose_c || turned_shares_are_boxes(a.tile[0], a.cluster_k)) return 0;
  const auto rows =
      std::min<std::int64_t>(8 * ceil_div(std::int64_t{a.tile[0]}, std::int64_t{8} * a.cluster_k), shape.m);
  return 1e-9 * spec.gemm.cluster_pairs_ns * static_cast<double>(rows);
}

/// Lines of the cache in which 128 bytes of a row lie, in the mean of rows that are packed. Each is a request to L2:
/// fp8 with k = 2880 took 1.4 to 1.6 ns for each row of a step instead of 1.0 (H100, tiles of every size), 872 x 240 x
/// 66344 with A along m and B along n 2.3 to 2.4 (H200, 128 x 128 and 128 x 256). Along k the next step asks for the
/// rest of a line: 1392 x 1392 x 1392 takes no longer for its 1.75.
double lines_of(std::int64_t row_bytes, bool along_k) {
  constexpr std::int64_t kLine = 128;
  constexpr double kMostAlongK = 1.5;
  const std::int64_t odd = row_bytes | kLine, shared = odd & -odd;  // the greatest common divisor of both
  const double lines = 2 - static_cast<double>(shared) / kLine;
  return along_k ? std::min(lines, kMostAlongK) : lines;
}

/// The same of a problem's operands.
struct Lines {
  double a, b;
};
Lines lines_of(const GemmSignature& signature, const CudaGemmShape& shape) {
  if (shape.unaligned && shape.may_pad) return {1, 1};  // they are copied to rows of whole lines
  const auto lines = [&](bool along_k, std::int64_t across, DataType type) {
    const auto of = [&](std::int64_t elements) { return lines_of(elements * bits_of(type) / 8, along_k); };
    return along_k ? std::max(of(shape.k), of(shape.k2)) : of(across);
  };
  return {lines(signature.layout_a == MatrixOrder::row, shape.m, signature.a),
          has_weights(signature) ? 1 : lines(signature.layout_b == MatrixOrder::column, shape.n, signature.b)};
}

/// Microseconds that a tile, or one of `parts` parts of it, takes for a stage of k.
double step_microseconds(const KernelConfig& config, const CudaGemmResources& facts, const CudaGemmTile& row,
                         const CudaSpec& spec, const CudaGemmShape& shape, int parts) {
  const auto& g = std::get<GemmSignature>(config.signature);
  const Algorithm& a = config.algorithm;
  double step = row.step_us;
  if (g.a == DataType::int8 && a.ping_pong && static_cast<double>(shape.k + shape.k2) <= spec.gemm.int8_ping_pong_k)
    step *= spec.gemm.int8_ping_pong_step;
  // What lies across k comes in whole squares.
  const auto rows_in_squares = [&](bool along_k, int rows) {
    return along_k ? rows : static_cast<int>(ceil_div(std::int64_t{rows}, std::int64_t{facts.stage_k})) * facts.stage_k;
  };
  const double rows_a = rows_in_squares(g.layout_a == MatrixOrder::row, a.tile[0]);
  const double rows_b = rows_in_squares(g.layout_b == MatrixOrder::column, a.tile[1]);
  step *= (rows_a + rows_b) / (a.tile[0] + a.tile[1]);
  const Straddling straddles = straddling(g, shape);
  const std::int64_t tiles = cuda_gemm_tiles(config, shape);
  const double busy = static_cast<double>(tiles * parts) / static_cast<double>(cuda_gemm_places(facts, spec));
  const Lines lines = lines_of(g, shape);
  // The cut step's share: 128 x 160 of 144 columns and k of 72, 104 and 136 took 6.6 to 6.9 ns for its rows (H200). Of
  // more steps than the ring has stages products hide it.
  const std::int64_t steps = ceil_div(shape.k, std::int64_t{std::max(facts.stage_k, 1)});
  const bool is_cut = steps <= a.stages && shape.k % std::max(facts.stage_k, 1) != 0;
  const double straddle_ns =
      spec.gemm.straddle_ns + (is_cut ? spec.gemm.cut_straddle_ns / static_cast<double>(steps) : 0);
  // SMs that share no columns got 10.8 to 12.6 TB/s from L2 together, others up to 17 (one round of 60 to 132 tiles
  // with 64 columns and more, H200). In clusters that copy A once their way from L2 bounded none: memory did.
  const bool one_row = shape.grouping == GemmGrouping::none && shape.m <= a.tile[0] && busy <= 1 && a.cluster[1] == 1;
  // So do parts where they are many: 528 x 16 x 80592 by 64 x 64 in 14 took 37.7 us, in 12 by clusters of four 30.6;
  // 391 x 472 x 49552 by 128 x 128 in eight 60.7, and in clusters that copy for each other 54.5.
  constexpr int kManyParts = 8;
  const bool many_parts = parts >= kManyParts && a.cluster[0] * a.cluster[1] == 1;
  const double way_ns = a.cluster_k > 1 || one_row || many_parts ? spec.gemm.apart_row_ns : spec.gemm.row_ns;
  const double straddling_rows = (straddles.a ? rows_a / a.cluster[1] : 0) + (straddles.b ? rows_b / a.cluster[0] : 0);
  // Requests of a row. Across k a cluster's blocks each ask for a part of what they share; all get all.
  const auto requests = [&](double lines_of_row, bool along_k, bool straddle, int shared_by) {
    if (along_k) return lines_of_row;
    return std::max({1.0, lines_of_row / shared_by, straddle ? straddle_ns / way_ns / shared_by : 0});
  };
  const double asked = rows_a * requests(lines.a, g.layout_a == MatrixOrder::row, straddles.a, a.cluster[1]) +
                       rows_b * requests(lines.b, g.layout_b == MatrixOrder::column, straddles.b, a.cluster[0]);
  const double row_ns = std::max(way_ns * asked, straddle_ns * straddling_rows);
  // Larger tiles are bound by their products: 14 of two and three warpgroups took as long placed as not.
  const bool placed = parts == 1 && cuda_gemm_placed(config, facts, spec, shape, tiles) > 1;
  const double share = placed ? spec.gemm.placed_step : 1;
  step =
      std::max(step * (a.wave[0] == 1 ? share : 1), 1e-3 * row_ns * share * facts.blocks_per_sm * std::min(busy, 1.0));
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

/// That A, B, D and the epilogue's tensors have, each once; of groups what they are expected to have.
double bytes_of(const KernelConfig& config, const CudaGemmResources& facts, const CudaGemmShape& shape) {
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  const auto& g = std::get<GemmSignature>(config.signature);
  const double columns = g.epilogue_ops.gated() ? real(shape.n) / 2 : real(shape.n);
  const auto tensors = static_cast<double>(std::ranges::count_if(g.epilogue_ops, reads_tensor));
  const double rows = real(shape.m) * (shape.grouping == GemmGrouping::contiguous ? 1 : real(shape.batch));
  const double matrices_b = shape.grouping != GemmGrouping::none ? expected_groups(shape).with_rows : real(shape.batch);
  const double depth = real(shape.k + shape.k2);
  return rows * (facts.element_bytes * depth + (facts.result_bytes + tensors * bits_of(g.aux) / 8) * columns) +
         matrices_b * facts.bits_of_b / 8 * real(shape.n) * depth;
}

/// Null of what is no stream.
const CudaGemmStream* stream_of(const Algorithm& a, const CudaSpec& spec) {
  if (a.pipeline != Pipeline::skinny_tma) return nullptr;
  return a.instruction == Instruction::wgmma ? &spec.gemm.wgmma_stream : &spec.gemm.mma_stream;
}

/// Blocks that an SM works on at a time: one, where there are no more than SMs.
int blocks_at_a_time(const KernelConfig& config, const CudaGemmResources& facts, const CudaSpec& spec,
                     const CudaGemmShape& shape, int parts) {
  const bool is_stream = config.algorithm.pipeline == Pipeline::skinny_tma;
  return is_stream && cuda_gemm_tiles(config, shape) * parts <= spec.reference.sms ? 1 : facts.blocks_per_sm;
}

/// Of one row of tiles, the columns of B that an item reads and no other. Two SMs share a way to memory, which one of
/// them may have alone where half of all are busy: it then takes not quite half the time.
double own_columns_seconds(const KernelConfig& config, const CudaGemmResources& facts, const CudaSpec& spec,
                           const CudaGemmShape& shape, int parts) {
  const Algorithm& a = config.algorithm;
  const CudaGemmPair& pair = spec.gemm.pair;
  if (pair.bytes_per_second == 0 || shape.grouping != GemmGrouping::none || shape.m > a.tile[0]) return 0;
  const double columns = std::min<double>(a.tile[1], static_cast<double>(shape.n));
  // A stream's part of k has few tiles beside it that read the same part of A.
  const double rows = parts > 1 && a.pipeline == Pipeline::skinny_tma ? static_cast<double>(shape.m) : 0;
  const double bytes =
      (columns * facts.bits_of_b / 8 + rows * facts.element_bytes) * static_cast<double>(shape.k + shape.k2) / parts;
  const int blocks = blocks_at_a_time(config, facts, spec, shape, parts);
  const std::int64_t items = cuda_gemm_tiles(config, shape) * parts, places = std::int64_t{spec.reference.sms} * blocks;
  // The blocks of a cluster stand side by side.
  const bool in_pairs = 2 * items > places || a.cluster[0] * a.cluster[1] > 1;
  const CudaGemmStream* stream = stream_of(a, spec);
  double rate = stream != nullptr ? stream->pair_bytes_per_second : pair.bytes_per_second;
  // With a block for half to three quarters of the SMs, the next kernel's take the idle ones beside busy ones first;
  // where an SM has room for two blocks, with fewer too.
  if (stream != nullptr && (in_pairs || facts.blocks_per_sm > 1) && 4 * items < 3 * places) rate *= stream->between;
  // Two launches of a stream for more than a quarter of the SMs have more blocks than there are ways, so that the next
  // one's blocks come beside some: 36, 45 and 48 groups of columns took 1.2 to 1.3 times what they read alone, 64 did
  // not (H200).
  const bool soon_shared = stream != nullptr && 4 * items > places && 5 * items < 2 * places;
  // Clusters that copy A once leave more of the way to B: five products of 36 to 97 x 7168 x 2048 by fours took 0.95 to
  // 0.97 of what they are said to take with 2 (bf16, H200).
  const double shared = a.cluster[1] > 1 ? pair.copies_once
                        : in_pairs       ? pair.shared
                        : soon_shared    ? pair.soon_shared
                                         : pair.alone;
  return rate == 0 ? 0 : bytes * blocks * shared / rate;
}

/// By a share of the chip's peak: the stages that a tile walks over, and two for its start and end.
double seconds_by_share(const KernelConfig& config, const CudaGemmResources& facts, const CudaGemmTile* row,
                        const CudaSpec& spec, const CudaGemmShape& shape, int parts, double steps) {
  const Algorithm& a = config.algorithm;
  const DataType type = std::get<GemmSignature>(config.signature).a;
  double efficiency = row == nullptr || row->efficiency == 0 ? spec.gemm.efficiency_without_row : row->efficiency;
  if (row != nullptr && type == DataType::fp32 && row->fp32_efficiency > 0) efficiency = row->fp32_efficiency;
  const double rate = spec.reference.tflops_of(type) * 1e12 / spec.reference.sms * efficiency / facts.blocks_per_sm;
  double seconds = 2.0 * a.tile[0] * a.tile[1] * (steps + 2) * facts.stage_k / rate;
  if (a.pipeline != Pipeline::mma_sm80) return seconds;
  if (facts.blocks_per_sm > 1 && cuda_gemm_tiles(config, shape) * parts <= spec.reference.sms)
    seconds *= spec.gemm.portable_alone;
  // Four bytes go to shared memory without a register between: 15 to 37 ns for each on an H100.
  constexpr double kCopied = 0.27;
  const double load_ns = spec.gemm.portable_load_ns * (facts.element_bytes < 4 ? 1 : kCopied);
  // Elements that are there: 64 x 64 takes 8.7 us with k of 41, two steps, and 11.3 with 89, three (bf16, H100).
  if (!facts.aligned) {
    const double depth = std::max(static_cast<double>(shape.k + shape.k2) / parts, 1.0 * facts.stage_k);
    seconds += 1e-9 * load_ns * std::min(depth, steps * facts.stage_k) * (a.tile[0] + a.tile[1]) / facts.threads;
  }
  return seconds;
}

/// Of tiles in turns one hides the end of another, but where each SM has one. That takes as long as the same tile that
/// its warpgroups share, and `lone_turn_us`: of 64 pairs of timings 51 were 0.1 to 0.65 us apart (H200). Here the row
/// of the latter, the least of the table that holds the config's tile; null where that is not what runs.
const CudaGemmTile* row_of_lone_turn(const KernelConfig& config, const CudaSpec& spec, const CudaGemmShape& shape,
                                     double rounds) {
  const Algorithm& a = config.algorithm;
  const CudaGemmPipeline* pipeline = spec.gemm.pipeline(a.pipeline);
  if (!a.ping_pong || rounds != 1 || shape.grouping != GemmGrouping::none || pipeline == nullptr) return nullptr;
  const auto is_shared = [&](const CudaGemmTile& row) {
    const bool is_whole = row.splits == 1 && row.cluster_k * row.cluster_m * row.cluster_n == 1 && !row.stream_k;
    return is_whole && !row.ping_pong && !row.groups && row.transpose_c == a.transpose_c && row.wave[0] == a.wave[0];
  };
  const CudaGemmTile* least = nullptr;
  for (const CudaGemmTile& row : pipeline->tiles) {
    const bool holds = row.tile_m >= a.tile[0] && row.tile_n >= a.tile[1];
    const bool is_less = least == nullptr || row.tile_m * row.tile_n < least->tile_m * least->tile_n;
    if (is_shared(row) && holds && is_less) least = &row;
  }
  return least;
}

}  // namespace

Straddling straddling(const GemmSignature& signature, const CudaGemmShape& shape) {
  constexpr std::int64_t kSectorBits = 256;
  if (shape.unaligned && shape.may_pad) return {};  // they are copied to rows that straddle nothing
  const auto odd = [&](std::int64_t elements, DataType type) { return elements * bits_of(type) % kSectorBits != 0; };
  const auto straddles = [&](bool along_k, std::int64_t across, DataType type) {
    return along_k ? odd(shape.k, type) || odd(shape.k2, type) : odd(across, type);
  };
  return {straddles(signature.layout_a == MatrixOrder::row, shape.m, signature.a),
          !has_weights(signature) && straddles(signature.layout_b == MatrixOrder::column, shape.n, signature.b)};
}

double cuda_gemm_item_seconds(const KernelConfig& config, const CudaGemmResources& facts, const CudaGemmTile* row,
                              const CudaSpec& spec, const CudaGemmShape& shape, int splits) {
  const auto& g = std::get<GemmSignature>(config.signature);
  const Algorithm& a = config.algorithm;
  const CudaReferenceChip& chip = spec.reference;
  const int parts = splits * a.cluster_k;
  const std::int64_t steps = ceil_div(cuda_gemm_steps(shape, std::max(facts.stage_k, 1)), parts);
  const auto real_steps = static_cast<double>(steps);
  double seconds = 0;
  if (const CudaGemmStream* stream = stream_of(a, spec)) {  // a row of a box is read from the cache, whoever reads it
    const double boxes = real_steps * facts.tma_boxes;
    // mma.sync converts 8-bit floats: beside more than 16 rows 3.1 to 4 ns a column on an H200, by tiles of 40, 48 and
    // 80 columns. With fewer rows the stream's factor has it.
    const bool converts = is_fp8(g.a) && a.tile[0] > 16;
    // 64 x 32 of 64 x 4096 x 4104 takes 21.5 us, and 64 x 64 by wgmma 17.6 (H200); fewer rows were not measured.
    const Straddling straddles = straddling(g, shape);
    const int straddling_rows = (straddles.a ? a.tile[0] : 0) + (straddles.b ? a.tile[1] : 0);
    const double box_ns = std::max({spec.gemm.row_ns * (a.tile[0] + a.tile[1]), 2 * stream->box_ns,
                                    converts ? stream->converted_column_ns * a.tile[1] : 0,
                                    a.tile[0] > 16 ? spec.gemm.straddle_ns * straddling_rows : 0});
    seconds = 1e-9 * boxes * box_ns * blocks_at_a_time(config, facts, spec, shape, parts) + 1e-6 * stream->end_us;
  } else if (a.pipeline == Pipeline::skinny) {  // its share of B passes once
    const double rate = chip.reached_bandwidth * chip.bytes_per_second / chip.sms / facts.blocks_per_sm;
    const double k = splits > 1 ? real_steps * facts.stage_k : static_cast<double>(shape.k + shape.k2);
    // Beside weights, which are narrow, A's way to the products counts: it is read again for every group of columns.
    const double beside = has_weights(g) ? static_cast<double>(a.tile[0]) * facts.element_bytes : 0;
    seconds = (a.tile[1] * facts.bits_of_b / 8.0 + beside) * k / rate;
  } else if (row != nullptr && row->step_us > 0) {
    const double step = step_microseconds(config, facts, *row, spec, shape, parts);
    seconds = 1e-6 * (real_steps * step + row->end_us + spec.gemm.turned_us * facts.turned_blocks);
  } else {
    seconds = seconds_by_share(config, facts, row, spec, shape, parts, real_steps);
  }
  seconds = std::max(seconds, own_columns_seconds(config, facts, spec, shape, parts));
  if (a.cluster_k > 1)
    seconds += cluster_join_seconds(spec, facts, a.cluster_k) + cluster_pairs_seconds(spec, a, shape);
  // Added as they come, a part is left and the sum of all read, whatever their number.
  return splits > 1 ? seconds + join_seconds(config, spec, facts, a.split_k_atomic ? 2 : splits) : seconds;
}

namespace {

/// The figures of a round of three rows of tiles and more that nothing else bounds; null of others. Beside them tiles
/// of one warpgroup took 0.80 to 0.93 of their estimate at n of 576 to 2880 and 1.0 where B is 134 MB (H200): SMs get
/// more from L2 than in rounds that follow one another, and memory hides less.
const CudaGemmOneRound* one_round_of(const KernelConfig& config, const CudaSpec& spec, const CudaGemmShape& shape,
                                     const CudaGemmWork& work, double rounds) {
  const Algorithm& a = config.algorithm;
  const bool whole = a.pipeline == Pipeline::warp_specialized && work.splits == 1 && !a.stream_k &&
                     a.cluster[0] * a.cluster[1] == 1 && (a.cluster_k == 1 || work.placed > 1) &&
                     shape.grouping == GemmGrouping::none;
  const Straddling straddles = straddling(std::get<GemmSignature>(config.signature), shape);
  const bool shared = whole && rounds == 1 && shape.m > 2 * a.tile[0] && !straddles.a && !straddles.b;
  return shared && spec.gemm.one_round ? &*spec.gemm.one_round : nullptr;
}

/// What tiles that their warpgroups share take longer in long products. Of 76 of 0.5 ms and more those in turns took 1
/// to 3 % less beside their estimates than those of 256 columns beside theirs, most in fp8 beyond 2 ms (H200).
double shared_more(const KernelConfig& config, const CudaSpec& spec, double seconds) {
  const Algorithm& a = config.algorithm;
  if (a.pipeline != Pipeline::warp_specialized || a.ping_pong || !spec.gemm.long_products) return 0;
  const double beyond = seconds / (1e-6 * spec.gemm.long_products->us) - 1;
  return spec.gemm.long_products->shared_more * std::clamp(beyond, 0.0, 1.0);
}

/// A launch that copies what has rows of no whole 16 bytes; where both have such, the pointers, so both.
double padding_seconds(const KernelConfig& config, const CudaSpec& spec, const CudaGemmShape& shape) {
  if (!cuda_gemm_pads(config, shape)) return 0;
  const CudaGemmPadding padding = cuda_gemm_padding(std::get<GemmSignature>(config.signature), shape);
  const bool a = padding.a.row_bytes % 16 != 0, b = padding.b.row_bytes % 16 != 0;
  const std::int64_t bytes = (a || !b ? padding.a.bytes() : 0) + (b || !a ? padding.b.bytes() : 0);
  return 1e-6 * spec.gemm.pad_us + spec.reference.memory_seconds(2.0 * static_cast<double>(bytes));
}

}  // namespace

double predicted_seconds(const KernelConfig& config, const CudaGemmResources& facts, const CudaGemmTile* row,
                         const CudaSpec& spec, const CudaGemmShape& shape, const CudaGemmWork& work) {
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  const bool groups = shape.grouping != GemmGrouping::none;
  const std::int64_t at_a_time = cuda_gemm_blocks_at_a_time(config.algorithm, facts, spec);
  const double rounds = groups ? expected_rounds(config, facts, spec, shape) : real(ceil_div(work.items, at_a_time));
  const CudaGemmTile* lone = row_of_lone_turn(config, spec, shape, rounds);
  const double lone_seconds = lone != nullptr ? 1e-6 * spec.gemm.lone_turn_us : 0;
  const CudaGemmOneRound* one_round = one_round_of(config, spec, shape, work, rounds);
  const double share = one_round == nullptr            ? 1
                       : config.algorithm.wave[0] == 1 ? one_round->step
                                                       : one_round->large_step;
  const double item =
      share *
      (cuda_gemm_item_seconds(config, facts, lone != nullptr ? lone : row, spec, shape, work.splits) + lone_seconds);
  // Stream-K leaves one part of a tile in memory, reads another and its own.
  const double seconds = config.algorithm.stream_k
                             ? real(work.items) / real(std::max<std::int64_t>(work.blocks, 1)) * item +
                                   (cuda_gemm_shares(config, work) ? join_seconds(config, spec, facts, 3) : 0)
                             : rounds * item;
  const double memory = spec.reference.memory_seconds(bytes_of(config, facts, shape));
  // A stream's warps wait for each other, which hides less of the shorter time.
  if (const CudaGemmStream* stream = stream_of(config.algorithm, spec)) {
    const double of_type = is_fp8(std::get<GemmSignature>(config.signature).a) ? stream->fp8 : stream->others;
    const Algorithm& a = config.algorithm;
    const bool many_rows = a.tile[0] > 16;
    const double factor = many_rows ? 1 : of_type;
    // Sums of many rows take long to add up between the warps, and the next group of columns waits for them: 17 x 38648
    // x 80 by 24 x 80 took 2.9 us longer than the median candidate beside what is said, in four rounds (bf16, H200).
    const double sums = many_rows ? 1e-9 * stream->sum_ns * a.tile[0] * a.tile[1] * rounds : 0;
    return 1e-6 * stream->launch_us + overlapped(seconds + sums, stream->memory * memory, stream->power) * factor;
  }
  // Groups of few rows: large tiles multiply mostly what the groups do not have, which memory's time hides only in
  // part. Else all but the longer is hidden nearly whole.
  const bool in_parts = work.splits > 1 && config.algorithm.pipeline == Pipeline::warp_specialized;
  const bool in_two_rows = config.algorithm.pipeline == Pipeline::warp_specialized && rounds > 1 &&
                           shape.m > config.algorithm.tile[0] && shape.m <= 2 * config.algorithm.tile[0];
  const CudaGemmOverlap& overlap = spec.gemm.overlap;
  const double power = groups        ? 2
                       : in_parts    ? overlap.parts
                       : in_two_rows ? overlap.two_rows
                       : one_round   ? one_round->power
                                     : overlap.tiles;
  const double product = overlapped(seconds, memory, power);
  return spec.reference.launch_us * 1e-6 + product * (1 + shared_more(config, spec, product)) +
         padding_seconds(config, spec, shape);
}

double predicted_list_seconds(const KernelConfig& config, const CudaGemmTile* row, const CudaSpec& spec,
                              std::span<const CudaGemmShape> shapes, std::size_t launches) {
  const CudaGemmResources facts = cuda_gemm_resources(config);
  double all = 0, longest = 0, bytes = 0;
  for (const CudaGemmShape& shape : shapes) {
    const double item = cuda_gemm_item_seconds(config, facts, row, spec, shape, 1);
    all += static_cast<double>(cuda_gemm_tiles(config, shape)) * item;
    longest = std::max(longest, item);
    bytes += bytes_of(config, facts, shape);
  }
  const double seconds = std::max(all / static_cast<double>(cuda_gemm_places(facts, spec)), longest);
  return static_cast<double>(launches) * spec.reference.launch_us * 1e-6 +
         overlapped(seconds, spec.reference.memory_seconds(bytes), spec.gemm.overlap.tiles);
}

}  // namespace tilesmith
