#include "sweep/operation.hpp"

#include <fmt/format.h>

#include "sweep/attention/shapes.hpp"
#include "sweep/gemm/shapes.hpp"
#include "verify/attention/naive.hpp"
#include "verify/gemm/naive.hpp"

namespace tilesmith {
namespace {

constexpr std::uint64_t kSeed = 1;

/// Seconds of a computation that returns a Result; 0 when it fails.
template <class Compute>
double seconds_of(Compute compute) {
  const auto begin = std::chrono::steady_clock::now();
  if (!compute()) return 0;
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

Result<BenchProblems> load_problems(Operation operation, const std::string& path, std::string_view tier,
                                    std::string_view shard) {
  Shard part;
  if (!shard.empty()) {
    TS_ASSIGN(part, Shard::parse(shard));
  }
  switch (operation) {
    case Operation::attention:
      return load_attention_problems(path, tier, part);
    case Operation::gemm:
      return load_gemm_problems(path, tier, part);
    default:
      return fail(ErrorCode::unsupported, fmt::format("no kernel of {} runs here", name_of(operation)),
                  "attention or gemm");
  }
}

Result<std::chrono::milliseconds> time_limit(Operation operation, const std::string& path, std::string_view tier) {
  const auto limit_of = [&](const auto& shapes) -> Result<std::chrono::milliseconds> {
    if (!shapes) return std::unexpected(shapes.error());
    TS_ASSIGN(const int seconds, shapes->timeout_s(tier));
    return std::chrono::seconds(seconds);
  };
  return operation == Operation::gemm ? limit_of(GemmShapes::load(path)) : limit_of(AttentionShapes::load(path));
}

Result<AttentionCase> BenchOperation<AttentionProblem>::make_case(const AttentionProblem& problem) {
  AttentionInputs inputs;
  inputs.seed = kSeed;
  if (problem.soft_cap) inputs.soft_cap = 30.0f;
  if (problem.dropout) inputs.dropout_probability = 0.1f;
  return AttentionCase::create(problem, std::move(inputs));
}

Result<AttentionReference> BenchOperation<AttentionProblem>::expect(const AttentionCase& problem_case) {
  return AttentionReference::make(problem_case.tensors(), output_element_type_of(problem_case.problem()));
}

double BenchOperation<AttentionProblem>::naive_seconds(const AttentionCase& problem_case, int threads) {
  return seconds_of([&] {
    return naive_attention(problem_case.tensors(), output_element_type_of(problem_case.problem()),
                           static_cast<unsigned>(threads));
  });
}

Result<GemmCase> BenchOperation<GemmProblem>::make_case(const GemmProblem& problem) {
  GemmInputs inputs;
  inputs.seed = kSeed;
  if (problem.beta) inputs.beta = 1;
  return GemmCase::create(problem, std::move(inputs));
}

std::optional<KernelConfig> BenchOperation<GemmProblem>::preparing(const Backend& backend, const GemmProblem& problem) {
  if (!problem.packed_b) return std::nullopt;
  const auto kernels = backend.find<GemmPackB>();
  if (!kernels) return std::nullopt;
  const auto ranking = (*kernels)->rank(pack_b_problem(problem));
  return ranking ? std::optional(ranking->candidates.front().recipe.main()) : std::nullopt;
}

Result<GemmReference> BenchOperation<GemmProblem>::expect(const GemmCase& problem_case) {
  return GemmReference::make(problem_case.tensors(), problem_case.output_type());
}

double BenchOperation<GemmProblem>::naive_seconds(const GemmCase& problem_case, int threads) {
  if (!is_floating(problem_case.output_type())) return 0;
  return seconds_of(
      [&] { return naive_gemm(problem_case.tensors(), problem_case.output_type(), static_cast<unsigned>(threads)); });
}

}  // namespace tilesmith
