// Facts for own kernels on AMD GPUs: the facts shipped load, and a wrong one is refused with file, JSON path, value and
// what would be right.
#include "spec/hip/spec.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "base/json.hpp"
#include "spec/amd/chip.hpp"
#include "spec/spec_files.hpp"

namespace tilesmith {
namespace {

using nlohmann::json;

TEST(HipSpec, ShippedFactsLoadAndAgreeWithTheChips) {
  const auto specs = load_hip_specs();
  ASSERT_TRUE(specs.has_value()) << specs.error().text();
  EXPECT_EQ(specs->size(), 5u);
  for (const HipSpec& spec : *specs) {
    const auto chip = find_amd_chip(spec.arch.text());
    ASSERT_TRUE(chip.has_value()) << chip.error().text();
    EXPECT_EQ(spec.lanes_per_wave, (*chip)->lanes_per_wave);
    EXPECT_EQ(spec.lds_bytes, (*chip)->lds_bytes);
    EXPECT_EQ(spec.matrix_unit, (*chip)->matrix_unit);
    EXPECT_FALSE(spec.tested) << "no AMD GPU has run these kernels";
    for (const HipGemmTable& table : spec.gemm_tables)
      for (const DataType type : table.data_types)
        EXPECT_GT(spec.reference.tflops_of(type), 0) << spec.arch.text() << " " << name_of(type);
    // Instructions say in which encoding they read fp8; chips without any have no table for it.
    if ((*chip)->fp8_encoding == Fp8Encoding::none) {
      EXPECT_EQ(spec.gemm_table(DataType::fp8), nullptr);
    }
    for (const HipFragment& fragment : spec.fragments)
      if (std::ranges::find(fragment.data_types, DataType::fp8) != fragment.data_types.end()) {
        EXPECT_EQ(fragment.fnuz, (*chip)->fp8_encoding == Fp8Encoding::fnuz) << spec.arch.text();
      }
  }
}

TEST(HipSpec, WrongFactsAreRefusedWithTheirPlace) {
  struct Case {
    const char* words;
    std::function<void(json&)> change;
  };
  const Case cases[] = {
      {"$.fragments[0].operand_words is 3", [](json& spec) { spec["fragments"][0]["operand_words"] = 3; }},
      {"$.fragments[1].run_of_results is 3", [](json& spec) { spec["fragments"][1]["run_of_results"] = 3; }},
      {"$.fragments[0].shape",
       [](json& spec) {
         spec["fragments"][0]["shape"] = {32, 16, 8};
       }},
      {"$.matrix_unit", [](json& spec) { spec["matrix_unit"] = "wgmma"; }},
      {"$.gemm.tables[0].tiles[0].fragment is 8",
       [](json& spec) { spec["gemm"]["tables"][0]["tiles"][0]["fragment"] = 8; }},
      {"$.gemm.tables[0].tiles[0].stages is 3",
       [](json& spec) { spec["gemm"]["tables"][0]["tiles"][0]["stages"] = 3; }},
      {"$.attention_fwd.tiles[0].fragment is 8", [](json& spec) { spec["attention_fwd"]["tiles"][0]["fragment"] = 8; }},
      {"$.attention_fwd.tiles[1].pipeline", [](json& spec) { spec["attention_fwd"]["tiles"][1]["pipeline"] = "qr"; }},
      {"$.attention_fwd.tiles[2].head_dim",
       [](json& spec) {
         spec["attention_fwd"]["tiles"][2]["head_dim"] = {256, 129};
       }},
      {"$.attention_fwd.data_types", [](json& spec) { spec["attention_fwd"]["data_types"] = json::array(); }},
      {"lds_byte", [](json& spec) { spec["lds_byte"] = 1; }},
      {"$.registers_of_simd", [](json& spec) { spec.erase("registers_of_simd"); }},
  };
  const json shipped = json::parse(spec_file_text("hip/gfx942.json").value());
  for (const Case& each : cases) {
    json wrong = shipped;
    each.change(wrong);
    const auto spec = parse_hip_spec("hip/gfx942.json", wrong.dump());
    ASSERT_FALSE(spec.has_value()) << each.words;
    EXPECT_NE(spec.error().text().find(each.words), std::string::npos) << spec.error().text();
    EXPECT_NE(spec.error().text().find("hip/gfx942.json"), std::string::npos) << spec.error().text();
  }
}

}  // namespace
}  // namespace tilesmith
