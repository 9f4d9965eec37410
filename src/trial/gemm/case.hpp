// One GEMM problem with data: its inputs (random or given), a call on them, and the same call as the checks see it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.hpp"
#include "base/host_array.hpp"
#include "problem/line.hpp"
#include "runtime/aligned_buffer.hpp"
#include "tilesmith/dispatcher.hpp"
#include "tilesmith/gemm.hpp"
#include "trial/call_memory.hpp"
#include "trial/case.hpp"
#include "verify/gemm/reference.hpp"
#include "verify/gemm/tensors.hpp"

namespace tilesmith {

/// The inputs that are given instead of random ones. Given matrices have the shapes of op(A), op(B), op(A2), op(B2) and
/// C in whatever order the kernel reads them: (batch, rows, columns), or (rows, columns), which the batch shares.
struct GemmInputs {
  HostArray a{}, b{}, a2{}, b2{}, c{};
  std::array<HostArray, GemmEpilogue::kMax> epilogue{};  ///< what each operation reads
};

template <>
class Case<Gemm> {
 public:
  using Inputs = GemmInputs;
  using Plan = GemmPlan;

  /// Fills inputs that are not given with random numbers, and rounds matrices of tf32 to it. Errors: invalid_argument,
  /// for a given array whose shape or type does not fit the problem.
  [[nodiscard]] static Result<Case> create(const RandomCall<Gemm>& call, GemmInputs given = {});

  /// Packs B for all calls that follow, where the problem's B is packed. Errors: those of Dispatcher::pack_b.
  [[nodiscard]] Status prepare(Dispatcher& dispatcher);

  /// The problem that was asked for, with what follows from its matrices (problem/derive.hpp).
  [[nodiscard]] const GemmProblem& problem() const { return problem_; }
  [[nodiscard]] ElementType output_type() const;
  [[nodiscard]] bool wants_amax() const;
  /// Floating-point operations of a call, of groups for the rows they have.
  [[nodiscard]] double flops() const;
  [[nodiscard]] double bytes() const;

  /// a, b (packed, where the case is prepared), a2, b2, c, scale_a, scale_b, zero_b, group_ends, and epilogue0,
  /// epilogue1, ... of the operations that read something.
  [[nodiscard]] std::vector<NamedInput> inputs() const;
  /// "d", an array (m, columns) or (batch, m, columns) of a larger batch, and "amax" where the problem has it. Rows of
  /// no group are not written.
  [[nodiscard]] std::vector<OutputSpec> outputs() const;
  /// The same with gaps between the lines of D. Lines begin at multiples of 16 bytes where a device's kernels may ask
  /// for that.
  [[nodiscard]] std::vector<OutputSpec> guarded_outputs(DeviceKind kind) const;

  [[nodiscard]] GemmArguments arguments(const CallMemory& memory) const;
  /// The call on the host's inputs; its outputs are still to be set.
  [[nodiscard]] GemmArguments arguments() const { return arguments(CallMemory(inputs())); }
  /// The same call for references and checks.
  [[nodiscard]] GemmTensors tensors() const;

  /// The case must outlive its reference. threads = 0: as many as the machine has.
  [[nodiscard]] Result<std::unique_ptr<const Reference>> reference(unsigned threads = 0) const;
  /// Of many products GemmReference::make_sampled, else the whole one.
  [[nodiscard]] Result<std::unique_ptr<const Reference>> sampled_reference(unsigned threads = 0) const;
  /// Error: unsupported, for results in integers.
  [[nodiscard]] Status run_naive(unsigned threads) const;

 private:
  /// A matrix in the order and type the kernel reads.
  struct Operand {
    HostArray array;
    std::int64_t leading = 0, batch = 0;
    MatrixOrder order = MatrixOrder::row;

    [[nodiscard]] TensorView view() const;
  };

  explicit Case(const RandomCall<Gemm>& call) : problem_(call.problem), numbers_(call.numbers) {}

  GemmProblem problem_;
  GemmNumbers numbers_;
  /// Scales of A or B, and how many rows of A or columns of B share one.
  struct Scales {
    HostArray array;
    std::int64_t rows = 0, lines = 1;
  };

  [[nodiscard]] Status add_scales(float deviation);
  [[nodiscard]] Status add_groups();
  /// Strides in elements of the scales or zero points; data null.
  [[nodiscard]] GemmScales scale_strides(const Scales& scales, std::int64_t batch) const;
  [[nodiscard]] GemmScaleView scale_view(const Scales& scales, std::int64_t batch) const;

  Operand a_, b_, a2_, b2_, c_;
  Scales scale_a_, scale_b_, zero_b_;
  std::vector<std::int32_t> group_ends_;
  std::array<Operand, GemmEpilogue::kMax> epilogue_;
  AlignedBuffer packed_b_;
  std::size_t packed_bytes_ = 0;
};

using GemmCase = Case<Gemm>;

}  // namespace tilesmith
