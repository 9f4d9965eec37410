// Own attention kernels for AMD GPUs as code objects: compiled by clang for the chip, executed instruction by
// instruction, every element of the outputs judged by the float64 reference. And kernels that were broken on purpose,
// whose fault is found.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "amd/compiler.hpp"
#include "amd/machine.hpp"
#include "amd/missing.hpp"
#include "base/random.hpp"
#include "codegen/attention/hip_problem.hpp"
#include "codegen/generate.hpp"
#include "instances/attention/hip.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

using amdgpu::Compiler;
using amdgpu::DeviceMemory;
using testing::HipAttentionProblem;

class AmdAttentionTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto found = Compiler::find();
    if (!found) GTEST_SKIP() << found.error().text();
    compiler_ = std::make_unique<Compiler>(std::move(*found));
    const std::vector<HipSpec> specs = load_hip_specs().value();
    spec_ = *std::ranges::find_if(specs, [](const HipSpec& spec) { return spec.arch.text() == GetParam(); });
  }

  static int size_of_tile(const HipAttentionTile& tile) { return tile.waves * tile.tile_n / tile.column_waves; }
  /// The tile of the pipeline flash for a head dim and a side that has the fewest rows and keys; null: none.
  const HipAttentionTile* smallest_tile(int side, int head_dim) const {
    const HipAttentionTile* smallest = nullptr;
    for (const HipAttentionTile& tile : spec_.attention_tiles)
      if (tile.pipeline == Pipeline::flash && tile.fragment == side && tile.is_for(head_dim) &&
          (smallest == nullptr || size_of_tile(tile) < size_of_tile(*smallest)))
        smallest = &tile;
    return smallest;
  }

  void check(const HipAttentionTile& tile, const CaseOptions& options, bool unaligned, std::uint32_t seed) const {
    check(tile, RandomAttention(options), describe(options), unaligned, seed);
  }
  void check(const HipAttentionTile& tile, const RandomAttention& problem, const std::string& words, bool unaligned,
             std::uint32_t seed) const {
    const KernelConfig config = config_of(tile, problem, unaligned);
    SCOPED_TRACE(fmt::format("{} {} seed {}", native_name(config), words, seed));
    const auto program = compile(config);
    ASSERT_TRUE(program.has_value()) << program.error().text();
    const HipAttentionProblem call(config, resources(config), problem);
    const auto ran = run(*program, config, call, seed);
    ASSERT_TRUE(ran.has_value()) << ran.error().text();
    EXPECT_EQ(call.fault(), "");
  }

  KernelConfig config_of(const HipAttentionTile& tile, const RandomAttention& problem, bool unaligned) const {
    const AttentionSignature signature = testing::hip_attention_signature(problem.tensors, true, unaligned);
    return {.arch = spec_.arch, .signature = signature, .algorithm = hip_attention_algorithm(spec_, signature, tile)};
  }
  HipAttentionResources resources(const KernelConfig& config) const {
    return hip_attention_resources(config, spec_, *HipAttentionSubject{config, spec_}.fragment());
  }
  Result<amdgpu::Program> compile(const KernelConfig& config) const {
    if (const auto* refusal = first_refusal(hip_attention_rules(), HipAttentionSubject{config, spec_}))
      return fail(ErrorCode::internal, fmt::format("refused by {}", refusal->name));
    TS_ASSIGN(const Source source, generate(config, spec_));
    return compiler_->compile(source);
  }
  Result<amdgpu::RunReport> run(const amdgpu::Program& program, const KernelConfig& config,
                                const HipAttentionProblem& call, std::uint32_t seed) const {
    DeviceMemory memory;
    for (const auto& buffer : call.buffers())
      memory.add(std::string(buffer.name), buffer.data, buffer.bytes,
                 buffer.written ? DeviceMemory::Access::read_write : DeviceMemory::Access::read);
    const std::string_view arguments(reinterpret_cast<const char*>(&call.arguments()), sizeof(TsHipAttentionArgs));
    const amdgpu::Grid grid{{static_cast<std::uint32_t>(call.blocks()), 1, 1},
                            {static_cast<std::uint32_t>(resources(config).threads), 1, 1}};
    return amdgpu::run(program, native_name(config), arguments, grid, memory, {.seed = seed});
  }

  HipSpec spec_;

 private:
  std::unique_ptr<Compiler> compiler_;
};

/// A random case, and sizes that are executed in a moment.
CaseOptions small_case(std::uint64_t seed, bool unaligned) {
  const RandomStream random{seed, 99};
  CaseOptions options = random_options(seed % 2 != 0 ? ElementType::fp16 : ElementType::bf16, seed);
  options.batch = std::min<std::int64_t>(options.batch, 2);
  options.heads_kv = 1;
  options.heads_q = std::min<std::int64_t>(options.heads_q, 2);
  options.seqlen_q = std::min<std::int64_t>(options.seqlen_q, 40);
  options.seqlen_k = std::min<std::int64_t>(options.seqlen_k, 100);
  constexpr int kDims[] = {8, 32, 40, 64, 72};
  if (!unaligned) {
    options.head_dim_qk = kDims[random.below(0, 5)];
    options.head_dim_v = kDims[random.below(1, 5)];
    options.row_gap = options.row_gap > 0 ? 8 : 0;
  }
  return options;
}

TEST_P(AmdAttentionTest, CodeObjectsComputeRight) {
  const char* count = std::getenv("TILESMITH_RANDOM_CASES");
  const std::uint64_t cases = count != nullptr ? std::strtoull(count, nullptr, 10) : 3;
  int checked = 0;
  for (const int side : {16, 32}) {
    const HipAttentionTile* tile = smallest_tile(side, 64);
    if (tile == nullptr) continue;
    for (std::uint64_t seed = 1; seed <= cases; ++seed, ++checked) {
      const bool unaligned = seed % 3 == 0;
      check(*tile, small_case(100 * static_cast<std::uint64_t>(side) + seed, unaligned), unaligned,
            static_cast<std::uint32_t>(seed - 1));
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(checked, 0);
}

TEST_P(AmdAttentionTest, TheLongestRowsWithEveryTrait) {
  const HipAttentionTile* tile = smallest_tile(16, 256);
  ASSERT_NE(tile, nullptr);
  CaseOptions options;
  options.type = ElementType::bf16;
  options.batch = options.heads_q = options.heads_kv = 1;
  options.seqlen_q = 20;
  options.seqlen_k = 70;
  options.head_dim_qk = options.head_dim_v = 256;
  options.bias = options.sink = options.bottom_right = options.group = true;
  options.window_left = 40;
  options.window_right = 2;
  options.soft_cap = 20;
  options.drop_threshold = 20000;
  options.seed = 5;
  check(*tile, options, false, 7);
}

// What most keys have is far below the largest probability, and together most of the output. MFMA of gfx90a takes
// subnormal fp16 operands for zeros.
TEST_P(AmdAttentionTest, SmallProbabilitiesAreNotLost) {
  CaseOptions options;
  options.type = ElementType::fp16;
  options.batch = options.heads_q = options.heads_kv = 1;
  options.seqlen_q = 3;
  options.seqlen_k = 200;
  options.head_dim_qk = options.head_dim_v = 32;
  options.scale = 1;
  RandomAttention problem(options);
  AttentionTensors& t = problem.tensors;
  for (std::int64_t row = 0; row < options.seqlen_k; ++row)
    for (std::int64_t column = 0; column < 32; ++column) {
      if (row < options.seqlen_q) problem.set(t.q, 0, 0, row, column, column == 0 ? 1.0 : 0.0);
      // Probabilities between 2^-16 and 2^-19 beside one of 1.
      problem.set(t.k, 0, 0, row, column, column > 0 ? 0.0 : row == 77 ? 8.0 : -3.0 - static_cast<double>(row % 3));
      problem.set(t.v, 0, 0, row, column, row == 77 ? 1.0 / 128 : 100.0 + static_cast<double>(column));
    }
  for (const int side : {16, 32})
    if (const HipAttentionTile* tile = smallest_tile(side, 32); tile != nullptr)
      check(*tile, problem, "small probabilities", false, 3);
}

TEST_P(AmdAttentionTest, AMissingBarrierOrWaitIsFound) {
  CaseOptions options;
  options.type = ElementType::bf16;
  options.batch = options.heads_q = options.heads_kv = 1;
  options.seqlen_q = 21;
  options.seqlen_k = 150;
  options.head_dim_qk = options.head_dim_v = 40;
  options.window_right = 0;
  options.bottom_right = true;
  const RandomAttention problem(options);
  const KernelConfig config = config_of(*smallest_tile(16, 40), problem, false);
  auto program = compile(config);
  ASSERT_TRUE(program.has_value()) << program.error().text();
  HipAttentionProblem call(config, resources(config), problem);
  const auto is_wrong = [&] {
    for (std::uint32_t seed = 0; seed < 3; ++seed) {
      call.clear();
      if (!run(*program, config, call, seed) || !call.fault().empty()) return true;
    }
    return false;
  };
  const auto whole = run(*program, config, call, 0);
  ASSERT_TRUE(whole.has_value()) << whole.error().text();
  ASSERT_FALSE(is_wrong());
  amdgpu::Missing missing;
  missing.remove_each(*program, whole->times, is_wrong);
  missing.expect_found();
}

INSTANTIATE_TEST_SUITE_P(Chips, AmdAttentionTest, ::testing::Values("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"),
                         [](const auto& chip) { return std::string(chip.param); });

}  // namespace
}  // namespace tilesmith
