// Lists of products on a CUDA device, against float64.
#include <gtest/gtest.h>

#include <memory>

#include "dispatch/gemm/random_gemm.hpp"
#include "dispatch/test_store.hpp"
#include "runtime/cuda/device.hpp"
#include "runtime/cuda/stream.hpp"
#include "vocabulary/memory_type.hpp"

namespace tilesmith {
namespace {

class CudaGemmList : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto& devices = cuda_devices(); !devices) GTEST_SKIP() << devices.error().text();
    dispatcher = std::make_unique<Dispatcher>(DispatcherOptions{.device = {DeviceKind::cuda, 0}});
  }

  /// Runs the list and judges every product. Returns the plan's reason.
  std::string run(const std::vector<GemmProblem>& problems) {
    std::string reason;
    const Status status = [&]() -> Status {
      TS_ASSIGN(const CudaContext* context, CudaContext::of(0));
      const CudaCurrent current(*context);
      TS_TRY(current.status());
      TS_ASSIGN(const CudaStream stream, CudaStream::create(*context));
      TS_ASSIGN(const std::unique_ptr<const GemmListPlan> plan, dispatcher->plan(problems));
      reason = plan->reason();
      std::vector<std::unique_ptr<testing::RandomGemm>> calls;
      std::vector<GemmArguments> arguments;
      for (const GemmProblem& p : problems) {
        calls.push_back(std::make_unique<testing::RandomGemm>(p, calls.size(), p.unaligned ? 1 : 16));
        TS_ASSIGN(const GemmArguments own, calls.back()->device_arguments(*context, stream.handle()));
        arguments.push_back(own);
      }
      TS_TRY(plan->run(arguments, {.stream = stream.handle()}));
      for (std::size_t i = 0; i < calls.size(); ++i) {
        const GemmProblem& p = problems[i];
        TS_TRY(calls[i]->fetch(*context, stream.handle()));
        TS_ASSIGN(const GemmReference reference, GemmReference::make(calls[i]->tensors(), memory_type_of(p.type_d), 0));
        EXPECT_EQ(calls[i]->judge(reference), "") << i << ": " << p.m << " x " << p.n << " x " << p.k << ", batch "
                                                  << p.batch << ", unaligned " << p.unaligned;
      }
      return {};
    }();
    EXPECT_TRUE(status) << status.error().text();
    return reason;
  }

  std::unique_ptr<Dispatcher> dispatcher;
};

GemmProblem product(std::int64_t m, std::int64_t n, std::int64_t k, DataType type = DataType::bf16) {
  return gemm_problem(type, m, n, k);
}

TEST_F(CudaGemmList, SharesLaunchesOfEveryTypeOrderAndEpilogue) {
  using Op = EpilogueOp;
  std::size_t form = 0;
  for (const DataType type : {DataType::bf16, DataType::fp16, DataType::fp32, DataType::int8, DataType::fp8})
    for (const GemmEpilogue& epilogue :
         {GemmEpilogue{}, {Op::bias, Op::gelu}, {Op::scale_m, Op::add, Op::clamp, Op::amax}}) {
      const bool along_k = type == DataType::int8 || type == DataType::fp8;
      std::vector<GemmProblem> problems;
      for (const auto& [m, n, k] :
           {std::array{5, 48, 64}, {130, 70, 33}, {1, 2, 1}, {64, 256, 300}, {17, 34, 16}, {9, 20, 0}}) {
        problems.push_back(product(m, n, k, type));
        GemmProblem& p = problems.back();
        if (type == DataType::int8 && !epilogue.empty()) p.type_d = p.type_c = DataType::fp32;
        p.epilogue = epilogue;
        p.beta = epilogue.empty() && form % 2 == 1 && type != DataType::int8;
        p.unaligned = form % 3 == 2;
        p.order_a = form % 2 == 1 && !along_k ? MatrixOrder::column : MatrixOrder::row;
        p.order_b = form % 4 >= 2 && !along_k ? MatrixOrder::row : MatrixOrder::column;
      }
      EXPECT_NE(run(problems).find("in 1 launches"), std::string::npos) << name_of(type);
      ++form;
    }
}

TEST_F(CudaGemmList, OfMixedSizesFormsAndAlignments) {
  std::vector<GemmProblem> problems;
  for (std::int64_t i = 0; i < 60; ++i) {
    problems.push_back(product(i * 7 % 40 * (i % 5 == 0 ? 10 : 1), 1 + i * 13 % 90, i * 29 % 200));
    if (i % 7 == 3) problems.back().epilogue = {EpilogueOp::bias, EpilogueOp::relu};
    problems.back().unaligned = i % 3 == 1;
  }
  problems.push_back(product(2000, 1500, 300));  // of much work: alone
  problems.push_back(product(40, 60, 70));
  problems.back().batch = 3;
  problems.push_back(product(0, 60, 70));
  problems.push_back(product(40, 64, 128, DataType::fp32));
  run(problems);
}

TEST_F(CudaGemmList, OfAThousandTinyProductsOfOneAndOfNone) {
  std::vector<GemmProblem> problems;
  for (std::int64_t i = 0; i < 1000; ++i) problems.push_back(product(1 + i % 24, 2 * (1 + i % 17), 8 * (1 + i % 5)));
  EXPECT_NE(run(problems).find("in 21 launches"), std::string::npos);  // 48 products each
  run({product(33, 50, 70)});
  run({});
}

/// Dense matrices at aligned addresses that nobody reads: the plan refuses the call before.
GemmArguments somewhere(const GemmProblem& problem) {
  GemmArguments a = dense_arguments(problem);
  a.a.data = a.b.data = reinterpret_cast<void*>(0x1000);
  a.d = reinterpret_cast<void*>(0x100000);
  return a;
}

TEST_F(CudaGemmList, UnalignedMatricesNeedAnUnalignedPlan) {
  const std::vector<GemmProblem> problems{product(5, 48, 64), product(7, 48, 64)};
  const auto plan = dispatcher->plan(problems);
  ASSERT_TRUE(plan) << plan.error().text();
  std::vector<GemmArguments> arguments(2, somewhere(problems[0]));
  arguments[1].d = reinterpret_cast<void*>(0x200000);
  arguments[1].b.data = reinterpret_cast<void*>(0x1002);
  const Status status = (*plan)->run(arguments);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("product 1 of 2: b at address"), std::string::npos) << status.error().text();
}

TEST_F(CudaGemmList, NumbersOnTheDeviceScaleNoProductOfASharedLaunch) {
  const std::vector<GemmProblem> problems{product(5, 48, 64), product(7, 48, 64)};
  const auto plan = dispatcher->plan(problems);
  ASSERT_TRUE(plan) << plan.error().text();
  std::vector<GemmArguments> arguments(2, somewhere(problems[0]));
  arguments[1].d = reinterpret_cast<void*>(0x200000);
  arguments[1].scale_b.data = reinterpret_cast<void*>(0x2000);
  const Status status = (*plan)->run(arguments);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("product 1 of 2: its scales"), std::string::npos) << status.error().text();
}

TEST_F(CudaGemmList, IsCapturedWithItsTable) {
  const std::vector<GemmProblem> problems{product(33, 48, 64), product(7, 48, 640)};
  const auto plan = dispatcher->plan(problems);
  ASSERT_TRUE(plan) << plan.error().text();
  const CudaContext* context = CudaContext::of(0).value();
  const CudaCurrent current(*context);
  const CudaStream stream = CudaStream::create(*context).value();
  std::vector<std::unique_ptr<testing::RandomGemm>> calls;
  std::vector<GemmArguments> arguments;
  for (const GemmProblem& p : problems) {
    calls.push_back(std::make_unique<testing::RandomGemm>(p, calls.size(), 16));
    arguments.push_back(calls.back()->device_arguments(*context, stream.handle()).value());
  }
  ASSERT_TRUE(stream.synchronize());
  const auto graph = CudaGraph::capture(*context, stream.handle(),
                                        [&] { return (*plan)->run(arguments, {.stream = stream.handle()}); });
  ASSERT_TRUE(graph) << graph.error().text();
  arguments.clear();
  ASSERT_TRUE(graph->launch(stream.handle()));
  for (std::size_t i = 0; i < calls.size(); ++i) {
    ASSERT_TRUE(calls[i]->fetch(*context, stream.handle()));
    const auto reference = GemmReference::make(calls[i]->tensors(), memory_type_of(problems[i].type_d), 0);
    ASSERT_TRUE(reference) << reference.error().text();
    EXPECT_EQ(calls[i]->judge(*reference), "") << i;
  }
}

}  // namespace
}  // namespace tilesmith
