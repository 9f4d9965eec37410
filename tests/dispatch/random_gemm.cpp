#include "dispatch/random_gemm.hpp"

#include <cmath>

#include "base/random.hpp"
#include "kernel/memory_type.hpp"
#include "runtime/cuda_memory.hpp"
#include "runtime/cuda_stream.hpp"

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
  return p;
}

RandomGemm::RandomGemm(const GemmProblem& problem, std::uint64_t seed, std::int64_t stride_step)
    : p_(problem), seed_(seed), stride_step_(stride_step) {
  const float deviation = 1 / std::sqrt(static_cast<float>(std::max<std::int64_t>(1, p_.k)));
  const auto operand = [&](TensorView view, bool column) {
    return GemmOperand{view.data, column ? view.strides.column : view.strides.row, view.strides.batch};
  };
  const bool column_a = p_.order_a == MatrixOrder::column, column_b = p_.order_b == MatrixOrder::column;
  tensors_.a = matrix(p_.type_a, column_a, p_.m, p_.k, 1);
  tensors_.b = matrix(p_.type_b, column_b, p_.k, p_.n, deviation);
  tensors_.c = matrix(p_.type_c, false, p_.m, p_.n, 1);
  arguments_.a = operand(tensors_.a, column_a);
  arguments_.b = operand(tensors_.b, column_b);
  arguments_.c = operand(tensors_.c, false);
  arguments_.alpha = p_.type_d == DataType::int32 ? 1.0f : 0.75f;
  arguments_.beta = p_.beta ? -2.0f : 0.0f;
  arguments_.amax = &amax_;
  tensors_.batch = p_.batch;
  tensors_.m = p_.m;
  tensors_.n = p_.n;
  tensors_.k = p_.k;
  tensors_.alpha = arguments_.alpha;
  tensors_.beta = arguments_.beta;
  std::int64_t columns = p_.n;
  for (std::size_t i = 0; i < p_.epilogue.size(); ++i) {
    const Op op = p_.epilogue[i];
    if (is_gate(op)) columns /= 2;
    GemmStep step{.op = op, .low = -0.5F, .high = 0.75F};
    if (reads_tensor(op)) {
      step.operand = matrix(p_.type_c, false, p_.m, columns, 1);
    } else if (reads_vector(op)) {
      const bool bias = op == Op::bias || op == Op::bias_m, along_n = op == Op::bias || op == Op::scale_n;
      const float size = !bias && p_.type_a == DataType::int8 ? 0.02f : 1.0f;
      step.operand = make(bias ? p_.type_bias : DataType::fp32, {1, 1, 1, along_n ? columns : p_.m}, {}, size);
      step.operand.strides = {.row = along_n ? 0 : 1, .column = along_n ? 1 : 0};
    }
    arguments_.epilogue[i] = {.data = step.operand.data,
                              .leading = step.operand.strides.row,
                              .batch = step.operand.strides.batch,
                              .low = step.low,
                              .high = step.high};
    tensors_.epilogue.push_back(step);
  }
}

std::int64_t RandomGemm::longer(std::int64_t length, std::int64_t by) const {
  return (length + by + stride_step_ - 1) / stride_step_ * stride_step_;
}

std::string RandomGemm::judge(const GemmPlan& plan, const GemmExpectation& expectation) {
  const std::int64_t leading = longer(p_.columns_of_d(), 3);
  const TensorStrides strides{.batch = longer(p_.m * leading, 7), .row = leading, .column = 1};
  GuardedBuffer d(memory_type_of(p_.type_d), {p_.batch, 1, p_.m, p_.columns_of_d()}, strides);
  arguments_.d = d.data();
  arguments_.d_leading = strides.row;
  arguments_.d_batch = strides.batch;
  amax_ = 0;
  if (const Status status = plan.device().kind == DeviceKind::cuda ? run_on_device(plan, d) : plan.run(arguments_);
      !status)
    return status.error().text();
  if (const auto damage = d.damage()) return *damage;
  for (const GuardedBuffer& input : inputs_)
    if (const auto damage = input.damage()) return "an input: " + *damage;
  const bool asked = !p_.epilogue.empty() && p_.epilogue[p_.epilogue.size() - 1] == Op::amax;
  const Verdict verdict =
      expectation.judge(read_output(tensors_, d.view()), asked ? std::optional(amax_) : std::nullopt);
  return verdict.outcome == Outcome::fail ? verdict.reason : "";
}

Status RandomGemm::run_on_device(const GemmPlan& plan, GuardedBuffer& d) {
  TS_ASSIGN(const CudaContext* context, CudaContext::of(plan.device().index));
  const CudaCurrent current(*context);
  TS_TRY(current.status());
  TS_ASSIGN(const CudaStream stream, CudaStream::create(*context));
  std::vector<CudaBuffer> copies;
  const auto copy = [&](std::span<const std::byte> memory) -> Status {
    TS_ASSIGN(CudaBuffer made, CudaBuffer::allocate(*context, memory.size()));
    TS_TRY(copy_to_device(*context, made.data(), memory.data(), memory.size(), stream.handle()));
    copies.push_back(std::move(made));
    return {};
  };
  for (GuardedBuffer& input : inputs_) TS_TRY(copy(input.storage()));
  GemmArguments a = arguments_;
  const auto move = [&](const void*& pointer) {
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      if (pointer == inputs_[i].data()) pointer = static_cast<std::byte*>(copies[i].data()) + inputs_[i].offset();
  };
  move(a.a.data);
  move(a.b.data);
  move(a.c.data);
  for (EpilogueOperand& operand : a.epilogue) move(operand.data);
  TS_TRY(copy(d.storage()));
  a.d = static_cast<std::byte*>(copies.back().data()) + d.offset();
  const void* const on_device = copies.back().data();
  TS_TRY(copy(std::as_bytes(std::span(&amax_, 1))));
  a.amax = static_cast<float*>(copies.back().data());
  TS_TRY(plan.run(a, {.stream = stream.handle()}));
  TS_TRY(copy_to_host(*context, d.storage().data(), on_device, d.storage().size(), stream.handle()));
  TS_TRY(copy_to_host(*context, &amax_, a.amax, sizeof amax_, stream.handle()));
  return stream.synchronize();
}

TensorView RandomGemm::matrix(DataType type, bool column, std::int64_t rows, std::int64_t columns, float deviation) {
  const std::int64_t lines = column ? columns : rows, length = column ? rows : columns;
  const std::int64_t leading = longer(length, 5);
  const TensorView stored = make(type, {p_.batch, 1, lines, length},
                                 {.batch = longer(lines * leading, 3), .row = leading, .column = 1}, deviation);
  TensorView view = stored;
  if (column) std::swap(view.strides.row, view.strides.column);
  return view;
}

TensorView RandomGemm::make(DataType type, const TensorExtents& extents, const TensorStrides& strides,
                            float deviation) {
  const ElementType element = memory_type_of(type);
  std::vector<float> values(static_cast<std::size_t>(extents.batch * extents.row * extents.column));
  const RandomStream stream{seed_, 100 + inputs_.size()};
  if (is_floating(element))
    fill_normal(values, stream, deviation, 1);
  else
    fill_integers(values, stream, -128, 127, 1);
  inputs_.emplace_back(element, extents, strides);
  inputs_.back().fill(values);
  return inputs_.back().view();
}

}  // namespace tilesmith::testing
