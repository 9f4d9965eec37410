// GEMM trials on a fake device, whose memory is the host's: a CPU plan stands in for the device's kernel.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "dispatch/test_store.hpp"
#include "runtime/fake_libcuda.hpp"
#include "trial/gemm/case.hpp"
#include "trial/trial.hpp"

namespace tilesmith {
namespace {

using Op = EpilogueOp;

testing::FakeLibcuda& fake() {
  void* library = ::dlopen(TILESMITH_FAKE_LIBCUDA, RTLD_NOW | RTLD_LOCAL);
  return *reinterpret_cast<testing::FakeLibcuda* (*)()>(::dlsym(library, "fake_libcuda"))();
}

enum class Fault { none, gap_written, row_left_out, amax_left_out };

/// What it was asked to run, and a fault put into the result.
class StandIn final : public GemmPlan {
 public:
  StandIn(const GemmPlan& plan, Fault fault) : GemmPlan(plan.problem(), {}), plan_(plan), fault_(fault) {}

  [[nodiscard]] Status run(const GemmArguments& arguments, const RunOptions& options) const override {
    EXPECT_NE(options.stream, nullptr) << "the default stream waits for others";
    seen = arguments;
    stream = options.stream;
    GemmArguments a = arguments;
    float elsewhere = 0;
    if (fault_ == Fault::amax_left_out) a.amax = &elsewhere;
    std::vector<std::byte> row(static_cast<std::size_t>(problem().columns_of_d()) * sizeof(float));
    std::memcpy(row.data(), a.d, row.size());
    TS_TRY(plan_.run(a));
    auto* const d = static_cast<float*>(a.d);
    if (fault_ == Fault::row_left_out) std::memcpy(d, row.data(), row.size());
    if (fault_ == Fault::gap_written) d[problem().columns_of_d()] = 1;
    return {};
  }

  mutable GemmArguments seen;
  mutable void* stream = nullptr;

 private:
  const GemmPlan& plan_;
  Fault fault_;
};

class CudaGemmTrials : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { ::setenv("TILESMITH_LIBCUDA", TILESMITH_FAKE_LIBCUDA, 1); }

  void plan(const GemmProblem& problem) {
    made = std::make_unique<GemmCase>(
        GemmCase::create({problem, {.alpha = 0.5F, .beta = problem.beta ? 2.0F : 0.0F}}).value());
    cpu_plan = dispatcher.plan(made->problem()).value();
    reference = made->reference(1).value();
  }

  Dispatcher dispatcher{{.threads = 1}};
  std::unique_ptr<GemmCase> made;
  const GemmPlan* cpu_plan = nullptr;
  std::unique_ptr<const Reference> reference;
};

GemmProblem everything() {
  GemmProblem p = gemm_problem(DataType::fp32, 9, 20, 24);
  p.batch = 3;
  p.beta = true;
  p.epilogue = {Op::bias, Op::silu, Op::multiply, Op::amax};
  return p;
}

TEST_F(CudaGemmTrials, EveryOperandTravelsAndComesBack) {
  plan(everything());
  auto trial = make_trial(*made, {DeviceKind::cuda, 0});
  ASSERT_TRUE(trial) << trial.error().text();
  const StandIn device_plan(*cpu_plan, Fault::none);
  ASSERT_TRUE(trial->run(device_plan));
  const auto on_device = trial->run(device_plan);
  ASSERT_TRUE(on_device) << on_device.error().text();
  auto on_cpu = make_trial(*made, {});
  const auto on_host = on_cpu->run(*cpu_plan);
  ASSERT_TRUE(on_host) << on_host.error().text();
  for (const char* name : {"d", "amax"}) {
    EXPECT_FALSE(on_host->array(name).data.empty());
    EXPECT_TRUE(on_device->array(name).data == on_host->array(name).data) << name;
  }
  const GemmArguments host = made->arguments();
  const GemmArguments& device = device_plan.seen;
  for (const auto& [there, here] :
       {std::pair{device.a.data, host.a.data}, std::pair{device.b.data, host.b.data},
        std::pair{device.c.data, host.c.data}, std::pair{device.epilogue[0].data, host.epilogue[0].data},
        std::pair{device.epilogue[2].data, host.epilogue[2].data}}) {
    EXPECT_NE(there, nullptr);
    EXPECT_NE(there, here) << "the host's memory";
  }
  EXPECT_EQ(device.epilogue[1].data, nullptr);
}

TEST_F(CudaGemmTrials, FaultsAreFound) {
  plan(everything());
  auto trial = make_trial(*made, {DeviceKind::cuda, 0});
  ASSERT_TRUE(trial) << trial.error().text();
  const auto verdict = [&](Fault fault) { return trial->verify(StandIn(*cpu_plan, fault), *reference).value(); };
  const Verdict right = verdict(Fault::none);
  EXPECT_NE(right.outcome, Outcome::fail) << right.reason;
  for (const auto& [fault, check] :
       {std::pair{Fault::gap_written, Check::guards}, std::pair{Fault::row_left_out, Check::guards}}) {
    const Verdict wrong = verdict(fault);
    EXPECT_EQ(wrong.outcome, Outcome::fail);
    EXPECT_EQ(wrong.check, check) << wrong.reason;
  }
  const Verdict left_out = verdict(Fault::amax_left_out);
  EXPECT_EQ(left_out.outcome, Outcome::fail);
  EXPECT_EQ(left_out.tensor, "amax");
}

TEST_F(CudaGemmTrials, RowsOfDSuitWhatTheProblemPromises) {
  struct Case {
    std::int64_t k;
    bool said, unaligned, aligned_d;
  };
  // Rows of 25 elements begin off 16 bytes, and D is aligned beside them; a problem that says so of all matrices stays
  // so.
  for (const Case& c : {Case{24, false, false, false}, {25, false, true, true}, {24, true, true, false}}) {
    GemmProblem problem = gemm_problem(DataType::fp32, 4, 6, c.k);
    problem.unaligned = c.said;
    plan(problem);
    EXPECT_EQ(made->problem().unaligned, c.unaligned);
    EXPECT_EQ(made->problem().aligned_d, c.aligned_d);
    auto trial = make_trial(*made, {DeviceKind::cuda, 0});
    ASSERT_TRUE(trial) << trial.error().text();
    const StandIn device_plan(*cpu_plan, Fault::none);
    ASSERT_TRUE(trial->verify(device_plan, *reference));
    EXPECT_EQ(device_plan.seen.d_leading % 4 == 0, !c.unaligned || c.aligned_d) << device_plan.seen.d_leading;
    EXPECT_GT(device_plan.seen.d_leading, 6);
  }
}

TEST_F(CudaGemmTrials, MatricesOfTf32AreExactThere) {
  GemmProblem problem = gemm_problem(DataType::tf32, 4, 6, 24);
  problem.order_a = MatrixOrder::column;
  const GemmCase tf32 = GemmCase::create(usual_call(problem)).value();
  const GemmArguments arguments = tf32.arguments();
  for (const void* const matrix : {arguments.a.data, arguments.b.data})
    for (int i = 0; i < 24; ++i) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, static_cast<const char*>(matrix) + 4 * i, 4);
      EXPECT_EQ(bits & 0x1fffU, 0U);
      EXPECT_NE(bits, 0U);
    }
}

// Since the library keeps memory for each stream that ran kernels.
TEST_F(CudaGemmTrials, OneThreadsTrialsRunInOneStream) {
  plan(everything());
  std::set<void*> streams;
  for (int i = 0; i < 3; ++i) {
    auto trial = make_trial(*made, {DeviceKind::cuda, 0});
    ASSERT_TRUE(trial) << trial.error().text();
    const StandIn stand_in(*cpu_plan, Fault::none);
    EXPECT_TRUE(trial->verify(stand_in, *reference));
    streams.insert(stand_in.stream);
    EXPECT_TRUE(trial->time(stand_in, {.max_samples = 1}));
    streams.insert(stand_in.stream);
  }
  EXPECT_EQ(streams.size(), 1);
}

TEST_F(CudaGemmTrials, NothingIsLeftOnTheDevice) {
  plan(everything());
  const int before = fake().allocations, objects = fake().objects;
  {
    auto trial = make_trial(*made, {DeviceKind::cuda, 0});
    ASSERT_TRUE(trial) << trial.error().text();
    EXPECT_GT(fake().allocations, before);
    EXPECT_TRUE(trial->verify(StandIn(*cpu_plan, Fault::none), *reference));
    EXPECT_TRUE(trial->time(StandIn(*cpu_plan, Fault::none), {.max_samples = 2}));
  }
  EXPECT_EQ(fake().allocations, before);
  EXPECT_EQ(fake().objects, objects);
  EXPECT_EQ(make_trial(*made, {DeviceKind::cuda, 7}).error().code, ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace tilesmith
