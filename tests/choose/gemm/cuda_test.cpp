// Which CUDA GEMM kernels go first, by the tile table and by predicted seconds, and how a launch divides a problem.
#include "choose/gemm/cuda.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <unordered_set>

#include "choose/gemm/cuda_model.hpp"
#include "choose/gemm/cuda_space.hpp"
#include "choose/gemm/cuda_work.hpp"
#include "choose/random_problem.hpp"
#include "instances/gemm/cuda.hpp"
#include "instances/gemm/cuda_rows.hpp"
#include "vocabulary/data_type.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

const CudaSpec& arch(std::string_view name) {
  return testing::cuda_arch(name);
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
TEST(CudaGemmRank, TheWholeSpaceIsDistinctAcceptedAndClamped) {
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
  // The table's tiles of powers of two are in it, but for those that ask for a promise. Three warpgroups are none.
  enumerate_cuda_gemm(arch("sm_90a"), bf16(), [&](const KernelConfig& config) {
    const auto power = [](int v) { return (v & (v - 1)) == 0; };
    const Algorithm& a = config.algorithm;
    const bool any_rows = !a.transpose_c && a.pipeline != Pipeline::skinny_tma && power(a.wave[0]);
    if ((power(a.tile[0]) || any_rows) && power(a.tile[1]) && power(a.tile[2]) && a.tile[2] <= 256 && a.stages <= 12 &&
        !a.prefetch_weights) {
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

TEST(CudaGemmRank, RowsThatBeginAnywhereAreCopiedWhereThatPays) {
  const CudaSpec& spec = arch("sm_90a");
  CudaGemmShape shape{.m = 4437, .n = 2376, .k = 419, .unaligned = true, .aligned_d = true, .may_pad = true};
  const auto front = [&] { return ranked_cuda_gemm(spec, bf16(), shape).front().recipe.main(); };
  EXPECT_EQ(front().algorithm.pipeline, Pipeline::warp_specialized);
  EXPECT_TRUE(cuda_gemm_pads(front(), shape));
  EXPECT_EQ(cuda_gemm_padding(bf16(), shape).a.stride(), 896);  // 838 bytes
  const double copied = ranked_cuda_gemm(spec, bf16(), shape).front().predicted_seconds;
  shape.unaligned = false;
  shape.k = 448;
  EXPECT_FALSE(cuda_gemm_pads(front(), shape));
  EXPECT_LT(ranked_cuda_gemm(spec, bf16(), shape).front().predicted_seconds, copied - 1e-6);
  shape.unaligned = true;
  shape.k = 419;
  shape.may_pad = false;
  EXPECT_EQ(front().algorithm.pipeline, Pipeline::mma_sm80);
  shape.may_pad = true;
  for (CudaGemmShape other : {shape, shape, shape}) {
    static int at = 0;
    if (at == 0) other.k2 = 100;
    if (at == 1) other.m = 1 << 21;  // more than a gigabyte
    if (at == 2) other.grouping = GemmGrouping::masked;
    ++at;
    KernelConfig config = ranked_cuda_gemm(spec, bf16(), shape).front().recipe.main();
    EXPECT_FALSE(cuda_gemm_pads(config, other));
    EXPECT_FALSE(cuda_gemm_suits(config, other));
  }
  shape.aligned_d = false;  // D by elements then
  EXPECT_EQ(front().algorithm.vector[2], 1);
}

GemmSignature weights_signature(DataType weights, DataType scale = DataType::bf16) {
  GemmSignature s = signature_of(DataType::bf16, DataType::bf16);
  s.b = weights;
  s.scale = scale;
  return s;
}

TEST(CudaGemmRank, WeightsGoToMmaKernelsOfEveryArchitecture) {
  for (const char* name : {"sm_80", "sm_89", "sm_90a"})
    for (const DataType weights : {DataType::int8, DataType::int4})
      for (const DataType scale : {DataType::bf16, DataType::fp32}) {
        const GemmSignature signature = weights_signature(weights, scale);
        const auto few = ranked_cuda_gemm(arch(name), signature, {16, 4096, 4096});
        ASSERT_FALSE(few.empty());
        EXPECT_EQ(few.front().recipe.main().algorithm.pipeline, Pipeline::skinny)
            << native_name(few.front().recipe.main());
        EXPECT_EQ(few.front().recipe.main().algorithm.tile[2], weights == DataType::int4 ? 128 : 64);
        const auto many = ranked_cuda_gemm(arch(name), signature, {512, 4096, 4096});
        ASSERT_FALSE(many.empty());
        EXPECT_EQ(many.front().recipe.main().algorithm.pipeline,
                  name == std::string_view("sm_90a") ? Pipeline::weight_only : Pipeline::mma_sm80);
        // Rows of whole 16 bytes of weights: 32 of int4.
        const auto odd = ranked_cuda_gemm(arch(name), signature, {16, 4096, 4088});
        ASSERT_FALSE(odd.empty());
        EXPECT_EQ(odd.front().recipe.main().algorithm.pipeline,
                  name == std::string_view("sm_90a") ? Pipeline::weight_only : Pipeline::mma_sm80);
      }
}

TEST(CudaGemmRank, OnHopperPlainProductsOfFewRowsStayWithTheCopyEngine) {
  for (const Candidate& one :
       ranked_cuda_gemm(arch("sm_90a"), signature_of(DataType::bf16, DataType::bf16), {16, 4096, 4096}))
    EXPECT_NE(one.recipe.main().algorithm.pipeline, Pipeline::skinny);
}

TEST(CudaGemmRank, OnlyAConstantBIsReadEarly) {
  CudaGemmShape shape{16, 4096, 4096};
  const Candidate plain = ranked_cuda_gemm(arch("sm_90a"), bf16(), shape).front();
  EXPECT_FALSE(plain.recipe.main().algorithm.prefetch_weights);
  shape.prefetch_weights = true;
  const Candidate early = ranked_cuda_gemm(arch("sm_90a"), bf16(), shape).front();
  KernelConfig same = plain.recipe.main();
  same.algorithm.prefetch_weights = true;
  EXPECT_EQ(early.recipe.main(), same);
  EXPECT_EQ(early.predicted_seconds, plain.predicted_seconds);
  EXPECT_TRUE(cuda_gemm_suits(plain.recipe.main(), shape)) << "a promise need not be used";
  shape.prefetch_weights = false;
  EXPECT_FALSE(cuda_gemm_suits(early.recipe.main(), shape));
  KernelConfig hopper = hopper_config();
  hopper.algorithm.prefetch_weights = true;
  EXPECT_NE(first_refusal(cuda_gemm_rules(), CudaGemmSubject{hopper, arch("sm_90a")}), nullptr);
}

TEST(CudaGemmRank, BlockScalesTakeTilesWhoseColumnsDivide128) {
  GemmSignature signature = signature_of(DataType::fp8, DataType::bf16);
  signature.qscale = QuantScale::blockscale;
  const auto ranked = ranked_cuda_gemm(arch("sm_90a"), signature, {4096, 4096, 4096});
  ASSERT_FALSE(ranked.empty());
  EXPECT_EQ(ranked.front().recipe.main().algorithm.pipeline, Pipeline::warp_specialized);
  EXPECT_EQ(ranked.front().recipe.main().algorithm.tile[0], 128);
  for (const Candidate& one : ranked) EXPECT_EQ(128 % one.recipe.main().algorithm.tile[1], 0);
}

TEST(CudaGemmRank, GroupsHaveRoomForTheTilesOfAnyRows) {
  GemmSignature signature = signature_of(DataType::bf16, DataType::bf16);
  signature.grouping = GemmGrouping::contiguous;
  for (const std::int64_t rows_of_all : {1, 3, 6, 1000}) {
    CudaGemmShape shape{rows_of_all, 256, 64, 6};
    shape.grouping = GemmGrouping::contiguous;
    const auto ranked = ranked_cuda_gemm(arch("sm_90a"), signature, shape);
    ASSERT_FALSE(ranked.empty());
    for (const Candidate& one : ranked) {
      const int m = one.recipe.main().algorithm.tile[0], n = one.recipe.main().algorithm.tile[1];
      // The worst rows: one more than whole tiles in five groups, the rest in the last.
      std::int64_t tiles = 0, left = shape.m;
      for (int g = 0; g < 6; ++g) {
        const std::int64_t rows = g == 5 ? left : std::min<std::int64_t>(left, 1);
        tiles += (rows + m - 1) / m;
        left -= rows;
      }
      EXPECT_GE(cuda_gemm_tiles(one.recipe.main(), shape), tiles * ((shape.n + n - 1) / n))
          << native_name(one.recipe.main()) << " " << rows_of_all;
    }
  }
}

/// "tile m x n, pipeline" of the first.
std::string first(const GemmSignature& signature, CudaGemmShape shape, std::string_view on = "sm_90a") {
  const auto ranked = ranked_cuda_gemm(arch(on), signature, shape);
  if (ranked.empty()) return "none";
  const Algorithm& a = ranked.front().recipe.main().algorithm;
  return std::string(name_of(a.pipeline)) + " " + std::to_string(a.tile[0]) + "x" + std::to_string(a.tile[1]) + " s" +
         std::to_string(a.stages) + (a.ping_pong ? " pp" : "") + (a.split_k ? " split" : "");
}

double seconds_of(const std::vector<Candidate>& ranked, std::string_view part) {
  const auto found = std::ranges::find_if(
      ranked, [&](const Candidate& one) { return native_name(one.recipe.main()).find(part) != std::string::npos; });
  return found == ranked.end() ? 0 : found->predicted_seconds;
}

TEST(CudaGemmRank, RowsThatLieInTwoLinesOfTheCacheTakeTheirTime) {
  // 23 steps of k each. An H100 took 30.1 us for the first by this tile; by its step alone it would be 20.
  const GemmSignature fp8 = signature_of(DataType::fp8, DataType::bf16);
  const double in_two = seconds_of(ranked_cuda_gemm(arch("sm_90a"), fp8, {669, 5760, 2880}),
                                   "_tile64x160x128_wave1_stages7_blocks1_vector");
  const double in_one = seconds_of(ranked_cuda_gemm(arch("sm_90a"), fp8, {669, 5760, 2944}),
                                   "_tile64x160x128_wave1_stages7_blocks1_vector");
  ASSERT_GT(in_one, 0);
  EXPECT_GT(in_two, 1.2 * in_one);
  EXPECT_EQ(first(fp8, {2158, 2880, 2880}), "warpspec 128x192 s4 pp");
}

TEST(CudaGemmRank, OddRowsTakeAsManyPartsAsBlocksFitOnAnSm) {
  CudaGemmShape shape{1759, 251, 1783};
  shape.unaligned = true;
  const auto ranked = ranked_cuda_gemm(arch("sm_90a"), bf16(), shape);
  const Algorithm& a = ranked.front().recipe.main().algorithm;
  EXPECT_TRUE(a.split_k);
  EXPECT_EQ(a.block_per_cu, 4);
  // Parts of a tile four times as large take as much longer to join: 22.5 us on an H100, and 15.2 of 64 x 64.
  CudaGemmShape short_k{853, 347, 167};
  short_k.unaligned = true;
  EXPECT_EQ(first(bf16(), short_k), "mma_sm80 64x64 s3 split");
}

TEST(CudaGemmRank, FewStepsOfOddRowsAreNotSplit) {
  // Measured on an H100: 8.7 us whole, 9.9 in two parts of a step each; 10.6 and 12.4.
  CudaGemmShape one{733, 37, 41}, other{173, 1861, 37};
  one.unaligned = other.unaligned = true;
  EXPECT_EQ(first(bf16(), one), "mma_sm80 64x64 s3");
  EXPECT_EQ(first(signature_of(DataType::fp16, DataType::fp16), other), "mma_sm80 64x64 s3");
  // Three blocks of fp8's fit on an SM: 104 us, 148 by 128 x 64 of which two do.
  CudaGemmShape tall{17909, 24, 952};
  tall.unaligned = true;
  const auto ranked = ranked_cuda_gemm(arch("sm_90a"), signature_of(DataType::fp8, DataType::bf16), tall);
  EXPECT_EQ(ranked.front().recipe.main().algorithm.block_per_cu, 3);
}

TEST(CudaGemmRank, FirstChoicesAreBelievedWhereTheyWereMeasured) {
  // 72 tiles of 64 columns, of which some have their way to memory alone: 16.0 us on an H100, 14.4 by 58 of 80.
  EXPECT_EQ(first(bf16(), {49, 4608, 3584}), "warpspec 64x80 s12");
  EXPECT_EQ(first(bf16(), {128, 4096, 4096}), "warpspec 64x64 s12");
  // What a row leaves is not the next row's, measured at other sizes: 17.5 us by 64 x 112, 15.3 by 64 x 96 (H200).
  EXPECT_EQ(first(bf16(), {60, 6144, 4096}), "warpspec 64x96 s10");
  // Nor is a problem of 2.2 rounds: 12.8 us by 64 x 112, 10.6 by 64 x 128, and about as much by other whole rounds.
  EXPECT_NE(first(bf16(), {25, 32768, 512}), "warpspec 64x112 s10");
  // A cluster that shares tiles by k takes 0.96 of the time of the first choice (62 rows), said 0.91.
  for (const std::int64_t rows : {49, 62, 64}) {
    const auto ranked = ranked_cuda_gemm(arch("sm_90a"), bf16(), {rows, 4096, 4096});
    EXPECT_EQ(ranked.front().recipe.main().algorithm.cluster_k, 2) << rows;
  }
}

TEST(CudaGemmRank, StreamsAreRankedByTheirTime) {
  // fp8, H200: 23.2 us by a stream of 160 groups of columns, 21.8 by 128 tiles. By mma.sync 24 rows of 8-bit floats
  // take 6.9 us, said 5.0, and a cluster by k takes 4.6.
  const GemmSignature fp8 = signature_of(DataType::fp8, DataType::bf16);
  const auto algorithm = [&](CudaGemmShape shape) {
    return ranked_cuda_gemm(arch("sm_90a"), fp8, shape).front().recipe.main().algorithm;
  };
  EXPECT_EQ(algorithm({2, 10240, 8192}).pipeline, Pipeline::warp_specialized);
  EXPECT_EQ(algorithm({20, 2880, 2880}).instruction, Instruction::wgmma);
  // Where a stream may bring B early, it does.
  CudaGemmShape early{2, 10240, 8192};
  early.prefetch_weights = true;
  EXPECT_EQ(algorithm(early).pipeline, Pipeline::skinny_tma);
}

TEST(CudaGemmRank, TilesWhoseResultsPassThroughTheRingHaveOneStageMore) {
  // What cuBLAS has there: 33 us; 32.6 with five stages and 35.6 with three (H100).
  EXPECT_EQ(first(bf16(), {669, 5760, 2880}), "warpspec 168x192 s5");
}

TEST(CudaGemmRank, ClustersOfShortTilesPayTheirEnd) {
  // Rows that straddle sectors, but few steps: 9.3 us by 64 x 128 in clusters on an H100, 8.0 without; 7.8 and 7.0.
  for (const CudaGemmShape& shape : {CudaGemmShape{3958, 240, 200}, CudaGemmShape{215, 3816, 72}}) {
    const Algorithm a = ranked_cuda_gemm(arch("sm_90a"), bf16(), shape).front().recipe.main().algorithm;
    EXPECT_EQ(a.cluster[0] * a.cluster[1], 1) << shape.m;
  }
}

TEST(CudaGemmRank, SmsThatShareNoColumnsHaveLessOfL2) {
  const auto algorithm = [](DataType type, CudaGemmShape shape) {
    const GemmSignature signature = signature_of(type, DataType::bf16);
    return ranked_cuda_gemm(arch("sm_90a"), signature, shape).front().recipe.main().algorithm;
  };
  // H200: 21.6 us by 126 blocks that share 144 x 64 by k, 19.3 by 80 x 128.
  EXPECT_EQ(algorithm(DataType::bf16, {1000, 576, 7168}).cluster_k, 1);
  // One row of tiles: 74.6 us by 144 x 64, 67.0 by 80 x 128 in two, 64.1 by clusters of four that copy A once.
  const Algorithm one_row = algorithm(DataType::bf16, {141, 7168, 16384});
  EXPECT_EQ(one_row.tile[0], 144);
  EXPECT_EQ(one_row.cluster[1], 4);
}

TEST(CudaGemmRank, OneRoundGetsMoreFromL2) {
  CudaSpec spec = arch("sm_90a");
  const auto alone = [&](DataType type, CudaGemmShape shape) {
    const GemmSignature signature = signature_of(type, DataType::bf16);
    const Algorithm a = ranked_cuda_gemm(spec, signature, shape).front().recipe.main().algorithm;
    return !a.split_k && a.cluster_k == 1;
  };
  // H200: 16.5 us by 80 x 64 and 18.2 by 80 x 128 in parts; 9.0 by 80 x 64 and 9.6 by 144 x 64 in clusters by k.
  EXPECT_TRUE(alone(DataType::bf16, {399, 1536, 7168}));
  EXPECT_TRUE(alone(DataType::fp8, {261, 1536, 7168}));
  spec.gemm.one_round.reset();
  EXPECT_FALSE(alone(DataType::bf16, {399, 1536, 7168}));
  EXPECT_FALSE(alone(DataType::fp8, {261, 1536, 7168}));
}

/// Microseconds that each transposed tile is said to take longer where turning sums as floats takes one.
std::vector<std::pair<Algorithm, double>> turned_microseconds(const GemmSignature& signature) {
  CudaSpec free = arch("sm_90a"), costly = free;
  free.gemm.turned_us = 0;
  costly.gemm.turned_us = 1;
  const CudaGemmShape few{300, 512, 4096};  // one round of every tile, which memory bounds nowhere
  std::vector<std::pair<Algorithm, double>> found;
  for (const Candidate& candidate : ranked_cuda_gemm(free, signature, few)) {
    const KernelConfig& config = candidate.recipe.main();
    if (config.algorithm.ping_pong || config.algorithm.cluster_k > 1 || config.algorithm.split_k) continue;
    const auto seconds = [&](const CudaSpec& spec) {
      const CudaGemmTile* row = row_of(config, spec);
      return cuda_gemm_item_seconds(config, cuda_gemm_resources(config), row, spec, few, 1);
    };
    found.emplace_back(config.algorithm, 1e6 * (seconds(costly) - seconds(free)));
  }
  return found;
}

TEST(CudaGemmRank, TurningSumsAsFloatsTakesItsTime) {
  GemmSignature added = bf16(), biased = bf16();
  added.epilogue_ops = {EpilogueOp::add};
  biased.epilogue_ops = {EpilogueOp::bias, EpilogueOp::gelu};
  std::size_t transposed = 0;
  // Results of 32 bits, and those that are no box, pass shared memory as floats too: 112 x 64 took 10.4 us and 64 x 64
  // 9.1 at 194 x 1304 x 1040 in int8, 11.9 and 10.7 at 1511 x 113 x 53 in fp16 (H200).
  for (const GemmSignature& turned : {added, signature_of(DataType::int8, DataType::int32)}) {
    for (const auto& [a, longer] : turned_microseconds(turned)) {
      const int blocks = a.transpose_c ? (a.tile[0] + 63) / 64 * (a.tile[1] / 64) / a.wave[0] : 0;
      EXPECT_NEAR(longer, blocks, 1e-6) << a.tile[0] << " x " << a.tile[1];
      transposed += a.transpose_c ? 1 : 0;
    }
  }
  EXPECT_GT(transposed, 20U);
  for (const auto& [a, longer] : turned_microseconds(biased))  // by the store of matrices
    EXPECT_NEAR(longer, 0, 1e-6) << a.tile[0] << " x " << a.tile[1];
}

TEST(CudaGemmRank, TilesTakeTurnsWhereThereAreSeveral) {
  const GemmSignature fp8 = signature_of(DataType::fp8, DataType::bf16);
  const auto takes_turns = [](const GemmSignature& signature, CudaGemmShape shape) {
    return ranked_cuda_gemm(arch("sm_90a"), signature, shape).front().recipe.main().algorithm.ping_pong;
  };
  // 128 x 112, H200: 13.4 us in turns and 12.8 without; 13.9 and 13.3.
  EXPECT_FALSE(takes_turns(fp8, {600, 2880, 4096}));
  EXPECT_FALSE(takes_turns(bf16(), {230, 7168, 2048}));
  EXPECT_TRUE(takes_turns(bf16(), {2932, 2880, 2880})) << "65.3 us by 176 x 128 in turns, 67.0 without";
}

TEST(CudaGemmRank, OfTilesThatShouldTakeAsLongTheLeastIsFirst) {
  // H200: 20.4 us by 64 x 96, 21.8 by 128 x 192; memory decides both.
  const Algorithm a = ranked_cuda_gemm(arch("sm_90a"), bf16(), {18, 24576, 1536}).front().recipe.main().algorithm;
  EXPECT_LE(a.tile[0] * a.tile[1], 64 * 96);
}

TEST(CudaGemmRank, FewRowsStreamByWgmma) {
  // fp8, H200: 6.0 us by wgmma and 6.5 by mma.sync, 35.4 and 39.8; 576 columns are too few for a stream.
  const GemmSignature fp8 = signature_of(DataType::fp8, DataType::bf16);
  const auto chosen = [&](const CudaGemmShape& shape) {
    const Algorithm a = ranked_cuda_gemm(arch("sm_90a"), fp8, shape).front().recipe.main().algorithm;
    return std::pair{a.pipeline, a.instruction};
  };
  const std::pair stream{Pipeline::skinny_tma, Instruction::wgmma};
  EXPECT_EQ(chosen({1, 4096, 4096}), stream);
  EXPECT_EQ(chosen({3, 27648, 5120}), stream);
  EXPECT_NE(chosen({2, 576, 7168}), stream);
}

TEST(CudaGemmRank, SumsOfAStreamOfManyRowsTakeTheirTime) {
  // H200, single calls: 15 us by the stream of 24 x 80, whose groups are four to an SM, 11.4 by 128 x 160 in turns.
  CudaSpec spec = arch("sm_90a");
  const auto chosen = [&](const CudaGemmShape& shape) {
    return ranked_cuda_gemm(spec, bf16(), shape).front().recipe.main().algorithm.pipeline;
  };
  EXPECT_EQ(chosen({17, 38648, 80}), Pipeline::warp_specialized);
  EXPECT_EQ(chosen({17, 4320, 512}), Pipeline::skinny_tma) << "one group to an SM";
  spec.gemm.mma_stream.sum_ns = 0;
  EXPECT_EQ(chosen({17, 38648, 80}), Pipeline::skinny_tma);
}

TEST(CudaGemmRank, TheTileTableChooses) {
  // What the measured table of the templates' documentation ran, bf16.
  EXPECT_EQ(first(bf16(), {512, 512, 512}), "warpspec 64x32 s12");
  EXPECT_EQ(first(bf16(), {1024, 1024, 1024}), "warpspec 64x128 s8");
  EXPECT_EQ(first(bf16(), {4096, 4096, 4096}), "warpspec 128x256 s4");
  EXPECT_EQ(first(bf16(), {1, 4096, 4096}), "skinny_tma 8x64 s6");
  EXPECT_EQ(first(bf16(), {16, 4096, 4096}), "skinny_tma 16x64 s5");
  EXPECT_EQ(first(bf16(), {16, 14336, 4096}), "skinny_tma 16x112 s5");
  EXPECT_EQ(first(bf16(), {64, 4096, 4096}), "warpspec 64x64 s12");
  EXPECT_EQ(first(bf16(), {64, 14336, 4096}), "warpspec 64x112 s10");
  EXPECT_EQ(first(bf16(), {128, 4096, 14336}), "warpspec 64x64 s12");  // 33.4 us, 32.9 by 128x64 in clusters by k
  EXPECT_EQ(first(bf16(), {128, 14336, 4096}), "warpspec 64x224 s6");
  EXPECT_EQ(first(bf16(), {128, 4096, 4096}), "warpspec 64x64 s12");
  EXPECT_EQ(first(bf16(), {192, 4096, 4096}), "warpspec 96x64 s10");  // 13.5 us, 13.8 by 64x96
  EXPECT_EQ(first(bf16(), {192, 14336, 4096}), "warpspec 192x112 s5");
  EXPECT_EQ(first(bf16(), {256, 4096, 4096}), "warpspec 64x128 s8");
  EXPECT_EQ(first(bf16(), {320, 4096, 4096}), "warpspec 80x128 s7");
  EXPECT_EQ(first(bf16(), {512, 4096, 4096}), "warpspec 128x128 s6");
  EXPECT_EQ(first(bf16(), {512, 14336, 4096}), "warpspec 128x224 s4");
  EXPECT_EQ(first(bf16(), {8192, 14336, 4096}), "warpspec 256x160 s4");
}

TEST(CudaGemmRank, RowsThatStraddleSectorsTakeClusters) {
  const auto clusters = [](const GemmSignature& signature, CudaGemmShape shape) {
    const Algorithm a = ranked_cuda_gemm(arch("sm_90a"), signature, shape).front().recipe.main().algorithm;
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
  EXPECT_EQ(clusters(bf16(), {64, 4096, 4096 + 8}), 1) << "one row of tiles: 17.3 us by 64 x 80, 17.6 by 64 x 64";
  GemmSignature groups = bf16();
  groups.grouping = GemmGrouping::contiguous;
  for (const std::int64_t k : {4096, 4096 + 8}) {
    const auto ranked = ranked_cuda_gemm(arch("sm_90a"), groups, {512, 4096, k, 8, false, GemmGrouping::contiguous});
    EXPECT_EQ(ranked.front().recipe.main().algorithm.block_per_cu, 1) << "two blocks an SM ask for twice the rows";
  }
}

TEST(CudaGemmRank, GroupsOfFewRowsTakeTilesOf64Rows) {
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
  for (const Candidate& one : ranked_cuda_gemm(arch("sm_90a"), bf16(), {64, 4096, 4096}))
    EXPECT_TRUE(one.recipe.main().algorithm.pipeline != Pipeline::warp_specialized ||
                one.recipe.main().algorithm.block_per_cu == 1)
        << "the tile for groups: " << native_name(one.recipe.main());
}

TEST(CudaGemmRank, WhatAnAccessNeedsDecides) {
  const auto widths = [](const GemmSignature& signature, const CudaGemmShape& shape) {
    const auto ranked = ranked_cuda_gemm(arch("sm_90a"), signature, shape);
    return ranked.empty() ? std::array<std::uint8_t, 3>{} : ranked.front().recipe.main().algorithm.vector;
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
    EXPECT_EQ(one.recipe.main().algorithm.pipeline, Pipeline::mma_sm80);
  EXPECT_TRUE(first(bf16(), {1, 320, 64}, "sm_80").starts_with("skinny"));
  // 8-bit matrices that do not lie along k are transposed, but the copy engine must be able to bring them.
  GemmSignature odd = signature_of(DataType::int8, DataType::int32);
  odd.layout_a = MatrixOrder::column;
  EXPECT_TRUE(first(odd, {300, 320, 64}).starts_with("warpspec"));
  EXPECT_TRUE(first(odd, {300, 320, 64, 1, true}).starts_with("mma_sm80"));
  EXPECT_TRUE(first(signature_of(DataType::fp32, DataType::fp32), {300, 320, 64}).starts_with("mma_sm80"));
  EXPECT_TRUE(first(signature_of(DataType::tf32, DataType::fp32), {300, 320, 64}).starts_with("warpspec"));
}

TEST(CudaGemmRank, WhatIsTransposedDecidesTheTile) {
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

TEST(CudaGemmRank, WhatGivesOtherBitsStandsBehindAllOthers) {
  for (const CudaGemmShape& shape : {CudaGemmShape{128, 256, 16384}, CudaGemmShape{4096, 4096, 4096}}) {
    const auto ranked = ranked_cuda_gemm(arch("sm_90a"), bf16(), shape);
    const auto is_bitwise = [](const Candidate& one) { return one.recipe.main().algorithm.is_bitwise(); };
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

TEST(CudaGemmRank, EverySignatureListedRunsOnEveryShape) {
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

TEST(CudaGemmRank, SplitsHaveAStageEach) {
  KernelConfig config = hopper_config();
  EXPECT_EQ(cuda_gemm_splits(config, nullptr, arch("sm_90a"), {128, 4096, 14336}), 1);
  config.algorithm.split_k = true;
  EXPECT_EQ(cuda_gemm_splits(config, nullptr, arch("sm_90a"), {128, 4096, 64}), 1);
  EXPECT_EQ(cuda_gemm_splits(config, nullptr, arch("sm_90a"), {128, 4096, 0}), 1);
  EXPECT_EQ(cuda_gemm_splits(config, nullptr, arch("sm_90a"), {128, 4096, 128}), 2);
}

TEST(CudaGemmRank, EachBlockOfAClusterJoinsAShareOfItsParts) {
  KernelConfig config = hopper_config();
  config.algorithm.tile = {64, 64, 64};
  config.algorithm.wave = {1};
  config.algorithm.cluster_k = 4;
  config.algorithm.split_k = true;
  const CudaGemmWork work = cuda_gemm_work(config, arch("sm_90a"), {88, 80, 37264});  // four tiles
  EXPECT_GT(work.splits, 4);
  EXPECT_EQ(work.blocks, 4 * 4 * work.splits);
  EXPECT_LE(work.blocks, 132);
  EXPECT_EQ(work.places, 4 * work.splits) << "of whole tiles";
  EXPECT_EQ(work.counters, 4 * 4 * cuda_gemm_resources(config).counters);
  EXPECT_EQ(cuda_gemm_work(config, arch("sm_90a"), {88, 80, 256}).splits, 1) << "each block has a step";
}

TEST(CudaGemmRank, PartsFillTheChipAsFarAsTheyPay) {
  const auto best = [](const CudaGemmShape& shape) {
    const auto ranked = ranked_cuda_gemm(arch("sm_90a"), bf16(), shape);
    const KernelConfig& config = ranked.front().recipe.main();
    return std::pair{config, cuda_gemm_work(config, arch("sm_90a"), shape).splits * config.algorithm.cluster_k};
  };
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

TEST(CudaGemmRank, StreamKHasARunForEveryBlock) {
  KernelConfig config = hopper_config();  // 128 x 256
  config.algorithm.stream_k = true;
  const CudaSpec& spec = arch("sm_90a");
  const CudaGemmWork full = cuda_gemm_work(config, spec, {128 * 150, 256, 1024});
  EXPECT_EQ(full.blocks, 132);
  EXPECT_EQ(full.places, 2 * 132);
  EXPECT_GE(full.counters, 150 * cuda_gemm_resources(config).counters) << "fewer than two rounds: all tiles are shared";
  EXPECT_TRUE(cuda_gemm_shares(config, cuda_gemm_work(config, spec, {128 * 150, 256, 1024})));
  EXPECT_FALSE(cuda_gemm_shares(config, cuda_gemm_work(config, spec, {128 * 264, 256, 1024}))) << "two whole rounds";
  EXPECT_LE(cuda_gemm_work(config, spec, {128, 256, 65536}).blocks, 16) << "parts that one block adds up";
  EXPECT_EQ(cuda_gemm_work(config, spec, {128, 256, 64}).blocks, 1) << "a single step";
}

TEST(CudaGemmRank, TheNextKernelWaitsForTilesThatShareColumns) {
  KernelConfig config = hopper_config();  // 128 x 256
  const CudaSpec& spec = arch("sm_90a");
  const auto work = [&](const CudaGemmShape& shape) { return cuda_gemm_work(config, spec, shape); };
  EXPECT_TRUE(work({1024, 4096, 4096}).late_launch_dependents);
  EXPECT_FALSE(work({1152, 4096, 4096}).late_launch_dependents) << "nine rows of tiles in two rounds";
  EXPECT_TRUE(work({1152, 3584, 4096}).late_launch_dependents) << "nine rows in one round keep their order";
  EXPECT_FALSE(work({128, 65536, 4096}).late_launch_dependents) << "one row: no tile shares its columns of B";
  EXPECT_FALSE(work({1024, 1024, 4096}).late_launch_dependents) << "half of the chip is free for the next kernel";
  EXPECT_FALSE(work({1024, 4096, 1024}).late_launch_dependents) << "short: an early start saves more";
  EXPECT_TRUE(work({1024, 4096, 1024, 1, false, GemmGrouping::none, 1024}).late_launch_dependents)
      << "with a second product's k";
  EXPECT_FALSE(work({1024, 4096, 4096, 8, false, GemmGrouping::contiguous}).late_launch_dependents);
  config.algorithm.cluster = {1, 2};
  EXPECT_FALSE(work({1024, 4096, 4096}).late_launch_dependents) << "blocks of a cluster run side by side";
  EXPECT_TRUE(work({768, 4096, 4096}).b_first);
  EXPECT_FALSE(work({1024, 4096, 4096}).b_first);
  config.algorithm.pipeline = Pipeline::mma_sm80;
  EXPECT_FALSE(work({512, 4096, 4096}).late_launch_dependents || work({512, 4096, 4096}).b_first) << "no part of it";
}

TEST(CudaGemmRank, ARoundOfTilesIsAboutAsHighAsItIsWide) {
  KernelConfig config = hopper_config();  // 128 x 256
  const CudaSpec& spec = arch("sm_90a");
  const auto band = [&](std::int64_t m) { return cuda_gemm_work(config, spec, {m, 8192, 4096}).band; };
  EXPECT_EQ(band(128 * 64), 16);
  EXPECT_EQ(band(128 * 33), 17) << "two bands, not two and a row of tiles";
  EXPECT_EQ(band(128 * 5), 5);
  EXPECT_EQ(band(0), 1);
  config.algorithm.cluster = {2, 1};
  EXPECT_EQ(band(128 * 64), 8) << "rows of clusters";
  config.algorithm.cluster = {1, 1};
  config.algorithm.tile = {256, 128, 64};
  EXPECT_EQ(band(128 * 64), 8);
}

TEST(CudaGemmRank, NeighboursOfOneRoundReadLittle) {
  KernelConfig config = hopper_config();
  config.algorithm.tile = {128, 96, 64};
  CudaSpec spec = arch("sm_90a");
  const auto band = [&](std::int64_t m, std::int64_t n) { return cuda_gemm_work(config, spec, {m, n, 7168}).band; };
  EXPECT_EQ(spec.gemm.neighbours, 16);
  EXPECT_EQ(band(2778, 576), 4) << "22 x 6 tiles at a time, of which 16 neighbours are 4 x 4";
  EXPECT_EQ(band(2778, 672), 11) << "22 x 7 in two rounds";
  config.algorithm.cluster = {1, 2};
  EXPECT_EQ(band(2778, 576), 11) << "clusters are neighbours already";
  config.algorithm.cluster = {1, 1};
  config.algorithm.split_k = true;
  EXPECT_EQ(band(1000, 576), 8) << "parts of a tile are neighbours";
  config.algorithm.split_k = false;
  spec.gemm.neighbours = 0;
  EXPECT_EQ(band(2778, 576), 11) << "nothing is known of neighbours";
}

TEST(CudaGemmRank, ClustersByKBeginSeveralAtATime) {
  KernelConfig config = hopper_config();
  config.algorithm.tile = {112, 64, 64};
  config.algorithm.wave = {1};
  config.algorithm.transpose_c = true;
  const auto work = [&](int blocks, const CudaGemmShape& shape) {
    config.algorithm.cluster_k = static_cast<std::uint8_t>(blocks);
    return cuda_gemm_work(config, arch("sm_90a"), shape);
  };
  const CudaGemmWork placed = work(2, {640, 576, 7168});  // 6 x 9 tiles by two
  EXPECT_EQ(placed.placed, 8);
  EXPECT_EQ(placed.items, 108);
  EXPECT_EQ(placed.blocks, 112) << "whole clusters";
  EXPECT_EQ(placed.band, 2) << "2 x 112 rows and 2 x 64 columns are the least that four tiles share";
  EXPECT_FALSE(placed.late_launch_dependents);
  EXPECT_EQ(work(3, {300, 576, 7168}).placed, 6) << "two clusters of three";
  EXPECT_EQ(work(3, {448, 576, 7168}).placed, 1) << "108 blocks; 17 clusters of six run at a time";
  EXPECT_EQ(work(5, {224, 576, 7168}).placed, 1) << "eight blocks hold one cluster of five";
  EXPECT_EQ(work(2, {112, 2048, 7168}).placed, 1) << "64 blocks are fewer than half of the SMs";
}

TEST(CudaGemmRank, BlocksOfOneRoundArePlacedByClusters) {
  KernelConfig config = hopper_config();
  config.algorithm.tile = {64, 96, 64};
  config.algorithm.wave = {1};
  CudaSpec spec = arch("sm_90a");
  const auto work = [&](const CudaGemmShape& shape) { return cuda_gemm_work(config, spec, shape); };
  EXPECT_EQ(spec.gemm.placed_blocks, 8);
  const CudaGemmWork placed = work({1200, 576, 7168});  // 19 x 6 tiles
  EXPECT_EQ(placed.placed, 8);
  EXPECT_EQ(placed.items, 114);
  EXPECT_EQ(placed.blocks, 120) << "whole clusters";
  EXPECT_EQ(placed.band, 4) << "4 x 64 rows and 2 x 96 columns are the least that eight tiles share";
  EXPECT_FALSE(placed.late_launch_dependents);
  EXPECT_EQ(work({1300, 576, 7168}).placed, 1) << "126 tiles; 15 clusters of eight run at a time";
  EXPECT_EQ(work({640, 576, 7168}).placed, 1) << "fewer tiles than half of the SMs";
  EXPECT_EQ(work({64, 9600, 7168}).placed, 1) << "one row: no tile shares its columns of B";
  EXPECT_EQ(work({128, 5000, 7168}).band, 2) << "all rows there are";
  EXPECT_EQ(work({300, 576, 7168, 4, false, GemmGrouping::contiguous}).placed, 1);
  const auto seconds = [&](const CudaGemmShape& shape) {
    const CudaGemmTile* row = row_of(config, spec);
    return predicted_seconds(config, cuda_gemm_resources(config), row, spec, shape, work(shape));
  };
  const double with = seconds({1200, 576, 7168});
  EXPECT_LT(with, seconds({1300, 576, 7168}));
  config.algorithm.cluster = {1, 2};
  EXPECT_EQ(work({1200, 576, 7168}).placed, 1) << "clusters stand side by side already";
  config.algorithm.cluster = {1, 1};
  config.algorithm.split_k = true;
  EXPECT_EQ(work({1200, 288, 7168}).placed, 1) << "parts of k share nothing";
  config.algorithm.split_k = false;
  spec.gemm.placed_blocks = 0;
  EXPECT_EQ(work({1200, 576, 7168}).placed, 1);
  EXPECT_TRUE(work({1200, 576, 7168}).late_launch_dependents);
  EXPECT_LT(with, seconds({1200, 576, 7168}));
}

TEST(CudaGemmRank, AGridHasNoMoreClustersThanRunAtATime) {
  KernelConfig config = hopper_config();
  const CudaSpec& spec = arch("sm_90a");  // of 132 SMs
  const auto blocks = [&](std::uint8_t m, std::uint8_t n) {
    config.algorithm.cluster = {m, n};
    return cuda_gemm_work(config, spec, {8192, 8192, 4096}).blocks;
  };
  EXPECT_EQ(blocks(1, 1), 132);
  EXPECT_EQ(blocks(2, 1), 132);
  EXPECT_EQ(blocks(2, 2), 120) << "the others would begin when these end";
  EXPECT_EQ(blocks(4, 2), 120);
}

TEST(CudaGemmRank, NarrowLoadsAndSmallTilesOfFp32HaveTheirTimes) {
  const auto seconds = [](const GemmSignature& signature, const CudaGemmShape& shape) {
    return ranked_cuda_gemm(arch("sm_90a"), signature, shape).front().predicted_seconds;
  };
  CudaGemmShape odd{787, 431, 1361};
  odd.unaligned = true;
  EXPECT_GT(seconds(bf16(), odd), 2 * seconds(bf16(), {787, 431, 1361 - 1}));
  // Measured on an H100: 59.6 us by 16 x 128, 81.0 by 64 x 64.
  EXPECT_EQ(first(signature_of(DataType::fp32, DataType::fp32), {24, 32768, 512}).substr(0, 15), "mma_sm80 16x128");
}

TEST(CudaGemmRank, TilesComeInWholeClusters) {
  KernelConfig config = hopper_config();
  EXPECT_EQ(cuda_gemm_tiles(config, {129, 257, 1, 3}), 3 * 2 * 2);
  config.algorithm.cluster = {4, 1};
  EXPECT_EQ(cuda_gemm_tiles(config, {129, 257, 1, 3}), 3 * 4 * 2);
}

TEST(CudaGemmRank, PredictionsFollowTheSpecsOwnRates) {
  // The consumer chip multiplies integers at four times its bf16 rate, not at twice that rate.
  const auto seconds = [](const CudaSpec& spec) {
    return ranked_cuda_gemm(spec, signature_of(DataType::int8, DataType::int32), {8192, 8192, 8192})
        .front()
        .predicted_seconds;
  };
  for (const char* name : {"sm_89", "sm_120a"}) {
    CudaSpec half = arch(name);
    for (auto& [type, rate] : half.reference.tflops)
      if (type == DataType::int8) rate /= 2;
    EXPECT_NEAR(seconds(half) / seconds(arch(name)), 2, 0.05) << name;
  }
  const CudaReferenceChip& chip = arch("sm_120a").reference;
  EXPECT_EQ(chip.tflops_of(DataType::int8), 4 * chip.tflops_of(DataType::bf16));
  EXPECT_EQ(chip.tflops_of(DataType::bf8), chip.tflops_of(DataType::fp8));
  EXPECT_EQ(chip.tflops_of(DataType::fp32), chip.tflops_of(DataType::tf32) / 3);
}

TEST(CudaGemmRank, AListTakesWhatItsTilesTake) {
  const CudaSpec& spec = arch("sm_90a");
  GemmSignature signature = bf16();
  signature.family = GemmFamily::grouped_gemm;
  const CudaGemmShape one{.m = 256, .n = 256, .k = 512};
  const std::vector<Candidate> ranked = ranked_cuda_gemm(spec, signature, one);
  ASSERT_FALSE(ranked.empty());
  const KernelConfig& config = ranked.front().recipe.main();
  const CudaGemmTile* row = row_of(config, spec);
  const auto seconds = [&](const std::vector<CudaGemmShape>& shapes, std::size_t launches = 1) {
    return predicted_list_seconds(config, row, spec, shapes, launches);
  };
  EXPECT_DOUBLE_EQ(seconds({one}), ranked.front().predicted_seconds) << "fewer tiles than the chip has room for";
  const double launch = 1e-6 * spec.reference.launch_us;
  EXPECT_NEAR(seconds({one, one}, 2) - seconds({one, one}), launch, 1e-12);
  std::vector<CudaGemmShape> many(1000, one);
  EXPECT_GT(seconds(many), 5 * seconds({one}));
  EXPECT_LT(seconds(many), 1000 * seconds({one}));
  CudaGemmShape longer = one;
  longer.k = 8192;
  EXPECT_GT(seconds({one, longer}), seconds({one, one}));
  EXPECT_GE(seconds({one, longer}), seconds({longer})) << "no shorter than the longest";
}

}  // namespace
}  // namespace tilesmith
