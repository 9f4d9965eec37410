// What a call costs beside its kernel: finding a cached plan, running it on a problem with nothing to compute, and
// planning GEMM shapes and decode lengths that were never seen, whose kernels are loaded already (on the CPU) or not
// looked at (what a CUDA device's figures decide; no device is needed).
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "dispatch/cuda_backend.hpp"
#include "tilesmith/dispatcher.hpp"

namespace {

using namespace tilesmith;

AttentionProblem problem_of(std::int64_t batch, std::int64_t seqlen) {
  return {.data_type = DataType::fp32,
          .batch = batch,
          .heads_q = 8,
          .heads_kv = 2,
          .seqlen_q = seqlen,
          .seqlen_k = seqlen,
          .head_dim_qk = 64,
          .head_dim_v = 64};
}

const AttentionPlan& plan_or_exit(Dispatcher& dispatcher, const AttentionProblem& problem) {
  const auto plan = dispatcher.plan(problem);
  if (plan) return **plan;
  std::fprintf(stderr, "%s\n", plan.error().text().c_str());
  std::exit(1);
}

Dispatcher& dispatcher() {
  static Dispatcher instance({.threads = 1, .build = BuildPolicy::allowed});
  return instance;
}

void BM_FindCachedPlan(benchmark::State& state) {
  std::vector<AttentionProblem> problems;
  for (std::int64_t i = 0; i < state.range(0); ++i) problems.push_back(problem_of(1, 16 + i));
  for (const AttentionProblem& problem : problems) plan_or_exit(dispatcher(), problem);
  std::size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(*dispatcher().plan(problems[next]));
    next = next + 1 == problems.size() ? 0 : next + 1;
  }
}
BENCHMARK(BM_FindCachedPlan)->Arg(1)->Arg(1000);

// A batch of nothing: arguments are checked, the kernel's structure is filled, its stages are asked for their tasks,
// and there are none.
void BM_FindAndRunNothing(benchmark::State& state) {
  const AttentionProblem problem = problem_of(0, 64);
  plan_or_exit(dispatcher(), problem);
  const AttentionArguments arguments = dense_arguments(problem, AttentionLayout::bhsd);
  for (auto _ : state) benchmark::DoNotOptimize((*dispatcher().plan(problem))->run(arguments));
}
BENCHMARK(BM_FindAndRunNothing);

/// Every call another shape: m, n and k are multiples of 8 and go their own ways, and their order repeats never in
/// practice.
class NewShapes {
 public:
  explicit NewShapes(DataType type) : type_(type) {}
  GemmProblem operator()() {
    ++next_;
    return gemm_problem(type_, 8 * (1 + next_ % 1021), 8 * (1 + next_ % 1019), 8 * (1 + next_ % 1013));
  }

 private:
  DataType type_;
  std::int64_t next_ = 0;
};

constexpr DataType kTypes[] = {DataType::fp32, DataType::bf16, DataType::int8};

void BM_PlanNewGemm(benchmark::State& state) {
  NewShapes shapes(kTypes[state.range(0)]);
  const auto plan = [&](const GemmProblem& problem) {
    const auto made = dispatcher().plan(problem);
    if (made) return;
    std::fprintf(stderr, "%s\n", made.error().text().c_str());
    std::exit(1);
  };
  for (int i = 0; i < 2000; ++i) plan(shapes());  // loads, and perhaps compiles, every kernel the shapes choose
  for (auto _ : state) plan(shapes());
}
BENCHMARK(BM_PlanNewGemm)->DenseRange(0, 2)->Iterations(4000);

/// Of an H200's figures; null, and an error told, where there is none.
std::unique_ptr<CudaBackend> h200(benchmark::State& state) {
  auto backend = CudaBackend::make(0, {9, 0, 132, 60 << 20, 4.8e12});
  if (backend) return std::move(*backend);
  state.SkipWithError(backend.error().text().c_str());
  return nullptr;
}

void BM_RankNewCudaGemm(benchmark::State& state) {
  NewShapes shapes(kTypes[state.range(0)]);
  const auto backend = h200(state);
  if (backend == nullptr) return;
  for (auto _ : state) benchmark::DoNotOptimize((*backend->find<Gemm>())->rank(shapes()));
}
BENCHMARK(BM_RankNewCudaGemm)->DenseRange(0, 2);

// A sequence on tensors that grows by a key each call: batch 1 and 64 of 32 query and 8 key heads.
void BM_RankNewCudaDecode(benchmark::State& state) {
  const auto backend = h200(state);
  if (backend == nullptr) return;
  AttentionProblem problem{
      .batch = state.range(0), .heads_q = 32, .heads_kv = 8, .seqlen_q = 1, .seqlen_k = state.range(1)};
  for (auto _ : state) {
    ++problem.seqlen_k;
    benchmark::DoNotOptimize((*backend->find<AttentionFwd>())->rank(problem));
  }
}
BENCHMARK(BM_RankNewCudaDecode)->ArgsProduct({{1, 64}, {1000, 30000}});

}  // namespace

BENCHMARK_MAIN();
