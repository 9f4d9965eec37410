#include "capi/conv/call.hpp"

#include <fmt/format.h>

#include "capi/call_checks.hpp"
#include "problem/derive.hpp"

namespace tilesmith::capi {
namespace {

static_assert(TILESMITH_CONV_FORWARD == static_cast<int>(ConvDirection::forward) &&
              TILESMITH_CONV_BACKWARD_DATA == static_cast<int>(ConvDirection::backward_data) &&
              TILESMITH_CONV_BACKWARD_WEIGHT == static_cast<int>(ConvDirection::backward_weight));
static_assert(TILESMITH_CHANNELS_LAST == static_cast<int>(ConvLayout::channels_last) &&
              TILESMITH_CHANNELS_FIRST == static_cast<int>(ConvLayout::channels_first));

ConvStrides strides_of(const tilesmith_conv_strides& s) {
  return {
      .batch = s.batch, .group = s.group, .channel = s.channel, .spatial = {s.spatial[0], s.spatial[1], s.spatial[2]}};
}

bool is_set(const tilesmith_conv_strides& s) {
  return (s.batch | s.group | s.channel | s.spatial[0] | s.spatial[1] | s.spatial[2]) != 0;
}

Status check_operand(const tilesmith_conv_operand& x, std::size_t at) {
  if (x.op < 0 || x.op > TILESMITH_EPILOGUE_AMAX)
    return fail(ErrorCode::invalid_argument, fmt::format("epilogue[{}].op is {}", at, x.op), "a tilesmith_epilogue_op");
  if (x.reserved != 0)
    return fail(ErrorCode::invalid_argument, fmt::format("epilogue[{}].reserved is {}", at, x.reserved), "0");
  const auto op = static_cast<EpilogueOp>(x.op);
  const auto unread = [&](const char* field, bool given, const char* asks) {
    return given ? check_unused(fmt::format("epilogue[{}].{}", at, field), true, asks) : Status{};
  };
  TS_TRY(unread("data", !reads_tensor(op) && !reads_vector(op) && x.data != nullptr, "an op that reads something"));
  TS_TRY(unread("strides", !reads_tensor(op) && is_set(x.strides), "add or multiply"));
  return unread("low and high", op != EpilogueOp::clamp && (x.low != 0 || x.high != 0), "clamp");
}

}  // namespace

tilesmith_conv_strides in_c(const ConvStrides& s) {
  return {s.batch, s.group, s.channel, {s.spatial[0], s.spatial[1], s.spatial[2]}};
}

Result<ConvProblem> problem_of(const tilesmith_conv& call, Device /*device*/) {
  TS_TRY(check_enum("direction", call.direction, TILESMITH_CONV_BACKWARD_WEIGHT, "tilesmith_conv_direction"));
  for (const auto& [name, type] : {std::pair{"data_type", call.data_type}, std::pair{"type_out", call.type_out},
                                   std::pair{"type_bias", call.type_bias}})
    TS_TRY(check_enum(name, type, TILESMITH_INT8, "TILESMITH_FP32, _FP16, _BF16, _FP8 or _INT8"));
  if ((call.flags & ~std::uint64_t{TILESMITH_PACKED_W}) != 0)
    return fail(ErrorCode::invalid_argument, fmt::format("flags is {:#x}", call.flags), "TILESMITH_PACKED_W or 0");
  ConvProblem p{.direction = static_cast<ConvDirection>(call.direction),
                .data_type = static_cast<DataType>(call.data_type),
                .type_out = static_cast<DataType>(call.type_out),
                .type_bias = static_cast<DataType>(call.type_bias),
                .batch = call.batch,
                .groups = call.groups,
                .c = call.c,
                .k = call.k,
                .in_d = call.image[0],
                .in_h = call.image[1],
                .in_w = call.image[2],
                .filter_d = call.filter[0],
                .filter_h = call.filter[1],
                .filter_w = call.filter[2],
                .stride_d = call.stride[0],
                .stride_h = call.stride[1],
                .stride_w = call.stride[2],
                .dilation_d = call.dilation[0],
                .dilation_h = call.dilation[1],
                .dilation_w = call.dilation[2],
                .pad_d = call.pad[0],
                .pad_h = call.pad[1],
                .pad_w = call.pad[2],
                .pad_high_d = call.pad_high[0],
                .pad_high_h = call.pad_high[1],
                .pad_high_w = call.pad_high[2],
                .packed_w = (call.flags & TILESMITH_PACKED_W) != 0};
  for (std::size_t i = 0; i < GemmEpilogue::kMax; ++i) {
    const tilesmith_conv_operand& x = call.epilogue[i];
    TS_TRY(check_operand(x, i));
    if (x.op == TILESMITH_EPILOGUE_NONE) continue;
    if (p.epilogue.size() != i)
      return fail(ErrorCode::invalid_argument, fmt::format("epilogue[{}].op follows one that is none", i),
                  "operations behind one another");
    p.epilogue.push_back(static_cast<EpilogueOp>(x.op));
  }
  if (validate(p)) p = derived(p, arguments_of(call));
  return p;
}

ConvArguments arguments_of(const tilesmith_conv& call) {
  ConvArguments out;
  out.x = call.x;
  out.w = call.w;
  out.y = call.y;
  out.out = call.out;
  out.x_strides = strides_of(call.x_strides);
  out.w_strides = strides_of(call.w_strides);
  out.y_strides = strides_of(call.y_strides);
  for (std::size_t i = 0; i < GemmEpilogue::kMax; ++i) {
    const tilesmith_conv_operand& x = call.epilogue[i];
    out.epilogue[i] = {.data = x.data, .strides = strides_of(x.strides), .low = x.low, .high = x.high};
  }
  return out;
}

}  // namespace tilesmith::capi
