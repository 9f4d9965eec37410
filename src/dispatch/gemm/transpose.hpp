// Products with a column-major D, as the row-major products they are the transposes of: D^T = op(B)^T x op(A)^T. No
// kernel knows of column-major results.
#pragma once

#include "dispatch/backend.hpp"

namespace tilesmith {

/// The product whose row-major D lies in memory as the column-major D of `problem` does: A and B, m and n, and what the
/// epilogue reads along them have changed places.
[[nodiscard]] GemmProblem transposed(const GemmProblem& problem);
/// The problem if its D is row-major, else its transpose.
[[nodiscard]] GemmProblem with_row_d(const GemmProblem& problem);
/// A call's arguments for the transposed problem. What the epilogue reads stays where it is.
[[nodiscard]] GemmArguments transposed(const GemmArguments& arguments);

/// A device's kernels for row-major results, and by them for column-major ones.
class TransposingGemm final : public GemmBackend {
 public:
  /// `kernels` live longer.
  explicit TransposingGemm(GemmBackend& kernels) : kernels_(kernels) {}

  [[nodiscard]] Result<Ranking> rank(const GemmProblem& problem) const override;
  [[nodiscard]] std::vector<Candidate> fallbacks(const GemmProblem& problem) const override;
  [[nodiscard]] Status check(const Recipe& recipe, const GemmProblem& problem) const override;
  [[nodiscard]] Result<std::unique_ptr<GemmPlan>> plan(const GemmProblem& problem, const Candidate& chosen,
                                                       std::string reason, BuildPolicy build) override;

  [[nodiscard]] Result<std::unique_ptr<const GemmListPlan>> plan_list(std::vector<GemmProblem> problems,
                                                                      const Planner& plan,
                                                                      const DispatcherOptions& options) override;
  [[nodiscard]] Result<KernelConfig> packer(const GemmProblem& problem) const override {
    return kernels_.packer(problem);
  }
  [[nodiscard]] Result<std::size_t> packed_b_bytes(const GemmProblem& problem, BuildPolicy build) override {
    return kernels_.packed_b_bytes(problem, build);
  }
  [[nodiscard]] Status pack_b(const GemmProblem& problem, const GemmOperand& b, void* packed,
                              BuildPolicy build) override {
    return kernels_.pack_b(problem, b, packed, build);
  }

 private:
  GemmBackend& kernels_;
};

}  // namespace tilesmith
