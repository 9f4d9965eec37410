// What plans for lists of GEMMs have in common.
#pragma once

#include <fmt/format.h>

#include <span>
#include <vector>

#include "base/error.hpp"
#include "dispatch/backend.hpp"

namespace tilesmith {

/// Checks every GEMM's arguments, and that there are as many as problems; messages have the GEMM's number.
[[nodiscard]] Status validate(std::span<const GemmProblem> problems, std::span<const GemmArguments> arguments);

/// The plans of the list's GEMMs, in order. Error: that of the first that fails, with its number.
[[nodiscard]] Result<std::vector<const GemmPlan*>> plans_of(std::span<const GemmProblem> problems,
                                                            const ListBackend<Gemm>::Planner& plan);

/// Which kernels compute how many of a list's GEMMs.
class GemmListInfo {
 public:
  void add(std::string_view kernel, std::size_t products = 1);
  /// A step for each kernel; `how` the GEMMs are computed is the reason.
  [[nodiscard]] PlanInfo info(Device device, std::size_t products, std::string_view how) const;

 private:
  std::vector<std::pair<std::string, std::size_t>> kernels_;
};

[[nodiscard]] inline Error of_product(const Error& error, std::size_t at, std::size_t count) {
  return error.in(fmt::format("product {} of {}", at, count));
}

}  // namespace tilesmith
