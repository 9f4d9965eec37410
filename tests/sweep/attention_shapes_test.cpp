#include "sweep/attention/shapes.hpp"

#include <gtest/gtest.h>

#include <fmt/format.h>
#include <algorithm>

#include <array>
#include <set>

#include "base/file.hpp"

namespace tilesmith {
namespace {

using Pair = std::pair<std::int64_t, std::int64_t>;

AttentionShapes builtin() {
  auto matrix = AttentionShapes::builtin();
  EXPECT_TRUE(matrix) << (matrix ? "" : matrix.error().text());
  return std::move(matrix).value();
}

// The head dimensions Composable Kernel has kernels for, by data type (forward) and for all types (backward).
bool has_kernel(bool backward, const AttentionShape& shape) {
  static const std::set<Pair> kBackward{{32, 32}, {64, 64}, {96, 128}, {128, 128}, {256, 256}};
  static const std::set<Pair> kHalf{{32, 32},   {64, 64},   {80, 96},   {96, 128}, {128, 128},
                                    {160, 160}, {192, 128}, {192, 192}, {256, 256}};
  static const std::set<Pair> kFp8{{64, 64}, {128, 128}, {192, 128}, {256, 256}};
  const Pair pair{shape.head_dim_qk, shape.head_dim_v};
  if (backward) return kBackward.contains(pair);
  switch (shape.data_type) {
    case DataType::fp16:
    case DataType::bf16:
      return kHalf.contains(pair);
    case DataType::fp8bf16:
      return kFp8.contains(pair);
    case DataType::fp8fp32:
      return pair == Pair{128, 128};
    default:
      return false;
  }
}

TEST(AttentionShapes, EverySweepHasTheCountsTheFileGives) {
  const AttentionShapes matrix = builtin();
  for (const char* variant : {"fwd", "bwd"}) {
    const auto sweeps = matrix.sweeps(variant, "nightly");
    ASSERT_TRUE(sweeps);
    for (const AttentionShapeSweep* sweep : *sweeps) {
      SCOPED_TRACE(sweep->id);
      std::int64_t shapes = 0, pair_ok = 0, heads_ok = 0;
      std::set<std::string> ids;
      sweep->for_each([&](const AttentionShape& shape) {
        ++shapes;
        ids.insert(shape.id());
        if (!has_kernel(variant[0] == 'b', shape)) return;
        ++pair_ok;
        heads_ok += shape.heads_q % shape.heads_kv == 0;
      });
      EXPECT_EQ(shapes, sweep->counts.shapes);
      EXPECT_EQ(static_cast<std::int64_t>(ids.size()), sweep->counts.distinct)
          << "ids tell shapes apart, and nothing else";
      EXPECT_EQ(pair_ok, sweep->counts.pair_ok);
      EXPECT_EQ(heads_ok, sweep->counts.heads_ok);
    }
  }
}

TEST(AttentionShapes, TiersIncludeTheSmallerOnes) {
  const AttentionShapes matrix = builtin();
  EXPECT_EQ(matrix.shapes("fwd", "smoke")->size(), 770u);
  EXPECT_EQ(matrix.shapes("fwd", "full")->size(), 770u + 35858u);
  EXPECT_EQ(matrix.shapes("splitkv", "nightly")->size(), 770u + 35858u);
  EXPECT_EQ(matrix.shapes("bwd", "smoke")->size(), 28u);
  EXPECT_EQ(matrix.shapes("bwd", "full")->size(), 28u + 180u);
  EXPECT_EQ(*matrix.timeout_s("smoke"), 60);
  EXPECT_EQ(*matrix.timeout_s("nightly"), 600);
}

TEST(AttentionShapes, TheLastAxisRunsFastest) {
  const AttentionShapes matrix = builtin();
  const auto shapes = matrix.shapes("fwd", "smoke");
  ASSERT_TRUE(shapes);
  // GQA_4to1_Prefill_Basic: batch {1, 4}, dtype {fp16, bf16}, mask {no_mask, top_left}, lse {false, true}.
  const AttentionShape first{1,   2048, 2048, 32, 8, 128, 128, DataType::fp16, MaskKind::none, BiasKind::none,
                             0.0, false};
  AttentionShape expected = first;
  EXPECT_EQ((*shapes)[0], expected);
  expected.lse = true;
  EXPECT_EQ((*shapes)[1], expected);
  expected = first;
  expected.mask = MaskKind::top_left;
  EXPECT_EQ((*shapes)[2], expected);
  expected = first;
  expected.data_type = DataType::bf16;
  EXPECT_EQ((*shapes)[4], expected);
  expected = first;
  expected.batch = 4;
  EXPECT_EQ((*shapes)[8], expected);
  EXPECT_EQ(first.id(), "b1_q2048_k2048_h32x8_d128x128_fp16_no_nobias_p0_nolse");
}

TEST(AttentionShapes, ShardsShareTheShapesOutAlways) {
  const AttentionShapes matrix = builtin();
  const auto all = matrix.shapes("fwd", "full");
  std::size_t total = 0;
  for (std::uint64_t i = 1; i <= 7; ++i) {
    const auto part = matrix.shapes("fwd", "full", {i, 7});
    ASSERT_TRUE(part);
    total += part->size();
    EXPECT_NEAR(static_cast<double>(part->size()), static_cast<double>(all->size()) / 7,
                0.1 * static_cast<double>(all->size()) / 7);
    EXPECT_TRUE(std::ranges::all_of(*part, [&](const AttentionShape& shape) { return Shard{i, 7}.has(shape.id()); }));
  }
  EXPECT_EQ(total, all->size());
  // The same on every machine and in every version: results of shards that ran apart are joined later.
  EXPECT_EQ(std::ranges::count_if(std::array{1, 2, 3, 4},
                                  [&](int i) {
                                    return Shard{static_cast<std::uint64_t>(i), 4}.has(all->front().id());
                                  }),
            1);
}

TEST(AttentionShapes, ShardsParse) {
  const auto shard = Shard::parse("2/8");
  ASSERT_TRUE(shard);
  EXPECT_EQ(shard->index, 2u);
  EXPECT_EQ(shard->count, 8u);
  for (const char* text : {"", "1", "0/4", "5/4", "1/0", "a/4", "1/4x", "-1/4", "1/", "/4", "99999999999999999999/4"})
    EXPECT_FALSE(Shard::parse(text)) << text;
}

TEST(AttentionShapes, AbsentAxesTakeTheDefaults) {
  const auto matrix = AttentionShapes::parse(R"(
schema: 1
tiers: {smoke: {includes: [smoke], timeout_s: 5}}
axis_defaults_when_absent: {batch: [3], lse: [true, false]}
variant_sections: {fwd: forward}
forward: {smoke: [{id: small, axes: {seqlen_q: [7, 9]}}]}
)",
                                             "here");
  ASSERT_TRUE(matrix) << matrix.error().text();
  const auto shapes = matrix->shapes("fwd", "smoke");
  ASSERT_TRUE(shapes);
  ASSERT_EQ(shapes->size(), 4u);
  EXPECT_EQ(shapes->front().batch, 3);
  EXPECT_EQ(shapes->front().seqlen_q, 7);
  EXPECT_EQ(shapes->front().seqlen_k, 1024);
  EXPECT_TRUE(shapes->front().lse);
  EXPECT_FALSE(shapes->back().lse);
}

TEST(AttentionShapes, WhatEveryFileWouldSayMayBeLeftOut) {
  const auto matrix = AttentionShapes::parse("forward: [{axes: {seqlen_q: [7, 9]}}]", "here");
  ASSERT_TRUE(matrix) << matrix.error().text();
  const auto sweeps = matrix->sweeps("fwd", "smoke");
  ASSERT_TRUE(sweeps) << sweeps.error().text();
  ASSERT_EQ(sweeps->size(), 1u);
  EXPECT_EQ(sweeps->front()->id, "forward[0]");
  EXPECT_EQ(matrix->shapes("fwd", "nightly")->size(), 2u);
  EXPECT_EQ(*matrix->timeout_s("smoke"), 60);
  EXPECT_FALSE(matrix->sweeps("bwd", "smoke"));
}

TEST(AttentionShapes, ProblemsSayWhatFollowsFromTheirTensors) {
  const TemporaryDirectory directory = TemporaryDirectory::create("tilesmith-shapes-").value();
  const std::filesystem::path file = directory.path() / "shapes.yaml";
  ASSERT_TRUE(write_file_atomic(file, R"(
schema: 1
tiers: {smoke: {includes: [smoke], timeout_s: 5}}
axis_defaults_when_absent: {seqlen_q: [8], heads_q: [2], heads_kv: [2], bias: [elementwise]}
variant_sections: {fwd: forward}
forward:
  smoke:
    - {id: rows, axes: {seqlen_k: [30, 32]}}
    - {id: dims, axes: {seqlen_k: [32], head_dim_qk: [100], head_dim_v: [100]}}
    - id: traits
      axes: {seqlen_k: [32], dtype: [fp8bf16], window: [[-1, -1], [7, 0]], soft_cap: [true], sink: [true],
             block_scale: [false, true]}
)"));
  const auto problems = load_attention_problems(file, "smoke", {});
  ASSERT_TRUE(problems) << problems.error().text();
  ASSERT_EQ(problems->size(), 7u);
  EXPECT_TRUE(problems->at(0).unaligned_bias) << "rows of 30 floats are no multiple of 16 bytes";
  EXPECT_FALSE(problems->at(1).unaligned_bias);
  EXPECT_FALSE(problems->at(1).unaligned);
  EXPECT_TRUE(problems->at(2).unaligned) << "rows of 100 fp16";
  EXPECT_FALSE(problems->at(3).block_scale);
  EXPECT_TRUE(problems->at(4).block_scale && problems->at(4).soft_cap && problems->at(4).sink);
  EXPECT_EQ(problems->at(6).window_left, 7);
  EXPECT_EQ(problems->at(6).window_right, 0);
}

TEST(AttentionShapes, EveryFieldOfAProblemIsAnAxis) {
  const TemporaryDirectory directory = TemporaryDirectory::create("tilesmith-shapes-").value();
  const std::filesystem::path file = directory.path() / "shapes.yaml";
  const auto file_of = [](const std::string& axes) {
    return "schema: 1\ntiers: {smoke: {includes: [smoke], timeout_s: 5}}\naxis_defaults_when_absent: {heads_q: [2]}\n"
           "variant_sections: {fwd: forward}\nforward: {smoke: [{id: x, axes: {heads_kv: [2], " +
           axes + "}}]}\n";
  };
  ASSERT_TRUE(write_file_atomic(file, file_of("mode: [batch, group], unaligned: [false, true]")));
  const auto problems = load_attention_problems(file, "smoke", {});
  ASSERT_TRUE(problems) << problems.error().text();
  std::set<std::pair<SequenceMode, bool>> seen;
  for (const AttentionProblem& problem : *problems) seen.emplace(problem.mode, problem.unaligned);
  EXPECT_EQ(seen.size(), 4u);
  EXPECT_EQ(problems->size(), 4u);
  EXPECT_FALSE(AttentionShapes::parse(file_of("mode: [batches]"), "shapes.yaml"));
  EXPECT_FALSE(AttentionShapes::parse(file_of("data_type: [fp16]"), "shapes.yaml")) << "dtype sets it";
}

TEST(AttentionShapes, ProblemsAreDistinctAndHaveMeaning) {
  const auto problems = load_attention_problems("", "smoke", {});
  ASSERT_TRUE(problems) << problems.error().text();
  // 698 distinct shapes; heads_q is no multiple of heads_kv in 32 of Vision_Transformer_Shapes (40 over 16) and 6 of
  // Extreme_GQA_Ratios.
  EXPECT_EQ(problems->size(), 698u - 32 - 8);
  EXPECT_EQ(problems->front().seqlen_q, 2048);
  std::size_t parts = 0;
  for (const std::uint64_t part : {1u, 2u, 3u}) parts += load_attention_problems("", "smoke", {part, 3})->size();
  EXPECT_EQ(parts, problems->size());
  EXPECT_FALSE(load_attention_problems("/nonexistent.yaml", "smoke", {}));
}

TEST(AttentionShapes, UnknownNamesAreRefusedWithTheNearest) {
  const AttentionShapes matrix = builtin();
  const auto tier = matrix.shapes("fwd", "smokey");
  ASSERT_FALSE(tier);
  EXPECT_NE(tier.error().text().find("smoke"), std::string::npos) << tier.error().text();
  EXPECT_FALSE(matrix.shapes("forward", "smoke"));
  EXPECT_FALSE(matrix.timeout_s("never"));
  EXPECT_FALSE(AttentionShapes::load("/nonexistent/shapes.yaml"));
}

TEST(AttentionShapes, BrokenFilesAreRefusedByFileLinePathAndValue) {
  const auto file = read_file(std::string(TILESMITH_SOURCE_DIR) + "/data/attention_shapes.yaml");
  ASSERT_TRUE(file);
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string text = *file;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  const std::pair<std::string, const char*> files[] = {
      {"", "the document is nothing"},
      {"[1, 2]", "the document is a list"},
      {"a: [", "line 1"},
      {"a: b: c", "line 1"},
      {with("schema: 1", "schema: 2"), "schema is 2"},
      {"schema: 1", "has no sweeps"},
      {"tiers: {}", "has no sweeps"},
      {with("schema: 1", "scheme: 1"), "'scheme' (did you mean"},
      {with("dtype: [fp16, bf16]", "dtype: [fp16, bf61]"), "forward.smoke[0].axes.dtype[1] is 'bf61'"},
      {with("batch: [1, 4]", "batch: [1, 0]"), "forward.smoke[0].axes.batch[1] is '0'"},
      {with("batch: [1, 4]", "batch: [1, 4.5]"), "axes.batch[1] is '4.5'"},
      {with("batch: [1, 4]", "batch: [1, 99999999999999999999]"), "axes.batch[1]"},
      {with("batch: [1, 4]", "batch: 4"), "axes.batch is '4'"},
      {with("batch: [1, 4]", "batch: []"), "axes.batch is empty"},
      {with("batch: [1, 4]", "batch: [[1], 4]"), "axes.batch[0] is a list"},
      {with("dropout: [0.0]", "dropout: [1.0]"), "dropout[0] is '1.0'"},
      {with("dropout: [0.0]", "dropout: [.nan]"), "dropout[0] is '.nan'"},
      {with("lse: [false, true]", "lse: [false, maybe]"), "lse[1] is 'maybe'"},
      {with("mask: [no_mask, top_left]", "mask: [no_mask, topleft]"), "mask[1] is 'topleft'"},
      {with("batch: [1, 4]", "batsch: [1, 4]"), "'batsch'"},
      {with("batch: [1, 4]", "batch: [1, 4], batch: [2]"), "'batch' twice"},
      {with("counts: {shapes: 16,", "counts: {shapes: 17,"), "forward.smoke[0].counts.shapes is 17"},
      {with("sweeps: 16, shapes: 770", "sweeps: 16, shapes: 771"), "summary[0].shapes is 771"},
      {with("heads_ok: 40}", "heads_ok: 41}"), "summary[3].heads_ok is 41"},
      {with("includes: [smoke, full]", "includes: [smoke, fall]"), "includes[1] is 'fall'"},
      {with("timeout_s: 60", "timeout_s: soon"), "timeout_s is 'soon'"},
      {with("fwd: forward", "fwd: fordward"), "variant_sections.fwd is 'fordward'"},
      {with("  full:\n", "  fall:\n"), "tier 'fall'"},
      {with("id: GQA_4to1_Prefill_Basic", "idd: x"), "'idd'"},
      {with("  smoke:\n", "  smoke: 3\n  other:\n"), "forward.smoke is '3'"},
  };
  for (const auto& [text, word] : files) {
    const auto matrix = AttentionShapes::parse(text, "shapes.yaml");
    ASSERT_FALSE(matrix) << word;
    EXPECT_EQ(matrix.error().code, ErrorCode::parse);
    EXPECT_NE(matrix.error().text().find(word), std::string::npos) << word << "\n" << matrix.error().text();
    EXPECT_NE(matrix.error().message.find("shapes.yaml: "), std::string::npos) << matrix.error().text();
  }
}

TEST(AttentionShapes, HostileFilesEndInAnError) {
  EXPECT_FALSE(AttentionShapes::parse(std::string(5 << 20, ' '), "spaces"));
  EXPECT_FALSE(AttentionShapes::parse(std::string(100000, '['), "brackets"));
  EXPECT_FALSE(AttentionShapes::parse(std::string(100000, '{'), "braces"));
  std::string bomb = "a0: &a0 [x, x]\n";
  for (int i = 1; i < 40; ++i) bomb += fmt::format("a{}: &a{} [*a{}, *a{}]\n", i, i, i - 1, i - 1);
  EXPECT_FALSE(AttentionShapes::parse(bomb, "aliases"));
  std::string product =
      "schema: 1\ntiers: {smoke: {includes: [smoke], timeout_s: 5}}\nvariant_sections: {fwd: forward}\nforward: "
      "{smoke: [{id: x, axes: {";
  for (const char* axis : {"batch", "seqlen_q", "seqlen_k", "heads_q", "heads_kv", "head_dim_qk", "head_dim_v"}) {
    product += std::string(axis) + ": [1";
    for (int i = 2; i < 2000; ++i) product += ", " + std::to_string(i);
    product += "], ";
  }
  const auto matrix = AttentionShapes::parse(product + "}}]}", "product");
  ASSERT_FALSE(matrix);
  EXPECT_NE(matrix.error().text().find("shapes"), std::string::npos) << matrix.error().text();
}

}  // namespace
}  // namespace tilesmith
