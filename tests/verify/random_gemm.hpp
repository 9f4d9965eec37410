// Random GEMM calls with their data, and kernels emulated on them: sums in fp32 by blocks of k and splits, one rounding
// at the end.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "verify/gemm/reference.hpp"

namespace tilesmith::testing {

struct GemmOptions {
  ElementType input = ElementType::fp32;
  ElementType output = ElementType::fp32;
  std::int64_t batch = 2, m = 37, n = 44, k = 96;
  bool column_a = false, column_b = true;
  float alpha = 1, beta = 0;
  std::vector<EpilogueOp> epilogue{};
  std::uint64_t seed = 0;
  bool small_integers = false;
};

/// Any sizes, orders, factors and epilogues.
[[nodiscard]] GemmOptions random_gemm_options(ElementType input, ElementType output, std::uint64_t seed);
[[nodiscard]] std::string describe(const GemmOptions& options);

class RandomGemm {
 public:
  explicit RandomGemm(const GemmOptions& options);
  RandomGemm(const RandomGemm&) = delete;
  RandomGemm& operator=(const RandomGemm&) = delete;

  GemmTensors tensors;

 private:
  TensorView make(ElementType type, const TensorStrides& strides, std::int64_t elements, std::uint64_t stream,
                  float scale);

  GemmOptions options_;
  std::vector<std::vector<std::byte>> memory_;
};

enum class GemmFault {
  none,
  last_step_dropped,     ///< the last 8 of k
  block_twice,           ///< one block of k added twice
  stale_split,           ///< the second split's sums are the first's
  low_precision_sum,     ///< sums rounded to the input's type after every block
  rounded_twice,         ///< to the input's type before the epilogue
  epilogue_skipped_row,  ///< one row without its epilogue
};

struct EmulatedGemm {
  std::vector<double> d;
  float amax = 0;
};
[[nodiscard]] EmulatedGemm emulate_gemm(const GemmTensors& tensors, ElementType output, GemmFault fault = {},
                                        std::int64_t block = 32, std::int64_t splits = 2);

}  // namespace tilesmith::testing
