// NVIDIA GEMM instances: the list is what the rules accept, every instance is distinct, refusals name their rule and
// figures, and the tile table decides what runs first.
#include "instances/gemm/cuda.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <unordered_set>

#include "catalog/explain.hpp"
#include "catalog/listing.hpp"
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
  EXPECT_EQ(of_plain.front(), ranked.front().config);
  for (const KernelConfig& config : configs) {
    EXPECT_TRUE(cuda_gemm_suits(config, {300, 320, 32}));
    EXPECT_FALSE(config.algorithm.split_k) << "one step of k is nothing to share";
  }
  EXPECT_FALSE(Listing::prepare({.arch = "sm_90a", .operation = Operation::gemm, .sizes = GemmSizes{0, 1, 1}}));
  EXPECT_FALSE(Listing::prepare({.arch = "x86_64_v4", .operation = Operation::gemm, .sizes = sizes}));
  EXPECT_FALSE(Listing::prepare({.arch = "sm_90a", .sizes = sizes}));
}

TEST(CudaGemm, TheWholeSpaceIsDistinctAcceptedAndClamped) {
  const auto space = [](const CudaGemmShape* shape) {
    std::vector<KernelConfig> configs;
    exhaustive_cuda_gemm(arch("sm_90a"), bf16(), shape,
                         [&](const KernelConfig& config) { return configs.push_back(config), true; });
    return configs;
  };
  const std::vector<KernelConfig> all = space(nullptr);
  EXPECT_GT(all.size(), 2000u);
  std::unordered_set<std::string> names;
  for (const KernelConfig& config : all) {
    EXPECT_TRUE(names.insert(native_name(config)).second) << native_name(config);
    ASSERT_EQ(first_refusal(cuda_gemm_rules(), CudaGemmSubject{config, arch("sm_90a")}), nullptr);
  }
  // The table's tiles of powers of two are in it, but for those that ask for a promise.
  enumerate_cuda_gemm(arch("sm_90a"), bf16(), [&](const KernelConfig& config) {
    const auto power = [](int v) { return (v & (v - 1)) == 0; };
    const Algorithm& a = config.algorithm;
    if (power(a.tile[1]) && power(a.tile[2]) && a.tile[2] <= 256 && a.stages <= 12 && !a.prefetch_weights) {
      EXPECT_TRUE(names.contains(native_name(config))) << native_name(config);
    }
    return true;
  });
  const CudaGemmShape small{100, 20, 32};
  const std::vector<KernelConfig> clamped = space(&small);
  EXPECT_LT(clamped.size(), all.size() / 4);
  EXPECT_FALSE(clamped.empty());
  for (const KernelConfig& config : clamped) {
    EXPECT_LE(config.algorithm.tile[0], 128);
    EXPECT_LE(config.algorithm.tile[1], 32);
    EXPECT_FALSE(config.algorithm.split_k);
  }
  int calls = 0;
  exhaustive_cuda_gemm(arch("sm_90a"), bf16(), nullptr, [&](const KernelConfig&) { return ++calls < 5; });
  EXPECT_EQ(calls, 5);
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
  check(turned, "cluster_loads_whole_patterns", [](S&, A& a) { a.cluster = {4, 1}; });
  check(hopper, "tile_is_whole", [](S&, A& a) { a.tile[0] = 96; });
  check(hopper, "tile_is_whole", [](S&, A& a) { a.tile[1] = 264; });
  check(hopper, "tile_is_whole", [](S&, A& a) { a.wave[0] = 3, a.ping_pong = true; });
  check(stream, "tile_is_whole", [](S&, A& a) { a.tile[0] = 32; });
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
  check(hopper, "accesses_are_carried", [](S&, A& a) { a.vector = {1, 1, 1}; });
  check(portable, "accesses_are_carried", [](S&, A& a) { a.vector = {8, 8, 8}; });
  check(hopper, "cluster_loads_whole_patterns", [](S& s, A& a) {
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
    }
  EXPECT_GT(refused, 100);
}

GemmSignature weights_signature(DataType weights, DataType scale = DataType::bf16) {
  GemmSignature s = signature_of(DataType::bf16, DataType::bf16);
  s.b = weights;
  s.scale = scale;
  return s;
}

TEST(CudaGemm, WeightsGoToMmaKernelsOfEveryArchitecture) {
  for (const char* name : {"sm_80", "sm_89", "sm_90a"})
    for (const DataType weights : {DataType::int8, DataType::int4})
      for (const DataType scale : {DataType::bf16, DataType::fp32}) {
        const GemmSignature signature = weights_signature(weights, scale);
        const auto few = ranked_cuda_gemm(arch(name), signature, {16, 4096, 4096});
        ASSERT_FALSE(few.empty());
        EXPECT_EQ(few.front().config.algorithm.pipeline, Pipeline::skinny) << native_name(few.front().config);
        EXPECT_EQ(few.front().config.algorithm.tile[2], weights == DataType::int4 ? 128 : 64);
        const auto many = ranked_cuda_gemm(arch(name), signature, {512, 4096, 4096});
        ASSERT_FALSE(many.empty());
        EXPECT_EQ(many.front().config.algorithm.pipeline,
                  name == std::string_view("sm_90a") ? Pipeline::weight_only : Pipeline::mma_sm80);
        // Rows of whole 16 bytes of weights: 32 of int4.
        const auto odd = ranked_cuda_gemm(arch(name), signature, {16, 4096, 4088});
        ASSERT_FALSE(odd.empty());
        EXPECT_EQ(odd.front().config.algorithm.pipeline,
                  name == std::string_view("sm_90a") ? Pipeline::weight_only : Pipeline::mma_sm80);
      }
}

TEST(CudaGemm, OnHopperPlainProductsOfFewRowsStayWithTheCopyEngine) {
  for (const RankedCudaGemm& one :
       ranked_cuda_gemm(arch("sm_90a"), signature_of(DataType::bf16, DataType::bf16), {16, 4096, 4096}))
    EXPECT_NE(one.config.algorithm.pipeline, Pipeline::skinny);
}

TEST(CudaGemm, OnlyAConstantBIsReadEarly) {
  CudaGemmShape shape{16, 4096, 4096};
  const RankedCudaGemm plain = ranked_cuda_gemm(arch("sm_90a"), bf16(), shape).front();
  EXPECT_FALSE(plain.config.algorithm.prefetch_weights);
  shape.prefetch_weights = true;
  const RankedCudaGemm early = ranked_cuda_gemm(arch("sm_90a"), bf16(), shape).front();
  KernelConfig same = plain.config;
  same.algorithm.prefetch_weights = true;
  EXPECT_EQ(early.config, same);
  EXPECT_EQ(early.seconds, plain.seconds);
  EXPECT_TRUE(cuda_gemm_suits(plain.config, shape)) << "a promise need not be used";
  shape.prefetch_weights = false;
  EXPECT_FALSE(cuda_gemm_suits(early.config, shape));
  KernelConfig hopper = hopper_config();
  hopper.algorithm.prefetch_weights = true;
  EXPECT_NE(first_refusal(cuda_gemm_rules(), CudaGemmSubject{hopper, arch("sm_90a")}), nullptr);
}

TEST(CudaGemm, BlockScalesTakeTilesWhoseColumnsDivide128) {
  GemmSignature signature = signature_of(DataType::fp8, DataType::bf16);
  signature.qscale = QuantScale::blockscale;
  const auto ranked = ranked_cuda_gemm(arch("sm_90a"), signature, {4096, 4096, 4096});
  ASSERT_FALSE(ranked.empty());
  EXPECT_EQ(ranked.front().config.algorithm.pipeline, Pipeline::warp_specialized);
  EXPECT_EQ(ranked.front().config.algorithm.tile[0], 128);
  for (const RankedCudaGemm& one : ranked) EXPECT_EQ(128 % one.config.algorithm.tile[1], 0);
}

TEST(CudaGemm, GroupsHaveRoomForTheTilesOfAnyRows) {
  GemmSignature signature = signature_of(DataType::bf16, DataType::bf16);
  signature.grouping = GemmGrouping::contiguous;
  for (const std::int64_t rows_of_all : {1, 3, 6, 1000}) {
    CudaGemmShape shape{rows_of_all, 256, 64, 6};
    shape.grouping = GemmGrouping::contiguous;
    const auto ranked = ranked_cuda_gemm(arch("sm_90a"), signature, shape);
    ASSERT_FALSE(ranked.empty());
    for (const RankedCudaGemm& one : ranked) {
      const int m = one.config.algorithm.tile[0], n = one.config.algorithm.tile[1];
      // The worst rows: one more than whole tiles in five groups, the rest in the last.
      std::int64_t tiles = 0, left = shape.m;
      for (int g = 0; g < 6; ++g) {
        const std::int64_t rows = g == 5 ? left : std::min<std::int64_t>(left, 1);
        tiles += (rows + m - 1) / m;
        left -= rows;
      }
      EXPECT_GE(cuda_gemm_tiles(one.config, shape), tiles * ((shape.n + n - 1) / n))
          << native_name(one.config) << " " << rows_of_all;
    }
  }
}

/// "tile m x n, pipeline" of the first.
std::string first(const GemmSignature& signature, CudaGemmShape shape, std::string_view on = "sm_90a") {
  const auto ranked = ranked_cuda_gemm(arch(on), signature, shape);
  if (ranked.empty()) return "none";
  const Algorithm& a = ranked.front().config.algorithm;
  return std::string(name_of(a.pipeline)) + " " + std::to_string(a.tile[0]) + "x" + std::to_string(a.tile[1]) + " s" +
         std::to_string(a.stages) + (a.ping_pong ? " pp" : "") + (a.split_k ? " split" : "");
}

TEST(CudaGemm, TheTileTableChooses) {
  // What the measured table of the templates' documentation ran, bf16.
  EXPECT_EQ(first(bf16(), {512, 512, 512}), "warpspec 64x32 s12");
  EXPECT_EQ(first(bf16(), {1024, 1024, 1024}), "warpspec 64x128 s8");
  EXPECT_EQ(first(bf16(), {4096, 4096, 4096}), "warpspec 128x256 s4");
  EXPECT_EQ(first(bf16(), {1, 4096, 4096}), "stream 8x32 s10");
  EXPECT_EQ(first(bf16(), {16, 4096, 4096}), "stream 16x32 s9");
  EXPECT_EQ(first(bf16(), {16, 14336, 4096}), "stream 16x112 s5");
  EXPECT_EQ(first(bf16(), {64, 4096, 4096}), "warpspec 64x64 s12");
  EXPECT_EQ(first(bf16(), {64, 14336, 4096}), "warpspec 64x112 s10");
  EXPECT_EQ(first(bf16(), {128, 4096, 14336}), "warpspec 64x128 s8 split");
  EXPECT_EQ(first(bf16(), {128, 14336, 4096}), "warpspec 64x224 s6");
  EXPECT_EQ(first(bf16(), {128, 4096, 4096}), "warpspec 64x64 s12");
  EXPECT_EQ(first(bf16(), {192, 4096, 4096}), "warpspec 64x96 s10");
  EXPECT_EQ(first(bf16(), {192, 14336, 4096}), "warpspec 192x112 s5");
  EXPECT_EQ(first(bf16(), {256, 4096, 4096}), "warpspec 64x128 s8");
  EXPECT_EQ(first(bf16(), {320, 4096, 4096}), "warpspec 64x160 s7");
  EXPECT_EQ(first(bf16(), {512, 4096, 4096}), "warpspec 128x128 s6 pp");
  EXPECT_EQ(first(bf16(), {512, 14336, 4096}), "warpspec 128x224 s4");
  EXPECT_EQ(first(bf16(), {8192, 14336, 4096}), "warpspec 192x192 s3");
}

TEST(CudaGemm, RowsThatStraddleSectorsTakeClusters) {
  const auto clusters = [](const GemmSignature& signature, CudaGemmShape shape) {
    const Algorithm a = ranked_cuda_gemm(arch("sm_90a"), signature, shape).front().config.algorithm;
    return a.cluster[0] * a.cluster[1];
  };
  for (const CudaGemmShape& shape : {CudaGemmShape{4096, 4096, 4096}, CudaGemmShape{1024, 1024, 1024}}) {
    CudaGemmShape odd = shape;
    odd.k += 8;  // rows of an odd multiple of 16 bytes
    EXPECT_EQ(clusters(bf16(), shape), 1);
    EXPECT_EQ(clusters(bf16(), odd), 2) << odd.m;
    odd.k += 8;
    EXPECT_EQ(clusters(bf16(), odd), 1) << odd.m;
  }
  EXPECT_EQ(clusters(signature_of(DataType::fp8, DataType::bf16), {4096, 4096, 4096 + 16}), 2);
  GemmSignature across = bf16();  // b's rows lie along n
  across.layout_b = MatrixOrder::row;
  EXPECT_EQ(clusters(across, {4096, 4096, 4096 + 8}), 1) << "a's rows alone";
  EXPECT_EQ(first(bf16(), {64, 4096, 4096 + 8}), "warpspec 64x64 s12") << "one row of tiles";
  GemmSignature groups = bf16();
  groups.grouping = GemmGrouping::contiguous;
  for (const std::int64_t k : {4096, 4096 + 8}) {
    const auto ranked = ranked_cuda_gemm(arch("sm_90a"), groups, {512, 4096, k, 8, false, GemmGrouping::contiguous});
    EXPECT_EQ(ranked.front().config.algorithm.block_per_cu, 1) << "two blocks an SM ask for twice the rows";
  }
}

TEST(CudaGemm, GroupsOfFewRowsTakeTilesOf64Rows) {
  const auto chosen = [](GemmGrouping grouping, std::int64_t m, std::int64_t groups, std::int64_t n, std::int64_t k,
                         bool scales = false) {
    GemmSignature signature = scales ? signature_of(DataType::fp8, DataType::bf16) : bf16();
    signature.grouping = grouping;
    if (scales) signature.qscale = QuantScale::blockscale;
    return first(signature, {.m = m, .n = n, .k = k, .batch = groups, .grouping = grouping});
  };
  using enum GemmGrouping;
  for (const std::int64_t groups : {8, 64})
    for (const std::int64_t rows : {4, 16})
      for (const auto& [n, k] : {std::pair{4096, 4096}, std::pair{2048, 7168}, std::pair{14336, 4096}}) {
        EXPECT_EQ(chosen(contiguous, groups * rows, groups, n, k), "warpspec 64x128 s8") << groups << " " << rows;
        EXPECT_EQ(chosen(masked, rows, groups, n, k), "warpspec 64x128 s8") << groups << " " << rows;
        // With block scales two blocks of an SM take turns.
        EXPECT_EQ(chosen(contiguous, groups * rows, groups, n, k, true), "warpspec 64x64 s5") << groups << " " << rows;
        EXPECT_EQ(chosen(masked, rows, groups, n, k, true), "warpspec 64x64 s5") << groups << " " << rows;
      }
  // So few rows that groups without any leave half of the chip idle.
  EXPECT_EQ(chosen(contiguous, 2, 8, 4096, 4096), "warpspec 64x64 s12");
  EXPECT_EQ(chosen(contiguous, 8, 8, 2048, 7168), "warpspec 64x64 s12");
  EXPECT_EQ(chosen(contiguous, 8, 8, 2048, 7168, true), "warpspec 64x64 s5");
  // Room for many rows is there for the worst case; rows of contiguous groups are there.
  EXPECT_EQ(chosen(masked, 128, 8, 4096, 4096), "warpspec 64x128 s8");
  EXPECT_EQ(chosen(contiguous, 8 * 512, 8, 4096, 4096), "warpspec 128x256 s4");
  EXPECT_EQ(chosen(none, 64, 1, 4096, 4096), "warpspec 64x64 s12");
  for (const RankedCudaGemm& one : ranked_cuda_gemm(arch("sm_90a"), bf16(), {64, 4096, 4096}))
    EXPECT_TRUE(one.config.algorithm.pipeline != Pipeline::warp_specialized || one.config.algorithm.block_per_cu == 1)
        << "the tile for groups: " << native_name(one.config);
}

TEST(CudaGemm, WhatAnAccessNeedsDecides) {
  const auto widths = [](const GemmSignature& signature, const CudaGemmShape& shape) {
    const auto ranked = ranked_cuda_gemm(arch("sm_90a"), signature, shape);
    return ranked.empty() ? std::array<std::uint8_t, 3>{} : ranked.front().config.algorithm.vector;
  };
  using W = std::array<std::uint8_t, 3>;
  EXPECT_EQ(widths(bf16(), {300, 320, 64}), (W{8, 8, 8}));
  EXPECT_EQ(widths(bf16(), {300, 322, 64}), (W{8, 8, 2}));  // rows of D that are no multiple of 16 bytes
  EXPECT_EQ(widths(bf16(), {300, 321, 64}), (W{8, 8, 1}));
  EXPECT_EQ(widths(bf16(), {300, 320, 64, 1, true}), (W{1, 1, 1}));
  GemmSignature gated = bf16();
  gated.epilogue_ops = {EpilogueOp::swiglu};
  EXPECT_EQ(widths(gated, {300, 328, 64}), (W{8, 8, 2}));  // 164 columns of D
  // Without a single step of k only the portable template has an answer.
  EXPECT_TRUE(first(bf16(), {300, 320, 0}).starts_with("mma_sm80"));
  EXPECT_TRUE(first(bf16(), {1, 320, 0}).starts_with("mma_sm80"));
  for (const auto& one : ranked_cuda_gemm(arch("sm_80"), bf16(), {1, 320, 60}))
    EXPECT_EQ(one.config.algorithm.pipeline, Pipeline::mma_sm80);
  EXPECT_TRUE(first(bf16(), {1, 320, 64}, "sm_80").starts_with("skinny"));
  // 8-bit matrices that do not lie along k are transposed, but the copy engine must be able to bring them.
  GemmSignature odd = signature_of(DataType::int8, DataType::int32);
  odd.layout_a = MatrixOrder::column;
  EXPECT_TRUE(first(odd, {300, 320, 64}).starts_with("warpspec"));
  EXPECT_TRUE(first(odd, {300, 320, 64, 1, true}).starts_with("mma_sm80"));
  EXPECT_TRUE(first(signature_of(DataType::fp32, DataType::fp32), {300, 320, 64}).starts_with("mma_sm80"));
  EXPECT_TRUE(first(signature_of(DataType::tf32, DataType::fp32), {300, 320, 64}).starts_with("warpspec"));
}

TEST(CudaGemm, WhatIsTransposedDecidesTheTile) {
  for (const DataType type : {DataType::fp8, DataType::bf8, DataType::int8, DataType::tf32}) {
    const auto chosen = [&](MatrixOrder a, MatrixOrder b) {
      GemmSignature s = signature_of(type, DataType::fp32);
      s.layout_a = a;
      s.layout_b = b;
      return first(s, {4096, 4096, 4096}).substr(0, 17);
    };
    EXPECT_EQ(chosen(MatrixOrder::row, MatrixOrder::row), "warpspec 256x128 ") << "fewer columns to transpose";
    EXPECT_EQ(chosen(MatrixOrder::column, MatrixOrder::column), "warpspec 128x256 ") << "fewer rows to transpose";
  }
}

TEST(CudaGemm, WhatGivesOtherBitsStandsBehindAllOthers) {
  for (const CudaGemmShape& shape : {CudaGemmShape{128, 256, 16384}, CudaGemmShape{4096, 4096, 4096}}) {
    const auto ranked = ranked_cuda_gemm(arch("sm_90a"), bf16(), shape);
    const auto is_bitwise = [](const RankedCudaGemm& one) { return one.config.algorithm.is_bitwise(); };
    EXPECT_TRUE(std::ranges::is_partitioned(ranked, is_bitwise));
    EXPECT_FALSE(std::ranges::all_of(ranked, is_bitwise));
  }
  // A part that is added takes memory once, however many there are.
  KernelConfig config = hopper_config();
  config.algorithm.split_k = config.algorithm.split_k_atomic = true;
  const CudaGemmWork work = cuda_gemm_work(config, arch("sm_90a"), {128, 512, 65536});
  EXPECT_GT(work.splits, 2);
  EXPECT_EQ(work.places, 2);
}

TEST(CudaGemm, EverySignatureListedRunsOnEveryShape) {
  for (const CudaGemmShape shape : {CudaGemmShape{1, 1, 1}, CudaGemmShape{17, 33, 5, 3}, CudaGemmShape{7, 2, 0},
                                    CudaGemmShape{129, 4098, 77, 2, true}})
    for (const char* name : {"sm_80", "sm_90a"}) {
      GemmSignature last;
      enumerate_cuda_gemm(arch(name), "", [&](const KernelConfig& config) {
        const auto& signature = std::get<GemmSignature>(config.signature);
        if (signature == last || (signature.epilogue_ops.gated() && shape.n % 2 != 0)) return true;
        last = signature;
        EXPECT_FALSE(ranked_cuda_gemm(arch(name), signature, shape).empty()) << native_name(config);
        return true;
      });
    }
}

TEST(CudaGemm, SplitsHaveAStageEach) {
  KernelConfig config = hopper_config();
  EXPECT_EQ(cuda_gemm_splits(config, arch("sm_90a"), {128, 4096, 14336}), 1);
  config.algorithm.split_k = true;
  EXPECT_EQ(cuda_gemm_splits(config, arch("sm_90a"), {128, 4096, 64}), 1);
  EXPECT_EQ(cuda_gemm_splits(config, arch("sm_90a"), {128, 4096, 0}), 1);
  EXPECT_EQ(cuda_gemm_splits(config, arch("sm_90a"), {128, 4096, 128}), 2);
}

TEST(CudaGemm, PartsFillTheChipAsFarAsTheyPay) {
  // The table's own: at most two.
  const auto best = [](const CudaGemmShape& shape) {
    const auto ranked = ranked_cuda_gemm(arch("sm_90a"), bf16(), shape);
    return std::pair{ranked.front().config, cuda_gemm_splits(ranked.front().config, arch("sm_90a"), shape)};
  };
  EXPECT_EQ(best({128, 4096, 14336}).second, 2);
  int before = 1;
  for (const std::int64_t k : {1024, 4096, 16384, 65536}) {
    const auto [config, splits] = best({128, 256, k});
    EXPECT_GE(splits, before) << "longer sums, fewer parts";
    EXPECT_LE(splits * cuda_gemm_tiles(config, {128, 256, k}), 132);
    before = splits;
  }
  EXPECT_GT(before, 8);
  EXPECT_EQ(best({4096, 4096, 65536}).second, 1) << "the chip is full";
  EXPECT_EQ(best({128, 256, 128}).second, 1) << "nothing to share";
  EXPECT_GT(best({16, 64, 65536}).second, 8) << "few rows";
}

TEST(CudaGemm, StreamKHasARunForEveryBlock) {
  KernelConfig config = hopper_config();  // 128 x 256
  config.algorithm.stream_k = true;
  const CudaSpec& spec = arch("sm_90a");
  const CudaGemmWork full = cuda_gemm_work(config, spec, {128 * 150, 256, 1024});
  EXPECT_EQ(full.blocks, 132);
  EXPECT_EQ(full.places, 2 * 132);
  EXPECT_GE(full.counters, 150 * cuda_gemm_resources(config).counters) << "fewer than two rounds: all tiles are shared";
  EXPECT_TRUE(cuda_gemm_shares(config, spec, {128 * 150, 256, 1024}));
  EXPECT_FALSE(cuda_gemm_shares(config, spec, {128 * 264, 256, 1024})) << "two whole rounds";
  EXPECT_LE(cuda_gemm_work(config, spec, {128, 256, 65536}).blocks, 16) << "parts that one block adds up";
  EXPECT_EQ(cuda_gemm_work(config, spec, {128, 256, 64}).blocks, 1) << "a single step";
}

TEST(CudaGemm, TheNextKernelWaitsForTilesThatShareColumns) {
  KernelConfig config = hopper_config();  // 128 x 256
  const CudaSpec& spec = arch("sm_90a");
  const auto work = [&](const CudaGemmShape& shape) { return cuda_gemm_work(config, spec, shape); };
  EXPECT_TRUE(work({1024, 4096, 4096}).late_launch_dependents);
  EXPECT_FALSE(work({1152, 4096, 4096}).late_launch_dependents) << "nine rows of tiles";
  EXPECT_FALSE(work({128, 65536, 4096}).late_launch_dependents) << "one row: no tile shares its columns of B";
  EXPECT_FALSE(work({1024, 1024, 4096}).late_launch_dependents) << "half of the chip is free for the next kernel";
  EXPECT_FALSE(work({1024, 4096, 1024}).late_launch_dependents) << "short: an early start saves more";
  EXPECT_TRUE(work({1024, 4096, 1024, 1, false, GemmGrouping::none, 1024}).late_launch_dependents)
      << "with a second product's k";
  EXPECT_FALSE(work({1024, 4096, 4096, 8, false, GemmGrouping::contiguous}).late_launch_dependents);
  EXPECT_TRUE(work({768, 4096, 4096}).b_first);
  EXPECT_FALSE(work({1024, 4096, 4096}).b_first);
  config.algorithm.pipeline = Pipeline::mma_sm80;
  EXPECT_FALSE(work({512, 4096, 4096}).late_launch_dependents || work({512, 4096, 4096}).b_first) << "no part of it";
}

TEST(CudaGemm, TilesComeInWholeClusters) {
  KernelConfig config = hopper_config();
  EXPECT_EQ(cuda_gemm_tiles(config, {129, 257, 1, 3}), 3 * 2 * 2);
  config.algorithm.cluster = {4, 1};
  EXPECT_EQ(cuda_gemm_tiles(config, {129, 257, 1, 3}), 3 * 4 * 2);
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
