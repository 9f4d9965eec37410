// Matrices of more than 2^31 elements on a CUDA device, as A, as B and as D.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/element_type.hpp"
#include "dispatch/gemm/cuda_plans.hpp"
#include "dispatch/gemm/random_gemm.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

using testing::bf16;
using testing::CudaGemmPlans;
using testing::words;

/// A matrix that is too large to be made on the host: zeros, but for some rows.
struct LargeMatrix {
  static constexpr std::int64_t kRows = 70000, kColumns = 40000;                 // 2.8e9 elements
  static constexpr std::int64_t kMarked[] = {0, 1, 53687, 53688, 69998, 69999};  // about 2^31, and the last

  static float value(std::int64_t row, std::int64_t column) {
    return static_cast<float>((row * 7 + column * 3) % 5 - 2);
  }
};

std::vector<std::byte> as_bf16(const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * 2);
  store_elements(ElementType::bf16, values, bytes.data());
  return bytes;
}

// D = L x S or S x L^T with a large L and a small S of whole numbers; then a large D.
TEST_F(CudaGemmPlans, MatricesHaveMoreThanTwoToThe31Elements) {
  using L = LargeMatrix;
  constexpr std::int64_t kSmall = 16;
  constexpr std::size_t kLargeBytes = 2 * static_cast<std::size_t>(L::kRows * L::kColumns);
  const auto large = CudaBuffer::allocate(*context, kLargeBytes);
  if (!large) GTEST_SKIP() << large.error().text();
  const cu::Stream in = stream.handle();
  std::vector<float> small(static_cast<std::size_t>(kSmall * L::kColumns));
  for (std::size_t i = 0; i < small.size(); ++i) small[i] = i % 7 == 0 ? 1.0F : 0.0F;
  const std::vector<std::byte> small_bytes = as_bf16(small);
  const CudaBuffer small_copy = CudaBuffer::allocate(*context, small_bytes.size()).value();
  ASSERT_TRUE(copy_to_device(*context, small_copy.data(), small_bytes.data(), small_bytes.size(), in));
  ASSERT_TRUE(fill_bytes(*context, large->data(), 0, kLargeBytes, in));
  for (const std::int64_t row : L::kMarked) {
    std::vector<float> values(static_cast<std::size_t>(L::kColumns));
    for (std::int64_t c = 0; c < L::kColumns; ++c) values[static_cast<std::size_t>(c)] = L::value(row, c);
    const std::vector<std::byte> bytes = as_bf16(values);
    ASSERT_TRUE(copy_to_device(*context, static_cast<std::byte*>(large->data()) + 2 * row * L::kColumns, bytes.data(),
                               bytes.size(), in));
    ASSERT_TRUE(stream.synchronize());
  }
  const auto expected = [&](std::int64_t row, std::int64_t column) {
    double sum = 0;
    for (std::int64_t c = 0; c < L::kColumns; ++c)
      sum += L::value(row, c) * small[static_cast<std::size_t>(column * L::kColumns + c)];
    return static_cast<float>(sum);
  };
  // The large matrix as A, then as B.
  for (const bool as_a : {true, false}) {
    GemmProblem problem = as_a ? gemm_problem(DataType::bf16, L::kRows, kSmall, L::kColumns, DataType::fp32)
                               : gemm_problem(DataType::bf16, kSmall, L::kRows, L::kColumns, DataType::fp32);
    GemmArguments arguments = dense_arguments(problem);
    arguments.a.data = as_a ? large->data() : small_copy.data();
    arguments.b.data = as_a ? small_copy.data() : large->data();
    const CudaBuffer d = CudaBuffer::allocate(*context, 4 * L::kRows * kSmall).value();
    arguments.d = d.data();
    for (const KernelConfig& config : configs_for(problem, false)) {
      SCOPED_TRACE(native_name(config));
      const auto made = plan(problem, config);
      ASSERT_NE(made, nullptr);
      ASSERT_TRUE(fill_bytes(*context, d.data(), 0xff, d.bytes(), in));
      ASSERT_EQ(words(made->run(arguments, {.stream = in})), "");
      std::vector<float> got(static_cast<std::size_t>(L::kRows * kSmall));
      ASSERT_TRUE(copy_to_host(*context, got.data(), d.data(), d.bytes(), in));
      ASSERT_TRUE(stream.synchronize());
      const auto at = [&](std::int64_t row, std::int64_t column) {
        return got[static_cast<std::size_t>(as_a ? row * kSmall + column : column * L::kRows + row)];
      };
      for (const std::int64_t row : L::kMarked)
        for (std::int64_t column = 0; column < kSmall; ++column)
          ASSERT_EQ(at(row, column), expected(row, column)) << row << ", " << column;
      EXPECT_EQ(
          std::ranges::count_if(got, [](float v) { return v != 0; }),
          std::ranges::count_if(L::kMarked, [&](std::int64_t row) { return expected(row, 0) != 0; }) + [&] {
            std::ptrdiff_t others = 0;
            for (const std::int64_t row : L::kMarked)
              for (std::int64_t column = 1; column < kSmall; ++column) others += expected(row, column) != 0;
            return others;
          }());
    }
  }
  // D, of one step of k: the first and the last rows, and those about 2^31.
  const GemmProblem wide = bf16(L::kRows, L::kColumns, 64);
  const auto ones = [&](std::int64_t rows, auto value) {
    std::vector<float> values(static_cast<std::size_t>(rows * 64), 0.0F);
    for (std::int64_t r = 0; r < rows; ++r) values[static_cast<std::size_t>(r * 64)] = value(r);
    const std::vector<std::byte> bytes = as_bf16(values);
    CudaBuffer copy = CudaBuffer::allocate(*context, bytes.size()).value();
    EXPECT_TRUE(copy_to_device(*context, copy.data(), bytes.data(), bytes.size(), in));
    EXPECT_TRUE(stream.synchronize());
    return copy;
  };
  const auto a_value = [](std::int64_t r) { return static_cast<float>(r % 11 + 1); };
  const auto b_value = [](std::int64_t c) { return static_cast<float>(c % 13 + 1); };
  const CudaBuffer a = ones(wide.m, a_value), b = ones(wide.n, b_value);
  GemmArguments arguments = dense_arguments(wide);
  arguments.a.data = a.data();
  arguments.b.data = b.data();
  arguments.d = large->data();
  for (const KernelConfig& config : configs_for(wide, false)) {
    if (config.algorithm.split_k) continue;  // 22 GB of parts
    SCOPED_TRACE(native_name(config));
    const auto made = plan(wide, config);
    ASSERT_NE(made, nullptr);
    ASSERT_TRUE(fill_bytes(*context, large->data(), 0xff, kLargeBytes, in));
    ASSERT_EQ(words(made->run(arguments, {.stream = in})), "");
    std::vector<std::byte> row_bytes(2 * L::kColumns);
    for (const std::int64_t row : L::kMarked) {
      ASSERT_TRUE(copy_to_host(*context, row_bytes.data(),
                               static_cast<const std::byte*>(large->data()) + 2 * row * L::kColumns, row_bytes.size(),
                               in));
      ASSERT_TRUE(stream.synchronize());
      for (std::int64_t c = 0; c < L::kColumns; ++c)
        ASSERT_EQ(load_element(ElementType::bf16, row_bytes.data(), static_cast<std::size_t>(c)),
                  static_cast<double>(a_value(row) * b_value(c)))
            << row << ", " << c;
    }
  }
}

}  // namespace
}  // namespace tilesmith
