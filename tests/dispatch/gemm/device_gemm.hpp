// A GEMM whose matrices lie on a CUDA device, for tests that run one many times: of whole numbers, whose sums are exact
// in every order, or of normal ones.
#pragma once

#include <cstddef>
#include <vector>

#include "base/error.hpp"
#include "runtime/cuda/memory.hpp"
#include "tilesmith/dispatcher.hpp"
#include "tilesmith/gemm.hpp"
#include "verify/gemm/reference.hpp"

namespace tilesmith::testing {

enum class GemmValues { whole, normal, nan };

class DeviceGemm {
 public:
  /// Dense matrices; A, B, A2, B2 and D begin `offset` elements behind an aligned address. The context must be current.
  /// C is always of whole numbers.
  [[nodiscard]] static Result<DeviceGemm> create(const CudaContext& context, const GemmProblem& problem,
                                                 std::uint64_t seed, GemmValues values, std::int64_t offset = 0);

  /// Memory for one result, filled with NaN.
  [[nodiscard]] Result<CudaBuffer> make_d(cu::Stream stream) const;
  [[nodiscard]] Status queue(const GemmPlan& plan, const CudaBuffer& d, const RunOptions& options) const;
  /// Waits for the stream and brings the result back.
  [[nodiscard]] Result<std::vector<std::byte>> fetch(const CudaBuffer& d, cu::Stream stream) const;
  /// Empty when every bit is that of the exact sum, rounded.
  [[nodiscard]] std::string judge(const std::vector<std::byte>& d) const;

  float alpha = 1, beta = 0;

 private:
  struct Matrix {
    std::vector<std::byte> host;
    CudaBuffer device;
    TensorView view;
    GemmOperand operand;
  };

  DeviceGemm(const CudaContext& context, const GemmProblem& problem, std::int64_t offset)
      : context_(&context), problem_(problem), offset_(offset) {}

  [[nodiscard]] Status fill(Matrix& matrix, DataType type, MatrixOrder order, std::int64_t rows, std::int64_t columns,
                            std::uint64_t seed, GemmValues values);
  [[nodiscard]] std::size_t d_bytes() const;

  const CudaContext* context_;
  GemmProblem problem_;
  std::int64_t offset_;
  Matrix a_, b_, a2_, b2_, c_;
};

}  // namespace tilesmith::testing
