#include "trial/conv/case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/random.hpp"
#include "problem/conv/problem.hpp"
#include "problem/derive.hpp"
#include "vocabulary/memory_type.hpp"
#include "vocabulary/traits.hpp"

namespace tilesmith {
namespace {

/// Stream numbers of the random tensors of one seed.
enum ConvStream : std::uint64_t { kX = 1, kW, kY, kConvEpilogue };

/// Kernels of a GPU may write pixels of aligned problems 16 bytes at a time, and ask that they be evenly apart.
bool writes_chunks(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::cpu:
      return false;
    case DeviceKind::cuda:
    case DeviceKind::hip:
      return true;
  }
  std::unreachable();
}

std::int64_t volume_of(const ConvSpatial& size) {
  return size[0] * size[1] * size[2];
}

/// A tensor's shape in a layout: of x or y `members` images, of w filters.
std::vector<std::int64_t> shape_of(ConvLayout layout, std::int64_t members, std::int64_t channels,
                                   const ConvSpatial& size) {
  if (layout == ConvLayout::channels_last) return {members, size[0], size[1], size[2], channels};
  return {members, channels, size[0], size[1], size[2]};
}

std::vector<std::int64_t> without_ones(std::vector<std::int64_t> shape) {
  std::erase(shape, 1);
  return shape;
}

constexpr int kLargestInteger = 100;  // of random int8

/// The given array, or random numbers: whole ones of int8, which has no others.
Result<HostArray> conv_array(const std::string& name, HostArray given, const std::vector<std::int64_t>& shape,
                             DataType type, float deviation, RandomStream stream) {
  const ElementType element = memory_type_of(type);
  if (given.data.empty()) {
    TS_ASSIGN(const std::uint64_t bytes, byte_size(ElementType::fp32, shape));
    std::vector<float> values(bytes / sizeof(float));
    if (type == DataType::int8)
      fill_integers(values, stream, -kLargestInteger, kLargestInteger);
    else
      fill_normal(values, stream, deviation);
    return make_array(element, shape, values);
  }
  if (without_ones(given.shape) != without_ones(shape))
    return fail(ErrorCode::invalid_argument, fmt::format("{} has shape {}", name, shape_text(given.shape)),
                fmt::format("shape {} for this problem", shape_text(shape)));
  return make_array(element, shape, given.to_floats());
}

ConvTensorView view_of(const HostArray& array, const ConvStrides& s) {
  return {array.data.data(), array.type, s.batch, s.group, s.channel, s.spatial};
}

bool reads_something(EpilogueOp op) {
  return reads_vector(op) || reads_tensor(op);
}

}  // namespace

Result<ConvCase> ConvCase::create(const RandomCall<Conv>& call, ConvInputs given) {
  TS_TRY(validate(call.problem));
  ConvCase out(call);
  out.problem_ = derived(call.problem, dense_arguments(call.problem, call.numbers.layout));
  const ConvProblem& p = out.problem_;
  const ConvLayout layout = call.numbers.layout;
  const std::uint64_t seed = call.numbers.seed;
  const ConvTensors tensors = out.tensors();
  // Results of about 1, where activations bend and small types are at home.
  const float small = 1 / std::sqrt(static_cast<float>(std::max<std::int64_t>(1, tensors.depth())));
  struct Input {
    const char* name;
    HostArray& array;
    HostArray& given;
    std::vector<std::int64_t> shape;
    ConvDirection written_by;
    float deviation;
    std::uint64_t stream;
  };
  const bool weight = p.direction == ConvDirection::backward_weight;
  Input inputs[] = {
      {"x", out.x_, given.x, shape_of(layout, p.batch, p.groups * p.c, p.in()), ConvDirection::backward_data, 1, kX},
      {"w", out.w_, given.w, shape_of(layout, p.groups * p.k, p.c, p.filter()), ConvDirection::backward_weight, small,
       kW},
      {"y", out.y_, given.y, shape_of(layout, p.batch, p.groups * p.k, p.out()), ConvDirection::forward,
       weight ? small : 1, kY}};
  for (Input& input : inputs) {
    if (input.written_by != p.direction) {
      TS_ASSIGN(input.array, conv_array(input.name, std::move(input.given), input.shape, p.data_type, input.deviation,
                                        {seed, input.stream}));
    } else if (!input.given.data.empty()) {
      return fail(ErrorCode::invalid_argument, fmt::format("{} is given, which is the result", input.name),
                  "the other two tensors");
    }
  }
  const bool forward = p.direction == ConvDirection::forward;
  const std::int64_t channels = p.groups * (forward ? p.k : p.c);
  for (std::size_t i = 0; i < p.epilogue.size(); ++i) {
    const EpilogueOp op = p.epilogue[i];
    const std::string name = fmt::format("the tensor of {} (operation {} of the epilogue)", name_of(op), i);
    if (!reads_something(op)) continue;
    const DataType type = op == EpilogueOp::bias      ? p.type_bias
                          : op == EpilogueOp::scale_n ? DataType::fp32
                                                      : p.type_out;
    const std::vector<std::int64_t> shape =
        reads_vector(op) ? std::vector{channels} : shape_of(layout, p.batch, channels, forward ? p.out() : p.in());
    // Products of int8 are large; usual scales bring their sums back, to some dozens where the result is whole.
    const float brought_back = small / (kLargestInteger * kLargestInteger / 3.0F);
    const float deviation = p.data_type != DataType::int8 || op != EpilogueOp::scale_n ? 1
                            : p.type_out == DataType::int8                             ? 30 * brought_back
                                                                                       : brought_back;
    TS_ASSIGN(out.epilogue_[i], conv_array(name, std::move(given.epilogue[i]), shape, type, deviation,
                                           {seed, kConvEpilogue + static_cast<std::uint64_t>(i)}));
  }
  return out;
}

Status ConvCase::prepare(Dispatcher& dispatcher) {
  if (!problem_.packed_w) return {};
  TS_ASSIGN(const std::size_t bytes, dispatcher.packed_w_bytes(problem_));
  packed_w_.reserve(bytes);
  TS_TRY(dispatcher.pack_w(problem_, w_.data.data(), dense().w_strides, packed_w_.data()));
  packed_bytes_ = bytes;
  return {};
}

ConvArguments ConvCase::dense() const {
  ConvProblem plain = problem_;
  plain.packed_w = false;
  return dense_arguments(plain, numbers_.layout);
}

std::vector<NamedInput> ConvCase::inputs() const {
  std::vector<NamedInput> out;
  const auto add = [&](std::string name, const HostArray& array) {
    out.push_back({std::move(name), array.data.data(), array.data.size()});
  };
  add("x", x_);
  if (packed_bytes_ > 0)
    out.push_back({"w", packed_w_.data(), packed_bytes_});
  else
    add("w", w_);
  add("y", y_);
  for (std::size_t i = 0; i < problem_.epilogue.size(); ++i) add(fmt::format("epilogue{}", i), epilogue_[i]);
  return out;
}

std::vector<OutputSpec> ConvCase::outputs() const {
  const ConvProblem& p = problem_;
  const ConvArguments dense = dense_arguments(p, numbers_.layout);
  const bool weight = p.direction == ConvDirection::backward_weight, forward = p.direction == ConvDirection::forward;
  const ConvStrides& s = weight ? dense.w_strides : forward ? dense.y_strides : dense.x_strides;
  const ConvSpatial size = weight ? p.filter() : forward ? p.out() : p.in();
  const std::int64_t members = weight ? p.groups * p.k : p.batch;
  const std::int64_t channels = weight ? p.c : p.groups * (forward ? p.k : p.c);
  const bool last = numbers_.layout == ConvLayout::channels_last;
  return {{.name = "out",
           .type = memory_type_of(p.type_out),
           .extents = {members, 1, volume_of(size), channels},
           .strides = {.batch = s.batch, .head = 0, .row = s.spatial[2], .column = s.channel},
           .axes = last ? std::vector{Axis::batch, Axis::row, Axis::column}
                        : std::vector{Axis::batch, Axis::column, Axis::row},
           .shape = shape_of(numbers_.layout, members, channels, size)}};
}

std::vector<OutputSpec> ConvCase::guarded_outputs(DeviceKind kind) const {
  const bool even = writes_chunks(kind) && !problem_.unaligned;
  std::vector<OutputSpec> out = outputs();
  OutputSpec& result = out.front();
  // Elements. With channels first lines of an even number of pixels begin at even places, not all of them at multiples
  // of four, for kernels that store pairs there.
  const bool pairs = numbers_.layout == ConvLayout::channels_first && result.extents.row % 2 == 0;
  const std::int64_t gap = even ? 16 : pairs ? 6 : 5;
  // Aligned, channels lie together: with channels first, too, where an image is one pixel.
  const bool last = even || numbers_.layout == ConvLayout::channels_last;
  const std::int64_t lines = last ? result.extents.row : result.extents.column;
  const std::int64_t length = (last ? result.extents.column : result.extents.row) + gap;
  (last ? result.strides.row : result.strides.column) = length;
  result.strides.batch = lines * length + (even ? 0 : gap);
  return out;
}

ConvArguments ConvCase::arguments(const CallMemory& memory) const {
  ConvArguments a = dense_arguments(problem_, numbers_.layout);
  if (problem_.packed_w) a.w_strides.batch = static_cast<std::int64_t>(packed_bytes_);
  a.x = memory.input("x");
  a.w = memory.input("w");
  a.y = memory.input("y");
  a.out = memory.output("out");
  if (const OutputSpec* spec = memory.output_spec("out")) {
    const bool weight = problem_.direction == ConvDirection::backward_weight;
    const bool forward = problem_.direction == ConvDirection::forward;
    const ConvSpatial size = weight ? problem_.filter() : forward ? problem_.out() : problem_.in();
    ConvStrides& s = weight ? a.w_strides : forward ? a.y_strides : a.x_strides;
    s.batch = spec->strides.batch;
    s.channel = spec->strides.column;
    s.spatial = {size[1] * size[2] * spec->strides.row, size[2] * spec->strides.row, spec->strides.row};
    s.group = weight ? problem_.k * s.batch : (forward ? problem_.k : problem_.c) * s.channel;
  }
  for (std::size_t i = 0; i < problem_.epilogue.size(); ++i) {
    a.epilogue[i].data = memory.input(fmt::format("epilogue{}", i));
    a.epilogue[i].low = numbers_.clamp_low;
    a.epilogue[i].high = numbers_.clamp_high;
  }
  return a;
}

ConvTensors ConvCase::tensors() const {
  const ConvProblem& p = problem_;
  const ConvArguments dense = this->dense();
  ConvTensors out{.direction = p.direction,
                  .x = view_of(x_, dense.x_strides),
                  .w = view_of(w_, dense.w_strides),
                  .y = view_of(y_, dense.y_strides),
                  .batch = p.batch,
                  .groups = p.groups,
                  .c = p.c,
                  .k = p.k,
                  .in = p.in(),
                  .out = p.out(),
                  .filter = p.filter(),
                  .stride = p.stride(),
                  .dilation = p.dilation(),
                  .pad = p.pad()};
  const std::int64_t channels = p.direction == ConvDirection::forward ? p.k : p.c;
  for (std::size_t i = 0; i < p.epilogue.size(); ++i) {
    const EpilogueOp op = p.epilogue[i];
    ConvStep step{.op = op, .low = numbers_.clamp_low, .high = numbers_.clamp_high};
    step.operand = view_of(epilogue_[i],
                           reads_vector(op) ? ConvStrides{.group = channels, .channel = 1} : dense.epilogue[i].strides);
    out.epilogue.push_back(step);
  }
  return out;
}

Result<std::unique_ptr<const Reference>> ConvCase::reference(unsigned threads) const {
  TS_ASSIGN(ConvReference made, ConvReference::make(tensors(), memory_type_of(problem_.type_out), threads));
  return std::make_unique<const ConvReference>(std::move(made));
}

Status ConvCase::run_naive(unsigned) const {
  return fail(ErrorCode::unsupported, "convolution has no naive computation", "--op attention_fwd, or gemm");
}

double ConvCase::flops() const {
  return flops_of(problem_);
}

double ConvCase::bytes() const {
  return bytes_of(problem_);
}

}  // namespace tilesmith
