// The attention template for AMD GPUs: every listed tile compiles without spills and takes what the resource formulas
// say (where clang is installed), and its text computes attention right, emulated on the CPU thread by thread.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <mutex>

#include "base/parallel.hpp"
#include "base/random.hpp"
#include "codegen/attention/hip.hpp"
#include "codegen/attention/hip_problem.hpp"
#include "codegen/generate.hpp"
#include "codegen/hip_emulation.hpp"
#include "instances/attention/hip.hpp"
#include "jit/amdgcn_toolchain.hpp"
#include "verify/far_bias.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

constexpr const char* kChips[] = {"gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"};

HipSpec spec_of(std::string_view arch) {
  const std::vector<HipSpec> specs = load_hip_specs().value();
  return *std::ranges::find_if(specs, [&](const HipSpec& spec) { return spec.arch.text() == arch; });
}

/// What kernels are compiled with, in turn: the usual traits, those that take the most registers, the rest.
AttentionSignature traits(int round) {
  AttentionSignature s;
  s.lse = true;
  if (round == 0) {
    s.mask = MaskKind::causal;
  } else if (round == 1) {
    s.mask = MaskKind::generic;
    s.mode = SequenceMode::group;
    s.bias = BiasKind::elementwise;
    s.soft_cap = s.sink = s.dropout = true;
  } else {
    s.mask = MaskKind::generic;
    s.bias = BiasKind::alibi;
    s.sink = s.negative_scale = s.unaligned = true;
  }
  return s;
}

/// Every tile for the largest head dims that it is for, and with two sets of traits: the usual ones, and others in
/// turn.
std::vector<KernelConfig> essential_configs(const HipSpec& spec) {
  std::vector<KernelConfig> configs;
  for (std::size_t t = 0; t < spec.attention_tiles.size(); ++t) {
    const HipAttentionTile& tile = spec.attention_tiles[t];
    for (const int round : {0, 1 + static_cast<int>(t % 2)}) {
      AttentionSignature s = traits(round);
      s.data_type = spec.attention_types[(t / 2 + static_cast<std::size_t>(round)) % spec.attention_types.size()];
      const int most = tile.head_dim_high, less = (std::max(tile.head_dim_low, 64) + 15) / 16 * 16;
      s.latent = tile.head_dim_low > spec.head_dim_max;
      s.head_dim_qk = static_cast<std::uint16_t>(round == 2 ? less : most);
      s.head_dim_v = static_cast<std::uint16_t>(round == 0 && most == 192 ? 128 : s.latent ? 512 : s.head_dim_qk);
      if (round == 2) s.head_dim_v = s.head_dim_qk;
      if (tile.pipeline == Pipeline::decode && round > 0) {  // keys of 8 bits take registers to be widened
        s.cache = (t + static_cast<std::size_t>(round)) % 3 == 0   ? KvElements::as_queries
                  : (t + static_cast<std::size_t>(round)) % 3 == 1 ? KvElements::fp8
                                                                   : KvElements::int8;
        if (s.cache != KvElements::as_queries && t % 2 == 0) s.qscale = QuantScale::kv_blockscale;
      }
      KernelConfig config{.arch = spec.arch, .signature = s, .algorithm = {}};
      config.algorithm = hip_attention_algorithm(spec, s, tile);
      config.attention().paged_kv = tile.pipeline == Pipeline::decode && round > 0;
      if (first_refusal(hip_attention_rules(), HipAttentionSubject{config, spec}) != nullptr) continue;
      configs.push_back(config);
      if (tile.pipeline == Pipeline::decode && round > 0) configs.push_back(hip_attention_join(config));
    }
  }
  return configs;
}

class HipAttentionKernels : public ::testing::TestWithParam<const char*> {};

TEST_P(HipAttentionKernels, CompileWithoutSpillsAndTakeWhatTheFormulasSay) {
  const auto toolchain = AmdgcnToolchain::find();
  if (!toolchain) GTEST_SKIP() << toolchain.error().text();
  const HipSpec spec = spec_of(GetParam());
  const std::vector<KernelConfig> configs = essential_configs(spec);
  EXPECT_GE(configs.size(), 12u);
  std::mutex mutex;
  parallel_for(configs.size(), 0, [&](std::size_t at) {
    const KernelConfig& config = configs[at];
    const auto source = generate(config, spec);
    ASSERT_TRUE(source.has_value()) << source.error().text();
    ASSERT_EQ(source->text.find("#include"), std::string::npos);
    const Source* one = &*source;
    const auto compiled = (*toolchain)->compile({&one, 1}, {});
    const std::lock_guard guard(mutex);
    ASSERT_TRUE(compiled.has_value()) << compiled.error().text();
    const FunctionResources* kernel = compiled->resources->kernel(source->entry_symbol);
    const HipFragment* fragment = spec.fragment(config.attention().data_type, config.algorithm.warp[0]);
    const HipAttentionResources facts = hip_attention_resources(config, spec, *fragment);
    EXPECT_EQ(kernel->shared_bytes, facts.lds_bytes) << source->name;
    EXPECT_LE(kernel->registers, facts.registers_allowed) << source->name;
    EXPECT_EQ(compiled->resources->spill_bytes(), 0) << source->name;
  });
}

class EmulatedAttention {
 public:
  explicit EmulatedAttention(const HipSpec& spec) : spec_(spec) {}

  /// Compiles and runs the tile's kernel for a problem, and has every element judged; `before_judging` may change what
  /// the reference sees.
  void check(const HipAttentionTile& tile, const RandomAttention& problem, bool lse, bool unaligned,
             const std::function<void()>& before_judging = {}) {
    const AttentionSignature s = testing::hip_attention_signature(problem.tensors, lse, unaligned);
    KernelConfig config{.arch = spec_.arch, .signature = s, .algorithm = {}};
    config.algorithm = hip_attention_algorithm(spec_, s, tile);
    const HipAttentionSubject subject{config, spec_};
    const auto* refusal = first_refusal(hip_attention_rules(), subject);
    ASSERT_EQ(refusal, nullptr) << native_name(config) << ": " << refusal->name << ": " << refusal->figures(subject);
    SCOPED_TRACE(native_name(config));

    auto source = hip_attention_source(config, spec_, kernels_.files());
    ASSERT_TRUE(source) << source.error().text();
    const auto entry = libraries_.entry(std::move(*source), testing::kEmulatedAttention);
    ASSERT_TRUE(entry) << entry.error().text();

    const HipAttentionResources facts = hip_attention_resources(config, spec_, *subject.fragment());
    const testing::HipAttentionProblem call(config, facts, problem);
    (*entry)(&call.arguments(), call.blocks());
    if (before_judging) before_judging();
    EXPECT_EQ(call.fault(), "");
  }

 private:
  HipSpec spec_;
  testing::EmulatedKernels kernels_;
  testing::EmulatedLibraries libraries_;
};

/// Of a lane, in a measure of its own.
int registers_of(const HipAttentionTile& tile) {
  return tile.waves * tile.tile_n / tile.column_waves;
}

/// The smallest tile of each instruction.
std::vector<HipAttentionTile> smallest_tiles(const HipSpec& spec) {
  std::vector<HipAttentionTile> tiles;
  for (const int side : {16, 32}) {
    const HipAttentionTile* smallest = nullptr;
    for (const HipAttentionTile& tile : spec.attention_tiles)
      if (tile.pipeline == Pipeline::flash && tile.is_for(64) && tile.fragment == side &&
          (smallest == nullptr || tile.waves * tile.tile_n < smallest->waves * smallest->tile_n))
        smallest = &tile;
    if (smallest != nullptr) tiles.push_back(*smallest);
  }
  return tiles;
}

CaseOptions random_case(ElementType type, std::uint64_t seed, bool unaligned) {
  CaseOptions options = random_options(type, seed);
  const RandomStream random{seed, 4321};
  constexpr int kDims[] = {8, 32, 40, 64, 72, 128};
  options.batch = std::min<std::int64_t>(options.batch, 2);
  if (!unaligned) {
    options.head_dim_qk = kDims[random.below(0, 6)];
    options.head_dim_v = kDims[random.below(1, 6)];
    options.row_gap = options.row_gap > 0 ? 8 : 0;
  }
  if (random.below(2, 6) == 0 && options.soft_cap == 0 && !options.bias) options.scale = -0.1F;
  return options;
}

TEST_P(HipAttentionKernels, EmulatedRandomProblemsMatchTheReference) {
  const HipSpec spec = spec_of(GetParam());
  EmulatedAttention attention(spec);
  const std::vector<HipAttentionTile> tiles = smallest_tiles(spec);
  const char* count = std::getenv("TILESMITH_RANDOM_CASES");
  const std::uint64_t cases = count != nullptr ? std::strtoull(count, nullptr, 10) : 4;
  for (std::uint64_t seed = 1; seed <= cases * tiles.size(); ++seed) {
    const bool unaligned = seed % 4 == 0;
    const CaseOptions options =
        random_case(seed % 2 == 0 ? ElementType::bf16 : ElementType::fp16, seed + spec.registers_per_lane, unaligned);
    SCOPED_TRACE(describe(options));
    const RandomAttention problem(options);
    attention.check(tiles[seed % tiles.size()], problem, seed % 3 != 0, unaligned);
    if (HasFatalFailure()) return;
  }
}

TEST_P(HipAttentionKernels, EmulatedEdgesMatchTheReference) {
  const HipSpec spec = spec_of(GetParam());
  if (spec.arch.text() == "gfx90a") GTEST_SKIP() << "gfx942 has the same instructions and tiles";
  EmulatedAttention attention(spec);
  const std::vector<HipAttentionTile> tiles = smallest_tiles(spec);
  const auto check = [&](const CaseOptions& options, const HipAttentionTile& tile, bool unaligned = false) {
    SCOPED_TRACE(describe(options));
    const RandomAttention problem(options);
    attention.check(tile, problem, true, unaligned);
  };
  for (const HipAttentionTile& tile : tiles) {
    CaseOptions plain;
    plain.type = ElementType::bf16;
    plain.batch = 1;
    plain.heads_q = 2;
    plain.heads_kv = 1;
    plain.head_dim_qk = plain.head_dim_v = 32;
    CaseOptions none = plain;  // no keys at all
    none.seqlen_k = 0;
    none.window_right = 0;
    check(none, tile);
    CaseOptions whole = plain;  // whole tiles
    whole.seqlen_q = tile.waves * tile.fragment;
    whole.seqlen_k = 2 * tile.tile_n;
    whole.window_right = 0;
    check(whole, tile);
    CaseOptions hidden = plain;  // rows that see nothing, before and behind the keys
    hidden.seqlen_q = 70;
    hidden.seqlen_k = 20;
    hidden.window_right = 0;
    hidden.bottom_right = true;
    check(hidden, tile);
    hidden.bottom_right = false;
    hidden.window_left = 3;
    hidden.window_right = -1;
    hidden.sink = true;
    check(hidden, tile);
    CaseOptions single = plain;
    single.seqlen_q = single.seqlen_k = 1;
    single.head_dim_qk = single.head_dim_v = 1;
    check(single, tile, true);
    if (HasFatalFailure()) return;
  }
  // The longest rows, with everything.
  const HipAttentionTile* wide = nullptr;
  for (const HipAttentionTile& tile : spec.attention_tiles)
    if (tile.pipeline == Pipeline::flash && tile.is_for(256) &&
        (wide == nullptr || registers_of(tile) < registers_of(*wide)))
      wide = &tile;
  ASSERT_NE(wide, nullptr);
  CaseOptions longest;
  longest.type = ElementType::fp16;
  longest.batch = 1;
  longest.heads_q = 2;
  longest.heads_kv = 1;
  longest.seqlen_q = 37;
  longest.seqlen_k = 75;
  longest.head_dim_qk = longest.head_dim_v = 256;
  longest.bias = longest.sink = longest.bottom_right = true;
  longest.window_left = 30;
  longest.window_right = 2;
  longest.soft_cap = 20;
  longest.drop_threshold = 20000;
  check(longest, *wide);
  longest.bias = false;
  longest.alibi = true;
  longest.soft_cap = 0;
  longest.head_dim_qk = 192;
  longest.head_dim_v = 128;
  check(longest, *wide);
}

TEST_P(HipAttentionKernels, EmulatedBiasesFarFromZeroHaveTheirWeights) {
  const HipSpec spec = spec_of(GetParam());
  if (spec.arch.text() == "gfx90a") GTEST_SKIP() << "gfx942 has the same instructions and tiles";
  EmulatedAttention attention(spec);
  for (const HipAttentionTile& tile : smallest_tiles(spec))
    for (const ElementType type : {ElementType::fp16, ElementType::bf16})
      for (const float far : kFarBiases) {
        SCOPED_TRACE(far);
        CaseOptions options;
        options.type = type;
        options.batch = 1;
        options.heads_q = 2;
        options.heads_kv = 1;
        options.seqlen_q = 20;
        options.seqlen_k = tile.tile_n * 2 + 5;
        options.head_dim_qk = options.head_dim_v = 32;
        options.bias = true;
        RandomAttention problem(options);
        const std::vector<float> same = make_far(problem, far);
        attention.check(tile, problem, false, false, [&] { std::ranges::copy(same, problem.bias.begin()); });
        if (HasFailure()) return;
      }
}

INSTANTIATE_TEST_SUITE_P(Chips, HipAttentionKernels, ::testing::ValuesIn(kChips),
                         [](const auto& chip) { return std::string(chip.param); });

}  // namespace
}  // namespace tilesmith
