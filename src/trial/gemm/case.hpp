// One GEMM problem with data: inputs (random or given), the arguments of a call on them, and the same call as the
// checks see it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/error.hpp"
#include "base/host_array.hpp"
#include "measure/measure.hpp"
#include "runtime/aligned_buffer.hpp"
#include "tilesmith/dispatcher.hpp"
#include "tilesmith/gemm.hpp"
#include "verify/gemm/tensors.hpp"

namespace tilesmith {

/// Memory for one call's results.
struct GemmOutputs {
  AlignedBuffer d;
  float amax = 0;
};

/// The run-time numbers of a call, and which inputs are given instead of random. Given matrices have the shapes of
/// op(A), op(B), op(A2), op(B2), C and D, whatever the orders they are stored in: (rows, columns), which the batch
/// shares, or (batch, rows, columns).
struct GemmInputs {
  float alpha = 1, beta = 0;
  float clamp_low = -1, clamp_high = 1;
  std::uint64_t seed = 0;
  HostArray a{}, b{}, a2{}, b2{}, c{};
  std::vector<std::int32_t>
      group_rows{};  ///< of each group; empty: contiguous ones share m evenly, masked ones are full
  std::array<HostArray, GemmEpilogue::kMax> epilogue{};  ///< what each operation reads
};

class GemmCase {
 public:
  /// Fills what is not given; matrices of tf32 are rounded to it. Errors: a given array whose shape or type does not
  /// fit the problem, memory.
  [[nodiscard]] static Result<GemmCase> create(const GemmProblem& problem, GemmInputs inputs);

  /// Packs B once for all calls that follow, where the problem's is packed. Errors: those of Dispatcher::pack_b.
  [[nodiscard]] Status pack_b(Dispatcher& dispatcher);

  /// The problem that was asked for, with what its matrices have (unaligned).
  [[nodiscard]] const GemmProblem& problem() const { return problem_; }
  [[nodiscard]] ElementType output_type() const;
  [[nodiscard]] bool wants_amax() const;
  /// Floating-point operations of a call, of groups for the rows they have.
  [[nodiscard]] double flops() const;

  /// Memory for results; rows of no group are zeros.
  [[nodiscard]] GemmOutputs make_outputs() const;
  /// The call that writes into `outputs`.
  [[nodiscard]] GemmArguments arguments(GemmOutputs& outputs) const;
  /// The same call for references and checks.
  [[nodiscard]] GemmTensors tensors() const;
  /// The memory of all inputs that a call reads.
  [[nodiscard]] std::vector<MemoryRange> inputs() const;

  /// D as an array of shape (m, columns), or (batch, m, columns) of a larger batch.
  [[nodiscard]] HostArray output_array(const GemmOutputs& outputs) const;

 private:
  /// A matrix in the order and type the kernel reads.
  struct Operand {
    HostArray array;
    std::int64_t leading = 0, batch = 0;
    MatrixOrder order = MatrixOrder::row;

    [[nodiscard]] TensorView view() const;
  };

  explicit GemmCase(const GemmProblem& problem) : problem_(problem) {}

  GemmProblem problem_;
  /// Scales of A or B, and how many rows of A or columns of B share one.
  struct Scales {
    HostArray array;
    std::int64_t rows = 0, lines = 1;
  };

  [[nodiscard]] Status add_scales(const GemmInputs& inputs, float deviation);
  [[nodiscard]] Status add_groups(const GemmInputs& inputs);
  [[nodiscard]] GemmScales scale_arguments(const Scales& scales, std::int64_t batch) const;
  [[nodiscard]] GemmScaleView scale_view(const Scales& scales, std::int64_t batch) const;

  GemmInputs inputs_;  ///< without its arrays
  Operand a_, b_, a2_, b2_, c_;
  Scales scale_a_, scale_b_, zero_b_;
  std::vector<std::int32_t> group_ends_;
  std::array<Operand, GemmEpilogue::kMax> epilogue_;
  AlignedBuffer packed_b_;
  std::size_t packed_bytes_ = 0;
};

}  // namespace tilesmith
