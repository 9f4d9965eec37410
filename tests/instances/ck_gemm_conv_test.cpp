// AMD GEMM and convolution instances: parity with data/ck_gemm_conv_parity.csv, names, sound mode.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "instances/conv/ck.hpp"
#include "instances/gemm/ck.hpp"
#include "name_list.hpp"

namespace tilesmith {
namespace {

struct Expected {
  std::size_t names = 0;
  std::string sorted;
};

std::map<std::string, Expected> table() {
  std::ifstream in(TILESMITH_SOURCE_DIR "/tests/instances/data/ck_gemm_conv_parity.csv");
  std::map<std::string, Expected> out;
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) {
    std::stringstream fields(line);
    std::string list, names, sorted;
    std::getline(fields, list, ',');
    std::getline(fields, names, ',');
    std::getline(fields, sorted, ',');
    out[list] = {std::stoul(names), sorted};
  }
  return out;
}

const AmdChip& chip(std::string_view name) {
  return **find_amd_chip(name);
}
AmdGemmQuery gemm_query(std::string_view arch) {
  return {.chip = chip(arch), .spec = amd_gemm_spec().value()};
}
AmdConvQuery conv_query(std::string_view arch, ConvRuleSet rule_set = ConvRuleSet::full) {
  return {.chip = chip(arch), .spec = amd_conv_spec().value(), .gemm = amd_gemm_spec().value(), .rule_set = rule_set};
}

testing::NameList list_of(const std::function<void(ConfigSink)>& walk) {
  testing::NameList list;
  walk([&](const KernelConfig& config) { return list.add(config); });
  return list;
}

/// The list a row of the table speaks of: gemm_<arch>_<family>, conv_<arch>_<direction>_<how>, conv_<arch>_<rule set>.
testing::NameList list_named(const std::string& name) {
  const std::size_t arch_at = name.find('_') + 1;
  const std::size_t rest_at = name.find('_', arch_at) + 1;
  const std::string arch = name.substr(arch_at, rest_at - 1 - arch_at), rest = name.substr(rest_at);
  if (name.starts_with("gemm_"))
    return list_of([&](ConfigSink sink) { enumerate_amd_gemm(gemm_query(arch), *parse_enum<GemmFamily>(rest), sink); });
  if (rest == "full_tests")
    return list_of([&](ConfigSink sink) { enumerate_amd_conv(conv_query(arch, ConvRuleSet::full_tests), sink); });
  if (rest == "tiny")
    return list_of([&](ConfigSink sink) { enumerate_amd_conv(conv_query(arch, ConvRuleSet::tiny), sink); });
  AmdConvQuery query = conv_query(arch);
  for (const auto& entry : EnumTable<ConvDirection>::kAliases)
    if (rest.starts_with(entry.name)) query.directions = {entry.value};
  for (const auto& entry : EnumTable<ConvDirection>::kNames)
    if (rest.starts_with(entry.name)) query.directions = {entry.value};
  if (rest.ends_with("default_generated")) query.rule_set = ConvRuleSet::defaults;
  const bool filtered = rest.ends_with("arch_filtered");
  return list_of([&](ConfigSink sink) {
    enumerate_amd_conv(query, [&](const KernelConfig& config) {
      // Upstream's chip check runs over the kernels that are GEMMs.
      if (filtered && std::get<ConvSignature>(config.signature).depthwise) return true;
      const AmdConvSubject subject{config, query.chip, query.spec, query.gemm};
      return filtered && first_refusal(amd_conv_chip_rules(), subject) != nullptr ? true : sink(config);
    });
  });
}

TEST(AmdGemmConvParity, EveryListOfTheTable) {
  ASSERT_TRUE(amd_gemm_spec().has_value()) << amd_gemm_spec().error().text();
  ASSERT_TRUE(amd_conv_spec().has_value()) << amd_conv_spec().error().text();
  const auto expected = table();
  ASSERT_EQ(expected.size(), 25u);
  for (const auto& [name, row] : expected) {
    const testing::NameList list = list_named(name);
    EXPECT_EQ(list.count(), row.names) << name;
    EXPECT_EQ(list.sorted().digest, row.sorted) << name;
    EXPECT_TRUE(list.sorted().unique) << name;
  }
}

TEST(AmdGemmConv, EveryNameParsesToTheConfigItNames) {
  for (const AmdChip& each : amd_chips().value()) {
    std::size_t wrong = 0;
    const auto check = [&](const KernelConfig& config) {
      auto parsed = parse_ck_name(ck_name(config));
      if (parsed) parsed->arch = config.arch;
      const bool right = parsed && *parsed == config;
      EXPECT_TRUE(right) << ck_name(config) << "\n"
                         << (parsed ? canonical_form(*parsed) : parsed.error().text()) << "\n"
                         << canonical_form(config);
      return right || ++wrong < 5;
    };
    for (const char* layout : {"rcr", "ccr"}) {
      AmdGemmQuery query = gemm_query(each.arch.text());
      query.layout = layout;
      for (const auto& family : EnumTable<GemmFamily>::kNames)
        if (family.value != GemmFamily::multi_d || each.arch.text() == "gfx908")
          enumerate_amd_gemm(query, family.value, check);
    }
    for (const auto& rule_set : EnumTable<ConvRuleSet>::kNames)
      enumerate_amd_conv(conv_query(each.arch.text(), rule_set.value), check);
  }
}

// Layouts change the letters of the names and nothing else: no check of upstream looks at them.
TEST(AmdGemmConv, LayoutsHaveTheSameKernels) {
  const auto rcr =
      list_of([&](ConfigSink sink) { enumerate_amd_gemm(gemm_query("gfx90a"), GemmFamily::standard, sink); });
  AmdGemmQuery query = gemm_query("gfx90a");
  query.layout = "crr";
  const auto crr = list_of([&](ConfigSink sink) { enumerate_amd_gemm(query, GemmFamily::standard, sink); });
  std::string expected = rcr.text();
  for (std::size_t at = 0; (at = expected.find("_rcr_", at)) != std::string::npos;) expected.replace(at, 5, "_crr_");
  EXPECT_EQ(crr.text(), expected);
  query.layout = "rrc";
  EXPECT_EQ(list_of([&](ConfigSink sink) { enumerate_amd_gemm(query, GemmFamily::standard, sink); }).count(), 0u);
}

}  // namespace
}  // namespace tilesmith
