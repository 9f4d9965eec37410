#include "problem/conv/problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "base/error.hpp"
#include "problem/argument_checks.hpp"
#include "problem/overlap.hpp"
#include "vocabulary/data_type.hpp"
#include "vocabulary/traits.hpp"

namespace tilesmith {
namespace {

constexpr std::string_view kPackedWanted = "a buffer of packed_w_bytes";
constexpr std::array<const char*, 3> kCoordinates{"d", "h", "w"};
constexpr std::array<const char*, GemmEpilogue::kMax> kEpilogueNames{"epilogue[0]", "epilogue[1]", "epilogue[2]",
                                                                     "epilogue[3]", "epilogue[4]", "epilogue[5]",
                                                                     "epilogue[6]", "epilogue[7]"};
/// Beyond every use, and products of two and sums of a few stay below 2^62.
constexpr std::int64_t kMaxStep = std::int64_t{1} << 20;

std::int64_t volume(const ConvSpatial& size) {
  return size[0] * size[1] * size[2];
}

/// Pixels of x that one pixel of y needs.
std::int64_t reach(const ConvProblem& p, std::size_t d) {
  return p.dilation()[d] * (p.filter()[d] - 1) + 1;
}

Status check_type(std::string_view name, DataType type, std::initializer_list<DataType> known) {
  if (std::ranges::find(known, type) != known.end()) return {};
  std::string hint;
  for (const DataType one : known) hint += (hint.empty() ? "" : ", ") + std::string(name_of(one));
  return fail(ErrorCode::unsupported, fmt::format("{} of a convolution is {}", name, name_of(type)), hint);
}

Status check_coordinate(const ConvProblem& p, std::size_t d) {
  const char* const name = kCoordinates[d];
  TS_TRY(check_dimension(fmt::format("in_{}", name), p.in()[d], 1));
  TS_TRY(check_dimension(fmt::format("filter_{}", name), p.filter()[d], 1, kMaxStep));
  TS_TRY(check_dimension(fmt::format("stride_{}", name), p.stride()[d], 1, kMaxStep));
  TS_TRY(check_dimension(fmt::format("dilation_{}", name), p.dilation()[d], 1, kMaxStep));
  TS_TRY(check_dimension(fmt::format("pad_{}", name), p.pad()[d], 0, kMaxStep));
  TS_TRY(check_dimension(fmt::format("pad_high_{}", name), p.pad_high()[d], 0, kMaxStep));
  const std::int64_t padded = p.in()[d] + p.pad()[d] + p.pad_high()[d];
  if (padded >= reach(p, d)) return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("the filter reaches over {} pixels of coordinate {}, which has {} with its padding",
                          reach(p, d), name, padded),
              "a smaller filter or dilation, or more padding");
}

Status check_epilogue(const ConvProblem& p) {
  if (p.direction == ConvDirection::backward_weight && !p.epilogue.empty())
    return fail(ErrorCode::unsupported, "a convolution's backward weight has an epilogue", "none");
  for (const EpilogueOp op : p.epilogue)
    if (op == EpilogueOp::bias_m || op == EpilogueOp::scale_m || is_gate(op) || op == EpilogueOp::amax)
      return fail(ErrorCode::unsupported, fmt::format("{} in the epilogue of a convolution", name_of(op)),
                  "bias, scale_n, add, multiply, relu, gelu, gelu_tanh, silu, sigmoid, tanh or clamp");
  return {};
}

Status check_packed(const ConvProblem& p) {
  if (!p.packed_w || p.direction != ConvDirection::backward_weight) return {};
  return fail(ErrorCode::unsupported, "a packed w in backward weight, whose result w is", "fwd or bwd_data");
}

/// A tensor as checks see it.
struct Tensor {
  const char* name;
  std::int64_t members, groups, channels;
  ConvSpatial size;
  ConvStrides strides;
};

Tensor tensor_x(const ConvProblem& p, const ConvStrides& s) {
  return {"x", p.batch, p.groups, p.c, p.in(), s};
}
Tensor tensor_w(const ConvProblem& p, const ConvStrides& s) {
  return {"w", p.k, p.groups, p.c, p.filter(), s};
}
Tensor tensor_y(const ConvProblem& p, const ConvStrides& s) {
  return {"y", p.batch, p.groups, p.k, p.out(), s};
}

std::array<SizeAndStride, 6> dimensions_of(const Tensor& t) {
  return {{{t.members, t.strides.batch},
           {t.groups, t.strides.group},
           {t.channels, t.strides.channel},
           {t.size[0], t.strides.spatial[0]},
           {t.size[1], t.strides.spatial[1]},
           {t.size[2], t.strides.spatial[2]}}};
}

/// Of tensors of the same sizes: whether each element lies as far from the first in both.
bool lie_alike(const Tensor& x, const Tensor& y) {
  return std::ranges::equal(dimensions_of(x), dimensions_of(y), [](const SizeAndStride& a, const SizeAndStride& b) {
    return a.size == b.size && (a.size <= 1 || a.stride == b.stride);
  });
}

Status check_tensor(const Tensor& t, DataType type) {
  const auto d = dimensions_of(t);
  return check_strides(t.name, {d[0], d[1], d[2], d[3], d[4], d[5]}, bits_of(type) / 8);
}

ConvStrides dense_strides(const Tensor& t, ConvLayout layout, bool filters) {
  const std::int64_t pixels = volume(t.size), channels = filters ? t.channels : t.groups * t.channels;
  const bool last = layout == ConvLayout::channels_last;
  const std::int64_t pixel = last ? channels : 1;
  ConvStrides s;
  s.channel = last ? 1 : pixels;
  s.spatial = {t.size[1] * t.size[2] * pixel, t.size[2] * pixel, pixel};
  s.batch = pixels * channels;
  s.group = filters ? t.members * s.batch : t.channels * s.channel;
  return s;
}

TsGemmElement kernel_element(DataType type) {
  switch (type) {
    case DataType::bf16:
      return TS_BF16;
    case DataType::fp16:
      return TS_FP16;
    case DataType::int8:
      return TS_INT8;
    default:
      return TS_FP32;
  }
}

Status check_types(const ConvProblem& p) {
  const bool forward = p.direction == ConvDirection::forward;
  if (!forward && bits_of(p.data_type) == 8)
    return fail(ErrorCode::unsupported,
                fmt::format("{} of a convolution's tensors of {}", name_of(p.direction), name_of(p.data_type)),
                "fwd, or fp32, fp16 or bf16");
  TS_TRY(check_type("data_type", p.data_type,
                    {DataType::fp32, DataType::fp16, DataType::bf16, DataType::fp8, DataType::int8}));
  if (p.data_type == DataType::int8)
    TS_TRY(check_type("type_out", p.type_out, {DataType::int8, DataType::fp32, DataType::fp16, DataType::bf16}));
  else if (p.data_type == DataType::fp8)
    TS_TRY(check_type("type_out", p.type_out, {DataType::fp32, DataType::fp16, DataType::bf16}));
  else
    TS_TRY(check_type("type_out", p.type_out, {p.data_type, DataType::fp32}));
  return check_type("type_bias", p.type_bias, {DataType::fp32, DataType::fp16, DataType::bf16});
}

// Kernels read the caller's operands as they lie.
static_assert(sizeof(TsConvOperand) == sizeof(ConvOperand) &&
              offsetof(TsConvOperand, data) == offsetof(ConvOperand, data) &&
              offsetof(TsConvOperand, strides) == offsetof(ConvOperand, strides) &&
              offsetof(TsConvOperand, low) == offsetof(ConvOperand, low) &&
              offsetof(TsConvOperand, high) == offsetof(ConvOperand, high));
static_assert(sizeof(TsConvStrides) == sizeof(ConvStrides) &&
              offsetof(TsConvStrides, group) == offsetof(ConvStrides, group) &&
              offsetof(TsConvStrides, channel) == offsetof(ConvStrides, channel) &&
              offsetof(TsConvStrides, spatial) == offsetof(ConvStrides, spatial));

}  // namespace

Status validate(const ConvProblem& p) {
  TS_TRY(check_types(p));
  TS_TRY(check_dimension("batch", p.batch, 0));
  TS_TRY(check_dimension("groups", p.groups, 1));
  TS_TRY(check_dimension("c", p.c, 1));
  TS_TRY(check_dimension("k", p.k, 1));
  for (std::size_t d = 0; d < 3; ++d) TS_TRY(check_coordinate(p, d));
  TS_TRY(check_epilogue(p));
  TS_TRY(check_packed(p));
  const ConvSpatial in = p.in(), out = p.out(), filter = p.filter();
  if (!product_fits({p.batch, p.groups, p.c, in[0], in[1], in[2], 16}) ||
      !product_fits({p.batch, p.groups, p.k, out[0], out[1], out[2], 16}) ||
      !product_fits({p.groups, p.k, p.c, filter[0], filter[1], filter[2], 16}))
    return fail(ErrorCode::invalid_argument, "a tensor of the convolution has 2^58 elements or more", "fewer");
  return {};
}

ConvSignature signature_of(const ConvProblem& p) {
  ConvSignature s;
  s.direction = p.direction;
  s.data_type = p.data_type;
  if (p.data_type == DataType::int8) s.accumulator = DataType::int32;
  s.spatial_dims = 3;
  return s;
}

std::int64_t taps_of(const ConvProblem& p) {
  return volume(p.filter());
}
std::int64_t pixels_of_x(const ConvProblem& p) {
  return p.batch * volume(p.in());
}
std::int64_t pixels_of_y(const ConvProblem& p) {
  return p.batch * volume(p.out());
}

double flops_of(const ConvProblem& p) {
  return 2.0 * static_cast<double>(pixels_of_y(p)) * static_cast<double>(p.groups * p.k) *
         static_cast<double>(p.c * taps_of(p));
}

double bytes_of(const ConvProblem& p) {
  if (is_empty(p)) return 0;
  const double read = bits_of(p.data_type) / 8, written = bits_of(p.type_out) / 8;
  const auto bytes = [&](ConvDirection written_by, std::int64_t elements) {
    return static_cast<double>(elements) * (p.direction == written_by ? written : read);
  };
  return bytes(ConvDirection::forward, pixels_of_y(p) * p.groups * p.k) +
         bytes(ConvDirection::backward_data, pixels_of_x(p) * p.groups * p.c) +
         bytes(ConvDirection::backward_weight, p.groups * p.k * p.c * taps_of(p));
}

DataType usual_type_out(DataType data_type) {
  if (data_type == DataType::int8) return DataType::fp32;
  return data_type == DataType::fp8 ? DataType::bf16 : data_type;
}

bool is_empty(const ConvProblem& p) {
  return p.batch == 0 && p.direction != ConvDirection::backward_weight;
}

Status validate(const ConvProblem& p, const ConvArguments& a) {
  const bool some = p.batch > 0;
  const bool forward = p.direction == ConvDirection::forward, data = p.direction == ConvDirection::backward_data;
  TS_TRY(check_pointer("x", a.x, some && !data, "the image"));
  TS_TRY(check_pointer("w", a.w, some && (forward || data), p.packed_w ? kPackedWanted : "the filters"));
  if (p.packed_w && some) TS_TRY(check_packed_place("w", a.w, kPackedWanted));
  TS_TRY(check_pointer("y", a.y, some && !forward, data ? "the gradient of the result" : "the result's gradient"));
  TS_TRY(check_pointer("out", a.out, !is_empty(p), "a tensor for the result"));
  const Tensor tensors[] = {tensor_y(p, a.y_strides), tensor_x(p, a.x_strides), tensor_w(p, a.w_strides)};
  for (const Tensor& t : tensors) {
    if (p.packed_w && t.name == tensors[2].name) continue;
    const bool written = &t == &tensors[static_cast<std::size_t>(p.direction)];
    TS_TRY(check_tensor(t, written ? p.type_out : p.data_type));
    if (!written) continue;
    std::array<SizeAndStride, 6> dimensions = dimensions_of(t);
    TS_TRY(check_apart(t.name, std::span<SizeAndStride>(dimensions)));
  }
  const auto& result = tensors[static_cast<std::size_t>(p.direction)];
  const auto apart = [&](const Tensor& t, const void* at, DataType type, bool may_be_result) -> Status {
    const auto own = dimensions_of(result), other = dimensions_of(t);
    if (is_empty(p) || (may_be_result && at == a.out && lie_alike(result, t)) ||
        !may_overlap({a.out, bits_of(p.type_out) / 8, own}, {at, bits_of(type) / 8, other}))
      return {};
    return fail(ErrorCode::invalid_argument, fmt::format("out overlaps {}", t.name),
                may_be_result ? fmt::format("memory of its own, or exactly that of {}", t.name) : "memory of its own");
  };
  const void* const places[] = {a.y, a.x, a.w};
  for (std::size_t i = 0; i < std::size(tensors); ++i)
    if (&tensors[i] != &result && !(p.packed_w && i == 2)) TS_TRY(apart(tensors[i], places[i], p.data_type, false));
  for (std::size_t i = 0; i < p.epilogue.size(); ++i) {
    const EpilogueOp op = p.epilogue[i];
    const ConvOperand& operand = a.epilogue[i];
    if (reads_vector(op) || reads_tensor(op))
      TS_TRY(check_pointer(kEpilogueNames[i], operand.data, some, "what the operation reads"));
    if (reads_tensor(op)) {
      Tensor t = forward ? tensor_y(p, operand.strides) : tensor_x(p, operand.strides);
      t.name = "a tensor of the epilogue";
      TS_TRY(check_tensor(t, p.type_out));
      TS_TRY(apart(t, operand.data, p.type_out, true));
    }
    if (op == EpilogueOp::clamp && !(operand.low <= operand.high))
      return fail(ErrorCode::invalid_argument, fmt::format("clamp from {} to {}", operand.low, operand.high),
                  "low at most high");
  }
  return {};
}

ConvArguments dense_arguments(const ConvProblem& p, ConvLayout layout) {
  ConvArguments a;
  a.x_strides = dense_strides(tensor_x(p, {}), layout, false);
  if (!p.packed_w) a.w_strides = dense_strides(tensor_w(p, {}), layout, true);
  a.y_strides = dense_strides(tensor_y(p, {}), layout, false);
  for (ConvOperand& operand : a.epilogue)
    operand.strides = p.direction == ConvDirection::forward ? a.y_strides : a.x_strides;
  return a;
}

ConvProblem packing_of(const ConvProblem& p) {
  return {.direction = p.direction,
          .data_type = p.data_type,
          .type_out = DataType::fp32,
          .groups = p.groups,
          .c = p.c,
          .k = p.k,
          .in_d = p.filter_d,
          .in_h = p.filter_h,
          .in_w = reach(p, 2),
          .filter_d = p.filter_d,
          .filter_h = p.filter_h,
          .filter_w = p.filter_w,
          .dilation_w = p.dilation_w,
          .packed_w = true};
}

Status validate_packing(const ConvProblem& p, const void* w, const ConvStrides& strides, const void* packed,
                        std::size_t packed_bytes) {
  TS_TRY(check_pointer("w", w, true, "the filters"));
  const Tensor filters = tensor_w(p, strides);
  TS_TRY(check_tensor(filters, p.data_type));
  TS_TRY(check_packed_place("packed", packed, kPackedWanted));
  std::int64_t last = (p.k - 1) * strides.batch + (p.groups - 1) * strides.group + (p.c - 1) * strides.channel;
  for (std::size_t d = 0; d < 3; ++d) last += (filters.size[d] - 1) * strides.spatial[d];
  const auto* const from = static_cast<const std::byte*>(w);
  const auto* const to = static_cast<const std::byte*>(packed);
  if (to < from + (last + 1) * bits_of(p.data_type) / 8 && from < to + packed_bytes)
    return fail(ErrorCode::invalid_argument, "packed overlaps w", "memory of its own");
  return {};
}

TsConvStrides kernel_strides(const ConvStrides& s) {
  return {s.batch, s.group, s.channel, {s.spatial[0], s.spatial[1], s.spatial[2]}};
}

TsConvCall kernel_call(const ConvProblem& p, const ConvArguments& a) {
  TsConvCall out{};
  out.x = a.x;
  out.w = a.w;
  out.y = a.y;
  out.out = a.out;
  out.x_strides = kernel_strides(a.x_strides);
  out.w_strides = kernel_strides(a.w_strides);
  out.y_strides = kernel_strides(a.y_strides);
  out.batch = p.batch;
  out.groups = p.groups;
  out.c = p.c;
  out.k = p.k;
  const auto put = [](long long(&to)[3], const ConvSpatial& from) { std::ranges::copy(from, to); };
  put(out.x_size, p.in());
  put(out.y_size, p.out());
  put(out.filter, p.filter());
  put(out.stride, p.stride());
  put(out.dilation, p.dilation());
  put(out.pad, p.pad());
  return out;
}

TsConvArgs cpu_arguments(const ConvProblem& p, const ConvArguments& a, int threads, void* workspace) {
  TsConvArgs out{};
  static_cast<TsConvCall&>(out) = kernel_call(p, a);
  out.out_type = kernel_element(p.type_out);
  out.bias_type = kernel_element(p.type_bias);
  for (std::size_t i = 0; i < p.epilogue.size(); ++i) out.operations[i] = static_cast<TsGemmOperation>(p.epilogue[i]);
  out.operand = reinterpret_cast<const TsConvOperand*>(a.epilogue.data());
  out.workspace = workspace;
  out.threads = threads;
  out.packed_w = p.packed_w;
  return out;
}

}  // namespace tilesmith
