// What a device brings to dispatch: the recipes it has for a problem, best first, and plans that run them. Which of
// them is taken (choice.hpp) is decided in the same way for every device and operation.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "choose/candidate.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {

/// One operation on one device. PlanT is the operation's plan (AttentionPlan). Products with a column-major D come to a
/// device as their transposes (gemm/transpose.hpp).
template <class PlanT>
class OperationBackend {
 public:
  using Problem = typename PlanT::Problem;

  OperationBackend() = default;
  OperationBackend(const OperationBackend&) = delete;
  OperationBackend& operator=(const OperationBackend&) = delete;
  virtual ~OperationBackend() = default;

  /// Recipes whose kernels have exactly the problem's signature, best first. Error: unsupported, with the rule that
  /// refuses and its figures, when there is none.
  [[nodiscard]] virtual Result<Ranking> rank(const Problem& problem) const = 0;
  /// Recipes that need no compiler and compute the problem, perhaps with traits it does not use; best first.
  [[nodiscard]] virtual std::vector<Candidate> fallbacks(const Problem& problem) const = 0;
  /// Whether a recipe asked for by name runs on this device and computes the problem. Errors: unsupported,
  /// invalid_argument.
  [[nodiscard]] virtual Status check(const Recipe& recipe, const Problem& problem) const = 0;
  /// Finds, loads or builds the kernels of the recipe and plans the problem with them. The plan's info carries the
  /// reason and the predicted seconds.
  [[nodiscard]] virtual Result<std::unique_ptr<PlanT>> plan(const Problem& problem, const Candidate& chosen,
                                                            std::string reason, BuildPolicy build) = 0;
};

/// Of operations whose recipes have one computing step. Error: invalid_argument, for other recipes.
[[nodiscard]] Status check_one_step(const Recipe& recipe);

class GemmBackend : public OperationBackend<GemmPlan> {
 public:
  /// The dispatcher's plan for a problem.
  using Planner = std::function<Result<const GemmPlan*>(const GemmProblem&)>;

  /// A plan for products that are valid, and no groups; `plan` is how those of single products are had, under the same
  /// options.
  [[nodiscard]] virtual Result<std::unique_ptr<const GemmListPlan>> plan_list(std::vector<GemmProblem> problems,
                                                                              const Planner& plan,
                                                                              const DispatcherOptions& options) = 0;

  /// The kernel that packs B. Of a valid problem with packed_b, as what follows. Unsupported where kernels read B as it
  /// lies.
  [[nodiscard]] virtual Result<KernelConfig> packer(const GemmProblem& problem) const;
  [[nodiscard]] virtual Result<std::size_t> packed_b_bytes(const GemmProblem& problem, BuildPolicy build);
  [[nodiscard]] virtual Status pack_b(const GemmProblem& problem, const GemmOperand& b, void* packed,
                                      BuildPolicy build);
};

/// done, total and failed kernels of a build; called by one thread at a time.
using BuildCounter = std::function<void(std::size_t done, std::size_t total, std::size_t failed)>;

class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  [[nodiscard]] virtual OperationBackend<AttentionPlan>& attention() = 0;
  /// Null where the device has no GEMM kernels.
  [[nodiscard]] virtual GemmBackend* gemm() { return nullptr; }
  /// Compiles what the device needs compiled and does not have, several at a time; one status per config, in order.
  /// Nothing is loaded.
  [[nodiscard]] virtual std::vector<Status> build(std::span<const KernelConfig> configs, int workers,
                                                  const BuildCounter& progress) = 0;
};

/// `threads` is for the CPU. Errors: not_found (no such device, or what it needs is not installed), unsupported.
[[nodiscard]] Result<std::unique_ptr<Backend>> open_backend(Device device, int threads);

}  // namespace tilesmith
