// Which CUDA attention kernels go first, by the tile table and by predicted seconds.
#include "choose/attention/cuda.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>

#include "choose/attention/cuda_terms.hpp"
#include "choose/attention/whole_rows.hpp"
#include "choose/random_problem.hpp"
#include "instances/attention/cuda.hpp"
#include "problem/attention/problem.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

const CudaSpec& arch(std::string_view name) {
  return testing::cuda_arch(name);
}

AttentionSignature plain_signature() {
  AttentionSignature signature;
  signature.data_type = DataType::bf16;
  signature.lse = true;
  return signature;
}

CudaAttentionShape cube(std::int64_t seqlen, std::int64_t heads = 16) {
  return {.batch = 4, .heads_q = heads, .heads_kv = heads, .seqlen_q = seqlen, .seqlen_k = seqlen};
}

AttentionSignature with(std::uint16_t qk, std::uint16_t v, MaskKind mask) {
  AttentionSignature signature = plain_signature();
  signature.head_dim_qk = qk;
  signature.head_dim_v = v;
  signature.mask = mask;
  return signature;
}

/// The algorithm's part of the name of the instance to run first.
std::string first_choice(const AttentionSignature& signature, const CudaAttentionShape& shape) {
  CudaAttentionShape seen = shape;
  if (signature.mask == MaskKind::causal) seen.visible = 0.5;
  const auto ranked = ranked_cuda_attention(arch("sm_90a"), signature, seen);
  if (ranked.empty()) return "none";
  const std::string name = native_name(ranked.front().recipe.main());
  const std::size_t at = name.find("_tile") + 5;
  return name.substr(at, name.find("_on_") - at);
}

// docs/cuda_kernels.md, "Tile table".
TEST(CudaAttentionRank, TheTileTableDecides) {
  const auto none = MaskKind::none, causal = MaskKind::causal, window = MaskKind::generic;
  EXPECT_EQ(first_choice(with(64, 64, causal), cube(1024)), "64x64_stages3_qstages2_blocks3_dynamic_latestore");
  EXPECT_EQ(first_choice(with(64, 64, causal), cube(2048)),
            "192x128_stages3_blocks1_pingpong_dynamic_latewait_latestore");
  EXPECT_EQ(first_choice(with(64, 64, none), cube(4096)),
            "192x128_stages3_blocks1_pingpong_dynamic_latewait_latestore");
  EXPECT_EQ(first_choice(with(128, 128, none), cube(4096)),
            "128x128_stages3_blocks1_pingpong_dynamic_latewait_latestore");
  EXPECT_EQ(first_choice(with(128, 128, causal), cube(1000)), "128x128_stages3_blocks1_dynamic_latewait_latestore");
  EXPECT_EQ(first_choice(with(128, 128, window), cube(4096)), "128x128_stages3_blocks1_dynamic_latewait_latestore");
  EXPECT_EQ(first_choice(with(192, 128, causal), cube(4096)),
            "128x128_stages2_blocks1_pingpong_dynamic_latewait_latestore");
  EXPECT_EQ(first_choice(with(192, 192, causal), cube(4096)),
            "128x96_stages2_blocks1_pingpong_dynamic_latewait_latestore");
  EXPECT_EQ(first_choice(with(256, 256, none), cube(512)), "128x64_stages2_blocks1_pingpong_latewait_latestore");
  EXPECT_EQ(first_choice(with(256, 256, none), cube(1024)), "128x80_stages2_blocks1_pingpong_latewait_latestore");
  EXPECT_EQ(first_choice(with(256, 256, causal), cube(512)),
            "128x64_stages2_blocks1_pingpong_dynamic_latewait_latestore");
  EXPECT_EQ(first_choice(with(256, 256, causal), cube(4096)),
            "128x64_stages2_blocks1_pingpong_dynamic_latewait_latestore");
  EXPECT_EQ(first_choice(with(256, 256, causal), cube(8192)),
            "128x80_stages2_blocks1_pingpong_dynamic_latewait_latestore");
}

// data/oracle/attention_bf16_sm_90a_steps.csv: by 64 and 128 rows 12.3 to 12.5 us, by 192, whose last tiles are a third
// full, 14.0 to 14.5.
TEST(CudaAttentionRank, FewTilesAreOfFewerRowsThanTheTableSays) {
  const CudaAttentionShape few{.batch = 1, .heads_q = 16, .heads_kv = 16, .seqlen_q = 1024, .seqlen_k = 512};
  EXPECT_EQ(first_choice(with(64, 64, MaskKind::none), few).find("192x"), std::string::npos);
}

// Blocks that are dealt tiles of packed sequences before they begin wait for the one that has the longest: 1.37 times
// as long as those that draw them (2 sequences of up to 528 queries, an H200).
TEST(CudaAttentionRank, TilesOfDifferentLengthsAreDrawn) {
  CudaAttentionShape shape = cube(528);
  shape.ragged = shape.uneven = true;
  AttentionSignature signature = with(256, 256, MaskKind::none);
  signature.mode = SequenceMode::group;
  EXPECT_NE(first_choice(signature, shape).find("_dynamic_"), std::string::npos);
}

TEST(CudaAttentionRank, Fp8HasTilesOfItsOwn) {
  AttentionSignature signature = with(128, 128, MaskKind::none);
  signature.data_type = DataType::fp8bf16;
  signature.qscale = QuantScale::pertensor;
  EXPECT_EQ(first_choice(signature, cube(1024)), "128x160_stages3_blocks1_dynamic_latewait_latestore");
  EXPECT_EQ(first_choice(signature, cube(4096)), "192x96_stages3_blocks1_pingpong_dynamic_latewait_latestore");
  signature.mask = MaskKind::causal;
  EXPECT_EQ(first_choice(signature, cube(4096)), "192x96_stages4_blocks1_dynamic_latewait_latestore");
  // Dropout lacks the registers, and with scales by block a step of keys divides a block.
  signature.dropout = true;
  EXPECT_EQ(first_choice(signature, cube(4096)), "128x128_stages3_blocks1_dynamic_latewait_latestore");
  signature.dropout = false;
  signature.qscale = QuantScale::blockscale;
  EXPECT_EQ(first_choice(signature, cube(4096)), "128x128_stages3_blocks1_dynamic_latewait_latestore");
}

TEST(CudaAttentionRank, TraitsHaveTilesOfTheirOwn) {
  AttentionSignature signature = with(128, 128, MaskKind::causal);
  signature.bias = BiasKind::alibi;
  EXPECT_EQ(first_choice(signature, cube(4096)), "192x80_stages2_blocks1_dynamic_latewait_latestore");
  signature.bias = BiasKind::none;
  signature.dropout = true;
  EXPECT_EQ(first_choice(signature, cube(4096)), "128x128_stages2_blocks1_dynamic_latewait_latestore");
  signature.dropout = false;
  signature.bias = BiasKind::elementwise;
  EXPECT_EQ(first_choice(signature, cube(4096)), "128x128_stages2_biasstages1_blocks1_dynamic_latewait_latestore");
  // A bias that the copy engine cannot read is read element by element.
  CudaAttentionShape strided = cube(4096);
  strided.bias_can_be_copied = false;
  const auto ranked = ranked_cuda_attention(arch("sm_90a"), signature, strided);
  ASSERT_FALSE(ranked.empty());
  for (const Candidate& one : ranked) EXPECT_EQ(one.recipe.main().algorithm.bias_stages, 0);
  EXPECT_EQ(ranked.front().recipe.main().algorithm.pipeline, Pipeline::warp_specialized);
}

TEST(CudaAttentionRank, EverySignatureHasAKernel) {
  for (const char* name : {"sm_80", "sm_90a", "sm_120a"})
    for (std::uint16_t dim = 32; dim <= 256; dim += 8)
      for (const MaskKind mask : {MaskKind::none, MaskKind::causal, MaskKind::generic})
        for (const BiasKind bias : {BiasKind::none, BiasKind::elementwise, BiasKind::alibi})
          for (unsigned flags = 0; flags < 32; ++flags) {
            AttentionSignature signature = with(dim, dim, mask);
            signature.mode = (flags & 16) != 0 ? SequenceMode::group : SequenceMode::batch;
            signature.bias = bias;
            signature.dropout = (flags & 1) != 0;
            signature.soft_cap = (flags & 2) != 0;
            signature.sink = (flags & 4) != 0;
            signature.negative_scale = (flags & 8) != 0;
            ASSERT_FALSE(ranked_cuda_attention(arch(name), signature, cube(777)).empty()) << name << " " << dim;
          }
}

TEST(CudaAttentionRank, HeadsArePackedWhereThatSavesTiles) {
  // One query against 8 heads a group: eight tiles become one.
  CudaAttentionShape decode{.batch = 2, .heads_q = 32, .heads_kv = 4, .seqlen_q = 1, .seqlen_k = 8192};
  const AttentionSignature signature = with(128, 128, MaskKind::none);
  const auto first_packing = [&] {
    for (const Candidate& one : ranked_cuda_attention(arch("sm_90a"), signature, decode))
      if (one.recipe.main().algorithm.pipeline == Pipeline::warp_specialized)
        return one.recipe.main().algorithm.pack_gqa;
    throw std::runtime_error("no candidate");
  };
  EXPECT_EQ(first_packing(), 8);
  decode.seqlen_q = 4096;  // whole tiles already
  EXPECT_EQ(ranked_cuda_attention(arch("sm_90a"), signature, decode).front().recipe.main().algorithm.pack_gqa, 1);
  decode.seqlen_q = 1, decode.heads_q = 12;  // three heads a group do not divide 64 rows
  for (const Candidate& one : ranked_cuda_attention(arch("sm_90a"), signature, decode))
    EXPECT_EQ(one.recipe.main().algorithm.pack_gqa, 1);
}

TEST(CudaAttentionRank, TypesHaveTilesOfTheirOwn) {
  const auto tile = [](DataType type, MaskKind mask) {
    AttentionSignature signature = with(128, 128, mask);
    signature.data_type = type;
    return ranked_cuda_attention(arch("sm_90a"), signature, cube(4096)).front().recipe.main().algorithm.tile;
  };
  EXPECT_EQ(tile(DataType::fp32, MaskKind::causal)[1], 32);
  EXPECT_EQ(tile(DataType::fp32, MaskKind::none)[1], 64);
  EXPECT_EQ(tile(DataType::tf32, MaskKind::causal)[1], 64);
}

TEST(CudaAttentionRank, PortableKernelsComeLastOnHopper) {
  const auto ranked = ranked_cuda_attention(arch("sm_90a"), with(128, 128, MaskKind::none), cube(4096));
  ASSERT_GT(ranked.size(), 4u);
  EXPECT_EQ(ranked.back().recipe.main().algorithm.pipeline, Pipeline::mma_sm80);
  EXPECT_EQ(ranked[1].recipe.main().algorithm.pipeline, Pipeline::warp_specialized);
}

// Measured on an H200 (data/oracle): 37 queries of 16 heads fill a tile of 192 packed rows after another on 14 of its
// 132 SMs, 17.0 us; unpacked they take 11.7. A step over keys of mma_sm80 takes as long for few rows as for many.
TEST(CudaAttentionRank, FewQueriesFollowTheFittedModel) {
  const CudaSpec& spec = arch("sm_90a");
  const auto first_tile = [&](const AttentionSignature& signature, const CudaAttentionShape& shape) {
    const auto ranked = ranked_cuda_attention(spec, signature, shape);
    return std::ranges::find_if(ranked,
                                [](const Candidate& one) { return !is_decode(one.recipe.main().algorithm.pipeline); })
        ->recipe.main()
        .algorithm;
  };
  const CudaAttentionShape append{.batch = 2, .heads_q = 16, .heads_kv = 2, .seqlen_q = 37, .seqlen_k = 833};
  const Algorithm unpacked = first_tile(with(64, 64, MaskKind::none), append);
  EXPECT_FALSE(unpacked.tile[0] == 192 && unpacked.pack_gqa > 1);
  const CudaAttentionShape decode{.batch = 1, .heads_q = 4, .heads_kv = 4, .seqlen_q = 1, .seqlen_k = 9853};
  EXPECT_EQ(first_tile(with(256, 256, MaskKind::none), decode).pipeline, Pipeline::warp_specialized);
}

TEST(CudaAttentionRank, TheTablesChoiceHasTheAdvantageThatTheSpecGives) {
  CudaSpec spec = arch("sm_90a");
  const AttentionSignature signature = with(128, 128, MaskKind::causal);
  const CudaAttentionShape prefill{
      .batch = 4, .heads_q = 16, .heads_kv = 16, .seqlen_q = 4096, .seqlen_k = 4096, .visible = 0.5};
  const auto first = [&] { return ranked_cuda_attention(spec, signature, prefill).front().recipe.main(); };
  const KernelConfig favoured = first();
  spec.attention_model->first_choice_share = 1;
  EXPECT_NE(first(), favoured);
  spec.attention_model.reset();
  EXPECT_EQ(first(), favoured) << "without a model the table chooses";
}

/// Whatever advantage the spec gives, the model's first goes first, which is another than the table's.
void expect_that_the_model_alone_decides(const AttentionSignature& signature, const CudaAttentionShape& shape) {
  CudaSpec spec = arch("sm_90a");
  const auto first = [&] { return ranked_cuda_attention(spec, signature, shape).front().recipe.main(); };
  const KernelConfig predicted = first();
  spec.attention_model->first_choice_share = 0.01;
  EXPECT_EQ(first(), predicted);
  spec.attention_model.reset();
  EXPECT_NE(first(), predicted) << "without a model the table chooses";
}

TEST(CudaAttentionRank, TheTablesChoiceHasNoAdvantageOnPackedSequences) {
  AttentionSignature signature = with(128, 128, MaskKind::causal);
  signature.mode = SequenceMode::group;
  CudaAttentionShape packed = cube(4096);
  packed.visible = 0.5, packed.ragged = packed.uneven = true;
  expect_that_the_model_alone_decides(signature, packed);
}

TEST(CudaAttentionRank, TheTablesChoiceHasNoAdvantageWhereTilesAreFewerThanTheTableWasMeasuredWith) {
  expect_that_the_model_alone_decides(with(64, 64, MaskKind::none),
                                      {.batch = 2, .heads_q = 16, .heads_kv = 2, .seqlen_q = 70, .seqlen_k = 833});
}

/// The terms of a tile of the table without a pipeline's coefficients, seconds by name.
std::map<std::string_view, double> terms_of(int tile_m, int tile_n, std::uint16_t head_dim,
                                            const CudaAttentionShape& shape) {
  const CudaSpec& spec = arch("sm_90a");
  const CudaAttentionPipeline& pipeline = *spec.attention_pipeline(Pipeline::warp_specialized);
  const auto row = std::ranges::find_if(pipeline.tiles, [&](const CudaTile& tile) {
    return tile.tile_m == tile_m && tile.tile_n == tile_n && tile.head_dim.holds(head_dim) && tile.bias_stages == 0;
  });
  if (row == pipeline.tiles.end()) throw std::runtime_error("no such tile");
  for (const Candidate& one : ranked_cuda_attention(spec, with(head_dim, head_dim, MaskKind::none), shape)) {
    const KernelConfig& config = one.recipe.main();
    if (config.algorithm.pipeline != Pipeline::warp_specialized || config.algorithm.tile[0] != tile_m ||
        config.algorithm.tile[1] != tile_n || config.algorithm.pack_gqa != 1)
      continue;
    const CudaAttentionTerms terms = cuda_attention_terms(config, *row, spec, shape);
    std::map<std::string_view, double> named;
    for (std::size_t i = 0; i < terms.size(); ++i) named[kCudaAttentionTerms[i]] = terms[i];
    named["round_us"] = row->round_us;
    return named;
  }
  throw std::runtime_error("no such kernel");
}

TEST(CudaAttentionTerms, RoundsTakeWhatTheirRowSays) {
  // 132 SMs: 264 tiles of 128 rows are two rounds, 265 three.
  const CudaAttentionShape two{.batch = 1, .heads_q = 33, .heads_kv = 33, .seqlen_q = 1024, .seqlen_k = 1024};
  CudaAttentionShape three = two;
  three.heads_q = three.heads_kv = 34;
  for (const auto& [shape, rounds] : {std::pair{two, 2.0}, std::pair{three, 3.0}}) {
    auto terms = terms_of(128, 128, 128, shape);
    EXPECT_DOUBLE_EQ(terms["rounds"], rounds * terms["round_us"] * 1e-6);
    EXPECT_DOUBLE_EQ(terms["steps"], rounds * 8e-6);
  }
}

TEST(CudaAttentionTerms, NarrowHeadsHaveFewerProductsAndTheRestApart) {
  const CudaAttentionShape shape = cube(1024);
  auto wide = terms_of(128, 128, 128, shape), narrow = terms_of(128, 128, 80, shape);
  EXPECT_EQ(wide["narrower"], 0);
  EXPECT_NEAR(narrow["products"] + narrow["narrower"], wide["products"], 1e-12);
  EXPECT_NEAR(narrow["products"], wide["products"] * 80 / 128, 1e-12);
}

TEST(CudaAttentionTerms, RowsThatStraddleSectorsTakeAsLongAsTheirCopiesWhereProductsTakeLess) {
  // 72 elements are 128 bytes and 16: a whole box and what is left, of keys and of values.
  const CudaAttentionModel& model = *arch("sm_90a").attention_model;
  CudaAttentionShape shape{.batch = 1, .heads_q = 132, .heads_kv = 132, .seqlen_q = 128, .seqlen_k = 4096};
  const double copies = 1e-9 * 4096 * 2 * (model.straddling_box_ns + model.rest_box_ns);
  auto rest = terms_of(128, 128, 72, shape), even = terms_of(128, 128, 80, shape);
  ASSERT_GT(copies, even["products"]) << "72 elements are multiplied as 80";
  EXPECT_NEAR(rest["products"], copies, 1e-12);
  EXPECT_NEAR(rest["narrower"], std::max(0.0, even["products"] + even["narrower"] - copies), 1e-12);
}

TEST(CudaAttentionTerms, OfOneRoundTheFullestTileCountsOfSeveralTheMean) {
  // 200 rows: a tile of 192, and one of 8 that is multiplied as 64.
  CudaAttentionShape shape{.batch = 1, .heads_q = 8, .heads_kv = 8, .seqlen_q = 200, .seqlen_k = 4096};
  auto one = terms_of(192, 128, 64, shape);
  shape.batch = 100;
  auto many = terms_of(192, 128, 64, shape);
  const double idle = arch("sm_90a").attention_model->idle_rows;
  EXPECT_NEAR(many["products"] / many["steps"] * one["steps"] / one["products"], (128 + idle * 64) / 192, 1e-9);
}

TEST(CudaAttentionTerms, ABlockAloneOnItsSmHidesLess) {
  // Kernels of 64 rows have three blocks an SM: 8 tiles are alone, 396 are three to an SM.
  CudaAttentionShape shape{.batch = 1, .heads_q = 4, .heads_kv = 4, .seqlen_q = 128, .seqlen_k = 4096};
  auto alone = terms_of(64, 64, 64, shape);
  shape.batch = 99, shape.heads_q = shape.heads_kv = 2;
  auto three = terms_of(64, 64, 64, shape);
  const double missing = arch("sm_90a").attention_model->missing_block;
  EXPECT_GT(missing, 0);
  EXPECT_NEAR(alone["products"], three["products"] / 3 * (1 + 2 * missing), 1e-12);
}

TEST(CudaAttentionTerms, TilesOfDifferentLengthsThatBlocksTakeAsTheyComeEndNearlyTogether) {
  // 144 tiles are two rounds of 132 SMs; behind a mask little more than the mean of SMs.
  CudaAttentionShape shape{.batch = 1, .heads_q = 18, .heads_kv = 18, .seqlen_q = 1024, .seqlen_k = 1024};
  auto even = terms_of(128, 128, 128, shape);
  EXPECT_DOUBLE_EQ(even["rounds"], 2 * even["round_us"] * 1e-6);
  shape.visible = 0.5;
  auto uneven = terms_of(128, 128, 128, shape);
  EXPECT_NEAR(uneven["rounds"], (144.0 / 132 + arch("sm_90a").attention_model->uneven_end) * uneven["round_us"] * 1e-6,
              1e-12);
}

TEST(CudaAttentionTerms, OfPackedSequencesTheLongestAloneIsAsLongAsItSays) {
  CudaAttentionShape one{.batch = 1, .heads_q = 264, .heads_kv = 264, .seqlen_q = 2048, .seqlen_k = 2048};
  one.ragged = one.uneven = true;
  CudaAttentionShape even = one;
  even.ragged = false;
  EXPECT_DOUBLE_EQ(terms_of(128, 128, 128, one)["products"], terms_of(128, 128, 128, even)["products"]);
  CudaAttentionShape many = one;
  many.batch = 64, many.heads_q = many.heads_kv = 33;
  CudaAttentionShape many_even = many;
  many_even.ragged = false;
  // Half the rows of half the keys, and half a tile and half a step more.
  const double share = terms_of(128, 128, 128, many)["products"] / terms_of(128, 128, 128, many_even)["products"];
  EXPECT_GT(share, 0.25);
  EXPECT_LT(share, 0.35);
}

TEST(CudaAttentionRank, ThereAreCoefficientsForProblemsOf16BitsAlone) {
  CudaSpec spec = arch("sm_90a");
  AttentionSignature signature = with(128, 128, MaskKind::causal);
  EXPECT_TRUE(is_fitted_for(spec, signature));
  EXPECT_FALSE(is_fitted_for(arch("sm_80"), signature));
  signature.data_type = DataType::tf32;
  EXPECT_FALSE(is_fitted_for(spec, signature));
  signature.data_type = DataType::bf16;
  AttentionSignature dropped = signature, biased = signature;
  dropped.dropout = true;
  biased.bias = BiasKind::alibi;
  EXPECT_TRUE(is_fitted_for(spec, dropped));
  EXPECT_TRUE(is_fitted_for(spec, biased));
  spec.attention_model->scores.clear();  // a chip whose traits nobody measured
  EXPECT_TRUE(is_fitted_for(spec, signature));
  EXPECT_FALSE(is_fitted_for(spec, dropped));
  EXPECT_FALSE(is_fitted_for(spec, biased));
}

TEST(CudaAttentionRank, ATraitTakesAsLongForAScoreAsTheSpecSays) {
  CudaSpec spec = arch("sm_90a");
  // One tile and one step of 128 by 128 on each SM.
  const CudaAttentionShape shape{.batch = 1, .heads_q = 132, .heads_kv = 132, .seqlen_q = 128, .seqlen_k = 128};
  const CudaTile* row = nullptr;
  KernelConfig plain;
  const int unpacked[] = {1};
  walk_cuda_attention(spec, plain_signature(), unpacked,
                      [&](const KernelConfig& config, const CudaTile& tile, const auto* refused) {
                        const Algorithm& a = config.algorithm;
                        if (refused == nullptr && row == nullptr && a.pipeline == Pipeline::warp_specialized &&
                            a.tile[0] == 128 && a.tile[1] == 128)
                          row = &tile, plain = config;
                        return true;
                      });
  ASSERT_NE(row, nullptr);
  const auto products = [&](const KernelConfig& config) {
    const auto at = std::ranges::find(kCudaAttentionTerms, "products") - kCudaAttentionTerms.begin();
    return cuda_attention_terms(config, *row, spec, shape)[static_cast<std::size_t>(at)];
  };
  const auto picoseconds = [&](const KernelConfig& config) {
    return 1e12 * (products(config) - products(plain)) / (128 * 128);
  };
  const CudaScorePicoseconds& figures = *spec.attention_model->score_picoseconds(Pipeline::warp_specialized);
  KernelConfig dropped = plain, sloped = plain, loaded = plain, both = plain;
  std::get<AttentionSignature>(dropped.signature).dropout = true;
  std::get<AttentionSignature>(sloped.signature).bias = BiasKind::alibi;
  std::get<AttentionSignature>(loaded.signature).bias = BiasKind::elementwise;
  KernelConfig copied = loaded;
  copied.algorithm.bias_stages = 2;
  std::get<AttentionSignature>(both.signature).bias = BiasKind::alibi;
  std::get<AttentionSignature>(both.signature).dropout = true;
  EXPECT_NEAR(picoseconds(dropped), figures.dropout, 1e-6);
  EXPECT_NEAR(picoseconds(sloped), figures.alibi, 1e-6);
  EXPECT_NEAR(picoseconds(loaded), figures.loaded_bias, 1e-6);
  EXPECT_NEAR(picoseconds(copied), figures.copied_bias, 1e-6);
  EXPECT_NEAR(picoseconds(both), figures.alibi + figures.dropout, 1e-6);
}

// No tile of the table is the first choice for these, so the portable kernels, which take all problems, were.
TEST(CudaAttentionRank, HoppersKernelsGoFirstWithDropoutAndBesideABiasThatIsLoaded) {
  for (const int head_dim : {64, 96, 128, 192, 256})
    for (const auto& [batch, heads, queries, keys] :
         {std::array{1, 4, 479, 1571}, std::array{7, 8, 727, 3921}, std::array{6, 8, 2893, 2893}}) {
      AttentionProblem problem;
      problem.data_type = DataType::bf16;
      problem.batch = batch, problem.heads_q = problem.heads_kv = heads;
      problem.seqlen_q = queries, problem.seqlen_k = keys;
      problem.head_dim_qk = problem.head_dim_v = static_cast<std::uint16_t>(head_dim);
      AttentionProblem dropped = problem, biased = problem;
      dropped.dropout = true;
      biased.bias = BiasKind::elementwise;
      biased.unaligned_bias = true;
      for (const AttentionProblem& one : {dropped, biased})
        EXPECT_EQ(rank(arch("sm_90a"), one).value().candidates.front().recipe.main().algorithm.pipeline,
                  Pipeline::warp_specialized)
            << head_dim << ", " << queries << " queries";
    }
}

AttentionProblem odd_problem(std::int64_t head_dim, std::int64_t head_dim_v) {
  AttentionProblem p;
  p.heads_q = 2, p.heads_kv = 1;
  p.seqlen_q = p.seqlen_k = 420;
  p.head_dim_qk = head_dim, p.head_dim_v = head_dim_v;
  return p;
}

TEST(CudaAttentionRank, RowsThatBeginAnywhereAreCopiedOrReadByElementsAsPredictionsSay) {
  const CudaSpec& spec = arch("sm_90a");
  AttentionProblem shifted = odd_problem(128, 128);
  shifted.unaligned = true;
  for (const AttentionProblem& p : {odd_problem(111, 111), odd_problem(57, 90), odd_problem(1, 255), shifted}) {
    const AttentionProblem whole = with_whole_rows(p);
    ASSERT_TRUE(may_copy_rows(p));
    EXPECT_FALSE(may_copy_rows(whole));
    EXPECT_EQ(whole.head_dim_qk, (p.head_dim_qk + 7) / 8 * 8);
    EXPECT_EQ(whole.head_dim_v, (p.head_dim_v + 7) / 8 * 8);
    const std::vector<Candidate> ranked = rank(spec, p).value().candidates;
    const std::vector<Candidate> of_copies = rank(spec, whole).value().candidates;
    std::set<bool> copied;
    for (const Candidate& one : ranked) {
      const KernelConfig& config = one.recipe.main();
      EXPECT_TRUE(serves(spec, config, p)) << native_name(config);
      EXPECT_EQ(copies_rows(config, p), !config.attention().unaligned);
      copied.insert(copies_rows(config, p));
      if (config.attention().unaligned) continue;
      EXPECT_EQ(config.algorithm.pipeline, Pipeline::warp_specialized);
      const auto same =
          std::ranges::find_if(of_copies, [&](const Candidate& other) { return other.recipe == one.recipe; });
      ASSERT_NE(same, of_copies.end());
      EXPECT_DOUBLE_EQ(one.predicted_seconds, same->predicted_seconds + copy_seconds(spec, p));
    }
    EXPECT_EQ(copied.size(), 2u);
  }
  EXPECT_TRUE(
      copies_rows(rank(spec, odd_problem(111, 111)).value().candidates.front().recipe.main(), odd_problem(111, 111)));
}

TEST(CudaAttentionRank, CopiesOfRowsTakeTwoLaunchesAndTheirBytesTwice) {
  CudaSpec spec = arch("sm_90a");
  spec.row_copies = {.launch_us = 4, .bytes_per_second = 1e12};
  const AttentionProblem p = odd_problem(111, 111);  // of 222 bytes, copied to 224, which are seven sectors
  const double bytes = 420 * 224.0 * (2 + 1 + 1 + 2);
  EXPECT_DOUBLE_EQ(copy_seconds(spec, p), 2 * 4e-6 + 2 * bytes / 1e12);
  spec.row_copies.reset();
  EXPECT_DOUBLE_EQ(copy_seconds(spec, p), 2e-6 * spec.gemm.pad_us + spec.reference.memory_seconds(2 * bytes));
}

TEST(CudaAttentionRank, WhatElementsTakeIsOfKernelsThatReadThem) {
  CudaSpec with = arch("sm_90a"), without = with;
  with.attention_model->element_ns = 0.5, with.attention_model->element_wait_ns = 2;
  without.attention_model->element_ns = without.attention_model->element_wait_ns = 0;
  // One tile of 64 rows, of two steps of 64 keys: rows of q and o once, of k and v at each step, in columns of 16.
  AttentionProblem p = odd_problem(35, 60);
  p.heads_q = 1;
  p.seqlen_q = 64, p.seqlen_k = 128;
  const auto copies_of = [&](const CudaSpec& spec, std::int64_t warps_rows) {
    for (const ModelTerms& one : model_terms(spec, p))
      if (one.config.algorithm.pipeline == Pipeline::mma_sm80 && one.config.algorithm.tile[0] == warps_rows &&
          one.config.algorithm.tile[1] == 64)
        return one.values[5];
    ADD_FAILURE() << "no such kernel";
    return 0.0;
  };
  ASSERT_EQ(kCudaAttentionTerms[5], "copies");
  const double elements = (64 + 2 * 64) * (48 + 64.0);
  EXPECT_NEAR(copies_of(with, 64) - copies_of(without, 64), 1e-9 * elements * (0.5 + 2.0 / 4), 1e-15);
  // Two tiles of 32 rows have an SM each, and two warps.
  EXPECT_NEAR(copies_of(with, 32) - copies_of(without, 32), 1e-9 * (32 + 2 * 64) * (48 + 64.0) * (0.5 + 2.0 / 2),
              1e-15);
  AttentionProblem whole = p;
  whole.head_dim_qk = 40, whole.head_dim_v = 64;
  const auto of = [&](const CudaSpec& spec) { return rank(spec, whole).value().candidates.front().predicted_seconds; };
  EXPECT_DOUBLE_EQ(of(with), of(without));
}

TEST(CudaAttentionRank, CopiesOfRowsAreOfDenseSequencesOf16Bits) {
  AttentionProblem fp32 = odd_problem(33, 33), packed = fp32, invariant = packed, empty = packed, many = packed;
  for (AttentionProblem* p : {&packed, &invariant, &empty, &many}) p->data_type = DataType::bf16;
  fp32.data_type = DataType::fp32;
  packed.mode = SequenceMode::group;
  invariant.batch_invariant = true;
  empty.seqlen_k = 0;
  many.batch = 1 << 20;
  for (const AttentionProblem& p : {fp32, packed, invariant, empty, many}) EXPECT_FALSE(may_copy_rows(p));
  many.batch = 100;
  EXPECT_TRUE(may_copy_rows(many));
  // Whole rows of 34 elements have 96 bytes, of two sectors and a half; of 5 elements 16.
  AttentionProblem p = odd_problem(34, 5);
  EXPECT_EQ(rows_of(p).bytes(), 420 * (2 * 96 + 96 + 16 + 2 * 16));
  EXPECT_LT(copy_seconds(arch("sm_90a"), odd_problem(34, 40)), copy_seconds(arch("sm_90a"), odd_problem(34, 41)));
  for (const std::string_view other : {"sm_80", "sm_100a"}) {
    const std::vector<Candidate> candidates = rank(arch(other), p).value().candidates;
    for (const Candidate& one : candidates) EXPECT_TRUE(one.recipe.main().attention().unaligned);
  }
}

TEST(CudaAttentionRank, PredictionsAreTheSumOfTheTerms) {
  const CudaSpec& spec = arch("sm_90a");
  AttentionProblem problem;
  problem.data_type = DataType::bf16;
  problem.batch = 2, problem.heads_q = problem.heads_kv = 4;
  problem.seqlen_q = 4096, problem.seqlen_k = 4096, problem.head_dim_qk = problem.head_dim_v = 128;
  const Ranking ranking = rank(spec, problem).value();
  EXPECT_EQ(ranking.policy, "fitted model");
  const auto terms = model_terms(spec, problem);
  ASSERT_EQ(terms.size(), ranking.candidates.size());
  for (const ModelTerms& one : terms) {
    const CudaAttentionTerms& weights = *spec.attention_model->coefficients(one.config.algorithm.pipeline);
    const double seconds = std::inner_product(weights.begin(), weights.end(), one.values.begin(), 0.0);
    const auto found = std::ranges::find_if(
        ranking.candidates, [&](const Candidate& candidate) { return candidate.recipe.main() == one.config; });
    ASSERT_NE(found, ranking.candidates.end());
    EXPECT_DOUBLE_EQ(found->predicted_seconds, seconds);
  }
}

// Measured on an H200: 571 queries of 3 heads of 64 with 426 keys to the left take 8.9 us, behind 22809 keys as behind
// fewer; with the bytes of all keys 12.6 were predicted.
TEST(CudaAttentionRank, BehindAWindowFewQueriesReadFewKeys) {
  AttentionProblem problem;
  problem.data_type = DataType::bf16;
  problem.batch = 2, problem.heads_q = problem.heads_kv = 3;
  problem.seqlen_q = 571, problem.head_dim_qk = problem.head_dim_v = 64;
  problem.mask = MaskKind::bottom_right;
  const auto bytes_of = [&](std::int64_t keys) {
    problem.seqlen_k = keys;
    return model_terms(arch("sm_90a"), problem).front().values.back();
  };
  EXPECT_GT(bytes_of(200'000), bytes_of(22'809));
  problem.window_left = 426;
  EXPECT_EQ(bytes_of(200'000), bytes_of(22'809));
  EXPECT_LT(bytes_of(700), bytes_of(22'809));
}

// bench/results/cuda-attention-pages.csv, e4m3 in pages of 16 on an H200: 400, 376, 367 and 201 TFLOP/s.
TEST(CudaAttentionRank, KeysOfEightBitsTakeAsManyTimesAsLongAsTheSpecSays) {
  CudaSpec spec = arch("sm_90a");
  AttentionProblem problem;
  problem.data_type = DataType::bf16;
  problem.mask = MaskKind::bottom_right;
  problem.page_size = 16;
  problem.cache = KvElements::fp8;
  problem.heads_q = 32, problem.heads_kv = 8;
  const auto tiles = [&] {
    const Ranking ranking = rank(spec, problem).value();
    const auto first = std::ranges::find_if(
        ranking.candidates, [](const Candidate& one) { return !is_decode(one.recipe.main().algorithm.pipeline); });
    EXPECT_NE(first, ranking.candidates.end());
    return *first;
  };
  const auto expect = [&](std::int64_t batch, std::int64_t queries, std::int64_t keys, std::uint16_t dim,
                          double tflops) {
    problem.batch = batch, problem.seqlen_q = queries, problem.seqlen_k = keys;
    problem.head_dim_qk = problem.head_dim_v = dim;
    const double measured = 4.0 * dim * visible_pairs(problem) / (tflops * 1e12);
    EXPECT_NEAR(tiles().predicted_seconds / measured, 1, 0.12) << queries << " queries, head dim " << dim;
  };
  expect(4, 4096, 4096, 128, 400);
  expect(1, 16384, 16384, 128, 376);
  expect(8, 1024, 8192, 128, 367);
  expect(4, 4096, 4096, 64, 201);
  EXPECT_GT(spec.attention_model->narrow_keys_times(64), spec.attention_model->narrow_keys_times(72));
  EXPECT_EQ(spec.attention_model->narrow_keys_times(72), spec.attention_model->narrow_keys_times(128));
  EXPECT_EQ(spec.attention_model->narrow_keys_times(512), spec.attention_model->narrow_keys_times(256));
  const double before = tiles().predicted_seconds;
  for (NarrowKeys& one : spec.attention_model->narrow_keys) one.times *= 2;
  EXPECT_DOUBLE_EQ(tiles().predicted_seconds, 2 * before);
  problem.cache = KvElements::as_queries;
  const double wide = tiles().predicted_seconds;
  spec.attention_model->narrow_keys.clear();
  EXPECT_EQ(tiles().predicted_seconds, wide) << "keys of the queries' type";
}

TEST(CudaAttentionRank, PredictionsGrowWithTheWork) {
  const auto seconds = [](const CudaAttentionShape& shape) {
    return ranked_cuda_attention(arch("sm_90a"), plain_signature(), shape).front().predicted_seconds;
  };
  double last = 0;
  for (const std::int64_t seqlen : {512, 1024, 4096, 16384}) {
    EXPECT_GT(seconds(cube(seqlen)), last);
    last = seconds(cube(seqlen));
  }
  CudaAttentionShape half = cube(4096);
  half.visible = 0.5;
  EXPECT_LT(seconds(half), seconds(cube(4096)));
  // 4 * 4 * 16 * 4096^2 * 128 operations at about 730 TFLOP/s, as measured.
  EXPECT_NEAR(seconds(cube(4096)), 550e9 / 733e12, 1e-4);
}

}  // namespace
}  // namespace tilesmith
