#include "capi/gemm/call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "capi/call_checks.hpp"
#include "capi/sized_struct.hpp"
#include "problem/gemm/problem.hpp"
#include "vocabulary/data_type.hpp"
#include "vocabulary/traits.hpp"

namespace tilesmith::capi {
namespace {

// The C enumerations are the C++ ones: a checked number is the value. attention_call.cpp has the other data types.
static_assert(TILESMITH_INT8 == static_cast<int>(DataType::int8) &&
              TILESMITH_INT4 == static_cast<int>(DataType::int4) &&
              TILESMITH_INT32 == static_cast<int>(DataType::int32) &&
              TILESMITH_TF32 == static_cast<int>(DataType::tf32));
static_assert(TILESMITH_ROW == static_cast<int>(MatrixOrder::row) &&
              TILESMITH_COLUMN == static_cast<int>(MatrixOrder::column));
static_assert(TILESMITH_GROUPS_NONE == static_cast<int>(GemmGrouping::none) &&
              TILESMITH_GROUPS_CONTIGUOUS == static_cast<int>(GemmGrouping::contiguous) &&
              TILESMITH_GROUPS_MASKED == static_cast<int>(GemmGrouping::masked));
constexpr bool same(tilesmith_epilogue_op c, EpilogueOp cpp) {
  return static_cast<int>(c) == static_cast<int>(cpp);
}
static_assert(same(TILESMITH_EPILOGUE_NONE, EpilogueOp::none) && same(TILESMITH_EPILOGUE_BIAS, EpilogueOp::bias));
static_assert(same(TILESMITH_EPILOGUE_BIAS_M, EpilogueOp::bias_m));
static_assert(same(TILESMITH_EPILOGUE_SCALE_N, EpilogueOp::scale_n));
static_assert(same(TILESMITH_EPILOGUE_SCALE_M, EpilogueOp::scale_m));
static_assert(same(TILESMITH_EPILOGUE_ADD, EpilogueOp::add));
static_assert(same(TILESMITH_EPILOGUE_MULTIPLY, EpilogueOp::multiply));
static_assert(same(TILESMITH_EPILOGUE_RELU, EpilogueOp::relu) && same(TILESMITH_EPILOGUE_GELU, EpilogueOp::gelu));
static_assert(same(TILESMITH_EPILOGUE_GELU_TANH, EpilogueOp::gelu_tanh));
static_assert(same(TILESMITH_EPILOGUE_SILU, EpilogueOp::silu));
static_assert(same(TILESMITH_EPILOGUE_SIGMOID, EpilogueOp::sigmoid));
static_assert(same(TILESMITH_EPILOGUE_TANH, EpilogueOp::tanh) && same(TILESMITH_EPILOGUE_CLAMP, EpilogueOp::clamp));
static_assert(same(TILESMITH_EPILOGUE_GLU, EpilogueOp::glu) && same(TILESMITH_EPILOGUE_REGLU, EpilogueOp::reglu));
static_assert(same(TILESMITH_EPILOGUE_GEGLU, EpilogueOp::geglu));
static_assert(same(TILESMITH_EPILOGUE_GEGLU_TANH, EpilogueOp::geglu_tanh));
static_assert(same(TILESMITH_EPILOGUE_SWIGLU, EpilogueOp::swiglu) && same(TILESMITH_EPILOGUE_AMAX, EpilogueOp::amax));
static_assert(TILESMITH_EPILOGUE_LENGTH == GemmEpilogue::kMax);

struct NamedType {
  const char* field;
  std::int32_t value;
};

Status check_types(const tilesmith_gemm& call) {
  for (const auto& [field, value] : {NamedType{"type_a", call.type_a},
                                     {"type_b", call.type_b},
                                     {"type_c", call.type_c},
                                     {"type_d", call.type_d},
                                     {"type_bias", call.type_bias},
                                     {"type_scale", call.type_scale}})
    switch (value) {
      case TILESMITH_FP32:
      case TILESMITH_FP16:
      case TILESMITH_BF16:
      case TILESMITH_FP8:
      case TILESMITH_BF8:
      case TILESMITH_INT8:
      case TILESMITH_INT4:
      case TILESMITH_INT32:
      case TILESMITH_TF32:
        break;
      default:
        return fail(ErrorCode::invalid_argument, fmt::format("{} is {}", field, value),
                    "a tilesmith_data_type of one type, TILESMITH_FP32 to TILESMITH_TF32");
    }
  return {};
}

/// A field that the operation does not read.
Status check_unread(std::size_t at, const char* field, bool given, const char* asks) {
  return given ? check_unused(fmt::format("epilogue[{}].{}", at, field), true, asks) : Status{};
}

Status check_operation(const tilesmith_epilogue& x, std::size_t at, bool grouped) {
  if (x.op < 0 || x.op > TILESMITH_EPILOGUE_AMAX)
    return fail(ErrorCode::invalid_argument, fmt::format("epilogue[{}].op is {}", at, x.op), "a tilesmith_epilogue_op");
  if (x.reserved != 0)
    return fail(ErrorCode::invalid_argument, fmt::format("epilogue[{}].reserved is {}", at, x.reserved), "0");
  const auto op = static_cast<EpilogueOp>(x.op);
  const bool matrix = reads_tensor(op);
  TS_TRY(check_unread(at, "data", !matrix && !reads_vector(op) && x.data != nullptr, "an op that reads something"));
  TS_TRY(check_unread(at, "leading", !matrix && x.leading != 0, "add or multiply"));
  const bool steps = matrix || (grouped && reads_vector(op));
  TS_TRY(check_unread(at, "batch", !steps && x.batch != 0, "add or multiply, or groups"));
  TS_TRY(check_unread(at, "low", op != EpilogueOp::clamp && x.low != 0, "clamp"));
  return check_unread(at, "high", op != EpilogueOp::clamp && x.high != 0, "clamp");
}

Result<GemmEpilogue> epilogue_of(const tilesmith_gemm& call) {
  GemmEpilogue epilogue;
  for (std::size_t i = 0; i < GemmEpilogue::kMax; ++i) {
    const tilesmith_epilogue& x = call.epilogue[i];
    TS_TRY(check_operation(x, i, call.grouping != TILESMITH_GROUPS_NONE));
    if (x.op == TILESMITH_EPILOGUE_NONE) continue;
    if (epilogue.size() != i)
      return fail(ErrorCode::invalid_argument, fmt::format("epilogue[{}].op follows one that is none", i),
                  "operations behind one another");
    epilogue.push_back(static_cast<EpilogueOp>(x.op));
  }
  return epilogue;
}

bool is_unaligned(const void* data, std::int64_t leading, std::int64_t batch, std::int32_t type, std::int64_t unit) {
  const auto steps = static_cast<std::uintptr_t>((leading | batch) * bits_of(static_cast<DataType>(type)) / 8);
  return (reinterpret_cast<std::uintptr_t>(data) | steps) % static_cast<std::uintptr_t>(unit) != 0;
}

constexpr std::int64_t kWhole = 16;

/// Whether kernels that move 16 bytes of A and B at a time could not compute the call.
bool inputs_are_unaligned(const tilesmith_gemm& call) {
  // The stride from the only member of a batch is nobody's, and contiguous groups have one A and one D.
  const bool many = call.batch > 1, contiguous = call.grouping == TILESMITH_GROUPS_CONTIGUOUS;
  const auto a = [&](const tilesmith_matrix& x) {
    return is_unaligned(x.data, x.leading, many && !contiguous ? x.batch : 0, call.type_a, kWhole);
  };
  const auto b = [&](const tilesmith_matrix& x) {
    return is_unaligned(x.data, x.leading, many ? x.batch : 0, call.type_b, kWhole);
  };
  return a(call.a) || b(call.b) || (call.k2 != 0 && (a(call.a2) || b(call.b2)));
}

/// The same of those that access D and what the epilogue reads by as many bytes as D's number of columns allows: an odd
/// n alone keeps nobody from copying A and B whole.
bool results_are_unaligned(const tilesmith_gemm& call) {
  const bool many = call.batch > 1 && call.grouping != TILESMITH_GROUPS_CONTIGUOUS;
  const auto matrix = [&](const void* data, std::int64_t leading, std::int64_t batch, std::int32_t type,
                          std::int64_t unit) { return is_unaligned(data, leading, many ? batch : 0, type, unit); };
  const bool gated = std::ranges::any_of(
      call.epilogue, [](const tilesmith_epilogue& x) { return is_gate(static_cast<EpilogueOp>(x.op)); });
  const auto of_row = [](std::int64_t columns, std::int32_t type) {
    return std::gcd(kWhole, columns * std::max(bits_of(static_cast<DataType>(type)) / 8, 1));
  };
  const bool column_d = (call.flags & TILESMITH_COLUMN_D) != 0;  // its rows are columns
  const std::int64_t columns = column_d ? call.m : call.n;
  const std::int64_t unit_d = of_row(gated ? columns / 2 : columns, call.type_d);
  // A D of whole 16 bytes takes tensors along in as many.
  const auto beside_d = [&](std::int32_t type) { return unit_d == kWhole ? kWhole : of_row(columns, type); };
  if (matrix(call.d, call.d_leading, call.d_batch, call.type_d, unit_d)) return true;
  if (call.beta != 0 && matrix(call.c.data, call.c.leading, call.c.batch, call.type_c, beside_d(call.type_c)))
    return true;
  for (const tilesmith_epilogue& x : call.epilogue) {
    const auto op = static_cast<EpilogueOp>(x.op);
    const bool bias = op == EpilogueOp::bias || op == EpilogueOp::bias_m;
    const std::int32_t type = !reads_vector(op) ? call.type_c : bias ? call.type_bias : TILESMITH_FP32;
    // Vectors along n step from group to group, contiguous ones too.
    const bool steps = call.grouping != TILESMITH_GROUPS_NONE && is_along_n(op);
    if (steps ? is_unaligned(x.data, 0, call.batch > 1 ? x.batch : 0, type, beside_d(type))
              : matrix(x.data, x.leading, x.batch, type, beside_d(type)))  // zeros where nothing is read
      return true;
  }
  return false;
}

Status check_block_scales(const tilesmith_gemm& call) {
  const auto unused = [](const char* name, const tilesmith_block_scale& x, const char* hint) {
    return check_unused(name, x.data != nullptr || x.row != 0 || x.block != 0 || x.batch != 0, hint);
  };
  if ((call.flags & TILESMITH_ZERO_POINTS) == 0) TS_TRY(unused("zero_b", call.zero_b, "set TILESMITH_ZERO_POINTS"));
  if (call.group_size != 0) {
    const bool weights = call.type_b == TILESMITH_INT8 || call.type_b == TILESMITH_INT4;
    return weights ? unused("scale_a", call.scale_a, "make a and b fp8 or bf8") : Status{};
  }
  const auto strides = [](const char* name, const tilesmith_block_scale& x) {
    return check_unused(name, x.row != 0 || x.block != 0 || x.batch != 0, "set group_size; one number has no strides");
  };
  TS_TRY(strides("scale_a.row, block or batch", call.scale_a));
  TS_TRY(strides("scale_b.row, block or batch", call.scale_b));
  return check_unused("type_scale", call.type_scale != TILESMITH_FP32, "set group_size");
}

GemmScales scales_of(const tilesmith_block_scale& x) {
  return {x.data, x.row, x.block, x.batch};
}

GemmOperand operand_of(const tilesmith_matrix& x) {
  return {x.data, x.leading, x.batch};
}

}  // namespace

Result<const tilesmith_gemm*> whole_call(const tilesmith_gemm* call, tilesmith_gemm& room) {
  // Before groups, and before options, were added.
  return read_struct("tilesmith_gemm", call, {offsetof(tilesmith_gemm, grouping), offsetof(tilesmith_gemm, options)},
                     room);
}

Result<GemmProblem> problem_of(const tilesmith_gemm& call, Device device) {
  TS_TRY(check_types(call));
  TS_TRY(check_enum("order_a", call.order_a, TILESMITH_COLUMN, "tilesmith_matrix_order"));
  TS_TRY(check_enum("order_b", call.order_b, TILESMITH_COLUMN, "tilesmith_matrix_order"));
  constexpr std::uint32_t kFlags =
      TILESMITH_CONSTANT_B | TILESMITH_PACKED_B | TILESMITH_ZERO_POINTS | TILESMITH_COLUMN_D;
  if ((call.flags & ~kFlags) != 0)
    return fail(ErrorCode::invalid_argument, fmt::format("flags is {:#x}", call.flags),
                "tilesmith_gemm_flag, or-ed; TILESMITH_GEMM_INIT sets 0");
  TS_TRY(check_enum("grouping", call.grouping, TILESMITH_GROUPS_MASKED, "tilesmith_grouping"));
  const bool grouped = call.grouping != TILESMITH_GROUPS_NONE;
  TS_TRY(check_unused("group_ends", !grouped && call.group_ends != nullptr, "set grouping"));
  TS_TRY(check_block_scales(call));
  for (const auto& [name, matrix] : {std::pair{"a2", &call.a2}, std::pair{"b2", &call.b2}})
    TS_TRY(check_unused(name, call.k2 == 0 && matrix->data != nullptr, "set k2"));
  TS_ASSIGN(const GemmEpilogue epilogue, epilogue_of(call));
  const bool amax = !epilogue.empty() && epilogue[epilogue.size() - 1] == EpilogueOp::amax;
  TS_TRY(check_unused("amax", !amax && call.amax != nullptr, "end the epilogue with amax"));
  GemmProblem problem{.type_a = static_cast<DataType>(call.type_a),
                      .type_b = static_cast<DataType>(call.type_b),
                      .type_c = static_cast<DataType>(call.type_c),
                      .type_d = static_cast<DataType>(call.type_d),
                      .type_bias = static_cast<DataType>(call.type_bias),
                      .order_a = static_cast<MatrixOrder>(call.order_a),
                      .order_b = static_cast<MatrixOrder>(call.order_b),
                      .order_d = (call.flags & TILESMITH_COLUMN_D) != 0 ? MatrixOrder::column : MatrixOrder::row,
                      .m = call.m,
                      .n = call.n,
                      .k = call.k,
                      .k2 = call.k2,
                      .batch = call.batch,
                      .beta = call.beta != 0,
                      .epilogue = epilogue,
                      .grouping = static_cast<GemmGrouping>(call.grouping),
                      .group_size = call.group_size,
                      .type_scale = static_cast<DataType>(call.type_scale),
                      .zero_points = (call.flags & TILESMITH_ZERO_POINTS) != 0};
  problem.prefetch_weights = is_gpu(device.kind) && (call.flags & TILESMITH_CONSTANT_B) != 0;  // nor here
  problem.packed_b = (call.flags & TILESMITH_PACKED_B) != 0;
  if (is_gpu(device.kind)) {  // the CPU does not ask
    const bool inputs = inputs_are_unaligned(call), results = results_are_unaligned(call);
    problem.unaligned = inputs || results;
    problem.aligned_d = inputs && !results;
  }
  return problem;
}

GemmArguments arguments_of(const tilesmith_gemm& call) {
  GemmArguments out;
  out.a = operand_of(call.a);
  out.b = operand_of(call.b);
  out.a2 = operand_of(call.a2);
  out.b2 = operand_of(call.b2);
  out.c = operand_of(call.c);
  out.scale_a = scales_of(call.scale_a);
  out.scale_b = scales_of(call.scale_b);
  out.zero_b = scales_of(call.zero_b);
  out.group_ends = call.group_ends;
  out.d = call.d;
  out.d_leading = call.d_leading;
  out.d_batch = call.d_batch;
  for (std::size_t i = 0; i < GemmEpilogue::kMax; ++i) {
    const tilesmith_epilogue& x = call.epilogue[i];
    out.epilogue[i] = {x.data, x.leading, x.batch, x.low, x.high};
  }
  out.amax = call.amax;
  out.alpha = call.alpha;
  out.beta = call.beta;
  return out;
}

}  // namespace tilesmith::capi
