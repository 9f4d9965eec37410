// B packed once: every m reads the same buffer, and no other buffer is read.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "dispatch/allocation_count.hpp"
#include "dispatch/gemm/cpu_packed_b.hpp"
#include "dispatch/gemm/random_gemm.hpp"
#include "dispatch/test_store.hpp"
#include "runtime/aligned_buffer.hpp"
#include "tilesmith/dispatcher.hpp"
#include "verify/gemm/reference.hpp"
#include "vocabulary/memory_type.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

struct Packed {
  AlignedBuffer memory;
  std::size_t bytes = 0;

  [[nodiscard]] GemmOperand operand() const {
    return {.data = memory.data(), .leading = static_cast<std::int64_t>(bytes), .batch = 0};
  }
};

/// With a red zone behind it.
Packed pack(Dispatcher& dispatcher, const GemmProblem& problem, const GemmOperand& b) {
  constexpr std::size_t kZone = 256;
  Packed out;
  const auto bytes = dispatcher.packed_b_bytes(problem);
  EXPECT_TRUE(bytes) << bytes.error().text();
  out.bytes = bytes.value_or(0);
  out.memory.reserve(out.bytes + kZone);
  std::memset(out.memory.data(), 0x5a, out.bytes + kZone);
  const Status status = dispatcher.pack_b(problem, b, out.memory.data());
  EXPECT_TRUE(status) << status.error().text();
  for (std::size_t i = 0; i < kZone; ++i) EXPECT_EQ(out.memory.data()[out.bytes + i], std::byte{0x5a});
  return out;
}

GemmProblem packed(GemmProblem problem) {
  problem.packed_b = true;
  return problem;
}

/// Packs B of the first call alone; `change` makes the problem of m rows another one.
template <class Change>
void expect_correct(Dispatcher& dispatcher, GemmProblem problem, std::uint64_t seed, Change change) {
  std::optional<Packed> kept;
  std::vector<std::byte> before;
  for (const std::int64_t m : {17, 1, 200, 3}) {
    problem.m = m;
    GemmProblem of_m = problem;
    change(of_m);
    testing::RandomGemm call(of_m, seed);
    const auto reference = GemmReference::make(call.tensors(), memory_type_of(of_m.type_d), 1);
    ASSERT_TRUE(reference) << reference.error().text();
    GemmArguments arguments = call.host_arguments();
    // The matrix differs with m, as random numbers are drawn in turn; its panels' place and form do not.
    Packed now = pack(dispatcher, of_m, arguments.b);
    if (kept) {
      EXPECT_EQ(kept->bytes, now.bytes);
      EXPECT_EQ(std::memcmp(kept->memory.data(), now.memory.data(), sizeof(PackedHeader)), 0);
    }
    kept = std::move(now);
    const auto plan = dispatcher.plan(packed(of_m));
    ASSERT_TRUE(plan) << plan.error().text();
    EXPECT_TRUE(parse_native_name((*plan)->kernel_name()).value().algorithm.packed_b) << (*plan)->kernel_name();
    arguments.b = kept->operand();
    const Status status = (*plan)->run(arguments);
    ASSERT_TRUE(status) << status.error().text();
    EXPECT_EQ(call.judge(*reference), "") << (*plan)->kernel_name() << " m " << m << " n " << of_m.n << " k " << of_m.k
                                          << " order " << name_of(of_m.order_b);
  }
}

TEST(GemmPacked, EveryTypeAndOrderAtAwkwardSizes) {
  Dispatcher dispatcher({.threads = 3});
  const std::array<std::int64_t, 2> sizes[] = {{1, 1}, {70, 41}, {97, 600}, {131, 1100}};
  std::uint64_t seed = 0;
  for (const DataType type : {DataType::fp32, DataType::bf16, DataType::fp16, DataType::int8, DataType::fp8})
    for (const auto& [n, k] : sizes) {
      GemmProblem p = gemm_problem(type, 1, n, k);
      p.order_b = seed++ % 2 == 0 ? MatrixOrder::column : MatrixOrder::row;
      expect_correct(dispatcher, p, seed, [](GemmProblem&) {});
      if (HasFatalFailure()) return;
    }
}

TEST(GemmPacked, EpiloguesSplitsAndOtherResults) {
  using Op = EpilogueOp;
  for (const int threads : {1, 4}) {
    Dispatcher dispatcher({.threads = threads});
    expect_correct(dispatcher, gemm_problem(DataType::bf16, 1, 130, 2100), 5, [](GemmProblem& p) {
      p.epilogue = {Op::bias, Op::swiglu, Op::amax};
    });
    if (HasFatalFailure()) return;
    expect_correct(dispatcher, gemm_problem(DataType::int8, 1, 66, 900, DataType::fp32), 6, [](GemmProblem& p) {
      p.epilogue = {Op::scale_m, Op::scale_n, Op::relu, Op::add};
    });
    if (HasFatalFailure()) return;
    expect_correct(dispatcher, gemm_problem(DataType::fp32, 1, 49, 70), 7, [](GemmProblem& p) {
      p.beta = true;
      p.order_a = MatrixOrder::column;
    });
    if (HasFatalFailure()) return;
  }
}

/// Bits of the results of two m, from one buffer.
TEST(GemmPacked, OneBufferServesEveryNumberOfRows) {
  Dispatcher dispatcher({.threads = 2});
  constexpr std::int64_t kN = 90, kK = 700, kRows = 200;
  std::vector<float> a(kRows * kK), b(kN * kK);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(static_cast<int>(i * 7 % 11) - 5);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(static_cast<int>(i * 5 % 13) - 6);
  const Packed buffer = pack(dispatcher, gemm_problem(DataType::fp32, 1, kN, kK), {.data = b.data(), .leading = kK});
  const auto compute = [&](std::int64_t m, bool from_packed) {
    GemmProblem p = gemm_problem(DataType::fp32, m, kN, kK);
    p.packed_b = from_packed;
    GemmArguments arguments = dense_arguments(p);
    std::vector<float> d(static_cast<std::size_t>(m * kN));
    arguments.a.data = a.data();
    arguments.b = from_packed ? buffer.operand() : GemmOperand{b.data(), kK, 0};
    arguments.d = d.data();
    const auto plan = dispatcher.plan(p);
    EXPECT_TRUE(plan) << plan.error().text();
    EXPECT_TRUE((*plan)->run(arguments));
    return d;
  };
  for (const std::int64_t m : {1, 3, 17, 200}) EXPECT_EQ(compute(m, true), compute(m, false)) << m;  // whole numbers
  std::vector<std::thread> threads;
  const std::vector<float> expected = compute(17, true);
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) EXPECT_EQ(compute(17, true), expected);
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(GemmPacked, TheBatchSharesIt) {
  Dispatcher dispatcher({.threads = 2});
  GemmProblem p = gemm_problem(DataType::fp32, 5, 50, 60);
  p.batch = 3;
  std::vector<float> a(3 * 5 * 60, 1), b(50 * 60, 2), d(3 * 5 * 50);
  const Packed buffer = pack(dispatcher, p, {.data = b.data(), .leading = 60});
  GemmArguments arguments = dense_arguments(packed(p));
  arguments.a.data = a.data();
  arguments.b = buffer.operand();
  arguments.d = d.data();
  ASSERT_TRUE((*dispatcher.plan(packed(p)))->run(arguments));
  EXPECT_EQ(d, std::vector<float>(d.size(), 120));
}

class Refusals : public ::testing::Test {
 protected:
  Refusals() {
    arguments.a.data = a.data();
    arguments.d = d.data();
    arguments.b = buffer.operand();
  }
  std::string run() {
    const auto plan = dispatcher.plan(packed(problem));
    if (!plan) return plan.error().text();
    const Status status = (*plan)->run(arguments);
    return status ? "" : status.error().text();
  }
  /// Whether the call fails with this in its message.
  ::testing::AssertionResult fails_with(std::string_view part) {
    const std::string text = run();
    if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << '"' << text << '"';
  }

  GemmProblem problem = gemm_problem(DataType::fp32, 5, 50, 60);
  Dispatcher dispatcher{{.threads = 1}};
  std::vector<float> a = std::vector<float>(5 * 60, 1), b = std::vector<float>(60 * 60, 1),
                     d = std::vector<float>(5 * 50);
  Packed buffer = pack(dispatcher, problem, {.data = b.data(), .leading = 60});
  GemmArguments arguments = dense_arguments(packed(problem));
};

TEST_F(Refusals, BuffersOfOtherMatrices) {
  ASSERT_EQ(run(), "");
  const GemmProblem wider = gemm_problem(DataType::fp32, 5, 51, 60);
  const Packed other = pack(dispatcher, wider, {.data = b.data(), .leading = 60});
  arguments.b = other.operand();
  EXPECT_TRUE(fails_with("b was packed for fp32 x fp32, n 51, k 60"));
  EXPECT_TRUE(fails_with("n 50, k 60"));
  const std::vector<std::uint16_t> halves(60 * 50);
  const Packed half = pack(dispatcher, gemm_problem(DataType::bf16, 5, 50, 60), {.data = halves.data(), .leading = 60});
  arguments.b = half.operand();
  EXPECT_TRUE(fails_with("b was packed for bf16 x bf16"));
}

TEST_F(Refusals, BuffersOfOtherMachinesAndFormats) {
  auto& header = *reinterpret_cast<PackedHeader*>(buffer.memory.data());
  const PackedHeader good = header;
  KernelConfig elsewhere;
  elsewhere.arch = ArchName::parse("x86_64_v9").value();
  elsewhere.algorithm.tile[2] = 512;
  header = PackedHeader::of(problem, elsewhere, good.bytes);
  EXPECT_TRUE(fails_with("of x86_64_v9 in blocks of 512"));
  header = good;
  EXPECT_EQ(run(), "");
}

TEST_F(Refusals, DamagedTruncatedAndForeignBuffers) {
  std::byte* const bytes = buffer.memory.data();
  for (std::size_t at = 4; at < sizeof(PackedHeader); ++at) {
    bytes[at] ^= std::byte{0x10};
    EXPECT_TRUE(fails_with("the header of packed b is damaged")) << at;
    bytes[at] ^= std::byte{0x10};
  }
  arguments.b.leading -= 1;
  EXPECT_TRUE(fails_with("of which"));
  arguments.b.leading = 10;
  EXPECT_TRUE(fails_with("less than its header"));
  arguments.b.leading = 0;  // not known
  EXPECT_EQ(run(), "");
  arguments.b.data = bytes + 64;
  EXPECT_TRUE(fails_with("b is no buffer that pack_b made"));
  arguments.b.data = bytes + 4;
  EXPECT_TRUE(fails_with("a multiple of 64 bytes"));
  arguments.b.data = nullptr;
  EXPECT_TRUE(fails_with("a buffer of packed_b_bytes"));
  arguments.alpha = 0;  // B is not read
  EXPECT_EQ(run(), "");
}

TEST_F(Refusals, InLists) {
  const GemmProblem problems[] = {problem, packed(problem)};
  const auto plan = dispatcher.plan(problems);
  ASSERT_TRUE(plan) << plan.error().text();
  std::vector<float> other(d.size());
  GemmArguments plain = dense_arguments(problem);
  plain.a.data = a.data();
  plain.b.data = b.data();
  plain.d = other.data();
  ASSERT_TRUE((*plan)->run(std::vector{plain, arguments}));
  EXPECT_EQ(d, other);
  buffer.memory.data()[20] ^= std::byte{1};
  const Status status = (*plan)->run(std::vector{plain, arguments});
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().text().find("product 1 of 2"), std::string::npos) << status.error().text();
}

TEST_F(Refusals, WhatGoesWithNoPackedB) {
  const auto with = [&](auto change) {
    GemmProblem p = packed(gemm_problem(DataType::bf16, 5, 50, 64));
    change(p);
    EXPECT_FALSE(dispatcher.packed_b_bytes(p));
    const auto plan = dispatcher.plan(p);
    return plan ? "" : plan.error().message;
  };
  EXPECT_EQ(with([](GemmProblem& p) { p.grouping = GemmGrouping::contiguous; }), "a packed B beside contiguous groups");
  EXPECT_EQ(with([](GemmProblem& p) { p.k2 = 7; }), "a packed B beside a second product (k2 is 7)");
  EXPECT_EQ(with([](GemmProblem& p) { p.type_b = DataType::int4, p.group_size = 32; }),
            "a packed B beside int4 weights of bf16");
  EXPECT_EQ(with([](GemmProblem& p) {
              p.type_a = p.type_b = DataType::fp8;
              p.group_size = 128;
            }),
            "a packed B beside scales of 128 elements of k");
}

TEST_F(Refusals, WhatCannotBePacked) {
  const auto message = [&](const GemmOperand& from, void* to) {
    const Status status = dispatcher.pack_b(problem, from, to);
    return status ? "" : status.error().message;
  };
  EXPECT_NE(message({.data = nullptr, .leading = 60}, buffer.memory.data()), "");
  EXPECT_EQ(message({.data = b.data(), .leading = 59}, buffer.memory.data()), "b: the leading dimension is 59");
  EXPECT_NE(message({.data = b.data(), .leading = 60}, nullptr), "");
  EXPECT_EQ(message({.data = buffer.memory.data() + 64, .leading = 60}, buffer.memory.data()), "packed overlaps b");
}

TEST_F(Refusals, KernelsByNameReadTheirOwnPanels) {
  KernelConfig config = parse_native_name((*dispatcher.plan(packed(problem)))->kernel_name()).value();
  Dispatcher good({.threads = 1, .kernel = native_name(config)});
  EXPECT_TRUE(good.plan(packed(problem)));
  EXPECT_FALSE(good.plan(problem));
  config.algorithm.tile[2] = static_cast<std::uint16_t>(config.algorithm.tile[2] / 2);
  Dispatcher other({.threads = 1, .kernel = native_name(config)});
  const auto plan = other.plan(packed(problem));
  ASSERT_FALSE(plan);
  EXPECT_NE(plan.error().text().find("reads other panels of B"), std::string::npos) << plan.error().text();
}

TEST_F(Refusals, RunningAllocatesNothing) {
  ASSERT_EQ(run(), "");
  const GemmPlan* plan = dispatcher.plan(packed(problem)).value();
  ASSERT_TRUE(plan->run(arguments));
  const std::size_t before = testing::allocations();
  ASSERT_TRUE(plan->run(arguments));
  EXPECT_EQ(testing::allocations(), before);
}

TEST(GemmPacked, NothingToSum) {
  Dispatcher dispatcher({.threads = 2});
  const Packed buffer = pack(dispatcher, gemm_problem(DataType::fp32, 1, 9, 0), {.data = nullptr, .leading = 1});
  const GemmProblem p = packed(gemm_problem(DataType::fp32, 4, 9, 0));
  std::vector<float> d(4 * 9, 3);
  GemmArguments arguments = dense_arguments(p);
  arguments.b = buffer.operand();
  arguments.d = d.data();
  const Status status = (*dispatcher.plan(p))->run(arguments);
  ASSERT_TRUE(status) << status.error().text();
  EXPECT_EQ(d, std::vector<float>(d.size(), 0));
}

}  // namespace
}  // namespace tilesmith
