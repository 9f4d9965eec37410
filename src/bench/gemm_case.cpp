#include "bench/gemm_case.hpp"

#include <fmt/format.h>

#include <cmath>

#include "base/float_types.hpp"
#include "base/random.hpp"
#include "dispatch/gemm_problem.hpp"
#include "kernel/memory_type.hpp"
#include "kernel/traits.hpp"

namespace tilesmith {
namespace {

/// Stream numbers of the random tensors of one seed.
enum Stream : std::uint64_t { kA = 1, kB, kC, kEpilogue };

bool is_given(const HostArray& array) {
  return !array.shape.empty() || !array.data.empty();
}

/// How random elements of a tensor are distributed: normally, or whole numbers for integer types.
struct Distribution {
  ElementType type = ElementType::fp32;
  float deviation = 1;
};

Result<std::vector<float>> random_values(std::span<const std::int64_t> shape, Distribution d, RandomStream stream) {
  TS_ASSIGN(const std::uint64_t bytes, byte_size(ElementType::fp32, shape));
  std::vector<float> values(bytes / sizeof(float));
  if (is_floating(d.type))
    fill_normal(values, stream, d.deviation);
  else
    fill_integers(values, stream, -100, 100);
  return values;
}

/// The values of an array of logical shape (..., rows, columns) with the last two turned.
std::vector<float> turned(const std::vector<float>& values, std::int64_t rows, std::int64_t columns) {
  std::vector<float> out(values.size());
  const auto size = static_cast<std::size_t>(rows * columns);
  for (std::size_t start = 0; size > 0 && start < values.size(); start += size)
    for (std::size_t i = 0; i < static_cast<std::size_t>(rows); ++i)
      for (std::size_t j = 0; j < static_cast<std::size_t>(columns); ++j)
        out[start + j * static_cast<std::size_t>(rows) + i] = values[start + i * static_cast<std::size_t>(columns) + j];
  return out;
}

/// To the numbers that are multiplied: devices with tf32 products round what is fp32 in memory.
void round_to_tf32(HostArray& array) {
  constexpr FloatFormat kTf32{.exponent_bits = 8, .mantissa_bits = 10, .has_infinity = true, .saturates = false};
  std::vector<float> values = array.to_floats();
  for (float& value : values) value = decode_float(kTf32, encode_float(kTf32, static_cast<double>(value)));
  store_elements(array.type, values, array.data.data());
}

struct Matrix {
  std::string name;
  std::int64_t batch = 1, rows = 0, columns = 0;
  MatrixOrder order = MatrixOrder::row;
  Distribution values;
};

/// A given array in the order and type asked for, or a random one. `shared`: the batch shares it.
Result<HostArray> matrix_array(const Matrix& m, HostArray given, RandomStream stream, bool& shared) {
  const std::vector<std::int64_t> one{m.rows, m.columns}, all{m.batch, m.rows, m.columns};
  shared = m.batch == 1 || (is_given(given) && given.shape == one);
  std::vector<float> values;
  const std::vector<std::int64_t>& shape = shared ? one : all;
  if (is_given(given)) {
    if (given.shape != one && given.shape != all)
      return fail(ErrorCode::invalid_argument, fmt::format("{} has shape {}", m.name, shape_text(given.shape)),
                  m.batch == 1 ? fmt::format("shape {} for this problem", shape_text(one))
                               : fmt::format("shape {} or {} for this problem", shape_text(all), shape_text(one)));
    if (given.type == m.values.type && m.order == MatrixOrder::row) return given;
    values = given.to_floats();
  } else {
    TS_ASSIGN(values, random_values(shape, m.values, stream));
  }
  if (m.order == MatrixOrder::column) values = turned(values, m.rows, m.columns);
  return make_array(m.values.type, shape, values);
}

Result<HostArray> vector_array(const std::string& name, HostArray given, std::int64_t length, ElementType type,
                               float deviation, RandomStream stream) {
  const std::vector<std::int64_t> shape{length};
  if (!is_given(given)) {
    TS_ASSIGN(std::vector<float> values, random_values(shape, {type, deviation}, stream));
    return make_array(type, shape, values);
  }
  if (given.shape != shape)
    return fail(ErrorCode::invalid_argument, fmt::format("{} has shape {}", name, shape_text(given.shape)),
                fmt::format("shape {} for this problem", shape_text(shape)));
  if (given.type == type) return given;
  return make_array(type, shape, given.to_floats());
}

}  // namespace

Result<GemmCase> GemmCase::create(const GemmProblem& problem, GemmInputs inputs) {
  TS_TRY(validate(problem));
  GemmCase out(problem);
  GemmProblem& p = out.problem_;
  const auto fill = [&](Operand& operand, const Matrix& matrix, HostArray& given, std::uint64_t stream) -> Status {
    bool shared = false;
    TS_ASSIGN(operand.array, matrix_array(matrix, std::move(given), {inputs.seed, stream}, shared));
    operand.order = matrix.order;
    operand.leading = matrix.order == MatrixOrder::row ? matrix.columns : matrix.rows;
    operand.batch = shared ? 0 : matrix.rows * matrix.columns;
    return {};
  };
  const ElementType side = memory_type_of(p.type_c);
  // Results of about 1, where activations bend and small types are at home.
  const float deviation = 1 / std::sqrt(static_cast<float>(std::max<std::int64_t>(1, p.k)));
  TS_TRY(fill(out.a_, {"a", p.batch, p.m, p.k, p.order_a, {memory_type_of(p.type_a), 1}}, inputs.a, kA));
  TS_TRY(fill(out.b_, {"b", p.batch, p.k, p.n, p.order_b, {memory_type_of(p.type_b), deviation}}, inputs.b, kB));
  if (p.beta) TS_TRY(fill(out.c_, {"c", p.batch, p.m, p.n, MatrixOrder::row, {side, 1}}, inputs.c, kC));
  std::int64_t columns = p.n;
  for (std::size_t i = 0; i < p.epilogue.size(); ++i) {
    const EpilogueOp op = p.epilogue[i];
    const std::string name = fmt::format("the tensor of {} (operation {} of the epilogue)", name_of(op), i);
    Operand& operand = out.epilogue_[i];
    HostArray& given = inputs.epilogue[i];
    if (is_gate(op)) columns /= 2;
    if (reads_tensor(op)) {
      TS_TRY(fill(operand, {name, p.batch, p.m, columns, MatrixOrder::row, {side, 1}}, given, kEpilogue + i));
    } else if (reads_vector(op)) {
      const bool bias = op == EpilogueOp::bias || op == EpilogueOp::bias_m;
      const std::int64_t length = op == EpilogueOp::bias || op == EpilogueOp::scale_n ? columns : p.m;
      // Products of int8 are large; usual scales bring them back.
      const float size = !bias && p.type_a == DataType::int8 ? 0.01f * std::sqrt(deviation) : 1.0f;
      TS_ASSIGN(operand.array,
                vector_array(name, std::move(given), length, bias ? memory_type_of(p.type_bias) : ElementType::fp32,
                             size, {inputs.seed, kEpilogue + i}));
    } else if (is_given(given)) {
      return fail(ErrorCode::invalid_argument, fmt::format("{} reads no tensor", name_of(op)));
    }
  }
  for (Operand* operand : {&out.a_, &out.b_}) {
    if (p.type_a == DataType::tf32) round_to_tf32(operand->array);
    const std::int64_t steps = operand->leading | (p.batch > 1 ? operand->batch : 0);
    p.unaligned |= steps * static_cast<std::int64_t>(size_of(operand->array.type)) % 16 != 0;
  }
  inputs.a = inputs.b = inputs.c = {};
  inputs.epilogue = {};
  out.inputs_ = std::move(inputs);

  GemmOutputs none;
  GemmArguments arguments = out.arguments(none);
  arguments.d = &none;  // sizes and numbers are checked before memory is taken for results
  TS_TRY(validate(p, arguments));
  return out;
}

ElementType GemmCase::output_type() const {
  return memory_type_of(problem_.type_d);
}

bool GemmCase::wants_amax() const {
  const GemmEpilogue& e = problem_.epilogue;
  return !e.empty() && e[e.size() - 1] == EpilogueOp::amax;
}

GemmOutputs GemmCase::make_outputs() const {
  GemmOutputs out;
  out.d.reserve(static_cast<std::size_t>(problem_.batch * problem_.m * problem_.columns_of_d()) *
                size_of(output_type()));
  return out;
}

GemmArguments GemmCase::arguments(GemmOutputs& outputs) const {
  const auto data = [](const HostArray& array) -> const void* {
    return array.data.empty() ? nullptr : array.data.data();
  };
  GemmArguments a = dense_arguments(problem_);
  a.a = {data(a_.array), a_.leading, a_.batch};
  a.b = {data(b_.array), b_.leading, b_.batch};
  a.c = {data(c_.array), c_.leading, c_.batch};
  a.d = outputs.d.data();
  a.alpha = inputs_.alpha;
  a.beta = inputs_.beta;
  a.amax = &outputs.amax;
  for (std::size_t i = 0; i < problem_.epilogue.size(); ++i) {
    const Operand& operand = epilogue_[i];
    a.epilogue[i] = {.data = data(operand.array),
                     .leading = operand.leading,
                     .batch = operand.batch,
                     .low = inputs_.clamp_low,
                     .high = inputs_.clamp_high};
  }
  return a;
}

TensorView GemmCase::Operand::view() const {
  TensorStrides strides;
  strides.batch = batch;
  strides.row = order == MatrixOrder::row ? leading : 1;
  strides.column = order == MatrixOrder::row ? 1 : leading;
  return {array.data.data(), array.type, strides};
}

GemmTensors GemmCase::tensors() const {
  GemmTensors out;
  out.a = a_.view();
  out.b = b_.view();
  out.c = c_.view();
  out.batch = problem_.batch;
  out.m = problem_.m;
  out.n = problem_.n;
  out.k = problem_.k;
  out.alpha = inputs_.alpha;
  out.beta = problem_.beta ? inputs_.beta : 0.0f;
  for (std::size_t i = 0; i < problem_.epilogue.size(); ++i) {
    const EpilogueOp op = problem_.epilogue[i];
    GemmStep step{.op = op, .operand = epilogue_[i].view(), .low = inputs_.clamp_low, .high = inputs_.clamp_high};
    if (reads_vector(op)) {
      const bool along_n = op == EpilogueOp::bias || op == EpilogueOp::scale_n;
      step.operand.strides = {.row = along_n ? 0 : 1, .column = along_n ? 1 : 0};
    }
    out.epilogue.push_back(step);
  }
  return out;
}

std::vector<MemoryRange> GemmCase::inputs() const {
  std::vector<MemoryRange> ranges;
  for (const Operand* operand : {&a_, &b_, &c_})
    ranges.push_back({operand->array.data.data(), operand->array.data.size()});
  for (const Operand& operand : epilogue_) ranges.push_back({operand.array.data.data(), operand.array.data.size()});
  return ranges;
}

HostArray GemmCase::output_array(const GemmOutputs& outputs) const {
  HostArray out;
  out.type = output_type();
  out.shape = {problem_.m, problem_.columns_of_d()};
  if (problem_.batch != 1) out.shape.insert(out.shape.begin(), problem_.batch);
  const auto bytes =
      static_cast<std::size_t>(problem_.batch * problem_.m * problem_.columns_of_d()) * size_of(out.type);
  const std::byte* data = outputs.d.data();
  if (bytes > 0) out.data.assign(data, data + bytes);
  return out;
}

}  // namespace tilesmith
