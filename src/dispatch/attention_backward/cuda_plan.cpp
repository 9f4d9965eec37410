// The figures of launches are those that stand at the top of the kernels in kernels/cuda/attention/backward.
#include "dispatch/attention_backward/cuda_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "choose/attention_backward/cuda_sections.hpp"
#include "choose/attention_backward/cuda_single_block.hpp"
#include "dispatch/attention/cuda_arguments.hpp"
#include "dispatch/workspace.hpp"
#include "problem/attention_backward/problem.hpp"
#include "runtime/cuda/memory.hpp"
#include "runtime/cuda/tensor_map.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

enum BackwardStep : std::size_t { kPrepare, kProducts, kConvert, kBiasGradient };

constexpr std::size_t kItemCounters = 2;  // of the products' schedule
constexpr std::size_t kRegionsApart = 256;

std::int64_t blocks_of(std::int64_t rows, std::int64_t size) {
  return (rows + size - 1) / size;
}

Status check_launch(const char* what, std::int64_t value, std::int64_t most) {
  if (value <= most) return {};
  return fail(ErrorCode::unsupported, fmt::format("{} {} is beyond a CUDA kernel's launch", what, value),
              fmt::format("at most {}", most));
}

Status check_backward_sizes(const AttentionBackwardProblem& p, std::int64_t work_items) {
  TS_TRY(check_launch("seqlen_q", p.seqlen_q, kLongestOfGpu));
  TS_TRY(check_launch("seqlen_k", p.seqlen_k, kLongestOfGpu));
  TS_TRY(check_launch("heads_q", p.heads_q, kCudaGridLimit));
  TS_TRY(check_launch("batch", p.batch, kCudaGridLimit));
  return check_launch("blocks of rows", work_items, INT32_MAX);
}

/// Whether elements of dbias are sums of several pairs.
bool sums_dbias(const AttentionBackwardProblem& p, const TsStrides& s) {
  return p.dbias && p.seqlen_q > 0 && p.seqlen_k > 0 &&
         ((p.batch > 1 && s.batch == 0) || (p.heads_q > 1 && s.head == 0) || (p.seqlen_q > 1 && s.row == 0) ||
          (p.seqlen_k > 1 && s.column == 0));
}

/// Heads of keys that are walked together, a section. Figures: docs/log/2026-11-cuda-backward.md.
struct Sections {
  std::int64_t heads = 1;       ///< of keys, of the whole batch
  std::int64_t head_bytes = 1;  ///< queries, do and sums of dq of a head of keys
  std::int64_t tiles = 1;       ///< of queries
  std::int64_t group = 1;       ///< heads of queries to one of keys
  std::int64_t sum_columns = 0;
  bool in_turn = false, masked = false, few = false;

  /// Heads whose blocks of keys share the SMs, `blocks` of each head at a time.
  [[nodiscard]] std::int64_t abreast(const CudaReferenceChip& chip, int blocks) const {
    return std::max<std::int64_t>(1, chip.sms / blocks);
  }
  /// Those whose bytes are a third of the L2 cache. Of products that add to dq, two at least.
  [[nodiscard]] std::int64_t cached(const CudaReferenceChip& chip) const {
    return std::max<std::int64_t>(sum_columns > 0 ? 2 : 1, chip.l2_bytes / 3 / head_bytes);
  }
  /// Of ordered additions: so many heads that blocks of one begin two tiles apart, if L2 holds them. Of few tiles more
  /// blocks of a head than it has tiles would wait for one another. Figures: docs/log/2026-11-cuda-backward.md.
  [[nodiscard]] std::int64_t spaced(const CudaReferenceChip& chip) const {
    return std::min<std::int64_t>(cached(chip), 2 * chip.sms / (tiles * group));
  }
  /// Blocks that add in turn follow one another at a tile's distance, and find its queries in L2 whatever the head's
  /// length: more of them at a time wait for one another when they begin, fewer share what they read. Without a mask a
  /// block is drawn when its head's block before has walked a tile and a half.
  [[nodiscard]] std::int64_t wanted(const CudaReferenceChip& chip) const {
    const int wide = sum_columns > 64 ? 2 : 1;
    if (few && !in_turn) return sum_columns == 0 ? heads : abreast(chip, 4 * wide);
    if (!in_turn) return cached(chip);
    const std::int64_t most = abreast(chip, few ? 4 : 8 * wide);
    const std::int64_t near = few || masked ? most : std::min({most, cached(chip), blocks_of(3 * chip.sms, 2 * tiles)});
    return std::max(near, spaced(chip));
  }
  [[nodiscard]] std::int64_t width(const CudaReferenceChip& chip) const { return even_section(wanted(chip), heads); }
};

/// Rows of a head in the workspace; group mode: of a call with so many rows of q in all.
std::int64_t padded_rows(const AttentionBackwardProblem& p, std::int64_t total_q) {
  const std::int64_t rows =
      p.mode == SequenceMode::batch ? p.seqlen_q + kCudaBackwardRows - 1 : total_q + p.batch * kCudaBackwardRows;
  return rows / kCudaBackwardRows * kCudaBackwardRows;
}

/// Slices of 16 columns of dk and dv.
std::int64_t slices_of_columns(const AttentionBackwardProblem& p) {
  return blocks_of(p.head_dim_qk, 16) + blocks_of(p.head_dim_v, 16);
}

/// The workspace of one call behind the counters, in bytes.
struct BackwardRegions {
  std::size_t statistics = 0, dq_sum = 0, turns = 0, dsink_parts = 0, dalibi_parts = 0, passed = 0, progress = 0,
              key_parts = 0;

  BackwardRegions(const AttentionBackwardProblem& p, int sum_columns, bool in_turn, std::int64_t passed_bytes,
                  std::int64_t progress_counts, std::int64_t padded_q, std::int64_t parts) {
    const auto bytes = [](std::int64_t floats) {
      return (static_cast<std::size_t>(floats) * 4 + kRegionsApart - 1) / kRegionsApart * kRegionsApart;
    };
    const std::int64_t rows = (p.mode == SequenceMode::group ? 1 : p.batch) * p.heads_q * padded_q;
    statistics = bytes(2 * rows);
    dq_sum = bytes(rows * sum_columns);
    if (in_turn && sum_columns > 0) turns = bytes(rows / TS_CUDA_BACKWARD_TURN_ROWS * 2);
    if (p.dsink) dsink_parts = bytes(p.batch * blocks_of(p.seqlen_q, kCudaBackwardRows) * p.heads_q);
    constexpr int kWarps = 8;
    if (p.dalibi) dalibi_parts = bytes(p.batch * p.heads_q * blocks_of(p.seqlen_k, kCudaBackwardRows) * kWarps);
    passed = static_cast<std::size_t>(passed_bytes);
    progress = bytes(progress_counts);
    const std::int64_t key_blocks = blocks_of(p.seqlen_k, kCudaBackwardRows);
    if (parts > 1)
      key_parts = bytes(p.batch * p.heads_kv * parts * key_blocks * kCudaBackwardRows * 16 * slices_of_columns(p));
  }
  [[nodiscard]] CudaSplitMemory::Size size() const {
    return {.part_bytes = statistics + dq_sum + turns + dsink_parts + dalibi_parts + passed + progress + key_parts,
            .counters = kItemCounters};
  }
};

/// A dbias that no pair reaches, piece by piece: such a call is of no batch.
Status zero_dbias(const CudaContext& context, const AttentionBackwardProblem& p, const AttentionBackwardArguments& a,
                  cu::Stream stream) {
  const BiasStrides& s = a.dbias_strides;
  const auto extent = [](std::int64_t size, std::int64_t stride) {
    return stride == 0 ? std::min<std::int64_t>(1, size) : size;
  };
  const std::int64_t heads = extent(p.heads_q, s.head), rows = extent(p.seqlen_q, s.row);
  const std::int64_t columns = extent(p.seqlen_k, s.column), piece = s.column == 1 ? columns : 1;
  for (std::int64_t head = 0; head < heads; ++head)
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t at = 0; at < columns; at += piece)
        TS_TRY(fill_bytes(context, a.dbias + head * s.head + row * s.row + at * s.column, 0,
                          static_cast<std::size_t>(piece) * 4, stream));
  return {};
}

}  // namespace

CudaBackwardPlan::CudaBackwardPlan(const AttentionBackwardProblem& p, PlanInfo info, const KernelConfig& products,
                                   CudaSteps steps, CudaSplitMemory& memory)
    : AttentionBackwardPlan(p, std::move(info)),
      steps_(std::move(steps)),
      memory_(memory),
      facts_(cuda_backward_resources(products)),
      deterministic_(products.attention().deterministic) {}

Result<std::unique_ptr<AttentionBackwardPlan>> CudaBackwardPlan::make(const AttentionBackwardProblem& p, PlanInfo info,
                                                                      const Recipe& recipe, const CudaSpec& spec,
                                                                      CudaSteps steps, CudaSplitMemory& memory) {
  const KernelConfig& products = recipe.main();
  const KernelConfig* const bias_gradient =
      recipe.steps.size() > kBiasGradient ? &recipe.steps[kBiasGradient].config : nullptr;
  const CudaBackwardResources facts = cuda_backward_resources(products);
  const std::int64_t key_blocks = blocks_of(p.seqlen_k, kCudaBackwardRows);
  const std::int64_t row_blocks = blocks_of(p.seqlen_q, kCudaBackwardRows);
  const bool adds = facts.sum_columns > 0;  // to dq; else each gradient has items of its own
  const std::int64_t item_rows = adds ? kCudaBackwardRows : facts.tile_queries;
  const std::int64_t key_items = blocks_of(p.seqlen_k, item_rows);
  const bool in_turn = adds && products.attention().deterministic;
  Sections sections{.heads = std::max<std::int64_t>(1, p.batch * p.heads_kv),
                    .tiles = std::max<std::int64_t>(1, blocks_of(p.seqlen_q, facts.tile_queries)),
                    .group = std::max<std::int64_t>(1, p.heads_q / std::max<std::int64_t>(1, p.heads_kv)),
                    .sum_columns = facts.sum_columns,
                    .in_turn = in_turn,
                    .masked = products.attention().mask != MaskKind::none};
  const PassedGradients passed = passed_gradients(p, products, spec);
  const CudaWalkParts parts = cuda_walk_parts(p, products, spec);
  const std::int64_t query_items = adds ? 0 : p.heads_q * blocks_of(p.seqlen_q, item_rows);
  std::int64_t work_items = p.batch * (p.heads_kv * parts.all() * key_items * (adds ? 1 : 2) + query_items);
  if (passed.any())
    work_items = passed.sections * passed.section_heads * (parts.all() * passed.key_blocks + query_items / p.heads_kv);
  TS_TRY(check_backward_sizes(p, work_items));
  // Group mode: of sequences that are all as long as the longest. What a call needs follows from its rows.
  const bool sums_dq = adds && !products_store_dq(p, products);
  const BackwardRegions regions(p, sums_dq ? facts.sum_columns : 0, in_turn, passed.tile_bytes, passed.counts,
                                padded_rows(p, p.batch * p.seqlen_q), parts.all());
  WorkspaceLayout layout;
  layout.add("counters", kItemCounters * 4, kRegionsApart);
  layout.add("statistics of rows", regions.statistics, kRegionsApart);
  layout.add("dq in fp32", regions.dq_sum, kRegionsApart);
  layout.add("turns", regions.turns, kRegionsApart);
  layout.add("partials of dsink", regions.dsink_parts, kRegionsApart);
  layout.add("partials of dalibi", regions.dalibi_parts, kRegionsApart);
  layout.add("gradients of scores", regions.passed, kRegionsApart);
  layout.add("progress", regions.progress, kRegionsApart);
  layout.add("parts of dk and dv", regions.key_parts, kRegionsApart);
  layout.tell(info);
  if (p.mode == SequenceMode::batch) TS_TRY(memory.reserve(regions.size()));

  std::unique_ptr<CudaBackwardPlan> made(new CudaBackwardPlan(p, std::move(info), products, std::move(steps), memory));
  made->key_blocks_ = static_cast<int>(key_blocks);
  made->key_items_ = static_cast<int>(key_items);
  made->work_items_ = static_cast<int>(work_items);
  const std::int64_t row_bytes = (p.head_dim_qk + p.head_dim_v) * input_bytes(p.data_type) + 4 * sections.sum_columns;
  sections.head_bytes = std::max<std::int64_t>(1, p.heads_q / p.heads_kv * p.seqlen_q * row_bytes);
  // Few items behind a mask, as of grouped heads: the longest of many heads come first.
  constexpr std::int64_t kFewItems = 8;  // for each SM
  sections.few = sections.masked && work_items < kFewItems * spec.reference.sms;
  made->section_heads_ = static_cast<int>(passed.any()      ? passed.section_heads
                                          : parts.all() > 1 ? p.batch * p.heads_kv * parts.all()
                                                            : sections.width(spec.reference));
  made->walk_parts_ = parts;
  made->sum_columns_ = sums_dq ? facts.sum_columns : 0;
  made->passed_bytes_ = passed.tile_bytes;
  made->progress_counts_ = static_cast<int>(passed.counts);
  const auto extent = [](std::int64_t n) { return static_cast<unsigned>(n); };
  const unsigned heads = extent(p.heads_q), batch = extent(p.batch);
  const auto set = [&](BackwardStep step, CudaExtent grid, int threads, long shared_bytes) {
    CudaLaunch& launch = made->steps_.launch(step);
    launch.grid = grid;
    launch.block = {extent(threads), 1, 1};
    launch.dynamic_shared_bytes = extent(shared_bytes);
    launch.overlaps_previous = spec.major >= 9;
  };
  constexpr int kRowThreads = 256;
  const std::int64_t places = facts.persistent ? std::min<std::int64_t>(work_items, spec.reference.sms) : work_items;
  set(kPrepare, {extent(row_blocks), heads, batch}, kRowThreads, 0);
  set(kProducts, {extent(places), 1, 1}, facts.threads, facts.shared_bytes);
  std::int64_t tiles = 1;
  if (adds) {
    tiles = blocks_of(p.seqlen_q, facts.tile_queries);
  } else if (parts.all() > 1) {  // a block of threads for a slice of 16 columns of sums
    tiles = blocks_of(p.heads_kv * key_blocks * slices_of_columns(p), p.heads_q);
  }
  set(kConvert, {extent(std::max<std::int64_t>(1, tiles)), heads, batch}, kRowThreads, 0);
  if (bias_gradient != nullptr) {
    const CudaBackwardResources of_bias = cuda_backward_resources(*bias_gradient);
    const std::int64_t places_of_bias = blocks_of(p.seqlen_q, bias_gradient->algorithm.tile[0]) *
                                        blocks_of(p.seqlen_k, bias_gradient->algorithm.tile[1]);
    TS_TRY(check_launch("tiles of the bias", places_of_bias, INT32_MAX));
    set(kBiasGradient, {extent(places_of_bias), heads, batch}, of_bias.threads, of_bias.shared_bytes);
  }
  return made;
}

Status CudaBackwardPlan::check(const AttentionBackwardArguments& a) const {
  const AttentionBackwardProblem& p = problem();
  TS_TRY(validate(p, a, DeviceKind::cuda));
  TS_TRY(check_cuda_attention(forward_of(p), {}, a.forward));
  const std::int64_t bytes = input_bytes(p.data_type);
  const std::int64_t batches = p.mode == SequenceMode::group ? 1 : p.batch;
  if (p.unaligned) return {};
  TS_TRY(check_gpu_alignment("dout", a.dout, a.dout_strides, batches, p.heads_q, bytes));
  TS_TRY(check_gpu_alignment("dq", a.dq, a.dq_strides, batches, p.heads_q, bytes));
  TS_TRY(check_gpu_alignment("dk", a.dk, a.dk_strides, batches, p.heads_kv, bytes));
  return check_gpu_alignment("dv", a.dv, a.dv_strides, batches, p.heads_kv, bytes);
}

/// Of a batch of nothing: the sums that have no dimension of it.
Status CudaBackwardPlan::zero_all(const AttentionBackwardArguments& a, const RunOptions& options) const {
  const AttentionBackwardProblem& p = problem();
  const CudaCurrent current(steps_.context());
  TS_TRY(current.status());
  const auto stream = static_cast<cu::Stream>(options.stream);
  const std::size_t bytes = static_cast<std::size_t>(p.heads_q) * 4;
  if (p.dsink) TS_TRY(fill_bytes(steps_.context(), a.dsink, 0, bytes, stream));
  if (p.dalibi && a.dalibi_batch_stride == 0) TS_TRY(fill_bytes(steps_.context(), a.dalibi, 0, bytes, stream));
  if (p.dbias && a.dbias_strides.batch == 0) TS_TRY(zero_dbias(steps_.context(), p, a, stream));
  return {};
}

Result<TsCudaAttentionBackwardArgs> CudaBackwardPlan::kernel_arguments(const AttentionBackwardArguments& a,
                                                                       const RunOptions& options) const {
  const AttentionBackwardProblem& p = problem();
  const auto stream = static_cast<cu::Stream>(options.stream);
  const std::int64_t padded_q = padded_rows(p, a.forward.total_q);
  const BackwardRegions regions(p, sum_columns_, deterministic_, passed_bytes_, progress_counts_, padded_q,
                                walk_parts_.all());
  const CudaSplitMemory::Size size = regions.size();
  CudaSplitMemory::Place place;
  if (options.workspace == nullptr) {
    TS_ASSIGN(place, memory_.of(stream, size));
  } else {
    TS_TRY(check_workspace(options.workspace));
    if (size.bytes() > workspace_bytes())
      return fail(
          ErrorCode::invalid_argument,
          fmt::format("total_q {} is more than {} sequences of at most {}", a.forward.total_q, p.batch, p.seqlen_q),
          "the workspace of a problem with the longest sequence's length, or none");
    TS_TRY(fill_bytes(steps_.context(), options.workspace, 0, size.counter_bytes(), stream));
    place = CudaSplitMemory::place_in(options.workspace, size);
  }
  auto out = cuda_attention_arguments<TsCudaAttentionBackwardArgs>(forward_of(p), a.forward);
  out.grad = kernel_gradients(p, a);
  if (p.seqlen_q == 0 || p.seqlen_k == 0) out.grad.dbias = nullptr;  // has no elements
  out.tile_counters = place.counters;
  out.work_items = work_items_;
  out.row_tiles = key_items_;
  out.section_heads = section_heads_;
  out.statistics = place.parts;
  float* const sums = out.statistics + regions.statistics / 4;
  if (sum_columns_ > 0) out.dq_sum = sums;
  if (regions.turns > 0) out.turns = reinterpret_cast<unsigned*>(sums + regions.dq_sum / 4);
  out.dsink_parts = sums + (regions.dq_sum + regions.turns) / 4;
  out.dalibi_parts = out.dsink_parts + regions.dsink_parts / 4;
  if (passed_bytes_ > 0) {
    float* const tiles = out.dalibi_parts + regions.dalibi_parts / 4;
    out.score_gradients = reinterpret_cast<unsigned*>(tiles);
    out.progress = reinterpret_cast<unsigned*>(tiles + regions.passed / 4);
    out.progress_counts = progress_counts_;
  }
  out.head_parts = static_cast<int>(walk_parts_.of_heads);
  out.tile_parts = static_cast<int>(walk_parts_.of_tiles);
  if (regions.key_parts > 0)
    out.key_parts = out.dalibi_parts + (regions.dalibi_parts + regions.passed + regions.progress) / 4;
  out.key_blocks = key_blocks_;
  out.padded_q = static_cast<int>(padded_q);
  return out;
}

Status CudaBackwardPlan::encode_maps(const AttentionBackwardArguments& a, const void* some,
                                     TsCudaBackwardMaps& maps) const {
  const AttentionBackwardProblem& p = problem();
  const bool group = p.mode == SequenceMode::group;
  const std::int64_t batch = group ? 1 : p.batch, element = input_bytes(p.data_type);
  constexpr std::uint32_t kBoxColumns = 64;  // one swizzled row of 128 bytes
  const TensorMapFormat format{.element =
                                   p.data_type == DataType::bf16 ? TensorMapElement::bf16 : TensorMapElement::f16};
  const auto dimension = [&](std::int64_t extent, std::int64_t stride, std::int64_t box) {
    // A dimension of one element is never stepped along; its stride is only to be a valid one.
    return TensorMapDimension{static_cast<std::uint64_t>(std::max<std::int64_t>(1, extent)),
                              static_cast<std::uint64_t>(extent > 1 ? stride * element : kGpuAlignment),
                              static_cast<std::uint32_t>(box)};
  };
  const auto encode = [&](const void* address, const AttentionStrides& s, std::int64_t head_dim, std::int64_t rows,
                          std::int64_t heads, int box, TsCudaTensorMap& map) {
    const std::array dimensions{TensorMapDimension{static_cast<std::uint64_t>(head_dim), 0, kBoxColumns},
                                dimension(rows, s.row, box), dimension(heads, s.head, 1), dimension(batch, s.batch, 1)};
    // A tensor without rows may be no tensor; its map is never read, and only to be a valid one.
    return encode_tensor_map(steps_.context(), format, rows > 0 ? address : some, dimensions, map);
  };
  const AttentionArguments& f = a.forward;
  const std::int64_t rows_q = group ? f.total_q : p.seqlen_q, rows_k = group ? f.total_k : p.seqlen_k;
  TS_TRY(encode(f.q, f.q_strides, p.head_dim_qk, rows_q, p.heads_q, facts_.box_queries, maps.q));
  TS_TRY(encode(a.dout, a.dout_strides, p.head_dim_v, rows_q, p.heads_q, facts_.box_queries, maps.dout));
  TS_TRY(encode(f.k, f.k_strides, p.head_dim_qk, rows_k, p.heads_kv, facts_.box_keys, maps.k));
  return encode(f.v, f.v_strides, p.head_dim_v, rows_k, p.heads_kv, facts_.box_keys, maps.v);
}

Status CudaBackwardPlan::run(const AttentionBackwardArguments& a, const RunOptions& options) const {
  const AttentionBackwardProblem& p = problem();
  TS_TRY(check(a));
  if (p.batch == 0) return zero_all(a, options);
  const CudaCurrent current(steps_.context());
  TS_TRY(current.status());
  TS_ASSIGN(const TsCudaAttentionBackwardArgs arguments, kernel_arguments(a, options));
  const bool in_order = deterministic_ && sums_dbias(p, arguments.grad.dbias_strides);
  return steps_.run(options.stream, [&](std::size_t step, const auto& send) -> Status {
    if (step == kPrepare && p.seqlen_q == 0) return {};
    const bool has_sums = (p.seqlen_q > 0 && sum_columns_ > 0) || walk_parts_.all() > 1;
    if (step == kConvert && !has_sums && !p.dsink && !p.dalibi) return {};
    if (step == kBiasGradient) return in_order ? send(arguments) : Status{};
    if (step != kProducts) return send(arguments);
    if (work_items_ == 0) return {};
    TsCudaAttentionBackwardArgs of_products = arguments;
    if (in_order) of_products.grad.dbias = nullptr;  // summed by a step of its own
    if (facts_.box_queries == 0) return send(of_products);
    TsCudaBackwardMaps maps;
    TS_TRY(encode_maps(a, arguments.statistics, maps));
    return send(maps, of_products);
  });
}

}  // namespace tilesmith
