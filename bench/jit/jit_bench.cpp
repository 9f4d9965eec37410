// What the store costs: a digest, a hit (three files read and verified), a publish, and a real compile alone and in a
// batch.
#include <benchmark/benchmark.h>

#include <optional>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/sha256.hpp"
#include "jit/cxx_toolchain.hpp"
#include "jit/store.hpp"

namespace tilesmith {
namespace {

Source make_source(int number, std::size_t bytes) {
  const std::string n = std::to_string(number);
  Source source;
  source.name = "bench_" + n;
  source.entry_symbol = "bench_" + n;
  source.options = {"-O3", "-fvisibility=hidden"};
  source.arch = "x86_64_v3";
  source.text = "extern \"C\" __attribute__((visibility(\"default\"))) float bench_" + n +
                "(const float* x, long n) {\n  float sum[16] = {};\n"
                "  for (long i = 0; i + 16 <= n; i += 16)\n    for (int j = 0; j < 16; ++j) sum[j] += x[i + j] * " +
                n + ".5f;\n  float all = 0;\n  for (float s : sum) all += s;\n  return all;\n}\n";
  if (source.text.size() < bytes) source.text += "//" + std::string(bytes - source.text.size(), 'x') + "\n";
  return source;
}

void sha256_of_memory(benchmark::State& state) {
  const std::string bytes(static_cast<std::size_t>(state.range(0)), 'x');
  for (auto _ : state) benchmark::DoNotOptimize(sha256(bytes));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(sha256_of_memory)->Arg(64)->Arg(4 << 10)->Arg(64 << 10)->Arg(1 << 20);

void key_of_a_source(benchmark::State& state) {
  const Source source = make_source(1, 40'000);
  for (auto _ : state) benchmark::DoNotOptimize(entry_key(source, "g++ 12.2.0"));
}
BENCHMARK(key_of_a_source)->Unit(benchmark::kMicrosecond);

struct StoreFixture {
  TemporaryDirectory directory = TemporaryDirectory::create("tilesmith-bench-").value();
  std::unique_ptr<Store> store = Store::open(directory.path() / "store").value();
};

void store_hit(benchmark::State& state) {
  const StoreFixture fixture;
  const Source source = make_source(1, 40'000);
  const std::string binary(static_cast<std::size_t>(state.range(0)), 'b');
  const EntryKey key = entry_key(source, "t").value();
  if (!fixture.store->publish(key, source, {binary, ""})) state.SkipWithError("publish failed");
  for (auto _ : state) {
    const auto found = fixture.store->find(entry_key(source, "t").value());
    if (!found || !*found) state.SkipWithError("no hit");
  }
}
BENCHMARK(store_hit)->Arg(20 << 10)->Arg(200 << 10)->Arg(1 << 20)->Unit(benchmark::kMicrosecond);

void store_miss(benchmark::State& state) {
  const StoreFixture fixture;
  const EntryKey key = entry_key(make_source(1, 0), "t").value();
  for (auto _ : state) benchmark::DoNotOptimize(fixture.store->find(key));
}
BENCHMARK(store_miss)->Unit(benchmark::kMicrosecond);

void store_publish(benchmark::State& state) {
  const StoreFixture fixture;
  const std::string binary(64 << 10, 'b');
  int number = 0;
  for (auto _ : state) {
    const Source source = make_source(++number, 40'000);
    if (!fixture.store->publish(entry_key(source, "t").value(), source, {binary, ""}))
      state.SkipWithError("publish failed");
  }
}
BENCHMARK(store_publish)->Unit(benchmark::kMicrosecond)->Iterations(100)->UseRealTime();

/// `range(0)` sources with one call of the compiler.
void cxx_compile(benchmark::State& state) {
  const auto toolchain = CxxToolchain::find();
  if (!toolchain) {
    state.SkipWithError(toolchain.error().text().c_str());
    return;
  }
  std::vector<Source> sources;
  for (int i = 0; i < state.range(0); ++i) sources.push_back(make_source(i, 0));
  std::vector<const Source*> pointers;
  for (const Source& source : sources) pointers.push_back(&source);
  for (auto _ : state)
    if (!(*toolchain)->compile(pointers, {})) state.SkipWithError("compile failed");
  state.counters["per_source"] = benchmark::Counter(
      static_cast<double>(state.range(0)), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(cxx_compile)->Arg(1)->Arg(2)->Arg(8)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace tilesmith

BENCHMARK_MAIN();
