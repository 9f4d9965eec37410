#include "problem/describe.hpp"

#include <fmt/format.h>

#include "vocabulary/data_type.hpp"
#include "vocabulary/traits.hpp"

namespace tilesmith {
namespace {

/// "56x56": without the outer coordinates that a problem lacks.
std::string joined_sizes(const ConvSpatial& sizes, std::int64_t usual) {
  std::string out;
  for (std::size_t d = 0; d < sizes.size(); ++d)
    if (!out.empty() || sizes[d] != usual || d + 1 == sizes.size())
      out += fmt::format("{}{}", out.empty() ? "" : "x", sizes[d]);
  return out;
}

}  // namespace

std::string describe(const AttentionProblem& p) {
  std::string out = fmt::format("{} b{} ", name_of(p.data_type), p.batch);
  out += p.heads_q == p.heads_kv ? fmt::format("h{} ", p.heads_q) : fmt::format("h{}/{} ", p.heads_q, p.heads_kv);
  out += p.seqlen_q == p.seqlen_k ? fmt::format("s{} ", p.seqlen_q) : fmt::format("s{}x{} ", p.seqlen_q, p.seqlen_k);
  out += p.head_dim_qk == p.head_dim_v ? fmt::format("d{}", p.head_dim_qk)
                                       : fmt::format("d{}/{}", p.head_dim_qk, p.head_dim_v);
  if (p.mode == SequenceMode::group) out += " group";
  if (p.mask != MaskKind::none) out += fmt::format(" {}", name_of(p.mask));
  if (p.window_left >= 0 || p.window_right >= 0) out += fmt::format(" window {},{}", p.window_left, p.window_right);
  if (p.bias != BiasKind::none) out += fmt::format(" {}", name_of(p.bias));
  for (const auto& [set, word] : {std::pair{p.soft_cap, " softcap"},
                                  {p.sink, " sink"},
                                  {p.dropout, " dropout"},
                                  {p.lse, " lse"},
                                  {p.block_scale, " block scales"}})
    if (set) out += word;
  return out;
}

std::string describe(const AttentionBackwardProblem& p) {
  AttentionProblem forward = forward_of(p);
  forward.lse = false;
  std::string out = describe(forward) + " backward";
  for (const auto& [set, word] :
       {std::pair{p.dlse, " dlse"}, {p.dbias, " dbias"}, {p.dalibi, " dalibi"}, {p.dsink, " dsink"}})
    if (set) out += word;
  return out;
}

std::string layout_of(const GemmProblem& p) {
  return fmt::format("{}{}{}", name_of(p.order_a), name_of(p.order_b), name_of(p.order_d));
}

Status set_layout(GemmProblem& problem, std::string_view layout) {
  constexpr MatrixOrder kOrders[] = {MatrixOrder::row, MatrixOrder::column};
  for (const MatrixOrder a : kOrders)
    for (const MatrixOrder b : kOrders)
      for (const MatrixOrder d : kOrders) {
        problem.order_a = a;
        problem.order_b = b;
        problem.order_d = d;
        if (layout_of(problem) == layout) return {};
      }
  return fail(ErrorCode::invalid_argument, fmt::format("there is no layout '{}'", layout),
              "the orders of A, B and D, each r or c, as in rcr");
}

std::string joined(const GemmEpilogue& epilogue) {
  std::string out;
  for (const EpilogueOp op : epilogue) {
    if (!out.empty()) out += '+';
    out += name_of(op);
  }
  return out;
}

std::string describe(const GemmProblem& p) {
  std::string out(name_of(p.type_a));
  if (p.type_b != p.type_a) out += fmt::format("/{}", name_of(p.type_b));
  if (p.type_d != p.type_a) out += fmt::format(" to {}", name_of(p.type_d));
  if (p.grouping != GemmGrouping::none)
    out += fmt::format(" {} {} groups", p.batch, name_of(p.grouping));
  else if (p.batch != 1)
    out += fmt::format(" b{}", p.batch);
  out += fmt::format(" {}x{}x{}", p.m, p.n, p.k);
  if (p.k2 != 0) out += fmt::format("+{}", p.k2);
  out += fmt::format(" {}", layout_of(p));
  if (p.group_size != 0) out += fmt::format(" scaled by {}", p.group_size);
  if (p.group_size != 0 && p.type_scale != DataType::fp32) out += fmt::format(" in {}", name_of(p.type_scale));
  if (p.packed_b) out += " packed B";
  if (p.prefetch_weights) out += " constant B";
  if (p.zero_points) out += " from zero points";
  if (p.beta) out += " + C";
  if (!p.epilogue.empty()) out += fmt::format(" {}", joined(p.epilogue));
  const GemmProblem usual = gemm_problem(p.type_a, p.m, p.n, p.k, p.type_d);
  if (p.type_c != usual.type_c) out += fmt::format(" C {}", name_of(p.type_c));
  if (p.type_bias != usual.type_bias) out += fmt::format(" bias {}", name_of(p.type_bias));
  return out;
}

std::string describe(const ConvProblem& p) {
  std::string out(name_of(p.data_type));
  if (p.type_out != p.data_type) out += fmt::format(" to {}", name_of(p.type_out));
  out += fmt::format(" {} n{} g{} c{} k{} {} filter {}", name_of(p.direction), p.batch, p.groups, p.c, p.k,
                     joined_sizes(p.in(), 1), joined_sizes(p.filter(), 1));
  if (p.stride() != ConvSpatial{1, 1, 1}) out += " stride " + joined_sizes(p.stride(), 1);
  if (p.dilation() != ConvSpatial{1, 1, 1}) out += " dilation " + joined_sizes(p.dilation(), 1);
  if (p.pad() != ConvSpatial{}) out += " pad " + joined_sizes(p.pad(), 0);
  if (p.pad_high() != p.pad()) out += " pad high " + joined_sizes(p.pad_high(), 0);
  if (p.packed_w) out += " packed w";
  if (!p.epilogue.empty()) out += fmt::format(" {}", joined(p.epilogue));
  return out;
}

}  // namespace tilesmith
