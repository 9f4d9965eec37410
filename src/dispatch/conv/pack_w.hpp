// Packing w for convolutions that read it packed, as an operation of its own. Its recipes have one step of the role
// pack_w.
#pragma once

#include <cstdint>

#include "problem/conv/problem.hpp"
#include "problem/fields.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {

/// Which panels w is packed into: the part of a convolution that they depend on (packing_of), and nothing else of it.
struct ConvPackWProblem {
  ConvProblem conv;

  friend bool operator==(const ConvPackWProblem&, const ConvPackWProblem&) = default;
};

/// The packing problem of a convolution, with or without packed_w.
[[nodiscard]] inline ConvPackWProblem pack_w_problem(const ConvProblem& conv) {
  return {packing_of(conv)};
}
[[nodiscard]] inline std::uint64_t hash_of(const ConvPackWProblem& problem) {
  return hash_of(problem.conv);
}
/// Errors: invalid_argument, unsupported.
[[nodiscard]] inline Status validate(const ConvPackWProblem& problem) {
  return validate(problem.conv);
}

struct ConvPackWArguments {
  const void* w = nullptr;
  ConvStrides strides{};
  void* packed = nullptr;  ///< packed_bytes() of the plan, 64-byte aligned
};

class ConvPackWPlan : public OperationPlan<ConvPackWProblem, ConvPackWArguments> {
 public:
  /// Of the whole buffer that is written.
  [[nodiscard]] std::size_t packed_bytes() const { return packed_bytes_; }

 protected:
  ConvPackWPlan(const ConvPackWProblem& problem, PlanInfo info, std::size_t packed_bytes)
      : OperationPlan(problem, std::move(info)), packed_bytes_(packed_bytes) {}

 private:
  std::size_t packed_bytes_;
};

/// The row of src/dispatch/operations.hpp.
struct ConvPackW {
  using Problem = ConvPackWProblem;
  using Arguments = ConvPackWArguments;
  static constexpr std::string_view kName = "conv_pack_w";
};

}  // namespace tilesmith
