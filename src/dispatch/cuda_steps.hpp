// A recipe's kernels on a CUDA device: launches queued in one stream, one behind the other. A plan has one, and tells
// it each step's parameters.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "dispatch/steps.hpp"
#include "runtime/cuda/kernel.hpp"

namespace tilesmith {

class CudaSteps {
 public:
  /// A kernel and the form of its launches; the stream is the call's.
  struct Step {
    CudaKernel kernel;
    CudaLaunch launch{};
  };
  using Find = std::function<Result<CudaKernel>(const KernelConfig& config, std::size_t step)>;

  /// Loads or builds every step's kernel; how they are launched is told afterwards (launch()). Error: that of the first
  /// step that fails (kernels_of).
  [[nodiscard]] static Result<CudaSteps> load(const Recipe& recipe, const Find& find) {
    TS_ASSIGN(const std::vector<CudaKernel> kernels, kernels_of(recipe, find));
    CudaSteps steps;
    for (const CudaKernel& kernel : kernels) steps.steps_.push_back({kernel});
    return steps;
  }

  [[nodiscard]] std::size_t size() const { return steps_.size(); }
  [[nodiscard]] const CudaContext& context() const { return steps_.front().kernel.context(); }
  [[nodiscard]] const CudaKernel& kernel(std::size_t step = 0) const { return steps_[step].kernel; }
  [[nodiscard]] CudaLaunch& launch(std::size_t step = 0) { return steps_[step].launch; }
  /// Makes the step's kernel another one of the same cubin, for launches as launch() describes them.
  [[nodiscard]] Status take_entry(const std::string& symbol, std::size_t step = 0) {
    TS_ASSIGN(steps_[step].kernel, kernel(step).other(symbol, steps_[step].launch.dynamic_shared_bytes));
    return {};
  }

  /// Queues the steps in order. bind(step, send) calls send(parameters...) with the very types that the step's kernel
  /// declares, and returns its Status. Error: launch_failed, or what bind returns; later steps are not queued then.
  template <class Bind>
  [[nodiscard]] Status run(void* stream, Bind&& bind) const {
    const CudaCurrent current(context());
    TS_TRY(current.status());
    for (std::size_t step = 0; step < steps_.size(); ++step) {
      CudaLaunch how = steps_[step].launch;
      how.stream = static_cast<cu::Stream>(stream);
      TS_TRY(bind(step, [&](const auto&... parameters) -> Status {
        return launch_with(steps_[step].kernel, how, parameters...);
      }));
    }
    return {};
  }

 private:
  CudaSteps() = default;

  std::vector<Step> steps_;  ///< never empty
};

}  // namespace tilesmith
