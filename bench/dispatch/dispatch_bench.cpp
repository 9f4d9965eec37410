// What a call costs beside its kernel: finding a cached plan, and running it on a problem with nothing to compute.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

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

}  // namespace

BENCHMARK_MAIN();
