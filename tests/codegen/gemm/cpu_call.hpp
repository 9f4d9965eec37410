// A random GEMM call in guarded memory, with its float64 result and how far a kernel may be from it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "codegen/cpu_kernel_harness.hpp"
#include "codegen/gemm/cpu.hpp"
#include "kernels/cpu/gemm/abi.h"

namespace tilesmith {

struct GemmSizes {
  long long m = 1, n = 1, k = 1, batch = 1;
  float alpha = 1, beta = 0;
  bool share_b = false;         ///< one B for the whole batch
  bool small_integers = false;  ///< values whose sums are exact in fp32
  long long splits = 1, threads = 1;
  double size = 1;           ///< of random values
  long long k2 = 0;          ///< with the parameters' `second`
  bool whole_lines = false;  ///< rows begin at multiples of 64 bytes
};

class CpuGemmCall {
 public:
  CpuGemmCall(const CpuGemmParameters& parameters, const GemmSizes& sizes, std::uint64_t seed = 1);

  /// The call; its output is unwritten.
  [[nodiscard]] const TsGemmArgs& args() const { return args_; }
  /// The same for a kernel of packed B.
  [[nodiscard]] TsGemmArgs args_of_packed(const void* packed) const;

  /// Empty when D (and amax) is right and nothing else was written; else what is wrong first.
  [[nodiscard]] std::string mismatch() const;

 private:
  struct Tensor {
    long long rows = 0, columns = 0, leading = 0, batch = 0;  ///< as stored
    ElementType type = ElementType::fp32;
    std::unique_ptr<GuardedBytes> bytes;
    [[nodiscard]] double at(long long b, long long row, long long column) const;
  };
  Tensor make(ElementType type, long long members, long long rows, long long columns, bool fill);
  /// k counts on from the first product's into the second's.
  [[nodiscard]] double value_a(long long b, long long i, long long k) const;
  [[nodiscard]] double value_b(long long b, long long k, long long j) const;
  [[nodiscard]] static TsMatrix matrix(const Tensor& tensor);

  CpuGemmParameters parameters_;
  GemmSizes sizes_;
  std::uint64_t seed_, stream_ = 0;
  Tensor a_, b_, a2_, b2_, c_, d_, bias_, row_scale_, column_scale_;
  std::vector<Tensor> extras_;
  std::unique_ptr<float> amax_ = std::make_unique<float>(0.0F);
  TsGemmArgs args_{};
};

}  // namespace tilesmith
