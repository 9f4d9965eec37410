// Peaks are measured with the instructions alone: accumulator chains in registers that do not depend on each other, and
// a plain read of a buffer that is far larger than any cache. Inline assembly keeps the compiler from removing loops
// whose results nobody reads.
#include "measure/peaks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <system_error>
#include <thread>
#include <vector>

#include "base/json.hpp"
#include "measure/measure.hpp"
#include "runtime/aligned_buffer.hpp"

namespace tilesmith {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRounds = 20000;

// Twelve chains hide the latency of two units of five cycles and leave AVX2 its sixteen registers.
#define TS_TWELVE(op) op(0) op(1) op(2) op(3) op(4) op(5) op(6) op(7) op(8) op(9) op(10) op(11)

__attribute__((target("avx2,fma"))) void fma_avx2() {
#define TS_OP(i) "vfmadd231ps %%ymm12, %%ymm13, %%ymm" #i "\n\t"
#define TS_ZERO(i) "vxorps %%ymm" #i ", %%ymm" #i ", %%ymm" #i "\n\t"
  int n = kRounds;
  asm volatile(TS_TWELVE(TS_ZERO) TS_ZERO(12) TS_ZERO(13) "1:\n\t" TS_TWELVE(TS_OP) "dec %0\n\tjnz 1b\n\tvzeroupper"
               : "+r"(n)
               :
               : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
                 "xmm12", "xmm13", "cc");
#undef TS_OP
#undef TS_ZERO
}

__attribute__((target("avx512f"))) void fma_avx512() {
#define TS_OP(i) "vfmadd231ps %%zmm12, %%zmm13, %%zmm" #i "\n\t"
#define TS_ZERO(i) "vpxord %%zmm" #i ", %%zmm" #i ", %%zmm" #i "\n\t"
  int n = kRounds;
  asm volatile(TS_TWELVE(TS_ZERO) TS_ZERO(12) TS_ZERO(13) "1:\n\t" TS_TWELVE(TS_OP) "dec %0\n\tjnz 1b\n\tvzeroupper"
               : "+r"(n)
               :
               : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
                 "xmm12", "xmm13", "cc");
#undef TS_OP
}

__attribute__((target("avx512f,avx512bf16"))) void dpbf16() {
#define TS_OP(i) "vdpbf16ps %%zmm12, %%zmm13, %%zmm" #i "\n\t"
  int n = kRounds;
  asm volatile(TS_TWELVE(TS_ZERO) TS_ZERO(12) TS_ZERO(13) "1:\n\t" TS_TWELVE(TS_OP) "dec %0\n\tjnz 1b\n\tvzeroupper"
               : "+r"(n)
               :
               : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
                 "xmm12", "xmm13", "cc");
#undef TS_OP
}

__attribute__((target("avx512f,avx512vnni"))) void vnni() {
#define TS_OP(i) "vpdpbusd %%zmm12, %%zmm13, %%zmm" #i "\n\t"
  int n = kRounds;
  asm volatile(TS_TWELVE(TS_ZERO) TS_ZERO(12) TS_ZERO(13) "1:\n\t" TS_TWELVE(TS_OP) "dec %0\n\tjnz 1b\n\tvzeroupper"
               : "+r"(n)
               :
               : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
                 "xmm12", "xmm13", "cc");
#undef TS_OP
#undef TS_ZERO
}

/// Two by two tiles of products. Operands are random data read from L1, as a kernel's are (zeros run at a higher
/// clock).
#define TS_AMX_PROBE(name, feature, product)                                                                          \
  __attribute__((target("amx-tile," feature))) void name() {                                                          \
    alignas(64) static thread_local unsigned char config[64] = {};                                                    \
    alignas(64) static thread_local std::uint16_t operands[4 * 512];                                                  \
    config[0] = 1;                                                                                                    \
    for (int tile = 0; tile < 8; ++tile) {                                                                            \
      config[16 + 2 * tile] = 64;                                                                                     \
      config[48 + tile] = 16;                                                                                         \
    }                                                                                                                 \
    std::uint32_t state = 1;                                                                                          \
    for (auto& value : operands) {                                                                                    \
      state = state * 1664525u + 1013904223u;                                                                         \
      value = static_cast<std::uint16_t>(0x3f80u | (state >> 25)); /* as bf16 between 1 and 2 */                      \
    }                                                                                                                 \
    const void* base = operands;                                                                                      \
    long stride = 64;                                                                                                 \
    int n = kRounds;                                                                                                  \
    asm volatile(                                                                                                     \
        "ldtilecfg (%3)\n\t"                                                                                          \
        "tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3\n\t"                                \
        "1:\n\t"                                                                                                      \
        "tileloadd (%1,%2), %%tmm4\n\ttileloadd 1024(%1,%2), %%tmm5\n\ttileloadd 2048(%1,%2), %%tmm6\n\ttileloadd "   \
        "3072(%1,%2), %%tmm7\n\t" product " %%tmm6, %%tmm4, %%tmm0\n\t" product " %%tmm7, %%tmm4, %%tmm1\n\t" product \
        " %%tmm6, %%tmm5, %%tmm2\n\t" product                                                                         \
        " %%tmm7, %%tmm5, %%tmm3\n\t"                                                                                 \
        "dec %0\n\tjnz 1b\n\ttilerelease"                                                                             \
        : "+r"(n)                                                                                                     \
        : "r"(base), "r"(stride), "r"(config)                                                                         \
        : "cc", "memory");                                                                                            \
  }
TS_AMX_PROBE(amx_bf16, "amx-bf16", "tdpbf16ps")
TS_AMX_PROBE(amx_int8, "amx-int8", "tdpbssd")

/// Seconds that so many threads, this one among them, work from the moment that all have warmed up. One thread counts
/// its processor time, so that other programs on the machine do not lower the peak. Errors: std::system_error.
template <class Warm, class Work>
double seconds_on(int threads, const Warm& warm, const Work& work) {
  std::atomic<int> waiting{threads};
  const auto begin_together = [&] {
    warm();
    --waiting;
    while (waiting.load() > 0) std::this_thread::yield();
  };
  std::vector<std::jthread> others;
  try {
    for (int t = 1; t < threads; ++t)
      others.emplace_back([&, t] {
        begin_together();
        work(t);
      });
  } catch (const std::system_error&) {  // no room for another: those that wait go on, and end
    waiting = 0;
    throw;
  }
  begin_together();
  const double begin = clock_seconds(threads == 1);
  work(0);
  others.clear();  // when they have ended
  return clock_seconds(threads == 1) - begin;
}

/// Operations a second over all threads: the best of a few runs, each long enough to reach the steady clock.
double rate(const ProductLoop& loop, int threads) {
  if (loop.run == nullptr) return 0;
  double best = 0;
  for (int attempt = 0; attempt < 4; ++attempt) {
    std::atomic<long> calls{0};
    const double seconds = seconds_on(threads, loop.run, [&](int) {
      const auto end = Clock::now() + std::chrono::milliseconds(40);
      long own = 0;
      while (Clock::now() < end) {
        loop.run();
        ++own;
      }
      calls += own;
    });
    best = std::max(best, static_cast<double>(calls.load()) * loop.operations / seconds);
  }
  return best;
}

__attribute__((target("avx2"))) void read_all(const std::byte* data, std::size_t bytes) {
  const std::byte* end = data + bytes;
  asm volatile(
      "1:\n\tvmovdqa (%0), %%ymm0\n\tvmovdqa 32(%0), %%ymm1\n\tvmovdqa 64(%0), %%ymm2\n\tvmovdqa 96(%0), %%ymm3\n\tadd "
      "$128, %0\n\tcmp %1, %0\n\tjb 1b\n\tvzeroupper"
      : "+r"(data)
      : "r"(end)
      : "xmm0", "xmm1", "xmm2", "xmm3", "cc", "memory");
}

/// Bytes a second that all threads together read from memory, each its own part.
double read_rate(int threads) {
  constexpr std::size_t kBytes = std::size_t{256} << 20;
  AlignedBuffer buffer(kBytes * static_cast<std::size_t>(threads));
  std::memset(buffer.data(), 1, buffer.bytes());
  double best = 0;
  for (int attempt = 0; attempt < 4; ++attempt) {
    const double seconds = seconds_on(
        threads, [] {}, [&](int t) { read_all(buffer.data() + static_cast<std::size_t>(t) * kBytes, kBytes); });
    best = std::max(best, static_cast<double>(kBytes) * threads / seconds);
  }
  return best;
}

template <class Chip>
Peaks sheet_peaks(const Chip& chip) {
  return {.measured = false,
          .threads = 0,
          .fp32_gflops = 1e3 * chip.tflops_of(DataType::fp32),
          .tf32_gflops = 1e3 * chip.tflops_of(DataType::tf32),
          .bf16_gflops = 1e3 * chip.tflops_of(DataType::bf16),
          .fp16_gflops = 1e3 * chip.tflops_of(DataType::fp16),
          .fp8_gflops = 1e3 * chip.tflops_of(DataType::fp8),
          .int8_gops = 1e3 * chip.tflops_of(DataType::int8),
          .read_gbps = 1e-9 * chip.bytes_per_second};
}

}  // namespace

double Peaks::least_seconds(DataType type, double flops, double bytes) const {
  const DataType inputs = input_type(type);
  const bool is_fp8 = inputs == DataType::fp8 || inputs == DataType::bf8;
  const double own = type == DataType::tf32   ? tf32_gflops
                     : type == DataType::bf16 ? bf16_gflops
                     : type == DataType::fp16 ? fp16_gflops
                     : type == DataType::int8 ? int8_gops
                     : is_fp8                 ? fp8_gflops
                                              : 0;
  const double gflops = std::max(fp32_gflops, own);
  return gflops > 0 ? std::max(flops / (gflops * 1e9), bytes / (read_gbps * 1e9)) : 0;
}

Peaks cuda_peaks(const CudaSpec& spec) {
  return sheet_peaks(spec.reference);
}

Peaks hip_peaks(const HipSpec& spec) {
  return sheet_peaks(spec.reference);
}

ProductLoop product_loop(const CpuMachine& machine, DataType inputs) {
  const auto has = [&](const char* feature) {
    return std::ranges::find(machine.features, feature) != machine.features.end();
  };
  constexpr double kChains = 12.0 * kRounds, kTiles = 4.0 * kRounds * 16 * 16;
  switch (inputs) {
    case DataType::fp32:
      return has("avx512f") ? ProductLoop{kChains * 32, fma_avx512} : ProductLoop{kChains * 16, fma_avx2};
    case DataType::bf16:
      if (has("amx_bf16")) return {kTiles * 64, amx_bf16};
      return has("avx512_bf16") ? ProductLoop{kChains * 64, dpbf16} : ProductLoop{};
    case DataType::int8:
      if (has("amx_int8")) return {kTiles * 128, amx_int8};
      return has("avx512_vnni") ? ProductLoop{kChains * 128, vnni} : ProductLoop{};
    default:
      return {};
  }
}

Result<Peaks> measure_peaks(int threads) {
  const Result<CpuMachine>& machine = this_cpu_machine();
  if (!machine) return std::unexpected(machine.error());
  Peaks out;
  out.threads = std::max(1, threads);
  const auto gigas = [&](DataType inputs) { return rate(product_loop(*machine, inputs), out.threads) * 1e-9; };
  out.fp32_gflops = gigas(DataType::fp32);
  out.bf16_gflops = gigas(DataType::bf16);
  out.int8_gops = gigas(DataType::int8);
  out.read_gbps = read_rate(out.threads) * 1e-9;
  return out;
}

nlohmann::json to_json(const Peaks& peaks) {
  nlohmann::json out = nlohmann::json::object();
  Peaks::fields(peaks, [&](const char* name, const auto& figure) { out[name] = figure; });
  return out;
}

Result<Peaks> peaks_from_json(const nlohmann::json& json) {
  Peaks peaks;
  Status status;
  Peaks::fields(peaks, [&]<class T>(const char* name, T& figure) {
    if (!status) return;
    const auto found = json.is_object() ? json.find(name) : json.end();
    const bool fits = found != json.end() && (std::is_same_v<T, bool> ? found->is_boolean() : found->is_number());
    if (fits)
      figure = found->template get<T>();
    else
      status = fail(ErrorCode::parse, fmt::format("peaks without a {} of its type", name), "what to_json writes");
  });
  if (!status) return std::unexpected(status.error());
  return peaks;
}

}  // namespace tilesmith
