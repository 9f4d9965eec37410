// Own attention instances for AMD GPUs: every tile of the facts makes kernels, names parse back, and each rule refuses
// what it is for.
#include "instances/attention/hip.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

HipSpec attention_spec(std::string_view arch) {
  const std::vector<HipSpec> specs = load_hip_specs().value();
  return *std::ranges::find_if(specs, [&](const HipSpec& spec) { return spec.arch.text() == arch; });
}

TEST(HipAttentionInstances, EveryTileMakesKernelsOfTheHeadDimsThatItIsFor) {
  const std::vector<HipSpec> specs = load_hip_specs().value();
  for (const HipSpec& spec : specs)
    for (const DataType type : spec.attention_types)
      for (const HipAttentionTile& tile : spec.attention_tiles)
        for (const int dim : {std::max(tile.head_dim_low, 32), tile.head_dim_high}) {
          AttentionSignature s;
          s.data_type = type;
          s.latent = tile.head_dim_low > spec.head_dim_max;
          s.head_dim_qk = s.head_dim_v = static_cast<std::uint16_t>((dim + 7) / 8 * 8);
          if (s.latent) s.head_dim_v = static_cast<std::uint16_t>(std::min(dim, 512) / 8 * 8);
          const KernelConfig config{
              .arch = spec.arch, .signature = s, .algorithm = hip_attention_algorithm(spec, s, tile)};
          const HipAttentionSubject subject{config, spec};
          const auto* refusal = first_refusal(hip_attention_rules(), subject);
          EXPECT_EQ(refusal, nullptr) << native_name(config) << ": " << refusal->figures(subject);
        }
}

// Dropout and single elements take registers, which the largest tiles may not have.
TEST(HipAttentionInstances, EveryHeadDimHasKernelsOfEveryTrait) {
  const std::vector<HipSpec> specs = load_hip_specs().value();
  for (const HipSpec& spec : specs)
    for (int dim = 1; dim <= spec.head_dim_max; ++dim)
      for (const bool paged : {false, true}) {
        AttentionSignature s;
        s.data_type = DataType::bf16;
        s.head_dim_qk = s.head_dim_v = static_cast<std::uint16_t>(dim);
        s.unaligned = s.dropout = s.lse = s.sink = true;
        s.paged_kv = paged;
        int kernels = 0;
        enumerate_hip_attention(spec, s, [&](const KernelConfig&) { return ++kernels > 0; });
        EXPECT_GT(kernels, 0) << spec.arch.text() << " " << dim << " paged " << paged;
      }
}

TEST(HipAttentionInstances, EveryChipListsLatentRows) {
  const std::vector<HipSpec> specs = load_hip_specs().value();
  for (const HipSpec& spec : specs) {
    std::set<Pipeline> pipelines;
    enumerate_hip_attention(spec, [&](const KernelConfig& config) {
      if (config.attention().latent) pipelines.insert(config.algorithm.pipeline);
      return pipelines.size() < 2;
    });
    EXPECT_EQ(pipelines, (std::set{Pipeline::decode, Pipeline::rowwise})) << spec.arch.text();
  }
}

TEST(HipAttentionInstances, NamesAreUniqueAndParseBack) {
  const HipSpec spec = attention_spec("gfx1100");
  std::set<std::string> names;
  enumerate_hip_attention(spec, [&](const KernelConfig& config) {
    const std::string name = native_name(config);
    EXPECT_TRUE(names.insert(name).second) << name;
    const auto parsed = parse_native_name(name);
    EXPECT_TRUE(parsed.has_value() && *parsed == config) << name;
    return names.size() < 3000;
  });
  EXPECT_EQ(names.size(), 3000u);
}

TEST(HipAttentionInstances, EachRuleRefusesWhatItIsFor) {
  struct Case {
    const char* rule;
    std::function<void(AttentionSignature&, Algorithm&)> change;
  };
  const Case cases[] = {
      {"family_is_carried", [](AttentionSignature& s, Algorithm&) { s.rope = RopeKind::half_rotated; }},
      {"family_is_carried", [](AttentionSignature& s, Algorithm&) { s.latent = true; }},
      {"family_is_carried", [](AttentionSignature& s, Algorithm&) { s.cache = KvElements::fp8; }},
      {"scales_belong_to_narrow_pages", [](AttentionSignature& s, Algorithm&) { s.qscale = QuantScale::pertensor; }},
      {"scales_belong_to_narrow_pages",
       [](AttentionSignature& s, Algorithm& a) {
         a.pipeline = Pipeline::decode;
         s.cache = KvElements::int8;
         s.qscale = QuantScale::kv_blockscale;
       }},
      {"head_dims_fit",
       [](AttentionSignature& s, Algorithm& a) {
         a.pipeline = Pipeline::decode;
         s.cache = KvElements::int8;
         s.head_dim_v = 40;
       }},
      {"fields_belong", [](AttentionSignature&, Algorithm& a) { a.wave[1] = 1; }},
      {"type_is_carried", [](AttentionSignature& s, Algorithm&) { s.data_type = DataType::fp32; }},
      {"head_dims_fit", [](AttentionSignature& s, Algorithm&) { s.head_dim_qk = 257; }},
      {"head_dims_fit", [](AttentionSignature& s, Algorithm&) { s.head_dim_v = 36; }},
      {"mask_is_a_window", [](AttentionSignature& s, Algorithm&) { s.mask = MaskKind::top_left; }},
      {"negative_scale_matters", [](AttentionSignature& s, Algorithm&) { s.negative_scale = s.soft_cap = true; }},
      {"instruction_is_there", [](AttentionSignature&, Algorithm& a) { a.instruction = Instruction::wmma; }},
      {"instruction_is_there", [](AttentionSignature&, Algorithm& a) { a.warp[2] = 16; }},
      {"family_is_carried", [](AttentionSignature& s, Algorithm&) { s.paged_kv = true; }},
      {"family_is_carried", [](AttentionSignature&, Algorithm& a) { a.pipeline = Pipeline::rowwise; }},
      {"fields_belong", [](AttentionSignature&, Algorithm& a) { a.stages = 2; }},
      {"fields_belong", [](AttentionSignature&, Algorithm& a) { a.pipeline = Pipeline::mma_sm80; }},
      {"tile_is_whole", [](AttentionSignature&, Algorithm& a) { a.tile[0] = 96; }},
      {"tile_is_whole", [](AttentionSignature&, Algorithm& a) { a.tile[1] = 48; }},
      {"tile_is_whole", [](AttentionSignature&, Algorithm& a) { a.wave[0] = 0; }},
      {"lds_fits", [](AttentionSignature&, Algorithm& a) { a.block_per_cu = 3; }},
      {"registers_fit",
       [](AttentionSignature& s, Algorithm& a) {
         s.head_dim_qk = s.head_dim_v = 64;
         a.block_per_cu = 4;
       }},
  };
  const HipSpec spec = attention_spec("gfx942");
  AttentionSignature s;
  s.data_type = DataType::bf16;
  const Algorithm algorithm = hip_attention_algorithm(spec, s, spec.attention_tiles.front());
  for (const Case& each : cases) {
    KernelConfig config{.arch = spec.arch, .signature = s, .algorithm = algorithm};
    ASSERT_EQ(first_refusal(hip_attention_rules(), HipAttentionSubject{config, spec}), nullptr);
    each.change(config.attention(), config.algorithm);
    const HipAttentionSubject subject{config, spec};
    const auto* refusal = first_refusal(hip_attention_rules(), subject);
    ASSERT_NE(refusal, nullptr) << each.rule;
    EXPECT_EQ(refusal->name, each.rule) << refusal->figures(subject);
    for (const auto& rule : hip_attention_rules()) EXPECT_FALSE(rule.figures(subject).empty());
  }
}

// Compiled by clang 22, kernels whose waves hold all of such a row spilled 10 to 18 registers.
TEST(HipAttentionInstances, UnalignedRowsOf224ColumnsAreSharedByWaves) {
  const HipSpec spec = attention_spec("gfx1100");
  AttentionSignature s;
  s.data_type = DataType::fp16;
  s.head_dim_qk = s.head_dim_v = 224;
  const auto column_waves = [&](bool unaligned) {
    s.unaligned = unaligned;
    std::set<int> seen;
    for (const HipAttentionTile& tile : spec.attention_tiles) {
      KernelConfig config{.arch = spec.arch, .signature = s, .algorithm = hip_attention_algorithm(spec, s, tile)};
      config.algorithm.pipeline = Pipeline::decode;
      if (first_refusal(hip_attention_rules(), HipAttentionSubject{config, spec}) == nullptr)
        seen.insert(std::max<int>(config.algorithm.wave[1], 1));
    }
    return seen;
  };
  EXPECT_FALSE(column_waves(true).contains(1));
  EXPECT_TRUE(column_waves(true).contains(2));
  EXPECT_TRUE(column_waves(false).contains(1));
}

}  // namespace
}  // namespace tilesmith
