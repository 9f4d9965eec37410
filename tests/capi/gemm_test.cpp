#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "capi/failure.hpp"
#include "capi/gemm/call.hpp"
#include "dispatch/allocation_count.hpp"
#include "dispatch/test_store.hpp"
#include "runtime/aligned_buffer.hpp"
#include "tilesmith.h"

namespace tilesmith::capi {
namespace {

struct Buffers {
  std::vector<float> a, b, c, d, bias;
};

/// 5 x 9 from k of 7, fp32, with a bias. Whole numbers, so that the order of sums does not matter.
tilesmith_gemm sample(Buffers& buffers) {
  tilesmith_gemm call = TILESMITH_GEMM_INIT;
  call.type_a = call.type_b = call.type_c = call.type_d = call.type_bias = TILESMITH_FP32;
  call.m = 5;
  call.n = 9;
  call.k = 7;
  call.epilogue[0].op = TILESMITH_EPILOGUE_BIAS;
  EXPECT_EQ(tilesmith_gemm_dense(&call), TILESMITH_SUCCESS);
  const auto fill = [](std::vector<float>& out, std::size_t size, int seed) {
    out.resize(size);
    for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<float>(static_cast<int>(i * 7 + seed) % 11 - 5);
  };
  fill(buffers.a, 5 * 7, 1);
  fill(buffers.b, 9 * 7, 2);
  fill(buffers.c, 5 * 9, 3);
  fill(buffers.bias, 9, 4);
  buffers.d.assign(5 * 9, NAN);
  call.a.data = buffers.a.data();
  call.b.data = buffers.b.data();
  call.c.data = buffers.c.data();
  call.d = buffers.d.data();
  call.epilogue[0].data = buffers.bias.data();
  return call;
}

/// alpha A B + beta C + bias, B along k.
double expected(const Buffers& x, std::size_t i, std::size_t j, double alpha = 1, double beta = 0) {
  double sum = 0;
  for (std::size_t k = 0; k < 7; ++k) sum += double{x.a[i * 7 + k]} * double{x.b[j * 7 + k]};
  return alpha * sum + beta * double{x.c[i * 9 + j]} + double{x.bias[j]};
}

std::string failure_of(const tilesmith_gemm& call) {
  return message_of(tilesmith_gemm_compute(nullptr, &call));
}

template <class Change>
std::string failure_with(Change change) {
  Buffers buffers;
  tilesmith_gemm call = sample(buffers);
  change(call);
  return failure_of(call);
}

TEST(GemmCall, ProductsAndNumbers) {
  Buffers x;
  tilesmith_gemm call = sample(x);
  for (const auto& [alpha, beta] : {std::pair{1.0f, 0.0f}, {2.0f, -3.0f}, {0.0f, 1.0f}}) {
    call.alpha = alpha;
    call.beta = beta;
    ASSERT_EQ(failure_of(call), "");
    for (std::size_t i = 0; i < 5; ++i)
      for (std::size_t j = 0; j < 9; ++j) ASSERT_EQ(x.d[i * 9 + j], expected(x, i, j, alpha, beta)) << i << ' ' << j;
  }
  tilesmith_plan_info plan = TILESMITH_PLAN_INFO_INIT;
  ASSERT_EQ(tilesmith_last_plan(&plan), TILESMITH_SUCCESS);
  EXPECT_STREQ(plan.operation, "gemm");
}

TEST(GemmCall, PackedOnceForEveryNumberOfRows) {
  Buffers x;
  tilesmith_gemm call = sample(x);
  std::uint64_t bytes = 0;
  ASSERT_EQ(message_of(tilesmith_gemm_packed_bytes(nullptr, &call, &bytes)), "");
  AlignedBuffer packed(bytes);
  EXPECT_EQ(message_of(tilesmith_gemm_pack_b(nullptr, &call, packed.data(), bytes - 1)),
            "packed_bytes is " + std::to_string(bytes - 1));
  ASSERT_EQ(message_of(tilesmith_gemm_pack_b(nullptr, &call, packed.data(), bytes)), "");
  call.flags = TILESMITH_PACKED_B;
  call.b = {packed.data(), static_cast<std::int64_t>(bytes), 0};
  for (const std::int64_t m : {5, 1, 3}) {
    call.m = m;
    x.d.assign(5 * 9, NAN);
    ASSERT_EQ(failure_of(call), "");
    for (std::size_t i = 0; i < 5; ++i)
      for (std::size_t j = 0; j < 9; ++j) {
        const auto got = double{x.d[i * 9 + j]};
        if (static_cast<std::int64_t>(i) < m)
          ASSERT_EQ(got, expected(x, i, j)) << i << ' ' << j;
        else
          ASSERT_TRUE(std::isnan(got));
      }
  }
  EXPECT_EQ(message_of(tilesmith_gemm_packed_bytes(nullptr, &call, &bytes)), "flags has TILESMITH_PACKED_B");
  call.b.leading -= 1;
  EXPECT_NE(failure_of(call), "");
  call.flags = 0;
  EXPECT_EQ(message_of(tilesmith_gemm_packed_bytes(nullptr, &call, nullptr)), "out is null");
  call.k2 = 4;
  EXPECT_NE(message_of(tilesmith_gemm_packed_bytes(nullptr, &call, &bytes)), "");
}

TEST(GemmCall, OrdersBatchesAndStrides) {
  Buffers x;
  tilesmith_gemm call = sample(x);
  // The same numbers read as a column-major A (7 x 5 transposed) of one row per batch member: rows of D one by one.
  call.order_a = TILESMITH_COLUMN;
  call.batch = 5;
  call.m = 1;
  call.a.leading = 1;
  call.a.batch = 7;
  call.b.batch = 0;
  call.d_leading = call.d_batch = 9;
  ASSERT_EQ(failure_of(call), "");
  for (std::size_t i = 0; i < 5; ++i)
    for (std::size_t j = 0; j < 9; ++j) ASSERT_EQ(x.d[i * 9 + j], expected(x, i, j));
}

TEST(GemmCall, ABatchOfOneHasNoStrides) {
  Buffers x;
  tilesmith_gemm call = sample(x);
  call.beta = 2;
  call.a.batch = call.b.batch = call.c.batch = call.d_batch = -7;
  ASSERT_EQ(failure_of(call), "");
  for (std::size_t i = 0; i < 5; ++i)
    for (std::size_t j = 0; j < 9; ++j) ASSERT_EQ(x.d[i * 9 + j], expected(x, i, j, 1, 2));
  call.batch = 2;
  EXPECT_EQ(failure_of(call), "d has the stride -7");
}

TEST(GemmCall, AColumnMajorResultIsTheTransposedOne) {
  Buffers x;
  tilesmith_gemm call = sample(x);
  call.flags = TILESMITH_COLUMN_D;
  ASSERT_EQ(tilesmith_gemm_dense(&call), TILESMITH_SUCCESS);
  EXPECT_EQ(call.d_leading, call.m);
  ASSERT_EQ(failure_of(call), "");
  for (std::size_t i = 0; i < 5; ++i)
    for (std::size_t j = 0; j < 9; ++j) ASSERT_EQ(x.d[j * 5 + i], expected(x, i, j));
  call.d_leading = 4;
  EXPECT_EQ(failure_of(call), "d: the leading dimension is 4");
  call.d_leading = 5;
  call.epilogue[0].op = TILESMITH_EPILOGUE_SWIGLU;
  call.epilogue[0].data = nullptr;
  EXPECT_EQ(failure_of(call), "a column-major D beside a gate, which joins pairs of columns");
}

TEST(GemmCall, AGateHalvesTheColumns) {
  Buffers x;
  tilesmith_gemm call = sample(x);
  float amax = 0;
  call.n = 8;
  call.epilogue[0] = {};
  call.epilogue[0].op = TILESMITH_EPILOGUE_REGLU;
  call.epilogue[1].op = TILESMITH_EPILOGUE_AMAX;
  ASSERT_EQ(tilesmith_gemm_dense(&call), TILESMITH_SUCCESS);
  EXPECT_EQ(call.d_leading, 4);
  call.amax = &amax;
  ASSERT_EQ(failure_of(call), "");
  std::ranges::fill(x.bias, 0.0f);
  double most = 0;
  for (std::size_t i = 0; i < 5; ++i)
    for (std::size_t j = 0; j < 4; ++j) {
      const double gated = std::max(expected(x, i, 2 * j), 0.0) * expected(x, i, 2 * j + 1);
      ASSERT_EQ(x.d[i * 4 + j], gated);
      most = std::max(most, std::abs(gated));
    }
  EXPECT_EQ(amax, most);
}

TEST(GemmCall, Groups) {
  // Rows 0 to 1 times the first B (columns 0 to 2 of the sample's), no row times the next, rows 2 to 3 times the last.
  Buffers x;
  tilesmith_gemm call = sample(x);
  const std::int32_t ends[] = {2, 2, 4};
  call.grouping = TILESMITH_GROUPS_CONTIGUOUS;
  call.group_ends = ends;
  call.batch = 3;
  call.n = 3;
  ASSERT_EQ(tilesmith_gemm_dense(&call), TILESMITH_SUCCESS);
  EXPECT_EQ(call.b.batch, 21);
  EXPECT_EQ(call.epilogue[0].batch, 3);
  ASSERT_EQ(failure_of(call), "");
  for (std::size_t i = 0; i < 5; ++i)
    for (std::size_t j = 0; j < 3; ++j) {
      if (i == 4)
        ASSERT_TRUE(std::isnan(x.d[i * 3 + j]));  // of no group
      else
        ASSERT_EQ(x.d[i * 3 + j], expected(x, i, j + (i < 2 ? 0 : 6))) << i << ' ' << j;
    }

  // The same as five groups with room for one row each, of which the second has none.
  const std::int32_t rows[] = {1, 0, 1, 1, 1};
  call.grouping = TILESMITH_GROUPS_MASKED;
  call.group_ends = rows;
  call.batch = 5;
  call.m = 1;
  ASSERT_EQ(tilesmith_gemm_dense(&call), TILESMITH_SUCCESS);
  EXPECT_EQ(call.a.batch, 7);
  call.b.batch = call.epilogue[0].batch = 0;
  x.d.assign(x.d.size(), NAN);
  ASSERT_EQ(failure_of(call), "");
  for (std::size_t i = 0; i < 5; ++i)
    for (std::size_t j = 0; j < 3; ++j) {
      if (i == 1)
        ASSERT_TRUE(std::isnan(x.d[i * 3 + j]));
      else
        ASSERT_EQ(x.d[i * 3 + j], expected(x, i, j)) << i << ' ' << j;
    }

  const std::int32_t wrong[] = {1, 0, 1, 1, 2};
  call.group_ends = wrong;
  EXPECT_EQ(failure_of(call), "group 4 of 5 ends at row 2");
}

TEST(GemmCall, IntegersAndNothingToDo) {
  std::vector<std::int8_t> a(3 * 5, 3), b(4 * 5, -2);
  std::vector<std::int32_t> d(12, 77);
  tilesmith_gemm call = TILESMITH_GEMM_INIT;
  call.type_a = call.type_b = TILESMITH_INT8;
  call.type_c = call.type_d = TILESMITH_INT32;
  call.m = 3;
  call.n = 4;
  call.k = 5;
  ASSERT_EQ(tilesmith_gemm_dense(&call), TILESMITH_SUCCESS);
  call.a.data = a.data();
  call.b.data = b.data();
  call.d = d.data();
  ASSERT_EQ(failure_of(call), "");
  for (const std::int32_t value : d) ASSERT_EQ(value, -30);
  call.m = 0;
  call.d = nullptr;
  ASSERT_EQ(failure_of(call), "");
  call.m = 3;
  call.k = 0;
  call.d = d.data();
  call.a.data = call.b.data = nullptr;
  ASSERT_EQ(failure_of(call), "");
  for (const std::int32_t value : d) ASSERT_EQ(value, 0);
}

TEST(GemmCall, APlannedCallAllocatesNothing) {
  Buffers x;
  const tilesmith_gemm call = sample(x);
  ASSERT_EQ(failure_of(call), "");
  const std::size_t before = testing::allocations();
  for (int i = 0; i < 100; ++i) ASSERT_EQ(tilesmith_gemm_compute(nullptr, &call), TILESMITH_SUCCESS);
  EXPECT_EQ(testing::allocations(), before);
}

TEST(GemmCall, ManyThreadsAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([t] {
      Buffers x;
      tilesmith_gemm call = sample(x);
      call.m = 5 - t % 4;  // a few problems, planned by racing threads
      for (int i = 0; i < 50; ++i) ASSERT_EQ(failure_of(call), "");
      ASSERT_EQ(x.d[4], expected(x, 0, 4));
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(GemmCall, NumbersThatAreNoValue) {
  EXPECT_EQ(failure_with([](auto& c) { c.type_a = 99; }), "type_a is 99");
  EXPECT_EQ(failure_with([](auto& c) { c.type_b = -1; }), "type_b is -1");
  EXPECT_EQ(failure_with([](auto& c) { c.type_c = TILESMITH_FP8BF16; }), "type_c is 11");
  EXPECT_EQ(failure_with([](auto& c) { c.type_d = 13; }), "type_d is 13");
  EXPECT_EQ(failure_with([](auto& c) { c.type_bias = 9; }), "type_bias is 9");
  EXPECT_EQ(failure_with([](auto& c) { c.type_bias = TILESMITH_INT32; }), "the bias is int32");
  EXPECT_EQ(failure_with([](auto& c) { c.order_a = 2; }), "order_a is 2");
  EXPECT_EQ(failure_with([](auto& c) { c.order_b = -1; }), "order_b is -1");
  EXPECT_EQ(failure_with([](auto& c) { c.type_scale = 40; }), "type_scale is 40");
  EXPECT_EQ(failure_with([](auto& c) { c.grouping = 3; }), "grouping is 3");
  EXPECT_EQ(failure_with([](auto& c) { c.flags = 16; }), "flags is 0x10");
  EXPECT_EQ(failure_with([](auto& c) { c.flags = TILESMITH_CONSTANT_B; }), "");
  EXPECT_EQ(failure_with([](auto& c) { c.flags = TILESMITH_ZERO_POINTS; }), "zero points with fp32 and fp32 matrices");
  EXPECT_EQ(failure_with([](auto& c) { c.device = {TILESMITH_CPU, 1}; }), "the device's index is 1 with the kind 1");
  EXPECT_EQ(failure_with([](auto& c) { c.epilogue[1].op = 77; }), "epilogue[1].op is 77");
  EXPECT_EQ(failure_with([](auto& c) { c.epilogue[7].op = -1; }), "epilogue[7].op is -1");
  EXPECT_EQ(failure_with([](auto& c) { c.epilogue[0].reserved = 4; }), "epilogue[0].reserved is 4");
  EXPECT_EQ(failure_with([](auto& c) { c.epilogue[2].op = TILESMITH_EPILOGUE_RELU; }),
            "epilogue[2].op follows one that is none");
  EXPECT_EQ(failure_with([](auto& c) { c.k = -2; }), "k is -2");
  EXPECT_EQ(failure_with([](auto& c) { c.alpha = NAN; }), "alpha is nan");
  EXPECT_EQ(failure_with([](auto& c) { c.a.leading = 6; }), "a: the leading dimension is 6");
}

TEST(GemmCall, NothingGivenIsIgnored) {
  static float number = 0;
  const auto unasked = [](const char* field) {
    return std::string(field) + " is given, and the problem does not ask for it";
  };
  EXPECT_EQ(failure_with([](auto& c) { c.amax = &number; }), unasked("amax"));
  EXPECT_EQ(failure_with([](auto& c) { c.epilogue[3].data = &number; }), unasked("epilogue[3].data"));
  EXPECT_EQ(failure_with([](auto& c) { c.epilogue[0].leading = 9; }), unasked("epilogue[0].leading"));
  EXPECT_EQ(failure_with([](auto& c) { c.epilogue[0].batch = 9; }), unasked("epilogue[0].batch"));
  EXPECT_EQ(failure_with([](auto& c) { c.epilogue[0].low = -1; }), unasked("epilogue[0].low"));
  EXPECT_EQ(failure_with([](auto& c) { c.epilogue[1].high = 1; }), unasked("epilogue[1].high"));
  static constexpr std::int32_t kEnd = 0;
  EXPECT_EQ(failure_with([](auto& c) { c.group_ends = &kEnd; }), unasked("group_ends"));
  EXPECT_EQ(failure_with([](auto& c) { c.scale_a.data = &number; }), "");
  EXPECT_EQ(failure_with([](auto& c) { c.scale_a.batch = 1; }), unasked("scale_a.row, block or batch"));
  EXPECT_EQ(failure_with([](auto& c) { c.scale_b.block = 1; }), unasked("scale_b.row, block or batch"));
  EXPECT_EQ(failure_with([](auto& c) { c.zero_b.batch = 1; }), unasked("zero_b"));
  EXPECT_EQ(failure_with([](auto& c) { c.type_scale = TILESMITH_BF16; }), unasked("type_scale"));
  const auto weights = [](auto& c) { c.type_a = TILESMITH_BF16, c.type_b = TILESMITH_INT8, c.group_size = 32; };
  EXPECT_EQ(failure_with([&](auto& c) { weights(c), c.scale_a.data = &number; }), unasked("scale_a"));
}

TEST(GemmCall, EveryMissingPointerIsNamed) {
  EXPECT_EQ(failure_with([](auto& c) { c.a.data = nullptr; }), "a is null");
  EXPECT_EQ(failure_with([](auto& c) { c.b.data = nullptr; }), "b is null");
  EXPECT_EQ(failure_with([](auto& c) { c.d = nullptr; }), "d is null");
  EXPECT_EQ(failure_with([](auto& c) { c.beta = 1, c.c.data = nullptr; }), "c is null");
  EXPECT_EQ(failure_with([](auto& c) { c.epilogue[0].data = nullptr; }), "epilogue[0], bias is null");
  EXPECT_EQ(failure_with([](auto& c) { c.epilogue[1].op = TILESMITH_EPILOGUE_AMAX; }), "amax is null");
  EXPECT_EQ(failure_with([](auto& c) { c.grouping = TILESMITH_GROUPS_CONTIGUOUS; }), "group_ends is null");
  EXPECT_EQ(failure_with([](auto& c) { c.k2 = 3; }), "a2 is null");
  EXPECT_EQ(failure_with([](auto& c) { c.b2.data = &c; }), "b2 is given, and the problem does not ask for it");
}

TEST(GemmCall, EveryFieldArrives) {
  Buffers x;
  tilesmith_gemm call = sample(x);
  float amax = 0;
  call.alpha = 2;
  call.beta = 3;
  call.a = {x.a.data(), 11, 12};
  call.b = {x.b.data(), 13, 14};
  call.c = {x.c.data(), 15, 16};
  call.d_leading = 17;
  call.d_batch = 18;
  call.epilogue[1] = {TILESMITH_EPILOGUE_ADD, 0, x.c.data(), 19, 20, 0, 0};
  call.epilogue[2] = {TILESMITH_EPILOGUE_CLAMP, 0, nullptr, 0, 0, -1, 2};
  call.epilogue[3].op = TILESMITH_EPILOGUE_AMAX;
  call.amax = &amax;
  call.type_c = TILESMITH_BF16;
  call.order_a = TILESMITH_COLUMN;
  const std::int32_t ends[] = {1};
  call.grouping = TILESMITH_GROUPS_MASKED;
  call.group_ends = ends;
  call.group_size = 128;
  call.type_scale = TILESMITH_BF16;
  call.scale_a = {&amax, 21, 22, 23};
  call.scale_b = {ends, 24, 25, 26};
  call.flags = TILESMITH_ZERO_POINTS;
  call.zero_b = {&amax, 28, 29, 30};
  call.epilogue[0].batch = 27;
  call.k2 = 28;
  call.a2 = {x.a.data() + 1, 29, 30};
  call.b2 = {x.b.data() + 1, 31, 32};
  const Result<GemmProblem> problem = problem_of(call, Device{});
  ASSERT_TRUE(problem) << problem.error().text();
  EXPECT_EQ(problem->grouping, GemmGrouping::masked);
  EXPECT_EQ(problem->group_size, 128);
  EXPECT_EQ(problem->k2, 28);
  EXPECT_EQ(problem->type_scale, DataType::bf16);
  EXPECT_TRUE(problem->zero_points);
  EXPECT_EQ(problem->epilogue, (GemmEpilogue{EpilogueOp::bias, EpilogueOp::add, EpilogueOp::clamp, EpilogueOp::amax}));
  EXPECT_TRUE(problem->beta);
  EXPECT_EQ(problem->type_c, DataType::bf16);
  EXPECT_EQ(problem->order_a, MatrixOrder::column);
  EXPECT_EQ(problem->order_b, MatrixOrder::column);
  const GemmArguments arguments = arguments_of(call);
  const auto expect = [](const GemmOperand& operand, const tilesmith_matrix& matrix) {
    EXPECT_EQ(operand.data, matrix.data);
    EXPECT_EQ(operand.leading, matrix.leading);
    EXPECT_EQ(operand.batch, matrix.batch);
  };
  expect(arguments.a, call.a);
  expect(arguments.b, call.b);
  expect(arguments.c, call.c);
  expect(arguments.a2, call.a2);
  expect(arguments.b2, call.b2);
  const auto expect_scales = [](const GemmScales& scales, const tilesmith_block_scale& scale) {
    EXPECT_EQ(scales.data, scale.data);
    EXPECT_EQ(scales.row, scale.row);
    EXPECT_EQ(scales.block, scale.block);
    EXPECT_EQ(scales.batch, scale.batch);
  };
  expect_scales(arguments.scale_a, call.scale_a);
  expect_scales(arguments.scale_b, call.scale_b);
  expect_scales(arguments.zero_b, call.zero_b);
  EXPECT_EQ(arguments.group_ends, ends);
  EXPECT_EQ(arguments.epilogue[0].batch, 27);
  EXPECT_EQ(arguments.d_leading, 17);
  EXPECT_EQ(arguments.d_batch, 18);
  EXPECT_EQ(arguments.alpha, 2);
  EXPECT_EQ(arguments.beta, 3);
  EXPECT_EQ(arguments.amax, &amax);
  EXPECT_EQ(arguments.epilogue[0].data, x.bias.data());
  EXPECT_EQ(arguments.epilogue[1].leading, 19);
  EXPECT_EQ(arguments.epilogue[1].batch, 20);
  EXPECT_EQ(arguments.epilogue[2].low, -1);
  EXPECT_EQ(arguments.epilogue[2].high, 2);
}

TEST(GemmCall, AlignmentMattersToCudaAlone) {
  alignas(16) static std::byte memory[32];
  tilesmith_gemm call = TILESMITH_GEMM_INIT;
  call.m = call.n = call.k = 16;
  call.epilogue[0].op = TILESMITH_EPILOGUE_ADD;
  ASSERT_EQ(tilesmith_gemm_dense(&call), TILESMITH_SUCCESS);
  const Device cuda{DeviceKind::cuda, 0};
  const auto unaligned_with = [&](auto change) {
    tilesmith_gemm changed = call;
    change(changed);
    EXPECT_FALSE(problem_of(changed, Device{})->unaligned);
    return problem_of(changed, cuda)->unaligned;
  };
  EXPECT_FALSE(unaligned_with([](auto&) {}));
  EXPECT_FALSE(unaligned_with([](auto& c) { c.a.data = memory + 16; }));
  EXPECT_TRUE(unaligned_with([](auto& c) { c.a.data = memory + 2; }));
  EXPECT_TRUE(unaligned_with([](auto& c) { c.b.leading = 17; }));
  EXPECT_TRUE(unaligned_with([](auto& c) { c.d = memory + 8; }));
  EXPECT_TRUE(unaligned_with([](auto& c) { c.d_leading = 20; }));
  EXPECT_TRUE(unaligned_with([](auto& c) { c.epilogue[0].data = memory + 8; }));
  EXPECT_TRUE(unaligned_with([](auto& c) { c.epilogue[0].leading = 18; }));
  EXPECT_FALSE(unaligned_with([](auto& c) { c.c.leading = 17; }));  // not read
  EXPECT_FALSE(unaligned_with([](auto& c) { c.k2 = 16, c.a2.leading = c.b2.leading = 16; }));
  EXPECT_TRUE(unaligned_with([](auto& c) { c.k2 = 16, c.a2.leading = 17, c.b2.leading = 16; }));
  EXPECT_TRUE(unaligned_with([](auto& c) { c.k2 = 16, c.a2.leading = c.b2.leading = 16, c.b2.data = memory + 2; }));
  EXPECT_TRUE(unaligned_with([](auto& c) { c.c.leading = 17, c.beta = 1; }));
  EXPECT_FALSE(unaligned_with([](auto& c) { c.a.batch = 3; }));  // of one member
  EXPECT_TRUE(unaligned_with([](auto& c) { c.a.batch = 3, c.batch = 2; }));
  const auto contiguous = [](auto& c) { c.grouping = TILESMITH_GROUPS_CONTIGUOUS, c.batch = 2; };
  EXPECT_FALSE(unaligned_with([&](auto& c) { contiguous(c), c.a.batch = 3; }));  // one A for all groups
  EXPECT_TRUE(unaligned_with([&](auto& c) { contiguous(c), c.b.batch = 3; }));
  const auto vectors = [&](auto& c) {
    contiguous(c), c.epilogue[0] = {TILESMITH_EPILOGUE_BIAS, 0, nullptr, 0, 16, 0, 0};
  };
  EXPECT_FALSE(unaligned_with([&](auto& c) { vectors(c); }));
  EXPECT_TRUE(unaligned_with([&](auto& c) { vectors(c), c.epilogue[0].batch = 17; }));  // from group to group
  EXPECT_FALSE(unaligned_with([&](auto& c) { vectors(c), c.epilogue[0].batch = 17, c.batch = 1; }));
  const auto weights = [](auto& c) { c.type_b = TILESMITH_INT4, c.group_size = 32; };
  EXPECT_TRUE(unaligned_with([&](auto& c) { weights(c); }));  // rows of 8 bytes
  EXPECT_FALSE(unaligned_with([&](auto& c) { weights(c), c.b.leading = 32; }));
}

// Kernels access D and what lies beside it by as many elements as n is a multiple of.
TEST(GemmCall, DIsAlignedAsItsColumnsAllow) {
  alignas(16) static std::byte memory[64];
  const auto unaligned_with = [&](std::int64_t n, auto change) {
    tilesmith_gemm call = TILESMITH_GEMM_INIT;
    call.m = call.k = 16;
    call.n = n;
    call.epilogue[0].op = TILESMITH_EPILOGUE_BIAS;
    call.epilogue[1].op = TILESMITH_EPILOGUE_ADD;
    EXPECT_EQ(tilesmith_gemm_dense(&call), TILESMITH_SUCCESS);
    change(call);
    return problem_of(call, {DeviceKind::cuda, 0})->unaligned;
  };
  const auto nothing = [](auto&) {};
  for (const std::int64_t n : {1, 2, 3, 4, 5, 6, 17, 18, 20, 24, 31, 4001, 4002, 4004}) {
    EXPECT_FALSE(unaligned_with(n, nothing)) << n;
    EXPECT_FALSE(unaligned_with(n, [](auto& c) { c.beta = 1; })) << n;
  }
  EXPECT_FALSE(unaligned_with(17, [](auto& c) { c.d = memory + 2, c.epilogue[0].data = memory + 6; }));
  EXPECT_FALSE(unaligned_with(18, [](auto& c) { c.d = memory + 4, c.epilogue[1].data = memory + 12; }));
  EXPECT_FALSE(unaligned_with(20, [](auto& c) { c.d = memory + 8; }));
  EXPECT_TRUE(unaligned_with(18, [](auto& c) { c.d = memory + 2; }));
  EXPECT_TRUE(unaligned_with(18, [](auto& c) { c.epilogue[0].data = memory + 2; }));
  EXPECT_TRUE(unaligned_with(18, [](auto& c) { c.epilogue[1].data = memory + 2; }));
  EXPECT_TRUE(unaligned_with(18, [](auto& c) { c.d_leading = 19; }));
  EXPECT_TRUE(unaligned_with(20, [](auto& c) { c.d = memory + 4; }));
  EXPECT_TRUE(unaligned_with(18, [](auto& c) { c.type_bias = TILESMITH_FP32, c.epilogue[0].data = memory + 4; }));
  EXPECT_TRUE(unaligned_with(24, [](auto& c) { c.d_leading = 26; }));
  // Whole rows of D bring tensors of any type whole.
  EXPECT_TRUE(unaligned_with(24, [](auto& c) { c.type_c = TILESMITH_FP8; }));
  EXPECT_FALSE(unaligned_with(32, [](auto& c) { c.type_c = TILESMITH_FP8; }));
  // A column-major D has rows of m.
  const auto turned = [](auto& c) { c.flags = TILESMITH_COLUMN_D, c.epilogue[1].leading = c.d_leading = c.m; };
  EXPECT_FALSE(unaligned_with(17, turned));
  EXPECT_TRUE(unaligned_with(17, [&](auto& c) { turned(c), c.d = memory + 2; }));
  // A and B are whole in any case.
  EXPECT_TRUE(unaligned_with(17, [](auto& c) { c.a.data = memory + 2; }));
  EXPECT_TRUE(unaligned_with(17, [](auto& c) { c.order_b = TILESMITH_ROW, c.b.leading = 17; }));
}

TEST(GemmCall, ADenseCallNeedsAProblem) {
  tilesmith_gemm call = TILESMITH_GEMM_INIT;
  call.n = -1;
  EXPECT_EQ(tilesmith_gemm_dense(&call), TILESMITH_INVALID_ARGUMENT);
  call.n = 3;
  call.epilogue[0].op = TILESMITH_EPILOGUE_SWIGLU;
  EXPECT_EQ(tilesmith_gemm_dense(&call), TILESMITH_INVALID_ARGUMENT);
  EXPECT_EQ(tilesmith_gemm_dense(nullptr), TILESMITH_INVALID_ARGUMENT);
  call = TILESMITH_GEMM_INIT;
  call.k = 70;
  call.flags = TILESMITH_PACKED_B;
  ASSERT_EQ(tilesmith_gemm_dense(&call), TILESMITH_SUCCESS);
  EXPECT_EQ(call.b.leading, 0) << "how many bytes were packed is not known here";
}

}  // namespace
}  // namespace tilesmith::capi
