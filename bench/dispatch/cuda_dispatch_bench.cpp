// What a call on a CUDA device costs the host beside the driver's own launch: the same launch (threads, shared memory,
// parameter bytes) of a kernel that does nothing, then a plan's run on a problem of one tile. Needs a device.
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

}  // namespace
BENCHMARK_MAIN();
