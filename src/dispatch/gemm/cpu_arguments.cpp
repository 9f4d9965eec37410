#include "dispatch/gemm/cpu_arguments.hpp"

#include <bit>
#include <limits>

#include "dispatch/gemm/cpu_packed_b.hpp"
#include "problem/gemm/problem.hpp"

namespace tilesmith {

TsGemmArgs cpu_arguments(const GemmProblem& p, const CpuGemmEpilogue& terms, const GemmArguments& a,
                         std::int64_t splits, int threads, void* workspace) {
  const auto operand = [&](int at) { return a.epilogue[static_cast<std::size_t>(at)]; };
  const auto tensor = [&](int at) { return TsMatrix{operand(at).data, operand(at).leading, operand(at).batch}; };
  const auto floats = [&](int at) { return static_cast<const float*>(operand(at).data); };
  TsGemmArgs out{};
  out.a = {a.a.data, a.a.leading, a.a.batch};
  out.b = {a.b.data, a.b.leading, a.b.batch};
  if (p.packed_b && a.b.data != nullptr)
    out.b = {static_cast<const PackedHeader*>(a.b.data) + 1, 0, 0};  // the panels, shared by the batch
  out.a2 = {a.a2.data, a.a2.leading, a.a2.batch};
  out.b2 = {a.b2.data, a.b2.leading, a.b2.batch};
  out.c = {a.c.data, a.c.leading, a.c.batch};
  out.beta = a.beta;
  if (terms.c >= 0) {
    out.c = tensor(terms.c);
    out.beta = 1;
  }
  for (int i = 0; i < terms.extras; ++i) out.extra[i] = tensor(terms.extra[static_cast<std::size_t>(i)]);
  const auto scales = [](const GemmScales& x) { return TsScales{x.data, x.row, x.block, x.batch}; };
  out.scale_a = scales(a.scale_a);
  out.scale_b = scales(a.scale_b);
  out.zero_b = scales(a.zero_b);
  constexpr int kOneBlock = 62;
  out.scale_shift =
      p.group_size == 0 || p.group_size >= p.k ? kOneBlock : std::countr_zero(static_cast<std::uint64_t>(p.group_size));
  if (p.type_b == DataType::int4) {  // in bytes
    out.b.leading /= 2;
    out.b.batch /= 2;
  }
  out.d = a.d;
  out.d_leading = a.d_leading;
  out.d_batch = a.d_batch;
  if (terms.bias >= 0) out.bias = operand(terms.bias).data;
  if (terms.row_scale >= 0) out.row_scale = floats(terms.row_scale);
  if (terms.column_scale >= 0) out.column_scale = floats(terms.column_scale);
  if (terms.clamp_is_relu) out.high = std::numeric_limits<float>::infinity();
  if (terms.clamp >= 0) {
    out.low = operand(terms.clamp).low;
    out.high = operand(terms.clamp).high;
  }
  out.amax = a.amax;
  out.workspace = workspace;
  out.m = p.m;
  out.n = p.n;
  out.k = p.k;
  out.k2 = p.k2;
  out.batch = p.batch;
  out.splits = splits;
  out.threads = threads;
  out.alpha = a.alpha;
  return out;
}

}  // namespace tilesmith
