// AMD attention instances beyond the parity table: names, tables mode, sweeps, sound mode.
#include "instances/attention/ck.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>

#include "vocabulary/names/ck.hpp"

namespace tilesmith {
namespace {

const AmdChip& chip(std::string_view name) {
  return **find_amd_chip(name);
}

AmdAttentionQuery query_for(std::string_view arch, EnumerationMode mode = EnumerationMode::rules) {
  return {.chip = chip(arch), .spec = amd_attention_spec().value(), .mode = mode};
}

std::size_t count(const AmdAttentionQuery& query, AttentionVariant variant) {
  std::size_t total = 0;
  enumerate_amd_attention(query, variant, [&](const KernelConfig&) { return ++total, true; });
  return total;
}

constexpr AttentionVariant kVariants[] = {AttentionVariant::fwd,           AttentionVariant::splitkv,
                                          AttentionVariant::pagedkv,       AttentionVariant::appendkv,
                                          AttentionVariant::batch_prefill, AttentionVariant::bwd};

TEST(AmdAttention, EveryNameParsesToTheConfigItNames) {
  const AmdAttentionQuery queries[] = {query_for("gfx950"), query_for("gfx90a"),
                                       query_for("gfx942", EnumerationMode::tables)};
  for (const AmdAttentionQuery& query : queries)
    for (const AttentionVariant variant : kVariants) {
      std::size_t wrong = 0;
      enumerate_amd_attention(query, variant, [&](const KernelConfig& config) {
        char name[kMaxCkName];
        const std::string_view text(name, write_ck_name(config, name));
        auto parsed = parse_ck_name(text);
        if (!parsed) {
          ADD_FAILURE() << text << "\n" << parsed.error().text();
          return ++wrong < 5;
        }
        parsed->arch = config.arch;
        complete_amd_attention(query.spec, *parsed);
        if (*parsed == config) return true;
        ADD_FAILURE() << text << "\n" << canonical_form(*parsed) << "\n" << canonical_form(config);
        return ++wrong < 5;
      });
    }
}

TEST(AmdAttention, SampledNamesAreListed) {
  std::ifstream in(TILESMITH_SOURCE_DIR "/tests/instances/data/ck_attention_names.txt");
  std::map<AttentionVariant, std::set<std::string>> samples;
  std::size_t read = 0;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with('#') || line.empty()) continue;
    const auto parsed = parse_ck_name(line);
    ASSERT_TRUE(parsed.has_value()) << line << "\n" << parsed.error().text();
    EXPECT_EQ(ck_name(*parsed), line);
    samples[variant_of(parsed->attention().family)].insert(line);
    ++read;
  }
  ASSERT_EQ(read, 360u);
  for (auto& [variant, names] : samples) {
    enumerate_amd_attention(query_for("gfx950"), variant, [&](const KernelConfig& config) {
      names.erase(ck_name(config));
      return !names.empty();
    });
    EXPECT_TRUE(names.empty()) << *names.begin();
  }
}

// The totals of the earlier enumeration, variant by variant: 30,577 in all on gfx950.
TEST(AmdAttention, TablesModeHasTheEarlierCounts) {
  const AmdAttentionQuery query = query_for("gfx950", EnumerationMode::tables);
  const std::size_t expected[] = {11980, 3090, 252, 99, 2964, 12192};
  for (std::size_t i = 0; i < std::size(kVariants); ++i)
    EXPECT_EQ(count(query, kVariants[i]), expected[i]) << name_of(kVariants[i]);

  std::map<DataType, std::size_t> by_type;
  enumerate_amd_attention(query, AttentionVariant::fwd,
                          [&](const KernelConfig& config) { return ++by_type[config.attention().data_type], true; });
  EXPECT_EQ(by_type,
            (std::map<DataType, std::size_t>{
                {DataType::fp16, 5720}, {DataType::bf16, 5720}, {DataType::fp8bf16, 432}, {DataType::fp8fp32, 108}}));
  for (const char* rdna : {"gfx1100", "gfx1201"})
    EXPECT_EQ(count(query_for(rdna, EnumerationMode::tables), AttentionVariant::fwd), 0u) << rdna;
}

// Shipped data types: the middle column of the counts upstream's own sweep files give.
TEST(AmdAttention, ShippedDataTypesHaveTheirCounts) {
  AmdAttentionQuery query = query_for("gfx950");
  query.sweep.data_types = {{DataType::fp16, DataType::bf16, DataType::fp8bf16, DataType::fp8fp32}};
  EXPECT_EQ(count(query, AttentionVariant::fwd), 864300u);
  query.sweep.data_types = {{DataType::fp16, DataType::bf16, DataType::fp8}};
  EXPECT_EQ(count(query, AttentionVariant::splitkv), 620010u);
  EXPECT_EQ(count(query, AttentionVariant::pagedkv), 245952u);
  EXPECT_EQ(count(query, AttentionVariant::appendkv), 220u);
}

TEST(AmdAttention, StopsWhenTheSinkHasEnough) {
  for (const AttentionVariant variant : kVariants)
    for (const int enough : {1, 7, 100}) {
      int calls = 0;
      enumerate_amd_attention(query_for("gfx950"), variant, [&](const KernelConfig&) { return ++calls < enough; });
      EXPECT_EQ(calls, enough) << name_of(variant);
    }
}

}  // namespace
}  // namespace tilesmith
