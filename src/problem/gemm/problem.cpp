#include "problem/gemm/problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <iterator>

#include "base/error.hpp"
#include "problem/argument_checks.hpp"
#include "vocabulary/data_type.hpp"
#include "vocabulary/traits.hpp"

namespace tilesmith {
namespace {

constexpr DataType kWideFloats[] = {DataType::fp32, DataType::fp16, DataType::bf16};
constexpr DataType kFloats[] = {DataType::fp32, DataType::fp16, DataType::bf16, DataType::fp8, DataType::bf8};

template <std::size_t N>
bool is_among(DataType type, const DataType (&types)[N]) {
  return std::ranges::find(types, type) != std::end(types);
}

bool is_fp8(DataType type) {
  return type == DataType::fp8 || type == DataType::bf8;
}

Status check_types(const GemmProblem& p) {
  const auto refuse = [](std::string what, std::string hint) {
    return fail(ErrorCode::unsupported, std::move(what), std::move(hint));
  };
  const bool integers = p.type_a == DataType::int8;
  if (!integers && p.type_a != DataType::tf32 && !is_among(p.type_a, kFloats))
    return refuse(fmt::format("GEMM does not run on {} matrices", name_of(p.type_a)),
                  "fp32, tf32, fp16, bf16, fp8, bf8 or int8");
  if (p.type_a != p.type_b && !(is_fp8(p.type_a) && is_fp8(p.type_b)) && !has_weights(p))
    return refuse(fmt::format("A is {} and B is {}", name_of(p.type_a), name_of(p.type_b)),
                  "one type for both, a mix of fp8 and bf8, or int8 or int4 weights of fp16 and bf16");
  const bool whole = p.type_d == DataType::int32;
  if (!is_among(p.type_d, kFloats) && !(integers && (whole || p.type_d == DataType::int8)))
    return refuse(fmt::format("{} matrices give no {} result", name_of(p.type_a), name_of(p.type_d)),
                  integers ? "int32, int8, fp32, fp16, bf16, fp8 or bf8" : "fp32, fp16, bf16, fp8 or bf8");
  if (whole != (p.type_c == DataType::int32))
    return refuse(fmt::format("C is {} and D is {}", name_of(p.type_c), name_of(p.type_d)),
                  "int32 for C exactly where D is int32");
  if (!whole && p.type_c != DataType::int8 && !is_among(p.type_c, kFloats))
    return refuse(fmt::format("C is {}", name_of(p.type_c)), "fp32, fp16, bf16, fp8, bf8 or int8");
  if (!is_among(p.type_bias, kWideFloats))
    return refuse(fmt::format("the bias is {}", name_of(p.type_bias)), "fp32, fp16 or bf16");
  return {};
}

Status check_scales(const GemmProblem& p) {
  const auto refuse = [](std::string what, std::string hint) {
    return fail(ErrorCode::invalid_argument, std::move(what), std::move(hint));
  };
  const bool weights = has_weights(p), blocks = is_fp8(p.type_a) && p.group_size != 0;
  if (p.zero_points && !weights)
    return refuse(fmt::format("zero points with {} and {} matrices", name_of(p.type_a), name_of(p.type_b)),
                  "none; they are for int8 and int4 weights of fp16 and bf16");
  if (!weights && !blocks) {
    if (p.group_size == 0) return {};
    return refuse(
        fmt::format("group_size is {} with {} and {} matrices", p.group_size, name_of(p.type_a), name_of(p.type_b)),
        "0; scales along k are for 8-bit floats and for integer weights");
  }
  const std::int64_t depth = p.group_size;
  if (blocks && depth != kBlockDepth)
    return refuse(fmt::format("group_size of {} matrices is {}", name_of(p.type_a), depth),
                  fmt::format("{}", kBlockDepth));
  if (weights && !(depth >= 32 && std::has_single_bit(static_cast<std::uint64_t>(depth))) &&
      !(depth > 0 && depth == p.k))
    return refuse(fmt::format("group_size of {} weights is {}", name_of(p.type_b), depth),
                  "a power of two from 32 on, or k");
  if (p.type_scale != DataType::fp32 && !(weights && p.type_scale == p.type_a))
    return refuse(fmt::format("scales are {}", name_of(p.type_scale)),
                  weights ? fmt::format("fp32 or {}", name_of(p.type_a)) : "fp32");
  if (p.order_a != MatrixOrder::row || p.order_b != MatrixOrder::column)
    return refuse(fmt::format("matrices with scales of layout {}{}r", name_of(p.order_a), name_of(p.order_b)), "rcr");
  if (p.type_b == DataType::int4 && p.k % 2 != 0)
    return refuse(fmt::format("two int4 share a byte, and k is {}", p.k),
                  "an even k: one more column of A, of zeros; the last bytes of B have room for its weights");
  return {};
}

Status check_grouping(const GemmProblem& p) {
  if (p.grouping == GemmGrouping::contiguous && p.order_a != MatrixOrder::row)
    return fail(ErrorCode::invalid_argument, "A of contiguous groups is column-major", "a row-major A");
  return {};
}

Status check_second(const GemmProblem& p) {
  if (p.k2 == 0) return {};
  const auto refuse = [&](std::string_view beside) {
    return fail(ErrorCode::unsupported, fmt::format("a second product (k2 is {}) beside {}", p.k2, beside),
                "k2 of 0, and two calls: the second with beta 1 and C the first's result");
  };
  if (p.grouping != GemmGrouping::none) return refuse(fmt::format("{} groups", name_of(p.grouping)));
  if (has_weights(p)) return refuse(fmt::format("{} weights", name_of(p.type_b)));
  if (p.group_size != 0) return refuse(fmt::format("scales of {} elements of k", p.group_size));
  return {};
}

Status check_packed(const GemmProblem& p) {
  if (!p.packed_b) return {};
  const auto refuse = [](std::string_view beside) {
    return fail(ErrorCode::unsupported, fmt::format("a packed B beside {}", beside), "B as it lies");
  };
  if (p.grouping != GemmGrouping::none) return refuse(fmt::format("{} groups", name_of(p.grouping)));
  if (has_weights(p)) return refuse(fmt::format("{} weights of {}", name_of(p.type_b), name_of(p.type_a)));
  if (p.group_size != 0) return refuse(fmt::format("scales of {} elements of k", p.group_size));
  if (p.k2 != 0) return refuse(fmt::format("a second product (k2 is {})", p.k2));
  return {};
}

constexpr std::string_view kPackedWanted = "a buffer of packed_b_bytes";

Status check_column_d(const GemmProblem& p) {
  if (p.order_d == MatrixOrder::row) return {};
  const auto refuse = [](std::string_view beside) {
    return fail(ErrorCode::unsupported, fmt::format("a column-major D beside {}", beside), "a row-major D");
  };
  if (p.grouping != GemmGrouping::none) return refuse(fmt::format("{} groups", name_of(p.grouping)));
  if (has_weights(p)) return refuse(fmt::format("{} weights of {}", name_of(p.type_b), name_of(p.type_a)));
  if (p.group_size != 0) return refuse(fmt::format("scales of {} elements of k", p.group_size));
  if (p.packed_b) return refuse("a packed B");
  if (p.epilogue.gated()) return refuse("a gate, which joins pairs of columns");
  return {};
}

Status check_epilogue(const GemmProblem& p) {
  const auto refuse = [](std::string what, std::string hint) {
    return fail(ErrorCode::invalid_argument, std::move(what), std::move(hint));
  };
  if (p.type_d == DataType::int32 && !p.epilogue.empty())
    return refuse(fmt::format("the epilogue of an int32 result begins with {}", name_of(p.epilogue[0])),
                  "no epilogue, or a result of another type");
  std::size_t gates = 0;
  for (std::size_t i = 0; i < p.epilogue.size(); ++i) {
    const EpilogueOp op = p.epilogue[i];
    gates += is_gate(op);
    if (op == EpilogueOp::amax && i + 1 != p.epilogue.size())
      return refuse("amax is not the last operation of the epilogue", "amax at the end");
  }
  if (gates > 1) return refuse(fmt::format("the epilogue has {} gates", gates), "one gate");
  if (gates == 1 && p.n % 2 != 0)
    return refuse(fmt::format("a gate joins pairs of columns, and n is {}", p.n), "an even n");
  return {};
}

std::int64_t bytes_of(DataType type) {
  return bits_of(type) / 8;
}

std::int64_t blocks_of(std::int64_t size, std::int64_t block) {
  return (size + block - 1) / block;
}
std::int64_t scale_blocks(const GemmProblem& p) {
  return p.group_size == 0 ? 0 : blocks_of(p.k, p.group_size);
}
/// Rows of B's scales: columns of B, or blocks of them.
std::int64_t scale_rows_of_b(const GemmProblem& p) {
  return has_weights(p) ? p.n : blocks_of(p.n, kBlockDepth);
}

using Lines = GemmLines;

Lines lines_of(std::string_view name, const void* data, std::int64_t leading, std::int64_t batch_stride, DataType type,
               MatrixOrder order, std::int64_t rows, std::int64_t columns, std::int64_t batch) {
  const bool row = order == MatrixOrder::row;
  if (type == DataType::int4)  // in bytes of two
    return lines_of(name, data, leading / 2, batch_stride / 2, DataType::int8, order, row ? rows : blocks_of(rows, 2),
                    row ? blocks_of(columns, 2) : columns, batch);
  return {.name = name,
          .data = data,
          .batch = batch,
          .batch_stride = batch_stride,
          .lines = row ? rows : columns,
          .leading = leading,
          .length = row ? columns : rows,
          .element_bytes = bytes_of(type)};
}

Status check_matrix(const Lines& matrix, std::string_view why) {
  if (matrix.empty()) return {};
  TS_TRY(check_pointer(matrix.name, matrix.data, true, why));
  // The copy engines of GPUs are told the leading dimension of an only line too.
  if (matrix.leading < (matrix.lines > 1 ? matrix.length : 0))
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: the leading dimension is {}", matrix.name, matrix.leading),
                fmt::format("{} or more", matrix.length));
  return check_strides(matrix.name,
                       {{matrix.batch, matrix.batch_stride}, {matrix.lines, matrix.leading}, {matrix.length, 1}},
                       matrix.element_bytes);
}

bool same_places(const Lines& x, const Lines& y) {
  return x.data == y.data && x.element_bytes == y.element_bytes && (x.lines == 1 || x.leading == y.leading) &&
         (x.batch == 1 || x.batch_stride == y.batch_stride) && x.length == y.length;
}

/// Checks the pointers and strides of a call whose D has elements. `see_d(lines)` is called with D, then
/// `shared(lines, may_be_d)` with all else that the call reads or writes; the latter's first error is returned.
template <class SeeD, class Shared>
Status check_memory(const GemmProblem& p, const GemmArguments& a, SeeD see_d, Shared shared) {
  const bool grouped = p.grouping != GemmGrouping::none;
  const std::int64_t members = row_members(p);  // of everything but B and vectors over n
  const auto matrix = [&](std::string_view name, const GemmOperand& x, DataType type, MatrixOrder order,
                          std::int64_t rows, std::int64_t columns) {
    return lines_of(name, x.data, x.leading, x.batch, type, order, rows, columns, members);
  };
  if (grouped)
    TS_TRY(check_pointer("group_ends", a.group_ends, true, fmt::format("where each of {} groups ends", p.batch)));
  const Lines d = matrix("d", {a.d, a.d_leading, a.d_batch}, p.type_d, p.order_d, p.m, p.columns_of_d());
  TS_TRY(check_matrix(d, "a matrix for the result"));
  TS_TRY(check_apart("d", {{{members, d.batch_stride}, {d.lines, d.leading}, {d.length, 1}, {1, 1}}}));
  see_d(d);
  // One behind another.
  const auto row_of = [](std::string_view name, const void* data, DataType type, std::int64_t length) {
    return lines_of(name, data, length, 0, type, MatrixOrder::row, 1, length, 1);
  };
  if (grouped) TS_TRY(shared(row_of("group_ends", a.group_ends, DataType::int32, p.batch), false));
  if (a.alpha != 0) {
    const Lines left = matrix("a", a.a, p.type_a, p.order_a, p.m, p.k);
    // Panels take at least as many bytes as the matrix.
    const std::int64_t packed_bytes = p.packed_b ? (a.b.leading > 0 ? a.b.leading : p.n * p.k * bytes_of(p.type_b)) : 0;
    const Lines right =
        p.packed_b ? lines_of("b", a.b.data, packed_bytes, 0, DataType::int8, MatrixOrder::row, 1, packed_bytes, 1)
                   : lines_of("b", a.b.data, a.b.leading, a.b.batch, p.type_b, p.order_b, p.k, p.n, p.batch);
    if (p.packed_b) TS_TRY(check_packed_place("b", a.b.data, kPackedWanted));
    if (p.type_b == DataType::int4 && (a.b.leading % 2 != 0 || (p.batch > 1 && a.b.batch % 2 != 0)))
      return fail(ErrorCode::invalid_argument,
                  fmt::format("b: the leading dimension of {} and the batch stride of {} begin rows inside a byte",
                              a.b.leading, a.b.batch),
                  "even numbers of int4");
    TS_TRY(check_matrix(left, "a matrix of m x k"));
    TS_TRY(check_matrix(right, "a matrix of k x n"));
    TS_TRY(shared(left, false));
    TS_TRY(shared(right, false));
    if (p.k2 != 0) {
      const Lines left2 = matrix("a2", a.a2, p.type_a, p.order_a, p.m, p.k2);
      const Lines right2 = lines_of("b2", a.b2.data, a.b2.leading, a.b2.batch, p.type_b, p.order_b, p.k2, p.n, p.batch);
      TS_TRY(check_matrix(left2, "a matrix of m x k2"));
      TS_TRY(check_matrix(right2, "a matrix of k2 x n"));
      TS_TRY(shared(left2, false));
      TS_TRY(shared(right2, false));
    }
    const auto scales = [&](std::string_view name, const GemmScales& x, DataType type, std::int64_t rows,
                            std::int64_t batch) -> Status {
      const std::int64_t blocks = scale_blocks(p);
      if (blocks == 0 || rows == 0) return {};
      TS_TRY(check_pointer(name, x.data, true, fmt::format("one for each of {} by {} blocks of k", rows, blocks)));
      TS_TRY(check_strides(name, {{batch, x.batch}, {rows, x.row}, {blocks, x.block}}, bytes_of(type)));
      const std::int64_t extent = (batch - 1) * x.batch + (rows - 1) * x.row + (blocks - 1) * x.block + 1;
      return shared(row_of(name, x.data, type, extent), false);
    };
    if (p.group_size == 0)
      for (const auto& [name, x] : {std::pair{"scale_a", &a.scale_a}, std::pair{"scale_b", &a.scale_b}}) {
        if (x->data == nullptr) continue;
        if (p.type_d == DataType::int32)
          return fail(ErrorCode::invalid_argument, fmt::format("{} beside an int32 result", name), "another type of d");
        if (x->row != 0 || x->block != 0 || x->batch != 0)
          return fail(ErrorCode::invalid_argument, fmt::format("{} of one number has strides", name),
                      "0, or group_size");
        TS_TRY(shared(row_of(name, x->data, DataType::fp32, 1), false));
      }
    if (p.group_size != 0) {
      if (!has_weights(p)) TS_TRY(scales("scale_a", a.scale_a, p.type_scale, p.m, members));
      TS_TRY(scales("scale_b", a.scale_b, p.type_scale, scale_rows_of_b(p), p.batch));
      if (p.zero_points) TS_TRY(scales("zero_b", a.zero_b, DataType::int8, p.n, p.batch));
    }
  }
  if (a.beta != 0) {
    const Lines c = matrix("c", a.c, p.type_c, p.order_d, p.m, p.n);
    TS_TRY(check_matrix(c, "beta is not 0"));
    TS_TRY(shared(c, p.type_c == p.type_d));
  }
  std::int64_t columns = p.n;
  for (std::size_t i = 0; i < p.epilogue.size(); ++i) {
    const EpilogueOp op = p.epilogue[i];
    const EpilogueOperand& x = a.epilogue[i];
    fmt::memory_buffer text;  // on the stack: calls allocate nothing
    fmt::format_to(std::back_inserter(text), "epilogue[{}], {}", i, name_of(op));
    const std::string_view name(text.data(), text.size());
    if (is_gate(op)) columns /= 2;
    if (reads_vector(op)) {
      const bool bias = op == EpilogueOp::bias || op == EpilogueOp::bias_m;
      const std::int64_t length = is_along_n(op) ? columns : p.m;
      const Lines vector = lines_of(name, x.data, length, grouped ? x.batch : 0, bias ? p.type_bias : DataType::fp32,
                                    MatrixOrder::row, 1, length, is_along_n(op) ? p.batch : members);
      TS_TRY(check_matrix(vector, fmt::format("a vector of {}", length)));
      TS_TRY(shared(vector, false));
    } else if (reads_tensor(op)) {
      const Lines tensor = matrix(name, {x.data, x.leading, x.batch}, p.type_c, p.order_d, p.m, columns);
      TS_TRY(check_matrix(tensor, fmt::format("a matrix of {} x {}", p.m, columns)));
      TS_TRY(shared(tensor, p.type_c == p.type_d && columns == p.columns_of_d()));
    } else if (op == EpilogueOp::clamp && !(x.low <= x.high)) {
      return fail(ErrorCode::invalid_argument, fmt::format("{}: the limits are {} and {}", name, x.low, x.high),
                  "low at most high, neither of them NaN");
    } else if (op == EpilogueOp::amax) {
      TS_TRY(check_pointer("amax", a.amax, true, "the epilogue writes it"));
      TS_TRY(shared(row_of("amax", a.amax, DataType::fp32, 1), false));
    }
  }
  return {};
}

}  // namespace

bool overlap(const GemmLines& x, const GemmLines& y) {
  if (x.empty() || y.empty()) return false;
  const auto low_x = reinterpret_cast<std::intptr_t>(x.data), low_y = reinterpret_cast<std::intptr_t>(y.data);
  const std::int64_t difference = low_y - low_x;
  if (difference >= x.extent() || -difference >= y.extent()) return false;
  const std::int64_t pitch = x.leading * x.element_bytes;
  const auto on_pitch = [&](const Lines& z) {
    return z.leading * z.element_bytes == pitch && (z.batch == 1 || z.batch_stride * z.element_bytes % pitch == 0);
  };
  if (pitch <= 0 || !on_pitch(x) || !on_pitch(y)) return true;
  // Where y's lines begin within a pitch that begins with x's.
  const std::int64_t offset = ((difference % pitch) + pitch) % pitch;
  const std::int64_t length_x = x.length * x.element_bytes, length_y = y.length * y.element_bytes;
  return offset < length_x || offset + length_y > pitch;
}

GemmProblem gemm_problem(DataType type, std::int64_t m, std::int64_t n, std::int64_t k,
                         std::optional<DataType> output) {
  const auto usual = [&] {
    switch (type) {
      case DataType::int8:
        return DataType::int32;
      case DataType::fp8:
      case DataType::bf8:
        return DataType::bf16;
      case DataType::tf32:
        return DataType::fp32;
      default:
        return type;
    }
  };
  GemmProblem p;
  p.type_a = p.type_b = type;
  p.type_c = p.type_d = output.value_or(usual());
  p.type_bias = is_among(p.type_d, kWideFloats) ? p.type_d : DataType::fp32;
  p.m = m;
  p.n = n;
  p.k = k;
  return p;
}

Status validate(const GemmProblem& p) {
  TS_TRY(check_types(p));
  TS_TRY(check_dimension("batch", p.batch, 0));
  TS_TRY(check_dimension("m", p.m, 0));
  TS_TRY(check_dimension("n", p.n, 0));
  TS_TRY(check_dimension("k", p.k, 0));
  TS_TRY(check_dimension("k2", p.k2, 0));
  TS_TRY(check_packed(p));
  TS_TRY(check_scales(p));
  TS_TRY(check_grouping(p));
  TS_TRY(check_second(p));
  TS_TRY(check_column_d(p));
  TS_TRY(check_epilogue(p));
  for (const auto& [rows, columns] :
       {std::pair{p.m, p.k}, std::pair{p.k, p.n}, std::pair{p.m, p.k2}, std::pair{p.k2, p.n}, std::pair{p.m, p.n}})
    if (!product_fits({p.batch, rows, columns, 4}))
      return fail(ErrorCode::invalid_argument,
                  fmt::format("a matrix of batch {} x {} x {} overflows", p.batch, rows, columns),
                  "matrices below 2^62 bytes");
  return {};
}

GemmArguments dense_arguments(const GemmProblem& p) {
  const auto dense = [](MatrixOrder order, std::int64_t rows, std::int64_t columns) {
    return GemmOperand{.leading = order == MatrixOrder::row ? columns : rows, .batch = rows * columns};
  };
  const bool grouped = p.grouping != GemmGrouping::none, one = p.grouping == GemmGrouping::contiguous;
  GemmArguments out;
  out.a = dense(p.order_a, p.m, p.k);
  if (!p.packed_b) out.b = dense(p.order_b, p.k, p.n);  // the leading dimension of packed B would be its bytes
  if (p.k2 != 0) {
    out.a2 = dense(p.order_a, p.m, p.k2);
    out.b2 = dense(p.order_b, p.k2, p.n);
  }
  out.c = dense(p.order_d, p.m, p.n);
  out.d_leading = dense(p.order_d, p.m, p.columns_of_d()).leading;
  out.d_batch = one ? 0 : p.m * p.columns_of_d();
  if (one) out.a.batch = out.c.batch = 0;
  const std::int64_t blocks = scale_blocks(p);
  if (blocks > 0) {
    if (!has_weights(p)) out.scale_a = {.row = blocks, .block = 1, .batch = one ? 0 : p.m * blocks};
    out.scale_b = {.row = blocks, .block = 1, .batch = scale_rows_of_b(p) * blocks};
    if (p.zero_points) out.zero_b = out.scale_b;
  }
  std::int64_t columns = p.n;
  for (std::size_t i = 0; i < p.epilogue.size(); ++i) {
    const EpilogueOp op = p.epilogue[i];
    if (is_gate(op)) columns /= 2;
    if (reads_tensor(op))
      out.epilogue[i] = {.leading = dense(p.order_d, p.m, columns).leading, .batch = one ? 0 : p.m * columns};
    if (reads_vector(op) && grouped) out.epilogue[i].batch = is_along_n(op) ? columns : one ? 0 : p.m;
  }
  return out;
}

double flops_of(const GemmProblem& p) {
  return 2.0 * static_cast<double>(row_members(p)) * static_cast<double>(p.m) * static_cast<double>(p.n) *
         static_cast<double>(depth_of(p));
}

double bytes_of(const GemmProblem& p) {
  if (p.m == 0 || p.n == 0 || p.batch == 0) return 0;  // nothing is written, so nothing is read
  const auto matrix = [](DataType type, std::int64_t rows, std::int64_t columns) {
    return bits_of(type) / 8.0 * static_cast<double>(rows) * static_cast<double>(columns);
  };
  double bytes = matrix(p.type_a, p.m, depth_of(p)) + matrix(p.type_d, p.m, p.columns_of_d());
  double bytes_of_b = matrix(p.type_b, depth_of(p), p.n);
  if (p.group_size != 0) {
    bytes_of_b += matrix(p.type_scale, scale_blocks(p), scale_rows_of_b(p));
    if (p.zero_points) bytes_of_b += matrix(DataType::int8, scale_blocks(p), p.n);
    if (!has_weights(p)) bytes += matrix(p.type_scale, p.m, scale_blocks(p));
  }
  if (p.beta) bytes += matrix(p.type_c, p.m, p.n);
  std::int64_t columns = p.n;
  for (const EpilogueOp op : p.epilogue) {
    if (is_gate(op)) columns /= 2;
    if (reads_tensor(op)) bytes += matrix(p.type_c, p.m, columns);
  }
  return bytes * static_cast<double>(row_members(p)) + bytes_of_b * static_cast<double>(p.batch);
}

Status validate(const GemmProblem& p, const GemmArguments& a) {
  if (!p.beta && a.beta != 0)
    return fail(ErrorCode::invalid_argument, fmt::format("beta is {}", a.beta), "0, or a problem that has beta");
  for (const auto& [name, value] : {std::pair{"alpha", a.alpha}, std::pair{"beta", a.beta}})
    if (!std::isfinite(value))
      return fail(ErrorCode::invalid_argument, fmt::format("{} is {}", name, value), "a finite number");
  if (p.type_d == DataType::int32) {
    if (a.alpha != 0 && a.alpha != 1)
      return fail(ErrorCode::invalid_argument, fmt::format("alpha of an int32 result is {}", a.alpha), "0 or 1");
    if (a.beta != std::trunc(a.beta) || std::abs(a.beta) > 0x1p30f)
      return fail(ErrorCode::invalid_argument, fmt::format("beta of an int32 result is {}", a.beta),
                  "a whole number of at most 2^30");
  }
  if (p.m == 0 || p.n == 0 || p.batch == 0) return {};
  Lines d;
  return check_memory(
      p, a, [&](const Lines& lines) { d = lines; },
      [&](const Lines& x, bool may_be_d) -> Status {
        if (!overlap(d, x) || (may_be_d && same_places(d, x))) return {};
        return fail(ErrorCode::invalid_argument, fmt::format("d overlaps {}", x.name),
                    may_be_d ? fmt::format("memory of its own, or exactly that of {}", x.name) : "memory of its own");
      });
}

void show_memory(const GemmProblem& p, const GemmArguments& a,
                 FunctionRef<void(const GemmLines& lines, bool is_d)> show) {
  if (p.m == 0 || p.n == 0 || p.batch == 0) return;
  static_cast<void>(check_memory(
      p, a, [&](const Lines& d) { show(d, true); },
      [&](const Lines& lines, bool) -> Status {
        if (!lines.empty()) show(lines, false);
        return {};
      }));
}

GemmProblem packing_of(const GemmProblem& p) {
  GemmProblem out = gemm_problem(p.type_a, 1, p.n, p.k);
  out.type_b = p.type_b;
  out.order_b = p.order_b;
  out.grouping = p.grouping;
  out.group_size = p.group_size;
  out.k2 = p.k2;
  out.packed_b = true;
  return out;
}

Status validate_packing(const GemmProblem& p, const GemmOperand& b, const void* packed, std::size_t packed_bytes) {
  const Lines matrix = lines_of("b", b.data, b.leading, 0, p.type_b, p.order_b, p.k, p.n, 1);
  TS_TRY(check_matrix(matrix, "a matrix of k x n"));
  TS_TRY(check_packed_place("packed", packed, kPackedWanted));
  const auto bytes = static_cast<std::int64_t>(packed_bytes);
  if (overlap(matrix, lines_of("packed", packed, bytes, 0, DataType::int8, MatrixOrder::row, 1, bytes, 1)))
    return fail(ErrorCode::invalid_argument, "packed overlaps b", "memory of its own");
  return {};
}

Status check_group_ends(const GemmProblem& p, const std::int32_t* ends) {
  std::int64_t before = 0;
  for (std::int64_t g = 0; g < p.batch; ++g) {
    if (ends[g] < before || ends[g] > p.m)
      return fail(ErrorCode::invalid_argument, fmt::format("group {} of {} ends at row {}", g, p.batch, ends[g]),
                  before > 0 ? fmt::format("{} to {}: ends rise, up to m", before, p.m) : fmt::format("0 to {}", p.m));
    if (p.grouping == GemmGrouping::contiguous) before = ends[g];
  }
  return {};
}

}  // namespace tilesmith
