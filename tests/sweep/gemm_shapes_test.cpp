#include "sweep/gemm/shapes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/file.hpp"
#include "problem/describe.hpp"

namespace tilesmith {
namespace {

constexpr const char* kHead = "schema: 1\ntiers: {smoke: {includes: [smoke], timeout_s: 5}}\n";

Result<GemmShapes> shapes_with(const std::string& axes) {
  return GemmShapes::parse(std::string(kHead) + "gemm: {smoke: [{id: x, axes: {" + axes + "}}]}", "shapes.yaml");
}

std::vector<GemmProblem> problems_of(const GemmShapes& shapes, std::string_view tier = "smoke") {
  std::vector<GemmProblem> out;
  const auto sweeps = shapes.sweeps(tier);
  EXPECT_TRUE(sweeps);
  for (const GemmShapeSweep* sweep : *sweeps)
    sweep->for_each([&](const GemmProblem& problem) { out.push_back(problem); });
  return out;
}

std::vector<std::string> names_of(const std::string& axes) {
  const auto shapes = shapes_with(axes);
  EXPECT_TRUE(shapes) << axes << ": " << shapes.error().text();
  std::vector<std::string> names;
  if (shapes)
    for (const GemmProblem& problem : problems_of(*shapes)) names.push_back(describe(problem));
  return names;
}

using Names = std::vector<std::string>;

TEST(GemmShapes, SizesAreTriplesOrCrossed) {
  const std::string rest = ", dtype: [bf16]";
  EXPECT_EQ(names_of("mnk: [[1, 2, 3], [4, 5, 6]]" + rest), (Names{"bf16 1x2x3 rcr", "bf16 4x5x6 rcr"}));
  EXPECT_EQ(names_of("m: [1, 2], nk: [[3, 4], [5, 6]]" + rest),
            (Names{"bf16 1x3x4 rcr", "bf16 1x5x6 rcr", "bf16 2x3x4 rcr", "bf16 2x5x6 rcr"}));
  EXPECT_EQ(names_of("m: [1], n: [2, 3], k: [4, 5]" + rest),
            (Names{"bf16 1x2x4 rcr", "bf16 1x2x5 rcr", "bf16 1x3x4 rcr", "bf16 1x3x5 rcr"}));
}

TEST(GemmShapes, TheLastAxisRunsFastest) {
  EXPECT_EQ(names_of("mnk: [[8, 8, 8]], batch: [1, 2], dtype: [fp32, bf16], layout: [rcr, crc], beta: [false, true]"),
            (Names{"fp32 8x8x8 rcr", "fp32 8x8x8 rcr + C", "fp32 8x8x8 crc", "fp32 8x8x8 crc + C", "bf16 8x8x8 rcr",
                   "bf16 8x8x8 rcr + C", "bf16 8x8x8 crc", "bf16 8x8x8 crc + C", "fp32 b2 8x8x8 rcr",
                   "fp32 b2 8x8x8 rcr + C", "fp32 b2 8x8x8 crc", "fp32 b2 8x8x8 crc + C", "bf16 b2 8x8x8 rcr",
                   "bf16 b2 8x8x8 rcr + C", "bf16 b2 8x8x8 crc", "bf16 b2 8x8x8 crc + C"}));
}

TEST(GemmShapes, ASecondProductHasADepthOfItsOwn) {
  EXPECT_EQ(names_of("m: [1, 2], nk: [[3, 4]], k2: [0, 5], dtype: [bf16, fp32]"),
            (Names{"bf16 1x3x4 rcr", "fp32 1x3x4 rcr", "bf16 1x3x4+5 rcr", "fp32 1x3x4+5 rcr", "bf16 2x3x4 rcr",
                   "fp32 2x3x4 rcr", "bf16 2x3x4+5 rcr", "fp32 2x3x4+5 rcr"}));
}

TEST(GemmShapes, WeightsMayBePackedBeforehand) {
  EXPECT_EQ(names_of("m: [1, 2], nk: [[3, 4]], packed: [false, true], layout: [rcr, rrr]"),
            (Names{"bf16 1x3x4 rcr", "bf16 1x3x4 rrr", "bf16 1x3x4 rcr packed B", "bf16 1x3x4 rrr packed B",
                   "bf16 2x3x4 rcr", "bf16 2x3x4 rrr", "bf16 2x3x4 rcr packed B", "bf16 2x3x4 rrr packed B"}));
}

TEST(GemmShapes, WeightsMayBePrefetched) {
  const auto shapes = shapes_with("m: [1], nk: [[3, 4]], prefetch_weights: [false, true]");
  ASSERT_TRUE(shapes) << shapes.error().text();
  const std::vector<GemmProblem> problems = problems_of(*shapes);
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_FALSE(problems[0].prefetch_weights);
  EXPECT_TRUE(problems[1].prefetch_weights);
}

TEST(GemmShapes, TypesAreTheUsualOnesUnlessTheyAreNamed) {
  EXPECT_EQ(names_of("mnk: [[8, 8, 8]], dtype: [int8, fp8, bf16]"),
            (Names{"int8 to int32 8x8x8 rcr", "fp8 to bf16 8x8x8 rcr", "bf16 8x8x8 rcr"}));
  EXPECT_EQ(names_of("mnk: [[8, 8, 8]], dtype: [fp8], dtype_b: [fp8, bf8], dtype_out: [fp16]"),
            (Names{"fp8 to fp16 8x8x8 rcr", "fp8/bf8 to fp16 8x8x8 rcr"}));
  EXPECT_EQ(
      names_of("mnk: [[8, 8, 128]], batch: [4], dtype: [fp8], grouping: [none, contiguous], group_size: [0, 128]"),
      (Names{"fp8 to bf16 b4 8x8x128 rcr", "fp8 to bf16 b4 8x8x128 rcr scaled by 128",
             "fp8 to bf16 4 contiguous groups 8x8x128 rcr",
             "fp8 to bf16 4 contiguous groups 8x8x128 rcr scaled by 128"}));
  EXPECT_EQ(names_of("mnk: [[8, 8, 64]], dtype: [bf16], dtype_b: [int8], group_size: [64], dtype_scale: [fp32, bf16]"),
            (Names{"bf16/int8 8x8x64 rcr scaled by 64", "bf16/int8 8x8x64 rcr scaled by 64 in bf16"}));
  const auto shapes = shapes_with("mnk: [[8, 8, 8]], epilogue: [[], [bias, gelu], [swiglu]]");
  ASSERT_TRUE(shapes);
  const auto problems = problems_of(*shapes);
  ASSERT_EQ(problems.size(), 3u);
  EXPECT_TRUE(problems[0].epilogue.empty());
  EXPECT_EQ(problems[1].epilogue, (GemmEpilogue{EpilogueOp::bias, EpilogueOp::gelu}));
  EXPECT_EQ(problems[2].columns_of_d(), 4);
}

TEST(GemmShapes, EveryFieldOfAProblemIsAnAxis) {
  const auto shapes =
      shapes_with("m: [1], nk: [[3, 4]], dtype: [fp16], type_c: [fp16, fp32], unaligned: [false, true]");
  ASSERT_TRUE(shapes) << shapes.error().text();
  std::set<std::pair<DataType, bool>> seen;
  for (const GemmProblem& problem : problems_of(*shapes)) {
    EXPECT_EQ(problem.n, 3);
    EXPECT_TRUE(seen.emplace(problem.type_c, problem.unaligned).second);
  }
  EXPECT_EQ(seen.size(), 4u);
  const auto wrong = shapes_with("m: [1], nk: [[3, 4]], type_bias: [fp61]");
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().text().find("type_bias[0]"), std::string::npos) << wrong.error().text();
  EXPECT_FALSE(shapes_with("m: [1], nk: [[3, 4]], type_a: [fp16]")) << "dtype sets it";
}

TEST(GemmShapes, DefaultsStandInForAbsentAxes) {
  const auto shapes = GemmShapes::parse(std::string(kHead) +
                                            "axis_defaults_when_absent: {m: [2], nk: [[3, 4]], dtype: [fp32]}\n"
                                            "gemm: {smoke: [{id: x, axes: {batch: [5]}}]}",
                                        "here");
  ASSERT_TRUE(shapes) << shapes.error().text();
  EXPECT_EQ(describe(problems_of(*shapes).at(0)), "fp32 b5 2x3x4 rcr");
}

TEST(GemmShapes, BuiltInListsHaveWhatTheyPromise) {
  const auto shapes = GemmShapes::builtin();
  ASSERT_TRUE(shapes) << shapes.error().text();
  std::set<std::string> ids;
  const auto sweeps = shapes->sweeps("nightly");
  ASSERT_TRUE(sweeps);
  for (const GemmShapeSweep* sweep : *sweeps) EXPECT_TRUE(ids.insert(sweep->id).second) << sweep->id;
  std::set<std::string> names;
  std::size_t before = 0;
  for (const char* tier : {"smoke", "full", "nightly"}) {
    const auto problems = load_gemm_problems("", tier, {});
    ASSERT_TRUE(problems) << problems.error().text();
    EXPECT_GT(problems->size(), before) << "each tier includes the one before and has more";
    before = problems->size();
    names.clear();
    for (const GemmProblem& problem : *problems) {
      EXPECT_TRUE(validate(problem)) << describe(problem);
      EXPECT_TRUE(names.insert(describe(problem)).second) << describe(problem);
    }
    if (std::string_view(tier) != "smoke") continue;
    for (const GemmProblem& problem : *problems)
      EXPECT_LE(static_cast<double>(problem.m) * static_cast<double>(problem.n * (problem.k + problem.k2)), 1.1e9)
          << describe(problem) << " is no smoke test";
  }
  for (const char* name :
       {"bf16 512x512x512 rcr", "bf16 8192x8192x8192 rcr", "bf16 1x4096x4096 rcr", "bf16 8192x28672x4096 rcr",
        "fp32 12544x64x147 rcr", "fp32 401408x64x147 rcr", "bf16 b32 2048x2048x128 rcr", "bf16 b32 2048x128x2048 rrr",
        "bf16 2039x2053x2063 rcr", "bf16 1x1024x1024+16 rcr", "bf16 127x131x137+512 rrr bias+sigmoid",
        "bf16 4096x28672x4096+64 rcr"})
    EXPECT_TRUE(names.contains(name)) << name;
}

TEST(GemmShapes, ProblemsSayWhetherTheirRowsAreAligned) {
  const TemporaryDirectory directory = TemporaryDirectory::create("tilesmith-shapes-").value();
  const auto path = directory.path() / "shapes.yaml";
  const auto is_unaligned = [&](const std::string& axes) {
    EXPECT_TRUE(write_file_atomic(path, std::string(kHead) + "gemm: {smoke: [{id: x, axes: {" + axes + "}}]}"));
    const auto problems = load_gemm_problems(path, "smoke", {});
    EXPECT_TRUE(problems) << problems.error().text();
    return problems && problems->at(0).unaligned;
  };
  EXPECT_FALSE(is_unaligned("mnk: [[3, 3, 8]]")) << "both along k, 8 elements of 2 bytes";
  EXPECT_TRUE(is_unaligned("mnk: [[8, 8, 7]]"));
  EXPECT_TRUE(is_unaligned("mnk: [[8, 9, 8]], layout: [rrr]"));
  EXPECT_FALSE(is_unaligned("mnk: [[9, 8, 8]], layout: [rrr]"));
  EXPECT_TRUE(is_unaligned("mnk: [[9, 8, 8]], layout: [crr]"));
  EXPECT_TRUE(is_unaligned("mnk: [[8, 8, 8]], dtype: [int8]"));
  EXPECT_FALSE(is_unaligned("mnk: [[8, 8, 4]], dtype: [fp32]"));
  EXPECT_TRUE(is_unaligned("mnk: [[8, 8, 8]], k2: [7]"));
  EXPECT_FALSE(is_unaligned("mnk: [[8, 8, 8]], k2: [16]"));
}

TEST(GemmShapes, RepeatsComeOnceAndShardsShareThemOut) {
  const auto all = load_gemm_problems("", "full", {});
  ASSERT_TRUE(all);
  std::size_t total = 0;
  for (const std::uint64_t part : {1u, 2u, 3u, 4u, 5u}) {
    const auto problems = load_gemm_problems("", "full", {part, 5});
    ASSERT_TRUE(problems);
    EXPECT_GT(problems->size(), all->size() / 8);
    total += problems->size();
  }
  EXPECT_EQ(total, all->size());
  EXPECT_FALSE(load_gemm_problems("/nonexistent.yaml", "smoke", {}));
  const auto unknown = load_gemm_problems("", "smokey", {});
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().hint.find("smoke"), std::string::npos) << unknown.error().text();
}

TEST(GemmShapes, MistakesAreNamedByFileLinePathAndValue) {
  const std::pair<const char*, const char*> axes[] = {
      {"mnk: [[1, 2]]", "axes.mnk[0] has 2 sizes"},
      {"mnk: [1, 2, 3]", "axes.mnk[0] is '1'"},
      {"mnk: [[1, 2, 0]]", "axes.mnk[0][2] is '0'"},
      {"mnk: [[1, 2, 3]], m: [4]", "sizes that do not fit together"},
      {"m: [1]", "sizes that do not fit together"},
      {"m: [1], n: [2]", "sizes that do not fit together"},
      {"m: [1], nk: [[2, 3]], n: [2], k: [2]", "sizes that do not fit together"},
      {"nk: [[2, 3]]", "sizes that do not fit together"},
      {"m: [], nk: [[2, 3]]", "axes.m is empty"},
      {"dtype: [bf61]", "axes.dtype[0] is 'bf61'"},
      {"layout: [rcx]", "axes.layout[0] is 'rcx' (the orders"},
      {"epilogue: [bias]", "axes.epilogue[0] is 'bias'"},
      {"epilogue: [[bais]]", "axes.epilogue[0][0] is 'bais'"},
      {"epilogue: [[none]]", "axes.epilogue[0][0] is 'none'"},
      {"epilogue: [[add, add, add, add, add, add, add, add, add]]", "axes.epilogue[0][8] is 'add'"},
      {"beta: [2]", "axes.beta[0] is '2'"},
      {"packed: [maybe]", "axes.packed[0] is 'maybe' (true or false"},
      {"grouping: [ragged]", "axes.grouping[0] is 'ragged'"},
      {"k2: [-1]", "axes.k2[0] is '-1'"},
      {"group_size: [-1]", "axes.group_size[0] is '-1'"},
      {"size: [2]", "'size'"},
  };
  for (const auto& [text, word] : axes) {
    const auto shapes = shapes_with(text);
    ASSERT_FALSE(shapes) << text;
    EXPECT_EQ(shapes.error().code, ErrorCode::parse);
    EXPECT_NE(shapes.error().text().find(word), std::string::npos) << word << "\n" << shapes.error().text();
    EXPECT_TRUE(shapes.error().message.starts_with("shapes.yaml: line ")) << shapes.error().message;
  }
  const std::pair<std::string, const char*> files[] = {
      {"", "the document is nothing"},
      {"schema: 2", "schema is 2"},
      {std::string(kHead) + "gemms: {}", "did you mean 'gemm'"},
      {kHead, "gemm is nothing"},
      {std::string(kHead) + "gemm: {smokes: []}", "tier 'smokes'"},
      {std::string(kHead) + "gemm: {smoke: [{id: [], axes: {}}]}", "gemm.smoke[0].id"},
      {"tiers: {most: {}}\ngemm: [{axes: {}}]", "gemm is a list"},
      {std::string(5 << 20, ' '), "bytes"},
  };
  for (const auto& [text, word] : files) {
    const auto shapes = GemmShapes::parse(text, "shapes.yaml");
    ASSERT_FALSE(shapes) << word;
    EXPECT_NE(shapes.error().text().find(word), std::string::npos) << word << "\n" << shapes.error().text();
  }
}

TEST(GemmShapes, WhatEveryFileWouldSayMayBeLeftOut) {
  const auto shapes = GemmShapes::parse("gemm: [{axes: {m: [1, 2], n: [8], k: [16]}}, {axes: {}}]", "here");
  ASSERT_TRUE(shapes) << shapes.error().text();
  EXPECT_EQ(problems_of(*shapes).size(), 3u);
  EXPECT_EQ((*shapes->sweeps("full"))[1]->id, "gemm[1]");
  const auto tiers = GemmShapes::parse("tiers: {a: {}, b: {includes: [a, b]}}\ngemm: {a: [{axes: {}}]}", "here");
  ASSERT_TRUE(tiers) << tiers.error().text();
  EXPECT_EQ(problems_of(*tiers, "a").size(), 1u);
  EXPECT_EQ(problems_of(*tiers, "b").size(), 1u);
}

TEST(GemmShapes, HugeProductsEndInAnError) {
  std::string many = "1";
  for (int i = 2; i < 4000; ++i) many += ", " + std::to_string(i);
  for (const std::string& axes :
       {"m: [" + many + "], n: [" + many + "], k: [1]", "m: [" + many + "], n: [1], k: [1], batch: [" + many + "]"}) {
    const auto shapes = shapes_with(axes);
    ASSERT_FALSE(shapes);
    EXPECT_NE(shapes.error().text().find("shapes"), std::string::npos) << shapes.error().text();
  }
}

}  // namespace
}  // namespace tilesmith
