// One attention-backward problem with data: the inputs of attention forward, its o and lse from the float64 reference,
// and a gradient of o.
#pragma once

#include <memory>
#include <vector>

#include "base/error.hpp"
#include "tilesmith/attention_backward.hpp"
#include "trial/attention/case.hpp"
#include "verify/attention_backward/reference.hpp"

namespace tilesmith {

/// The inputs that are given instead of random ones.
struct AttentionBackwardInputs {
  AttentionInputs forward{};
  HostArray dout{};  ///< of o's shape
};

template <>
class Case<AttentionBwd> {
 public:
  using Inputs = AttentionBackwardInputs;
  using Plan = AttentionBackwardPlan;

  /// Errors: those of attention forward's case, and for a dout that does not fit.
  [[nodiscard]] static Result<Case> create(const RandomCall<AttentionBwd>& call, AttentionBackwardInputs given = {});

  /// The problem that was asked for, with what follows from its tensors and scale.
  [[nodiscard]] const AttentionBackwardProblem& problem() const { return problem_; }
  [[nodiscard]] AttentionLayout layout() const { return forward_.layout(); }
  [[nodiscard]] Status prepare(Dispatcher&) { return {}; }

  /// Those of attention forward, o, lse, dout and, where the problem has it, dlse.
  [[nodiscard]] std::vector<NamedInput> inputs() const;
  /// dq, dk, dv, and dbias, dalibi and dsink where they are wanted. dbias has the shape of the bias, in four
  /// dimensions.
  [[nodiscard]] std::vector<OutputSpec> outputs() const;
  [[nodiscard]] std::vector<OutputSpec> guarded_outputs(DeviceKind) const { return outputs(); }
  [[nodiscard]] AttentionBackwardArguments arguments(const CallMemory& memory) const;
  /// The same call for references and checks.
  [[nodiscard]] AttentionBackwardTensors tensors() const;

  [[nodiscard]] Result<std::unique_ptr<const Reference>> reference(unsigned threads = 0) const;
  [[nodiscard]] Status run_naive(unsigned threads) const;

  [[nodiscard]] double flops() const;
  [[nodiscard]] double bytes() const { return 2 * forward_.bytes(); }

 private:
  Case(const AttentionBackwardProblem& problem, AttentionCase forward)
      : problem_(problem), forward_(std::move(forward)) {}

  AttentionBackwardProblem problem_;
  AttentionCase forward_;
  HostArray o_, lse_, dout_, dlse_;
};

using AttentionBackwardCase = Case<AttentionBwd>;

}  // namespace tilesmith
