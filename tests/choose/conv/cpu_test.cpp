// How many threads CPU convolutions and gradients of attention get, that packed filters do not depend on it, and what
// the model of convolution counts.
#include "choose/conv/cpu.hpp"
#include "choose/conv/cpu_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "choose/attention_backward/cpu.hpp"
#include "choose/attention_backward/cpu_model.hpp"
#include "choose/conv/cpu_terms.hpp"
#include "choose/cpu_threads.hpp"
#include "choose/random_problem.hpp"
#include "instances/conv/cpu.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

ConvProblem square(std::int64_t channels, std::int64_t size) {
  return {.batch = 1,
          .c = channels,
          .k = channels,
          .in_h = size,
          .in_w = size,
          .filter_h = 3,
          .filter_w = 3,
          .pad_h = 1,
          .pad_w = 1,
          .pad_high_h = 1,
          .pad_high_w = 1};
}

template <class Problem>
int threads_of(const CpuFacts& facts, const Problem& problem) {
  const KernelConfig config = rank(facts, problem).value().candidates.front().recipe.main();
  return threads_worth(problem, config, *facts.level(config.arch), facts.threads);
}

TEST(CpuConvThreads, SmallCallsStayOnOneThread) {
  for (const int threads : {2, 16}) {
    const CpuFacts facts = testing::every_level(threads);
    EXPECT_EQ(threads_of(facts, square(16, 8)), 1);
    EXPECT_EQ(threads_of(facts, square(256, 56)), threads);
  }
}

TEST(CpuConvThreads, SoDoGradientsOfAttention) {
  AttentionBackwardProblem problem;
  for (const int threads : {2, 16}) {
    const CpuFacts facts = testing::every_level(threads);
    problem.batch = problem.heads_q = problem.heads_kv = 1;
    problem.seqlen_q = problem.seqlen_k = 16;
    EXPECT_EQ(threads_of(facts, problem), 1);
    problem.seqlen_q = problem.seqlen_k = 4096;
    EXPECT_EQ(threads_of(facts, problem), threads);
  }
}

TEST(CpuConvThreads, WhatIsFasterAloneIsFasterShared) {
  for (const std::int64_t channels : {16, 32, 48, 64, 128})
    for (const std::int64_t size : {7, 14, 28, 56})
      EXPECT_EQ(rank(testing::every_level(1), square(channels, size)).value().candidates.front().recipe,
                rank(testing::every_level(16), square(channels, size)).value().candidates.front().recipe)
          << channels << " channels, " << size;
}

TEST(CpuConvThreads, PackedFiltersAreTheSameForAnyNumber) {
  for (const std::int64_t channels : {3, 16, 64, 512})
    EXPECT_EQ(native_name(packing_kernel(testing::every_level(1), square(channels, 1)).value()),
              native_name(packing_kernel(testing::every_level(16), square(channels, 1)).value()));
}

/// Cycles of what is counted, by name, of the level's only kernel of the pipeline.
std::map<std::string, double> counted(const ConvProblem& problem, std::string_view level, Pipeline pipeline) {
  const CpuFacts facts = testing::every_level(1);
  const CpuSpec& spec = *facts.level(ArchName::parse(level).value());
  std::map<std::string, double> out;
  enumerate_cpu_conv(spec, problem.direction, problem.data_type, [&](const KernelConfig& config) {
    if (config.algorithm.pipeline != pipeline) return true;
    const CpuConvTerms terms = cpu_conv_terms(problem, config, spec);
    for (std::size_t i = 0; i < terms.size(); ++i) out[std::string(kCpuConvTerms[i])] = terms[i] * spec.clock_hz;
    return false;
  });
  return out;
}

ConvProblem in_fp32(ConvProblem problem) {
  problem.data_type = problem.type_out = problem.type_bias = DataType::fp32;
  return problem;
}

TEST(CpuConvTerms, EveryKernelHasCoefficients) {
  const CpuFacts facts = testing::every_level(1);
  for (const CpuSpec& spec : facts.levels)
    enumerate_cpu_conv(spec, [&](const KernelConfig& config) {
      const auto& signature = std::get<ConvSignature>(config.signature);
      EXPECT_TRUE(std::ranges::any_of(spec.conv_model.kernels, [&](const CpuConvModel::Kernels& each) {
        return each.pipeline == config.algorithm.pipeline && each.direction == signature.direction &&
               each.data_type.value_or(signature.data_type) == signature.data_type;
      })) << native_name(config);
      return true;
    });
}

// Terms are listed without a chip, and coefficients were fitted to them: a Xeon has to count the same.
TEST(CpuConvTerms, AreThoseOfTheChipsThatWereMeasured) {
  const CpuFacts facts = testing::every_level(1);
  for (const CpuSpec& spec : facts.levels) {
    const CpuSpec xeon = on_chip(spec, "GenuineIntel 6");
    enumerate_cpu_conv(spec, [&](const KernelConfig& config) {
      const auto& signature = std::get<ConvSignature>(config.signature);
      ConvProblem p{.direction = signature.direction, .data_type = signature.data_type};
      p.groups = signature.depthwise ? 64 : 1;
      p.c = p.k = signature.depthwise ? 1 : 64;
      p.in_h = p.in_w = 14;
      EXPECT_EQ(cpu_conv_terms(p, config, spec), cpu_conv_terms(p, config, xeon)) << native_name(config);
      return true;
    });
  }
}

TEST(CpuConvTerms, ListsTheKernelsThatAreRanked) {
  const CpuFacts facts = testing::every_level(1);
  for (const std::int64_t channels : {1, 4, 24}) {
    ConvProblem problem = square(channels, 14);
    problem.groups = 32;
    EXPECT_EQ(model_terms(facts, problem).size(), rank(facts, problem).value().candidates.size()) << channels;
  }
}

// 96 pixels by 3 vectors of channels by 64 words are two micro-tile products a cycle. All is read as it lies, and the
// sums are the result.
TEST(CpuConvTerms, AProductOfWholeTilesCopiesNothing) {
  const ConvProblem problem = in_fp32({.batch = 1, .c = 64, .k = 48, .in_h = 8, .in_w = 12});
  const auto terms = counted(problem, "x86_64_v4", Pipeline::blocked);
  EXPECT_EQ(terms.at("products"), 96 * 3 * 64 / 2);
  EXPECT_EQ(terms.at("loads"), 64 * (96 + 12 * 3));
  EXPECT_EQ(terms.at("steps"), 12 * 64);
  EXPECT_EQ(terms.at("lines"), 96);
  EXPECT_EQ(terms.at("packing"), 64 * 3);
  EXPECT_EQ(terms.at("tasks"), 1);
  for (const char* none : {"copied", "gathered", "scattered", "results", "tails", "zeros"})
    EXPECT_EQ(terms.at(none), 0) << none;
}

TEST(CpuConvTerms, ElementsBeyondAVectorAreWrittenApart) {
  ConvProblem problem = in_fp32({.batch = 1, .c = 64, .k = 49, .in_h = 8, .in_w = 12});
  problem.epilogue = {EpilogueOp::relu};
  EXPECT_EQ(counted(problem, "x86_64_v3", Pipeline::blocked).at("tails"), 96);
  EXPECT_EQ(counted(problem, "x86_64_v4", Pipeline::blocked).at("results"), 96 * 4);
  problem.k = 63;
  EXPECT_EQ(counted(problem, "x86_64_v3", Pipeline::blocked).at("tails"), 96 * 7);
  EXPECT_EQ(counted(problem, "x86_64_v4", Pipeline::blocked).at("tails"), 96 * 15);
  // Where nothing follows the sums the last vector overlaps the one before, if there is one.
  problem.epilogue = {};
  EXPECT_EQ(counted(problem, "x86_64_v4", Pipeline::blocked).at("tails"), 0);
  problem.k = 12;
  EXPECT_EQ(counted(problem, "x86_64_v3", Pipeline::blocked).at("tails"), 0);
  EXPECT_EQ(counted(problem, "x86_64_v4", Pipeline::blocked).at("tails"), 96 * 12);
}

// Pixels of 48 floats begin at a line of a cache, of 49 anywhere: 15 of 16 vectors lie in two.
TEST(CpuConvTerms, VectorsOfTheResultStraddleLines) {
  ConvProblem problem = in_fp32({.batch = 1, .c = 64, .k = 48, .in_h = 8, .in_w = 12});
  problem.epilogue = {EpilogueOp::relu};
  EXPECT_EQ(counted(problem, "x86_64_v4", Pipeline::blocked).at("straddling"), 0);
  problem.k = 49;
  EXPECT_EQ(counted(problem, "x86_64_v4", Pipeline::blocked).at("straddling"), 96 * 4 * 15 / 16.0);
  EXPECT_EQ(counted(problem, "x86_64_v3", Pipeline::blocked).at("straddling"), 96 * 7 * 7 / 16.0);
}

// Sixteen lines of filters are turned together, however few words they have.
TEST(CpuConvTerms, FewWordsOfFiltersTakeAsLongAsAVector) {
  ConvProblem problem = in_fp32({.batch = 1, .c = 1, .k = 64, .in_h = 8, .in_w = 12});
  EXPECT_EQ(counted(problem, "x86_64_v4", Pipeline::blocked).at("packing"), 16 * 4);
  problem.c = 17;
  EXPECT_EQ(counted(problem, "x86_64_v4", Pipeline::blocked).at("packing"), 32 * 4);
}

// Two bytes of 25 taps of 4 channels are four tiles' rows; lines of 5 taps are brought for each pixel, and of each
// filter.
TEST(CpuConvTerms, JoinedTapsAreBroughtByLines) {
  ConvProblem problem{.batch = 1, .c = 4, .k = 32, .in_h = 8, .in_w = 8};
  problem.filter_h = problem.filter_w = 5;
  problem.pad_h = problem.pad_w = problem.pad_high_h = problem.pad_high_w = 2;
  const auto terms = counted(problem, "x86_64_amx", Pipeline::blocked);
  EXPECT_EQ(terms.at("copied"), 64 * 5);
  EXPECT_EQ(terms.at("lines"), (8 + 2) * 5);
  EXPECT_EQ(terms.at("gathered"), 32 * 5);
  EXPECT_EQ(terms.at("packing"), 4 * 16 * 2);
  EXPECT_EQ(terms.at("scattered"), 0);
}

// A filter of one tap with a stride of 2 reaches one phase of four.
TEST(CpuConvTerms, PhasesWithoutTapsAreZeros) {
  ConvProblem problem = in_fp32(square(32, 8));
  problem.direction = ConvDirection::backward_data;
  EXPECT_EQ(counted(problem, "x86_64_v4", Pipeline::blocked).at("zeros"), 0);
  problem.filter_h = problem.filter_w = 1;
  problem.pad_h = problem.pad_w = problem.pad_high_h = problem.pad_high_w = 0;
  problem.stride_h = problem.stride_w = 2;
  EXPECT_EQ(counted(problem, "x86_64_v4", Pipeline::blocked).at("zeros"), 3 * 96 * 480 / 16);
}

// Of a line of 5 pixels 4 + 5 + 4 meet a tap of 3: of an image 169, and 32 channels are two vectors.
TEST(CpuConvTerms, DepthwiseCountsTapsThatMeetTheImage) {
  ConvProblem problem = in_fp32(square(1, 5));
  problem.groups = 32;
  EXPECT_EQ(counted(problem, "x86_64_v4", Pipeline::depthwise).at("products"), 169 * 2 / 2);
  problem.direction = ConvDirection::backward_weight;
  EXPECT_EQ(counted(problem, "x86_64_v4", Pipeline::depthwise).at("products"), 169 * 2 / 2);
}

// What meets rows of taps of groups lies apart: it is copied element by element.
TEST(CpuConvTerms, FoldedTapsOfGroupsAreCopiedOneByOne) {
  ConvProblem problem = in_fp32(square(4, 8));
  problem.k = 16;
  // Beside the image a mask reads AVX-512's words: of a quarter of the pixels.
  EXPECT_EQ(counted(problem, "x86_64_v3", Pipeline::blocked).at("scattered"), 64 * 3 * 12 * 0.25);
  EXPECT_EQ(counted(problem, "x86_64_v4", Pipeline::blocked).at("scattered"), 0);
  EXPECT_EQ(counted(problem, "x86_64_v4", Pipeline::blocked).at("copied"), 64 * 3 * 0.25);
  problem.groups = 2;
  EXPECT_EQ(counted(problem, "x86_64_v4", Pipeline::blocked).at("scattered"), 2 * 64 * 3 * 12);
}

TEST(CpuConvTerms, TapsOfFewChannelsAreColumnsOfBackwardData) {
  ConvProblem problem = in_fp32(square(4, 8));
  problem.k = 16;
  problem.direction = ConvDirection::backward_data;
  auto counts = counted(problem, "x86_64_v4", Pipeline::blocked);
  EXPECT_EQ(counts.at("products"), 8 * 8 * 3 * 16 * 0.5);  // 12 columns are a vector
  EXPECT_EQ(counts.at("tasks"), 8);                        // lines
  problem.c = 9;                                           // more than half of a vector: nine taps of two columns
  EXPECT_EQ(counted(problem, "x86_64_v4", Pipeline::blocked).at("products"), 64 * 9 * 16 * 0.5);
}

// Two vectors of pixels for each of three filters; half of AVX-512's lanes would be empty otherwise.
TEST(CpuConvTerms, DirectKernelsHaveVectorsOfPixels) {
  ConvProblem problem = in_fp32({.c = 1, .k = 3, .in_w = 32});
  EXPECT_EQ(counted(problem, "x86_64_v4", Pipeline::direct).at("products"), 2 * 3 / 2);
  EXPECT_EQ(counted(problem, "x86_64_v3", Pipeline::direct).at("products"), 4 * 3 / 2);
  problem.direction = ConvDirection::backward_weight;
  EXPECT_EQ(counted(problem, "x86_64_v4", Pipeline::direct).at("products"), 2 * 3 / 2);
}

// Four channels of int8 are a word as they lie; with a stride it is put together, and of more words pixels are turned.
TEST(CpuConvTerms, WordsOfPixelsThatAreApartArePutTogether) {
  ConvProblem problem{.data_type = DataType::int8, .type_out = DataType::fp32, .c = 4, .k = 16, .in_w = 32};
  auto terms = counted(problem, "x86_64_v4_bf16", Pipeline::direct);
  EXPECT_EQ(terms.at("scattered"), 4 * 16);  // of the filters
  EXPECT_EQ(terms.at("gathered"), 0);
  problem.stride_w = 2;
  EXPECT_EQ(counted(problem, "x86_64_v4_bf16", Pipeline::direct).at("scattered"), 4 * 16 + 4 * 16);
  problem.c = 8;
  terms = counted(problem, "x86_64_v4_bf16", Pipeline::direct);
  EXPECT_EQ(terms.at("scattered"), 8 * 16);
  EXPECT_EQ(terms.at("gathered"), 16);
}

TEST(CpuConvChoice, DirectKernelsGoFirstWhereColumnsAreFew) {
  const auto pipeline = [](const ConvProblem& problem) {
    return rank(testing::every_level(1), problem).value().candidates.front().recipe.main().algorithm.pipeline;
  };
  for (const ConvDirection direction :
       {ConvDirection::forward, ConvDirection::backward_data, ConvDirection::backward_weight}) {
    ConvProblem few = in_fp32(square(4, 56));
    few.direction = direction;
    few.groups = 9;
    few.c = 5;
    few.k = 3;
    EXPECT_EQ(pipeline(few), Pipeline::direct);
    ConvProblem many = in_fp32(square(256, 14));
    many.direction = direction;
    EXPECT_EQ(pipeline(many), Pipeline::blocked);
  }
}

// Taps that are a stride apart reach one phase of four, and a kernel copies the image for that one alone.
TEST(CpuConvChoice, PhasesThatNoTapReachesCopyNothing) {
  ConvProblem p = in_fp32(square(4, 56));
  p.direction = ConvDirection::backward_data;
  p.groups = 5;
  p.k = 59;
  p.in_h = 7;
  p.in_w = 66;
  p.filter_h = p.filter_w = 3;
  p.pad_h = p.pad_w = p.pad_high_h = p.pad_high_w = 1;
  p.stride_h = p.stride_w = 2;
  const auto copied = [&](std::int64_t dilation) {
    p.dilation_h = p.dilation_w = dilation;
    for (const ModelTerms& kernel : model_terms(testing::every_level(1), p))
      if (kernel.config.algorithm.pipeline == Pipeline::direct)
        for (std::size_t i = 0; i < kernel.names.size(); ++i)
          if (kernel.names[i] == "copied") return kernel.values[i];
    return 0.0;
  };
  EXPECT_GT(copied(1), 2 * copied(2));  // the taps of one phase reach farther then
  EXPECT_GT(copied(2), 0);
  EXPECT_EQ(rank(testing::every_level(1), p).value().candidates.front().recipe.main().algorithm.pipeline,
            Pipeline::direct);
}

// Only one kernel reads what is packed: it must be there without a compiler, where another one would be.
TEST(CpuConvChoice, FiltersArePackedForDirectKernelsOfFoursAlone) {
  ConvProblem few = in_fp32(square(4, 56));
  few.groups = 9;
  few.c = 5;
  few.k = 3;
  EXPECT_EQ(packing_kernel(testing::every_level(1), few).value().algorithm.pipeline, Pipeline::blocked);
  few.packed_w = true;
  EXPECT_EQ(rank(testing::every_level(1), few).value().candidates.front().recipe.main().algorithm.pipeline,
            Pipeline::blocked);
  few.packed_w = false;
  few.data_type = DataType::int8;
  const KernelConfig fours = packing_kernel(testing::every_level(1), few).value();
  EXPECT_EQ(fours.algorithm.pipeline, Pipeline::direct);
  EXPECT_EQ(fours.algorithm.instruction, Instruction::dot_int8);
  few.packed_w = true;
  EXPECT_EQ(rank(testing::every_level(1), few).value().candidates.front().recipe.main(), fours);
}

TEST(CpuConvTerms, NothingIsCountedOfNothing) {
  ConvProblem problem = in_fp32(square(16, 8));
  problem.batch = 0;
  for (const auto& [name, cycles] : counted(problem, "x86_64_v4", Pipeline::blocked)) {
    if (name == "call" || name == "memory") continue;
    EXPECT_EQ(cycles, 0) << name;
  }
}

}  // namespace
}  // namespace tilesmith
