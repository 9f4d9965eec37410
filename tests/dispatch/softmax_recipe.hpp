// An operation of the tests alone, whose recipes have one, two and three steps: the softmax of n numbers. It is what a
// new operation writes for dispatch: a problem, arguments, a plan that lays out its workspace and binds each step's
// arguments, and a device's backend.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dispatch/backend.hpp"
#include "dispatch/cpu_steps.hpp"

namespace tilesmith {

struct SoftmaxProblem {
  std::int64_t n = 0;

  friend bool operator==(const SoftmaxProblem&, const SoftmaxProblem&) = default;
};

struct SoftmaxArguments {
  const float* x = nullptr;  ///< n numbers
  float* y = nullptr;        ///< their softmax
};

using SoftmaxPlan = OperationPlan<SoftmaxProblem, SoftmaxArguments>;

struct Softmax {
  using Problem = SoftmaxProblem;
  using Arguments = SoftmaxArguments;
  static constexpr std::string_view kName = "softmax";
};
template <>
struct PlanOf<Softmax> : std::type_identity<SoftmaxPlan> {};

namespace testing {

/// A step of the softmax as a kernel's config: kernels are told apart by the tile alone.
enum class SoftmaxStep : std::uint16_t { all = 32, maximum = 64, exponentials = 96, divide = 128 };
[[nodiscard]] KernelConfig config_of(SoftmaxStep step);

/// The CPU's softmax: recipes of three steps (maximum of each block, exponentials and their sums, division), of two and
/// of one.
class CpuSoftmax final : public OperationBackend<Softmax> {
 public:
  explicit CpuSoftmax(ThreadPool& pool) : pool_(pool) {}

  /// Steps whose kernels cannot be had, and why.
  std::map<SoftmaxStep, Error> broken;
  /// The steps that were looked for, in order.
  std::vector<SoftmaxStep> asked;

  [[nodiscard]] Result<Ranking> rank(const SoftmaxProblem& problem) const override;
  [[nodiscard]] std::vector<Candidate> fallbacks(const SoftmaxProblem& problem) const override;
  [[nodiscard]] Status check(const Recipe& recipe, const SoftmaxProblem& problem) const override;
  [[nodiscard]] Result<std::unique_ptr<SoftmaxPlan>> plan(const SoftmaxProblem& problem, const Candidate& chosen,
                                                          std::string reason, BuildPolicy build) override;

 private:
  ThreadPool& pool_;
};

}  // namespace testing
}  // namespace tilesmith
