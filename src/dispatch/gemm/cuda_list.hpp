// Lists of products on a CUDA device. Products of one form that would not fill the chip share launches of a kernel that
// finds each tile's product in a table, which travels with the launch (kernels/cuda/gemm/mma_sm80/list.cuh); the others
// have their own plans. Like single products, a list allocates nothing when it runs and can be captured.
#pragma once

#include <optional>
#include <vector>

#include "dispatch/gemm/list.hpp"
#include "instances/gemm/cuda.hpp"
#include "runtime/cuda/kernel.hpp"

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
};

struct CudaListParts {
  std::vector<CudaListPart> shared;
  std::vector<std::size_t> alone;  ///< products with plans of their own
};

/// Which products share launches: those that leave SMs idle and are of no more work than the spec says (list_gflop).
[[nodiscard]] CudaListParts cuda_list_parts(std::span<const GemmProblem> problems, const CudaSpec& spec);

class CudaGemmPlan;

class CudaGemmListPlan final : public GemmListPlan {
 public:
  [[nodiscard]] static Result<std::unique_ptr<const GemmListPlan>> make(std::vector<GemmProblem> problems,
                                                                        CudaListParts parts,
                                                                        const GemmBackend::Planner& plan,
                                                                        int device_index);

  [[nodiscard]] Status run(std::span<const GemmArguments> arguments, const RunOptions& options) const override;

 private:
  struct Alone {
    const CudaGemmPlan* plan;
    std::size_t product;
  };

  CudaGemmListPlan(std::vector<GemmProblem> problems, PlanInfo facts, std::vector<CudaListPart> shared,
                   std::vector<Alone> alone)
      : GemmListPlan(std::move(problems), std::move(facts)), shared_(std::move(shared)), alone_(std::move(alone)) {}

  [[nodiscard]] Status launch_part(const CudaListPart& part, std::span<const GemmArguments> arguments,
                                   const RunOptions& options) const;

  std::vector<CudaListPart> shared_;
  std::vector<Alone> alone_;
};

}  // namespace tilesmith
