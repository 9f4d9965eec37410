// Own GEMM kernels for AMD GPUs as code objects: compiled by clang for the chip, executed instruction by instruction,
// every element of D compared with sums in float64. And kernels that were broken on purpose, whose fault is found.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "amd/compiler.hpp"
#include "amd/machine.hpp"
#include "amd/missing.hpp"
#include "codegen/gemm/hip_problem.hpp"
#include "codegen/generate.hpp"
#include "instances/gemm/hip.hpp"
#include "thorough.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

using amdgpu::Compiler;
using amdgpu::DeviceMemory;
using testing::HipGemmProblem;

class AmdGemmTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto found = Compiler::find();
    if (!found) GTEST_SKIP() << found.error().text();
    compiler_ = std::make_unique<Compiler>(std::move(*found));
    specs_ = load_hip_specs().value();
    // Chips begin at different places of the list of epilogues, so that together they have all with all types.
    for (const HipSpec& each : specs_) {
      if (each.arch.text() == GetParam()) spec_ = &each;
      if (spec_ == nullptr) next_epilogue_ += 3;
    }
    ASSERT_NE(spec_, nullptr);
  }

  [[nodiscard]] const HipSpec& spec() const { return *spec_; }

  /// The smallest tile of a table whose instruction has this side; null: none.
  static const HipGemmTile* smallest_tile(const HipGemmTable& table, int side) {
    const HipGemmTile* smallest = nullptr;
    for (const HipGemmTile& tile : table.tiles)
      if (tile.fragment == side &&
          (smallest == nullptr || tile.tile_m * tile.tile_n < smallest->tile_m * smallest->tile_n))
        smallest = &tile;
    return smallest;
  }

  [[nodiscard]] KernelConfig config_of(const GemmSignature& signature, const HipGemmTile& tile, int width) const {
    KernelConfig config{.arch = spec().arch, .signature = signature, .algorithm = {}};
    config.algorithm = hip_gemm_algorithm(spec(), signature, tile);
    config.algorithm.vector = hip_gemm_widths(signature)[static_cast<std::size_t>(width)];
    return config;
  }

  Result<amdgpu::Program> compile(const KernelConfig& config) const {
    const auto* refusal = first_refusal(hip_gemm_rules(), HipGemmSubject{config, spec()});
    if (refusal != nullptr) return fail(ErrorCode::internal, fmt::format("refused by {}", refusal->name));
    TS_ASSIGN(const Source source, generate(config, spec()));
    return compiler_->compile(source);
  }

  /// Runs a problem, with one buffer a byte too short; the report, or what the program did that it must not.
  Result<amdgpu::RunReport> run(const amdgpu::Program& program, const KernelConfig& config,
                                const HipGemmProblem& problem, std::uint32_t seed,
                                std::string_view shortened = {}) const {
    DeviceMemory memory;
    for (const auto& buffer : problem.buffers())
      memory.add(std::string(buffer.name), buffer.data, buffer.bytes - (buffer.name == shortened ? 1 : 0),
                 buffer.written ? DeviceMemory::Access::read_write : DeviceMemory::Access::read);
    const HipFragment* fragment =
        spec().fragment(std::get<GemmSignature>(config.signature).a, config.algorithm.warp[0]);
    const int threads = hip_gemm_resources(config, spec(), *fragment).threads;
    const std::string_view arguments(reinterpret_cast<const char*>(&problem.arguments()), sizeof(TsHipGemmArgs));
    const amdgpu::Grid grid{{static_cast<std::uint32_t>(problem.blocks()), 1, 1},
                            {static_cast<std::uint32_t>(threads), 1, 1}};
    return amdgpu::run(program, native_name(config), arguments, grid, memory, {.seed = seed});
  }

  void check_some(DataType type, const HipGemmTile& tile, int width, std::mt19937& random);

  void check(const amdgpu::Program& program, const KernelConfig& config, int m, int n, int k, int batch,
             std::mt19937& random) const {
    const auto seed = static_cast<std::uint32_t>(random() % 4 == 0 ? 0 : random());
    SCOPED_TRACE(fmt::format("{} m {} n {} k {} batch {} seed {}", native_name(config), m, n, k, batch, seed));
    const HipGemmProblem problem(config, m, n, k, batch, random);
    const auto ran = run(program, config, problem, seed);
    ASSERT_TRUE(ran.has_value()) << ran.error().text();
    problem.check();
  }

 private:
  std::unique_ptr<Compiler> compiler_;
  std::vector<HipSpec> specs_;
  std::size_t next_epilogue_ = 0;
  const HipSpec* spec_ = nullptr;
};

using enum EpilogueOp;
const GemmEpilogue kEpilogues[] = {{},
                                   {bias, add, gelu},
                                   {swiglu, bias},
                                   {scale_m, scale_n, bias},
                                   {bias_m, gelu_tanh},
                                   {multiply, relu, amax},
                                   {geglu},
                                   {bias, sigmoid},
                                   {tanh, add},
                                   {clamp},
                                   {glu, scale_n, amax},
                                   {bias, silu},
                                   {bias, reglu},
                                   {geglu_tanh, multiply}};

/// A kernel of some order, epilogue and result, on problems of a few sizes.
void AmdGemmTest::check_some(DataType type, const HipGemmTile& tile, int width, std::mt19937& random) {
  const bool integers = type == DataType::int8 && width == 0;
  const DataType result = integers                                      ? DataType::int32
                          : type == DataType::int8 || random() % 4 == 0 ? DataType::fp32
                          : random() % 2 == 0                           ? DataType::fp16
                                                                        : DataType::bf16;
  constexpr std::string_view kLayouts[] = {"rc", "rr", "cr", "cc"};
  const GemmEpilogue epilogue = integers ? GemmEpilogue{} : kEpilogues[next_epilogue_++ % std::size(kEpilogues)];
  const KernelConfig config =
      config_of(testing::hip_gemm_signature(type, result, kLayouts[random() % 4], epilogue), tile, width);
  const auto program = compile(config);
  ASSERT_TRUE(program.has_value()) << native_name(config) << ": " << program.error().text();
  const int wide = config.algorithm.vector[2] > 1 ? 8 : 2;
  const auto below = [&](int most) { return 1 + static_cast<int>(random() % static_cast<unsigned>(most)); };
  check(*program, config, below(2 * tile.tile_m), wide * below(2 * tile.tile_n / wide), below(3 * tile.tile_k),
        1 + width % 2, random);
  check(*program, config, 1, wide, 1, 1, random);
  check(*program, config, 3, wide, 0, 1, random);
  check(*program, config, tile.tile_m, tile.tile_n, 2 * tile.tile_k, 1, random);
}

// One instruction after the other, each with the smallest tile that has it; the first type of a table in all widths of
// access, each other type in one.
TEST_P(AmdGemmTest, CodeObjectsComputeRight) {
  std::mt19937 random(11);
  for (const HipGemmTable& table : spec().gemm_tables)
    for (std::size_t t = 0; t < table.data_types.size(); ++t)
      for (const int side : {16, 32}) {
        const HipGemmTile* tile = smallest_tile(table, side);
        if (tile == nullptr) continue;
        for (int width = 0; width < 3; ++width)
          if (t == 0 || width == static_cast<int>(t % 3)) check_some(table.data_types[t], *tile, width, random);
      }
}

// The largest tile of each table; in the long form every tile with every type and width.
TEST_P(AmdGemmTest, CodeObjectsOfLargeTilesComputeRight) {
  std::mt19937 random(13);
  for (const HipGemmTable& table : spec().gemm_tables) {
    const auto largest =
        std::ranges::max_element(table.tiles, {}, [](const HipGemmTile& tile) { return tile.tile_m * tile.tile_n; });
    if (!testing::thorough()) {
      check_some(table.data_types[random() % table.data_types.size()], *largest, 1, random);
      continue;
    }
    for (const HipGemmTile& tile : table.tiles)
      for (const DataType type : table.data_types)
        for (int width = 0; width < 3; ++width) check_some(type, tile, width, random);
  }
}

// Without any one of its barriers a kernel is wrong, and without most of its waits for memory, whatever the compiler
// made of the template.
TEST_P(AmdGemmTest, AMissingBarrierOrWaitIsFound) {
  amdgpu::Missing missing;
  for (const int stages : {1, 2}) {
    const HipGemmTile* tile = nullptr;
    for (const HipGemmTile& each : spec().gemm_tables[0].tiles)
      if (each.stages == stages && each.tile_m * each.tile_n <= 128 * 64) tile = &each;
    if (tile == nullptr) continue;
    const KernelConfig config = config_of(testing::hip_gemm_signature(DataType::bf16, DataType::bf16), *tile, 0);
    auto program = compile(config);
    ASSERT_TRUE(program.has_value()) << program.error().text();
    std::mt19937 random(3);
    HipGemmProblem problem(config, tile->tile_m, tile->tile_n, 3 * tile->tile_k, 1, random);
    const auto is_wrong = [&] {
      for (std::uint32_t seed = 0; seed < 3; ++seed) {
        problem.clear();
        if (!run(*program, config, problem, seed) || !problem.faults().empty()) return true;
      }
      return false;
    };
    const auto whole = run(*program, config, problem, 0);
    ASSERT_TRUE(whole.has_value()) << whole.error().text();
    ASSERT_FALSE(is_wrong());
    missing.remove_each(*program, whole->times, is_wrong);
  }
  missing.expect_found();
}

TEST_P(AmdGemmTest, AnAccessOutsideABufferNamesInstructionAndLane) {
  const KernelConfig config = config_of(testing::hip_gemm_signature(DataType::bf16, DataType::fp32),
                                        *smallest_tile(spec().gemm_tables[0], 16), 2);
  const auto program = compile(config);
  ASSERT_TRUE(program.has_value()) << program.error().text();
  std::mt19937 random(5);
  const HipGemmProblem problem(config, 19, 22, 30, 1, random);
  for (const std::string_view buffer : {"a", "b", "d"}) {
    const auto ran = run(*program, config, problem, 1, buffer);
    ASSERT_FALSE(ran.has_value()) << buffer;
    const std::string message = ran.error().message;
    EXPECT_NE(message.find(fmt::format("of {}", buffer)), std::string::npos) << message;
    EXPECT_NE(message.find("lane "), std::string::npos) << message;
    EXPECT_NE(message.find(buffer == "d" ? "'global_store_" : "'global_load_"), std::string::npos) << message;
  }
}

INSTANTIATE_TEST_SUITE_P(Chips, AmdGemmTest, ::testing::Values("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"),
                         [](const auto& chip) { return std::string(chip.param); });

}  // namespace
}  // namespace tilesmith
