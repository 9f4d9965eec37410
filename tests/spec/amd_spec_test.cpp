// AMD specs: the facts shipped load, and a wrong one is refused with file, JSON path, value and what would be right.
#include <gtest/gtest.h>

#include <functional>

#include "base/json.hpp"
#include "spec/amd/chip.hpp"
#include "spec/amd/ck_attention.hpp"
#include "spec/amd/ck_conv.hpp"
#include "spec/amd/ck_gemm.hpp"
#include "spec/spec_files.hpp"

namespace tilesmith {
namespace {

using nlohmann::json;

json shipped(const char* path) {
  return json::parse(spec_file_text(path).value());
}

TEST(AmdSpec, ShippedFactsLoad) {
  const auto& chips = amd_chips();
  ASSERT_TRUE(chips.has_value()) << chips.error().text();
  EXPECT_EQ(chips->size(), 8u);
  for (const AmdChip& chip : *chips) {
    EXPECT_EQ(chip.lanes_per_wave, chip.isa == AmdIsa::cdna ? 64 : 32) << chip.arch.text();
    EXPECT_FALSE(chip.waves_per_block.empty()) << chip.arch.text();
  }
  EXPECT_TRUE(amd_attention_spec().has_value());
  EXPECT_TRUE(amd_gemm_spec().has_value());
  EXPECT_TRUE(amd_conv_spec().has_value());
}

TEST(AmdSpec, UnknownChipGetsNearest) {
  const auto chip = find_amd_chip("gfx94");
  ASSERT_FALSE(chip.has_value());
  EXPECT_NE(chip.error().hint.find("gfx942"), std::string::npos);
}

std::string error_of(const std::function<Status(const std::string&)>& parse, json document,
                     const std::function<void(json&)>& change) {
  change(document);
  const Status status = parse(document.dump());
  EXPECT_FALSE(status.has_value());
  return status ? std::string() : status.error().text();
}

Status as_status(const auto& result) {
  if (!result) return std::unexpected(result.error());
  return {};
}

TEST(AmdSpec, WrongChipFactsAreNamed) {
  const auto parse = [](const std::string& text) { return as_status(parse_amd_chip("chip.json", text)); };
  const json good = shipped("amd/chips/gfx950.json");
  const auto says = [&](const std::function<void(json&)>& change, const char* text) {
    const std::string error = error_of(parse, good, change);
    EXPECT_NE(error.find("chip.json"), std::string::npos) << error;
    EXPECT_NE(error.find(text), std::string::npos) << error;
  };
  says([](json& j) { j["lanes_per_wave"] = 640; }, "$.lanes_per_wave is 640");
  says([](json& j) { j.erase("lds_bytes"); }, "$.lds_bytes is missing");
  says([](json& j) { j["isa"] = "gcn"; }, "\"gcn\" is no AMD instruction-set lineage");
  says([](json& j) { j["lds_byte"] = 1; }, "did you mean 'lds_bytes'");
  says([](json& j) { j["waves_per_block"][0] = {1, 2}; }, "$.waves_per_block[0] is [1,2]");
  says([](json& j) { j["fragments"]["fp16"] = json::array(); }, "fp16*fp16->fp32");
  says([](json& j) { j["attention"]["data_types"][0] = "fp17"; }, "fp17");
  says([](json& j) { j["arch"] = "GFX 950"; }, "GFX 950");
}

TEST(AmdSpec, WrongKernelFactsAreNamed) {
  const std::string tables = spec_file_text("amd/ck/attention_tables.json").value();
  const auto attention = [&](const std::string& text) {
    return as_status(parse_amd_attention_spec("attention.json", text, "tables.json", tables));
  };
  const json good = shipped("amd/ck/attention.json");
  const auto says = [&](const std::function<void(json&)>& change, const char* text) {
    const std::string error = error_of(attention, good, change);
    EXPECT_NE(error.find("attention.json: $"), std::string::npos) << error;
    EXPECT_NE(error.find(text), std::string::npos) << error;
  };
  says([](json& j) { j["families"]["fwd"][0]["axes"][0]["field"] = "logits"; }, "logits");
  says([](json& j) { j["families"]["fwd"][0]["axes"][1]["values"][0] = "nope"; },
       "$.families.fwd[0].axes[1].values[0] is \"nope\"");
  says([](json& j) { j["families"]["fwd"][0]["kernels"][0]["pads"][0] = "01"; }, "four digits");
  says([](json& j) { j["data_types"]["fp16"]["warps"][0][0] = 0; }, "above 0");
  says([](json& j) { j["tiles"]["bwd"][0]["tile"] = {1, 2, 3}; }, "9 figures");
  says([](json& j) { j["receipts"]["filters"][0]["rows"][0]["keep"] = {{"colour", {"red"}}}; }, "colour");

  const auto gemm = [](const std::string& text) { return as_status(parse_amd_gemm_spec("gemm.json", text)); };
  EXPECT_NE(error_of(gemm, shipped("amd/ck/gemm.json"), [](json& j) { j["lds_share"]["mem"] = 2; })
                .find("$.lds_share.mem is 2"),
            std::string::npos);
  EXPECT_NE(error_of(gemm, shipped("amd/ck/gemm.json"), [](json& j) { j["tile_limits"]["gemm"]["step"][0] = 0; })
                .find("above 0"),
            std::string::npos);
  const auto conv = [](const std::string& text) { return as_status(parse_amd_conv_spec("conv.json", text)); };
  EXPECT_NE(error_of(conv, shipped("amd/ck/conv.json"),
                     [](json& j) {
                       j["directions"]["fwd"]["features"][0]["tiles"][0] = {7, 7, 7};
                     })
                .find("7x7x7"),
            std::string::npos);
  EXPECT_NE(error_of(conv, shipped("amd/ck/conv.json"),
                     [](json& j) { j["directions"]["fwd"]["rows"][0]["half"]["pipelines"][0] = "mem"; })
                .find("joined by /"),
            std::string::npos);
}

}  // namespace
}  // namespace tilesmith
