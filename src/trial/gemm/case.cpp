#include "trial/gemm/case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "base/float_types.hpp"
#include "base/parallel.hpp"
#include "base/random.hpp"
#include "base/raw_array.hpp"
#include "problem/derive.hpp"
#include "problem/gemm/group.hpp"
#include "problem/gemm/problem.hpp"
#include "trial/gemm/data.hpp"
#include "trial/tf32.hpp"
#include "verify/gemm/naive.hpp"
#include "vocabulary/data_type.hpp"
#include "vocabulary/memory_type.hpp"
#include "vocabulary/traits.hpp"

namespace tilesmith {
namespace {

/// Stream numbers of the random tensors of one seed.
enum Stream : std::uint64_t { kA = 1, kB, kC, kEpilogue, kScaleA = 100, kScaleB, kA2, kB2, kZeroB };

bool is_given(const HostArray& array) {
  return !array.shape.empty() || !array.data.empty();
}

/// How random elements of a tensor are distributed: normally, or whole numbers for integer types.
struct Distribution {
  ElementType type = ElementType::fp32;
  float deviation = 1;
};

Result<RawArray<float>> random_values(std::span<const std::int64_t> shape, Distribution d, RandomStream stream) {
  TS_ASSIGN(const std::uint64_t bytes, byte_size(ElementType::fp32, shape));
  RawArray<float> values(bytes / sizeof(float));
  if (is_floating(d.type))
    fill_normal(values.span(), stream, d.deviation);
  else
    fill_integers(values.span(), stream, -100, 100);
  return values;
}

/// An array of logical shape (..., rows, columns), of elements of `width` values, with the last two dimensions turned.
template <class T>
void turn(std::span<const T> values, std::int64_t rows, std::int64_t columns, std::size_t width, T* out) {
  const auto r = static_cast<std::size_t>(rows), c = static_cast<std::size_t>(columns), size = r * c * width;
  if (size == 0) return;
  // A thread writes some lines at a time, and reads a piece of each row for all of them.
  constexpr std::size_t kLines = 16;
  const std::size_t parts = (c + kLines - 1) / kLines;
  parallel_for(values.size() / size * parts, 0, [&](std::size_t task) {
    const std::size_t start = task / parts * size, first = task % parts * kLines, end = std::min(c, first + kLines);
    for (std::size_t i = 0; i < r; ++i)
      for (std::size_t j = first; j < end; ++j)
        std::copy_n(&values[start + (i * c + j) * width], width, &out[start + (j * r + i) * width]);
  });
}

struct Matrix {
  std::string name;
  std::int64_t batch = 1, rows = 0, columns = 0;
  MatrixOrder order = MatrixOrder::row;
  Distribution values;
  std::optional<Side> side{};  // random values of an operand of the product
};

/// Values of another type that integers are to hold are whole numbers they have; on the way they are fp32.
Status check_whole(const Matrix& m, std::span<const float> values) {
  if (is_floating(m.values.type)) return {};
  const float most = m.values.type == ElementType::int8 ? 0x1p7F : 0x1p24F;
  const auto wrong = std::ranges::find_if(
      values, [&](float value) { return !(value >= -most && value < most && value == std::trunc(value)); });
  if (wrong == values.end()) return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("{} is {}, and is given as {} of another type", m.name, to_string(m.values.type), *wrong),
              fmt::format("whole numbers from {} to {}", -most, most - 1));
}

/// A given array in the order and type asked for, or a random one. `shared`: the batch shares it.
Result<HostArray> matrix_array(const Matrix& m, HostArray given, RandomStream stream, bool& shared) {
  const std::vector<std::int64_t> one{m.rows, m.columns}, all{m.batch, m.rows, m.columns};
  shared = m.batch == 1 || (is_given(given) && given.shape == one);
  std::vector<float> given_values;
  RawArray<float> random;
  std::span<float> values;
  const std::vector<std::int64_t>& shape = shared ? one : all;
  if (is_given(given)) {
    if (given.shape != one && given.shape != all)
      return fail(ErrorCode::invalid_argument, fmt::format("{} has shape {}", m.name, shape_text(given.shape)),
                  m.batch == 1 ? fmt::format("shape {} for this problem", shape_text(one))
                               : fmt::format("shape {} or {} for this problem", shape_text(all), shape_text(one)));
    if (given.type == m.values.type) {
      if (m.order == MatrixOrder::row) return given;
      std::vector<std::byte> turned(given.data.size());
      turn<std::byte>(given.data, m.rows, m.columns, size_of(given.type), turned.data());
      given.data = std::move(turned);
      return given;
    }
    given_values = given.to_floats();
    values = given_values;
    TS_TRY(check_whole(m, values));
  } else {
    TS_ASSIGN(random, random_values(shape, m.values, stream));
    values = random.span();
    if (m.side) let_halves_cancel(values, *m.side, m.rows, m.columns, *m.side == Side::a);
  }
  if (m.order == MatrixOrder::row) return make_array(m.values.type, shape, values);
  RawArray<float> turned(values.size());
  turn<float>(values, m.rows, m.columns, 1, turned.data());
  return make_array(m.values.type, shape, turned.span());
}

/// Bytes of two random int4 each, as many as a column-major matrix has.
Result<HostArray> int4_array(const Matrix& m, const HostArray& given, RandomStream stream) {
  if (is_given(given))
    return fail(ErrorCode::unsupported, fmt::format("{} is given, of int4", m.name), "random weights, or int8");
  const std::vector<std::int64_t> shape{m.batch, m.columns, m.rows / 2};
  TS_ASSIGN(const std::uint64_t bytes, byte_size(ElementType::fp32, shape));
  std::vector<float> values(bytes / sizeof(float));
  fill_integers(values, stream, 0, 255);
  return make_array(ElementType::uint8, shape, values);
}

Result<HostArray> vector_array(const std::string& name, HostArray given, std::int64_t length, ElementType type,
                               float deviation, RandomStream stream) {
  const std::vector<std::int64_t> shape{length};
  if (!is_given(given)) {
    TS_ASSIGN(RawArray<float> values, random_values(shape, {type, deviation}, stream));
    return make_array(type, shape, values.span());
  }
  if (given.shape != shape)
    return fail(ErrorCode::invalid_argument, fmt::format("{} has shape {}", name, shape_text(given.shape)),
                fmt::format("shape {} for this problem", shape_text(shape)));
  if (given.type == type) return given;
  return make_array(type, shape, given.to_floats());
}

}  // namespace

Result<GemmCase> GemmCase::create(const RandomCall<Gemm>& call, GemmInputs inputs) {
  TS_TRY(validate(call.problem));
  GemmCase out(call);
  GemmProblem& p = out.problem_;
  const std::uint64_t seed = call.numbers.seed;
  // Numbers are checked before memory and time go into tensors; a problem without rows has none to check.
  if (p.grouping != GemmGrouping::none) TS_TRY(out.add_groups());
  GemmProblem without_rows = p;
  without_rows.m = 0;
  TS_TRY(validate(without_rows, out.arguments(CallMemory())));
  const auto fill = [&](Operand& operand, const Matrix& matrix, HostArray& given, std::uint64_t stream) -> Status {
    bool shared = false;
    if (stream == kB && p.type_b == DataType::int4) {
      TS_ASSIGN(operand.array, int4_array(matrix, given, {seed, stream}));
    } else {
      TS_ASSIGN(operand.array, matrix_array(matrix, std::move(given), {seed, stream}, shared));
    }
    operand.order = matrix.order;
    operand.leading = matrix.order == MatrixOrder::row ? matrix.columns : matrix.rows;
    operand.batch = shared ? 0 : matrix.rows * matrix.columns;
    return {};
  };
  const ElementType side = memory_type_of(p.type_c);
  // Results of about 1, where activations bend and small types are at home.
  const float deviation = 1 / std::sqrt(static_cast<float>(std::max<std::int64_t>(1, depth_of(p))));
  const std::int64_t members = row_members(p);
  TS_TRY(fill(out.a_, {"a", members, p.m, p.k, p.order_a, {memory_type_of(p.type_a), 1}, Side::a}, inputs.a, kA));
  const std::int64_t members_of_b = p.packed_b ? 1 : p.batch;
  TS_TRY(fill(out.b_, {"b", members_of_b, p.k, p.n, p.order_b, {memory_type_of(p.type_b), deviation}, Side::b},
              inputs.b, kB));
  if (p.k2 != 0) {
    TS_TRY(
        fill(out.a2_, {"a2", members, p.m, p.k2, p.order_a, {memory_type_of(p.type_a), 1}, Side::a}, inputs.a2, kA2));
    TS_TRY(fill(out.b2_, {"b2", p.batch, p.k2, p.n, p.order_b, {memory_type_of(p.type_b), deviation}, Side::b},
                inputs.b2, kB2));
  }
  if (p.beta) TS_TRY(fill(out.c_, {"c", members, p.m, p.n, p.order_d, {side, 1}}, inputs.c, kC));
  std::int64_t columns = p.n;
  for (std::size_t i = 0; i < p.epilogue.size(); ++i) {
    const EpilogueOp op = p.epilogue[i];
    const std::string name = fmt::format("the tensor of {} (operation {} of the epilogue)", name_of(op), i);
    Operand& operand = out.epilogue_[i];
    HostArray& given = inputs.epilogue[i];
    if (is_gate(op)) columns /= 2;
    if (reads_tensor(op)) {
      TS_TRY(fill(operand, {name, members, p.m, columns, p.order_d, {side, 1}}, given, kEpilogue + i));
    } else if (reads_vector(op)) {
      const bool bias = op == EpilogueOp::bias || op == EpilogueOp::bias_m;
      const std::int64_t length = op == EpilogueOp::bias || op == EpilogueOp::scale_n ? columns : p.m;
      // Products of int8 are large; usual scales bring them back.
      const float size = !bias && p.type_a == DataType::int8 ? 0.01f * std::sqrt(deviation) : 1.0f;
      TS_ASSIGN(operand.array,
                vector_array(name, std::move(given), length, bias ? memory_type_of(p.type_bias) : ElementType::fp32,
                             size, {seed, kEpilogue + i}));
    } else if (is_given(given)) {
      return fail(ErrorCode::invalid_argument, fmt::format("{} reads no tensor", name_of(op)));
    }
  }
  if (p.type_a == DataType::tf32)
    for (Operand* operand : {&out.a_, &out.b_, &out.a2_, &out.b2_})
      if (!operand->array.shape.empty()) round_to_tf32(operand->array);
  if (p.group_size != 0) TS_TRY(out.add_scales(deviation));

  GemmArguments arguments = out.arguments();
  p = derived(p, arguments);
  // Sizes and numbers are checked before memory is taken for outputs: D has an address that nothing else has.
  constexpr std::uintptr_t kBeyondMemory = std::uintptr_t{1} << 62;
  arguments.d = reinterpret_cast<void*>(kBeyondMemory);
  float amax = 0;
  arguments.amax = &amax;
  GemmProblem plain = p;
  plain.packed_b = false;  // B is packed later
  TS_TRY(validate(plain, arguments));
  return out;
}

Status GemmCase::prepare(Dispatcher& dispatcher) {
  if (!problem_.packed_b) return {};
  TS_ASSIGN(const std::size_t bytes, dispatcher.packed_b_bytes(problem_));
  packed_b_.reserve(bytes);
  TS_TRY(dispatcher.pack_b(problem_, {b_.array.data.data(), b_.leading, 0}, packed_b_.data()));
  packed_bytes_ = bytes;
  return {};
}

Status GemmCase::add_scales(float deviation) {
  const GemmProblem& p = problem_;
  const std::int64_t blocks = p.group_size == 0 ? 0 : (p.k + p.group_size - 1) / p.group_size;
  const auto fill = [&](Scales& scales, std::int64_t batch, std::int64_t rows, std::int64_t lines, float size,
                        std::uint64_t stream) -> Status {
    scales.rows = rows;
    scales.lines = lines;
    const std::vector<std::int64_t> shape{batch, rows, blocks};
    TS_ASSIGN(const std::uint64_t bytes, byte_size(ElementType::fp32, shape));
    std::vector<float> values(bytes / sizeof(float));
    fill_uniform(values, {numbers_.seed, stream}, 0.5F * size, 1.5F * size);
    scales.array = make_array(memory_type_of(p.type_scale), shape, values);
    return {};
  };
  if (p.zero_points) {
    zero_b_.rows = p.n;
    const std::vector<std::int64_t> shape{p.batch, p.n, blocks};
    TS_ASSIGN(const std::uint64_t size, byte_size(ElementType::int8, shape));
    std::vector<float> values(size);
    const int most = p.type_b == DataType::int4 ? 8 : 100;
    fill_integers(values, {numbers_.seed, kZeroB}, -most, most);
    zero_b_.array = make_array(ElementType::int8, shape, values);
  }
  if (has_weights(p))  // of integers up to 100, or 8
    return fill(scale_b_, p.batch, p.n, 1, deviation * (p.type_b == DataType::int4 ? 0.2F : 0.017F), kScaleB);
  TS_TRY(fill(scale_a_, row_members(p), p.m, 1, 1, kScaleA));
  return fill(scale_b_, p.batch, (p.n + kBlockDepth - 1) / kBlockDepth, kBlockDepth, 1, kScaleB);
}

Status GemmCase::add_groups() {
  const GemmProblem& p = problem_;
  const auto groups = static_cast<std::size_t>(p.batch);
  if (!numbers_.group_rows.empty() && numbers_.group_rows.size() != groups)
    return fail(ErrorCode::invalid_argument, fmt::format("rows of {} groups are given", numbers_.group_rows.size()),
                fmt::format("of {}", p.batch));
  const bool contiguous = p.grouping == GemmGrouping::contiguous;
  std::int64_t before = 0;
  for (std::size_t g = 0; g < groups; ++g) {
    const auto at = static_cast<std::int64_t>(g);
    const std::int64_t even = contiguous ? p.m * (at + 1) / p.batch - p.m * at / p.batch : p.m;
    const std::int64_t rows = numbers_.group_rows.empty() ? even : numbers_.group_rows[g];
    before = contiguous ? before + rows : rows;
    group_ends_.push_back(static_cast<std::int32_t>(before));
  }
  return check_group_ends(p, group_ends_.data());
}

GemmScales GemmCase::scale_strides(const Scales& scales, std::int64_t batch) const {
  if (scales.array.data.empty()) return {};
  const std::int64_t blocks = (problem_.k + problem_.group_size - 1) / problem_.group_size;
  return {nullptr, blocks, 1, batch > 1 ? scales.rows * blocks : 0};
}

GemmScaleView GemmCase::scale_view(const Scales& scales, std::int64_t batch) const {
  if (scales.array.data.empty()) return {};
  const GemmScales a = scale_strides(scales, batch);
  return {.view = {scales.array.data.data(), scales.array.type, {.batch = a.batch, .row = a.row, .column = a.block}},
          .lines = scales.lines,
          .depth = problem_.group_size};
}

ElementType GemmCase::output_type() const {
  return memory_type_of(problem_.type_d);
}

double GemmCase::flops() const {
  if (problem_.grouping == GemmGrouping::none) return flops_of(problem_);
  return 2.0 * static_cast<double>(tensors().total_rows()) * static_cast<double>(problem_.n) *
         static_cast<double>(depth_of(problem_));
}

double GemmCase::bytes() const {
  return bytes_of(problem_);
}

bool GemmCase::wants_amax() const {
  const GemmEpilogue& e = problem_.epilogue;
  return !e.empty() && e[e.size() - 1] == EpilogueOp::amax;
}

std::vector<OutputSpec> GemmCase::outputs() const {
  const GemmArguments dense = dense_arguments(problem_);
  const bool by_rows = problem_.order_d == MatrixOrder::row;
  const std::int64_t members = row_members(problem_);
  std::vector<OutputSpec> out{{.name = "d",
                               .type = output_type(),
                               .extents = {members, 1, problem_.m, problem_.columns_of_d()},
                               .strides = {.batch = dense.d_batch,
                                           .row = by_rows ? dense.d_leading : 1,
                                           .column = by_rows ? 1 : dense.d_leading},
                               .axes = members == 1 ? std::vector{Axis::row, Axis::column}
                                                    : std::vector{Axis::batch, Axis::row, Axis::column}}};
  if (problem_.grouping != GemmGrouping::none)
    out.front().written = [tensors = tensors()](std::int64_t matrix, std::int64_t row) {
      return tensors.is_computed(matrix, row);
    };
  if (wants_amax()) out.push_back({.name = "amax", .type = ElementType::fp32, .accumulates = true});
  return out;
}

std::vector<OutputSpec> GemmCase::guarded_outputs(DeviceKind kind) const {
  constexpr std::int64_t kGap = 5;  // elements between lines
  // Kernels on devices may read and write rows of aligned problems 16 bytes at a time: 16 elements of the smallest
  // type.
  const bool any = kind == DeviceKind::cpu || (problem_.unaligned && !problem_.aligned_d);
  const std::int64_t step = any ? 1 : 16;
  const auto with_gap = [&](std::int64_t length) { return (length + kGap + step - 1) / step * step; };
  std::vector<OutputSpec> out = outputs();
  OutputSpec& d = out.front();
  const bool by_rows = problem_.order_d == MatrixOrder::row;
  const std::int64_t leading = with_gap(by_rows ? d.extents.column : d.extents.row);
  (by_rows ? d.strides.row : d.strides.column) = leading;
  d.strides.batch = with_gap((by_rows ? d.extents.row : d.extents.column) * leading);
  return out;
}

GemmArguments GemmCase::arguments(const CallMemory& memory) const {
  GemmArguments a = dense_arguments(problem_);
  a.a = {memory.input("a"), a_.leading, a_.batch};
  a.b = {memory.input("b"), b_.leading, b_.batch};
  if (packed_bytes_ > 0) a.b = {memory.input("b"), static_cast<std::int64_t>(packed_bytes_), 0};
  a.a2 = {memory.input("a2"), a2_.leading, a2_.batch};
  a.b2 = {memory.input("b2"), b2_.leading, b2_.batch};
  a.c = {memory.input("c"), c_.leading, c_.batch};
  a.scale_a = scale_strides(scale_a_, row_members(problem_));
  a.scale_b = scale_strides(scale_b_, problem_.batch);
  a.zero_b = scale_strides(zero_b_, problem_.batch);
  a.scale_a.data = memory.input("scale_a");
  a.scale_b.data = memory.input("scale_b");
  a.zero_b.data = memory.input("zero_b");
  a.group_ends = memory.input<std::int32_t>("group_ends");
  a.d = memory.output("d");
  if (const OutputSpec* d = memory.output_spec("d")) {
    a.d_leading = problem_.order_d == MatrixOrder::row ? d->strides.row : d->strides.column;
    a.d_batch = d->strides.batch;
  }
  a.alpha = numbers_.alpha;
  a.beta = numbers_.beta;
  a.amax = memory.output<float>("amax");
  for (std::size_t i = 0; i < problem_.epilogue.size(); ++i) {
    const Operand& operand = epilogue_[i];
    a.epilogue[i] = {.data = memory.input(fmt::format("epilogue{}", i)),
                     .leading = operand.leading,
                     .batch = operand.batch,
                     .low = numbers_.clamp_low,
                     .high = numbers_.clamp_high};
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
  out.a2 = a2_.view();
  out.b2 = b2_.view();
  out.c = c_.view();
  out.b_is_weights = has_weights(problem_);
  out.b_is_int4 = problem_.type_b == DataType::int4;
  out.scale_a = scale_view(scale_a_, row_members(problem_));
  out.scale_b = scale_view(scale_b_, problem_.batch);
  out.zero_b = scale_view(zero_b_, problem_.batch);
  out.contiguous = problem_.grouping == GemmGrouping::contiguous;
  std::int64_t before = 0;
  for (std::size_t g = 0; g < group_ends_.size(); ++g) {
    const GemmGroup group = group_of(problem_, group_ends_.data(), static_cast<std::int64_t>(g));
    out.groups.push_back({.first = group.first, .count = group.rows(), .before = before});
    before += group.rows();
  }
  out.batch = problem_.batch;
  out.m = problem_.m;
  out.n = problem_.n;
  out.k = problem_.k;
  out.k2 = problem_.k2;
  out.alpha = numbers_.alpha;
  out.beta = problem_.beta ? numbers_.beta : 0.0f;
  for (std::size_t i = 0; i < problem_.epilogue.size(); ++i) {
    const EpilogueOp op = problem_.epilogue[i];
    GemmStep step{.op = op, .operand = epilogue_[i].view(), .low = numbers_.clamp_low, .high = numbers_.clamp_high};
    if (reads_vector(op)) {
      const bool along_n = op == EpilogueOp::bias || op == EpilogueOp::scale_n;
      step.operand.strides = {.row = along_n ? 0 : 1, .column = along_n ? 1 : 0};
    }
    out.epilogue.push_back(step);
  }
  return out;
}

std::vector<NamedInput> GemmCase::inputs() const {
  std::vector<NamedInput> out;
  const auto add = [&](std::string name, const HostArray& array) {
    out.push_back({std::move(name), array.data.data(), array.data.size()});
  };
  add("a", a_.array);
  if (packed_bytes_ > 0)
    out.push_back({"b", packed_b_.data(), packed_bytes_});
  else
    add("b", b_.array);
  add("a2", a2_.array);
  add("b2", b2_.array);
  add("c", c_.array);
  for (std::size_t i = 0; i < problem_.epilogue.size(); ++i) add(fmt::format("epilogue{}", i), epilogue_[i].array);
  add("scale_a", scale_a_.array);
  add("scale_b", scale_b_.array);
  add("zero_b", zero_b_.array);
  out.push_back({"group_ends", group_ends_.data(), group_ends_.size() * sizeof(std::int32_t)});
  return out;
}

Result<std::unique_ptr<const Reference>> GemmCase::reference(unsigned threads) const {
  TS_ASSIGN(GemmReference made, GemmReference::make(tensors(), output_type(), threads));
  return std::make_unique<const GemmReference>(std::move(made));
}

Result<std::unique_ptr<const Reference>> GemmCase::sampled_reference(unsigned threads) const {
  constexpr double kFewFlops = 4e9;  // the whole reference takes less than the first looks of a race
  if (flops() < kFewFlops) return reference(threads);
  TS_ASSIGN(GemmReference made, GemmReference::make_sampled(tensors(), output_type(), threads));
  return std::make_unique<const GemmReference>(std::move(made));
}

Status GemmCase::run_naive(unsigned threads) const {
  if (!is_floating(output_type()))
    return fail(ErrorCode::unsupported, fmt::format("there is no naive computation of {}", to_string(output_type())),
                "a floating type of D");
  const auto naive = naive_gemm(tensors(), output_type(), threads);
  return naive ? Status() : std::unexpected(naive.error());
}

}  // namespace tilesmith
