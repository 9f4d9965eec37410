// A GEMM for a kernel for AMD GPUs: tensors with awkward strides and alignment, the kernel's arguments, and the check
// of every element against sums in float64. How the kernel is run is the test's affair.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/hip/gemm/abi.h"
#include "vocabulary/config.hpp"

namespace tilesmith::testing {

/// What an own kernel computes: orders of A and B by their letters ("rc").
[[nodiscard]] GemmSignature hip_gemm_signature(DataType type, DataType result, std::string_view layout = "rc",
                                               GemmEpilogue epilogue = {});

/// An element as kernels store it.
[[nodiscard]] double value_of(DataType type, std::uint32_t bits);

/// Memory whose last byte is followed by a page that nobody may touch, filled with NaN.
class EdgedMemory {
 public:
  EdgedMemory(std::size_t bytes, std::size_t alignment);
  EdgedMemory(const EdgedMemory&) = delete;
  EdgedMemory& operator=(const EdgedMemory&) = delete;
  ~EdgedMemory();
  [[nodiscard]] char* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_, mapped_ = 0;
  char* base_ = nullptr;
  char* data_ = nullptr;
};

/// A matrix or vector in edged memory: element (b, i, j) at b * batch + i * row + j * column.
struct EdgedTensor {
  DataType type;
  std::int64_t batch, row, column, bytes;  ///< strides in elements; bytes of an element
  EdgedMemory memory;

  EdgedTensor(DataType t, std::int64_t batches, std::int64_t rows, std::int64_t columns, bool row_major, int pad,
              bool aligned);
  [[nodiscard]] char* data() const { return memory.data(); }
  [[nodiscard]] std::uint32_t bits(std::int64_t b, std::int64_t i, std::int64_t j) const;
  [[nodiscard]] double at(std::int64_t b, std::int64_t i, std::int64_t j) const {
    return value_of(type, bits(b, i, j));
  }
  void fill(int batches, int rows, int columns, std::mt19937& random);
};

class HipGemmProblem {
 public:
  HipGemmProblem(const KernelConfig& config, int m, int n, int k, int batch, std::mt19937& random);

  [[nodiscard]] const TsHipGemmArgs& arguments() const { return args_; }
  [[nodiscard]] int blocks() const;
  /// What the kernel may read, and D.
  struct Buffer {
    std::string_view name;
    const void* data;
    std::size_t bytes;
    bool written;
  };
  [[nodiscard]] std::vector<Buffer> buffers() const;
  /// What is wrong in D; a few elements, and what was written beside it.
  [[nodiscard]] std::vector<std::string> faults() const;
  /// Reports these as failures of the test.
  void check() const;
  /// As if no kernel had run.
  void clear();

 private:
  [[nodiscard]] bool wants_amax() const;
  [[nodiscard]] double expected(int z, int i, int j, double& bound) const;

  GemmSignature signature_;
  int tile_m_, tile_n_, m_, n_, k_, batch_;
  float scale_ = 0.5f;
  float amax_ = 0;
  TsHipGemmArgs args_{};
  std::unique_ptr<EdgedTensor> a_, b_, d_;
  std::vector<double> a_values_, b_values_;             ///< along k
  std::vector<std::unique_ptr<EdgedTensor>> operands_;  ///< of the epilogue; null where an operation reads nothing
};

}  // namespace tilesmith::testing
