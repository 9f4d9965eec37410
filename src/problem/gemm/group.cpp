#include "problem/gemm/group.hpp"

#include "problem/gemm/problem.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

const void* moved(const void* data, std::int64_t elements, DataType type) {
  return data == nullptr ? nullptr : static_cast<const std::byte*>(data) + elements * bits_of(type) / 8;
}

}  // namespace

GemmGroup group_of(const GemmProblem& p, const std::int32_t* ends, std::int64_t index) {
  const bool follows = p.grouping == GemmGrouping::contiguous && index > 0;
  return {.index = index, .first = follows ? ends[index - 1] : 0, .end = ends[index]};
}

GemmProblem problem_of_group(const GemmProblem& p, std::int64_t rows) {
  GemmProblem one = p;
  one.grouping = GemmGrouping::none;
  one.batch = 1;
  one.m = rows;
  return one;
}

GemmArguments arguments_of_group(const GemmProblem& p, const GemmArguments& a, const GemmGroup& group) {
  const bool contiguous = p.grouping == GemmGrouping::contiguous;
  /// Elements to the group's first row.
  const auto to_rows = [&](std::int64_t leading, std::int64_t batch) {
    return contiguous ? group.first * leading : group.index * batch;
  };
  GemmArguments out = a;
  out.group_ends = nullptr;
  out.a.data = moved(a.a.data, to_rows(a.a.leading, a.a.batch), p.type_a);
  out.b.data = moved(a.b.data, group.index * a.b.batch, p.type_b);
  out.c.data = moved(a.c.data, to_rows(a.c.leading, a.c.batch), p.type_c);
  out.d = const_cast<void*>(moved(a.d, to_rows(a.d_leading, a.d_batch), p.type_d));
  out.scale_a.data = moved(a.scale_a.data, to_rows(a.scale_a.row, a.scale_a.batch), p.type_scale);
  out.scale_b.data = moved(a.scale_b.data, group.index * a.scale_b.batch, p.type_scale);
  out.zero_b.data = moved(a.zero_b.data, group.index * a.zero_b.batch, DataType::int8);
  for (std::size_t i = 0; i < p.epilogue.size(); ++i) {
    const EpilogueOp op = p.epilogue[i];
    const EpilogueOperand& x = a.epilogue[i];
    if (reads_tensor(op)) {
      out.epilogue[i].data = moved(x.data, to_rows(x.leading, x.batch), p.type_c);
    } else if (reads_vector(op)) {
      const bool bias = op == EpilogueOp::bias || op == EpilogueOp::bias_m;
      out.epilogue[i].data = moved(x.data, is_along_n(op) ? group.index * x.batch : to_rows(1, x.batch),
                                   bias ? p.type_bias : DataType::fp32);
    }
  }
  return out;
}

}  // namespace tilesmith
