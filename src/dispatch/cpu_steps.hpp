// A recipe's kernels on the CPU: their tables run through a team's threads, one table after the other. A plan has
// one, and tells it each step's arguments.
#pragma once

#include <functional>
#include <vector>

#include "base/error.hpp"
#include "dispatch/steps.hpp"
#include "runtime/cpu/kernel.hpp"
#include "runtime/cpu/thread_team.hpp"

namespace tilesmith {

class CpuSteps {
 public:
  using Find = std::function<Result<CpuKernel>(const KernelConfig&)>;

  /// Loads or builds every step's kernel. Error: that of the first step that fails (kernels_of).
  [[nodiscard]] static Result<CpuSteps> load(const Recipe& recipe, ThreadTeam team, const Find& find) {
    TS_ASSIGN(std::vector<CpuKernel> kernels,
              kernels_of(recipe, [&](const KernelConfig& config, std::size_t) { return find(config); }));
    return CpuSteps(std::move(kernels), team);
  }

  [[nodiscard]] std::size_t size() const { return kernels_.size(); }
  [[nodiscard]] const TsCpuKernel& table(std::size_t step = 0) const { return kernels_[step].table(); }
  [[nodiscard]] ThreadTeam team() const { return team_; }

  /// Runs the steps in order, each to its end. bind(step, send) calls send(arguments) with the structure that the
  /// step's kernel reads. Allocates nothing.
  template <class Bind>
  void run(Bind&& bind) const {
    for (std::size_t step = 0; step < kernels_.size(); ++step)
      bind(step, [&](const auto& arguments) { team_.run(kernels_[step].table(), &arguments); });
  }

 private:
  CpuSteps(std::vector<CpuKernel> kernels, ThreadTeam team) : kernels_(std::move(kernels)), team_(team) {}

  std::vector<CpuKernel> kernels_;
  ThreadTeam team_;
};

}  // namespace tilesmith
