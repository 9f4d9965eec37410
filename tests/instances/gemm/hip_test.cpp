// Own GEMM instances for AMD GPUs: every tile of the facts makes kernels, names parse back, and each rule refuses what
// it is for.
#include "instances/gemm/hip.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

HipSpec spec_of(std::string_view arch) {
  const std::vector<HipSpec> specs = load_hip_specs().value();
  return *std::ranges::find_if(specs, [&](const HipSpec& spec) { return spec.arch.text() == arch; });
}

TEST(HipGemmInstances, EveryTileMakesKernelsOfEveryTypeAndLayout) {
  const std::vector<HipSpec> specs = load_hip_specs().value();
  for (const HipSpec& spec : specs)
    for (const HipGemmTable& table : spec.gemm_tables)
      for (const DataType type : table.data_types) {
        for (const MatrixOrder a : {MatrixOrder::row, MatrixOrder::column})
          for (const MatrixOrder b : {MatrixOrder::row, MatrixOrder::column}) {
            GemmSignature s;
            s.a = s.b = type;
            s.accumulator = type == DataType::int8 ? DataType::int32 : DataType::fp32;
            s.layout_a = a;
            s.layout_b = b;
            std::size_t count = 0;
            enumerate_hip_gemm(spec, s, [&](const KernelConfig&) { return ++count > 0; });
            EXPECT_EQ(count, 3 * table.tiles.size()) << spec.arch.text() << " " << name_of(type);
          }
      }
}

TEST(HipGemmInstances, NamesAreUniqueAndParseBack) {
  const HipSpec spec = spec_of("gfx950");
  std::set<std::string> names;
  listed_gemm_signatures(spec, "rcr", [&](const GemmSignature& signature) {
    enumerate_hip_gemm(spec, signature, [&](const KernelConfig& config) {
      const std::string name = native_name(config);
      EXPECT_TRUE(names.insert(name).second) << name;
      const auto parsed = parse_native_name(name);
      EXPECT_TRUE(parsed.has_value() && *parsed == config) << name;
      return true;
    });
    return true;
  });
  EXPECT_GT(names.size(), 1000u);
}

TEST(HipGemmInstances, EachRuleRefusesWhatItIsFor) {
  struct Case {
    const char* rule;
    std::function<void(GemmSignature&, Algorithm&)> change;
  };
  const Case cases[] = {
      {"family_is_carried", [](GemmSignature& s, Algorithm&) { s.mm_plus_mm = true; }},
      {"family_is_carried", [](GemmSignature& s, Algorithm&) { s.grouping = GemmGrouping::masked; }},
      {"types_fit", [](GemmSignature& s, Algorithm&) { s.b = DataType::fp16; }},
      {"types_fit", [](GemmSignature& s, Algorithm&) { s.c = DataType::int8; }},
      {"scales_are_of_tensors", [](GemmSignature& s, Algorithm&) { s.qscale = QuantScale::blockscale; }},
      {"epilogue_is_carried",
       [](GemmSignature& s, Algorithm&) {
         s.epilogue_ops = {EpilogueOp::amax, EpilogueOp::relu};
       }},
      {"epilogue_is_carried",
       [](GemmSignature& s, Algorithm&) {
         s.epilogue_ops = {EpilogueOp::swiglu, EpilogueOp::geglu};
       }},
      {"instruction_is_there", [](GemmSignature&, Algorithm& a) { a.instruction = Instruction::wmma; }},
      {"instruction_is_there", [](GemmSignature&, Algorithm& a) { a.warp[2] = 16; }},
      {"fields_belong", [](GemmSignature&, Algorithm& a) { a.stages = 3; }},
      {"fields_belong", [](GemmSignature&, Algorithm& a) { a.split_k = true; }},
      {"fields_belong", [](GemmSignature&, Algorithm& a) { a.tile[3] = 1; }},
      {"tile_is_whole", [](GemmSignature&, Algorithm& a) { a.tile[0] = 48; }},
      {"tile_is_whole", [](GemmSignature&, Algorithm& a) { a.tile[2] = 24; }},
      {"tile_is_whole", [](GemmSignature&, Algorithm& a) { a.wave[0] = 0; }},
      {"accesses_are_carried", [](GemmSignature&, Algorithm& a) { a.vector[0] = 4; }},
      {"lds_fits", [](GemmSignature&, Algorithm& a) { a.tile[2] = 256; }},
      {"registers_fit",
       [](GemmSignature&, Algorithm& a) {
         a.tile = {256, 256, 32};
         a.wave = {2, 2};
       }},
  };
  const HipSpec spec = spec_of("gfx942");
  GemmSignature signature;
  signature.a = signature.b = signature.c = signature.aux = DataType::bf16;
  const HipGemmTile tile{
      .tile_m = 128, .tile_n = 128, .tile_k = 32, .waves_m = 2, .waves_n = 2, .fragment = 32, .stages = 1};
  const KernelConfig sound{
      .arch = spec.arch, .signature = signature, .algorithm = hip_gemm_algorithm(spec, signature, tile)};
  ASSERT_EQ(first_refusal(hip_gemm_rules(), HipGemmSubject{sound, spec}), nullptr);
  for (const Case& each : cases) {
    KernelConfig config = sound;
    each.change(std::get<GemmSignature>(config.signature), config.algorithm);
    const auto* refusal = first_refusal(hip_gemm_rules(), HipGemmSubject{config, spec});
    ASSERT_NE(refusal, nullptr) << each.rule;
    EXPECT_EQ(refusal->name, each.rule);
    // Every rule bears the config.
    EXPECT_EQ(verdicts(hip_gemm_rules(), HipGemmSubject{config, spec}).size(), hip_gemm_rules().size());
  }
}

}  // namespace
}  // namespace tilesmith
