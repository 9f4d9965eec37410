#include "dispatch/conv/cuda_gemm_plan.hpp"

#include "dispatch/conv/cuda_plan.hpp"
#include "problem/conv/matrix.hpp"
#include "problem/conv/problem.hpp"

namespace tilesmith {
namespace {

class CudaConvByGemm final : public ConvPlan {
 public:
  CudaConvByGemm(const ConvProblem& problem, std::unique_ptr<GemmPlan> gemm)
      : ConvPlan(problem, gemm->info()), gemm_(std::move(gemm)) {}

  [[nodiscard]] Status run(const ConvArguments& arguments, const RunOptions& options) const override {
    TS_TRY(validate(problem(), arguments));
    TS_TRY(check_conv_alignment(problem(), arguments));
    return gemm_->run(gemm_arguments(problem(), arguments), options);
  }

 private:
  std::unique_ptr<GemmPlan> gemm_;
};

}  // namespace

Result<std::unique_ptr<ConvPlan>> conv_by_gemm(const ConvProblem& problem, CudaGemm& gemm, const Candidate& chosen,
                                               std::string reason, BuildPolicy build) {
  const auto product = gemm_of(problem);
  if (!product) return fail(ErrorCode::internal, "a GEMM kernel for a convolution that is no product of matrices");
  TS_ASSIGN(std::unique_ptr<GemmPlan> plan, gemm.plan(*product, chosen, std::move(reason), build));
  return std::make_unique<CudaConvByGemm>(problem, std::move(plan));
}

}  // namespace tilesmith
