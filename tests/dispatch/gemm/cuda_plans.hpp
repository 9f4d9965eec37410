// What the tests of GEMM plans on a CUDA device share: the device, the kernels of a problem, and runs that are judged.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "dispatch/backend.hpp"
#include "dispatch/gemm/device_gemm.hpp"
#include "dispatch/test_store.hpp"
#include "runtime/cuda/stream.hpp"

namespace tilesmith::testing {

/// What went wrong.
[[nodiscard]] std::string words(const Status& status);

[[nodiscard]] GemmProblem bf16(std::int64_t m, std::int64_t n, std::int64_t k);

class CudaGemmPlans : public ::testing::Test {
 protected:
  void SetUp() override;

  /// The problem's candidates, and each as an instance that splits k; with `all` false one tile a pipeline.
  [[nodiscard]] std::vector<KernelConfig> configs_for(const GemmProblem& problem, bool all) const;
  /// One instance that splits k, of the pipeline named.
  [[nodiscard]] KernelConfig split_config(const GemmProblem& problem, Pipeline pipeline) const;
  void build(const std::vector<KernelConfig>& configs) const;
  /// Every `step`-th, from another one on for each problem: they are many.
  [[nodiscard]] static std::vector<KernelConfig> every(int step, const std::vector<KernelConfig>& configs,
                                                       const GemmProblem& problem);
  [[nodiscard]] std::unique_ptr<GemmPlan> plan(const GemmProblem& problem, const KernelConfig& config) const;

  struct Case {
    GemmProblem problem;
    bool all;  ///< tiles, not pipelines alone
    std::int64_t offset = 0;
  };
  /// Whole numbers come out exactly, and others with the same bits every time, from each of a case's kernels.
  void repeat(const std::vector<Case>& cases) const;

  const CudaContext* context = nullptr;
  std::unique_ptr<CudaCurrent> current;
  CudaStream stream, other_stream;
  std::unique_ptr<Backend> backend;
};

}  // namespace tilesmith::testing
