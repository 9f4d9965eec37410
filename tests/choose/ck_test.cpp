// Choosing among Composable Kernel's instances: what is chosen serves the problem, by the test that generated libraries
// make at run time (kernels/ck); upstream's order by figures computed by hand.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "choose/attention/ck.hpp"
#include "choose/attention/ck_instances.hpp"
#include "choose/attention_backward/ck.hpp"
#include "choose/conv/ck.hpp"
#include "choose/gemm/ck.hpp"
#include "choose/random_problem.hpp"
#include "problem/gemm/transpose.hpp"
#include "spec/hip/spec.hpp"
#include "tilesmith_ck/attention.h"
#include "tilesmith_ck/conv.h"
#include "tilesmith_ck/gemm.h"
#include "vocabulary/names/name.hpp"

namespace tilesmith {
namespace {

constexpr std::string_view kChips[] = {"gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"};

CkFacts facts(std::string_view arch) {
  const std::vector<HipSpec> specs = load_hip_specs().value();
  const auto spec = std::ranges::find_if(specs, [&](const HipSpec& each) { return each.arch.text() == arch; });
  return {**find_amd_chip(arch), spec->reference};
}

tilesmith_ck::Type type_of(DataType type) {
  using T = tilesmith_ck::Type;
  constexpr std::pair<DataType, T> kTypes[] = {
      {DataType::fp32, T::fp32}, {DataType::tf32, T::fp32}, {DataType::fp16, T::fp16},      {DataType::bf16, T::bf16},
      {DataType::fp8, T::fp8},   {DataType::bf8, T::bf8},   {DataType::fp8bf16, T::fp8bf16}};
  return std::ranges::find(kTypes, type, &std::pair<DataType, T>::first)->second;
}

tilesmith_ck::AttentionRecord record_of(const KernelConfig& config) {
  using tilesmith_ck::PipelineKind;
  const AttentionSignature& s = config.attention();
  const Algorithm& a = config.algorithm;
  tilesmith_ck::AttentionRecord r;
  r.family = static_cast<tilesmith_ck::Family>(s.family);
  r.type = type_of(s.data_type);
  r.group = s.mode == SequenceMode::group;
  r.hdim_q = s.head_dim_qk;
  r.hdim_v = s.head_dim_v;
  r.m0 = a.tile[0];
  r.n0 = a.tile[1];
  r.n1 = a.tile[3];
  r.k0max = a.tile[5];
  r.pad_s = a.pad[0];
  r.pad_sk = a.pad[1];
  r.pad_d = a.pad[2];
  r.pad_dv = a.pad[3];
  r.mask = s.mask == tilesmith::MaskKind::none ? tilesmith_ck::MaskKind::no : tilesmith_ck::MaskKind::generic;
  r.bias = static_cast<tilesmith_ck::Bias>(s.bias);
  r.lse = s.lse;
  r.dropout = s.dropout;
  r.soft_cap = s.soft_cap;
  r.sink = s.sink;
  r.skip_min_seqlen_q = s.skip_min_seqlen_q;
  r.paged_kv = s.paged_kv;
  r.deterministic = s.deterministic;
  r.dbias = s.dbias;
  r.qscale = static_cast<tilesmith_ck::QuantScale>(s.qscale);
  r.page_size = s.page_size;
  r.kv_layout = static_cast<tilesmith_ck::KvLayout>(s.kv_layout);
  r.kv_lookup = static_cast<tilesmith_ck::KvLookup>(s.kv_lookup);
  r.max_seqlen_q = a.max_seqlen_q;
  r.pipeline = a.pipeline == Pipeline::qr_async             ? PipelineKind::async
               : a.pipeline == Pipeline::qr_async_trload    ? PipelineKind::transposed
               : a.pipeline == Pipeline::qr_async_trload_v3 ? PipelineKind::v3
                                                            : PipelineKind::plain;
  return r;
}

/// What a program would fill in, for an instance of the family.
template <class Problem>
tilesmith_ck::AttentionArguments arguments_of(const Problem& p, const KernelConfig& config) {
  static int somewhere = 0;
  tilesmith_ck::AttentionArguments a;
  a.family = static_cast<tilesmith_ck::Family>(config.attention().family);
  a.type = type_of(p.data_type);
  a.group = p.mode == SequenceMode::group;
  const bool masked = p.mask != tilesmith::MaskKind::none || p.window_left >= 0 || p.window_right >= 0;
  a.mask = masked ? tilesmith_ck::MaskKind::top_left : tilesmith_ck::MaskKind::no;
  a.bias_kind = static_cast<tilesmith_ck::Bias>(p.bias);
  a.with_dropout = p.dropout;
  a.with_soft_cap = p.soft_cap;
  a.with_sink = p.sink;
  a.batch = static_cast<int>(p.batch);
  a.seqlen_q = static_cast<int>(p.seqlen_q);
  a.seqlen_k = static_cast<int>(p.seqlen_k);
  a.hdim_q = static_cast<int>(p.head_dim_qk);
  a.hdim_v = static_cast<int>(p.head_dim_v);
  a.nhead_q = static_cast<int>(p.heads_q);
  a.nhead_k = static_cast<int>(p.heads_kv);
  if (p.mode == SequenceMode::group) a.cu_seqlen_k = &somewhere;
  if constexpr (requires { p.page_size; }) {
    a.with_lse = p.lse;
    if (input_type(p.data_type) == DataType::fp8)
      a.qscale = p.block_scale ? tilesmith_ck::QuantScale::blockscale : tilesmith_ck::QuantScale::pertensor;
    if (p.page_size > 0) {
      a.block_table = &somewhere;
      a.cu_seqlen_k = &somewhere;
      a.page_block_size = static_cast<int>(p.page_size);
      a.kv_layout = tilesmith_ck::KvLayout::linear;
      a.kv_lookup = tilesmith_ck::KvLookup::vllm;
    }
  } else {
    a.with_dbias = p.dbias;
    a.deterministic = true;
  }
  return a;
}

/// A random problem, some with pages.
AttentionProblem attention_problem(unsigned seed) {
  AttentionProblem p = testing::random_attention(seed);
  std::mt19937 random(seed ^ 0x9e3779b9u);
  if (random() % 3 == 0) p.page_size = std::array<std::int64_t, 4>{1, 16, 64, 1024}[random() % 4];
  if (random() % 4 == 0) p.splits = 1 + random() % 9;
  if (random() % 3 == 0) p.seqlen_q = 64 * (1 + random() % 40);  // whole tiles, and few of them
  if (seed % 8 == 0) {                                           // what batch_prefill takes
    p.mode = SequenceMode::group;
    p.page_size = 16;
    p.sink = false;
  }
  return p;
}

/// Of both policies: the recipes serve, each is there once, and twice the same call gives the same order. Returns how
/// many recipes the model ranks.
template <class Problem, class Check>
std::size_t check(const CkFacts& chip, const Problem& p, const Check& check_step) {
  const auto by_model = rank(chip, p);
  if (!by_model) {
    EXPECT_EQ(by_model.error().code, ErrorCode::unsupported) << by_model.error().text();
    EXPECT_FALSE(upstream_ranking(chip, p).has_value());
    return 0;
  }
  EXPECT_TRUE(std::ranges::is_sorted(by_model->candidates, {}, &Candidate::predicted_seconds));
  EXPECT_EQ(by_model->policy, "model");
  const auto by_upstream = upstream_ranking(chip, p);
  EXPECT_TRUE(by_upstream.has_value());
  EXPECT_FALSE(by_upstream->candidates.empty());
  EXPECT_LE(by_upstream->candidates.size(), by_model->candidates.size());
  std::set<Key128> keys;
  for (const Candidate& candidate : by_model->candidates) {
    EXPECT_TRUE(keys.insert(key_of(candidate.recipe)).second) << recipe_name(candidate.recipe);
    EXPECT_GT(candidate.predicted_seconds, 0);
    EXPECT_LT(candidate.predicted_seconds, 1e4);
    for (const Step& step : candidate.recipe.steps) {
      EXPECT_EQ(step.config.origin, Origin::ck);
      EXPECT_TRUE(check_step(step.config)) << kernel_name(step.config);
    }
  }
  for (const Candidate& candidate : by_upstream->candidates)
    EXPECT_TRUE(keys.contains(key_of(candidate.recipe))) << recipe_name(candidate.recipe);
  const Recipe& first = by_upstream->candidates.front().recipe;
  EXPECT_TRUE(serves(chip, first, p).has_value()) << recipe_name(first);
  const auto again = rank(chip, p);
  EXPECT_TRUE(std::ranges::equal(again->candidates, by_model->candidates, {}, &Candidate::recipe, &Candidate::recipe));
  const auto refused = refusals(chip, p);
  for (const Refusal& refusal : refused.value()) {
    EXPECT_FALSE(keys.contains(key_of(Recipe(refusal.config)))) << kernel_name(refusal.config);
    EXPECT_FALSE(refusal.rule.empty());
    EXPECT_FALSE(refusal.figures.empty());
  }
  return by_model->candidates.size();
}

TEST(CkChoice, AttentionInstancesServeTheProblem) {
  std::map<AttentionFamily, std::size_t> met;
  for (const std::string_view arch : kChips) {
    const CkFacts chip = facts(arch);
    for (unsigned seed = 0; seed < 24; ++seed) {
      const AttentionProblem p = attention_problem(seed);
      SCOPED_TRACE(fmt::format("{} seed {}", arch, seed));
      check(chip, p, [&](const KernelConfig& config) {
        ++met[config.attention().family];
        return tilesmith_ck::serves(record_of(config), arguments_of(p, config));
      });
    }
  }
  using F = AttentionFamily;
  for (const F family : {F::fwd, F::fwd_splitkv, F::fwd_splitkv_combine, F::fwd_pagedkv, F::batch_prefill})
    EXPECT_GT(met[family], 0u) << name_of(family);
}

TEST(CkChoice, BackwardRecipesServeTheProblem) {
  std::size_t recipes = 0;
  for (const std::string_view arch : kChips) {
    const CkFacts chip = facts(arch);
    for (unsigned seed = 0; seed < 24; ++seed) {
      const AttentionProblem forward = testing::random_attention(seed);
      AttentionBackwardProblem p{
          .data_type = forward.data_type == DataType::fp8bf16 ? DataType::bf16 : forward.data_type,
          .mode = forward.mode,
          .batch = forward.batch,
          .heads_q = forward.heads_q,
          .heads_kv = forward.heads_kv,
          .seqlen_q = forward.seqlen_q,
          .seqlen_k = forward.seqlen_k,
          .head_dim_qk = forward.head_dim_qk,
          .head_dim_v = forward.head_dim_v,
          .mask = forward.mask,
          .window_left = forward.window_left,
          .bias = forward.bias,
          .dropout = forward.dropout};
      p.dbias = p.bias == BiasKind::elementwise && seed % 2 == 0;
      SCOPED_TRACE(fmt::format("{} seed {}", arch, seed));
      recipes += check(chip, p, [&](const KernelConfig& config) {
        return tilesmith_ck::serves(record_of(config), arguments_of(p, config));
      });
    }
  }
  EXPECT_GT(recipes, 100u);
}

tilesmith_ck::GemmType gemm_type(DataType type) {
  using T = tilesmith_ck::GemmType;
  switch (type) {
    case DataType::fp32:
    case DataType::tf32:
      return T::fp32;
    case DataType::fp16:
      return T::fp16;
    case DataType::bf16:
      return T::bf16;
    case DataType::fp8:
      return T::fp8;
    case DataType::bf8:
      return T::bf8;
    case DataType::int8:
      return T::int8;
    default:
      return T::int32;
  }
}

TEST(CkChoice, GemmInstancesServeTheProblem) {
  std::size_t instances = 0, multi = 0, lists = 0;
  for (const std::string_view arch : kChips) {
    const CkFacts chip = facts(arch);
    for (unsigned seed = 0; seed < 24; ++seed) {
      GemmProblem asked = testing::random_gemm(seed);
      std::mt19937 random(seed);
      asked.beta = asked.packed_b = asked.unaligned = false;
      asked.grouping = GemmGrouping::none;
      asked.k2 = 0;
      if (asked.group_size != 0) continue;
      asked.epilogue = {};
      if (asked.type_a == DataType::fp8) asked.type_d = DataType::fp16;
      asked.type_c = asked.type_d;
      asked.batch = random() % 4 == 0 ? 3 : 1;
      for (auto i = random() % 3; i > 0 && asked.type_d != DataType::int32; --i)
        asked.epilogue.push_back(EpilogueOp::add);
      if (seed % 3 == 0) {  // whole tiles, every other time of a list
        asked.type_a = asked.type_b = asked.type_c = asked.type_d = DataType::bf16;
        if (seed % 2 == 0) asked.epilogue = {};
        asked.batch = seed % 2 == 0 ? 3 : 1;
        asked.m = 64 * (1 + static_cast<std::int64_t>(random() % 40));
        asked.n = asked.k = 512;
      }
      SCOPED_TRACE(fmt::format("{} seed {}", arch, seed));
      const GemmProblem p = with_row_d(asked);
      instances += check(chip, asked, [&](const KernelConfig& config) {
        const auto& s = std::get<GemmSignature>(config.signature);
        const Algorithm& g = config.algorithm;
        const tilesmith_ck::GemmRecord r{.a = gemm_type(s.a),
                                         .b = gemm_type(s.b),
                                         .c = gemm_type(s.c),
                                         .a_by_rows = s.layout_a == MatrixOrder::row,
                                         .b_by_rows = s.layout_b == MatrixOrder::row,
                                         .tile_m = g.tile[0],
                                         .tile_n = g.tile[1],
                                         .tile_k = g.tile[2],
                                         .pad_m = g.pad[0] != 0,
                                         .pad_n = g.pad[1] != 0,
                                         .pad_k = g.pad[2] != 0,
                                         .preshuffle = g.preshuffle,
                                         .num_d = s.num_d,
                                         .elementwise = s.num_d > 0 ? tilesmith_ck::Elementwise::multi_d_add
                                                                    : tilesmith_ck::Elementwise::pass_through,
                                         .grouped = s.family == GemmFamily::grouped_gemm};
        tilesmith_ck::GemmArguments a;
        a.type_a = gemm_type(p.type_a);
        a.type_b = gemm_type(p.type_b);
        a.type_c = gemm_type(p.type_d);
        a.a_by_rows = p.order_a == MatrixOrder::row;
        a.b_by_rows = p.order_b == MatrixOrder::row;
        a.num_d = static_cast<int>(p.epilogue.size());
        if (a.num_d > 0) a.elementwise = tilesmith_ck::Elementwise::multi_d_add;
        a.m = static_cast<int>(p.m);
        a.n = static_cast<int>(p.n);
        a.k = static_cast<int>(p.k);
        const tilesmith_ck::GemmGroup group{.m = a.m, .n = a.n, .k = a.k};
        if (p.batch > 1) {
          a.groups = &group;
          a.num_groups = 1;
        }
        multi += s.num_d > 0;
        lists += r.grouped;
        return tilesmith_ck::serves(r, a);
      });
    }
  }
  EXPECT_GT(instances, 1000u);
  EXPECT_GT(multi, 0u);
  EXPECT_GT(lists, 0u);
}

TEST(CkChoice, ConvolutionsServeTheProblem) {
  std::size_t instances = 0, depthwise = 0, three = 0;
  for (const std::string_view arch : kChips) {
    const CkFacts chip = facts(arch);
    for (unsigned seed = 0; seed < 24; ++seed) {
      std::mt19937 random(seed);
      const auto any = [&](std::initializer_list<std::int64_t> values) {
        return testing::detail::pick(random, values);
      };
      ConvProblem p;
      p.direction = testing::detail::pick(
          random, {ConvDirection::forward, ConvDirection::backward_data, ConvDirection::backward_weight});
      p.data_type = p.type_out = testing::detail::pick(random, {DataType::bf16, DataType::fp16});
      p.batch = any({1, 2, 32});
      p.groups = any({1, 1, 4, 32});
      p.c = any({1, 3, 8, 64, 256});
      p.k = any({1, 8, 64, 130});
      p.in_h = p.in_w = any({7, 28, 56});
      p.filter_h = p.filter_w = any({1, 3, 5});
      p.stride_h = p.stride_w = any({1, 1, 2});
      p.pad_h = p.pad_w = p.pad_high_h = p.pad_high_w = any({0, (p.filter_h - 1) / 2});
      if (seed % 4 == 1) p.in_d = 8;
      if (seed % 4 == 2) {  // what a depthwise kernel takes
        p.direction = ConvDirection::forward;
        p.data_type = p.type_out = DataType::fp16;
        p.c = p.k = 1;
        p.filter_h = p.filter_w = 3;
        p.pad_h = p.pad_w = p.pad_high_h = p.pad_high_w = 1;
      }
      SCOPED_TRACE(fmt::format("{} seed {}", arch, seed));
      const auto ranking = rank(chip, p);
      if (!ranking) {
        EXPECT_EQ(ranking.error().code, ErrorCode::unsupported);
        continue;
      }
      EXPECT_TRUE(std::ranges::is_sorted(ranking->candidates, {}, &Candidate::predicted_seconds));
      std::set<Key128> keys;
      for (const Candidate& candidate : ranking->candidates) {
        const KernelConfig& config = candidate.recipe.main();
        const auto& s = std::get<ConvSignature>(config.signature);
        const Algorithm& g = config.algorithm;
        EXPECT_TRUE(keys.insert(key_of(config)).second) << kernel_name(config);
        const tilesmith_ck::ConvRecord r{
            .direction = static_cast<tilesmith_ck::ConvDirection>(s.direction),
            .type = s.data_type == DataType::fp16 ? tilesmith_ck::ConvType::fp16 : tilesmith_ck::ConvType::bf16,
            .dims = s.spatial_dims,
            .filter = static_cast<tilesmith_ck::ConvFilter>(s.specialization),
            .groups_merged = g.groups_merged,
            .two_stage = s.two_stage,
            .stream_k = s.stream_k_reduction != StreamKReduction::none,
            .depthwise = s.depthwise,
            .filter_size = s.filter[0],
            .stride_h = s.stride[0],
            .stride_w = s.stride[1],
            .pad = s.padding[0],
            .images = s.depthwise ? g.images : 1};
        tilesmith_ck::ConvArguments a;
        a.direction = static_cast<tilesmith_ck::ConvDirection>(p.direction);
        a.type = p.data_type == DataType::fp16 ? tilesmith_ck::ConvType::fp16 : tilesmith_ck::ConvType::bf16;
        a.depthwise = s.depthwise;
        a.dims = p.in_d > 1 ? 3 : 2;
        a.groups = static_cast<int>(p.groups);
        a.n = static_cast<int>(p.batch);
        a.c = static_cast<int>(p.c);
        a.k = static_cast<int>(p.k);
        for (int i = 0; i < a.dims; ++i) {
          const auto at = static_cast<std::size_t>(3 - a.dims + i);
          a.input[i] = static_cast<int>(p.in()[at]);
          a.filter[i] = static_cast<int>(p.filter()[at]);
          a.stride[i] = static_cast<int>(p.stride()[at]);
          a.left_pad[i] = static_cast<int>(p.pad()[at]);
          a.right_pad[i] = static_cast<int>(p.pad_high()[at]);
        }
        EXPECT_TRUE(tilesmith_ck::serves(r, a)) << kernel_name(config);
        ++instances;
        depthwise += s.depthwise;
        three += s.spatial_dims == 3;
      }
      EXPECT_TRUE(serves(chip, ranking->candidates.front().recipe, p).has_value());
    }
  }
  EXPECT_GT(instances, 500u);
  EXPECT_GT(depthwise, 0u);
  EXPECT_GT(three, 0u);
}

AttentionProblem prefill(std::int64_t seqlen_q, std::int64_t seqlen_k) {
  AttentionProblem p;
  p.heads_q = p.heads_kv = 32;
  p.seqlen_q = seqlen_q;
  p.seqlen_k = seqlen_k;
  return p;
}

// blocks = batch x heads x ceil(sq / 64); places = 2 x 304 on an MI300X. The least number of parts whose rounds are
// full to within 0.85 of the best.
TEST(CkUpstream, SplitsKeysByItsRule) {
  const CkFacts chip = facts("gfx942");
  ASSERT_EQ(chip.reference.compute_units, 304);
  // 32 blocks: 19 parts fill the 608 places; 17 fill 544 of them, 0.895; 16 only 0.842
  EXPECT_EQ(ck_num_splits(chip, prefill(1, 8192), 64), 17);
  EXPECT_EQ(ck_num_splits(chip, prefill(64, 8192), 64), 17);
  // not more parts than blocks of keys: 4 of 128 keys, of which 4 are the fullest: 128 of 608, 3 are 0.75 of that
  EXPECT_EQ(ck_num_splits(chip, prefill(1, 512), 128), 4);
  // 512 blocks are 0.84 of the places, above 0.8
  EXPECT_EQ(ck_num_splits(chip, prefill(1024, 8192), 64), 1);
  // 480 blocks (0.789): two parts are 1.579 rounds, 0.789; the best of 128 is found at 19 (15 rounds), and 0.85 of it
  // is met by 5 parts already: 3.947 rounds, 0.987
  AttentionProblem p = prefill(64, 16384);
  p.batch = 15;
  EXPECT_EQ(ck_num_splits(chip, p, 64), 5);
  p.splits = 3;
  EXPECT_EQ(ck_num_splits(chip, p, 64), 3);
  p.splits = 1000;
  EXPECT_EQ(ck_num_splits(chip, p, 64), 128);
}

TEST(CkUpstream, ScoresTilesByItsCategories) {
  EXPECT_EQ(ck_category(64, 64, 256), 0);    // one whole tile
  EXPECT_EQ(ck_category(128, 128, 128), 0);  // also where it is the largest
  EXPECT_EQ(ck_category(65, 64, 256), 1);    // 64 rows take everything
  EXPECT_EQ(ck_category(2048, 64, 256), 1);
  EXPECT_EQ(ck_category(2048, 256, 256), 2);
  EXPECT_EQ(ck_category(2048, 128, 256), 3);
  EXPECT_EQ(ck_category(200, 128, 256), 4);
  EXPECT_EQ(ck_category(32, 128, 256), 4);  // a part of a tile
  EXPECT_EQ(ck_category(0, 128, 256), 4);
}

TEST(CkUpstream, TakesTheFirstByCategoryRowsAndPadding) {
  const auto first = [](std::string_view arch, const AttentionProblem& p) {
    return upstream_ranking(facts(arch), p)->candidates.front().recipe;
  };
  // bf16, 128x128 on gfx942: all tiles of qr_async have 128 rows, k0 of 16 is the first; keys of whole blocks
  // of 128 are not padded
  AttentionProblem p = prefill(2048, 2048);
  p.batch = 4;
  EXPECT_EQ(
      recipe_name(first("gfx942", p))
          .find("fmha_fwd_bf16_batch_h128_qr_async_t128x128x16x128x32x128_w32x32x16_pad1011_mask=no_bias=no_bpc=-1"),
      0u)
      << recipe_name(first("gfx942", p));
  p.seqlen_k = 2000;
  EXPECT_EQ(first("gfx942", p).main().algorithm.pad, (std::array<std::uint8_t, 4>{1, 1, 1, 1}));
  // gfx950 tries v3 first, which needs a kernel without log-sum-exp; a single query does without
  p.seqlen_k = 2048;
  EXPECT_EQ(first("gfx950", p).main().algorithm.pipeline, Pipeline::qr_async_trload_v3);
  p.lse = true;
  EXPECT_NE(first("gfx950", p).main().algorithm.pipeline, Pipeline::qr_async_trload_v3);
  // 96 columns of q and 128 of v, 100 rows: tiles of 64, 128, 192 and 256 rows; 64 takes everything
  p = prefill(100, 2048);
  p.head_dim_qk = 96;
  p.batch = 64;
  EXPECT_EQ(first("gfx942", p).main().algorithm.tile[0], 64);
  p.seqlen_q = 192;  // one whole tile of 192 rows
  EXPECT_EQ(first("gfx942", p).main().algorithm.tile[0], 192);
  // a single query against long keys is split, and its parts are combined
  const Recipe decode = first("gfx942", prefill(1, 8192));
  ASSERT_EQ(decode.steps.size(), 2u);
  EXPECT_EQ(decode.steps[0].config.attention().family, AttentionFamily::fwd_splitkv);
  EXPECT_EQ(decode.steps[1].config.attention().family, AttentionFamily::fwd_splitkv_combine);
  EXPECT_EQ(first("gfx942", prefill(4096, 4096)).steps.size(), 1u);
}

TEST(CkUpstream, TakesTheSmallestHeadDimsThatServe) {
  const CkFacts chip = facts("gfx942");
  AttentionProblem p = prefill(512, 512);
  p.head_dim_qk = p.head_dim_v = 72;
  const Ranking ranking = rank(chip, p).value();
  for (const Candidate& candidate : ranking.candidates) {
    const AttentionSignature& s = candidate.recipe.main().attention();
    EXPECT_EQ(s.head_dim_qk, 80) << kernel_name(candidate.recipe.main());
    EXPECT_EQ(s.head_dim_v, 96) << kernel_name(candidate.recipe.main());
  }
  p.head_dim_qk = p.head_dim_v = 300;
  EXPECT_EQ(rank(chip, p).error().code, ErrorCode::unsupported);
}

TEST(CkUpstream, GemmTakesTheFirstOfItsListThatSupportsTheSizes) {
  const CkFacts chip = facts("gfx942");
  const GemmProblem whole = gemm_problem(DataType::fp16, 4096, 4096, 4096);
  const auto first = upstream_ranking(chip, whole)->candidates.front().recipe.main();
  EXPECT_EQ(first.algorithm.pad, (std::array<std::uint8_t, 4>{}));
  // No tile of the sweep has 40 columns or divides them: only the preselected sets pad.
  const auto padded = upstream_ranking(chip, gemm_problem(DataType::fp16, 4096, 4000, 4096));
  ASSERT_TRUE(padded.has_value()) << padded.error().text();
  const Ranking odd = upstream_ranking(chip, gemm_problem(DataType::fp16, 4090, 4096, 4096)).value();
  for (const Candidate& candidate : odd.candidates) EXPECT_EQ(candidate.recipe.main().algorithm.pad[0], 1);
}

TEST(CkChoice, SaysWhyThereIsNone) {
  const auto hint = [](std::string_view arch, const auto& p) { return rank(facts(arch), p).error().text(); };
  AttentionProblem p = prefill(512, 512);
  p.data_type = DataType::fp8bf16;
  EXPECT_NE(hint("gfx942", p).find("fnuz"), std::string::npos) << hint("gfx942", p);
  EXPECT_TRUE(rank(facts("gfx950"), p).has_value());
  p = prefill(512, 512);
  p.soft_cap = true;
  p.bias = BiasKind::alibi;
  EXPECT_NE(hint("gfx950", p).find("traits"), std::string::npos) << hint("gfx950", p);
  GemmProblem g = gemm_problem(DataType::bf16, 512, 512, 512);
  g.epilogue = {EpilogueOp::gelu};
  EXPECT_NE(hint("gfx950", g).find("epilogue"), std::string::npos) << hint("gfx950", g);
  g = gemm_problem(DataType::bf16, 512, 511, 512);
  EXPECT_NE(hint("gfx950", g).find("vectors"), std::string::npos) << hint("gfx950", g);
  const Ranking ranking = rank(facts("gfx942"), prefill(512, 512)).value();
  AttentionProblem other = prefill(512, 512);
  other.lse = true;
  EXPECT_EQ(serves(facts("gfx942"), ranking.candidates.front().recipe, other).error().code,
            ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace tilesmith
