#include "dispatch/gemm/cuda_plans.hpp"

#include <algorithm>
#include <set>

#include "runtime/cuda/device.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith::testing {

std::string words(const Status& status) {
  return status ? "" : status.error().text();
}

GemmProblem bf16(std::int64_t m, std::int64_t n, std::int64_t k) {
  return gemm_problem(DataType::bf16, m, n, k);
}

void CudaGemmPlans::SetUp() {
  if (const auto& devices = cuda_devices(); !devices) GTEST_SKIP() << devices.error().text();
  context = CudaContext::of(0).value();
  current = std::make_unique<CudaCurrent>(*context);
  stream = CudaStream::create(*context).value();
  other_stream = CudaStream::create(*context).value();
  backend = open_backend({DeviceKind::cuda, 0}, 1).value();
}

std::vector<KernelConfig> CudaGemmPlans::configs_for(const GemmProblem& problem, bool all) const {
  std::vector<KernelConfig> configs;
  const auto ranking = backend->find<Gemm>().value()->rank(problem);
  EXPECT_TRUE(ranking) << ranking.error().text();
  if (!ranking) return configs;
  std::set<Pipeline> seen;
  for (const Candidate& candidate : ranking->candidates) {
    KernelConfig config = candidate.recipe.main();
    if (!seen.insert(config.algorithm.pipeline).second && !all) continue;
    configs.push_back(config);
    config.algorithm.split_k = !config.algorithm.split_k;
    if (backend->find<Gemm>().value()->check(config, problem) && std::ranges::find(configs, config) == configs.end())
      configs.push_back(config);
  }
  return configs;
}

KernelConfig CudaGemmPlans::split_config(const GemmProblem& problem, Pipeline pipeline) const {
  for (const KernelConfig& config : configs_for(problem, true))
    if (config.algorithm.pipeline == pipeline && config.algorithm.split_k) return config;
  ADD_FAILURE() << "no instance splits k";
  return {};
}

void CudaGemmPlans::build(const std::vector<KernelConfig>& configs) const {
  const std::vector<Status> built = backend->build(configs, 0, {});
  for (std::size_t i = 0; i < built.size(); ++i)
    ASSERT_TRUE(built[i]) << native_name(configs[i]) << ": " << built[i].error().text();
}

std::unique_ptr<GemmPlan> CudaGemmPlans::plan(const GemmProblem& problem, const KernelConfig& config) const {
  auto made = backend->find<Gemm>().value()->plan(problem, {config}, "a test", BuildPolicy::allowed);
  EXPECT_TRUE(made) << native_name(config) << ": " << made.error().text();
  return made ? std::move(*made) : nullptr;
}

std::vector<KernelConfig> CudaGemmPlans::every(int step, const std::vector<KernelConfig>& configs,
                                               const GemmProblem& problem) {
  std::vector<KernelConfig> some;
  for (auto i = static_cast<std::size_t>(problem.m % step); i < configs.size(); i += static_cast<std::size_t>(step))
    some.push_back(configs[i]);
  return some;
}

void CudaGemmPlans::repeat(const std::vector<Case>& cases) const {
  std::vector<KernelConfig> configs;
  for (const Case& one : cases) std::ranges::copy(configs_for(one.problem, one.all), std::back_inserter(configs));
  ASSERT_NO_FATAL_FAILURE(build(configs));
  for (const Case& one : cases) {
    const auto whole = DeviceGemm::create(*context, one.problem, 5, GemmValues::whole, one.offset);
    const auto normal = DeviceGemm::create(*context, one.problem, 6, GemmValues::normal, one.offset);
    ASSERT_TRUE(whole && normal);
    const CudaBuffer d = whole->make_d(stream.handle()).value();
    std::vector<std::byte> judged;
    for (const KernelConfig& config : configs_for(one.problem, one.all)) {
      SCOPED_TRACE(native_name(config));
      const auto made = plan(one.problem, config);
      ASSERT_NE(made, nullptr);
      const RunOptions options{.stream = stream.handle()};
      ASSERT_EQ(words(whole->queue(*made, d, options)), "");
      const auto exact = whole->fetch(d, stream.handle());
      ASSERT_TRUE(exact) << exact.error().text();
      // All kernels agree on every bit, so float64 is asked once.
      if (judged.empty() || *exact != judged) {
        EXPECT_EQ(whole->judge(*exact), "");
        judged = *exact;
      }
      if (!config.algorithm.is_bitwise()) continue;
      std::vector<std::byte> first;
      for (int repeat = 0; repeat < 4; ++repeat) {
        ASSERT_EQ(words(normal->queue(*made, d, options)), "");
        const auto again = normal->fetch(d, stream.handle());
        ASSERT_TRUE(again) << again.error().text();
        if (repeat == 0) first = *again;
        EXPECT_TRUE(*again == first) << "repeat " << repeat << " has other bits";
      }
    }
  }
}

}  // namespace tilesmith::testing
