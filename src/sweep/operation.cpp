#include "sweep/operation.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "dispatch/operations.hpp"
#include "problem/derive.hpp"
#include "sweep/attention/shapes.hpp"
#include "sweep/gemm/shapes.hpp"
#include "sweep/lines.hpp"
#include "sweep/tiers.hpp"

namespace tilesmith {
namespace {

/// Calls `visit` with the row that is meant. Error: unsupported, where none is.
template <class T, class Visit>
Result<T> with_row(RowChoice row, Visit visit) {
  std::optional<Result<T>> result;
  for_each_operation([&]<class Op>(Op) {
    if (row.is<Op>()) result = visit.template operator()<Op>();
  });
  if (result) return std::move(*result);
  std::string rows;
  for_each_operation([&]<class Op>(Op) { rows += (rows.empty() ? "" : ", ") + std::string(Op::kName); });
  return fail(ErrorCode::unsupported, fmt::format("no kernel of {} runs here", row.name()), rows);
}

/// The recipe that goes first for a problem; none, where the device has none.
template <class Op>
std::optional<Recipe> first_recipe(const Backend& backend, const typename Op::Problem& problem) {
  const auto kernels = backend.find<Op>();
  if (!kernels) return std::nullopt;
  const auto ranking = (*kernels)->rank(problem);
  return ranking ? std::optional(ranking->candidates.front().recipe) : std::nullopt;
}

}  // namespace

Result<BenchProblems> load_problems(RowChoice operation, const std::string& path, std::string_view tier,
                                    std::string_view shard) {
  Shard part;
  if (!shard.empty()) {
    TS_ASSIGN(part, Shard::parse(shard));
  }
  return with_row<BenchProblems>(operation, [&]<class Op>() -> Result<BenchProblems> {
    if (is_file_of_lines(path)) {
      TS_ASSIGN(auto lines, problems_of_lines<Op>(path, part));
      return BenchProblems(std::move(lines));
    }
    TS_ASSIGN(auto problems, BenchOperation<Op>::load(path, tier, part));
    return BenchProblems(std::move(problems));
  });
}

Result<std::chrono::milliseconds> time_limit(RowChoice operation, const std::string& path, std::string_view tier) {
  if (is_file_of_lines(path)) return std::chrono::seconds(60);
  return with_row<std::chrono::milliseconds>(operation, [&]<class Op>() -> Result<std::chrono::milliseconds> {
    TS_ASSIGN(const int seconds, BenchOperation<Op>::timeout_s(path, tier));
    return std::chrono::seconds(seconds);
  });
}

AttentionProblem BenchOperation<AttentionFwd>::measured(const AttentionProblem& problem) {
  return derived(problem, dense_arguments(problem, usual_call(problem).numbers.layout));
}

Result<std::vector<AttentionProblem>> BenchOperation<AttentionFwd>::load(const std::string& path, std::string_view tier,
                                                                         Shard part) {
  return load_attention_problems(path, tier, part);
}

Result<int> BenchOperation<AttentionFwd>::timeout_s(const std::string& path, std::string_view tier) {
  TS_ASSIGN(const AttentionShapes shapes, AttentionShapes::load(path));
  return shapes.timeout_s(tier);
}

AttentionBackwardProblem BenchOperation<AttentionBwd>::measured(const AttentionBackwardProblem& problem) {
  return derived(problem, dense_arguments(problem, usual_call(problem).numbers.layout));
}

Result<std::vector<AttentionBackwardProblem>> BenchOperation<AttentionBwd>::load(const std::string& path,
                                                                                 std::string_view tier, Shard part) {
  TS_ASSIGN(const std::vector<AttentionProblem> forward, load_attention_problems(path, tier, part));
  std::vector<AttentionBackwardProblem> problems;
  for (const AttentionProblem& f : forward) {
    AttentionBackwardProblem p{.data_type = f.data_type,
                               .mode = f.mode,
                               .batch = f.batch,
                               .heads_q = f.heads_q,
                               .heads_kv = f.heads_kv,
                               .seqlen_q = f.seqlen_q,
                               .seqlen_k = f.seqlen_k,
                               .head_dim_qk = f.head_dim_qk,
                               .head_dim_v = f.head_dim_v,
                               .mask = f.mask,
                               .window_left = f.window_left,
                               .window_right = f.window_right,
                               .diagonal = f.diagonal,
                               .bias = f.bias,
                               .soft_cap = f.soft_cap,
                               .sink = f.sink,
                               .dropout = f.dropout,
                               .dsink = f.sink,
                               .negative_scale = f.negative_scale};
    if (f.page_size == 0 && validate(p) && std::ranges::find(problems, p) == problems.end()) problems.push_back(p);
  }
  return problems;
}

Result<int> BenchOperation<AttentionBwd>::timeout_s(const std::string& path, std::string_view tier) {
  return BenchOperation<AttentionFwd>::timeout_s(path, tier);
}

ConvProblem BenchOperation<Conv>::measured(const ConvProblem& problem) {
  return derived(problem, dense_arguments(problem, ConvLayout::channels_last));
}

GemmProblem BenchOperation<Gemm>::measured(const GemmProblem& problem) {
  return derived(problem, dense_arguments(problem));
}

std::optional<Recipe> BenchOperation<Gemm>::preparing(const Backend& backend, const GemmProblem& problem) {
  return problem.packed_b ? first_recipe<GemmPackB>(backend, pack_b_problem(problem)) : std::nullopt;
}

std::optional<Recipe> BenchOperation<Conv>::preparing(const Backend& backend, const ConvProblem& problem) {
  return problem.packed_w ? first_recipe<ConvPackW>(backend, pack_w_problem(problem)) : std::nullopt;
}

Result<std::vector<GemmProblem>> BenchOperation<Gemm>::load(const std::string& path, std::string_view tier,
                                                            Shard part) {
  return load_gemm_problems(path, tier, part);
}

Result<int> BenchOperation<Gemm>::timeout_s(const std::string& path, std::string_view tier) {
  TS_ASSIGN(const GemmShapes shapes, GemmShapes::load(path));
  return shapes.timeout_s(tier);
}

Result<std::vector<ConvProblem>> BenchOperation<Conv>::load(const std::string& path, std::string_view tier,
                                                            Shard part) {
  if (!path.empty())
    return fail(ErrorCode::unsupported, fmt::format("shapes of convolutions in {}", path), "a file of lines, .txt");
  const auto file = ShapesFile::read({}, fmt::format("conv_{}.txt", tier));
  if (!file)
    return fail(ErrorCode::invalid_argument, fmt::format("no tier {} of convolutions", tier), "smoke, full or nightly");
  TS_ASSIGN(const std::vector<LineOfFile> lines, parse_lines(file->text, file->origin));
  return problems_of<Conv>(lines, part);
}

Result<int> BenchOperation<Conv>::timeout_s(const std::string&, std::string_view) {
  return 60;
}

}  // namespace tilesmith
