// What a ranking of convolutions on CUDA holds: it serves, all else is refused by name, and every figure of the models
// counts.
#include "choose/conv/cuda.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "choose/conv/cuda_layers.hpp"
#include "choose/conv/cuda_window.hpp"
#include "choose/conv/cuda_work.hpp"
#include "instances/conv/cuda.hpp"
#include "problem/conv/problem.hpp"
#include "problem/conv/slices.hpp"
#include "spec/spec_files.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

using testing::conv_line;
using testing::hopper;

// Candidates are in the order of their times, and each serves the problem.
TEST(CudaConvChoice, CandidatesServe) {
  for (const ConvDirection direction :
       {ConvDirection::forward, ConvDirection::backward_data, ConvDirection::backward_weight})
    for (const std::int64_t stride : {1, 2, 9}) {
      ConvProblem p = conv_line(40, 3, stride, 1, 1);
      p.direction = direction;
      const auto ranking = rank(hopper(), p);
      ASSERT_TRUE(ranking) << ranking.error().text();
      double before = 0;
      for (const Candidate& candidate : ranking->candidates) {
        EXPECT_TRUE(serves(hopper(), candidate.recipe.main(), p)) << recipe_name(candidate.recipe);
        EXPECT_GE(candidate.predicted_seconds, before);
        before = candidate.predicted_seconds;
      }
      const bool hopper_too = std::ranges::any_of(ranking->candidates, [](const Candidate& candidate) {
        return candidate.recipe.main().algorithm.pipeline == Pipeline::warp_specialized;
      });
      EXPECT_EQ(hopper_too, stride <= 2) << "windows take at most 8 pixels a step, phases are at most 8";
    }
}

// What the copy engine cannot bring is said.
TEST(CudaConvChoice, ObstaclesAreNamed) {
  ConvProblem p = conv_line(40, 3, 1, 1, 1);
  EXPECT_FALSE(cuda_window_obstacle(p, 1));
  const auto named = [&](auto change, const char* words) {
    ConvProblem changed = p;
    change(changed);
    const auto why = cuda_window_obstacle(changed, 1);
    EXPECT_TRUE(why && why->find(words) != std::string::npos) << why.value_or("none");
  };
  named([](ConvProblem& q) { q.c = 60; }, "16 bytes");
  named([](ConvProblem& q) { q.unaligned = true; }, "16 bytes");
  named([](ConvProblem& q) { q.groups = 2, q.k = 72; }, "next group's");
  named([](ConvProblem& q) { q.batch = 0; }, "no images");
  named([](ConvProblem& q) { q.stride_w = 9; }, "phases");
  named([](ConvProblem& q) { q.stride_w = 2, q.epilogue = {EpilogueOp::add}; }, "phases");
  named(
      [](ConvProblem& q) {
        q.dilation_w = 40000;
        q.pad_w = q.pad_high_w = 40000;
      },
      "windows");
}

// Where no tap moves along the outer coordinate, kernels of two dimensions take slices as images.
TEST(CudaConvChoice, SlicesAreImages) {
  const ConvProblem p{.data_type = DataType::fp16,
                      .type_out = DataType::fp16,
                      .type_bias = DataType::fp16,
                      .batch = 31,
                      .c = 32,
                      .k = 40,
                      .in_d = 25,
                      .in_h = 28,
                      .in_w = 28,
                      .filter_h = 3,
                      .filter_w = 3,
                      .pad_h = 1,
                      .pad_w = 1,
                      .pad_high_h = 1,
                      .pad_high_w = 1};
  const auto images = images_of_slices(p);
  ASSERT_TRUE(images);
  EXPECT_EQ(images->batch, 31 * 25);
  EXPECT_EQ(images->in(), (ConvSpatial{1, 28, 28}));
  EXPECT_EQ(pixels_of_y(*images), pixels_of_y(p));
  for (const ConvDirection direction :
       {ConvDirection::forward, ConvDirection::backward_data, ConvDirection::backward_weight}) {
    ConvProblem each = p;
    each.direction = direction;
    const auto ranking = rank(hopper(), each);
    ASSERT_TRUE(ranking);
    const KernelConfig& first = ranking->candidates.front().recipe.main();
    EXPECT_EQ(first.algorithm.pipeline, Pipeline::halo) << recipe_name(ranking->candidates.front().recipe);
    EXPECT_EQ(cuda_conv_seen(first, each).batch, images->batch);
    EXPECT_TRUE(serves(hopper(), first, each));
  }
  const ConvArguments call = arguments_of_slices(p, dense_arguments(p, ConvLayout::channels_last));
  EXPECT_EQ(call.x_strides.batch, 28 * 28 * 32);
  EXPECT_EQ(call.y_strides.batch, 28 * 28 * 40);
  for (const auto change :
       {&ConvProblem::filter_d, &ConvProblem::stride_d, &ConvProblem::pad_d, &ConvProblem::pad_high_d}) {
    ConvProblem other = p;
    other.*change = 2;
    EXPECT_FALSE(images_of_slices(other));
  }
  ConvProblem apart = p;
  apart.unaligned = true;
  EXPECT_FALSE(images_of_slices(apart));
  EXPECT_FALSE(images_of_slices(*images));
}

/// Layers of every kind that some model predicts.
std::vector<ConvProblem> layers_of_every_kind() {
  struct Shape {
    std::int64_t batch, groups, c, k, pixels, filter, stride;
  };
  std::vector<ConvProblem> out;
  for (const Shape& s :
       {Shape{64, 1, 3, 32, 224, 3, 2}, Shape{64, 96, 1, 1, 56, 7, 1}, Shape{64, 768, 1, 1, 7, 7, 1},
        Shape{32, 256, 1, 1, 56, 3, 1}, Shape{64, 144, 1, 1, 56, 5, 2}, Shape{8, 64, 1, 1, 40, 3, 3},
        Shape{64, 32, 16, 16, 28, 3, 1}, Shape{64, 32, 32, 32, 7, 3, 1}, Shape{64, 32, 8, 8, 28, 3, 1},
        Shape{16, 32, 8, 8, 28, 5, 2}, Shape{64, 1, 64, 64, 56, 3, 1}, Shape{64, 1, 128, 128, 56, 3, 2},
        Shape{128, 1, 1024, 256, 14, 1, 1}, Shape{128, 1, 64, 256, 56, 1, 1}, Shape{64, 1, 192, 328, 14, 1, 1},
        Shape{4, 1, 12, 48, 20, 3, 1}, Shape{4, 1, 13, 48, 20, 3, 1}, Shape{64, 1, 24, 144, 56, 1, 1}})
    for (const ConvDirection direction :
         {ConvDirection::forward, ConvDirection::backward_data, ConvDirection::backward_weight})
      out.push_back({.direction = direction,
                     .data_type = DataType::bf16,
                     .type_out = DataType::bf16,
                     .type_bias = DataType::bf16,
                     .batch = s.batch,
                     .groups = s.groups,
                     .c = s.c,
                     .k = s.k,
                     .in_h = s.pixels,
                     .in_w = s.pixels,
                     .filter_h = s.filter,
                     .filter_w = s.filter,
                     .stride_h = s.stride,
                     .stride_w = s.stride,
                     .pad_h = s.filter / 2,
                     .pad_w = s.filter / 2,
                     .pad_high_h = s.filter / 2,
                     .pad_high_w = s.filter / 2});
  return out;
}

/// The places of all numbers below a place, as JSON pointers.
void add_numbers(const nlohmann::json& value, const std::string& at, std::vector<std::string>& out) {
  if (value.is_number()) out.push_back(at);
  if (value.is_object())
    for (const auto& [name, member] : value.items()) add_numbers(member, at + "/" + name, out);
}

// A figure of the models that changes no ranking is read by nobody, or hidden by the others.
TEST(CudaConvChoice, EveryFigureOfTheModelsCounts) {
  const auto json = nlohmann::json::parse(*spec_file_text("cuda/sm_90a.json"));
  std::vector<std::string> figures;
  add_numbers(json["conv"]["models"], "/conv/models", figures);
  add_numbers(json["conv"]["join"], "/conv/join", figures);
  ASSERT_GT(figures.size(), 60u);
  using Prediction = std::pair<std::string, double>;
  const auto predictions = [](const CudaSpec& spec, const ConvProblem& p) {
    std::vector<Prediction> out;
    const auto ranking = rank(spec, p);
    if (ranking)
      for (const Candidate& each : ranking->candidates)
        out.emplace_back(recipe_name(each.recipe), each.predicted_seconds);
    return out;
  };
  const std::vector<ConvProblem> problems = layers_of_every_kind();
  std::vector<std::vector<Prediction>> before;
  for (const ConvProblem& p : problems) before.push_back(predictions(hopper(), p));
  for (const std::string& figure : figures) {
    bool counts = false;
    for (const double times : {1.5, 0.25}) {
      nlohmann::json changed = json;
      auto& value = changed[nlohmann::json::json_pointer(figure)];
      value = times * value.get<double>();
      const auto spec = parse_cuda_spec("changed.json", changed.dump());
      ASSERT_TRUE(spec) << spec.error().text();
      for (std::size_t i = 0; i < problems.size() && !counts; ++i)
        counts = predictions(*spec, problems[i]) != before[i];
    }
    EXPECT_TRUE(counts) << figure;
  }
}

ConvProblem drawn(unsigned seed) {
  std::mt19937 random(seed);
  const auto one_of = [&](std::initializer_list<std::int64_t> values) {
    return *(values.begin() + random() % values.size());
  };
  ConvProblem p;
  p.direction = static_cast<ConvDirection>(random() % 3);
  p.data_type = p.type_out = p.type_bias = random() % 4 == 0 ? DataType::fp32 : DataType::bf16;
  p.batch = one_of({0, 1, 4, 32});
  p.groups = one_of({1, 1, 8, 24});
  p.c = one_of({1, 3, 8, 16, 36, 64, 128});
  p.k = random() % 2 == 0 ? p.c : one_of({1, 5, 16, 48, 128});
  p.in_w = one_of({7, 14, 57});
  p.filter_w = one_of({1, 3, 3, 5});
  p.stride_w = one_of({1, 1, 2});
  p.pad_w = p.pad_high_w = p.filter_w / 2;
  if (random() % 3 > 0) {
    p.in_h = p.in_w;
    p.filter_h = p.filter_w;
    p.stride_h = p.stride_w;
    p.pad_h = p.pad_high_h = p.pad_w;
  }
  if (random() % 4 == 0) {
    p.in_d = 6;
    p.filter_d = one_of({1, 3});
  }
  p.unaligned = random() % 8 == 0;
  return p;
}

TEST(CudaConvChoice, WhatIsKeptOfASignatureChangesNoRanking) {
  CudaConvKept own;
  CudaGemmKept products;
  for (unsigned seed = 0; seed < 300; ++seed) {
    const ConvProblem p = drawn(seed);
    SCOPED_TRACE(seed);
    const auto fresh = rank(hopper(), p), kept = rank(hopper(), p, {.own = &own, .products = &products});
    ASSERT_EQ(fresh.has_value(), kept.has_value());
    if (!fresh) continue;
    EXPECT_TRUE(std::ranges::equal(fresh->candidates, kept->candidates, [](const Candidate& a, const Candidate& b) {
      return a.recipe == b.recipe && a.predicted_seconds == b.predicted_seconds;
    }));
  }
  EXPECT_GT(own.size(), 10u);
  EXPECT_GT(products.size(), 3u);
}

// A ranking asks only what may suit; what it leaves out, a walk over everything refuses.
TEST(CudaConvChoice, WhatIsNoCandidateIsRefused) {
  std::map<Pipeline, int> candidates;
  for (unsigned seed = 0; seed < 300; ++seed) {
    const ConvProblem p = drawn(seed);
    SCOPED_TRACE(seed);
    ASSERT_TRUE(validate(p));
    std::set<Key128> ranked, refused;
    if (const auto ranking = rank(hopper(), p))
      for (const Candidate& candidate : ranking->candidates) {
        const KernelConfig& config = candidate.recipe.main();
        if (config.operation() != Operation::conv || candidate.recipe.steps.size() > 1) continue;
        EXPECT_TRUE(ranked.insert(key_of(config)).second) << "twice: " << native_name(config);
        ++candidates[config.algorithm.pipeline];
      }
    const auto refusals_of_p = refusals(hopper(), p);
    ASSERT_TRUE(refusals_of_p);
    for (const Refusal& refusal : *refusals_of_p) refused.insert(key_of(refusal.config));
    const auto is_one_or_the_other = [&](const KernelConfig& config, const CudaGemmTile&, const CudaConvRule*) {
      const Key128 key = key_of(config);
      // Kernels that only copy channels are no candidates of their own.
      if (config.algorithm.pipeline == Pipeline::rowwise) return true;
      EXPECT_NE(ranked.contains(key), refused.contains(key)) << native_name(config);
      return true;
    };
    for (const int dims : {3, cuda_conv_dimensions(images_of_slices(p).value_or(p))}) {
      ConvSignature signature = cuda_signature_of(p, dims);
      walk_cuda_conv(hopper(), signature, is_one_or_the_other);
      signature.depthwise = true;
      if (p.c == 1 && p.k == 1) walk_cuda_conv(hopper(), signature, is_one_or_the_other);
    }
  }
  for (const Pipeline pipeline :
       {Pipeline::mma_sm80, Pipeline::warp_specialized, Pipeline::depthwise, Pipeline::grouped, Pipeline::halo,
        Pipeline::stem, Pipeline::direct, Pipeline::pointwise})
    EXPECT_GT(candidates[pipeline], 0) << name_of(pipeline);
}

// Choosing passes on the row that a kernel was made from; a launch finds the same one.
TEST(CudaConvChoice, LaunchesFindTheRowThatRankingKnew) {
  int kernels = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    const ConvProblem p = drawn(seed);
    walk_cuda_conv(hopper(), cuda_signature_of(p, 3),
                   [&](const KernelConfig& config, const CudaGemmTile& row, const CudaConvRule* refused) {
                     if (refused != nullptr) return true;
                     const CudaGemmTile* found = cuda_conv_row(config, hopper());
                     EXPECT_NE(found, nullptr) << native_name(config);
                     EXPECT_EQ(found, &row) << native_name(config);
                     ++kernels;
                     return true;
                   });
  }
  EXPECT_GT(kernels, 0);
}

}  // namespace
}  // namespace tilesmith
