// Listings: sound mode, statistics, output formats, import, requests that cannot be served.
#include "catalog/listing.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <set>

#include "base/file.hpp"
#include "base/json.hpp"
#include "catalog/explain.hpp"
#include "catalog/listing_output.hpp"
#include "thorough.hpp"
#include "vocabulary/names/name.hpp"

namespace tilesmith {
namespace {

std::vector<std::string> names_of(ListRequest request) {
  const auto listing = Listing::prepare(std::move(request));
  EXPECT_TRUE(listing.has_value()) << listing.error().text();
  std::vector<std::string> names;
  ListStatistics statistics;
  if (listing) {
    EXPECT_TRUE(listing->walk([&](const KernelConfig& c) { return names.push_back(kernel_name(c)), true; }, statistics)
                    .has_value());
  }
  return names;
}

ListStatistics statistics_of(ListRequest request) {
  const auto listing = Listing::prepare(std::move(request));
  EXPECT_TRUE(listing.has_value()) << listing.error().text();
  ListStatistics statistics;
  if (listing) {
    EXPECT_TRUE(listing->walk([](const KernelConfig&) { return true; }, statistics).has_value());
  }
  return statistics;
}

std::string written(const ListRequest& request, ListFormat format) {
  const auto listing = Listing::prepare(request);
  EXPECT_TRUE(listing.has_value()) << listing.error().text();
  std::FILE* file = std::tmpfile();
  EXPECT_NE(file, nullptr);
  const auto statistics = write_listing(*listing, format, ::fileno(file));
  EXPECT_TRUE(statistics.has_value()) << statistics.error().text();
  std::string text(static_cast<std::size_t>(::lseek(::fileno(file), 0, SEEK_END)), '\0');
  EXPECT_EQ(::pread(::fileno(file), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  std::fclose(file);
  return text;
}

constexpr const char* kChips[] = {"gfx908", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1200", "gfx1201", "gfx1250"};

TEST(Listing, SoundIsASubsetOfRulesInTheSameOrder) {
  for (const char* arch : {"gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"})
    for (const char* variant : {"fwd", "appendkv", "bwd"}) {
      const std::vector<std::string> rules = names_of({.arch = arch, .variant = variant, .data_types = {"fp16"}});
      const std::vector<std::string> sound =
          names_of({.arch = arch, .variant = variant, .mode = EnumerationMode::sound, .data_types = {"fp16"}});
      EXPECT_LE(sound.size(), rules.size()) << arch << " " << variant;
      std::size_t at = 0;
      for (const std::string& name : sound) {
        while (at < rules.size() && rules[at] != name) ++at;
        ASSERT_LT(at, rules.size()) << arch << " " << variant << " " << name;
      }
    }
}

TEST(Listing, EveryDroppedInstanceIsCounted) {
  for (const Operation operation : {Operation::attention, Operation::gemm, Operation::conv})
    for (const char* arch : kChips) {
      if (operation == Operation::attention &&
          (std::string_view(arch) == "gfx908" || std::string_view(arch) == "gfx1200" ||
           std::string_view(arch) == "gfx1250"))
        continue;
      const ListStatistics s = statistics_of({.arch = arch, .operation = operation, .mode = EnumerationMode::sound});
      std::uint64_t dropped = 0, families = 0;
      for (const auto& each : s.dropped) dropped += each.count;
      for (const auto& each : s.families) families += each.second;
      EXPECT_EQ(s.enumerated, s.listed + dropped) << arch;
      EXPECT_EQ(families, s.listed) << arch;
      EXPECT_GT(s.enumerated, 0u) << arch;
      EXPECT_GT(dropped, 0u) << arch << " " << name_of(operation);
    }
}

// What must not survive: facts about the chips that upstream's enumeration does not look at.
TEST(Listing, SoundKnowsTheSilicon) {
  for (const char* rdna : {"gfx1100", "gfx1201"}) {
    // No matrix unit there has 32 rows, and no asynchronous pipeline exists.
    for (const std::string& name : names_of({.arch = rdna,
                                   .mode = EnumerationMode::sound,
                                   .filters = {"c.family in ('fwd', 'batch_prefill', 'bwd_dq_dk_dv')"}}))
      ADD_FAILURE() << rdna << " " << name;
    EXPECT_GT(
        names_of({.arch = rdna, .variant = "splitkv", .mode = EnumerationMode::sound, .data_types = {"fp16"}}).size(),
        1000u);
  }
  // 160 KiB of local memory exist on gfx950 only.
  const auto large = [](const char* arch) {
    const auto all = explain(
        "fmha_fwd_fp16_batch_h192_qr_async_t64x384x64x192x32x192_w32x32x16_pad1111_mask=no_bias=no_bpc=-1", arch);
    EXPECT_TRUE(all.has_value() && all->size() == 1);
    for (const RuleVerdict& verdict : all->front().sound)
      if (verdict.rule == "lds_fits_chip") return verdict.accepted;
    return true;
  };
  EXPECT_TRUE(large("gfx950"));
  EXPECT_FALSE(large("gfx942"));
  // Fragments of 16x16x128 for 8-bit inputs compile on gfx942 and return zeros.
  EXPECT_TRUE(names_of({.arch = "gfx942",
                        .operation = Operation::gemm,
                        .mode = EnumerationMode::sound,
                        .data_types = {"fp8"},
                        .filters = {"c.warp_tile_k == 128"}})
                  .empty());
  EXPECT_FALSE(names_of({.arch = "gfx950",
                         .operation = Operation::gemm,
                         .mode = EnumerationMode::sound,
                         .data_types = {"fp8"},
                         .filters = {"c.warp_tile_k == 128"}})
                   .empty());
  // Upstream lets any fragment pass for inputs a chip has no table for.
  EXPECT_FALSE(names_of({.arch = "gfx1100", .operation = Operation::gemm, .variant = "standard", .data_types = {"fp8"}})
                   .empty());
  EXPECT_TRUE(names_of({.arch = "gfx1100",
                        .operation = Operation::gemm,
                        .variant = "standard",
                        .mode = EnumerationMode::sound,
                        .data_types = {"fp8"}})
                  .empty());
}

// How many of each preselected set pass upstream's checks on each chip.
TEST(Listing, PreselectedSetsAgainstTheChips) {
  const struct {
    const char* set;
    std::size_t size, gfx90a, gfx942, gfx950, gfx1100;
  } rows[] = {{"fp16_rcr_compute", 7, 2, 2, 5, 0},
              {"fp16_rcr_memory", 8, 0, 8, 8, 0},
              {"fp16_rcr_latency", 2, 0, 2, 2, 0},
              {"fp16_rcr_preshuffle", 2, 0, 0, 0, 0}};
  for (const auto& row : rows) {
    const auto count = [&](const char* arch, EnumerationMode mode) {
      return names_of({.arch = arch, .operation = Operation::gemm, .mode = mode, .rule_set = row.set}).size();
    };
    EXPECT_EQ(count("gfx942", EnumerationMode::rules), row.size) << row.set;
    EXPECT_EQ(count("gfx90a", EnumerationMode::sound), row.gfx90a) << row.set;
    EXPECT_EQ(count("gfx942", EnumerationMode::sound), row.gfx942) << row.set;
    EXPECT_EQ(count("gfx950", EnumerationMode::sound), row.gfx950) << row.set;
    EXPECT_EQ(count("gfx1100", EnumerationMode::sound), row.gfx1100) << row.set;
  }
  // Relu and the like have no signature that reads D tensors, so of eight multi-D kernels two compile.
  EXPECT_EQ(names_of({.arch = "gfx942",
                      .operation = Operation::gemm,
                      .mode = EnumerationMode::sound,
                      .rule_set = "fp16_rcr_multi_d"})
                .size(),
            2u);
}

TEST(Listing, ProfilesFilterWhatTheirReceiptLists) {
  const auto flash = names_of({.arch = "gfx950", .variant = "appendkv", .receipt = "flash_fwd"});
  const auto receipt = names_of({.arch = "gfx950", .variant = "appendkv", .receipt = "2"});
  EXPECT_EQ(receipt.size(), 224u);  // receipts do not reach appendkv
  EXPECT_EQ(flash.size(), 216u);    // the profile takes half types only
  EXPECT_TRUE(names_of({.arch = "gfx950", .variant = "bwd", .receipt = "flash_fwd"}).empty());
  EXPECT_FALSE(names_of({.arch = "gfx950", .variant = "bwd", .receipt = "flash_bwd"}).empty());
}

TEST(Listing, FiltersCombine) {
  const ListStatistics s = statistics_of(
      {.arch = "gfx950", .variant = "fwd", .filters = {"c.hdim_q == 128", "c.pipeline == 'qr_async_trload_v3'"}});
  EXPECT_EQ(s.enumerated, 901020u);
  EXPECT_EQ(s.enumerated, s.listed + s.filtered);
  EXPECT_GT(s.listed, 0u);
}

TEST(Listing, JsonCsvAndNdjsonHoldTheSameKernels) {
  for (const ListRequest& request :
       {ListRequest{.arch = "gfx950", .variant = "appendkv"},
        ListRequest{.arch = "gfx950", .operation = Operation::conv, .rule_set = "tiny"},
        ListRequest{.arch = "gfx1100", .operation = Operation::gemm, .variant = "stream_k", .data_types = {"bf16"}},
        ListRequest{.arch = "x86_64_v3", .data_types = {"fp32"}, .head_dims = {{64, 64}}}}) {
    const std::vector<std::string> names = names_of(request);
    ASSERT_GT(names.size(), 10u);
    std::string joined;
    for (const std::string& name : names) joined += name + "\n";
    EXPECT_EQ(written(request, ListFormat::names), joined);
    EXPECT_EQ(written(request, ListFormat::count), std::to_string(names.size()) + "\n");
    for (const ListFormat format : {ListFormat::json, ListFormat::ndjson}) {
      const std::string text = written(request, format);
      const auto kernels = import_listing("list", text);
      ASSERT_TRUE(kernels.has_value()) << kernels.error().text();
      ASSERT_EQ(kernels->size(), names.size());
      for (std::size_t i = 0; i < names.size(); ++i) ASSERT_EQ(kernel_name((*kernels)[i]), names[i]);
      if (format == ListFormat::json) {
        EXPECT_EQ(nlohmann::json::parse(text).at("statistics").at("listed"), names.size());
      }
    }
    const std::string csv = written(request, ListFormat::csv);
    EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(csv, '\n')), names.size() + 1);
    const std::size_t columns = static_cast<std::size_t>(std::ranges::count(csv.substr(0, csv.find('\n')), ','));
    EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(csv, ',')), columns * (names.size() + 1));
  }
}

TEST(Listing, AnEmptyListIsAWholeDocument) {
  const ListRequest request{.arch = "gfx950", .variant = "appendkv", .filters = {"c.hdim_q == 1"}};
  EXPECT_TRUE(nlohmann::json::parse(written(request, ListFormat::json)).at("kernels").empty());
  EXPECT_EQ(written(request, ListFormat::ndjson), "");
  EXPECT_EQ(written(request, ListFormat::names), "");
}

TEST(Listing, ImportRefusesWhatDoesNotBelongTogether) {
  const std::string line =
      written({.arch = "gfx950", .variant = "appendkv", .filters = {"c.hdim_q == 64 and c.data_type == 'fp8'"}},
              ListFormat::ndjson);
  ASSERT_TRUE(import_listing("list", line).has_value());
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string changed = line;
    changed.replace(changed.find(from), from.size(), to);
    const auto imported = import_listing("list", changed);
    EXPECT_FALSE(imported.has_value()) << to;
    return imported ? std::string() : imported.error().text();
  };
  EXPECT_NE(with("\"head_dim_qk\":64", "\"head_dim_qk\":128").find("the name is"), std::string::npos);
  EXPECT_NE(with("\"wave_groups\":1", "\"wave_groups\":2").find("the key is"), std::string::npos);
  EXPECT_NE(with("\"rope\":\"none\"", "\"rope\":\"nine\"").find("rope"), std::string::npos);
  EXPECT_NE(with("{\"name\"", "[{\"name\"").find("list:1"), std::string::npos);
  EXPECT_FALSE(import_listing("list", "{\"request\":{}}").has_value());
  EXPECT_FALSE(import_listing("list", std::string(200000, '[')).has_value());
}

TEST(Listing, AFailedWriteIsAnError) {
  const auto listing = Listing::prepare({.arch = "gfx950", .variant = "pagedkv"});
  ASSERT_TRUE(listing.has_value());
  std::FILE* full = std::fopen("/dev/full", "w");
  ASSERT_NE(full, nullptr);
  const auto statistics = write_listing(*listing, ListFormat::names, ::fileno(full));
  std::fclose(full);
  ASSERT_FALSE(statistics.has_value());
  EXPECT_EQ(statistics.error().code, ErrorCode::io);
}

TEST(Listing, RequestsThatCannotBeServedSayWhatWouldBe) {
  const auto error_of = [](ListRequest request) {
    const auto listing = Listing::prepare(std::move(request));
    EXPECT_FALSE(listing.has_value());
    return listing ? std::string() : listing.error().text();
  };
  EXPECT_NE(error_of({.arch = "gfx95"}).find("gfx950"), std::string::npos);
  EXPECT_NE(error_of({.arch = "gfx908"}).find("gfx942"), std::string::npos);
  EXPECT_NE(error_of({.arch = "gfx950", .variant = "forward"}).find("attention variant"), std::string::npos);
  EXPECT_NE(error_of({.arch = "gfx950", .receipt = "flash"}).find("flash_fwd"), std::string::npos);
  EXPECT_NE(error_of({.arch = "gfx950", .data_types = {"fp17"}}).find("fp17"), std::string::npos);
  EXPECT_NE(error_of({.arch = "gfx950", .operation = Operation::gemm, .layout = "rcc"}).find("rcr"), std::string::npos);
  EXPECT_NE(error_of({.arch = "gfx950", .operation = Operation::gemm, .rule_set = "fp16_rcr_compte"})
                .find("fp16_rcr_compute"),
            std::string::npos);
  EXPECT_NE(
      error_of({.arch = "gfx950", .operation = Operation::conv, .mode = EnumerationMode::tables}).find("rule-set"),
      std::string::npos);
  EXPECT_NE(error_of({.arch = "gfx950", .filter_files = {"/nonexistent"}}).find("/nonexistent"), std::string::npos);
  EXPECT_NE(error_of({.arch = "gfx950", .operation = Operation::gemm, .sweep_file = "sweep.json"}).find("sweep file"),
            std::string::npos);
  EXPECT_NE(error_of({.arch = "gfx950", .operation = Operation::conv, .receipt = "2"}).find("receipt"),
            std::string::npos);
  EXPECT_NE(error_of({.arch = "gfx950", .rule_set = "tiny"}).find("rule set"), std::string::npos);
  EXPECT_NE(error_of({.arch = "gfx950", .spatial_dims = {2}}).find("spatial"), std::string::npos);
  EXPECT_NE(error_of({.arch = "x86_64_v4", .mode = EnumerationMode::sound}).find("mode sound"), std::string::npos);
  EXPECT_NE(error_of({.arch = "sm_90a", .operation = Operation::conv, .spatial_dims = {4}}).find("spatial dimensions"),
            std::string::npos);
}

// Whose kernels are listed is what was asked for, not which table knows the architecture first.
TEST(Listing, OriginChoosesWhoseKernelsAreListed) {
  const auto origin_of_first = [](const ListRequest& request) {
    const auto listing = Listing::prepare(request);
    EXPECT_TRUE(listing.has_value()) << listing.error().text();
    std::optional<Origin> origin;
    ListStatistics statistics;
    if (listing) {
      EXPECT_TRUE(listing->walk([&](const KernelConfig& config) { return origin = config.origin, false; }, statistics)
                      .has_value());
    }
    return origin;
  };
  for (const Operation operation : {Operation::attention, Operation::gemm, Operation::conv}) {
    EXPECT_EQ(origin_of_first({.arch = "gfx942", .operation = operation}), Origin::ck);
    EXPECT_EQ(origin_of_first({.arch = "gfx942", .operation = operation, .origin = Origin::ck}), Origin::ck);
  }
  for (const char* arch : {"x86_64_v3", "sm_90a"})
    for (const Operation operation : {Operation::attention, Operation::gemm}) {
      EXPECT_EQ(origin_of_first({.arch = arch, .operation = operation}), Origin::own) << arch;
      EXPECT_EQ(origin_of_first({.arch = arch, .operation = operation, .origin = Origin::own}), Origin::own) << arch;
    }
  EXPECT_EQ(origin_of_first({.arch = "x86_64_v3", .operation = Operation::conv}), Origin::own);
  const auto error_of = [](ListRequest request) {
    const auto listing = Listing::prepare(std::move(request));
    EXPECT_FALSE(listing.has_value());
    return listing ? Error{} : listing.error();
  };
  const Error own = error_of({.arch = "gfx908", .origin = Origin::own});
  EXPECT_EQ(own.code, ErrorCode::not_found);
  EXPECT_EQ(own.message, "there are no own kernels for gfx908");
  EXPECT_EQ(own.hint, "origin ck, which gfx908 has");
  EXPECT_EQ(origin_of_first({.arch = "gfx942", .operation = Operation::gemm, .origin = Origin::own}), Origin::own);
  EXPECT_EQ(origin_of_first({.arch = "gfx942", .origin = Origin::own}), Origin::own);
  const Error conv = error_of({.arch = "gfx942", .operation = Operation::conv, .origin = Origin::own});
  EXPECT_EQ(conv.message, "conv kernels are not enumerated for gfx942");
  EXPECT_EQ(conv.hint, "--op attention or gemm, or --origin ck");
  const Error ck = error_of({.arch = "sm_90a", .origin = Origin::ck});
  EXPECT_EQ(ck.message, "there are no instances of Composable Kernel for sm_90a");
  EXPECT_EQ(ck.hint, "origin own, which sm_90a has");
  EXPECT_NE(error_of({.arch = "sm_90", .origin = Origin::own}).hint.find("sm_90a"), std::string::npos);
  EXPECT_FALSE(names_of({.arch = "gfx942", .variant = "appendkv", .filters = {"c.origin == 'ck'"}}).empty());
  EXPECT_TRUE(names_of({.arch = "gfx942", .variant = "appendkv", .filters = {"c.origin == 'own'"}}).empty());
}

// A list that a program with another key format exported: two of its kernels, as it wrote them.
TEST(Listing, ListsOfEarlierVersionsAreRefused) {
  const auto text = read_file(TILESMITH_SOURCE_DIR "/tests/catalog/data/list_v1.ndjson");
  ASSERT_TRUE(text.has_value()) << text.error().text();
  const auto imported = import_listing("list_v1.ndjson", *text);
  ASSERT_FALSE(imported.has_value());
  EXPECT_NE(imported.error().message.find("an earlier version wrote this list"), std::string::npos)
      << imported.error().text();
}

TEST(Explain, ListedInstancesAreListedAndUnlistedOnesAreNot) {
  const char* const listed[] = {
      "fmha_fwd_bf16_batch_h192_qr_async_t192x192x32x192x32x192_w32x32x16_pad1011_mask=no_bias=alibi_lse=1_bpc=-1",
      "fmha_fwd_appendkv_bf16_batch_h160_appendkv_t64x64x160x160x32x128_w32x32x16_pad1111_mask=no_bias=no_pkv=1_rope="
      "interleaved_bpc=-1",
      "fmha_bwd_convert_dq_bf16_group_h96_qr_t64x128x32x128x32x128_w32x32x16_pad1111_mask=no_bias=no_bpc=-1",
      "gemm_fp16_rcr_compv3_cshuffle_intrawave_False_False_False_False_128x128x128_1x1x1_16x16x16",
      "grouped_conv_fwd_bf16_nhwgc_2d_compv1_cshuffle_interwave_128x128x64_2x2x1_16x16x32_vec8_8_1"};
  for (const char* name : listed) {
    const auto explanations = explain(name, "gfx950");
    ASSERT_TRUE(explanations.has_value()) << explanations.error().text();
    EXPECT_TRUE(explanations->front().is_listed()) << explanation_text(explanations->front());
    EXPECT_NE(explanation_text(explanations->front()).find("listed"), std::string::npos);
  }
  const auto refused = explain(
      "fmha_fwd_fp16_batch_h128_qr_async_t128x128x32x128x32x128_w32x32x16_pad1101_mask=no_bias=no_bpc=-1", "gfx942");
  ASSERT_TRUE(refused.has_value());
  EXPECT_FALSE(refused->front().is_listed());
  EXPECT_EQ(refused->front().nearest,
            "fmha_fwd_fp16_batch_h128_qr_async_t128x128x32x128x32x128_w32x32x16_pad1111_mask=no_bias=no_bpc=-1");
  EXPECT_FALSE(nlohmann::json::parse(explanations_json(*refused)).empty());
}

// The verdicts of explain and what the list holds are the same fact.
TEST(Explain, AgreesWithTheList) {
  for (const char* arch : {"gfx942", "gfx1201"})
    for (const char* variant : {"fwd", "splitkv", "pagedkv", "appendkv", "batch_prefill", "bwd"}) {
      const auto listing = Listing::prepare({.arch = arch, .variant = variant});
      ASSERT_TRUE(listing.has_value());
      ListStatistics statistics;
      std::size_t count = 0;
      std::vector<std::string> sample;
      ASSERT_TRUE(listing
                      ->walk(
                          [&](const KernelConfig& c) {
                            if (count++ % (testing::thorough() ? 40009 : 200003) == 0) sample.push_back(kernel_name(c));
                            return true;
                          },
                          statistics)
                      .has_value());
      for (const std::string& name : sample) {
        const auto explanations = explain(name, arch);
        ASSERT_TRUE(explanations.has_value());
        EXPECT_TRUE(explanations->front().is_listed()) << explanation_text(explanations->front());
      }
    }
}

TEST(Explain, BadNamesAndChips) {
  EXPECT_FALSE(explain("fmha_fwd", "gfx950").has_value());
  EXPECT_FALSE(explain("", "gfx950").has_value());
  const auto unknown =
      explain("gemm_fp16_rcr_compv3_cshuffle_intrawave_False_False_False_False_128x128x128_1x1x1_16x16x16", "gfx9500");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_NE(unknown.error().text().find("gfx950"), std::string::npos);
}

}  // namespace
}  // namespace tilesmith
