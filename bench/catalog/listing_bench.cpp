// How fast lists are made: all attention instances of the chip with most of them, all GEMM instances of an NVIDIA chip
// and of CPU levels. Processor time of the one thread that works.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include "catalog/listing_output.hpp"

namespace tilesmith {
namespace {

Listing listing_of(ListRequest request) {
  auto listing = Listing::prepare(std::move(request));
  if (!listing) std::abort();
  return std::move(*listing);
}

void rate(benchmark::State& state, const ListStatistics& statistics) {
  state.counters["instances"] = static_cast<double>(statistics.enumerated);
  state.counters["per_second"] =
      benchmark::Counter(static_cast<double>(statistics.enumerated) * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate);
}

void count(benchmark::State& state, ListRequest request) {
  const Listing listing = listing_of(std::move(request));
  ListStatistics statistics;
  for (auto _ : state)
    if (!listing.walk([](const KernelConfig&) { return true; }, statistics)) state.SkipWithError("the walk failed");
  rate(state, statistics);
}

void write_names(benchmark::State& state, const char* path) {
  const Listing listing = listing_of({.arch = "gfx950"});
  ListStatistics statistics;
  for (auto _ : state) {
    const int file = ::open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    const auto written = write_listing(listing, ListFormat::names, file);
    if (written)
      statistics = *written;
    else
      state.SkipWithError("the write failed");
    ::close(file);
  }
  if (std::string_view(path) != "/dev/null") ::unlink(path);
  rate(state, statistics);
}

BENCHMARK_CAPTURE(count, rules, ListRequest{.arch = "gfx950"})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(count, sound, ListRequest{.arch = "gfx950", .mode = EnumerationMode::sound})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(count, filter,
                  ListRequest{.arch = "gfx950", .filters = {"c.hdim_q == 128 and c.pipeline == 'qr_async'"}})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(count, gemm_sm_90a, ListRequest{.arch = "sm_90a", .operation = Operation::gemm, .layout = "all"})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(count, gemm_x86_64_v4,
                  ListRequest{.arch = "x86_64_v4", .operation = Operation::gemm, .layout = "all"})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(count, gemm_gfx950, ListRequest{.arch = "gfx950", .operation = Operation::gemm})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(count, gemm_gfx950_exhaustive,
                  ListRequest{.arch = "gfx950", .operation = Operation::gemm, .mode = EnumerationMode::exhaustive})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(write_names, to_nowhere, "/dev/null")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(write_names, to_a_file, "catalog_bench.names")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tilesmith
