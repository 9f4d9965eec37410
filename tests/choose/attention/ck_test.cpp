// Choosing among Composable Kernel's attention instances: what is chosen serves the problem, by the test that generated
// libraries make at run time (kernels/ck); upstream's order by figures computed by hand.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "choose/attention/ck.hpp"
#include "choose/attention/ck_instances.hpp"
#include "choose/attention_backward/ck.hpp"
#include "choose/ck_choice.hpp"
#include "choose/random_problem.hpp"
#include "tilesmith_ck/attention.h"

namespace tilesmith {
namespace {

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

TEST(CkAttention, InstancesServeTheProblem) {
  std::map<AttentionFamily, std::size_t> met;
  for (const std::string_view arch : testing::kCkChips) {
    const CkFacts chip = testing::ck_facts(arch);
    for (unsigned seed = 0; seed < 24; ++seed) {
      const AttentionProblem p = attention_problem(seed);
      SCOPED_TRACE(fmt::format("{} seed {}", arch, seed));
      testing::check_ck_choice(chip, p, [&](const KernelConfig& config) {
        ++met[config.attention().family];
        return tilesmith_ck::serves(record_of(config), arguments_of(p, config));
      });
    }
  }
  using F = AttentionFamily;
  for (const F family : {F::fwd, F::fwd_splitkv, F::fwd_splitkv_combine, F::fwd_pagedkv, F::batch_prefill})
    EXPECT_GT(met[family], 0u) << name_of(family);
}

TEST(CkAttention, BackwardRecipesServeTheProblem) {
  std::size_t recipes = 0;
  for (const std::string_view arch : testing::kCkChips) {
    const CkFacts chip = testing::ck_facts(arch);
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
      recipes += testing::check_ck_choice(chip, p, [&](const KernelConfig& config) {
        return tilesmith_ck::serves(record_of(config), arguments_of(p, config));
      });
    }
  }
  EXPECT_GT(recipes, 100u);
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
TEST(CkAttention, SplitsKeysByItsRule) {
  const CkFacts chip = testing::ck_facts("gfx942");
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

TEST(CkAttention, ScoresTilesByItsCategories) {
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

TEST(CkAttention, TakesTheFirstByCategoryRowsAndPadding) {
  const auto first = [](std::string_view arch, const AttentionProblem& p) {
    return upstream_ranking(testing::ck_facts(arch), p)->candidates.front().recipe;
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
  // 96 columns of q and 128 of v, 100 rows: tiles of 64, 128 and 256 rows; 64 takes everything
  p = prefill(100, 2048);
  p.head_dim_qk = 96;
  p.batch = 64;
  EXPECT_EQ(first("gfx942", p).main().algorithm.tile[0], 64);
  p.seqlen_q = 128;  // one whole tile of 128 rows
  EXPECT_EQ(first("gfx942", p).main().algorithm.tile[0], 128);
  // a single query against long keys is split, and its parts are combined
  const Recipe decode = first("gfx942", prefill(1, 8192));
  ASSERT_EQ(decode.steps.size(), 2u);
  EXPECT_EQ(decode.steps[0].config.attention().family, AttentionFamily::fwd_splitkv);
  EXPECT_EQ(decode.steps[1].config.attention().family, AttentionFamily::fwd_splitkv_combine);
  EXPECT_EQ(first("gfx942", prefill(4096, 4096)).steps.size(), 1u);
}

TEST(CkAttention, TakesTheSmallestHeadDimsThatServe) {
  const CkFacts chip = testing::ck_facts("gfx942");
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

TEST(CkAttention, SaysWhyThereIsNone) {
  const auto text = [](std::string_view arch, const auto& p) {
    return rank(testing::ck_facts(arch), p).error().text();
  };
  AttentionProblem p = prefill(512, 512);
  p.data_type = DataType::fp8bf16;
  EXPECT_NE(text("gfx942", p).find("fnuz"), std::string::npos) << text("gfx942", p);
  EXPECT_TRUE(rank(testing::ck_facts("gfx950"), p).has_value());
  p = prefill(512, 512);
  p.soft_cap = true;
  p.bias = BiasKind::alibi;
  EXPECT_NE(text("gfx950", p).find("traits"), std::string::npos) << text("gfx950", p);
  const Ranking ranking = rank(testing::ck_facts("gfx942"), prefill(512, 512)).value();
  AttentionProblem other = prefill(512, 512);
  other.lse = true;
  EXPECT_EQ(serves(testing::ck_facts("gfx942"), ranking.candidates.front().recipe, other).error().code,
            ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace tilesmith
