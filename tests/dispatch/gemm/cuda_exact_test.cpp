// Whole numbers come out exactly from the kernels of a CUDA device, and others with the same bits every time: of every
// type and layout, at every edge, and products of nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "choose/gemm/cuda_work.hpp"
#include "dispatch/gemm/cuda_plans.hpp"
#include "dispatch/gemm/random_gemm.hpp"
#include "problem/line.hpp"
#include "spec/cuda/spec.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

using testing::bf16;
using testing::CudaGemmPlans;
using testing::DeviceGemm;
using testing::GemmValues;
using testing::words;

TEST_F(CudaGemmPlans, WholeNumbersOfFewRowsComeOutExactly) {
  std::vector<Case> cases;
  for (const std::int64_t m : {13, 20, 41}) cases.push_back({bf16(m, 200, 1000), true});
  cases.push_back({bf16(13, 200, 520), true});
  cases.back().problem.k2 = 1000;
  repeat(cases);
}

/// More tiles than the rings of all blocks have stages, with one panel of b, one panel of a, and a panel for each batch
/// entry: what a stage holds is copied again only where it is another tile's.
TEST_F(CudaGemmPlans, KeptStagesAreThoseOfTheirTiles) {
  GemmProblem batch = bf16(3'000, 200, 64);
  batch.batch = 30;
  for (const GemmProblem& problem : {bf16(100'000, 144, 24), bf16(100'000, 144, 136), bf16(200, 100'000, 24), batch}) {
    std::vector<KernelConfig> configs = configs_for(problem, true);
    std::erase_if(configs, [](const KernelConfig& config) {
      return config.algorithm.pipeline != Pipeline::warp_specialized || config.algorithm.split_k;
    });
    ASSERT_GE(configs.size(), 12u);
    configs.resize(12);
    ASSERT_NO_FATAL_FAILURE(build(configs));
    const auto whole = DeviceGemm::create(*context, problem, 5, GemmValues::whole, 0);
    ASSERT_TRUE(whole);
    const CudaBuffer d = whole->make_d(stream.handle()).value();
    std::vector<std::byte> judged;
    for (const KernelConfig& config : configs) {
      SCOPED_TRACE(native_name(config));
      const auto made = plan(problem, config);
      ASSERT_NE(made, nullptr);
      ASSERT_EQ(words(whole->queue(*made, d, {.stream = stream.handle()})), "");
      const auto exact = whole->fetch(d, stream.handle());
      ASSERT_TRUE(exact) << exact.error().text();
      if (!judged.empty() && *exact == judged) continue;
      EXPECT_EQ(whole->judge(*exact), "");
      judged = *exact;
    }
  }
}

/// Launches of one round whose blocks begin in clusters: every tile is computed once, whatever blocks are spare, and
/// the next launch begins before they end.
TEST_F(CudaGemmPlans, PlacedBlocksComputeTheirTiles) {
  const std::vector<CudaSpec> specs = load_cuda_specs().value();
  for (const GemmProblem& problem : {bf16(1'186, 570, 328), bf16(289, 5'760, 1'000), bf16(640, 576, 1'032)}) {
    std::vector<KernelConfig> configs = configs_for(problem, true);
    std::erase_if(configs, [&](const KernelConfig& config) {
      const auto spec = std::ranges::find(specs, config.arch, &CudaSpec::arch);
      return cuda_gemm_work(config, *spec, cuda_gemm_shape(problem)).placed == 1;
    });
    ASSERT_GE(configs.size(), 4u);
    ASSERT_NO_FATAL_FAILURE(build(configs));
    const auto whole = DeviceGemm::create(*context, problem, 5, GemmValues::whole, 0);
    ASSERT_TRUE(whole);
    const CudaBuffer d = whole->make_d(stream.handle()).value(), e = whole->make_d(stream.handle()).value();
    for (const KernelConfig& config : configs) {
      SCOPED_TRACE(native_name(config));
      const auto made = plan(problem, config);
      ASSERT_NE(made, nullptr);
      for (const CudaBuffer* into : {&d, &e, &d, &e})
        ASSERT_EQ(words(whole->queue(*made, *into, {.stream = stream.handle()})), "");
      for (const CudaBuffer* from : {&d, &e}) {
        const auto exact = whole->fetch(*from, stream.handle());
        ASSERT_TRUE(exact) << exact.error().text();
        EXPECT_EQ(whole->judge(*exact), "");
      }
    }
  }
}

/// With a product alone and with two in one sum.
TEST_F(CudaGemmPlans, WholeNumbersOfBatchesComeOutExactly) {
  for (const std::int64_t k2 : {0, 328}) {
    GemmProblem many = bf16(150, 264, 1096);
    many.batch = 2;
    many.beta = true;
    many.k2 = k2;
    repeat({{many, true}});
  }
}

TEST_F(CudaGemmPlans, WholeNumbersOfIntegersComeOutExactly) {
  GemmProblem integers = gemm_problem(DataType::int8, 150, 264, 1104);
  integers.beta = true;
  repeat({{integers, true}});
}

TEST_F(CudaGemmPlans, WholeNumbersOfEveryLayoutComeOutExactly) {
  GemmProblem turned = bf16(152, 136, 200), odd = gemm_problem(DataType::fp16, 77, 83, 331),
              columns = bf16(150, 264, 1096), second = bf16(40, 96, 0);
  turned.order_a = MatrixOrder::column;
  turned.order_b = MatrixOrder::row;
  odd.unaligned = true;
  odd.batch = 2;
  columns.order_d = MatrixOrder::column;
  columns.beta = true;
  second.k2 = 136;
  std::vector<Case> cases{{turned, false}, {odd, false, 1}, {columns, false}, {second, false}};
  turned.k2 = 328;
  odd.k2 = 75;
  cases.push_back({turned, false});
  cases.push_back({odd, false, 1});
  repeat(cases);
}

TEST_F(CudaGemmPlans, WholeNumbersOfEveryTypeComeOutExactly) {
  std::vector<Case> cases;
  for (const DataType type : {DataType::fp8, DataType::int8, DataType::tf32, DataType::fp32}) {
    cases.push_back({gemm_problem(type, 100, 176, 512), false});
    cases.push_back({gemm_problem(type, 100, 176, 208), false});
    cases.back().problem.k2 = 304;
  }
  repeat(cases);
}

/// m, n and k that end within the last box of a copy, by tiles of every kind.
TEST_F(CudaGemmPlans, MatricesEndWithinTheirBoxes) {
  std::vector<Case> cases;
  std::size_t turn = 0;
  for (const DataType type : {DataType::bf16, DataType::fp16, DataType::fp8, DataType::tf32})
    for (const auto& [a, b] : {std::pair{MatrixOrder::row, MatrixOrder::column},
                               {MatrixOrder::row, MatrixOrder::row},
                               {MatrixOrder::column, MatrixOrder::row},
                               {MatrixOrder::column, MatrixOrder::column}}) {
      constexpr std::int64_t kDepths[] = {16, 48, 336, 1072, 80};  // one step, parts of one, the ring's many
      const std::int64_t rest = type == DataType::fp8 ? 0 : 8;     // rows are whole 16 bytes
      const auto more = static_cast<std::int64_t>(turn % 3);
      GemmProblem problem = gemm_problem(type, 192 + rest + 48 * more, 224 + rest, kDepths[turn % 5] + rest);
      problem.order_a = a;
      problem.order_b = b;
      problem.batch = turn % 4 == 1 ? 2 : 1;
      problem.beta = turn % 3 == 2 && type != DataType::fp8;
      cases.push_back({problem, true});
      ++turn;
    }
  GemmProblem odd = bf16(203, 77, 331);  // that rows are padded to whole 16 bytes, not what they hold
  odd.unaligned = true;
  cases.push_back({odd, true, 1});
  odd.order_a = MatrixOrder::column;
  odd.order_b = MatrixOrder::row;
  cases.push_back({odd, true, 1});
  std::vector<std::vector<KernelConfig>> drawn;
  std::vector<KernelConfig> all;
  for (const Case& one : cases) {
    std::vector<KernelConfig> some;
    std::size_t at = drawn.size();
    for (const KernelConfig& config : configs_for(one.problem, true))
      if (config.algorithm.pipeline == Pipeline::warp_specialized && (some.empty() || at++ % 37 == 0))
        some.push_back(config);
    EXPECT_FALSE(some.empty()) << to_line(one.problem);
    std::ranges::copy(some, std::back_inserter(all));
    drawn.push_back(some);
  }
  ASSERT_NO_FATAL_FAILURE(build(all));
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(to_line(cases[i].problem));
    const auto whole = DeviceGemm::create(*context, cases[i].problem, 7, GemmValues::whole, cases[i].offset).value();
    const CudaBuffer d = whole.make_d(stream.handle()).value();
    for (const KernelConfig& config : drawn[i]) {
      SCOPED_TRACE(native_name(config));
      const auto made = plan(cases[i].problem, config);
      ASSERT_NE(made, nullptr);
      for (int repeat = 0; repeat < 2; ++repeat) {
        ASSERT_EQ(words(whole.queue(*made, d, {.stream = stream.handle()})), "");
        EXPECT_EQ(whole.judge(whole.fetch(d, stream.handle()).value()), "") << "repeat " << repeat;
      }
    }
  }
}

/// Rows of A and B that begin anywhere: of each operand in turn, with D whole, by pairs and by elements.
TEST_F(CudaGemmPlans, RowsThatBeginAnywhereAreCopiedWhole) {
  std::vector<Case> cases;
  const auto add = [&](DataType type, std::int64_t m, std::int64_t n, std::int64_t k, bool turned_a, bool turned_b) {
    GemmProblem p = gemm_problem(type, m, n, k);
    if (turned_a) p.order_a = MatrixOrder::column;
    if (turned_b) p.order_b = MatrixOrder::row;
    p.unaligned = p.aligned_d = true;
    p.batch = cases.size() % 3 == 0 ? 3 : 1;
    cases.push_back({p, false});
  };
  for (const std::int64_t n : {96, 98, 99}) add(DataType::bf16, 150, n, 201, false, false);
  add(DataType::fp16, 77, 120, 1003, true, false);
  add(DataType::bf16, 136, 75, 330, false, true);
  add(DataType::fp16, 5, 83, 77, true, true);
  add(DataType::tf32, 70, 90, 131, false, false);
  add(DataType::tf32, 70, 91, 132, true, true);
  add(DataType::int8, 130, 144, 301, false, false);
  add(DataType::fp8, 130, 131, 519, false, false);
  std::size_t copied = 0;
  for (const Case& each : cases)
    for (const KernelConfig& config : configs_for(each.problem, each.all))
      if (config.algorithm.pipeline == Pipeline::warp_specialized) {
        ++copied;
        EXPECT_EQ(plan(each.problem, config)->info().steps.size(), 2u);
      }
  EXPECT_GE(copied, cases.size());
  repeat(cases);
  for (Case& each : cases) {  // and anywhere in memory
    each.offset = 3;
    each.problem.aligned_d = false;
  }
  repeat(cases);
}

/// What is transposed for wgmma: edges in m, n and k, another group of the batch behind each.
class CudaGemmTurns : public CudaGemmPlans, public ::testing::WithParamInterface<DataType> {};

TEST_P(CudaGemmTurns, WholeNumbersComeOutExactly) {
  for (const auto& [a, b] :
       {std::pair{MatrixOrder::row, MatrixOrder::row}, std::pair{MatrixOrder::column, MatrixOrder::row},
        std::pair{MatrixOrder::column, MatrixOrder::column}}) {
    GemmProblem problem = gemm_problem(GetParam(), 304, 400, 336);
    problem.order_a = a;
    problem.order_b = b;
    problem.batch = 2;
    if (a == b) problem.k2 = 176;
    repeat({{problem, true}});
  }
}

INSTANTIATE_TEST_SUITE_P(OfTypes, CudaGemmTurns,
                         ::testing::Values(DataType::fp8, DataType::bf8, DataType::int8, DataType::tf32),
                         [](const auto& type) { return std::string(name_of(type.param)); });

TEST_F(CudaGemmPlans, NothingAndZerosAreProductsToo) {
  GemmProblem no_steps = bf16(70, 64, 0), plain = bf16(70, 64, 320), few = bf16(5, 64, 320);
  no_steps.beta = plain.beta = few.beta = true;
  GemmProblem second = plain;
  second.k2 = 192;
  for (const GemmProblem& problem : {no_steps, plain, few, second}) {
    // NaN that alpha = 0 leaves unread.
    auto call = DeviceGemm::create(*context, problem, 40, GemmValues::nan).value();
    call.alpha = problem.k == 0 ? 1.0F : 0.0F;
    for (const KernelConfig& config : configs_for(problem, false))
      for (const float beta : {2.0F, 0.0F}) {
        SCOPED_TRACE(native_name(config));
        const auto made = plan(problem, config);
        ASSERT_NE(made, nullptr);
        const CudaBuffer d = call.make_d(stream.handle()).value();
        call.beta = beta;
        ASSERT_EQ(words(call.queue(*made, d, {.stream = stream.handle()})), "");
        EXPECT_EQ(call.judge(call.fetch(d, stream.handle()).value()), "");
      }
  }
  for (GemmProblem problem : {bf16(0, 64, 320), bf16(70, 0, 320), bf16(70, 64, 320)}) {
    if (problem.m != 0 && problem.n != 0) problem.batch = 0;
    const auto call = DeviceGemm::create(*context, problem, 41, GemmValues::whole).value();
    const auto configs = configs_for(problem, false);
    ASSERT_FALSE(configs.empty());
    const auto made = plan(problem, configs.front());
    ASSERT_NE(made, nullptr);
    const CudaBuffer d = call.make_d(stream.handle()).value();
    EXPECT_TRUE(call.queue(*made, d, {.stream = stream.handle()}));
    EXPECT_TRUE(stream.synchronize());
  }
}

}  // namespace
}  // namespace tilesmith
