// A random GEMM problem with its matrices, for tests: any types, orders and epilogues, red zones around everything.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "runtime/cuda/memory.hpp"
#include "tilesmith/dispatcher.hpp"
#include "tilesmith/gemm.hpp"
#include "trial/gemm/data.hpp"
#include "verify/gemm/reference.hpp"
#include "verify/guarded_buffer.hpp"

namespace tilesmith::testing {

/// Any sizes and orders, and an epilogue that the CPU carries.
[[nodiscard]] GemmProblem random_gemm_problem(std::uint64_t seed);

/// Any valid problem whose B is not packed: every type, order and list of operations.
[[nodiscard]] GemmProblem any_gemm_problem(std::uint64_t seed);

/// Two products in one sum, either of them empty at times.
[[nodiscard]] GemmProblem random_second_problem(std::uint64_t seed);

/// Groups, scales of 8-bit floats, integer weights, or two of them; `device`: of what CUDA kernels carry.
[[nodiscard]] GemmProblem random_expert_problem(std::uint64_t seed, bool device = false);

/// The problem with random data and leading dimensions longer than rows.
class RandomGemm {
 public:
  /// Rows and batch strides are multiples of `stride_step` elements.
  RandomGemm(const GemmProblem& problem, std::uint64_t seed, std::int64_t stride_step = 1);
  RandomGemm(const RandomGemm&) = delete;
  RandomGemm& operator=(const RandomGemm&) = delete;

  /// From now on with numbers in memory that scale A and, of every second seed, B, where the problem takes such.
  void add_numbers();

  [[nodiscard]] const GemmTensors& tensors() const { return tensors_; }

  /// Empty when the plan's result is right and nothing else was touched, no bit of an input either. On a device, of
  /// copies of everything.
  [[nodiscard]] std::string judge(const GemmPlan& plan, const GemmReference& reference);

  // The same in steps, for calls of several products: arguments with a fresh D, and, once they have run, the verdict.
  [[nodiscard]] GemmArguments host_arguments();
  /// Of copies of everything.
  [[nodiscard]] Result<GemmArguments> device_arguments(const CudaContext& context, cu::Stream stream);
  /// Waits for the stream, brings the result back and compares the copies of the inputs with what they were.
  [[nodiscard]] Status fetch(const CudaContext& context, cu::Stream stream);
  [[nodiscard]] std::string judge(const GemmReference& reference);

 private:
  [[nodiscard]] bool column_d() const { return p_.order_d == MatrixOrder::column; }
  [[nodiscard]] std::int64_t longer(std::int64_t length, std::int64_t by) const;
  [[nodiscard]] TensorView matrix(DataType type, bool column, std::int64_t batch, std::int64_t rows,
                                  std::int64_t columns, float deviation, std::optional<Side> side = {});
  void add_scales(float deviation);
  void add_groups();
  void keep_inputs();
  void compare(std::size_t input, const void* now);
  [[nodiscard]] TensorView make(DataType type, const TensorExtents& extents, const TensorStrides& strides,
                                float deviation, std::optional<Side> side = {}, bool k_along = false);

  GemmProblem p_;
  GemmTensors tensors_;
  GemmArguments arguments_;
  float amax_ = 0;
  std::vector<std::int32_t> ends_;
  std::uint64_t seed_;
  std::int64_t stride_step_;
  std::vector<GuardedBuffer> inputs_;
  std::vector<std::vector<std::byte>> kept_;  ///< the inputs as they were
  std::optional<GuardedBuffer> d_;
  std::string changed_;             ///< by the last run
  std::vector<CudaBuffer> copies_;  ///< of the inputs, group ends, d, amax
};

}  // namespace tilesmith::testing
