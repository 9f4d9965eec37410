// w packed once: every batch, image, stride and layout reads the same buffer, and no other buffer is read.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "dispatch/conv/channels_last.hpp"
#include "dispatch/conv/cpu_packed_w.hpp"
#include "dispatch/conv_problems.hpp"
#include "dispatch/test_store.hpp"
#include "runtime/aligned_buffer.hpp"
#include "thorough.hpp"
#include "trial/conv/case.hpp"
#include "trial/trial.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

TEST(ConvPacked, RandomProblemsReadPackedFilters) {
  Dispatcher dispatcher({.threads = 2});
  const std::uint64_t problems = testing::thorough() ? 600 : 90;
  for (std::uint64_t seed = 0; seed < problems; ++seed) {
    RandomCall<Conv> call = testing::random_conv(seed);
    if (call.problem.direction == ConvDirection::backward_weight) continue;
    call.problem.packed_w = true;
    SCOPED_TRACE(to_line(call));
    auto conv = ConvCase::create(call);
    ASSERT_TRUE(conv) << conv.error().text();
    const Status prepared = conv->prepare(dispatcher);
    ASSERT_TRUE(prepared) << prepared.error().text();
    const auto reference = conv->reference(1);
    ASSERT_TRUE(reference) << reference.error().text();
    const auto plan = dispatcher.plan(conv->problem());
    ASSERT_TRUE(plan) << plan.error().text();
    // That of a copy with channels last, if some are apart.
    EXPECT_EQ((*plan)->workspace_bytes(), conv->problem().unaligned ? channels_last_bytes(conv->problem(), false) : 0U);
    auto trial = Trial<Conv>::create(*std::move(conv), Device{});
    const auto verdict = trial->verify(**plan, **reference);
    EXPECT_TRUE(verdict && verdict->outcome != Outcome::fail)
        << (*plan)->kernel_name() << ": " << (verdict ? verdict->reason : verdict.error().text());
  }
}

/// Filters of ones, packed with a red zone behind them.
class ConvPackedRefusals : public ::testing::Test {
 protected:
  static constexpr std::size_t kZone = 256;

  ConvPackedRefusals() : memory(pack(problem)) {
    arguments.x = x.data();
    arguments.out = y.data();
    arguments.w = memory.data();
  }
  static ConvProblem packed(ConvProblem p) {
    p.packed_w = true;
    return p;
  }
  AlignedBuffer pack(const ConvProblem& p) {
    const auto needed = dispatcher.packed_w_bytes(p);
    EXPECT_TRUE(needed) << needed.error().text();
    bytes = needed.value_or(0);
    AlignedBuffer out(bytes + kZone);
    std::memset(out.data(), 0x5a, bytes + kZone);
    const Status status =
        dispatcher.pack_w(p, w.data(), dense_arguments(p, ConvLayout::channels_last).w_strides, out.data());
    EXPECT_TRUE(status) << status.error().text();
    for (std::size_t i = 0; i < kZone; ++i) EXPECT_EQ(out.data()[bytes + i], std::byte{0x5a});
    return out;
  }
  std::string run(const ConvProblem& p) {
    const auto plan = dispatcher.plan(packed(p));
    if (!plan) return plan.error().text();
    const Status status = (*plan)->run(arguments);
    return status ? "" : status.error().text();
  }
  /// Whether the call fails with this in its message.
  ::testing::AssertionResult fails_with(std::string_view part, const ConvProblem& p) {
    const std::string text = run(p);
    if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << '"' << text << '"';
  }

  ConvProblem problem{.data_type = DataType::fp32,
                      .type_out = DataType::fp32,
                      .groups = 2,
                      .c = 20,
                      .k = 6,
                      .in_h = 4,
                      .in_w = 5,
                      .filter_h = 3,
                      .filter_w = 3};
  Dispatcher dispatcher{{.threads = 1}};
  std::vector<float> x = std::vector<float>(2 * 20 * 20, 1), w = std::vector<float>(2 * 20 * 20 * 9, 1),
                     y = std::vector<float>(2 * 20 * 6);
  std::size_t bytes = 0;
  AlignedBuffer memory;
  ConvArguments arguments = dense_arguments(packed(problem), ConvLayout::channels_last);
};

TEST_F(ConvPackedRefusals, BuffersOfOtherFilters) {
  ASSERT_EQ(run(problem), "");
  for (std::size_t i = 0; i < 2 * 6 * 6; ++i) ASSERT_EQ(y[i], 20 * 9) << i;
  const auto with = [&](auto change) {
    ConvProblem other = problem;
    change(other);
    const AlignedBuffer buffer = pack(other);
    arguments.w = buffer.data();
    return fails_with("w was packed for", problem);
  };
  EXPECT_TRUE(with([](ConvProblem& p) { p.k = 5; }));
  EXPECT_TRUE(with([](ConvProblem& p) { p.c = 19; }));
  EXPECT_TRUE(with([](ConvProblem& p) { p.groups = 1; }));
  EXPECT_TRUE(with([](ConvProblem& p) { p.filter_h = 1; }));
  EXPECT_TRUE(with([](ConvProblem& p) { p.dilation_w = 2; }));
  EXPECT_TRUE(with([](ConvProblem& p) { p.direction = ConvDirection::backward_data; }));
  EXPECT_TRUE(with([](ConvProblem& p) { p.data_type = DataType::bf16; }));
}

TEST_F(ConvPackedRefusals, WhatPackingDoesNotDependOn) {
  ConvProblem other = problem;
  other.batch = 7;
  other.in_h = 9;
  other.stride_w = 2;
  other.dilation_h = 2;
  other.pad_w = 1;
  other.type_out = DataType::fp32;
  other.epilogue = {EpilogueOp::relu};
  const AlignedBuffer buffer = pack(other);
  EXPECT_EQ(std::memcmp(buffer.data(), memory.data(), bytes), 0);
}

TEST_F(ConvPackedRefusals, BuffersOfOtherMachines) {
  KernelConfig elsewhere = parse_native_name((*dispatcher.plan(packed(problem)))->kernel_name()).value();
  auto& header = *reinterpret_cast<PackedWHeader*>(memory.data());
  elsewhere.arch = ArchName::parse("x86_64_v9").value();
  header = PackedWHeader::of(problem, elsewhere, static_cast<std::int64_t>(bytes));
  EXPECT_TRUE(fails_with("on x86_64_v9", problem));
}

TEST_F(ConvPackedRefusals, DamagedTruncatedAndForeignBuffers) {
  for (std::size_t at = 4; at < sizeof(PackedWHeader); ++at) {
    memory.data()[at] ^= std::byte{0x10};
    EXPECT_TRUE(fails_with("the header of packed w is damaged", problem)) << at;
    memory.data()[at] ^= std::byte{0x10};
  }
  arguments.w_strides.batch = static_cast<std::int64_t>(bytes);
  EXPECT_EQ(run(problem), "");
  arguments.w_strides.batch -= 1;
  EXPECT_TRUE(fails_with("of which", problem));
  arguments.w_strides.batch = 10;
  EXPECT_TRUE(fails_with("less than its header", problem));
  arguments.w_strides.batch = 0;  // not known
  arguments.w = memory.data() + 128;
  EXPECT_TRUE(fails_with("w is no buffer that pack_w made", problem));
  arguments.w = memory.data() + 4;
  EXPECT_TRUE(fails_with("a multiple of 64 bytes", problem));
  arguments.w = nullptr;
  EXPECT_TRUE(fails_with("a buffer of packed_w_bytes", problem));
}

TEST_F(ConvPackedRefusals, WhatCannotBePacked) {
  const ConvStrides strides = dense_arguments(problem, ConvLayout::channels_last).w_strides;
  const auto message = [&](const void* from, void* to) {
    const Status status = dispatcher.pack_w(problem, from, strides, to);
    return status ? "" : status.error().message;
  };
  EXPECT_EQ(message(nullptr, memory.data()), "w is null");
  EXPECT_EQ(message(w.data(), nullptr), "packed is null");
  EXPECT_EQ(message(memory.data() + 64, memory.data()), "packed overlaps w");
  ConvProblem weight = problem;
  weight.direction = ConvDirection::backward_weight;
  EXPECT_FALSE(dispatcher.packed_w_bytes(weight));
  EXPECT_TRUE(fails_with("a packed w in backward weight", weight));
}

TEST_F(ConvPackedRefusals, KernelsByNameReadTheirOwnPanels) {
  KernelConfig config = parse_native_name((*dispatcher.plan(packed(problem)))->kernel_name()).value();
  EXPECT_TRUE(Dispatcher({.threads = 1, .kernel = native_name(config)}).plan(packed(problem)));
  config.arch = ArchName::parse("x86_64_v3").value();
  Dispatcher other({.threads = 1, .kernel = native_name(config)});
  EXPECT_TRUE(other.plan(problem)) << native_name(config);
  const auto plan = other.plan(packed(problem));
  if (plan) GTEST_SKIP() << "this machine has no other level";
  EXPECT_NE(plan.error().text().find("reads other panels of w"), std::string::npos) << plan.error().text();
}

}  // namespace
}  // namespace tilesmith
