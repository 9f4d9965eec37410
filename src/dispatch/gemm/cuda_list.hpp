// Lists of GEMMs on a CUDA device. GEMMs of one form that would not fill the chip share launches of a kernel that
// finds each tile's GEMM in a table, which travels with the launch (kernels/cuda/gemm/mma_sm80/list.cuh); the others
// have their own plans. Like a single GEMM, a list allocates nothing when it runs and can be captured.
#pragma once

#include <mutex>
#include <optional>
#include <vector>

#include "dispatch/cuda_registry.hpp"
#include "dispatch/gemm/list.hpp"
#include "instances/gemm/cuda_resources.hpp"
#include "runtime/cuda/kernel.hpp"
#include "spec/cuda/spec.hpp"

namespace tilesmith {

/// An instance for lists, ready to be launched.
struct CudaListKernel {
  KernelConfig config;
  CudaGemmResources facts;
  CudaKernel kernel;
};

/// Products that share a form: everything but their sizes is alike.
struct CudaListPart {
  GemmProblem typical;                     ///< the size that matters most in it, in round numbers; `batch`: how many
  std::vector<std::size_t> products;       ///< their numbers in the list
  std::optional<CudaListKernel> kernel{};  ///< that computes them
  double predicted_seconds = 0;            ///< of all its launches
};

struct CudaListParts {
  std::vector<CudaListPart> shared;
  std::vector<std::size_t> alone;  ///< GEMMs with plans of their own
};

/// Which GEMMs share launches: those that leave SMs idle and are of no more work than the spec says (list_gflop).
[[nodiscard]] CudaListParts cuda_list_parts(std::span<const GemmProblem> problems, const CudaSpec& spec);

class CudaGemmPlan;

class CudaGemmListPlan final : public GemmListPlan {
 public:
  [[nodiscard]] static Result<std::unique_ptr<const GemmListPlan>> make(std::vector<GemmProblem> problems,
                                                                        CudaListParts parts,
                                                                        const ListBackend<Gemm>::Planner& plan,
                                                                        int device_index);

  [[nodiscard]] Status run(std::span<const GemmArguments> arguments, const RunOptions& options) const override;

 private:
  struct Alone {
    const CudaGemmPlan* plan;
    std::size_t product;
  };

  CudaGemmListPlan(std::vector<GemmProblem> problems, PlanInfo info, std::vector<CudaListPart> shared,
                   std::vector<Alone> alone)
      : GemmListPlan(std::move(problems), std::move(info)), shared_(std::move(shared)), alone_(std::move(alone)) {}

  [[nodiscard]] Status launch_part(const CudaListPart& part, std::span<const GemmArguments> arguments,
                                   const RunOptions& options) const;

  std::vector<CudaListPart> shared_;
  std::vector<Alone> alone_;
};

class CudaGemmList final : public ListBackend<Gemm> {
 public:
  /// `spec` has the figures of the device at hand. The device itself is touched by plan() alone.
  CudaGemmList(int device_index, const CudaSpec& spec, CudaRegistry& registry)
      : device_index_(device_index), spec_(spec), registry_(registry) {}

  [[nodiscard]] Result<std::unique_ptr<const GemmListPlan>> plan(std::vector<GemmProblem> problems, const Planner& plan,
                                                                 const DispatcherOptions& options) override;

 private:
  [[nodiscard]] Result<std::unique_ptr<const GemmListPlan>> plan_row_d(std::vector<GemmProblem> problems,
                                                                       const Planner& plan,
                                                                       const DispatcherOptions& options);
  /// The kernel for lists whose GEMMs are like this one, `batch` of them.
  [[nodiscard]] Result<CudaListKernel> kernel_for(const GemmProblem& typical, BuildPolicy build);

  int device_index_;
  const CudaSpec& spec_;
  CudaRegistry& registry_;
  std::mutex mutex_;  ///< held while a list's kernel is chosen, and perhaps compiled
  std::vector<std::pair<GemmProblem, CudaListKernel>> kernels_;
};

}  // namespace tilesmith
