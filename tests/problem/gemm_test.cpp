#include "problem/gemm/problem.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <vector>

namespace tilesmith {
namespace {

constexpr std::int64_t kHuge = std::int64_t{1} << 40;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Refusal {
  const char* what;
  std::function<void(GemmProblem&)> change;
  const char* message;  ///< part of it, with the offending value
  const char* hint;
  ErrorCode code = ErrorCode::invalid_argument;
};

TEST(GemmProblem, TheDefaultIsValid) {
  EXPECT_TRUE(validate(GemmProblem{}));
}

TEST(GemmProblem, EveryInputHasUsualTypes) {
  for (const DataType type :
       {DataType::fp32, DataType::tf32, DataType::fp16, DataType::bf16, DataType::fp8, DataType::bf8, DataType::int8}) {
    const GemmProblem p = gemm_problem(type, 4, 6, 8);
    EXPECT_TRUE(validate(p)) << validate(p).error().text();
    EXPECT_EQ(p.order_a, MatrixOrder::row);
    EXPECT_EQ(p.order_b, MatrixOrder::column);
  }
  EXPECT_EQ(gemm_problem(DataType::int8, 1, 1, 1).type_d, DataType::int32);
  EXPECT_EQ(gemm_problem(DataType::fp8, 1, 1, 1).type_d, DataType::bf16);
  EXPECT_EQ(gemm_problem(DataType::tf32, 1, 1, 1).type_d, DataType::fp32);
  EXPECT_EQ(gemm_problem(DataType::int8, 1, 1, 1, DataType::bf16).type_bias, DataType::bf16);
  EXPECT_EQ(gemm_problem(DataType::int8, 1, 1, 1, DataType::int8).type_bias, DataType::fp32);
}

TEST(GemmProblem, EveryRefusalNamesTheValueAndWhatWouldBeRight) {
  const Refusal refusals[] = {
      {"type", [](auto& p) { p.type_a = p.type_b = DataType::int4; }, "int4", "int8", ErrorCode::unsupported},
      {"mixed", [](auto& p) { p.type_b = DataType::fp16; }, "A is bf16 and B is fp16", "a mix of fp8 and bf8",
       ErrorCode::unsupported},
      {"output", [](auto& p) { p.type_d = DataType::int8; }, "bf16 matrices give no int8", "fp32, fp16",
       ErrorCode::unsupported},
      {"integers of floats", [](auto& p) { p.type_d = p.type_c = DataType::int32; }, "no int32", "fp32",
       ErrorCode::unsupported},
      {"c of int32", [](auto& p) { p = gemm_problem(DataType::int8, 1, 1, 1), p.type_c = DataType::fp32; },
       "C is fp32 and D is int32", "exactly", ErrorCode::unsupported},
      {"bias", [](auto& p) { p.type_bias = DataType::fp8; }, "the bias is fp8", "bf16", ErrorCode::unsupported},
      {"m", [](auto& p) { p.m = -1; }, "m is -1", "0 to"},
      {"n", [](auto& p) { p.n = kHuge + 1; }, "n is 1099511627777", "0 to 1099511627776"},
      {"k", [](auto& p) { p.k = INT64_MIN; }, "k is -9223372036854775808", "0 to"},
      {"batch", [](auto& p) { p.batch = -2; }, "batch is -2", "0 to"},
      {"size", [](auto& p) { p.m = p.n = kHuge; }, "overflows", "2^62"},
      {"size without a batch", [](auto& p) { p.m = p.k = kHuge, p.batch = 0; }, "overflows", "2^62"},
      {"epilogue of int32", [](auto& p) { p = gemm_problem(DataType::int8, 1, 1, 1), p.epilogue = {EpilogueOp::relu}; },
       "begins with relu", "another type"},
      {"amax",
       [](auto& p) {
         p.epilogue = {EpilogueOp::amax, EpilogueOp::relu};
       },
       "amax is not the last", "at the end"},
      {"gates",
       [](auto& p) {
         p.n = 8, p.epilogue = {EpilogueOp::glu, EpilogueOp::swiglu};
       },
       "2 gates", "one gate"},
      {"scales of plain floats", [](auto& p) { p.group_size = 128; }, "group_size is 128 with bf16", "8-bit floats"},
      {"scales of blocks", [](auto& p) { p = gemm_problem(DataType::fp8, 8, 8, 256), p.group_size = 64; },
       "group_size of fp8 matrices is 64", "128"},
      {"weights without scales", [](auto& p) { p.type_b = DataType::int8; }, "group_size of int8 weights is 0",
       "a power of two"},
      {"depth of weights", [](auto& p) { p.k = 100, p.type_b = DataType::int4, p.group_size = 48; },
       "group_size of int4 weights is 48", "or k"},
      {"type of scales",
       [](auto& p) { p.k = 64, p.type_b = DataType::int4, p.group_size = 32, p.type_scale = DataType::fp16; },
       "scales are fp16", "fp32 or bf16"},
      {"layout of weights",
       [](auto& p) { p.k = 64, p.type_b = DataType::int8, p.group_size = 32, p.order_b = MatrixOrder::row; },
       "layout rrr", "rcr"},
      {"odd int4", [](auto& p) { p.k = 7, p.type_b = DataType::int4, p.group_size = 7; }, "k is 7", "an even k"},
      {"weights of fp32", [](auto& p) { p.type_a = DataType::fp32, p.type_b = DataType::int8, p.group_size = 32; },
       "A is fp32 and B is int8", "weights of fp16 and bf16", ErrorCode::unsupported},
      {"zero points of floats", [](auto& p) { p.zero_points = true; }, "zero points with bf16 and bf16", "weights"},
      {"groups of columns", [](auto& p) { p.grouping = GemmGrouping::contiguous, p.order_a = MatrixOrder::column; },
       "column-major", "a row-major A"},
      {"k2", [](auto& p) { p.k2 = -3; }, "k2 is -3", "0 to"},
      {"size of the second product", [](auto& p) { p.n = p.k2 = kHuge; }, "overflows", "2^62"},
      {"a second product of groups", [](auto& p) { p.k2 = 5, p.grouping = GemmGrouping::masked; },
       "k2 is 5) beside masked groups", "beta 1", ErrorCode::unsupported},
      {"a second product of weights",
       [](auto& p) { p.k = 64, p.k2 = 64, p.type_b = DataType::int8, p.group_size = 32; }, "beside int8 weights",
       "two calls", ErrorCode::unsupported},
      {"a second product with scales",
       [](auto& p) { p = gemm_problem(DataType::fp8, 8, 8, 128), p.k2 = 128, p.group_size = 128; },
       "beside scales of 128", "two calls", ErrorCode::unsupported},
      {"columns of groups", [](auto& p) { p.grouping = GemmGrouping::masked, p.order_d = MatrixOrder::column; },
       "a column-major D beside masked groups", "a row-major D", ErrorCode::unsupported},
      {"columns of weights",
       [](auto& p) { p.k = 64, p.type_b = DataType::int8, p.group_size = 32, p.order_d = MatrixOrder::column; },
       "a column-major D beside int8 weights", "a row-major D", ErrorCode::unsupported},
      {"columns of scaled blocks",
       [](auto& p) { p = gemm_problem(DataType::fp8, 8, 8, 128), p.group_size = 128, p.order_d = MatrixOrder::column; },
       "a column-major D beside scales of 128", "a row-major D", ErrorCode::unsupported},
      {"columns of a packed B", [](auto& p) { p.packed_b = true, p.order_d = MatrixOrder::column; },
       "a column-major D beside a packed B", "a row-major D", ErrorCode::unsupported},
      {"columns of a gate", [](auto& p) { p.n = 8, p.epilogue = {EpilogueOp::glu}, p.order_d = MatrixOrder::column; },
       "a column-major D beside a gate", "a row-major D", ErrorCode::unsupported},
      {"odd gate", [](auto& p) { p.n = 7, p.epilogue = {EpilogueOp::swiglu}; }, "n is 7", "an even n"},
  };
  for (const Refusal& refusal : refusals) {
    GemmProblem p;
    refusal.change(p);
    const Status status = validate(p);
    ASSERT_FALSE(status) << refusal.what;
    EXPECT_EQ(status.error().code, refusal.code) << refusal.what;
    EXPECT_NE(status.error().message.find(refusal.message), std::string::npos)
        << refusal.what << ": " << status.error().message;
    EXPECT_NE(status.error().hint.find(refusal.hint), std::string::npos) << refusal.what << ": " << status.error().hint;
  }
}

TEST(GemmProblem, EqualProblemsHashAlikeAndEveryFieldCounts) {
  const std::function<void(GemmProblem&)> changes[] = {
      [](auto&) {},
      [](auto& p) { p.type_a = DataType::fp16; },
      [](auto& p) { p.type_b = DataType::fp16; },
      [](auto& p) { p.type_c = DataType::fp16; },
      [](auto& p) { p.type_d = DataType::fp16; },
      [](auto& p) { p.type_bias = DataType::fp16; },
      [](auto& p) { p.order_a = MatrixOrder::column; },
      [](auto& p) { p.order_b = MatrixOrder::row; },
      [](auto& p) { p.order_d = MatrixOrder::column; },
      [](auto& p) { p.m = 2; },
      [](auto& p) { p.n = 2; },
      [](auto& p) { p.k = 2; },
      [](auto& p) { p.k2 = 2; },
      [](auto& p) { p.batch = 2; },
      [](auto& p) { p.beta = true; },
      [](auto& p) { p.unaligned = true; },
      [](auto& p) { p.aligned_d = true; },
      [](auto& p) { p.epilogue = {EpilogueOp::bias}; },
      [](auto& p) {
        p.epilogue = {EpilogueOp::bias, EpilogueOp::relu};
      },
      [](auto& p) {
        p.epilogue = {EpilogueOp::relu, EpilogueOp::bias};
      },
  };
  std::set<std::uint64_t> seen;
  for (const auto& change : changes) {
    GemmProblem one, other;
    change(one);
    change(other);
    EXPECT_EQ(hash_of(one), hash_of(other));
    EXPECT_TRUE(seen.insert(hash_of(one)).second);
  }
}

TEST(GemmProblem, DenseArgumentsFollowTheOrders) {
  GemmProblem p = gemm_problem(DataType::fp32, 3, 8, 5);
  p.order_a = MatrixOrder::column;
  p.order_b = MatrixOrder::row;
  p.epilogue = {EpilogueOp::add, EpilogueOp::swiglu, EpilogueOp::multiply};
  const GemmArguments a = dense_arguments(p);
  EXPECT_EQ(a.a.leading, 3);
  EXPECT_EQ(a.a.batch, 15);
  EXPECT_EQ(a.b.leading, 8);
  EXPECT_EQ(a.c.leading, 8);
  EXPECT_EQ(a.d_leading, 4);
  EXPECT_EQ(a.d_batch, 12);
  EXPECT_EQ(a.epilogue[0].leading, 8);
  EXPECT_EQ(a.epilogue[2].leading, 4);
  p.packed_b = true;
  EXPECT_EQ(dense_arguments(p).b.leading, 0) << "its bytes are not known";
}

/// Buffers for a 4 x 6 x 5 fp32 problem.
struct Call {
  GemmProblem p = gemm_problem(DataType::fp32, 4, 6, 5);
  std::vector<float> a = std::vector<float>(64), b = a, c = a, d = a, bias = a, tensor = a;
  GemmArguments arguments;

  explicit Call(const std::function<void(GemmProblem&)>& change = {}) {
    if (change) change(p);
    arguments = dense_arguments(p);
    arguments.a.data = a.data();
    arguments.b.data = b.data();
    arguments.c.data = c.data();
    arguments.d = d.data();
    arguments.beta = p.beta ? 1.0f : 0.0f;
    for (std::size_t i = 0; i < p.epilogue.size(); ++i)
      arguments.epilogue[i].data = reads_tensor(p.epilogue[i]) ? tensor.data() : bias.data();
  }

  void refused(const char* what, const char* hint) const {
    const Status status = validate(p, arguments);
    ASSERT_FALSE(status) << what;
    EXPECT_EQ(status.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(status.error().message.find(what), std::string::npos) << status.error().message;
    EXPECT_NE(status.error().hint.find(hint), std::string::npos) << status.error().hint;
  }
  void accepted() const {
    const Status status = validate(p, arguments);
    EXPECT_TRUE(status) << status.error().text();
  }
};

TEST(GemmArguments, PointersAndLeadingDimensions) {
  Call().accepted();
  const auto with = [](const std::function<void(Call&)>& change) {
    Call call([](GemmProblem& p) { p.beta = true, p.epilogue = {EpilogueOp::bias, EpilogueOp::add}; });
    change(call);
    return call;
  };
  with([](Call&) {}).accepted();
  with([](Call& c) { c.arguments.a.data = nullptr; }).refused("a is null", "m x k");
  with([](Call& c) { c.arguments.b.data = nullptr; }).refused("b is null", "k x n");
  with([](Call& c) { c.arguments.c.data = nullptr; }).refused("c is null", "beta is not 0");
  with([](Call& c) { c.arguments.d = nullptr; }).refused("d is null", "result");
  with([](Call& c) { c.arguments.epilogue[0].data = nullptr; }).refused("epilogue[0], bias is null", "a vector of 6");
  with([](Call& c) { c.arguments.epilogue[1].data = nullptr; }).refused("epilogue[1], add is null", "4 x 6");
  with([](Call& c) { c.arguments.a.leading = 4; }).refused("a: the leading dimension is 4", "5 or more");
  with([](Call& c) { c.arguments.b.leading = 4; }).refused("b: the leading dimension is 4", "5 or more");
  with([](Call& c) { c.arguments.d_leading = 5; }).refused("d: the leading dimension is 5", "6 or more");
  with([](Call& c) { c.arguments.a.leading = INT64_MAX; }).refused("overflow", "2^62");
  with([](Call& c) { c.arguments.alpha = kNan; }).refused("alpha is nan", "finite");
  // What is not read may be absent.
  with([](Call& c) { c.arguments.beta = 0, c.arguments.c.data = nullptr; }).accepted();
  with([](Call& c) { c.arguments.alpha = 0, c.arguments.a.data = c.arguments.b.data = nullptr; }).accepted();
  Call without_beta;
  without_beta.arguments.beta = 1;
  without_beta.refused("beta is 1", "a problem that has beta");
}

TEST(GemmArguments, NumbersThatScaleTheProducts) {
  static float numbers[2] = {2, 3};
  Call call;
  call.arguments.scale_a.data = numbers;
  call.arguments.scale_b.data = numbers + 1;
  call.accepted();
  call.arguments.scale_a.row = 1;
  call.refused("scale_a of one number has strides", "0");
  call.arguments.scale_a.row = 0;
  call.arguments.scale_b.batch = 1;
  call.refused("scale_b of one number has strides", "0");
  call.arguments.scale_b = {call.arguments.d, 0, 0, 0};
  call.refused("d overlaps scale_b", "its own");
  call.arguments.alpha = 0;  // nobody reads it
  call.accepted();
  const GemmProblem integers = gemm_problem(DataType::int8, 1, 1, 16);
  static std::int8_t row[16];
  static std::int32_t sum;
  GemmArguments a = dense_arguments(integers);
  a.a.data = a.b.data = row;
  a.d = &sum;
  a.scale_a.data = numbers;
  const Status status = validate(integers, a);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "scale_a beside an int32 result");
}

TEST(GemmArguments, OfASecondProduct) {
  const auto with = [](const std::function<void(Call&)>& change) {
    Call call([](GemmProblem& p) { p.k2 = 7; });
    call.arguments.a2.data = call.c.data();
    call.arguments.b2.data = call.tensor.data();
    change(call);
    return call;
  };
  with([](Call&) {}).accepted();
  EXPECT_EQ(with([](Call&) {}).arguments.a2.leading, 7);
  EXPECT_EQ(with([](Call&) {}).arguments.b2.leading, 7);
  with([](Call& c) { c.arguments.a2.data = nullptr; }).refused("a2 is null", "m x k2");
  with([](Call& c) { c.arguments.b2.data = nullptr; }).refused("b2 is null", "k2 x n");
  with([](Call& c) { c.arguments.a2.leading = 6; }).refused("a2: the leading dimension is 6", "7 or more");
  with([](Call& c) { c.arguments.d = c.c.data() + 5; }).refused("d overlaps a2", "its own");
  with([](Call& c) { c.arguments.d = c.tensor.data(); }).refused("d overlaps b2", "its own");
  with([](Call& c) { c.arguments.alpha = 0, c.arguments.a2.data = nullptr; }).accepted();
  const Call call = with([](Call&) {});
  EXPECT_EQ(flops_of(call.p), 2.0 * 4 * 6 * (5 + 7));
  EXPECT_EQ(bytes_of(call.p), 4.0 * (4 * 12 + 12 * 6 + 4 * 6));
}

TEST(GemmArguments, EmptyProblemsNeedNoMemory) {
  const std::function<void(GemmProblem&)> empty[] = {[](auto& p) { p.m = 0; }, [](auto& p) { p.n = 0; },
                                                     [](auto& p) { p.batch = 0; }};
  for (const auto& change : empty) {
    Call call(change);
    call.arguments.a.data = call.arguments.b.data = call.arguments.d = nullptr;
    call.accepted();
    EXPECT_EQ(bytes_of(call.p), 0) << "B of a product without rows is not read";
  }
  Call no_k([](GemmProblem& p) { p.k = 0; });
  no_k.arguments.a.data = no_k.arguments.b.data = nullptr;
  no_k.accepted();
  no_k.arguments.d = nullptr;
  no_k.refused("d is null", "result");
}

TEST(GemmArguments, SharedMemoryIsRefusedUnlessItIsElementForElement) {
  const auto both = [](GemmProblem& p) { p.beta = true, p.epilogue = {EpilogueOp::add}; };
  Call call(both);
  call.arguments.d = call.c.data();
  call.accepted();
  call.arguments.d = call.c.data() + 1;
  call.refused("d overlaps c", "exactly that of c");
  call.arguments.d = call.tensor.data();
  call.accepted();
  call.arguments.d = call.a.data() + 19;
  call.refused("d overlaps a", "its own");
  call.arguments.d = call.a.data() + 20;
  call.accepted();
  // C of another type is another size in memory.
  Call half([](GemmProblem& p) { p.beta = true, p.type_c = DataType::fp16; });
  half.arguments.d = half.c.data();
  half.refused("d overlaps c", "its own");

  Call most([](GemmProblem& p) { p.epilogue = {EpilogueOp::amax}; });
  most.arguments.amax = most.d.data() + 23;
  most.refused("d overlaps amax", "its own");
  most.arguments.amax = most.d.data() + 24;
  most.accepted();
  Call groups([](GemmProblem& p) { p.grouping = GemmGrouping::contiguous, p.batch = 2; });
  const auto ends = [&](std::size_t at) { return reinterpret_cast<const std::int32_t*>(groups.d.data() + at); };
  groups.arguments.group_ends = ends(23);
  groups.refused("d overlaps group_ends", "its own");
  groups.arguments.group_ends = ends(24);
  groups.accepted();

  // Side by side in the columns of one buffer.
  Call columns;
  std::vector<float> joined(4 * 11);
  columns.arguments.a = {joined.data(), 11, 0};
  columns.arguments.d = joined.data() + 5;
  columns.arguments.d_leading = 11;
  columns.accepted();
  columns.arguments.d = joined.data() + 4;
  columns.refused("d overlaps a", "its own");
}

TEST(GemmArguments, PanelsLieBesideTheMatrixTheyAreMadeOf) {
  alignas(64) static float memory[64];
  const GemmProblem p = gemm_problem(DataType::fp32, 1, 4, 4);
  const auto packing = [&](std::size_t panels) {
    return validate_packing(p, {.data = memory + 32, .leading = 4}, memory, panels);
  };
  EXPECT_TRUE(packing(4 * 32));
  const Status status = packing(4 * 33);  // more than the matrix takes
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "packed overlaps b");
}

TEST(GemmArguments, MembersOfTheBatchHavePlacesOfTheirOwn) {
  Call call([](GemmProblem& p) { p.batch = 2; });
  call.accepted();
  call.arguments.a.batch = call.arguments.b.batch = 0;
  call.accepted();
  call.arguments.d_batch = 0;
  call.refused("elements of d overlap", "a stride of at least 1");
  call.arguments.d_batch = 6;  // rows of both members in turn
  call.arguments.d_leading = 12;
  call.accepted();
}

TEST(GemmArguments, TheStrideOfAnOnlyMemberIsNobodys) {
  const auto backwards = [](Call& call) {
    GemmArguments& a = call.arguments;
    a.a.batch = a.b.batch = a.c.batch = a.d_batch = a.epilogue[0].batch = INT64_MIN;
  };
  const auto reads_all = [](GemmProblem& p) { p.beta = true, p.epilogue = {EpilogueOp::add}; };
  Call one(reads_all);
  backwards(one);
  one.accepted();
  one.arguments.d = one.c.data();
  one.accepted();
  one.arguments.d = one.c.data() + 1;
  one.refused("d overlaps c", "exactly that of c");
  // Contiguous groups have one matrix of rows, and b for each.
  const std::int32_t ends[] = {2, 4};
  Call groups([&](GemmProblem& p) { reads_all(p), p.batch = 2, p.grouping = GemmGrouping::contiguous; });
  const std::int64_t batch_b = groups.arguments.b.batch;
  backwards(groups);
  groups.arguments.group_ends = ends;
  groups.refused("b has the stride -9223372036854775808", "0 (broadcast)");
  groups.arguments.b.batch = batch_b;
  groups.accepted();
  // What is read is refused as before.
  Call two([&](GemmProblem& p) { reads_all(p), p.batch = 2; });
  two.arguments.a.batch = -20;
  two.refused("a has the stride -20", "0 (broadcast)");
  Call line([](GemmProblem& p) { p.m = 1; });
  line.arguments.a.leading = -5;
  line.refused("a: the leading dimension is -5", "5 or more");
}

TEST(GemmArguments, NumbersOfTheEpilogue) {
  Call clamp([](GemmProblem& p) { p.epilogue = {EpilogueOp::clamp}; });
  clamp.arguments.epilogue[0].low = -1;
  clamp.arguments.epilogue[0].high = 1;
  clamp.accepted();
  clamp.arguments.epilogue[0].low = 2;
  clamp.refused("the limits are 2 and 1", "low at most high");
  clamp.arguments.epilogue[0].low = kNan;
  clamp.refused("the limits are nan", "low at most high");
  Call amax([](GemmProblem& p) { p.epilogue = {EpilogueOp::amax}; });
  amax.refused("amax is null", "writes it");
  Call whole([](GemmProblem& p) { p = gemm_problem(DataType::int8, 4, 6, 5), p.beta = true; });
  whole.accepted();
  whole.arguments.alpha = 0.5f;
  whole.refused("alpha of an int32 result is 0.5", "0 or 1");
  whole.arguments.alpha = 1;
  whole.arguments.beta = 1.5f;
  whole.refused("beta of an int32 result is 1.5", "whole number");
}

}  // namespace
}  // namespace tilesmith
