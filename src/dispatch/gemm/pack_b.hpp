// Packing B for GEMMs that read it packed, as an operation of its own. Its recipes have one step of the role pack_b.
#pragma once

#include <cstdint>

#include "problem/gemm/problem.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {

/// Which panels B is packed into: the part of a GEMM that they depend on (packing_of), and nothing else of it.
struct GemmPackBProblem {
  GemmProblem gemm;

  friend bool operator==(const GemmPackBProblem&, const GemmPackBProblem&) = default;
};

/// The packing problem of a GEMM, with or without packed_b.
[[nodiscard]] inline GemmPackBProblem pack_b_problem(const GemmProblem& gemm) {
  return {packing_of(gemm)};
}
[[nodiscard]] inline std::uint64_t hash_of(const GemmPackBProblem& problem) {
  return hash_of(problem.gemm);
}
/// Errors: invalid_argument, unsupported.
[[nodiscard]] inline Status validate(const GemmPackBProblem& problem) {
  return validate(problem.gemm);
}

struct GemmPackBArguments {
  GemmOperand b;
  void* packed = nullptr;  ///< packed_bytes() of the plan, 64-byte aligned
};

class GemmPackBPlan : public OperationPlan<GemmPackBProblem, GemmPackBArguments> {
 public:
  /// Of the whole buffer that is written.
  [[nodiscard]] std::size_t packed_bytes() const { return packed_bytes_; }

 protected:
  GemmPackBPlan(const GemmPackBProblem& problem, PlanInfo info, std::size_t packed_bytes)
      : OperationPlan(problem, std::move(info)), packed_bytes_(packed_bytes) {}

 private:
  std::size_t packed_bytes_;
};

/// The row of src/dispatch/operations.hpp.
struct GemmPackB {
  using Problem = GemmPackBProblem;
  using Arguments = GemmPackBArguments;
  static constexpr std::string_view kName = "gemm_pack_b";
};

}  // namespace tilesmith
