#include "dispatch/gemm/random_gemm.hpp"

#include <fmt/format.h>

#include <cmath>

#include "base/random.hpp"
#include "problem/gemm/group.hpp"
#include "problem/gemm/problem.hpp"
#include "runtime/cuda/memory.hpp"
#include "runtime/cuda/stream.hpp"
#include "trial/device.hpp"
#include "vocabulary/memory_type.hpp"

namespace tilesmith::testing {

using Op = EpilogueOp;

GemmProblem random_gemm_problem(std::uint64_t seed) {
  const RandomStream random{seed, 1};
  std::uint64_t drawn = 0;
  const auto below = [&](std::uint64_t bound) { return random.below(drawn++, bound); };
  constexpr DataType kTypes[] = {DataType::fp32, DataType::bf16, DataType::fp16, DataType::int8};
  constexpr DataType kResults[] = {DataType::fp32, DataType::bf16, DataType::fp16};
  const DataType type = kTypes[seed % 4];
  std::optional<DataType> result;
  if (below(2) == 0) result = kResults[below(3)];
  constexpr std::int64_t kSizes[] = {1, 2, 7, 16, 17, 31, 48, 49, 64, 97, 130};
  GemmProblem p = gemm_problem(type, kSizes[below(std::size(kSizes))], 2 * kSizes[below(std::size(kSizes))],
                               1 + static_cast<std::int64_t>(below(700)), result);
  p.batch = 1 + static_cast<std::int64_t>(below(3));
  p.order_a = below(2) == 0 ? MatrixOrder::row : MatrixOrder::column;
  p.order_b = below(2) == 0 ? MatrixOrder::row : MatrixOrder::column;
  p.order_d = RandomStream{seed, 5}.below(0, 4) == 0 ? MatrixOrder::column : MatrixOrder::row;
  p.beta = below(3) == 0;
  if (p.type_d == DataType::int32) return p;
  if (!p.beta && below(3) == 0) p.epilogue = {Op::scale_m, Op::scale_n};
  if (below(2) == 0) p.epilogue.push_back(below(2) == 0 ? Op::bias : Op::bias_m);
  if (!p.beta && below(4) == 0) p.epilogue.push_back(Op::add);
  constexpr Op kFunctions[] = {Op::relu, Op::gelu,  Op::gelu_tanh, Op::silu,       Op::sigmoid, Op::tanh,
                               Op::glu,  Op::reglu, Op::geglu,     Op::geglu_tanh, Op::swiglu};
  if (below(2) == 0) p.epilogue.push_back(kFunctions[below(std::size(kFunctions))]);
  if (below(4) == 0) p.epilogue.push_back(Op::multiply);
  if (below(4) == 0) p.epilogue.push_back(Op::clamp);
  if (below(4) == 0) p.epilogue.push_back(Op::amax);
  if (p.epilogue.gated()) p.order_d = MatrixOrder::row;
  return p;
}

GemmProblem any_gemm_problem(std::uint64_t seed) {
  const RandomStream random{seed, 6};
  std::uint64_t drawn = 0;
  const auto below = [&](std::uint64_t bound) { return random.below(drawn++, bound); };
  constexpr DataType kTypes[] = {DataType::fp32, DataType::tf32, DataType::bf16, DataType::fp16,
                                 DataType::fp8,  DataType::bf8,  DataType::int8};
  constexpr DataType kFloats[] = {DataType::fp32, DataType::fp16, DataType::bf16, DataType::fp8, DataType::bf8};
  constexpr std::int64_t kSizes[] = {1, 2, 7, 16, 31, 33, 64, 65, 97, 130};
  constexpr std::int64_t kDepths[] = {1, 15, 64, 255, 256, 257, 700};
  GemmProblem p = gemm_problem(kTypes[seed % std::size(kTypes)], kSizes[below(std::size(kSizes))],
                               2 * kSizes[below(std::size(kSizes))], kDepths[below(std::size(kDepths))]);
  p.batch = 1 + static_cast<std::int64_t>(below(3));
  p.order_a = below(2) == 0 ? MatrixOrder::row : MatrixOrder::column;
  p.order_b = below(2) == 0 ? MatrixOrder::row : MatrixOrder::column;
  p.beta = below(3) == 0;
  if (p.type_a == DataType::fp8 && below(2) == 0) p.type_b = DataType::bf8;
  const bool integers = p.type_a == DataType::int8;
  if (!integers || below(2) == 0) {
    p.type_d = integers && below(3) == 0 ? DataType::int8 : kFloats[below(std::size(kFloats))];
    p.type_c = below(6) == 0 ? DataType::int8 : kFloats[below(std::size(kFloats))];
    p.type_bias = kFloats[below(3)];
  }
  const bool half = p.type_a == DataType::bf16 || p.type_a == DataType::fp16;
  if ((half || p.type_a == DataType::fp8) && below(2) == 0) {  // weights, or scales of blocks
    p.order_a = MatrixOrder::row;
    p.order_b = MatrixOrder::column;
    if (half) {
      p.type_b = below(2) == 0 ? DataType::int4 : DataType::int8;
      p.k += p.k % 2;
      p.group_size = below(2) == 0 ? p.k : std::int64_t{32} << below(4);
      if (below(2) == 0) p.type_scale = p.type_a;
      p.zero_points = below(2) == 0;
    } else {
      p.group_size = 128;
    }
  } else if (below(3) == 0) {
    p.k2 = kDepths[below(std::size(kDepths))];
  }
  if (p.k2 == 0 && p.order_a == MatrixOrder::row && below(4) == 0)
    p.grouping = below(2) == 0 ? GemmGrouping::contiguous : GemmGrouping::masked;
  if (p.type_d != DataType::int32)
    for (std::uint64_t left = below(1 + GemmEpilogue::kMax); left > 0; --left) {
      const auto op = static_cast<Op>(1 + below(static_cast<std::uint64_t>(Op::amax)));
      if (is_gate(op) && p.epilogue.gated()) continue;
      p.epilogue.push_back(op);
      if (op == Op::amax) break;
    }
  const bool rows_only = p.grouping != GemmGrouping::none || p.group_size != 0 || p.epilogue.gated();
  if (!rows_only && below(4) == 0) p.order_d = MatrixOrder::column;
  return p;
}

GemmProblem random_second_problem(std::uint64_t seed) {
  const RandomStream random{seed, 4};
  GemmProblem p = random_gemm_problem(seed);
  constexpr std::int64_t kDepths[] = {1, 7, 64, 97, 200, 513};
  p.k2 = kDepths[random.below(0, std::size(kDepths))];
  if (random.below(1, 6) == 0) p.k = 0;
  return p;
}

GemmProblem random_expert_problem(std::uint64_t seed, bool device) {
  const RandomStream random{seed, 3};
  std::uint64_t drawn = 0;
  const auto below = [&](std::uint64_t bound) { return random.below(drawn++, bound); };
  constexpr std::int64_t kRows[] = {1, 7, 16, 17, 60, 130, 300};
  const std::int64_t m = kRows[below(std::size(kRows))], n = 2 * (1 + static_cast<std::int64_t>(below(150)));
  const std::int64_t k = 16 * (1 + static_cast<std::int64_t>(below(40)));
  const DataType half = below(2) == 0 ? DataType::bf16 : DataType::fp16;
  const DataType result = below(2) == 0 ? DataType::fp32 : DataType::bf16;
  GemmProblem p;
  switch (seed % 3) {
    case 0:
      p = gemm_problem(half, m, n, k);
      break;
    case 1:
      p = gemm_problem(DataType::fp8, m, n, k, result);
      p.group_size = 128;
      break;
    default: {
      p = gemm_problem(half, m, n, k, below(2) == 0 ? DataType::fp32 : half);
      p.type_b = below(2) == 0 ? DataType::int4 : DataType::int8;
      const std::int64_t depths[] = {32, 64, 128, k};
      p.group_size = depths[below(4)];
      if (below(2) == 0) p.type_scale = half;
      p.zero_points = below(2) == 0;
    }
  }
  p.batch = 1 + static_cast<std::int64_t>(below(4));
  if (seed % 3 == 0 || below(2) == 0) p.grouping = below(2) == 0 ? GemmGrouping::contiguous : GemmGrouping::masked;
  p.beta = !device && below(3) == 0;
  if (!p.beta && below(3) == 0) p.epilogue.push_back(Op::scale_m);
  if (below(3) == 0) p.epilogue.push_back(Op::bias);
  if (below(3) == 0) p.epilogue.push_back(below(2) == 0 ? Op::silu : Op::swiglu);
  if (below(4) == 0) p.epilogue.push_back(Op::amax);
  return p;
}

RandomGemm::RandomGemm(const GemmProblem& problem, std::uint64_t seed, std::int64_t stride_step)
    : p_(problem), seed_(seed), stride_step_(stride_step) {
  const float deviation = 1 / std::sqrt(static_cast<float>(std::max<std::int64_t>(1, depth_of(p_))));
  const auto operand = [&](TensorView view, bool column) {
    return GemmOperand{view.data, column ? view.strides.column : view.strides.row, view.strides.batch};
  };
  const bool column_a = p_.order_a == MatrixOrder::column, column_b = p_.order_b == MatrixOrder::column;
  const std::int64_t members = row_members(p_);
  tensors_.a = matrix(p_.type_a, column_a, members, p_.m, p_.k, 1, Side::a);
  tensors_.b = matrix(p_.type_b, column_b, p_.batch, p_.k, p_.n, deviation, Side::b);
  tensors_.c = matrix(p_.type_c, column_d(), members, p_.m, p_.n, 1);
  arguments_.a = operand(tensors_.a, column_a);
  arguments_.b = operand(tensors_.b, column_b);
  arguments_.c = operand(tensors_.c, column_d());
  if (p_.k2 != 0) {
    tensors_.a2 = matrix(p_.type_a, column_a, members, p_.m, p_.k2, 1, Side::a);
    tensors_.b2 = matrix(p_.type_b, column_b, p_.batch, p_.k2, p_.n, deviation, Side::b);
    arguments_.a2 = operand(tensors_.a2, column_a);
    arguments_.b2 = operand(tensors_.b2, column_b);
  }
  arguments_.alpha = p_.type_d == DataType::int32 ? 1.0f : 0.75f;
  arguments_.beta = p_.beta ? -2.0f : 0.0f;
  arguments_.amax = &amax_;
  tensors_.batch = p_.batch;
  tensors_.m = p_.m;
  tensors_.n = p_.n;
  tensors_.k = p_.k;
  tensors_.k2 = p_.k2;
  tensors_.alpha = arguments_.alpha;
  tensors_.beta = arguments_.beta;
  tensors_.b_is_weights = has_weights(p_);
  tensors_.b_is_int4 = p_.type_b == DataType::int4;
  if (p_.group_size != 0) add_scales(deviation);
  if (p_.grouping != GemmGrouping::none) add_groups();
  std::int64_t columns = p_.n;
  for (std::size_t i = 0; i < p_.epilogue.size(); ++i) {
    const Op op = p_.epilogue[i];
    if (is_gate(op)) columns /= 2;
    GemmStep step{.op = op, .low = -0.5F, .high = 0.75F};
    if (reads_tensor(op)) {
      step.operand = matrix(p_.type_c, column_d(), members, p_.m, columns, 1);
    } else if (reads_vector(op)) {
      const bool bias = op == Op::bias || op == Op::bias_m, along_n = op == Op::bias || op == Op::scale_n;
      const float size = !bias && p_.type_a == DataType::int8 ? 0.02f : 1.0f;
      const std::int64_t length = along_n ? columns : p_.m, stride = longer(length, 3);
      // The batch shares a vector, but each group has its own; contiguous groups share one along m.
      const std::int64_t vectors = p_.grouping == GemmGrouping::none ? 1 : along_n ? p_.batch : members;
      step.operand = make(bias ? p_.type_bias : DataType::fp32, {vectors, 1, 1, length}, {.batch = stride}, size);
      step.operand.strides = {.batch = vectors > 1 ? stride : 0, .row = along_n ? 0 : 1, .column = along_n ? 1 : 0};
    }
    arguments_.epilogue[i] = {.data = step.operand.data,
                              .leading = operand(step.operand, column_d()).leading,
                              .batch = step.operand.strides.batch,
                              .low = step.low,
                              .high = step.high};
    tensors_.epilogue.push_back(step);
  }
  keep_inputs();
}

void RandomGemm::keep_inputs() {
  kept_.clear();
  for (GuardedBuffer& input : inputs_) kept_.emplace_back(input.storage().begin(), input.storage().end());
  const auto ends = std::as_bytes(std::span(ends_));
  kept_.emplace_back(ends.begin(), ends.end());
}

void RandomGemm::add_numbers() {
  if (p_.group_size != 0 || p_.type_d == DataType::int32) return;
  for (GemmScales* scale : {&arguments_.scale_a, &arguments_.scale_b}) {
    if (scale == &arguments_.scale_b && seed_ / 2 % 2 == 0) continue;
    scale->data = make(DataType::fp32, {1, 1, 1, 1}, {.batch = 1, .row = 1, .column = 1}, 1).data;
    tensors_.alpha *= *static_cast<const float*>(scale->data);
  }
  keep_inputs();
}

void RandomGemm::compare(std::size_t input, const void* now) {
  if (const auto byte = first_difference(now, kept_[input].data(), kept_[input].size()); byte && changed_.empty())
    changed_ = input == inputs_.size()
                   ? "the call changed its groups' ends"
                   : fmt::format("the call changed its input {} at byte {}, red zone included", input, *byte);
}

std::int64_t RandomGemm::longer(std::int64_t length, std::int64_t by) const {
  return (length + by + stride_step_ - 1) / stride_step_ * stride_step_;
}

std::string RandomGemm::judge(const GemmPlan& plan, const GemmReference& reference) {
  const Status status = [&]() -> Status {
    if (plan.device().kind == DeviceKind::cpu) return plan.run(host_arguments());
    TS_ASSIGN(const CudaContext* context, CudaContext::of(plan.device().index));
    const CudaCurrent current(*context);
    TS_TRY(current.status());
    TS_ASSIGN(const CudaStream stream, CudaStream::create(*context));
    TS_ASSIGN(const GemmArguments arguments, device_arguments(*context, stream.handle()));
    TS_TRY(plan.run(arguments, {.stream = stream.handle()}));
    return fetch(*context, stream.handle());
  }();
  return status ? judge(reference) : status.error().text();
}

std::string RandomGemm::judge(const GemmReference& reference) {
  if (const auto damage = d_->damage(
          [&](std::int64_t matrix, std::int64_t line) { return column_d() || tensors_.is_computed(matrix, line); }))
    return *damage;
  for (std::size_t i = 0; i < inputs_.size(); ++i) compare(i, inputs_[i].storage().data());
  compare(inputs_.size(), ends_.data());
  if (!changed_.empty()) return changed_;
  const bool asked = !p_.epilogue.empty() && p_.epilogue[p_.epilogue.size() - 1] == Op::amax;
  TensorView written = d_->view();
  if (column_d()) std::swap(written.strides.row, written.strides.column);
  if (tensors_.contiguous) written.strides.batch = 0;
  const Verdict verdict = reference.judge(read_output(tensors_, written), asked ? std::optional(amax_) : std::nullopt);
  return verdict.outcome == Outcome::fail ? verdict.reason : "";
}

GemmArguments RandomGemm::host_arguments() {
  const std::int64_t lines = column_d() ? p_.columns_of_d() : p_.m, length = column_d() ? p_.m : p_.columns_of_d();
  const std::int64_t leading = longer(length, 3);
  const TensorStrides strides{.batch = longer(lines * leading, 7), .row = leading, .column = 1};
  d_.emplace(memory_type_of(p_.type_d), TensorExtents{row_members(p_), 1, lines, length}, strides);
  amax_ = 0;
  changed_.clear();
  GemmArguments out = arguments_;
  out.d = d_->data();
  out.d_leading = strides.row;
  out.d_batch = strides.batch;
  return out;
}

Result<GemmArguments> RandomGemm::device_arguments(const CudaContext& context, cu::Stream stream) {
  GemmArguments a = host_arguments();
  copies_.clear();
  const auto copy = [&](std::span<const std::byte> memory) -> Result<std::byte*> {
    TS_ASSIGN(CudaBuffer made, CudaBuffer::allocate(context, memory.size()));
    TS_TRY(copy_to_device(context, made.data(), memory.data(), memory.size(), stream));
    copies_.push_back(std::move(made));
    return static_cast<std::byte*>(copies_.back().data());
  };
  for (GuardedBuffer& input : inputs_) TS_TRY(copy(input.storage()));
  const auto move = [&](const void*& pointer) {
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      if (pointer == inputs_[i].data()) pointer = static_cast<std::byte*>(copies_[i].data()) + inputs_[i].offset();
  };
  move(a.a.data);
  move(a.b.data);
  move(a.a2.data);
  move(a.b2.data);
  move(a.c.data);
  move(a.scale_a.data);
  move(a.scale_b.data);
  move(a.zero_b.data);
  for (EpilogueOperand& operand : a.epilogue) move(operand.data);
  if (!ends_.empty()) {
    TS_ASSIGN(const std::byte* ends, copy(std::as_bytes(std::span(ends_))));
    a.group_ends = reinterpret_cast<const std::int32_t*>(ends);
  }
  TS_ASSIGN(std::byte * d, copy(d_->storage()));
  a.d = d + d_->offset();
  TS_ASSIGN(std::byte * amax, copy(std::as_bytes(std::span(&amax_, 1))));
  a.amax = reinterpret_cast<float*>(amax);
  return a;
}

Status RandomGemm::fetch(const CudaContext& context, cu::Stream stream) {
  const CudaBuffer &amax = copies_.back(), &d = copies_[copies_.size() - 2];
  TS_TRY(copy_to_host(context, d_->storage().data(), d.data(), d_->storage().size(), stream));
  TS_TRY(copy_to_host(context, &amax_, amax.data(), sizeof amax_, stream));
  for (std::size_t i = 0; i + 2 < copies_.size(); ++i) {
    std::vector<std::byte> now(kept_[i].size());
    TS_TRY(copy_to_host(context, now.data(), copies_[i].data(), now.size(), stream));
    TS_TRY(synchronize(context, stream));
    compare(i, now.data());
  }
  return synchronize(context, stream);
}

void RandomGemm::add_scales(float deviation) {
  const std::int64_t blocks = (p_.k + p_.group_size - 1) / p_.group_size;
  const auto scales = [&](GemmScaleView& view, GemmScales& argument, DataType type, std::int64_t batch,
                          std::int64_t rows, std::int64_t lines, float size_of_values) {
    // Blocks behind one another, or rows: kernels take any strides.
    const bool turned = seed_ % 2 == 1;
    const std::int64_t leading = (turned ? rows : blocks) + 1, size = (turned ? blocks : rows) * leading;
    view.view = make(type, {batch, 1, turned ? blocks : rows, turned ? rows : blocks},
                     {.batch = size + 2, .row = leading, .column = 1}, size_of_values);
    if (turned) std::swap(view.view.strides.row, view.view.strides.column);
    view.lines = lines;
    view.depth = p_.group_size;
    argument = {view.view.data, view.view.strides.row, view.view.strides.column, view.view.strides.batch};
  };
  if (has_weights(p_)) {
    scales(tensors_.scale_b, arguments_.scale_b, p_.type_scale, p_.batch, p_.n, 1,
           deviation / (p_.type_b == DataType::int4 ? 4.0f : 70.0f));
    if (p_.zero_points)
      scales(tensors_.zero_b, arguments_.zero_b, DataType::int8, p_.batch, p_.n, 1,
             p_.type_b == DataType::int4 ? 8.0f : 127.0f);
    return;
  }
  scales(tensors_.scale_a, arguments_.scale_a, p_.type_scale, row_members(p_), p_.m, 1, 1);
  scales(tensors_.scale_b, arguments_.scale_b, p_.type_scale, p_.batch, (p_.n + kBlockDepth - 1) / kBlockDepth,
         kBlockDepth, 1);
}

void RandomGemm::add_groups() {
  const RandomStream random{seed_, 2};
  tensors_.contiguous = p_.grouping == GemmGrouping::contiguous;
  std::int64_t before = 0;
  for (std::int64_t g = 0; g < p_.batch; ++g) {
    const std::int64_t room = tensors_.contiguous ? p_.m - before : p_.m;
    // Some groups are empty, some take all that is left.
    const std::uint64_t kind = random.below(static_cast<std::uint64_t>(2 * g), 5);
    const auto drawn = static_cast<std::int64_t>(
        random.below(static_cast<std::uint64_t>(2 * g + 1), static_cast<std::uint64_t>(room + 1)));
    const std::int64_t rows = kind == 0 ? 0 : kind == 1 ? room : drawn;
    tensors_.groups.push_back({.first = tensors_.contiguous ? before : 0, .count = rows, .before = before});
    before += rows;
    ends_.push_back(static_cast<std::int32_t>(tensors_.contiguous ? before : rows));
  }
  if (tensors_.contiguous)
    for (TensorView* view : {&tensors_.a, &tensors_.c, &tensors_.scale_a.view}) view->strides.batch = 0;
  arguments_.group_ends = ends_.data();
}

TensorView RandomGemm::matrix(DataType type, bool column, std::int64_t batch, std::int64_t rows, std::int64_t columns,
                              float deviation, std::optional<Side> side) {
  const int packed = type == DataType::int4 ? 2 : 1;  // elements of a byte
  const std::int64_t lines = column ? columns : rows, length = (column ? rows : columns) / packed;
  const std::int64_t leading = longer(length, 5);
  TensorView view = make(type, {batch, 1, lines, length},
                         {.batch = batch > 1 ? longer(lines * leading, 3) : 0, .row = leading, .column = 1},
                         is_floating(memory_type_of(type)) ? deviation : 127, packed == 1 ? side : std::nullopt,
                         column == (side == Side::b));
  view.strides.batch *= packed;
  view.strides.row *= packed;
  if (column) std::swap(view.strides.row, view.strides.column);
  return view;
}

TensorView RandomGemm::make(DataType type, const TensorExtents& extents, const TensorStrides& strides, float size,
                            std::optional<Side> side, bool k_along) {
  const ElementType element = memory_type_of(type);
  std::vector<float> values(static_cast<std::size_t>(extents.batch * extents.row * extents.column));
  const RandomStream stream{seed_, 100 + inputs_.size()};
  if (element == ElementType::uint8)
    fill_integers(values, stream, 0, 255, 1);
  else if (is_floating(element))
    fill_normal(values, stream, size, 1);
  else
    fill_integers(values, stream, -static_cast<int>(size) - 1, static_cast<int>(size), 1);
  if (side) let_halves_cancel(values, *side, extents.row, extents.column, k_along);
  inputs_.emplace_back(element, extents, strides);
  inputs_.back().fill(values);
  return inputs_.back().view();
}

}  // namespace tilesmith::testing
