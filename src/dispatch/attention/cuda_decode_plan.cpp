// The figures of launches are those that stand at the top of kernels/cuda/attention/decode/attention_fwd.cuh.
#include "dispatch/attention/cuda_decode_plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "dispatch/attention/cuda_arguments.hpp"
#include "dispatch/attention/cuda_launch.hpp"
#include "dispatch/attention/cuda_new_keys.hpp"
#include "dispatch/workspace.hpp"
#include "instances/attention/gpu_signature.hpp"
#include "runtime/cuda/memory.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

Status check_sizes(const AttentionProblem& p, const CudaDecodeWork& work) {
  const auto limit = [](const char* what, std::int64_t value, std::int64_t most) -> Status {
    if (value <= most) return {};
    return fail(ErrorCode::unsupported, fmt::format("{} {} is beyond a CUDA kernel's launch", what, value),
                fmt::format("at most {}", most));
  };
  TS_TRY(limit("queries of a key head", p.seqlen_q * (p.heads_q / p.heads_kv), kLongestOfGpu));
  TS_TRY(limit("seqlen_k", p.seqlen_k, kLongestOfGpu));
  TS_TRY(limit("heads", work.row_blocks * p.heads_kv, kLongestOfGpu));
  TS_TRY(limit("pieces of all sequences", work.items * work.pieces, kLongestOfGpu));
  TS_TRY(limit("pieces", work.pieces, kCudaGridLimit));
  return limit("batch", p.batch, kCudaGridLimit);
}

/// Clusters of two, whose counters an item has.
constexpr unsigned kPair = 2;

/// The form of the launch, and whether its blocks come in clusters: of all of an item's pieces or, of latent rows, of
/// two, where the device holds all of them at a time.
void prepare_launch(const CudaAttentionResources& facts, const CudaSpec& spec, const KernelConfig& config,
                    CudaDecodeWork& work, CudaSteps& steps) {
  CudaLaunch& launch = steps.launch();
  launch.block = {static_cast<unsigned>(facts.threads), 1, 1};
  launch.dynamic_shared_bytes = static_cast<unsigned>(facts.shared_bytes);
  launch.overlaps_previous = spec.major >= 9;
  launch.grid = {static_cast<unsigned>(work.blocks), 1, 1};
  if (work.cluster > 1) {
    const CudaCurrent current(steps.context());
    for (const unsigned blocks : {static_cast<unsigned>(work.cluster), kPair}) {
      const bool can = blocks == work.cluster || config.algorithm.pipeline == Pipeline::decode_wgmma;
      if (launch.cluster != CudaExtent{} || work.cluster % blocks != 0 || !can) continue;
      CudaLaunch in_clusters = launch;
      in_clusters.cluster = {blocks, 1, 1};
      const Result<int> held = current.status() ? active_clusters(steps.kernel(), in_clusters) : 0;
      if (held && *held >= work.blocks / blocks) launch = in_clusters;
    }
    if (launch.cluster == CudaExtent{}) work.cluster = 0;
  }
  work.joins_apart &= work.cluster == 0;
}

}  // namespace

Result<std::unique_ptr<AttentionPlan>> CudaDecodePlan::make(const AttentionProblem& p, PlanInfo info,
                                                            const KernelConfig& config, const CudaSpec& spec,
                                                            CudaSteps steps, CudaSplitMemory& memory) {
  CudaDecodeWork work = cuda_decode_work(config, spec, cuda_attention_shape(p));
  TS_TRY(check_sizes(p, work));
  const CudaAttentionResources facts = cuda_attention_resources(config);
  prepare_launch(facts, spec, config, work, steps);
  if (work.of_grid) TS_TRY(steps.take_entry(native_name(config) + "_of_grid"));
  CudaSplitMemory::Size size;
  const std::int64_t part_rows = std::min<std::int64_t>(facts.tile_rows, p.seqlen_q * (p.heads_q / p.heads_kv));
  if (work.queued) size.counters = 1;
  if (work.pieces > 1 && static_cast<std::int64_t>(steps.launch().cluster.x) < work.pieces) {
    const std::int64_t row_floats = p.head_dim_v + TS_DECODE_STATE_FLOATS;
    const std::int64_t groups = ts_decode_groups(work.pieces, static_cast<int>(p.head_dim_v));
    // Behind the partials stand the items' numbers of pieces.
    const std::int64_t floats = work.items * ((work.pieces + groups) * part_rows * row_floats + 1);
    size.part_bytes = static_cast<std::size_t>(floats * 4);
    size.counters += static_cast<std::size_t>(work.items * (1 + groups));
  }
  if (size.bytes() > 0) {
    // As CudaSplitMemory::place_in lays it out. Where the caller brings no workspace, the library keeps it for each
    // stream.
    constexpr std::size_t kApart = 256;
    WorkspaceLayout layout;
    layout.add("counters", size.counters * 4, kApart);
    layout.add("partials", size.part_bytes, kApart);
    layout.tell(info);
    // In large steps: a sequence on tensors has a plan for each length, and getting memory takes longer than the rest.
    const auto in_steps = [](std::size_t of, std::size_t step) { return (of + step - 1) / step * step; };
    TS_TRY(memory.reserve(
        {.part_bytes = in_steps(size.part_bytes, 1 << 20), .counters = in_steps(size.counters, 1 << 14)}));
  }
  std::unique_ptr<CudaDecodePlan> made(new CudaDecodePlan(p, std::move(info), config, std::move(steps), memory));
  made->work_ = work;
  made->size_ = size;
  made->part_rows_ = static_cast<int>(part_rows);
  CudaLaunch& launch = made->steps_.launch();
  if (work.apart) keep_apart(spec, launch);
  // What a block begins with is in L2 when it may read it. The next launch's blocks come when this one's are about to
  // end, and find whole SMs; if some end long before others, they would come to SMs in pairs, and wait till all have.
  const CudaDecodeModel& model = decode_model(config, spec);
  const AttentionSignature& s = config.attention();
  const std::int64_t tile_bytes =
      std::int64_t{facts.tile_keys} * (s.head_dim_qk + s.head_dim_v) * (has_narrow_cache(s) ? 1 : 2);
  made->prefetch_tiles_ = static_cast<int>(model.prefetch_bytes / (tile_bytes * work.row_blocks));
  const bool uneven = p.page_size > 0 || p.mode == SequenceMode::group;
  const bool by_wgmma = config.algorithm.pipeline == Pipeline::decode_wgmma;
  const bool late = uneven ? !work.apart && by_wgmma : work.ends_unevenly && work.seconds > model.overlapped_us * 1e-6;
  made->end_tiles_ = late ? 0 : 1;
  made->join_ = launch;
  made->join_.grid = {static_cast<unsigned>(work.row_blocks * p.heads_kv),
                      static_cast<unsigned>(ts_decode_join_blocks(
                          static_cast<int>(part_rows), static_cast<int>(p.head_dim_v), facts.threads,
                          static_cast<int>(work.join_warps), static_cast<int>(work.join_units))),
                      static_cast<unsigned>(p.batch)};
  made->join_.dynamic_shared_bytes = static_cast<unsigned>(ts_decode_join_bytes(facts.threads));
  const bool latent_by_wgmma = p.latent && config.algorithm.pipeline == Pipeline::decode_wgmma;
  if (uneven && latent_by_wgmma && work.joins_apart && work.join_units == 1)
    TS_TRY(made->look_for_cut_items(native_name(config) + "_found_join", spec));
  return made;
}

/// A block of latent rows fills an SM: where all blocks that join would take many turns to find that most have nothing
/// to do, as many as the device holds of a smaller kernel look for what is cut.
Status CudaDecodePlan::look_for_cut_items(const std::string& symbol, const CudaSpec& spec) {
  constexpr std::int64_t kManyTurns = 8;
  const CudaExtent& all = join_.grid;
  const std::int64_t blocks = std::int64_t{all.x} * all.y * all.z;
  if (blocks <= kManyTurns * spec.reference.sms) return {};
  TS_ASSIGN(const CudaKernel kernel, steps_.kernel().other(symbol, steps_.launch().dynamic_shared_bytes));
  TS_ASSIGN(const int of_sm, kernel.blocks_per_sm(facts_.threads, join_.dynamic_shared_bytes));
  join_kernel_ = kernel;
  join_blocks_ = static_cast<int>(all.y);
  join_.grid = {static_cast<unsigned>(spec.reference.sms * std::max(1, of_sm)), 1, 1};
  return {};
}

CudaDecodePlan::CudaDecodePlan(const AttentionProblem& p, PlanInfo info, const KernelConfig& config, CudaSteps steps,
                               CudaSplitMemory& memory)
    : AttentionPlan(p, std::move(info)),
      steps_(std::move(steps)),
      memory_(memory),
      facts_(cuda_attention_resources(config)) {}

Result<CudaSplitMemory::Place> CudaDecodePlan::place(const RunOptions& options) const {
  const auto stream = static_cast<cu::Stream>(options.stream);
  if (options.workspace == nullptr) return memory_.of(stream, size_);
  TS_TRY(check_workspace(options.workspace));
  TS_TRY(fill_bytes(steps_.context(), options.workspace, 0, size_.counter_bytes(), stream));
  return CudaSplitMemory::place_in(options.workspace, size_);
}

/// The rows of a box, where the copy engine takes the keys and values; if not, rows are copied one by one.
int CudaDecodePlan::encode_maps(const AttentionArguments& a, TsCudaKeyMaps& maps) const {
  const AttentionProblem& p = problem();
  const bool paged = p.page_size > 0;
  if (!facts_.key_maps || (!paged && p.mode == SequenceMode::group)) return 0;
  const std::int64_t most = facts_.unit_keys > 0 ? facts_.unit_keys : facts_.warp_keys;
  const std::int64_t rows = paged ? page_box_rows(p, a, most) : most;
  if (rows == 0) return 0;
  if (facts_.row_pitch > 0) {
    // A row of a box is as long as the pitch: what it has behind the elements lies outside the tensor.
    constexpr std::int64_t kWord = 4;
    constexpr TensorMapFormat kWords{.element = TensorMapElement::u32, .swizzle = TensorMapSwizzle::none};
    const Status encoded = encode_key_map(steps_.context(), p, a, kWords, a.k, a.k_strides, p.head_dim_qk / kWord,
                                          facts_.row_pitch / kWord, rows, maps.k);
    return encoded ? static_cast<int>(rows) : 0;
  }
  const auto encode = [&](const void* address, const AttentionStrides& s, std::int64_t head_dim, TsCudaTensorMap& map) {
    return encode_key_map(steps_.context(), p, a, address, s, head_dim, kMapRowBytes / cache_bytes(p), rows, map)
        .has_value();
  };
  const bool taken =
      encode(a.k, a.k_strides, p.head_dim_qk, maps.k) && (p.latent || encode(a.v, a.v_strides, p.head_dim_v, maps.v));
  return taken ? static_cast<int>(rows) : 0;
}

Status CudaDecodePlan::run(const AttentionArguments& a, const RunOptions& options) const {
  return launch(a, {}, options);
}

Status CudaDecodePlan::append_and_run(const AttentionArguments& a, const RunOptions& options) const {
  return launch(a, cuda_new_keys(a.append), options);
}

Status CudaDecodePlan::launch(const AttentionArguments& a, const TsCudaNewKeys& append,
                              const RunOptions& options) const {
  const AttentionProblem& p = problem();
  TS_TRY(check_cuda_attention(p, facts_, a));
  if (!has_queries(p, a)) return {};
  return steps_.run(options.stream, [&](std::size_t, const auto& send) -> Status {
    auto arguments = cuda_attention_arguments<TsCudaDecodeArgs>(p, a);
    arguments.join = TS_DECODE_LAST_JOINS;
    arguments.append = append;
    if (p.latent) arguments.v_scale = arguments.k_scale;
    arguments.piece_tiles = static_cast<int>(work_.piece_tiles);
    arguments.pieces = static_cast<int>(work_.pieces);
    arguments.whole_heads = static_cast<int>(work_.whole_heads);
    arguments.prefetch_tiles = prefetch_tiles_;
    arguments.end_tiles = end_tiles_;
    arguments.wanted_pieces = static_cast<int>(work_.wanted_pieces);
    arguments.wanted_of_even = static_cast<int>(work_.wanted_of_even);
    arguments.long_first =
        work_.queued && p.batch <= kMostOrderedSequences && work_.items * work_.pieces <= UINT16_MAX ? 1 : 0;
    arguments.most_pieces = static_cast<int>(work_.most_pieces);
    arguments.row_blocks = static_cast<int>(work_.row_blocks);
    arguments.part_rows = part_rows_;
    arguments.cluster = static_cast<int>(work_.cluster);
    arguments.group = static_cast<int>(p.heads_q / p.heads_kv);
    set_pages(p, a, arguments);
    if (size_.bytes() > 0) {
      TS_ASSIGN(const CudaSplitMemory::Place memory, place(options));
      arguments.counters = memory.counters;
      if (work_.queued) arguments.queue = arguments.counters++;
      arguments.partials = memory.parts;
      arguments.join_warps = static_cast<int>(work_.join_warps);
      arguments.join_units = static_cast<int>(work_.join_units);
      arguments.join_blocks = join_blocks_;
      arguments.piece_counts = reinterpret_cast<int*>(arguments.partials) + size_.part_bytes / 4 - work_.items;
    }
    TsCudaKeyMaps maps{};
    arguments.map_rows = encode_maps(a, maps);
    CudaLaunch join = join_;
    join.stream = static_cast<cu::Stream>(options.stream);
    const auto launch = [&](const auto&... before) -> Status {
      if (!work_.joins_apart) return send(before..., arguments);
      arguments.join = TS_DECODE_LEAVES_PARTS;
      TS_TRY(send(before..., arguments));
      if (join_kernel_) return launch_with(*join_kernel_, join, arguments);
      arguments.join = TS_DECODE_JOINS;
      return launch_with(steps_.kernel(), join, before..., arguments);
    };
    return facts_.key_maps ? launch(maps) : launch();
  });
}

}  // namespace tilesmith
