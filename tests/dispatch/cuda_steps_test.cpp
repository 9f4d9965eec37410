// Recipes of several launches in a stream, against a fake driver.
#include "dispatch/cuda_steps.hpp"

#include "runtime/cuda_cubin.hpp"
#include "runtime/cuda_fake.hpp"

namespace tilesmith {
namespace {

class CudaRecipes : public CudaFake {
 protected:
  static Recipe three() {
    std::vector<Step> steps;
    constexpr std::uint16_t kWidths[] = {64, 96, 128};
    for (const std::uint16_t columns : kWidths) {
      KernelConfig config{.arch = ArchName::parse("sm_90a").value(), .signature = GemmSignature{}, .algorithm = {}};
      config.algorithm.tile = {64, columns, 64};
      steps.push_back({config, columns == 64 ? StepRole::pack_b : StepRole::compute});
    }
    return Recipe(std::move(steps));
  }
  [[nodiscard]] CudaKernel kernel() const {
    return CudaModule::load(*context_, testing::cubin_of_sm_90()).value().kernel("k", 0).value();
  }
};

TEST_F(CudaRecipes, StepsAreLaunchedInOrderInTheCallsStream) {
  std::vector<std::uint16_t> asked;
  auto steps = CudaSteps::load(three(), [&](const KernelConfig& config, std::size_t) -> Result<CudaKernel> {
    asked.push_back(config.algorithm.tile[1]);
    return kernel();
  });
  ASSERT_TRUE(steps) << steps.error().text();
  EXPECT_EQ(asked, (std::vector<std::uint16_t>{64, 96, 128}));
  for (std::size_t i = 0; i < 3; ++i) steps->launch(i).grid.x = static_cast<unsigned>(10 + i);
  std::vector<unsigned> grids;
  int on = 7;
  const Status ran = steps->run(&on, [&](std::size_t step, const auto& send) -> Status {
    TS_TRY(send(static_cast<int>(step)));
    EXPECT_EQ(fake.first_parameter, static_cast<int>(step));
    EXPECT_EQ(fake.config.stream, static_cast<cu::Stream>(static_cast<void*>(&on)));
    grids.push_back(fake.config.grid_x);
    return {};
  });
  EXPECT_TRUE(ran);
  EXPECT_EQ(fake.launches, 3);
  EXPECT_EQ(grids, (std::vector<unsigned>{10, 11, 12}));
}

TEST_F(CudaRecipes, AfterAStepThatFailsNothingIsQueued) {
  auto steps =
      CudaSteps::load(three(), [&](const KernelConfig&, std::size_t) -> Result<CudaKernel> { return kernel(); });
  ASSERT_TRUE(steps);
  const Status ran = steps->run(nullptr, [&](std::size_t step, const auto& send) -> Status {
    if (step == 1) return fail(ErrorCode::out_of_memory, "no place for partials");
    return send(0);
  });
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().message, "no place for partials");
  EXPECT_EQ(fake.launches, 1);
}

TEST_F(CudaRecipes, AStepThatCannotBeLoadedIsNamed) {
  const auto steps = CudaSteps::load(three(), [&](const KernelConfig&, std::size_t step) -> Result<CudaKernel> {
    if (step == 0) return fail(ErrorCode::compile_failed, "no compiler");
    return kernel();
  });
  ASSERT_FALSE(steps);
  EXPECT_EQ(steps.error().code, ErrorCode::compile_failed);
  EXPECT_TRUE(steps.error().message.starts_with("step 1 of 3 (pack_b:gemm_")) << steps.error().message;
  EXPECT_TRUE(steps.error().message.ends_with("): no compiler")) << steps.error().message;
}

}  // namespace
}  // namespace tilesmith
