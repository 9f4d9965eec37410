// What plans for lists of GEMMs have in common.
#pragma once

#include <fmt/format.h>

#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "dispatch/backend.hpp"

namespace tilesmith {

/// Checks every GEMM's arguments, and that there are as many as problems; messages have the GEMM's number.
[[nodiscard]] Status validate(std::span<const GemmProblem> problems, std::span<const GemmArguments> arguments);

/// The plans of the list's GEMMs, in order. Error: that of the first that fails, with its number.
[[nodiscard]] Result<std::vector<const GemmPlan*>> plans_of(std::span<const GemmProblem> problems,
                                                            const ListBackend<Gemm>::Planner& plan);

/// What is known of a list's plan while it is made: the steps of its members, equal ones together, and the seconds that
/// they are predicted to take.
class GemmListInfo {
 public:
  /// A GEMM that runs by its own plan; `has_work` is false of one whose D has no elements.
  void add(const Plan& member, bool has_work = true);
  /// So many GEMMs that share launches of one kernel.
  void add(const KernelConfig& kernel, std::size_t products, double predicted_seconds);
  /// `how` the GEMMs are computed is the reason. The predicted seconds are the sum; 0 where a member's are not known.
  [[nodiscard]] PlanInfo info(Device device, std::size_t products, std::string_view how) const;

 private:
  struct Part {
    PlanStep step;
    std::size_t products;
  };
  void add(const PlanStep& step, std::size_t products);
  void add_source(std::string_view source);

  std::vector<Part> parts_;
  double predicted_seconds_ = 0;
  bool is_predicted_ = true;
  std::string source_;
};

[[nodiscard]] inline Error of_product(const Error& error, std::size_t at, std::size_t count) {
  return error.in(fmt::format("product {} of {}", at, count));
}

}  // namespace tilesmith
