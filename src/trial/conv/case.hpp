// One convolution problem with data: the two tensors that are read (random or given), a call on them, and the same call
// as the checks see it.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "base/error.hpp"
#include "base/host_array.hpp"
#include "problem/line.hpp"
#include "runtime/aligned_buffer.hpp"
#include "tilesmith/conv.hpp"
#include "tilesmith/dispatcher.hpp"
#include "trial/call_memory.hpp"
#include "trial/case.hpp"
#include "verify/conv/reference.hpp"

namespace tilesmith {

/// The inputs that are given instead of random ones, of the shapes that the call's layout gives them; dimensions of 1
/// do not count.
struct ConvInputs {
  HostArray x{}, w{}, y{};
  std::array<HostArray, GemmEpilogue::kMax> epilogue{};  ///< what each operation reads
};

template <>
class Case<Conv> {
 public:
  using Inputs = ConvInputs;
  using Plan = ConvPlan;

  /// Errors: invalid_argument, for a given array whose shape does not fit the problem or that the call does not read.
  [[nodiscard]] static Result<Case> create(const RandomCall<Conv>& call, ConvInputs given = {});

  [[nodiscard]] const ConvProblem& problem() const { return problem_; }
  /// Packs w for all calls that follow, where the problem's w is packed. Errors: those of Dispatcher::pack_w.
  [[nodiscard]] Status prepare(Dispatcher& dispatcher);

  /// x, w (packed, where the case is prepared) and y without the result, and epilogue0, epilogue1, ... of the
  /// operations that read something.
  [[nodiscard]] std::vector<NamedInput> inputs() const;
  /// "out", the tensor that the direction computes.
  [[nodiscard]] std::vector<OutputSpec> outputs() const;
  /// The same with gaps between pixels (channels last) or rows of pixels (channels first), and between members.
  [[nodiscard]] std::vector<OutputSpec> guarded_outputs(DeviceKind kind) const;
  [[nodiscard]] ConvArguments arguments(const CallMemory& memory) const;
  /// The same call for references and checks.
  [[nodiscard]] ConvTensors tensors() const;

  [[nodiscard]] Result<std::unique_ptr<const Reference>> reference(unsigned threads = 0) const;
  [[nodiscard]] Status run_naive(unsigned threads) const;

  [[nodiscard]] double flops() const;
  [[nodiscard]] double bytes() const;

 private:
  explicit Case(const RandomCall<Conv>& call) : problem_(call.problem), numbers_(call.numbers) {}

  /// Strides of the tensors as they are made: of a w that is packed later, the filters'.
  [[nodiscard]] ConvArguments dense() const;

  ConvProblem problem_;
  ConvNumbers numbers_;
  HostArray x_, w_, y_;
  AlignedBuffer packed_w_;
  std::size_t packed_bytes_ = 0;
  std::array<HostArray, GemmEpilogue::kMax> epilogue_;
};

using ConvCase = Case<Conv>;

}  // namespace tilesmith
