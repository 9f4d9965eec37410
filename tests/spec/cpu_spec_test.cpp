// The CPU facts load, and a broken spec is refused with file, path, value and what would be right.
#include "spec/cpu/spec.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/json.hpp"
#include "spec/spec_files.hpp"

namespace tilesmith {
namespace {

TEST(CpuSpec, EveryLevelLoadsLowestFirst) {
  const auto specs = load_cpu_specs();
  ASSERT_TRUE(specs.has_value()) << specs.error().text();
  ASSERT_EQ(specs->size(), 4u);
  EXPECT_EQ(specs->front().arch.text(), "x86_64_v3");
  EXPECT_EQ(specs->back().arch.text(), "x86_64_amx");
  for (const CpuSpec& spec : *specs) {
    EXPECT_FALSE(spec.attention_fwd.empty());
    for (const CpuAttentionInstruction& instruction : spec.attention_fwd)
      for (const CpuTiles& tiles : instruction.pipelines)
        for (const int m : tiles.tile_m)
          EXPECT_TRUE(m == 1 || m % instruction.lanes == 0) << spec.arch.text() << " " << m;
  }
}

class BrokenSpec : public ::testing::Test {
 protected:
  static std::string with(std::string_view from, std::string_view to) {
    std::string text = *spec_file_text("cpu/x86_64_v4.json");
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  }
  static std::string error_of(const std::string& text) {
    const auto spec = parse_cpu_spec("x.json", text);
    EXPECT_FALSE(spec.has_value());
    return spec ? std::string() : spec.error().text();
  }
};

TEST_F(BrokenSpec, SaysFilePathValueAndWhatWouldBeRight) {
  EXPECT_EQ(error_of(with("\"vector_bits\": 512", "\"vector_bits\": \"wide\"")),
            "x.json: $.vector_bits is \"wide\" (an integer from 128 to 4096)");
  EXPECT_EQ(error_of(with("\"vector_bits\": 512", "\"vector_bits\": 7")),
            "x.json: $.vector_bits is 7 (an integer from 128 to 4096)");
  EXPECT_EQ(error_of(with("\"vector_bits\": 512,", "")),
            "x.json: $.vector_bits is missing (an integer from 128 to 4096)");
  EXPECT_NE(error_of(with("\"vector_bits\"", "\"vector_bit\""))
                .find("x.json: $.vector_bit is not a known field (did you mean"),
            std::string::npos);
  EXPECT_NE(error_of(with("\"fp16\"", "\"fp61\""))
                .find("x.json: $.attention_fwd.instructions.fma.data_types[2]: \"fp61\" is no data type"),
            std::string::npos);
  EXPECT_NE(error_of(with("\"fma\": {", "\"fmma\": {")).find("is no instruction"), std::string::npos);
  EXPECT_NE(error_of(with("\"flash\"", "\"flush\"")).find("did you mean flash"), std::string::npos);
  EXPECT_NE(error_of(with("-march=x86-64-v4", "-fplugin=evil.so")).find("machine flags"), std::string::npos);
  EXPECT_NE(error_of(with("\"x86_64_v4\"", "\"X86/../v4\"")).find("$.arch"), std::string::npos);
  EXPECT_NE(error_of(with("\"hidden_cycles\": 100", "\"hidden_cycles\": 0")).find("$.gemm.far.hidden_cycles is 0"),
            std::string::npos);
}

TEST_F(BrokenSpec, AModelHasCoefficientsOfEveryKernelAndOfTermsAlone) {
  EXPECT_NE(error_of(with("\"flash_fp32\": {", "\"flash_fp8\": {")).find("coefficients of flash_fp32 too"),
            std::string::npos);
  EXPECT_NE(error_of(with("\"flash_fp32\": {", "\"flush_fp32\": {")).find("did you mean flash"), std::string::npos);
  EXPECT_NE(error_of(with("\"products\":", "\"product\":")).find("a coefficient of products, narrow, far"),
            std::string::npos);
}

TEST_F(BrokenSpec, AModelOfConvolutionNamesItsKernels) {
  EXPECT_NE(error_of(with("\"blocked_fwd_fp32\": {", "\"blocked_sideways_fp32\": {")).find("PIPELINE_DIRECTION_TYPE"),
            std::string::npos);
  EXPECT_NE(error_of(with("\"blocked_fwd_fp32\": {", "\"blocked_fwd_fp33\": {")).find("did you mean fp32"),
            std::string::npos);
}

TEST_F(BrokenSpec, AModelHasOneKernelAtLeast) {
  for (const char* operation : {"gemm", "conv"}) {
    auto document = nlohmann::json::parse(*spec_file_text("cpu/x86_64_v4.json"));
    document[operation]["model"]["pipelines"] = nlohmann::json::object();
    EXPECT_NE(error_of(document.dump()).find("coefficients of one kernel at least"), std::string::npos);
  }
}

TEST_F(BrokenSpec, AModelOfGemmNamesItsKernels) {
  EXPECT_NE(error_of(with("\"skinny_int8\": {", "\"thin_int8\": {")).find("PIPELINE_TYPE"), std::string::npos);
  EXPECT_NE(error_of(with("\"skinny_int8\": {", "\"skinny_int9\": {")).find("did you mean int8"), std::string::npos);
}

TEST(CpuSpec, KernelsWithoutCoefficientsOfGemmHaveThoseOfTheirPipeline) {
  CpuGemmModel model;
  model.kernels = {{Pipeline::blocked, DataType::fp32, {1}},
                   {Pipeline::skinny, DataType::fp32, {2}},
                   {Pipeline::skinny, std::nullopt, {3}}};
  EXPECT_EQ(model.coefficients(Pipeline::skinny, DataType::fp32)[0], 2);
  EXPECT_EQ(model.coefficients(Pipeline::skinny, DataType::bf16)[0], 3);
  EXPECT_EQ(model.coefficients(Pipeline::blocked, DataType::bf16)[0], 1);
}

TEST(CpuSpec, KernelsWithoutCoefficientsOfConvolutionHaveThoseOfTheMostAlike) {
  using enum Pipeline;
  using enum ConvDirection;
  CpuConvModel model;
  model.kernels = {{blocked, forward, DataType::bf16, {1}},
                   {blocked, forward, std::nullopt, {2}},
                   {depthwise, forward, DataType::bf16, {3}},
                   {blocked, backward_data, std::nullopt, {4}}};
  EXPECT_EQ(model.coefficients(blocked, forward, DataType::bf16)[0], 1);
  EXPECT_EQ(model.coefficients(blocked, forward, DataType::fp32)[0], 2);
  EXPECT_EQ(model.coefficients(depthwise, forward, DataType::fp32)[0], 3);
  EXPECT_EQ(model.coefficients(depthwise, backward_data, DataType::bf16)[0], 4);
}

TEST_F(BrokenSpec, BadJsonSaysTheLine) {
  EXPECT_NE(error_of("{\n\"arch\": 1,\n}").find("x.json:3: not valid JSON"), std::string::npos);
  EXPECT_NE(error_of("{\"arch\": 1e999}").find("x.json: not valid JSON: number overflow"), std::string::npos);
  EXPECT_NE(error_of(std::string(1000000, '[')).find("nested deeper"), std::string::npos);
  EXPECT_FALSE(parse_cpu_spec("x.json", "").has_value());
}

TEST(SpecFiles, AFolderOverridesAndBadFoldersAreNamed) {
  const auto folder = std::filesystem::temp_directory_path() / ("tilesmith_specs_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder / "cpu");
  std::ofstream(folder / "cpu" / "x86_64_v4.json") << "{}";
  ::setenv("TILESMITH_SPEC_DIR", folder.c_str(), 1);
  EXPECT_EQ(*spec_file_text("cpu/x86_64_v4.json"), "{}");
  EXPECT_NE(spec_file_text("cpu/x86_64_v3.json")->find("x86_64_v3"), std::string::npos);
  EXPECT_FALSE(load_cpu_specs().has_value());
  std::filesystem::rename(folder / "cpu", folder / "cpus");
  const auto misspelt = spec_files("cpu");
  ASSERT_FALSE(misspelt.has_value());
  EXPECT_NE(misspelt.error().message.find("which has no folder of specs"), std::string::npos);
  ::setenv("TILESMITH_SPEC_DIR", "/nonexistent/specs", 1);
  const auto missing = spec_files("cpu");
  ASSERT_FALSE(missing.has_value());
  EXPECT_NE(missing.error().message.find("TILESMITH_SPEC_DIR is /nonexistent/specs"), std::string::npos);
  ::unsetenv("TILESMITH_SPEC_DIR");
  std::filesystem::remove_all(folder);
}

TEST(CpuSpec, ChipsOfHalfTheWidthDoHalfTheProducts) {
  const auto specs = load_cpu_specs();
  ASSERT_TRUE(specs);
  int halved = 0;
  for (const CpuSpec& level : *specs)
    for (const auto& [family, factor] : {std::pair{"AuthenticAMD 25", 0.5}, {"AuthenticAMD 26", 1.0}}) {
      const CpuSpec spec = on_chip(level, "AuthenticAMD");
      const CpuSpec chip = on_chip(spec, family);
      const bool wide = spec.arch.text().starts_with("x86_64_v4");
      for (std::size_t i = 0; i < spec.gemm.size(); ++i)
        EXPECT_EQ(chip.gemm[i].products_per_cycle, spec.gemm[i].products_per_cycle * (wide ? factor : 1.0))
            << spec.arch.text();
      for (std::size_t i = 0; i < spec.attention_bwd.size(); ++i)
        EXPECT_EQ(chip.attention_bwd[i].products_per_cycle,
                  spec.attention_bwd[i].products_per_cycle * (wide ? factor : 1.0));
      EXPECT_EQ(chip.vector_bits_per_cycle, static_cast<int>(spec.vector_bits * (wide ? factor : 1.0)));
      EXPECT_GT(chip.clock_hz, 0);
      EXPECT_GT(chip.memory_bytes_per_cycle, 0);
      halved += wide && factor < 1;
    }
  EXPECT_EQ(halved, 2);
}

// docs/log/2026-11-backward.md: on Intel's cores dpbf16 has half the rate of multiplications of floats.
TEST(CpuSpec, AChipMayHaveProductsOfItsOwn) {
  const auto specs = load_cpu_specs();
  ASSERT_TRUE(specs);
  const auto level = std::ranges::find(*specs, "x86_64_v4_bf16", [](const CpuSpec& spec) { return spec.arch.text(); });
  ASSERT_NE(level, specs->end());
  const auto products = [](const CpuSpec& spec) {
    const auto of = [](const auto& all) {
      return std::ranges::find(all, Instruction::dpbf16, [](const auto& each) { return each.instruction; })
          ->products_per_cycle;
    };
    return std::array{of(spec.attention_bwd), of(spec.gemm)};
  };
  EXPECT_EQ(products(on_chip(*level, "GenuineIntel 6")), (std::array{16.0, 16.0}));
  EXPECT_EQ(products(on_chip(*level, "AuthenticAMD 26")), (std::array{56.0, 64.0}));
}

TEST(CpuSpec, AChipMayHaveAModelOfItsOwn) {
  const auto specs = load_cpu_specs();
  ASSERT_TRUE(specs);
  for (const CpuSpec& spec : *specs) {
    EXPECT_EQ(on_chip(spec, "GenuineIntel 6").attention_model.command, spec.attention_model.command);
    const std::string amd = on_chip(spec, "AuthenticAMD 25").attention_model.command;
    EXPECT_EQ(amd != spec.attention_model.command, !spec.attention_models_on.empty()) << spec.arch.text();
    EXPECT_EQ(on_chip(spec, "GenuineIntel 6").gemm_model.command, spec.gemm_model.command);
    const std::string gemm = on_chip(spec, "AuthenticAMD 25").gemm_model.command;
    EXPECT_EQ(gemm == spec.gemm_warm_model.command, !spec.gemm_warm_on.empty()) << spec.arch.text();
  }
}

}  // namespace
}  // namespace tilesmith
