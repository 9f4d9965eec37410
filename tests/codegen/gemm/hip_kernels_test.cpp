// The GEMM template for AMD GPUs: every listed tile compiles without spills and takes what the resource formulas say
// (where clang is installed), and its text computes GEMMs right, emulated on the CPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <mutex>
#include <random>

#include "base/file.hpp"
#include "base/parallel.hpp"
#include "codegen/gemm/hip.hpp"
#include "codegen/gemm/hip_problem.hpp"
#include "codegen/generate.hpp"
#include "codegen/hip_emulation.hpp"
#include "instances/gemm/hip.hpp"
#include "jit/amdgcn_toolchain.hpp"
#include "jit/cxx_toolchain.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

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
            usual ? testing::hip_gemm_signature(type, result)
                  : testing::hip_gemm_signature(type, result, kLayouts[t % 4], epilogues[(t + 1) % 4]);
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

class EmulatedGemm {
 public:
  explicit EmulatedGemm(const HipSpec& spec) : spec_(spec) {}

  /// Compiles and runs the config on one problem, and compares every element with sums in float64.
  void check(const KernelConfig& config, int m, int n, int k, int batch, std::mt19937& random) {
    SCOPED_TRACE(fmt::format("{} m {} n {} k {} batch {}", native_name(config), m, n, k, batch));
    const testing::HipGemmProblem problem(config, m, n, k, batch, random);
    const testing::EmulatedEntry entry = compile(config);
    ASSERT_NE(entry, nullptr);
    entry(&problem.arguments(), problem.blocks());
    problem.check();
  }

 private:
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
          const GemmSignature s =
              testing::hip_gemm_signature(type, result, kLayouts[(t + static_cast<std::size_t>(round + side)) % 4],
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
