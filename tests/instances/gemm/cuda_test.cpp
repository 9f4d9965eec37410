// NVIDIA GEMM instances: the list is what the rules accept, every instance is distinct, refusals name their rule and
// figures.
#include "instances/gemm/cuda.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <unordered_set>

#include "catalog/explain.hpp"
#include "catalog/listing.hpp"
#include "choose/gemm/cuda.hpp"
#include "instances/gemm/cuda_rows.hpp"
#include "vocabulary/data_type.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

const CudaSpec& arch(std::string_view name) {
  static const std::vector<CudaSpec> specs = load_cuda_specs().value();
  for (const CudaSpec& spec : specs)
    if (spec.arch.text() == name) return spec;
  throw std::runtime_error("no such architecture");
}

GemmSignature signature_of(DataType type, DataType result) {
  GemmSignature s;
  s.a = s.b = type;
  s.c = s.aux = result;
  s.bias = DataType::fp32;
  s.accumulator = type == DataType::int8 ? DataType::int32 : DataType::fp32;
  return s;
}
GemmSignature bf16() {
  return signature_of(DataType::bf16, DataType::bf16);
}
/// As listings have it: the type of a bias that is not there is the default.
GemmSignature bf16_listed() {
  GemmSignature s = bf16();
  s.bias = GemmSignature{}.bias;
  return s;
}

TEST(CudaGemm, EveryInstanceIsDistinctItsNameParsesAndItIsAccepted) {
  for (const char* name : {"sm_80", "sm_89", "sm_90a"}) {
    std::unordered_set<std::string> names;
    enumerate_cuda_gemm(arch(name), "", [&](const KernelConfig& config) {
      const std::string text = native_name(config);
      EXPECT_TRUE(names.insert(text).second) << text;
      if (names.size() % 17 != 0) return true;
      const auto parsed = parse_native_name(text);
      EXPECT_TRUE(parsed.has_value() && *parsed == config) << text;
      EXPECT_EQ(first_refusal(cuda_gemm_rules(), CudaGemmSubject{config, arch(name)}), nullptr) << text;
      return true;
    });
    EXPECT_GT(names.size(), 1000u) << name;
  }
}

TEST(CudaGemm, RowsThatLeaveStagesOpenHaveAsManyAsFit) {
  std::vector<GemmSignature> signatures{bf16(), signature_of(DataType::fp8, DataType::bf16),
                                        signature_of(DataType::int8, DataType::int8),
                                        signature_of(DataType::tf32, DataType::fp32), bf16()};
  signatures.back().epilogue_ops = {EpilogueOp::bias, EpilogueOp::add};
  signatures.back().layout_a = MatrixOrder::column;
  GemmSignature weights = bf16();
  weights.b = DataType::int4;
  weights.scale = DataType::bf16;
  signatures.push_back(weights);
  for (const char* name : {"sm_80", "sm_90a"}) {
    int seen = 0;
    for (const GemmSignature& signature : signatures)
      enumerate_cuda_gemm(arch(name), signature, [&](KernelConfig config) {
        const CudaGemmTile* row = row_of(config, arch(name));
        const int given = config.algorithm.stages;
        if (row == nullptr || row->stages > 0) return true;
        ++seen;
        const Pipeline pipeline = config.algorithm.pipeline;
        const int limit = pipeline == Pipeline::warp_specialized || pipeline == Pipeline::weight_only ? 12 : 39;
        int most = 0;
        for (int stages = 2; stages <= limit; ++stages) {
          config.algorithm.stages = static_cast<std::uint8_t>(stages);
          if (first_refusal(cuda_gemm_rules(), CudaGemmSubject{config, arch(name)}) == nullptr) most = stages;
          const CudaGemmResources facts = cuda_gemm_resources(config);
          const long ring = facts.slabs_in_ring ? facts.slab_bytes : 0;
          config.algorithm.stages = 2;
          EXPECT_EQ(facts.shared_bytes + ring,
                    cuda_gemm_resources(config).shared_bytes + (stages - 2) * facts.stage_bytes)
              << native_name(config);
          CudaGemmResources changed = facts;
          change_stages(config, changed);
          const CudaGemmResources fewest = cuda_gemm_resources(config);
          EXPECT_EQ(changed.shared_bytes, fewest.shared_bytes) << native_name(config) << " from stages " << stages;
          EXPECT_EQ(changed.slabs_in_ring, fewest.slabs_in_ring) << native_name(config) << " from stages " << stages;
        }
        EXPECT_EQ(given, most) << native_name(config);
        return true;
      });
    EXPECT_GT(seen, 0) << name;
  }
}

TEST(CudaGemm, StopsWhenTheSinkHasEnough) {
  int calls = 0;
  enumerate_cuda_gemm(arch("sm_90a"), "rcr", [&](const KernelConfig&) { return ++calls < 5; });
  EXPECT_EQ(calls, 5);
}

TEST(CudaGemm, ListingsHaveTheTypesAndLayoutAskedFor) {
  const Listing listing =
      Listing::prepare({.arch = "sm_90a", .operation = Operation::gemm, .layout = "rcr", .data_types = {"fp8"}})
          .value();
  ListStatistics statistics;
  ASSERT_TRUE(listing.walk(
      [](const KernelConfig& config) {
        const auto& s = std::get<GemmSignature>(config.signature);
        EXPECT_EQ(s.a, DataType::fp8);
        EXPECT_EQ(s.layout_b, MatrixOrder::column);
        return true;
      },
      statistics));
  EXPECT_GT(statistics.listed, 100u);
  const auto refused = Listing::prepare({.arch = "sm_90a", .operation = Operation::gemm, .layout = "rcc"});
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().hint.find("ccr"), std::string::npos);
}

std::vector<KernelConfig> listed(ListRequest request) {
  request.operation = Operation::gemm;
  const auto listing = Listing::prepare(request);
  EXPECT_TRUE(listing.has_value()) << listing.error().text();
  std::vector<KernelConfig> configs;
  ListStatistics statistics;
  if (!listing) return configs;
  EXPECT_TRUE(listing->walk([&](const KernelConfig& config) { return configs.push_back(config), true; }, statistics));
  return configs;
}

const GemmSignature& gemm_of(const KernelConfig& config) {
  return std::get<GemmSignature>(config.signature);
}

TEST(CudaGemm, VariantsAreListedWhereAskedFor) {
  const auto of = [](const char* variant) { return listed({.arch = "sm_90a", .variant = variant}); };
  const auto all_have = [](const std::vector<KernelConfig>& configs, auto what) {
    EXPECT_FALSE(configs.empty());
    EXPECT_TRUE(std::ranges::all_of(configs, [&](const KernelConfig& config) { return what(gemm_of(config)); }));
  };
  const std::vector<KernelConfig> plain = of("standard");
  EXPECT_EQ(plain.size(), of("").size());
  std::size_t sum = plain.size();
  const auto check = [&](const char* variant, auto what) {
    const std::vector<KernelConfig> configs = of(variant);
    sum += configs.size();
    all_have(configs, what);
    for (const KernelConfig& config : configs)
      ASSERT_EQ(first_refusal(cuda_gemm_rules(), CudaGemmSubject{config, arch("sm_90a")}), nullptr);
  };
  check("fp8_bf8", [](const GemmSignature& s) { return s.a != s.b && bits_of(s.b) == 8; });
  check("m_grouped", [](const GemmSignature& s) { return s.grouping != GemmGrouping::none; });
  check("blockscale", [](const GemmSignature& s) { return s.qscale == QuantScale::blockscale; });
  check("weights", [](const GemmSignature& s) { return bits_of(s.a) == 16 && bits_of(s.b) <= 8; });
  check("mm_plus_mm", [](const GemmSignature& s) { return s.mm_plus_mm; });
  std::unordered_set<std::string> names;
  for (const KernelConfig& config : of("all")) EXPECT_TRUE(names.insert(native_name(config)).second);
  EXPECT_EQ(names.size(), sum);
  const auto unknown = Listing::prepare({.arch = "sm_90a", .operation = Operation::gemm, .variant = "splitkv"});
  ASSERT_FALSE(unknown.has_value());
  EXPECT_NE(unknown.error().hint.find("all"), std::string::npos) << unknown.error().text();
}

TEST(CudaGemm, SizesListWhatDispatchChoosesFromInItsOrder) {
  const GemmSizes sizes{300, 320, 32};
  const std::vector<KernelConfig> configs = listed({.arch = "sm_90a", .data_types = {"bf16"}, .sizes = sizes});
  std::vector<KernelConfig> of_plain;
  for (const KernelConfig& config : configs)
    if (gemm_of(config) == bf16_listed()) of_plain.push_back(config);
  const auto ranked = ranked_cuda_gemm(arch("sm_90a"), bf16_listed(), {300, 320, 32});
  ASSERT_FALSE(of_plain.empty());
  EXPECT_EQ(of_plain.front(), ranked.front().recipe.main());
  for (const KernelConfig& config : configs) {
    EXPECT_TRUE(cuda_gemm_suits(config, {300, 320, 32}));
    EXPECT_FALSE(config.algorithm.split_k) << "one step of k is nothing to share";
  }
  EXPECT_FALSE(Listing::prepare({.arch = "sm_90a", .operation = Operation::gemm, .sizes = GemmSizes{0, 1, 1}}));
  EXPECT_FALSE(Listing::prepare({.arch = "x86_64_v4", .operation = Operation::gemm, .sizes = sizes}));
  EXPECT_FALSE(Listing::prepare({.arch = "sm_90a", .sizes = sizes}));
}

KernelConfig hopper_config() {
  KernelConfig config{.arch = arch("sm_90a").arch, .signature = bf16(), .algorithm = {}};
  config.algorithm = {.pipeline = Pipeline::warp_specialized,
                      .instruction = Instruction::wgmma,
                      .tile = {128, 256, 64},
                      .wave = {2},
                      .stages = 4,
                      .block_per_cu = 1,
                      .vector = {8, 8, 8}};
  return config;
}
KernelConfig stream_config() {
  KernelConfig config = hopper_config();
  config.algorithm = {.pipeline = Pipeline::skinny_tma,
                      .instruction = Instruction::mma_sync,
                      .tile = {16, 32, 256},
                      .wave = {1, 1, 4},
                      .stages = 8,
                      .block_per_cu = 1,
                      .vector = {8, 8, 2}};
  return config;
}
KernelConfig wgmma_stream_config() {
  KernelConfig config = stream_config();
  config.algorithm.instruction = Instruction::wgmma;
  config.algorithm.tile = {16, 128, 128};
  config.algorithm.wave = {1, 1, 8};
  config.algorithm.stages = 4;
  return config;
}
KernelConfig portable_config() {
  KernelConfig config = hopper_config();
  config.algorithm = {.pipeline = Pipeline::mma_sm80,
                      .instruction = Instruction::mma_sync,
                      .tile = {128, 128, 32},
                      .wave = {2, 2},
                      .stages = 3,
                      .block_per_cu = 2,
                      .vector = {8, 8, 2}};
  return config;
}
KernelConfig skinny_config() {
  KernelConfig config = stream_config();
  config.arch = arch("sm_80").arch;
  config.algorithm.pipeline = Pipeline::skinny;
  config.algorithm.tile = {16, 32, 32};
  config.algorithm.stages = 4;
  return config;
}

TEST(CudaGemm, EachRuleRefusesWhatItIsThereFor) {
  std::set<std::string> seen;
  const auto refusing_rule = [](const KernelConfig& config) {
    const auto* rule = first_refusal(cuda_gemm_rules(), CudaGemmSubject{config, arch(config.arch.text())});
    return rule == nullptr ? std::string() : std::string(rule->name);
  };
  const auto check = [&](const KernelConfig& base, const std::string& rule, auto change) {
    EXPECT_EQ(refusing_rule(base), "");
    KernelConfig config = base;
    change(std::get<GemmSignature>(config.signature), config.algorithm);
    EXPECT_EQ(refusing_rule(config), rule) << native_name(config);
    seen.insert(rule);
  };
  using S = GemmSignature;
  using A = Algorithm;
  const KernelConfig hopper = hopper_config(), stream = stream_config(), portable = portable_config();
  check(hopper, "family_is_carried", [](S& s, A&) { s.family = GemmFamily::stream_k; });
  check(hopper, "family_is_carried", [](S& s, A&) { s.layout_c = MatrixOrder::column; });
  check(hopper, "pipeline_is_offered", [](S&, A& a) { a.instruction = Instruction::mma_sync; });
  check(hopper, "pipeline_is_offered", [](S& s, A&) { s.a = s.b = DataType::fp32; });
  check(skinny_config(), "pipeline_is_offered", [](S& s, A&) { s.a = s.b = DataType::fp8; });
  check(hopper, "types_are_carried", [](S& s, A&) { s.b = DataType::fp16; });
  check(hopper, "types_are_carried", [](S& s, A&) { s.c = DataType::int32; });
  check(hopper, "types_are_carried", [](S& s, A&) { s.accumulator = DataType::int32; });
  check(hopper, "types_are_carried", [](S& s, A&) { s.bias = DataType::fp8; });
  KernelConfig ada = skinny_config();
  ada.arch = arch("sm_89").arch;
  std::get<S>(ada.signature) = signature_of(DataType::fp8, DataType::bf16);
  ada.algorithm.tile[2] = 64;
  ada.algorithm.vector = {16, 16, 2};
  check(ada, "one_type_by_elements", [](S& s, A&) { s.b = DataType::bf8; });
  check(hopper, "scales_are_carried", [](S& s, A&) { s.qscale = QuantScale::blockscale; });
  check(hopper, "scales_are_carried", [](S& s, A&) { s.scale = DataType::fp32; });
  check(hopper, "scales_are_carried", [](S& s, A&) { s.zero_points = true; });
  check(portable, "scales_are_carried",
        [](S& s, A&) { s.b = DataType::int4, s.scale = DataType::fp32, s.layout_b = MatrixOrder::row; });
  check(stream, "groups_are_carried", [](S& s, A&) { s.grouping = GemmGrouping::masked; });
  check(skinny_config(), "second_product_is_carried", [](S& s, A&) { s.mm_plus_mm = true; });
  check(hopper, "second_product_is_carried", [](S& s, A&) { s.mm_plus_mm = true, s.grouping = GemmGrouping::masked; });
  check(hopper, "groups_are_carried", [](S& s, A& a) { s.grouping = GemmGrouping::masked, a.split_k = true; });
  check(hopper, "lists_are_carried", [](S& s, A&) { s.family = GemmFamily::grouped_gemm; });
  check(portable, "lists_are_carried",
        [](S& s, A&) { s.family = GemmFamily::grouped_gemm, s.grouping = GemmGrouping::masked; });
  check(hopper, "epilogue_is_carried", [](S& s, A&) { s.epilogue_ops = {EpilogueOp::amax, EpilogueOp::relu}; });
  check(portable, "epilogue_is_carried", [](S& s, A&) { s.epilogue_ops = {EpilogueOp::swiglu, EpilogueOp::reglu}; });
  check(stream, "layout_is_carried", [](S& s, A&) { s.layout_a = MatrixOrder::column; });
  KernelConfig turned = hopper;  // rrr in 8 bits: B is transposed in squares of 128
  std::get<S>(turned.signature) = signature_of(DataType::fp8, DataType::bf16);
  std::get<S>(turned.signature).layout_b = MatrixOrder::row;
  turned.algorithm.tile[2] = 128;
  turned.algorithm.vector = {16, 16, 8};
  check(turned, "layout_is_carried", [](S&, A& a) { a.tile[1] = 192; });
  check(turned, "layout_is_carried",
        [](S& s, A& a) { s.layout_a = MatrixOrder::column, a.tile[0] = 192, a.wave[0] = 3; });
  check(turned, "layout_is_carried", [](S&, A& a) { a.stream_k = true; });
  check(turned, "cluster_has_equal_shares", [](S&, A& a) { a.cluster = {4, 1}; });
  check(hopper, "cluster_has_equal_shares", [](S&, A& a) { a.cluster = {1, 3}; });
  check(hopper, "tile_is_whole", [](S&, A& a) { a.tile[0] = 96; });
  check(hopper, "tile_is_whole", [](S&, A& a) { a.tile[1] = 264; });
  check(hopper, "tile_is_whole", [](S&, A& a) { a.wave[0] = 3, a.ping_pong = true; });
  check(stream, "tile_is_whole", [](S&, A& a) { a.tile[0] = 72; });
  check(wgmma_stream_config(), "tile_is_whole", [](S&, A& a) { a.tile[1] = 64; });
  check(wgmma_stream_config(), "tile_is_whole", [](S&, A& a) { a.tile[0] = 40; });
  check(wgmma_stream_config(), "tile_is_whole", [](S&, A& a) { a.wave[2] = 6; });
  check(portable, "tile_is_whole", [](S&, A& a) { a.wave[1] = 3; });
  check(hopper, "stage_is_whole", [](S&, A& a) { a.tile[2] = 32; });
  check(stream, "stage_is_whole", [](S&, A& a) { a.wave[2] = 3; });
  check(hopper, "fields_belong_to_pipeline", [](S&, A& a) { a.stages = 1; });
  check(hopper, "fields_belong_to_pipeline", [](S&, A& a) { a.q_stages = 2; });
  check(hopper, "fields_belong_to_pipeline", [](S&, A& a) { a.split_k_atomic = true; });
  check(portable, "fields_belong_to_pipeline", [](S&, A& a) { a.cluster = {2, 1}; });
  check(portable, "fields_belong_to_pipeline", [](S&, A& a) { a.stream_k = true; });
  check(hopper, "fields_belong_to_pipeline", [](S&, A& a) { a.stream_k = a.split_k = true; });
  check(hopper, "fields_belong_to_pipeline", [](S&, A& a) { a.stream_k = true, a.cluster = {2, 1}; });
  KernelConfig by_rows = hopper;  // two warpgroups that share a transposed tile's rows
  by_rows.algorithm.tile = {208, 192, 64};
  by_rows.algorithm.wave = {2};
  by_rows.algorithm.stages = 4;
  by_rows.algorithm.transpose_c = true;
  check(by_rows, "layout_is_carried", [](S& s, A&) { s.layout_a = MatrixOrder::column; });
  check(by_rows, "tile_is_whole", [](S&, A& a) { a.tile[0] = 216; });
  check(by_rows, "tile_is_whole", [](S&, A& a) { a.tile[0] = 144; });
  check(by_rows, "fields_belong_to_pipeline", [](S&, A& a) { a.split_k = true; });
  check(by_rows, "fields_belong_to_pipeline", [](S&, A& a) { a.cluster_k = 2; });
  check(by_rows, "fields_belong_to_pipeline", [](S&, A& a) { a.stream_k = true; });
  check(by_rows, "registers_hold_sums", [](S& s, A&) { s.epilogue_ops = {EpilogueOp::bias}; });
  KernelConfig exchanging = hopper;  // a cluster that shares a tile by k
  exchanging.algorithm.tile = {64, 64, 64};
  exchanging.algorithm.wave = {1};
  exchanging.algorithm.cluster_k = 4;
  KernelConfig turned_share = exchanging;
  turned_share.algorithm.transpose_c = true;
  turned_share.algorithm.tile[0] = 192;
  check(portable, "fields_belong_to_pipeline", [](S&, A& a) { a.cluster_k = 2; });
  check(exchanging, "fields_belong_to_pipeline", [](S&, A& a) { a.cluster = {2, 1}; });
  check(exchanging, "fields_belong_to_pipeline", [](S&, A& a) { a.split_k = a.split_k_atomic = true; });
  check(turned_share, "fields_belong_to_pipeline", [](S&, A& a) { a.split_k = true, a.tile[0] = 80; });
  check(exchanging, "fields_belong_to_pipeline", [](S&, A& a) { a.stream_k = true; });
  check(exchanging, "fields_belong_to_pipeline", [](S&, A& a) { a.tile[0] = 128, a.wave[0] = 2, a.ping_pong = true; });
  check(exchanging, "groups_are_carried", [](S& s, A&) { s.grouping = GemmGrouping::masked; });
  check(exchanging, "cluster_has_equal_shares", [](S&, A& a) { a.cluster_k = 3; });
  check(turned_share, "cluster_has_equal_shares", [](S&, A& a) { a.tile[0] = 32, a.cluster_k = 5; });
  check(exchanging, "cluster_has_equal_shares", [](S&, A& a) { a.tile[1] = 256, a.cluster_k = 16; });
  check(exchanging, "cluster_has_equal_shares", [](S&, A& a) { a.tile[1] = 96; });
  check(turned_share, "accesses_are_carried", [](S&, A& a) { a.tile[0] = 184; });
  check(turned_share, "accesses_are_carried", [](S&, A& a) { a.tile[0] = 128; });
  check(exchanging, "shared_memory_fits", [](S&, A& a) { a.stages = 14; });
  check(hopper, "accesses_are_carried", [](S&, A& a) { a.vector = {1, 1, 1}; });
  check(portable, "accesses_are_carried", [](S&, A& a) { a.vector = {8, 8, 8}; });
  check(hopper, "cluster_has_equal_shares", [](S& s, A& a) {
    s.layout_b = MatrixOrder::row;
    a.tile[1] = 96;
    a.cluster = {2, 1};
  });
  check(hopper, "gated_slab_is_copied", [](S& s, A& a) {
    s.epilogue_ops = {EpilogueOp::swiglu};
    a.tile[1] = 112;
  });
  check(portable, "threads_fit", [](S&, A& a) { a.wave = {8, 4}, a.block_per_cu = 3; });
  check(hopper, "shared_memory_fits", [](S&, A& a) { a.stages = 5; });
  check(portable, "shared_memory_fits", [](S&, A& a) { a.stages = 5; });
  check(hopper, "registers_hold_sums", [](S&, A& a) { a.tile = {256, 208, 64}, a.stages = 2; });
  KernelConfig wide = hopper;
  wide.algorithm.tile = {256, 176, 64}, wide.algorithm.cluster = {1, 2};
  check(wide, "registers_hold_sums", [](S&, A& a) { a.split_k = true; });
  const auto joined = [](S& s, A& a) {
    s = signature_of(DataType::int8, DataType::int32);
    s.epilogue_ops = {EpilogueOp::add};
    s.aux = DataType::int32;
    a.stages = 3, a.split_k = true, a.vector = {16, 16, 4};
  };
  check(hopper, "registers_hold_sums", [&](S& s, A& a) { joined(s, a), a.tile = {192, 192, 128}, a.wave = {3}; });
  check(hopper, "registers_hold_sums", [](S&, A& a) {
    a.tile = {192, 192, 64}, a.wave = {3}, a.stages = 3, a.split_k = true;
  });
  check(hopper, "registers_hold_sums", [](S& s, A& a) {
    s.epilogue_ops = {EpilogueOp::silu};
    a.tile = {200, 192, 64}, a.wave = {3}, a.stages = 3, a.transpose_c = true;
  });
  check(hopper, "registers_hold_sums", [&](S& s, A& a) {
    joined(s, a), a.tile = {64, 128, 128}, a.wave = {1}, a.cluster = {2, 1};
  });
  check(stream, "registers_hold_sums", [](S& s, A& a) {
    s.a = s.b = DataType::fp8;
    a.tile = {24, 80, 256}, a.wave = {1, 1, 8}, a.stages = 4, a.vector = {16, 16, 2};
  });
  check(portable, "registers_hold_sums", [](S&, A& a) { a.wave = {2, 1}; });
  check(portable, "registers_hold_sums", [](S& s, A& a) {
    s.a = s.b = DataType::fp8;
    s.mm_plus_mm = true;
    a.tile[2] = 64;
    a.vector = {16, 16, 2};
  });
  for (const auto& rule : cuda_gemm_rules()) EXPECT_TRUE(seen.contains(std::string(rule.name))) << rule.name;
}

TEST(CudaGemm, ThePartsOfTheRulesLookAtNoMoreThanTheySay) {
  const CudaSpec& spec = arch("sm_90a");
  const CudaGemmRules all = cuda_gemm_rules(),
                      parts[] = {cuda_gemm_signature_rules(), cuda_gemm_tile_rules(), cuda_gemm_access_rules()};
  const auto* next = all.data();
  for (const CudaGemmRules part : parts) {
    EXPECT_FALSE(part.empty());
    EXPECT_EQ(part.data(), next);
    next += part.size();
  }
  EXPECT_EQ(next, all.data() + all.size());
  const auto refusal = [&](CudaGemmRules rules, const KernelConfig& config) {
    const auto* rule = first_refusal(rules, CudaGemmSubject{config, spec});
    return rule == nullptr ? std::string() : std::string(rule->name);
  };
  int tiles = 0, refused = 0;
  for (const char* variant : {"standard", "blockscale", "weights", "mm_plus_mm"})
    for (const KernelConfig& one : listed({.arch = "sm_90a", .variant = variant, .layout = "all"})) {
      if (++tiles % 211 != 0) continue;
      KernelConfig bare = one;  // what enumerations ask of a pipeline before they have a tile
      bare.algorithm = {.pipeline = one.algorithm.pipeline, .instruction = one.algorithm.instruction};
      EXPECT_EQ(refusal(cuda_gemm_signature_rules(), bare), "") << native_name(one);
      for (const int columns : {16, 48, 64, 192, 256}) {
        KernelConfig config = one;
        config.algorithm.tile[1] = static_cast<std::uint16_t>(columns);
        const std::string verdict = refusal(cuda_gemm_tile_rules(), config);
        refused += verdict.empty() ? 0 : 1;
        for (const int stages : {2, 3, 39})
          for (const int elements : {1, 2, 8, 16}) {
            const auto width = static_cast<std::uint8_t>(elements);
            config.algorithm.stages = static_cast<std::uint8_t>(stages);
            config.algorithm.vector = {width, width, width};
            EXPECT_EQ(refusal(cuda_gemm_tile_rules(), config), verdict) << native_name(config);
          }
      }
      const CudaGemmRules by_stages = cuda_gemm_stage_rules();
      const CudaGemmRules others = cuda_gemm_access_rules().first(cuda_gemm_access_rules().size() - by_stages.size());
      EXPECT_EQ(by_stages.data(), others.data() + others.size());
      for (const CudaGemmWidths& widths :
           cuda_gemm_widths(std::get<GemmSignature>(one.signature), one.algorithm.pipeline)) {
        KernelConfig config = one;
        config.algorithm.vector = widths;
        const std::string verdict = refusal(others, config);
        for (const int stages : {2, 3, 39}) {
          config.algorithm.stages = static_cast<std::uint8_t>(stages);
          EXPECT_EQ(refusal(others, config), verdict) << native_name(config);
        }
      }
    }
  EXPECT_GT(refused, 100);
}

TEST(CudaGemm, ResultsOf4BitsAreRefusedWithoutADivisionByZero) {
  KernelConfig config = hopper_config();
  config.algorithm.transpose_c = true;
  std::get<GemmSignature>(config.signature).c = DataType::int4;
  const auto explained = explain(native_name(config), "");
  ASSERT_TRUE(explained.has_value()) << explained.error().text();
  const std::string text = explanation_text(explained->front());
  EXPECT_NE(text.find("REFUSE types_are_carried"), std::string::npos) << text;
}

TEST(CudaGemm, ExplanationsNameTheRuleAndTheNearest) {
  KernelConfig config = hopper_config();
  config.algorithm.stages = 9;
  const auto explained = explain(native_name(config), "");
  ASSERT_TRUE(explained.has_value()) << explained.error().text();
  ASSERT_EQ(explained->size(), 1u);
  EXPECT_FALSE(explained->front().is_listed());
  const std::string text = explanation_text(explained->front());
  EXPECT_NE(text.find("REFUSE shared_memory_fits"), std::string::npos) << text;
  ASSERT_TRUE(explained->front().nearest.has_value());
  EXPECT_EQ(*explained->front().nearest, native_name(hopper_config()));
}

}  // namespace
}  // namespace tilesmith
