// The figures of launches are those that stand at the top of the entry files of kernels/cuda/gemm.
#include "dispatch/gemm/cuda_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "dispatch/cuda_pad_rows.hpp"
#include "dispatch/workspace.hpp"
#include "problem/gemm/problem.hpp"
#include "runtime/cuda/tensor_map.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kLongest = std::int64_t{1} << 30;  // kernels count rows, columns and tiles in 32 bits
constexpr std::int64_t kUnit = 16;                        // bytes: of a tensor copy, and of an asynchronous one

std::int64_t bytes_of(DataType type) {
  return bits_of(type) / 8;
}

TensorMapElement map_element(DataType type) {
  switch (bytes_of(type)) {
    case 1:
      return TensorMapElement::u8;
    case 2:
      return TensorMapElement::u16;
    default:
      return TensorMapElement::tf32;  // rounds fp32 matrices
  }
}

}  // namespace

Result<std::unique_ptr<GemmPlan>> CudaGemmPlan::make(const GemmProblem& p, PlanInfo info, const KernelConfig& config,
                                                     const CudaSpec& spec, CudaSteps steps, const void* zeros,
                                                     CudaSplitMemory* split_memory, std::optional<CudaKernel> pad) {
  const CudaGemmShape shape = cuda_gemm_shape(p);
  const CudaGemmWork work = cuda_gemm_work(config, spec, shape);
  const CudaGemmPadding padding =
      pad ? cuda_gemm_padding(std::get<GemmSignature>(config.signature), shape) : CudaGemmPadding{};
  CudaSplitMemory::Size split_size;
  std::size_t sums_at = 0, padding_at = 0;
  if (split_memory != nullptr) {
    // As CudaSplitMemory::place_in lays it out. Where the caller brings no workspace, the library keeps it for each
    // stream.
    constexpr std::size_t kApart = 256;
    const auto part_bytes = static_cast<std::size_t>(work.places * cuda_gemm_resources(config).part_bytes);
    WorkspaceLayout layout;
    split_size.counters = static_cast<std::size_t>(work.counters);
    layout.add("counters", split_size.counters * 4, kApart);
    if (config.algorithm.split_k_atomic) {  // sums are what counters are: zero before a launch, and after it
      sums_at = split_size.counter_bytes() / 4;
      split_size.counters = sums_at + part_bytes / 4;
      layout.add("sums", part_bytes, kApart);
    } else {
      split_size.part_bytes = part_bytes;
      layout.add("partials", part_bytes, kApart);
    }
    if (pad) {
      padding_at = (split_size.part_bytes + kApart - 1) / kApart * kApart;
      const auto padded = static_cast<std::size_t>(padding.bytes());
      split_size.part_bytes = padding_at + padded;
      layout.add("padded rows", padded, kApart);
    }
    layout.tell(info);
  }
  if (pad)
    info.steps.insert(info.steps.begin(),
                      {.kernel = "pad_rows", .role = "pad", .what = "copies A and B to rows of whole 16 bytes"});
  std::unique_ptr<CudaGemmPlan> made(
      new CudaGemmPlan(p, std::move(info), config, std::move(steps), zeros, split_memory));
  for (const auto& [name, value] : {std::pair{"m", p.m}, std::pair{"n", p.n}, std::pair{"k", p.k},
                                    std::pair{"k2", p.k2}, std::pair{"batch", p.batch}})
    if (value > kLongest)
      return fail(ErrorCode::unsupported, fmt::format("{} {} is beyond a CUDA kernel's launch", name, value),
                  fmt::format("at most {}", kLongest));
  const CudaGemmResources& facts = made->facts_;
  CudaLaunch& launch = made->steps_.launch();
  launch.block = {static_cast<unsigned>(facts.threads), 1, 1};
  launch.dynamic_shared_bytes = static_cast<unsigned>(facts.shared_bytes);
  if (work.items > kLongest)
    return fail(ErrorCode::unsupported, fmt::format("{} tiles are beyond a CUDA kernel's launch", work.items),
                fmt::format("at most {}", kLongest));
  if (config.algorithm.stream_k && 2 * work.blocks * (depth_of(p) / facts.stage_k + 2) > kLongest)
    return fail(ErrorCode::unsupported, fmt::format("k of {} is beyond what stream-K shares", depth_of(p)),
                "an instance without streamk");
  launch.grid.x = static_cast<unsigned>(work.blocks);
  const Algorithm& algorithm = config.algorithm;
  launch.cluster = {unsigned{algorithm.cluster[0]} * algorithm.cluster[1] * algorithm.cluster_k, 1, 1};
  if (work.placed > 1) launch.cluster.x = static_cast<unsigned>(work.placed);
  launch.overlaps_previous = facts.tensor_maps;  // these kernels themselves wait for the kernel before them
  made->splits_ = work.splits;
  made->band_ = work.band;
  made->b_first_ = work.b_first;
  made->next_at_end_ = work.late_launch_dependents;
  made->split_size_ = split_size;
  made->sums_at_ = sums_at;
  made->pad_ = std::move(pad);
  made->padding_ = padding;
  made->padding_at_ = padding_at;
  made->sms_ = spec.reference.sms;
  if (split_memory != nullptr) TS_TRY(split_memory->reserve(split_size));
  return made;
}

Status check_alignment(const GemmProblem& p, const CudaGemmResources& facts, const GemmArguments& a, bool pads) {
  // Contiguous groups share one matrix: its batch stride is never used.
  const auto of_rows = [&](std::int64_t batch) { return row_members(p) > 1 ? batch : 0; };
  const auto aligned = [&](std::string_view name, const void* data, std::int64_t leading, std::int64_t batch,
                           DataType type, std::int64_t unit) -> Status {
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    const std::int64_t steps = (leading | (p.batch > 1 ? batch : 0)) * bits_of(type) / 8;
    if ((address | static_cast<std::uintptr_t>(steps)) % static_cast<std::uintptr_t>(unit) == 0) return {};
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} at address {} with leading dimension {} and batch stride {} is not aligned to {} bytes",
                            name, data, leading, batch, unit),
                "plan the problem with unaligned, for a kernel that asks for no alignment");
  };
  if (facts.aligned && a.alpha != 0 && !pads) {
    TS_TRY(aligned("a", a.a.data, a.a.leading, of_rows(a.a.batch), p.type_a, kUnit));
    TS_TRY(aligned("b", a.b.data, a.b.leading, a.b.batch, p.type_b, kUnit));
    if (p.k2 != 0) {
      TS_TRY(aligned("a2", a.a2.data, a.a2.leading, a.a2.batch, p.type_a, kUnit));
      TS_TRY(aligned("b2", a.b2.data, a.b2.leading, a.b2.batch, p.type_b, kUnit));
    }
  }
  bool gated = false;  // columns are half then, and taken one by one
  const auto unit = [&](DataType type, bool wide) {
    return wide ? kUnit : facts.pairs && !gated ? 2 * bytes_of(type) : bytes_of(type);
  };
  if (a.beta != 0)
    TS_TRY(aligned("c", a.c.data, a.c.leading, of_rows(a.c.batch), p.type_c, unit(p.type_c, facts.staged_tensors)));
  for (std::size_t i = 0; i < p.epilogue.size(); ++i) {
    const EpilogueOp op = p.epilogue[i];
    const EpilogueOperand& x = a.epilogue[i];
    const std::string name = fmt::format("epilogue[{}]", i);
    gated |= is_gate(op);
    if (reads_tensor(op))
      TS_TRY(aligned(name, x.data, x.leading, of_rows(x.batch), p.type_c, unit(p.type_c, facts.staged_tensors)));
    const bool bias = op == EpilogueOp::bias;
    if (bias || op == EpilogueOp::scale_n) {
      const DataType type = bias ? p.type_bias : DataType::fp32;
      const bool own = p.grouping != GemmGrouping::none;
      TS_TRY(aligned(name, x.data, 0, own ? x.batch : 0, type, unit(type, false)));
    }
  }
  return aligned("d", a.d, a.d_leading, of_rows(a.d_batch), p.type_d, unit(p.type_d, facts.store_box));
}

TsCudaGemmArgs cuda_gemm_arguments(const GemmProblem& p, const GemmArguments& a) {
  TsCudaGemmArgs out{};
  out.a = a.a.data;
  out.b = a.b.data;
  out.d = a.d;
  out.a_stride = a.a.leading;
  out.b_stride = a.b.leading;
  out.d_stride = a.d_leading;
  out.a_batch_stride = a.a.batch;
  out.b_batch_stride = a.b.batch;
  out.d_batch_stride = a.d_batch;
  std::size_t at = 0;
  if (p.beta) out.epilogue[at++] = {const_cast<void*>(a.c.data), a.c.leading, a.c.batch, a.beta, 0};
  for (std::size_t i = 0; i < p.epilogue.size(); ++i) {
    const EpilogueOp op = p.epilogue[i];
    const EpilogueOperand& x = a.epilogue[i];
    TsCudaGemmOperand& operand = out.epilogue[at++];
    if (reads_tensor(op))
      operand = {const_cast<void*>(x.data), x.leading, x.batch, 1, 0};
    else if (reads_vector(op))  // the batch shares it, groups do not
      operand = {const_cast<void*>(x.data), 0, p.grouping == GemmGrouping::none ? 0 : x.batch, 0, 0};
    else if (op == EpilogueOp::clamp)
      operand = {nullptr, 0, 0, x.low, x.high};
    else if (op == EpilogueOp::amax)
      operand = {a.amax, 0, 0, 0, 0};
  }
  out.alpha = a.alpha;
  out.m = static_cast<int>(p.m);
  out.n = static_cast<int>(p.n);
  out.k = static_cast<int>(p.k);
  if (p.k2 != 0) {
    out.k2 = static_cast<int>(p.k2);
    out.a2 = a.a2.data;
    out.b2 = a.b2.data;
    out.a2_stride = a.a2.leading;
    out.b2_stride = a.b2.leading;
    out.a2_batch_stride = a.a2.batch;
    out.b2_batch_stride = a.b2.batch;
  }
  out.batch = static_cast<int>(p.batch);
  out.groups = p.grouping == GemmGrouping::none ? 0 : out.batch;
  out.group_ends = a.group_ends;
  return out;
}

TsCudaGemmArgs CudaGemmPlan::kernel_arguments(const GemmArguments& a) const {
  TsCudaGemmArgs out = cuda_gemm_arguments(problem(), a);
  // A and B are not to be read where alpha is 0: no steps of k, or (encode_maps) zeros.
  if (a.alpha == 0 && !facts_.tensor_maps) out.k = out.k2 = 0;
  if (problem().group_size != 0) {
    add_scales(a, out);
  } else if (a.alpha != 0) {  // one number each, or none
    out.scale_a = static_cast<const float*>(a.scale_a.data);
    out.scale_b = a.scale_b.data;
  }
  out.b_first = b_first_;
  out.late_launch_dependents = next_at_end_;
  out.edges = has_edges();
  out.splits = splits_;
  out.band = band_;
  return out;
}

void CudaGemmPlan::add_scales(const GemmArguments& a, TsCudaGemmArgs& out) const {
  constexpr int kOneBlock = 31;
  const std::int64_t depth = problem().group_size;
  out.scale_shift = depth >= problem().k ? kOneBlock : std::countr_zero(static_cast<std::uint64_t>(depth));
  if (a.alpha == 0) {  // zeros for all
    out.scale_a = static_cast<const float*>(zeros_);
    out.scale_b = zeros_;
    out.zero_b = static_cast<const signed char*>(zeros_);
    return;
  }
  out.scale_a = static_cast<const float*>(a.scale_a.data);
  out.scale_b = a.scale_b.data;
  out.zero_b = static_cast<const signed char*>(a.zero_b.data);
  out.scale_a_row_stride = a.scale_a.row;
  out.scale_a_block_stride = a.scale_a.block;
  out.scale_a_batch_stride = a.scale_a.batch;
  out.scale_b_row_stride = a.scale_b.row;
  out.scale_b_block_stride = a.scale_b.block;
  out.scale_b_batch_stride = a.scale_b.batch;
  out.zero_b_row_stride = a.zero_b.row;
  out.zero_b_block_stride = a.zero_b.block;
  out.zero_b_batch_stride = a.zero_b.batch;
}

/// Weights as bytes, along k; the kernel unpacks them.
Status CudaGemmPlan::encode_weights(const GemmArguments& a, TsCudaTensorMap& map) const {
  const GemmProblem& p = problem();
  const auto box_inner = static_cast<std::uint32_t>(facts_.row_bytes_of_b),
             box_outer = std::uint32_t{algorithm_.tile[1]};
  const TensorMapFormat format{.element = TensorMapElement::u8, .swizzle = swizzle_of(facts_.row_bytes_of_b)};
  if (a.alpha == 0) {  // one zero, and zeros around it
    const TensorMapDimension dimensions[] = {{1, 0, box_inner}, {1, kUnit, box_outer}, {1, kUnit, 1}};
    return encode_tensor_map(steps_.context(), format, zeros_, dimensions, map);
  }
  const auto bytes = [&](std::int64_t weights) { return static_cast<std::uint64_t>(weights * facts_.bits_of_b / 8); };
  const TensorMapDimension dimensions[] = {
      {bytes(p.k), 0, box_inner},
      {static_cast<std::uint64_t>(p.n), bytes(a.b.leading), box_outer},
      {static_cast<std::uint64_t>(p.batch), p.batch > 1 ? bytes(a.b.batch) : kUnit, 1}};
  return encode_tensor_map(steps_.context(), format, a.b.data, dimensions, map);
}

TensorMapSwizzle swizzle_of(int row_bytes) {
  return static_cast<TensorMapSwizzle>(std::bit_width(static_cast<unsigned>(row_bytes)) - 5);
}

Status encode_result_maps(const CudaContext& context, const GemmProblem& p, const CudaGemmResources& facts,
                          const Algorithm& algorithm, const GemmArguments& a, TsCudaGemmMaps& maps) {
  if (!facts.store_box) return {};
  const std::int64_t members = row_members(p);
  // D and, with the rows of a tile, the tensor that comes with it.
  const auto slabs = [&](const void* data, std::int64_t leading, std::int64_t batch, DataType type, int rows,
                         TsCudaTensorMap& map) -> Status {
    const auto size = static_cast<std::uint64_t>(bytes_of(type));
    const TensorMapFormat format{.element = size == 4 ? TensorMapElement::u32 : map_element(type),
                                 .swizzle = swizzle_of(facts.slab_row_bytes)};
    const TensorMapDimension dimensions[] = {
        {static_cast<std::uint64_t>(p.columns_of_d()), 0,
         static_cast<std::uint32_t>(static_cast<std::uint64_t>(facts.slab_row_bytes) / size)},
        {static_cast<std::uint64_t>(p.m), static_cast<std::uint64_t>(leading) * size, static_cast<std::uint32_t>(rows)},
        {static_cast<std::uint64_t>(members), members > 1 ? static_cast<std::uint64_t>(batch) * size : kUnit, 1}};
    return encode_tensor_map(context, format, data, dimensions, map);
  };
  TS_TRY(slabs(a.d, a.d_leading, a.d_batch, p.type_d, facts.box_rows, maps.d));
  if (!facts.copied_tensor) return {};
  if (p.beta && a.beta == 0) return {};  // left unread
  const auto first = std::ranges::find_if(p.epilogue, reads_tensor) - p.epilogue.begin();
  const auto& [data, leading, batch] =
      p.beta ? std::tuple(a.c.data, a.c.leading, a.c.batch)
             : std::tuple(a.epilogue[first].data, a.epilogue[first].leading, a.epilogue[first].batch);
  return slabs(data, leading, batch, p.type_c, algorithm.tile[0], maps.c);
}

bool CudaGemmPlan::has_edges() const {
  const Pipeline pipeline = algorithm_.pipeline;
  return problem().grouping == GemmGrouping::none &&
         (pipeline == Pipeline::warp_specialized || pipeline == Pipeline::weight_only);
}

Status CudaGemmPlan::encode_maps(const GemmArguments& a, TsCudaGemmMaps& maps) const {
  const GemmProblem& p = problem();
  const bool stream = algorithm_.pipeline == Pipeline::skinny_tma;
  // `edge_rows` of a box where the operand ends; 0: whole boxes, along k of `box_rows`, else of as many as it has of k.
  const auto operand = [&](const GemmOperand& x, std::int64_t members, DataType type, bool along_k, std::int64_t rows,
                           std::int64_t k, int box_rows, int edge_rows, TsCudaTensorMap& map) -> Status {
    const TensorMapFormat format{.element = map_element(type)};
    const auto size = static_cast<std::uint64_t>(bytes_of(type));
    const auto box_k = static_cast<std::uint32_t>(128 / size);
    const auto box_other = edge_rows != 0 ? static_cast<std::uint32_t>(edge_rows)
                           : along_k      ? static_cast<std::uint32_t>(box_rows)
                                          : box_k;
    const std::uint32_t box_inner = along_k ? box_k : box_other, box_outer = along_k ? box_other : box_k;
    if (a.alpha == 0) {  // one zero, and zeros around it
      const TensorMapDimension dimensions[] = {{1, 0, box_inner}, {1, kUnit, box_outer}, {1, kUnit, 1}};
      return encode_tensor_map(steps_.context(), format, zeros_, dimensions, map);
    }
    const auto inner = static_cast<std::uint64_t>(along_k ? k : rows);
    const auto outer = static_cast<std::uint64_t>(along_k ? rows : k);
    // The stride of a batch of one member is never used; it need not be a multiple of anything.
    const std::uint64_t batch_bytes = members > 1 ? static_cast<std::uint64_t>(x.batch) * size : kUnit;
    const TensorMapDimension dimensions[] = {{inner, 0, box_inner},
                                             {outer, static_cast<std::uint64_t>(x.leading) * size, box_outer},
                                             {static_cast<std::uint64_t>(members), batch_bytes, 1}};
    return encode_tensor_map(steps_.context(), format, x.data, dimensions, map);
  };
  const int rows_b = stream ? algorithm_.tile[1] : algorithm_.tile[1] / algorithm_.cluster[0];
  const std::int64_t members = row_members(p);
  const bool along_k_a = p.order_a == MatrixOrder::row, along_k_b = p.order_b == MatrixOrder::column;
  const auto operand_a = [&](int box_rows, int edge_rows, TsCudaTensorMap& map, TsCudaTensorMap& map2) -> Status {
    TS_TRY(operand(a.a, members, p.type_a, along_k_a, p.m, p.k, box_rows, edge_rows, map));
    if (p.k2 == 0) return {};
    return operand(a.a2, members, p.type_a, along_k_a, p.m, p.k2, box_rows, edge_rows, map2);
  };
  const auto operand_b = [&](int box_rows, int edge_rows, TsCudaTensorMap& map, TsCudaTensorMap& map2) -> Status {
    TS_TRY(operand(a.b, p.batch, p.type_b, along_k_b, p.n, p.k, box_rows, edge_rows, map));
    if (p.k2 == 0) return {};
    return operand(a.b2, p.batch, p.type_b, along_k_b, p.n, p.k2, box_rows, edge_rows, map2);
  };
  const int rows_a = stream ? static_cast<int>(std::min<std::int64_t>(facts_.copy_rows, p.m)) : facts_.copy_rows;
  TS_TRY(operand_a(rows_a, 0, maps.a, maps.a2));
  const bool weights = algorithm_.pipeline == Pipeline::weight_only;
  TS_TRY(weights ? encode_weights(a, maps.b) : operand_b(rows_b, 0, maps.b, maps.b2));
  if (has_edges()) {
    // Of what a cluster shares, the share in which the last tile ends; of what lies along m or n, the last box.
    const auto rows_of_edge = [](std::int64_t size, DataType type, bool along_k, int tile, int blocks) {
      if (along_k) return static_cast<int>(size % tile % (tile / std::max(blocks, 1)));
      const std::int64_t elements = 128 / bytes_of(type), unit = kUnit / bytes_of(type);
      return static_cast<int>(size % elements + (unit - size % unit) % unit);
    };
    const int edge_a = rows_of_edge(p.m, p.type_a, along_k_a, algorithm_.tile[0], algorithm_.cluster[1]);
    if (edge_a != 0) TS_TRY(operand_a(rows_a, edge_a, maps.edge_a, maps.edge_a2));
    if (!weights) {
      const int edge_b = rows_of_edge(p.n, p.type_b, along_k_b, algorithm_.tile[1], algorithm_.cluster[0]);
      if (edge_b != 0) TS_TRY(operand_b(rows_b, edge_b, maps.edge_b, maps.edge_b2));
    }
  }
  return encode_result_maps(steps_.context(), p, facts_, algorithm_, a, maps);
}

Status CudaGemmPlan::pad(GemmArguments& a, std::byte* memory, cu::Stream stream) const {
  TsPadMatrix matrices[TS_PAD_MATRICES];
  std::size_t count = 0;
  const auto take = [&](GemmOperand& x, PaddedRows rows, DataType type, std::byte* to) {
    const std::int64_t size = bytes_of(type);
    const bool many = problem().batch > 1;
    const auto steps = static_cast<std::uintptr_t>((x.leading | (many ? x.batch : 0)) * size);
    if ((reinterpret_cast<std::uintptr_t>(x.data) | steps) % kUnit == 0) return;
    if (many && x.batch == 0) rows.batch = 1;  // shared
    matrices[count++] = pad_matrix(rows, x.data, x.leading * size, x.batch * size, to);
    x = {to, rows.stride() / size, rows.batch > 1 ? rows.rows * rows.stride() / size : 0};
  };
  take(a.a, padding_.a, problem().type_a, memory);
  take(a.b, padding_.b, problem().type_b, memory + padding_.a.bytes());
  return pad_rows(*pad_, std::span(matrices).first(count), sms_, stream);
}

Status CudaGemmPlan::run(const GemmArguments& given, const RunOptions& options) const {
  TS_TRY(validate(problem(), given));
  TS_TRY(check(given));
  if (problem().m == 0 || problem().n == 0 || problem().batch == 0) return {};
  CudaSplitMemory::Place place;
  if (split_memory_ != nullptr) {
    TS_ASSIGN(place, split_memory_->place_for(options, split_size_));
  }
  GemmArguments a = given;
  if (pad_ && a.alpha != 0) {
    const CudaCurrent current(steps_.context());
    TS_TRY(current.status());
    TS_TRY(pad(a, reinterpret_cast<std::byte*>(place.parts) + padding_at_, static_cast<cu::Stream>(options.stream)));
  }
  return steps_.run(options.stream, [&](std::size_t, const auto& send) -> Status {
    TsCudaGemmArgs arguments = kernel_arguments(a);
    if (split_memory_ != nullptr) {
      arguments.counters = place.counters;
      arguments.partials = sums_at_ > 0 ? reinterpret_cast<float*>(place.counters + sums_at_) : place.parts;
    }
    if (!facts_.tensor_maps) return send(arguments);
    TsCudaGemmMaps maps{};
    TS_TRY(encode_maps(a, maps));
    return send(maps, arguments);
  });
}

}  // namespace tilesmith
