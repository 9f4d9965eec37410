// The GEMM template for AMD GPUs: every listed tile compiles without spills and takes what the resource formulas say
// (where clang is installed), and its text computes GEMMs right, emulated on the CPU.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <random>

#include "base/file.hpp"
#include "base/parallel.hpp"
#include "codegen/gemm/hip.hpp"
#include "codegen/generate.hpp"
#include "codegen/hip_emulation.hpp"
#include "instances/gemm/hip.hpp"
#include "jit/amdgcn_toolchain.hpp"
#include "jit/cxx_toolchain.hpp"
#include "kernels/hip/gemm/abi.h"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

GemmSignature signature_of(DataType type, DataType result, std::string_view layout = "rc", GemmEpilogue epilogue = {}) {
  GemmSignature s;
  s.a = s.b = type;
  s.c = s.aux = result;
  s.bias = epilogue.empty() ? s.bias : result;
  s.accumulator = type == DataType::int8 ? DataType::int32 : DataType::fp32;
  s.layout_a = layout[0] == 'r' ? MatrixOrder::row : MatrixOrder::column;
  s.layout_b = layout[1] == 'r' ? MatrixOrder::row : MatrixOrder::column;
  s.epilogue_ops = epilogue;
  return s;
}

/// Every tile of a chip's tables, as it is used most and with other types, layouts, widths and epilogues in turn.
std::vector<KernelConfig> essential_configs(const HipSpec& spec) {
  constexpr std::string_view kLayouts[] = {"rc", "rr", "cr", "cc"};
  const GemmEpilogue epilogues[] = {
      {}, {EpilogueOp::bias, EpilogueOp::gelu}, {EpilogueOp::swiglu}, {EpilogueOp::bias, EpilogueOp::add}};
  std::vector<KernelConfig> configs;
  for (const HipGemmTable& table : spec.gemm_tables)
    for (std::size_t t = 0; t < table.tiles.size(); ++t)
      for (const bool usual : {true, false}) {
        if (!usual && t % 3 == 2) continue;
        const DataType type = table.data_types[usual ? 0 : t % table.data_types.size()];
        const auto result = type == DataType::int8 ? DataType::fp32 : t % 2 == 0 ? DataType::bf16 : DataType::fp16;
        const GemmSignature s =
            usual ? signature_of(type, result) : signature_of(type, result, kLayouts[t % 4], epilogues[(t + 1) % 4]);
        KernelConfig config{.arch = spec.arch, .signature = s, .algorithm = {}};
        config.algorithm = hip_gemm_algorithm(spec, s, table.tiles[t]);
        if (!usual) config.algorithm.vector = hip_gemm_widths(s)[1 + t / 4 % 2];
        configs.push_back(config);
      }
  return configs;
}

TEST(HipGemmKernelsTest, EveryTileCompilesWithoutSpillsAndTakesWhatTheFormulasSay) {
  const auto toolchain = AmdgcnToolchain::find();
  if (!toolchain) GTEST_SKIP() << toolchain.error().text();
  const std::vector<HipSpec> specs = load_hip_specs().value();
  for (const HipSpec& spec : specs) {
    const std::vector<KernelConfig> configs = essential_configs(spec);
    EXPECT_GE(configs.size(), 10u) << spec.arch.text();
    std::mutex mutex;
    parallel_for(configs.size(), 0, [&](std::size_t at) {
      const KernelConfig& config = configs[at];
      const auto source = generate(config, spec);
      ASSERT_TRUE(source.has_value()) << source.error().text();
      const Source* one = &*source;
      const auto compiled = (*toolchain)->compile({&one, 1}, {});
      const std::lock_guard guard(mutex);
      ASSERT_TRUE(compiled.has_value()) << compiled.error().text();
      const FunctionResources* kernel = compiled->resources->kernel(source->entry_symbol);
      const HipFragment* fragment =
          spec.fragment(std::get<GemmSignature>(config.signature).a, config.algorithm.warp[0]);
      const HipGemmResources resources = hip_gemm_resources(config, spec, *fragment);
      EXPECT_EQ(kernel->shared_bytes, resources.lds_bytes) << source->name;
      EXPECT_LE(kernel->registers, resources.registers_allowed) << source->name;
      EXPECT_EQ(compiled->resources->spill_bytes(), 0) << source->name;
    });
  }
}

// Elements as kernels store them.

double value_of(DataType type, std::uint32_t bits) {
  switch (type) {
    case DataType::fp32: {
      float value;
      std::memcpy(&value, &bits, 4);
      return value;
    }
    case DataType::bf16: {
      const std::uint32_t word = bits << 16;
      float value;
      std::memcpy(&value, &word, 4);
      return value;
    }
    case DataType::fp16: {
      const int exponent = static_cast<int>(bits >> 10 & 31), mantissa = static_cast<int>(bits & 1023);
      const double sign = bits >> 15 ? -1 : 1;
      if (exponent == 31) return mantissa ? NAN : sign * INFINITY;
      return sign * (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25));
    }
    case DataType::int32:
      return static_cast<std::int32_t>(bits);
    case DataType::int8:
      return static_cast<std::int8_t>(bits);
    case DataType::fp8:
    case DataType::bf8: {
      const int width = type == DataType::fp8 ? 3 : 2, bias = type == DataType::fp8 ? 7 : 15;
      const int exponent = static_cast<int>(bits & 127) >> width,
                mantissa = static_cast<int>(bits) & ((1 << width) - 1);
      const double magnitude = exponent == 0 ? std::ldexp(mantissa, 1 - bias - width)
                                             : std::ldexp((1 << width) + mantissa, exponent - bias - width);
      return bits & 128 ? -magnitude : magnitude;
    }
    default:
      return NAN;
  }
}

/// Memory whose last byte is followed by a page that nobody may touch, filled with NaN.
class EdgedMemory {
 public:
  EdgedMemory(std::size_t bytes, std::size_t alignment) {
    bytes = (bytes + alignment - 1) / alignment * alignment;
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    mapped_ = (bytes + page - 1) / page * page + page;
    base_ = static_cast<char*>(::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::memset(base_, 0xff, mapped_ - page);
    ::mprotect(base_ + mapped_ - page, page, PROT_NONE);
    data_ = base_ + mapped_ - page - bytes;
  }
  EdgedMemory(const EdgedMemory&) = delete;
  EdgedMemory& operator=(const EdgedMemory&) = delete;
  ~EdgedMemory() { ::munmap(base_, mapped_); }
  [[nodiscard]] char* data() const { return data_; }

 private:
  std::size_t mapped_ = 0;
  char* base_ = nullptr;
  char* data_ = nullptr;
};

/// A matrix or vector in edged memory: element (b, i, j) at b * batch + i * row + j * column.
struct Tensor {
  DataType type;
  std::int64_t batch, row, column, bytes;
  EdgedMemory memory;

  Tensor(DataType t, std::int64_t batches, std::int64_t rows, std::int64_t columns, bool row_major, int pad,
         bool aligned)
      : type(t),
        batch((row_major ? rows * (columns + pad) : columns * (rows + pad)) + (row_major ? columns : rows) + pad),
        row(row_major ? columns + pad : 1),
        column(row_major ? 1 : rows + pad),
        bytes(bits_of(t) / 8),
        memory(
            static_cast<std::size_t>(((batches - 1) * batch + (rows - 1) * row + (columns - 1) * column + 1) * bytes),
            aligned ? 16 : static_cast<std::size_t>(bytes)) {}

  [[nodiscard]] char* data() const { return memory.data(); }
  [[nodiscard]] std::uint32_t bits(std::int64_t b, std::int64_t i, std::int64_t j) const {
    std::uint32_t value = 0;
    std::memcpy(&value, data() + (b * batch + i * row + j * column) * bytes, static_cast<std::size_t>(bytes));
    return value;
  }
  [[nodiscard]] double at(std::int64_t b, std::int64_t i, std::int64_t j) const {
    return value_of(type, bits(b, i, j));
  }
  void set(std::int64_t b, std::int64_t i, std::int64_t j, std::uint32_t value) {
    std::memcpy(data() + (b * batch + i * row + j * column) * bytes, &value, static_cast<std::size_t>(bytes));
  }
};

void fill(Tensor& tensor, int batches, int rows, int columns, std::mt19937& random) {
  for (int b = 0; b < batches; ++b)
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < columns; ++j) {
        const float value = std::uniform_real_distribution<float>(-1, 1)(random);
        std::uint32_t word;
        std::memcpy(&word, &value, 4);
        const auto any = static_cast<std::uint32_t>(random());
        switch (tensor.type) {
          case DataType::bf16:
            word >>= 16;
            break;
          case DataType::fp16:
            word = (any & 0x83ff) | (10 + (any >> 16) % 5) << 10;
            break;
          case DataType::int8:
            word = any & 0xff;
            break;
          case DataType::fp8:
            word = (any & 0x87) | (4 + (any >> 16) % 4) << 3;
            break;
          case DataType::bf8:
            word = (any & 0x83) | (12 + (any >> 16) % 4) << 2;
            break;
          default:
            break;
        }
        tensor.set(b, i, j, word);
      }
}

double activation(EpilogueOp op, double x) {
  switch (op) {
    case EpilogueOp::gelu:
      return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
    case EpilogueOp::swiglu:
    case EpilogueOp::silu:
      return x / (1 + std::exp(-x));
    case EpilogueOp::relu:
      return x < 0 ? 0 : x;
    case EpilogueOp::tanh:
      return std::tanh(x);
    default:
      return x;
  }
}

double unit_roundoff(DataType type) {
  return type == DataType::fp32 ? 0x1p-24 : type == DataType::fp16 ? 0x1p-11 : type == DataType::bf16 ? 0x1p-8 : 0;
}

class EmulatedGemm {
 public:
  explicit EmulatedGemm(const HipSpec& spec) : spec_(spec) {}

  /// Compiles and runs the config on one problem, and compares every element with sums in float64.
  void check(const KernelConfig& config, int m, int n, int k, int batch, std::mt19937& random) {
    const auto& s = std::get<GemmSignature>(config.signature);
    const std::string what = fmt::format("{} m {} n {} k {} batch {}", native_name(config), m, n, k, batch);
    SCOPED_TRACE(what);
    const bool aligned = config.algorithm.vector[0] > 1;
    const int element = bits_of(s.a) / 8, chunk = 16 / element;
    // Aligned operands have leading dimensions of whole chunks; others begin anywhere.
    const auto pad = [&](int inner) {
      return aligned ? (chunk - inner % chunk) % chunk : 1 + static_cast<int>(random() % 3);
    };
    const bool row_a = s.layout_a == MatrixOrder::row, row_b = s.layout_b == MatrixOrder::row;
    Tensor a(s.a, batch, m, k, row_a, pad(row_a ? k : m), aligned);
    Tensor b(s.b, batch, k, n, row_b, pad(row_b ? n : k), aligned);

    const int out_n = s.epilogue_ops.gated() ? n / 2 : n, wide = config.algorithm.vector[2];
    Tensor d(s.c, batch, m, out_n, true, wide > 1 ? 4 : 1, wide > 1);
    Tensor bias(s.bias, 1, 1, out_n, true, 0, wide > 1), aux(s.aux, batch, m, out_n, true, wide > 1 ? 4 : 3, wide > 1);
    fill(a, batch, m, k, random);
    fill(b, batch, k, n, random);
    fill(bias, 1, 1, out_n, random);
    fill(aux, batch, m, out_n, random);

    TsHipGemmArgs args{};
    args.a = {a.data(), row_a ? a.row : a.column, a.batch};
    args.b = {b.data(), row_b ? b.row : b.column, b.batch};
    args.d = d.data();
    args.d_leading = d.row;
    args.d_batch = d.batch;
    args.alpha = s.c == DataType::int32 ? 1.0f : 0.75f;
    args.m = m;
    args.n = n;
    args.k = k;
    args.batch = batch;
    args.band = 1 + static_cast<int>(random() % 3);
    const float scale = 0.5f;
    if (s.c != DataType::int32) args.scale_b.data = &scale;
    for (std::size_t i = 0; i < s.epilogue_ops.size(); ++i) {
      if (s.epilogue_ops[i] == EpilogueOp::bias) args.epilogue[i] = {bias.data(), 0, 0, 0, 0};
      if (s.epilogue_ops[i] == EpilogueOp::add) args.epilogue[i] = {aux.data(), aux.row, aux.batch, 0.5f, 0};
    }
    const testing::EmulatedEntry entry = compile(config);
    ASSERT_NE(entry, nullptr);
    const auto tiles = [](int size, int tile) { return (size + tile - 1) / tile; };
    entry(&args, batch * tiles(m, config.algorithm.tile[0]) * tiles(n, config.algorithm.tile[1]));

    int wrong = 0;
    for (int z = 0; z < batch; ++z)
      for (int i = 0; i < m; ++i) {
        for (int j = 0; j < out_n && wrong < 3; ++j) {
          double bound = 0;
          const double wanted = expected(s, args, a, b, bias, aux, z, i, j, k, bound);
          const double got = d.at(z, i, j);
          if (!(std::abs(got - wanted) <= bound)) {
            ++wrong;
            ADD_FAILURE() << fmt::format("D[{}][{}][{}] is {}, not {} within {}", z, i, j, got, wanted, bound);
          }
        }
        for (std::int64_t gap = out_n; gap < d.row && (z + 1 < batch || i + 1 < m); ++gap)
          ASSERT_EQ(d.bits(z, i, gap), s.c == DataType::fp32 || s.c == DataType::int32 ? 0xffffffffu : 0xffffu)
              << "written behind row " << i;
      }
  }

 private:
  static double expected(const GemmSignature& s, const TsHipGemmArgs& args, const Tensor& a, const Tensor& b,
                         const Tensor& bias, const Tensor& aux, int z, int i, int j, int k, double& bound) {
    const bool gated = s.epilogue_ops.gated();
    double v[2] = {0, 0}, magnitude = 0;
    for (int e = 0; e < (gated ? 2 : 1); ++e) {
      const int column = gated ? 2 * j + e : j;
      double sizes = 0;
      for (int q = 0; q < k; ++q) {
        const double product = a.at(z, i, q) * b.at(z, q, column);
        v[e] += product;
        sizes += std::abs(product);
      }
      const double factor = args.alpha * (args.scale_b.data != nullptr ? 0.5 : 1.0);
      v[e] *= factor;
      magnitude += sizes * factor;
    }
    double x = v[0];
    for (std::size_t o = 0; o < s.epilogue_ops.size(); ++o) {
      const EpilogueOp op = s.epilogue_ops[o];
      if (op == EpilogueOp::bias)
        x += bias.at(0, 0, j);
      else if (op == EpilogueOp::add)
        x += 0.5 * aux.at(z, i, j);
      else if (is_gate(op))
        x = activation(op, x) * v[1];
      else
        x = activation(op, x);
    }
    // Sums of k terms in float32, the activations' polynomials, and the rounding of the result. A gate multiplies two
    // sums.
    const double sums = s.c == DataType::int32 ? 0 : (k + 8) * 0x1p-24 * magnitude;
    bound = sums * (gated ? 2 + 2 * magnitude : 2) + 1e-5 * (s.epilogue_ops.empty() ? 0 : 1 + std::abs(x)) +
            unit_roundoff(s.c) * std::abs(x) * 1.01 + 0x1p-24;
    return x;
  }

  testing::EmulatedEntry compile(const KernelConfig& config) {
    auto source = hip_gemm_source(config, spec_, kernels_.files());
    const auto entry = source ? libraries_.entry(std::move(*source), testing::kEmulatedGemm)
                              : Result<testing::EmulatedEntry>(std::unexpected(source.error()));
    if (entry) return *entry;
    ADD_FAILURE() << entry.error().text();
    return nullptr;
  }

  const HipSpec& spec_;
  testing::EmulatedKernels kernels_;
  testing::EmulatedLibraries libraries_;
};

class EmulatedHipGemmTest : public ::testing::TestWithParam<const char*> {};

TEST_P(EmulatedHipGemmTest, ComputesAwkwardGemmsRight) {
  const std::vector<HipSpec> specs = load_hip_specs().value();
  const auto spec = std::ranges::find_if(specs, [](const HipSpec& s) { return s.arch.text() == GetParam(); });
  ASSERT_NE(spec, specs.end());
  EmulatedGemm gemm(*spec);
  std::mt19937 random(7);
  int checked = 0;
  for (const HipGemmTable& table : spec->gemm_tables)
    for (std::size_t t = 0; t < table.data_types.size(); ++t) {
      const DataType type = table.data_types[t];
      constexpr std::string_view kLayouts[] = {"rc", "rr", "cr", "cc"};
      // One instruction after the other, each with the smallest tile that has it.
      for (const int side : {16, 32}) {
        const HipGemmTile* smallest = nullptr;
        for (const HipGemmTile& tile : table.tiles)
          if (tile.fragment == side &&
              (smallest == nullptr || tile.tile_m * tile.tile_n < smallest->tile_m * smallest->tile_n))
            smallest = &tile;
        if (smallest == nullptr) continue;
        const GemmEpilogue epilogue = t == 0 ? GemmEpilogue{EpilogueOp::bias, EpilogueOp::add, EpilogueOp::gelu}
                                             : GemmEpilogue{EpilogueOp::swiglu, EpilogueOp::bias};
        // The first type in all widths of access, each other type in one.
        for (int round = 0; round < 3; ++round) {
          if (t > 0 && round != static_cast<int>(t % 3)) continue;
          const DataType result = type == DataType::int8   ? (round == 0 ? DataType::int32 : DataType::fp32)
                                  : round == 1             ? DataType::fp32
                                  : type == DataType::fp16 ? DataType::fp16
                                                           : DataType::bf16;
          const bool with_epilogue = round == 1 && result != DataType::int32;
          const GemmSignature s = signature_of(type, result, kLayouts[(t + static_cast<std::size_t>(round + side)) % 4],
                                               with_epilogue ? epilogue : GemmEpilogue{});
          KernelConfig config{.arch = spec->arch, .signature = s, .algorithm = {}};
          config.algorithm = hip_gemm_algorithm(*spec, s, *smallest);
          config.algorithm.vector = hip_gemm_widths(s)[static_cast<std::size_t>(round)];
          const auto* refusal = first_refusal(hip_gemm_rules(), HipGemmSubject{config, *spec});
          ASSERT_EQ(refusal, nullptr) << native_name(config) << ": " << refusal->name << ": "
                                      << refusal->figures({config, *spec});
          const int wide = config.algorithm.vector[2] > 1 ? 8 : 2;
          const auto below = [&](int most) { return 1 + static_cast<int>(random() % static_cast<unsigned>(most)); };
          gemm.check(config, below(2 * smallest->tile_m), wide * below(2 * smallest->tile_n / wide),
                     below(3 * smallest->tile_k), 1 + round % 2, random);
          gemm.check(config, 1, wide, 1, 1, random);
          gemm.check(config, 3, wide, 0, 1, random);
          gemm.check(config, smallest->tile_m, smallest->tile_n, 2 * smallest->tile_k, 1, random);
          checked += 4;
        }
      }
    }
  EXPECT_GE(checked, 20);
}
INSTANTIATE_TEST_SUITE_P(Chips, EmulatedHipGemmTest,
                         ::testing::Values("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"),
                         [](const auto& chip) { return std::string(chip.param); });

}  // namespace
}  // namespace tilesmith
