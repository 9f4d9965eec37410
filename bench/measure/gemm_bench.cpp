// Times generated GEMM kernels beside the libraries a distribution ships, taking turns so that all meet the same
// machine; caches are cold, the medians are compared.
//
//   gemm_bench --type bf16 --order rc --threads 2 512x512x512 4x4096x4096
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "codegen/gemm/cpu.hpp"
#include "gemm_peers.hpp"
#include "jit/build.hpp"
#include "jit/cxx_toolchain.hpp"
#include "kernels/cpu/gemm/abi.h"
#include "measure/measure.hpp"
#include "measure/peaks.hpp"
#include "runtime/aligned_buffer.hpp"
#include "runtime/cpu/kernel.hpp"
#include "runtime/cpu/machine.hpp"
#include "runtime/cpu/thread_pool.hpp"

namespace tilesmith {
namespace {

struct Options {
  std::string type = "fp32", output, order = "rr", level, instruction, form = "blocked";
  int threads = 1;
  long long splits = 1;
  std::vector<int> tiles;  ///< m, n, k of each
  double seconds = 1;
  bool warm = false, alone = false, peak = false, processor_time = false, shares = false;
  std::vector<std::string> shapes;
};

/// A kernel, or a part of one.
struct Variant {
  std::string name;
  TsCpuKernel table;
  bool products = true;  ///< else alpha is 0
};

struct Contender {
  std::string name;
  std::function<void()> run;
  std::vector<double> seconds = {};
  [[nodiscard]] double median() const { return seconds[seconds.size() / 2]; }
};

AlignedBuffer random_matrix(ElementType type, long long count, std::uint64_t stream) {
  AlignedBuffer buffer(static_cast<std::size_t>(count) * size_of(type) + 64);
  std::vector<float> values(static_cast<std::size_t>(count));
  if (type == ElementType::int8) {
    fill_integers(values, {1, stream}, -127, 127);
  } else {
    fill_normal(values, {1, stream});
  }
  store_elements(type, values, buffer.data());
  return buffer;
}

Result<CpuKernel> load(const CpuGemmParameters& p) {
  static Result<std::unique_ptr<Store>> store = Store::open();
  static Result<std::unique_ptr<CxxToolchain>> toolchain = CxxToolchain::find();
  if (!store) return std::unexpected(store.error());
  if (!toolchain) return std::unexpected(toolchain.error());
  TS_ASSIGN(const Source source, cpu_gemm_source(p));
  TS_ASSIGN(const Binary binary, build(**store, **toolchain, source));
  return CpuKernel::load(binary.path, binary.entry_symbol, {p.key[0], p.key[1]});
}

/// What the kernel's products are held against: the instruction alone on as many threads, a contender that takes its
/// turn, because a shared machine's rates change from one moment to the next.
class Ceiling {
 public:
  Ceiling(ThreadPool& pool, const ProductLoop& loop, int threads) : pool_(pool), calls_{loop, threads} {
    table_.abi_version = TS_CPU_ABI_VERSION;
    table_.workspace_bytes = table_.scratch_bytes = [](const void*) { return 0ll; };
    table_.stage_count = 1;
    table_.stages[0] = {[](const void* calls) { return static_cast<const Calls*>(calls)->count; },
                        [](const void* calls, long long, void*) { static_cast<const Calls*>(calls)->loop.run(); }};
    constexpr double kTurnSeconds = 2e-3;
    operations_a_second(false);  // starts the threads
    const double turns = kTurnSeconds * operations_a_second(false) / (threads * loop.operations);
    calls_.count *= static_cast<long long>(std::ceil(turns));
  }

  double operations_a_second(bool processor_time) {
    const double begin = clock_seconds(processor_time);
    pool_.run(table_, &calls_);
    return static_cast<double>(calls_.count) * calls_.loop.operations / (clock_seconds(processor_time) - begin);
  }

 private:
  struct Calls {
    ProductLoop loop;
    long long count;
  };
  ThreadPool& pool_;
  Calls calls_;
  TsCpuKernel table_{};
};

/// The median, over the rounds, of a contender's rate over the peak's.
double share_of(const std::vector<double>& peaks, double operations, const std::vector<double>& seconds) {
  std::vector<double> shares;
  for (std::size_t i = 0; i < seconds.size(); ++i) shares.push_back(operations / seconds[i] / peaks[i]);
  std::ranges::sort(shares);
  return shares[shares.size() / 2];
}

/// The peak's products for a kernel's.
DataType products_of(const CpuGemmParameters& p) {
  if (p.element == ElementType::int8) return DataType::int8;
  return p.instruction == Instruction::fma_f32 ? DataType::fp32 : DataType::bf16;
}

/// The best instruction of the machine, or the one asked for.
Status choose(const Options& options, const CpuMachine& machine, CpuGemmParameters& p) {
  const auto has = [&](std::string_view feature) {
    return std::ranges::find(machine.features, feature) != machine.features.end();
  };
  p.level = has("amx_bf16")                            ? CpuLevel::x86_64_amx
            : has("avx512_bf16") && has("avx512_vnni") ? CpuLevel::x86_64_v4_bf16
            : has("avx512bw") && has("avx512dq")       ? CpuLevel::x86_64_v4
                                                       : CpuLevel::x86_64_v3;
  for (const CpuLevel l : {CpuLevel::x86_64_v3, CpuLevel::x86_64_v4, CpuLevel::x86_64_v4_bf16, CpuLevel::x86_64_amx})
    if (to_string(l) == options.level) p.level = l;
  TS_ASSIGN(p.element, parse_element_type(options.type));
  p.output = p.element == ElementType::int8 ? ElementType::int32 : p.element;
  if (!options.output.empty()) {
    TS_ASSIGN(p.output, parse_element_type(options.output));
  }
  p.aux = p.output == ElementType::int32 ? ElementType::int32 : ElementType::fp32;
  p.form = options.form == "skinny" ? CpuGemmForm::skinny : CpuGemmForm::blocked;
  const bool tiles = p.level == CpuLevel::x86_64_amx && p.form == CpuGemmForm::blocked;
  if (p.element == ElementType::bf16 && p.level >= CpuLevel::x86_64_v4_bf16)
    p.instruction = tiles ? Instruction::amx_bf16 : Instruction::dpbf16;
  if (p.element == ElementType::int8)
    p.instruction = tiles                                 ? Instruction::amx_int8
                    : p.level >= CpuLevel::x86_64_v4_bf16 ? Instruction::dot_int8
                                                          : Instruction::dot_int16;
  for (std::size_t i = 0; i < enum_size<Instruction>(); ++i)
    if (name_of(static_cast<Instruction>(i)) == options.instruction) p.instruction = static_cast<Instruction>(i);
  const CpuSpec& spec = machine.levels.front();
  const CpuGemmBlocking blocking = cpu_gemm_blocking(p.level, p.form, p.instruction, spec.l1d_bytes, spec.l2_bytes);
  p.tile_m = blocking.tile_m;
  p.tile_n = blocking.tile_n;
  p.tile_k = blocking.tile_k;
  p.order_a = options.order[0] == 'r' ? MatrixOrder::row : MatrixOrder::column;
  p.order_b = options.order[1] == 'r' ? MatrixOrder::row : MatrixOrder::column;
  p.split_k = options.splits > 1;
  p.packed_b = options.form == "packed";
  p.name = "gemm_bench";
  return {};
}

/// The kernel with the machine's tile, or with each of those asked for. With --shares also parts of the first: packing
/// B for all tasks, and what comes after the products.
Result<std::vector<Variant>> load_variants(const Options& options, CpuGemmParameters p) {
  std::vector<Variant> variants;
  for (std::size_t at = 0; at == 0 || at + 3 <= options.tiles.size(); at += 3) {
    if (at + 3 <= options.tiles.size()) {
      p.tile_m = options.tiles[at];
      p.tile_n = options.tiles[at + 1];
      p.tile_k = options.tiles[at + 2];
    }
    TS_ASSIGN(const CpuKernel kernel, load(p));
    variants.push_back({fmt::format("{}x{}x{}", p.tile_m, p.tile_n, p.tile_k), kernel.table()});
  }
  if (options.shares) {
    if (p.form != CpuGemmForm::blocked || p.packed_b)
      return fail(ErrorCode::invalid_argument, "--shares of a kernel that packs no B", "--form blocked");
    variants.push_back({"packing of B", variants.front().table});
    variants.back().table.stage_count = 1;
    variants.push_back({"all but A, B and products", variants.front().table, false});
  }
  return variants;
}

Status run(const Options& options) {
  TS_ASSIGN(const CpuMachine machine, detect_cpu_machine());
  CpuGemmParameters p;
  TS_TRY(choose(options, machine, p));
  TS_ASSIGN(const std::vector<Variant> variants, load_variants(options, p));
  ThreadPool pool(options.threads);
  fmt::print("{} {} {}, order {}, {} {}, tile {}, splits {}, {} thread(s), {} caches\n", to_string(p.level),
             to_string(p.element), name_of(p.instruction), options.order, options.form, to_string(p.output),
             variants.front().name, options.splits, options.threads, options.warm ? "warm" : "cold");
  std::unique_ptr<Ceiling> peak;
  if (const ProductLoop loop = product_loop(machine, products_of(p)); options.peak && loop.run != nullptr)
    peak = std::make_unique<Ceiling>(pool, loop, options.threads);
  std::vector<std::pair<std::string, std::vector<double>>> ratios;
  for (const std::string& text : options.shapes) {
    GemmCall call;
    if (std::sscanf(text.c_str(), "%lldx%lldx%lld", &call.m, &call.n, &call.k) != 3)
      return fail(ErrorCode::invalid_argument, fmt::format("shape '{}'", text), "MxNxK");
    AlignedBuffer a = random_matrix(p.element, call.m * call.k, 1), b = random_matrix(p.element, call.k * call.n, 2);
    AlignedBuffer d(static_cast<std::size_t>(call.m * call.n) * size_of(p.output) + 64), peer_d(d.bytes());
    call.row_a = p.order_a == MatrixOrder::row;
    call.row_b = p.order_b == MatrixOrder::row;
    call.element = p.element;
    call.output = p.output;
    call.a = a.data();
    call.b = b.data();
    call.d = peer_d.data();
    call.threads = options.threads;
    TsGemmArgs args{};
    args.a = {a.data(), call.row_a ? call.k : call.m, 0};
    args.b = {b.data(), call.row_b ? call.n : call.k, 0};
    args.d = d.data();
    args.d_leading = call.n;
    args.m = call.m;
    args.n = call.n;
    args.k = call.k;
    args.batch = 1;
    args.splits = options.splits;
    args.threads = options.threads;
    args.alpha = 1;
    AlignedBuffer packed;
    if (p.packed_b) {
      CpuGemmParameters pack = p;
      pack.form = CpuGemmForm::pack_b;
      pack.packed_b = pack.split_k = false;
      TS_ASSIGN(const CpuKernel packer, load(pack));
      packed.reserve(static_cast<std::size_t>(packer.table().workspace_bytes(&args)));
      args.workspace = packed.data();
      pool.run(packer.table(), &args);
      args.b.data = packed.data();
    }
    std::vector<TsGemmArgs> calls(variants.size(), args);
    std::vector<AlignedBuffer> workspaces(variants.size());
    std::vector<Contender> contenders;
    for (std::size_t i = 0; i < variants.size(); ++i) {
      const TsCpuKernel& table = variants[i].table;
      if (!variants[i].products) calls[i].alpha = 0;
      workspaces[i].reserve(static_cast<std::size_t>(table.workspace_bytes(&calls[i])) + 64, Pages::huge);
      calls[i].workspace = workspaces[i].data();
      pool.reserve_scratch(static_cast<std::size_t>(table.scratch_bytes(&calls[i])));
      contenders.push_back({variants[i].name, [&pool, &table, call_args = &calls[i]] { pool.run(table, call_args); }});
    }
    if (!options.alone)
      for (GemmPeer& peer : gemm_peers(call, p.packed_b)) contenders.push_back({peer.name, peer.run});
    const MemoryRange touched[] = {{a.data(), a.bytes()},
                                   {b.data(), b.bytes()},
                                   {d.data(), d.bytes()},
                                   {peer_d.data(), peer_d.bytes()},
                                   {packed.data(), packed.bytes()}};
    for (Contender& c : contenders) c.run();
    std::vector<double> peaks;  // operations a second of each round
    double spent = 0;
    for (int round = 0; round < 5 || (spent < options.seconds && round < 500); ++round) {
      for (Contender& c : contenders) {
        if (!options.warm)
          for (const MemoryRange& range : touched) evict(range);
        const double begin = clock_seconds(options.processor_time);
        c.run();
        c.seconds.push_back(clock_seconds(options.processor_time) - begin);
        spent += c.seconds.back();
      }
      if (peak) peaks.push_back(peak->operations_a_second(options.processor_time));
    }
    const double flop = 2.0 * static_cast<double>(call.m * call.n) * static_cast<double>(call.k);
    const double bytes = static_cast<double>(call.k * call.n) * static_cast<double>(size_of(p.element));
    fmt::print("{:>16}", text);
    for (Contender& c : contenders) {
      const double share = peak ? share_of(peaks, flop, c.seconds) : 0;
      std::ranges::sort(c.seconds);
      fmt::print("  {} {:.4f} ms (best {:.4f}) {:.1f} GFLOP/s", c.name, c.median() * 1e3, c.seconds.front() * 1e3,
                 flop / c.median() * 1e-9);
      if (&c == &contenders.front()) {
        fmt::print(" {:.1f} GB/s of B", bytes / c.median() * 1e-9);
        if (peak) {
          const double best = std::ranges::max(peaks);
          fmt::print(" {:.1f} % of the peak (best of best {:.1f} % of {:.0f})", 100 * share,
                     100 * flop / c.seconds.front() / best, best * 1e-9);
        }
        continue;
      }
      const double ratio = c.median() / contenders.front().median();
      if (peak) fmt::print(" {:.1f} %", 100 * share);
      fmt::print(" ratio {:.2f} (best {:.2f})", ratio, c.seconds.front() / contenders.front().seconds.front());
      auto found = std::ranges::find(ratios, c.name, [](const auto& r) { return r.first; });
      if (found == ratios.end()) found = ratios.insert(ratios.end(), {c.name, {}});
      found->second.push_back(ratio);
    }
    fmt::print("\n");
    std::fflush(stdout);
    // The same values in the same order: the first product doubles as a check that the timed kernel computes.
    if (contenders.size() > variants.size()) {
      contenders.front().run();
      double worst = 0;
      const double scale = p.element == ElementType::int8 ? 1 : std::sqrt(static_cast<double>(call.k));
      for (long long i = 0; i < call.m * call.n; i += 97) {
        const auto at = static_cast<std::size_t>(i);
        worst = std::max(
            worst, std::abs(load_element(p.output, d.data(), at) - load_element(p.output, peer_d.data(), at)) / scale);
      }
      if (!(worst <= 0.05)) return fail(ErrorCode::internal, fmt::format("results differ by {} of sqrt(k)", worst));
    }
  }
  for (const auto& [name, all] : ratios) {
    double sum = 0;
    for (const double r : all) sum += std::log(r);
    fmt::print("geometric mean of {}'s time over ours: {:.3f} ({} shapes)\n", name,
               std::exp(sum / static_cast<double>(all.size())), all.size());
  }
  return {};
}

}  // namespace
}  // namespace tilesmith

int main(int argc, char** argv) {
  tilesmith::Options options;
  CLI::App app("CPU GEMM kernels beside OpenBLAS and oneDNN");
  app.add_option("--type", options.type, "of A and B: fp32, bf16, fp16, int8");
  app.add_option("--output", options.output, "of D; default: the type of A, or int32");
  app.add_option("--order", options.order, "of A and B: r for row-major, c for column-major")
      ->check(CLI::IsMember({"rr", "rc", "cr", "cc"}));
  app.add_option("--level", options.level, "default: the machine's highest");
  app.add_option("--instruction", options.instruction, "default: the level's best");
  app.add_option("--form", options.form, "packed: B is packed before the call")
      ->check(CLI::IsMember({"blocked", "skinny", "packed"}));
  app.add_option("--threads", options.threads);
  app.add_option("--splits", options.splits, "pieces of k");
  app.add_option("--tile", options.tiles, "m n k; repeated: kernels of several tiles, in turn")
      ->type_size(3)
      ->expected(1, 64);
  app.add_flag("--shares", options.shares, "also time parts of the call alone; a blocked kernel's");
  app.add_option("--seconds", options.seconds, "spent on each shape");
  app.add_flag("--warm", options.warm, "leave the caches as the call before left them");
  app.add_flag("--processor-time", options.processor_time, "of the calling thread: on one thread of a busy machine");
  app.add_flag("--peak", options.peak, "the product instruction alone takes its turn in each round");
  app.add_flag("--alone", options.alone, "no peers");
  app.add_option("shapes", options.shapes, "MxNxK ...")->required();
  CLI11_PARSE(app, argc, argv);
  if (const tilesmith::Status status = tilesmith::run(options); !status) {
    fmt::print(stderr, "{}\n", status.error().text());
    return 1;
  }
  return 0;
}
