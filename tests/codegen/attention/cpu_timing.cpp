// Times one generated attention kernel on one thread, in processor time:
//   cpu_attention_timing level element instruction pipeline head_dim tile_m tile_n seqlen_q seqlen_k causal heads_q
//   heads_kv splits
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "codegen/attention/cpu.hpp"
#include "codegen/cpu_kernel_harness.hpp"
#include "kernels/cpu/attention/abi.h"

using namespace tilesmith;

namespace {
double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}
}  // namespace

int main(int argc, char** argv) {
  if (argc < 14) return 2;
  CpuAttentionParameters p;
  p.name = "timing";
  const std::string level = argv[1], element = argv[2], instruction = argv[3], pipeline = argv[4];
  for (const CpuLevel l : {CpuLevel::x86_64_v3, CpuLevel::x86_64_v4, CpuLevel::x86_64_v4_bf16, CpuLevel::x86_64_amx}) {
    if (to_string(l) == level) p.level = l;
  }
  p.element = p.cache = *parse_element_type(element);
  p.instruction = instruction == "amx"  ? Instruction::amx_bf16
                  : instruction == "dp" ? Instruction::dpbf16
                                        : Instruction::fma_f32;
  p.pipeline = pipeline == "decode" ? Pipeline::decode : Pipeline::flash;
  p.head_dim_qk = p.head_dim_v = std::atoi(argv[5]);
  p.tile_m = std::atoi(argv[6]);
  p.tile_n = std::atoi(argv[7]);
  const long long sq = std::atoll(argv[8]), sk = std::atoll(argv[9]);
  const bool causal = std::atoi(argv[10]) != 0;
  const long long hq = std::atoll(argv[11]), hkv = std::atoll(argv[12]), d = p.head_dim_qk;
  p.mask = causal;
  const auto source = cpu_attention_source(p);
  if (!source) return fmt::print("{}\n", source.error().text()), 1;
  const auto store = TemporaryDirectory::create("tilesmith-timing-").value();  // empty: the kernel is compiled
  const auto compile_start = std::chrono::steady_clock::now();
  const auto kernel = compile_kernel(*source, store.path());
  const double compile_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - compile_start).count();
  if (!kernel) return fmt::print("{}\n", kernel.error().text()), 1;
  if (!machine_has(p.level)) return 0;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> table(4099);
  for (float& x : table) x = normal(random);
  const auto tensor = [&](long long heads, long long rows) {
    const std::size_t n = static_cast<std::size_t>(heads * rows * d);
    std::vector<std::byte> bytes(n * size_of(p.element));
    std::vector<float> values(n);
    for (std::size_t i = 0; i < n; ++i) values[i] = table[i % table.size()];
    store_elements(p.element, values, bytes.data());
    return bytes;
  };
  const std::vector<std::byte> q = tensor(hq, sq), k = tensor(hkv, sk), v = tensor(hkv, sk);
  std::vector<std::byte> o = tensor(hq, sq);
  TsAttentionArgs a{};
  a.q = q.data();
  a.k = k.data();
  a.v = v.data();
  a.o = o.data();
  a.q_strides = a.o_strides = {hq * sq * d, sq * d, d, 1};
  a.k_strides = a.v_strides = {hkv * sk * d, sk * d, d, 1};
  a.batch = 1;
  a.heads_q = hq;
  a.heads_kv = hkv;
  a.seqlen_q = sq;
  a.seqlen_k = sk;
  a.window_left = -1;
  a.window_right = causal ? 0 : -1;
  a.mask_bottom_right = 1;
  a.splits = std::atoll(argv[13]);
  a.scale = 1.0F / std::sqrt(static_cast<float>(d));
  std::vector<std::byte> workspace(static_cast<std::size_t>((*kernel)->workspace_bytes(&a)) + 64);
  std::vector<std::byte> scratch(static_cast<std::size_t>((*kernel)->scratch_bytes(&a)) + 64);
  const auto align = [](std::byte* x) {
    return reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(x) + 63) & ~63ULL);
  };
  a.workspace = align(workspace.data());
  if ((*kernel)->thread_begin != nullptr) (*kernel)->thread_begin();
  std::vector<double> times;
  for (double total = 0; times.size() < 3 || (total < 1.5 && times.size() < 2000);) {
    const double start = thread_seconds();
    for (unsigned s = 0; s < (*kernel)->stage_count; ++s) {
      const long long tasks = (*kernel)->stages[s].tasks(&a);
      for (long long t = 0; t < tasks; ++t) (*kernel)->stages[s].run(&a, t, align(scratch.data()));
    }
    times.push_back(thread_seconds() - start);
    total += times.back();
  }
  std::sort(times.begin(), times.end());
  const double pairs = causal ? static_cast<double>(sq) * static_cast<double>(sk) -
                                    0.5 * static_cast<double>(sq) * static_cast<double>(sq - 1)
                              : static_cast<double>(sq) * static_cast<double>(sk);
  const double flop = 4.0 * static_cast<double>(hq * d) * pairs;
  const double bytes = 2.0 * static_cast<double>(hkv * sk * d) * static_cast<double>(size_of(p.element));
  fmt::print(
      "{} {} {} {} d{} m{} n{} sq{} sk{} causal{} h{}/{}: best {:.4f} ms median {:.4f} ms  {:.1f} GFLOP/s  {:.1f} GB/s "
      " compile {:.0f} ms\n",
      level, element, instruction, pipeline, d, p.tile_m, p.tile_n, sq, sk, causal, hq, hkv, times[0] * 1e3,
      times[times.size() / 2] * 1e3, flop / times[0] * 1e-9, bytes / times[0] * 1e-9, compile_seconds * 1e3);
}
