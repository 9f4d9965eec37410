// Choosing among Composable Kernel's instances that append to a cache: what is chosen serves the call, by the test that
// generated libraries make at run time (kernels/ck).
#include "choose/serving/ck.hpp"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <set>

#include "choose/attention/ck_instances.hpp"
#include "choose/ck_choice.hpp"
#include "choose/random_problem.hpp"
#include "tilesmith_ck/attention.h"

namespace tilesmith {
namespace {

constexpr std::int32_t kPage = 0;

AppendKv random_call(unsigned seed) {
  std::mt19937 random(seed);
  const auto any = [&](std::initializer_list<std::int64_t> values) { return testing::detail::pick(random, values); };
  AppendKv c;
  c.data_type = testing::detail::pick(random, {DataType::bf16, DataType::fp16});
  c.batch = any({1, 3, 64});
  c.heads_kv = any({1, 2, 8});
  c.heads_q = c.heads_kv * any({1, 4});
  c.head_dim_qk = any({32, 64, 72, 128, 192, 256});
  c.head_dim_v = random() % 3 == 0 ? any({32, 64, 128}) : c.head_dim_qk;
  c.seqlen = any({1, 5, 64, 128, 1000});
  if (random() % 2 == 0) c.pages.numbers = &kPage;
  c.rotary.dim = any({0, 0, 32, 64});
  c.rotary.style = random() % 2 == 0 ? RotaryStyle::half : RotaryStyle::interleaved;
  return c;
}

TEST(CkAppendKv, InstancesServeTheCall) {
  std::size_t instances = 0, turning = 0, unpadded = 0;
  for (const std::string_view arch : testing::kCkChips) {
    const CkFacts chip = testing::ck_facts(arch);
    for (unsigned seed = 0; seed < 40; ++seed) {
      const AppendKv call = random_call(seed);
      SCOPED_TRACE(fmt::format("{} seed {}", arch, seed));
      const auto ranking = rank(chip, call);
      if (!ranking) {
        EXPECT_EQ(ranking.error().code, ErrorCode::unsupported) << ranking.error().text();
        continue;
      }
      EXPECT_TRUE(std::ranges::is_sorted(ranking->candidates, {}, &Candidate::predicted_seconds));
      std::set<Key128> keys;
      for (const Candidate& candidate : ranking->candidates) {
        const KernelConfig& config = candidate.recipe.main();
        const AttentionSignature& s = config.attention();
        const Algorithm& g = config.algorithm;
        EXPECT_TRUE(keys.insert(key_of(config)).second) << kernel_name(config);
        tilesmith_ck::AttentionRecord r;
        r.family = tilesmith_ck::Family::fwd_appendkv;
        r.type = s.data_type == DataType::bf16 ? tilesmith_ck::Type::bf16 : tilesmith_ck::Type::fp16;
        r.hdim_q = s.head_dim_qk;
        r.hdim_v = s.head_dim_v;
        r.m0 = g.tile[0];
        r.n0 = g.tile[1];
        r.pad_s = g.pad[0];
        r.pad_sk = g.pad[1];
        r.pad_d = g.pad[2];
        r.pad_dv = g.pad[3];
        r.paged_kv = s.paged_kv;
        r.rope = static_cast<tilesmith_ck::Rope>(s.rope);
        tilesmith_ck::AttentionArguments a;
        a.family = r.family;
        a.type = call.data_type == DataType::bf16 ? tilesmith_ck::Type::bf16 : tilesmith_ck::Type::fp16;
        a.hdim_q = static_cast<int>(call.head_dim_qk);
        a.hdim_v = static_cast<int>(call.head_dim_v);
        a.nhead_q = static_cast<int>(call.heads_q);
        a.nhead_k = static_cast<int>(call.heads_kv);
        a.seqlen_q = a.seqlen_k_new = static_cast<int>(call.seqlen);
        a.rope = call.rotary.dim == 0                            ? tilesmith_ck::Rope::none
                 : call.rotary.style == RotaryStyle::interleaved ? tilesmith_ck::Rope::interleaved
                                                                 : tilesmith_ck::Rope::half_rotated;
        static int table = 0;
        a.block_table = call.pages.numbers != nullptr ? &table : nullptr;
        EXPECT_TRUE(tilesmith_ck::serves(r, a)) << kernel_name(config);
        ++instances;
        turning += s.rope != RopeKind::none;
        unpadded += ck_padded_dimensions(config) < 4;
      }
      const auto refused = refusals(chip, call);
      for (const Refusal& refusal : refused.value()) EXPECT_FALSE(keys.contains(key_of(refusal.config)));
    }
  }
  EXPECT_GT(instances, 100u);
  EXPECT_GT(turning, 0u);
  EXPECT_GT(unpadded, 0u);
}

TEST(CkAppendKv, SaysWhyThereIsNone) {
  const CkFacts chip = testing::ck_facts("gfx942");
  const auto text = [&](auto change) {
    AppendKv c;
    c.heads_q = 8;
    change(c);
    const auto ranking = rank(chip, c);
    return ranking ? std::string() : ranking.error().text();
  };
  EXPECT_EQ(text([](AppendKv&) {}), "");
  EXPECT_NE(text([](AppendKv& c) { c.cache = KvElements::int8; }).find("type of the new tokens"), std::string::npos);
  EXPECT_NE(text([](AppendKv& c) { c.mode = SequenceMode::group; }).find("offsets"), std::string::npos);
  EXPECT_NE(text([](AppendKv& c) { c.rotary.dim = 24; }).find("multiple of 16"), std::string::npos);
  EXPECT_NE(text([](AppendKv& c) { c.rotary.dim = 32, c.heads_q = 0; }).find("query heads"), std::string::npos);
  EXPECT_NE(text([](AppendKv& c) { c.heads_kv = 0; }).find("at least 1"), std::string::npos);
  EXPECT_NE(text([](AppendKv& c) { c.head_dim_qk = 65536 + 128; }).find("1 to 65535"), std::string::npos);
  EXPECT_NE(text([](AppendKv& c) { c.batch = -1; }).find("at least 0"), std::string::npos);
  EXPECT_NE(text([](AppendKv& c) { c.head_dim_qk = 300; }).find("head dims 300x128"), std::string::npos);
  EXPECT_NE(text([](AppendKv& c) { c.data_type = DataType::fp32; }).find("none of fp32"), std::string::npos);
}

}  // namespace
}  // namespace tilesmith
