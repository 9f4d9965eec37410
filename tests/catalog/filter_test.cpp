// Filters: the same rows as a plain loop keeps, and nothing that is not an expression over fields.
#include "catalog/filter.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "catalog/filter_columns.hpp"
#include "vocabulary/names/name.hpp"
#include "vocabulary/random_config.hpp"

namespace tilesmith {
namespace {

std::vector<KernelConfig> random_attention(std::size_t count) {
  std::mt19937_64 random(11);
  std::vector<KernelConfig> configs;
  while (configs.size() < count) {
    KernelConfig config = testing::random_config(random);
    if (config.operation() == Operation::attention) configs.push_back(config);
  }
  return configs;
}

using Predicate = std::function<bool(const AttentionSignature&, const Algorithm&)>;
struct Case {
  const char* expression;
  Predicate plain;
};

TEST(Filter, KeepsWhatAPlainLoopKeeps) {
  using S = AttentionSignature;
  using A = Algorithm;
  const Case cases[] = {
      {"c.hdim_q == 128 and c.pipeline == 'qr_async'",
       [](const S& s, const A& a) { return s.head_dim_qk == 128 && a.pipeline == Pipeline::qr_async; }},
      {"c.head_dim_qk = 128", [](const S& s, const A&) { return s.head_dim_qk == 128; }},
      {"lse", [](const S& s, const A&) { return s.lse; }},
      {"not c.lse and (c.dropout or c.logits)",
       [](const S& s, const A&) { return !s.lse && (s.dropout || s.soft_cap); }},
      {"c.lse == True and c.sink == False", [](const S& s, const A&) { return s.lse && !s.sink; }},
      {"c.mask in ('no', \"generic\")",
       [](const S& s, const A&) { return s.mask == MaskKind::none || s.mask == MaskKind::generic; }},
      {"c.bias not in ['no', 'alibi']", [](const S& s, const A&) { return s.bias == BiasKind::elementwise; }},
      {"c.mask != 'none'", [](const S& s, const A&) { return s.mask != MaskKind::none; }},
      {"c.tile_m0 >= 64 and c.tile_m0 <= 40000",
       [](const S&, const A& a) { return a.tile[0] >= 64 && a.tile[0] <= 40000; }},
      {"c.tile_m0 between 64 and 40000", [](const S&, const A& a) { return a.tile[0] >= 64 && a.tile[0] <= 40000; }},
      {"c.warp_k2 + c.wave_m0 * 2 > 70000", [](const S&, const A& a) { return a.warp[8] + a.wave[0] * 2 > 70000; }},
      {"c.hdim_v % 3 == 0 or c.pad_dv == 8",
       [](const S& s, const A& a) { return s.head_dim_v % 3 == 0 || a.pad[3] == 8; }},
      {"c.block_per_cu == -1", [](const S&, const A& a) { return a.block_per_cu == -1; }},
      {"c.family in ('fwd', 'bwd_dq_dk_dv') and c.data_type == 'fp16'",
       [](const S& s, const A&) {
         return (s.family == AttentionFamily::fwd || s.family == AttentionFamily::bwd_dq_dk_dv) &&
                s.data_type == DataType::fp16;
       }},
      {"c.paged_kv and c.page_size > 1000 and c.kv_memory_layout == 'linear' or c.deterministic and c.dbias",
       [](const S& s, const A&) {
         return (s.paged_kv && s.page_size > 1000 && s.kv_layout == KvLayout::linear) || (s.deterministic && s.dbias);
       }},
      {"'qr' == c.pipeline", [](const S&, const A& a) { return a.pipeline == Pipeline::qr; }},
      {"c.arch == 'gfx950' and c.rope == 'none'", nullptr},
  };
  const std::vector<KernelConfig> configs = random_attention(4000);
  for (const Case& each : cases) {
    const auto filter = Filter::compile(each.expression, Operation::attention);
    ASSERT_TRUE(filter.has_value()) << each.expression << "\n" << filter.error().text();
    // Batches of different lengths go through one prepared statement.
    for (std::size_t at = 0, length = 1; at < configs.size(); at += length, length = 1 + length * 7 % 300) {
      const auto batch = std::span(configs).subspan(at, std::min(length, configs.size() - at));
      std::vector<bool> keep;
      ASSERT_TRUE(filter->select(batch, keep).has_value());
      ASSERT_EQ(keep.size(), batch.size());
      for (std::size_t i = 0; i < batch.size(); ++i) {
        const bool expected = each.plain
                                  ? each.plain(batch[i].attention(), batch[i].algorithm)
                                  : batch[i].arch.text() == "gfx950" && batch[i].attention().rope == RopeKind::none;
        ASSERT_EQ(keep[i], expected) << each.expression << "\n" << canonical_form(batch[i]);
      }
    }
  }
}

TEST(Filter, SeveralExpressionsMustAllHold) {
  const std::vector<std::string> expressions = {"c.lse or c.dropout", "not c.dropout"};
  const auto filter = Filter::compile_all(expressions, Operation::attention);
  ASSERT_TRUE(filter.has_value());
  const std::vector<KernelConfig> configs = random_attention(500);
  std::vector<bool> keep;
  ASSERT_TRUE(filter->select(configs, keep).has_value());
  for (std::size_t i = 0; i < configs.size(); ++i)
    ASSERT_EQ(keep[i], configs[i].attention().lse && !configs[i].attention().dropout);
}

TEST(Filter, EveryColumnReadsItsField) {
  std::mt19937_64 random(12);
  for (int round = 0; round < 300; ++round) {
    KernelConfig config = testing::random_config(random);
    // Names have one digit for each, and an expression has no zero byte.
    for (std::uint8_t& pad : config.algorithm.pad) pad %= 2;
    std::string buffer;
    for (const FilterColumn& column : filter_columns(config.operation())) {
      const FilterValue value = filter_value(column, config, buffer);
      std::string expression = column.name + " == ";
      expression += value.is_text ? "'" + std::string(value.text) + "'" : std::to_string(value.number);
      const auto filter = Filter::compile(expression, config.operation());
      ASSERT_TRUE(filter.has_value()) << expression << "\n" << filter.error().text();
      std::vector<bool> keep;
      ASSERT_TRUE(filter->select(std::span(&config, 1), keep).has_value());
      ASSERT_TRUE(keep[0]) << expression;
    }
    if (round > 5) break;  // a few configs times every column of each operation
  }
}

std::string error_of(std::string_view expression) {
  const auto filter = Filter::compile(expression, Operation::attention);
  EXPECT_FALSE(filter.has_value()) << expression;
  return filter ? std::string() : filter.error().text();
}

TEST(Filter, ErrorsNameWhatIsNear) {
  EXPECT_NE(error_of("c.hdim_qq == 1").find("hdim_q"), std::string::npos);
  EXPECT_NE(error_of("c.head_dim == 1").find("head_dim"), std::string::npos);
  EXPECT_NE(error_of("c.pipeline == 'qr_asinc'").find("did you mean 'qr_async'"), std::string::npos);
  EXPECT_NE(error_of("64 <= c.tile_m0 <= 128").find("do not chain"), std::string::npos);
  EXPECT_NE(error_of("c.num_d == 1").find("attention kernels have no field"), std::string::npos);
  EXPECT_NE(error_of("").find("empty"), std::string::npos);
  EXPECT_NE(error_of("c.lse ==").find("no expression"), std::string::npos);
  EXPECT_NE(error_of("c.lse == 'x").find("not closed"), std::string::npos);
}

TEST(Filter, NothingButAnExpressionOverFieldsGetsThrough) {
  for (const char* expression : {"1); DROP TABLE c; --",
                                 "c.lse; select 1",
                                 "(select 1)",
                                 "exists (select * from sqlite_master)",
                                 "load_extension('x')",
                                 "c.lse -- and more",
                                 "c.lse /* x */",
                                 "randomblob(1000000000)",
                                 "c.rowid == 1",
                                 "rowid == 1",
                                 "sqlite_version() == ''",
                                 "__import__('os')",
                                 "c.__class__",
                                 "c.lse) or (1",
                                 "c.lse == (1",
                                 "c.lse == 1]",
                                 "[c.lse)",
                                 "lambda: 1",
                                 "c.lse and",
                                 "abs(c.hdim_q) == 1",
                                 "c.lse, c.sink",
                                 "c.",
                                 "c.1",
                                 "c.lse == 1e5",
                                 "c.lse == 1.2.3",
                                 "c.lse == 0x10",
                                 "'a' 'b'",
                                 "@x",
                                 "?1",
                                 ":x",
                                 "$x",
                                 "c.lse | 1",
                                 "`c`",
                                 "case when c.lse then 1 end",
                                 "cast(c.lse as text)",
                                 "c.name collate nocase == 'x'"}) {
    const auto filter = Filter::compile(expression, Operation::attention);
    EXPECT_FALSE(filter.has_value()) << expression;
    if (!filter) {
      EXPECT_EQ(filter.error().code, ErrorCode::invalid_argument) << expression;
    }
  }
}

TEST(Filter, LengthAndDepthAreBounded) {
  EXPECT_FALSE(Filter::compile(std::string(1 << 20, '('), Operation::attention).has_value());
  EXPECT_FALSE(
      Filter::compile(std::string(100, '(') + "c.lse" + std::string(100, ')'), Operation::attention).has_value());
  EXPECT_TRUE(Filter::compile(std::string(60, '(') + "c.lse" + std::string(60, ')'), Operation::attention).has_value());
  std::string chain = "c.lse";
  while (chain.size() < 16000) chain += " and c.lse";
  EXPECT_FALSE(Filter::compile(chain, Operation::attention).has_value());
  std::string nots;
  while (nots.size() < 16000) nots += "not ";
  EXPECT_FALSE(Filter::compile(nots + "c.lse", Operation::attention).has_value());
}

// Random strings over the grammar's own pieces: whatever compiles must run; nothing may crash.
TEST(Filter, RandomTokensNeverCrash) {
  const char* const pieces[] = {
      "c.lse", "c.hdim_q", "c.pipeline", "'qr'", "1",    "2.5",    "==",     "<=",   "!=",   "and",   "or",
      "not",   "in",       "(",          ")",    ",",    "[",      "]",      "+",    "-",    "*",     "/",
      "%",     "between",  "like",       "is",   "null", "c.name", "'%qr%'", "glob", "true", "c.tile"};
  std::mt19937_64 random(13);
  const std::vector<KernelConfig> configs = random_attention(5);
  int compiled = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string expression;
    for (std::size_t i = 0, n = 1 + random() % 9; i < n; ++i)
      expression += std::string(pieces[random() % std::size(pieces)]) + " ";
    const auto filter = Filter::compile(expression, Operation::attention);
    if (!filter) continue;
    ++compiled;
    std::vector<bool> keep;
    const auto status = filter->select(configs, keep);
    ASSERT_TRUE(status.has_value() || !status.error().message.empty());
  }
  EXPECT_GT(compiled, 100);
}

}  // namespace
}  // namespace tilesmith
