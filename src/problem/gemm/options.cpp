// The options of GEMM problems, and what is usual where they are not given.
#include <algorithm>
#include <numeric>

#include "problem/clamp_option.hpp"
#include "problem/derive.hpp"
#include "problem/describe.hpp"
#include "problem/option_table.hpp"

namespace tilesmith {
namespace {

using Call = RandomCall<Gemm>;

Status check_group_rows(const Call& call) {
  const std::vector<std::int32_t>& rows = call.numbers.group_rows;
  if (rows.empty()) return {};
  if (call.problem.grouping == GemmGrouping::none)
    return fail(ErrorCode::invalid_argument, "--group-rows without --grouping", "--grouping contiguous or masked");
  if (const auto least = std::ranges::min(rows); least < 0)
    return fail(ErrorCode::invalid_argument, fmt::format("--group-rows has {}", least), "0 or more for each group");
  return {};
}

}  // namespace

std::vector<ProblemOption<Gemm>> Line<Gemm>::options() {
  OptionTable<Gemm> table;
  table.group("Problem")
      .field("m", {"-m"}, "Rows of op(A) and D (default 512)")
      .always()
      .field("n", {"-n"}, "Columns of op(B); D has half of them when the epilogue has a gate (default 512)")
      .always()
      .field("k", {"-k"}, "Columns of op(A), rows of op(B) (default 512)")
      .always()
      .field("k2", {"--k2"}, "Columns of op(A2): op(A2) op(B2) is added to op(A) op(B) (default 0: there is none)")
      .field("batch", {"--batch"}, "GEMMs, or groups (default 1, or as many as --group-rows)")
      .field("type_a", {"--dtype"}, "Type of A: fp32, tf32, fp16, bf16 (the default), fp8, bf8 or int8")
      .always()
      .field("type_b", {"--dtype-b"}, "Type of B (default: A's; int8 or int4: weights)")
      .field("type_d", {"--dtype-out"}, "Type of D (default: A's; int32 of int8, bf16 of 8-bit floats)")
      .field("type_c", {"--dtype-c"}, "Type of C and of tensors to add or multiply (default: D's)")
      .field("type_bias", {"--dtype-bias"}, "Type of the bias (default: D's, or fp32)")
      .add({.names = {"--layout"},
            .about = "Orders of A, B and D, each r(ow) or c(olumn) (default rcr)",
            .fields = {"order_a", "order_b", "order_d"},
            .text = [](const Call& call) -> std::optional<std::string> { return layout_of(call.problem); },
            .read = [](Call& call, std::string_view text) -> Status {
              const Status set = set_layout(call.problem, text);
              return set ? set : wrong_value("--layout", text, set.error().hint);
            }})
      .field("grouping", {"--grouping"},
             "The members of the batch are groups with rows of their own: contiguous, behind one another in the m rows "
             "of A and D, or masked, each in m rows of its own (default none)")
      .field("group_rows", {"--group-rows"}, "Rows of each group, with commas between (default: even, or full)")
      .field("group_size", {"--group-size", "--scale-depth"},
             "Elements of k that share a random scale: 128 of fp8 and bf8; of int8 and int4 weights (--dtype-b of fp16 "
             "or bf16) a power of two from 32 on, or k")
      .field("type_scale", {"--dtype-scale"}, "Type of scales: fp32 (the default), of weights also A's")
      .field("zero_points", {"--zero-points"}, "Integer weights have random zero points")
      .field("packed_b", {"--packed", "--packed-b"},
             "B, which the batch shares, is packed once before the calls; on the CPU. With --origin ck: B lies in the "
             "order of the instance's fragments")
      .field("prefetch_weights", {"--prefetch-weights", "--constant-b"},
             "No kernel before writes B: CUDA kernels of few rows may read it early")
      .field("unaligned", {"--unaligned"}, "Plan for rows of the matrices that begin at any element")
      .field("aligned_d", {"--aligned-d"}, "With --unaligned: of A and B alone");
  table.group("D = epilogue(alpha (op(A) op(B) + op(A2) op(B2)) + beta C)")
      .field("alpha", {"--alpha"}, "Factor of the GEMM's sums (default 1)")
      .add({.names = {"--beta"},
            .about = "Factor of C (default 0)",
            .fields = {"beta"},
            .text = [](const Call& call) -> std::optional<std::string> { return text_of_value(call.numbers.beta); },
            .read = [](Call& call, std::string_view text) -> Status {
              TS_TRY(read_value_text("--beta", text, call.numbers.beta));
              call.problem.beta = call.numbers.beta != 0;
              return {};
            }})
      .field("epilogue", {"--epilogue"},
             "Operations in order, with commas between: bias, bias_m, scale_n, scale_m, add, multiply, relu, gelu, "
             "gelu_tanh, silu, sigmoid, tanh, clamp, glu, reglu, geglu, geglu_tanh, swiglu, amax")
      .add(clamp_option<Gemm>())
      .field("seed", {"--seed"}, "Seed of random inputs (default 0)");
  return table.finish();
}

Status Line<Gemm>::complete(Call& call, const GivenFields& given) {
  constexpr std::int64_t kUsualSize = 512;
  GemmProblem& p = call.problem;
  TS_TRY(check_group_rows(call));
  const std::vector<std::int32_t>& rows = call.numbers.group_rows;
  if (!given.has("batch") && !rows.empty()) p.batch = static_cast<std::int64_t>(rows.size());
  if (!given.has("m"))
    p.m = rows.empty()                             ? kUsualSize
          : p.grouping == GemmGrouping::contiguous ? std::accumulate(rows.begin(), rows.end(), std::int64_t{0})
                                                   : std::ranges::max(rows);
  if (!given.has("n")) p.n = kUsualSize;
  if (!given.has("k")) p.k = kUsualSize;
  if (!given.has("type_d")) p.type_d = gemm_problem(p.type_a, p.m, p.n, p.k).type_d;
  const GemmProblem usual = gemm_problem(p.type_a, p.m, p.n, p.k, p.type_d);
  if (!given.has("type_b")) p.type_b = usual.type_b;
  if (!given.has("type_c")) p.type_c = usual.type_c;
  if (!given.has("type_bias")) p.type_bias = usual.type_bias;
  if (p.group_size == 0 && p.type_scale != DataType::fp32)
    return fail(ErrorCode::invalid_argument, "--dtype-scale without scales along k", "--group-size");
  TS_TRY(check_clamp_option(given, p));
  TS_TRY(validate(p));
  p = derived(p, dense_arguments(p));
  return {};
}

GemmNumbers Line<Gemm>::usual_numbers(const GemmProblem& p) {
  GemmNumbers numbers;
  if (p.beta) numbers.beta = 1;
  return numbers;
}

}  // namespace tilesmith
