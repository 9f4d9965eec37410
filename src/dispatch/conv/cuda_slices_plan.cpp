#include "dispatch/conv/cuda_slices_plan.hpp"

#include "dispatch/conv/cuda_plan.hpp"
#include "problem/conv/problem.hpp"
#include "problem/conv/slices.hpp"

namespace tilesmith {
namespace {

class CudaConvBySlices final : public ConvPlan {
 public:
  CudaConvBySlices(const ConvProblem& problem, std::unique_ptr<ConvPlan> images)
      : ConvPlan(problem, images->info()), images_(std::move(images)) {}

  [[nodiscard]] Status run(const ConvArguments& arguments, const RunOptions& options) const override {
    TS_TRY(validate(problem(), arguments));
    TS_TRY(check_conv_alignment(problem(), arguments));  // slices are evenly apart
    return images_->run(arguments_of_slices(problem(), arguments), options);
  }

 private:
  std::unique_ptr<ConvPlan> images_;
};

}  // namespace

std::unique_ptr<ConvPlan> conv_by_slices(const ConvProblem& problem, std::unique_ptr<ConvPlan> images) {
  return std::make_unique<CudaConvBySlices>(problem, std::move(images));
}

}  // namespace tilesmith
