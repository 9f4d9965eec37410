// What a call on a CUDA device costs the host beside the driver's own launch: the same launch (threads, shared memory,
// parameter bytes) of a kernel that does nothing, then a plan's run on a problem of one tile; and what a call of decode
// costs whose plan is found, or made because the sequence has grown by a key. Needs a device.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "jit/nvrtc_toolchain.hpp"
#include "kernels/cuda/attention/abi.h"
#include "runtime/cuda/kernel.hpp"
#include "runtime/cuda/memory.hpp"
#include "runtime/cuda/stream.hpp"
#include "tilesmith/dispatcher.hpp"

namespace {

using namespace tilesmith;

constexpr int kLaunches = 200;  // between two waits for the device, well below the depth of its queue

template <class T>
T value_or_exit(Result<T> result) {
  if (result) return std::move(*result);
  std::fprintf(stderr, "%s\n", result.error().text().c_str());
  std::exit(1);
}

const CudaContext& context() {
  static const CudaContext* const found = value_or_exit(CudaContext::of(0));
  return *found;
}

/// A kernel with the parameters of a Hopper attention kernel and an empty body.
CudaKernel nothing() {
  Source source;
  source.name = source.entry_symbol = "nothing";
  source.arch = context().device().arch();
  source.language = Language::cuda;
  source.text = "struct alignas(64) Maps { char bytes[384]; };\nstruct Arguments { long long words[" +
                std::to_string(sizeof(TsCudaAttentionArgs) / 8) +
                "]; };\nextern \"C\" __global__ void nothing(const __grid_constant__ Maps maps, const "
                "__grid_constant__ Arguments "
                "arguments) {}\n";
  const auto toolchain = value_or_exit(NvrtcToolchain::find());
  const Source* const sources[] = {&source};
  const Compiled compiled = value_or_exit(toolchain->compile(sources, {}));
  const CudaModule module = value_or_exit(CudaModule::load(context(), compiled.binary));
  return value_or_exit(module.kernel("nothing", 200 << 10));
}

void BM_DriverLaunch(benchmark::State& state) {
  const CudaCurrent current(context());
  const CudaKernel kernel = nothing();
  const CudaStream stream = value_or_exit(CudaStream::create(context()));
  const CudaDriver& driver = context().driver();
  TsCudaTensorMaps maps{};
  TsCudaAttentionArgs arguments{};
  void* parameters[] = {&maps, &arguments};
  cu::LaunchConfig config{};
  config.grid_x = config.grid_y = config.grid_z = 1;
  config.block_x = 384;
  config.block_y = config.block_z = 1;
  config.shared_bytes = 200 << 10;
  config.stream = stream.handle();
  int launched = 0;
  for (auto _ : state) {
    driver.launch_kernel(&config, kernel.function(), parameters, nullptr);
    if (++launched % kLaunches != 0) continue;
    state.PauseTiming();
    benchmark::DoNotOptimize(stream.synchronize());
    state.ResumeTiming();
  }
}
BENCHMARK(BM_DriverLaunch);

void BM_FindAndRun(benchmark::State& state) {
  const CudaCurrent current(context());
  const CudaStream stream = value_or_exit(CudaStream::create(context()));
  const AttentionProblem problem{
      .data_type = DataType::bf16, .seqlen_q = 64, .seqlen_k = 64, .mask = MaskKind::bottom_right};
  Dispatcher dispatcher({.device = {DeviceKind::cuda, 0}});
  value_or_exit(dispatcher.plan(problem));
  const CudaBuffer memory = value_or_exit(CudaBuffer::allocate(context(), 1 << 20));
  AttentionArguments arguments = dense_arguments(problem, AttentionLayout::bhsd);
  arguments.q = arguments.k = arguments.v = memory.data();
  arguments.o = static_cast<char*>(memory.data()) + (1 << 19);
  int launched = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize((*dispatcher.plan(problem))->run(arguments, {.stream = stream.handle()}));
    if (++launched % kLaunches != 0) continue;
    state.PauseTiming();
    benchmark::DoNotOptimize(stream.synchronize());
    state.ResumeTiming();
  }
}
BENCHMARK(BM_FindAndRun);

/// A token's query on tensors of keys: the sequence has so many at first.
AttentionProblem decode_problem(std::int64_t keys) {
  return {.data_type = DataType::bf16, .heads_q = 32, .heads_kv = 8, .seqlen_q = 1, .seqlen_k = keys};
}

/// Runs decode call after call, `next` having changed the problem before each.
template <class Next>
void decode_calls(benchmark::State& state, AttentionProblem problem, Next next) {
  constexpr std::int64_t kMostKeys = 1 << 16;
  const CudaCurrent current(context());
  const CudaStream stream = value_or_exit(CudaStream::create(context()));
  Dispatcher dispatcher({.device = {DeviceKind::cuda, 0}});
  const std::int64_t row = 2 * problem.heads_kv * problem.head_dim_qk;
  const CudaBuffer keys = value_or_exit(CudaBuffer::allocate(context(), kMostKeys * row));
  const CudaBuffer queries = value_or_exit(CudaBuffer::allocate(context(), 1 << 20));
  AttentionArguments arguments = dense_arguments(problem, AttentionLayout::bshd);
  arguments.k = arguments.v = keys.data();
  arguments.q = queries.data();
  arguments.o = static_cast<char*>(queries.data()) + (1 << 19);
  AttentionPages& pages = arguments.pages;
  if (problem.page_size > 0) {
    const std::int64_t most = kMostKeys / problem.page_size;
    pages.num_pages = most;
    pages.stride = most;
    pages.numbers = static_cast<const std::int32_t*>(queries.data()) + (1 << 16);  // whatever stands there
    pages.lengths = static_cast<const std::int32_t*>(queries.data()) + (1 << 16);
    const auto zeros = fill_bytes(context(), queries.data(), 0, 1 << 20, stream.handle());
    if (!zeros) std::exit(1);
  }
  value_or_exit(dispatcher.plan(problem));
  int launched = 0;
  for (auto _ : state) {
    next(problem);
    const auto plan = dispatcher.plan(problem);
    if (!plan || !(*plan)->run(arguments, {.stream = stream.handle()})) {
      state.SkipWithError("a call failed");
      break;
    }
    if (++launched % kLaunches != 0) continue;
    state.PauseTiming();
    benchmark::DoNotOptimize(stream.synchronize());
    state.ResumeTiming();
  }
}

void BM_DecodeFound(benchmark::State& state) {
  decode_calls(state, decode_problem(1000), [](AttentionProblem&) {});
}
BENCHMARK(BM_DecodeFound);

// Lengths are the device's: one plan serves all.
void BM_DecodePages(benchmark::State& state) {
  AttentionProblem problem = decode_problem(32768);
  problem.page_size = 16;
  decode_calls(state, problem, [](AttentionProblem&) {});
}
BENCHMARK(BM_DecodePages);

void BM_DecodeNewLength(benchmark::State& state) {
  decode_calls(state, decode_problem(1000), [](AttentionProblem& p) { ++p.seqlen_k; });
}
BENCHMARK(BM_DecodeNewLength)->Iterations(2000);

}  // namespace
BENCHMARK_MAIN();
