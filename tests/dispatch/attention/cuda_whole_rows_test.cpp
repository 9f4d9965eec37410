// What plans that copy rows ask of the plan between their launches, against a fake driver. The copies themselves:
// cuda_attention_test, cuda_attention_backward_test.
#include "dispatch/attention/cuda_whole_rows.hpp"

#include <vector>

#include "choose/attention/whole_rows.hpp"
#include "problem/attention_backward/problem.hpp"
#include "runtime/cuda_cubin.hpp"
#include "runtime/cuda_fake.hpp"

namespace tilesmith {
namespace {

constexpr std::size_t kOwnWorkspace = 300;  // of the plan between, which ends within a line

/// Notes what it is asked, and how many launches were queued before.
template <class Base, class Problem, class Arguments>
class Between final : public Base {
 public:
  Between(const Problem& problem, const testing::FakeLibcuda& fake, Arguments& seen, RunOptions& options, int& before)
      : Base(problem, info()), fake_(fake), seen_(seen), options_(options), before_(before) {}

  [[nodiscard]] Status run(const Arguments& arguments, const RunOptions& options) const override {
    seen_ = arguments;
    options_ = options;
    before_ = fake_.launches;
    return {};
  }

 private:
  static PlanInfo info() {
    PlanInfo info;
    info.device = {DeviceKind::cuda, 0};
    info.steps = {{.kernel = "between", .role = "compute", .what = ""}};
    info.workspace = {{.name = "own", .offset = 0, .bytes = kOwnWorkspace}};
    info.workspace_bytes = kOwnWorkspace;
    return info;
  }
  const testing::FakeLibcuda& fake_;
  Arguments& seen_;
  RunOptions& options_;
  int& before_;
};
using BetweenForward = Between<AttentionPlan, AttentionProblem, AttentionArguments>;
using BetweenBackward = Between<AttentionBackwardPlan, AttentionBackwardProblem, AttentionBackwardArguments>;

class CudaWholeRows : public CudaFake {
 protected:
  [[nodiscard]] CudaRowCopier copier() {
    return {CudaModule::load(*context_, testing::cubin_of_sm_90()).value().kernel("k", 0).value(), memory(), spec_};
  }
  CudaSplitMemory& memory() {
    if (memory_ == nullptr) memory_ = std::make_unique<CudaSplitMemory>(*context_);
    return *memory_;
  }
  void TearDown() override {
    memory_.reset();
    CudaFake::TearDown();
  }
  static void expect_whole(const void* data, const AttentionStrides& s) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % 16, 0u);
    EXPECT_EQ((s.batch | s.head | s.row) % 8, 0);
  }

  CudaSpec spec_{};
  std::unique_ptr<CudaSplitMemory> memory_;
  RunOptions options_;
  int before_ = -1;
};

AttentionProblem odd_heads(std::int64_t head_dim, std::int64_t head_dim_v) {
  AttentionProblem p;
  p.batch = 2, p.heads_q = 4, p.heads_kv = 2;
  p.seqlen_q = 5, p.seqlen_k = 7;
  p.head_dim_qk = head_dim, p.head_dim_v = head_dim_v;
  return p;
}

TEST_F(CudaWholeRows, TheKernelReadsAndWritesCopiesWithinTheWorkspace) {
  spec_.reference.sms = 4;
  const AttentionProblem p = odd_heads(33, 61);
  AttentionArguments seen;
  const auto made = cuda_whole_rows_plan(
      p, std::make_unique<BetweenForward>(with_whole_rows(p), fake, seen, options_, before_), copier());
  ASSERT_TRUE(made) << made.error().text();
  const AttentionPlan& plan = **made;
  ASSERT_EQ(plan.info().steps.size(), 3u);
  ASSERT_EQ(plan.workspace().size(), 2u);
  const WorkspaceRegion& region = plan.workspace()[1];
  EXPECT_EQ(region.name, "whole rows");
  EXPECT_EQ(region.offset, 512u);
  EXPECT_EQ(plan.workspace_bytes(), region.offset + region.bytes);
  // 33 elements in 96 bytes, 61 in 128.
  EXPECT_EQ(region.bytes, std::size_t{2} * (4 * 5 * 96 + 2 * 7 * 96 + 2 * 7 * 128 + 4 * 5 * 128));

  alignas(64) static std::byte workspace[1 << 15];
  alignas(16) static std::byte tensors[4][1 << 14];
  ASSERT_LE(plan.workspace_bytes(), sizeof workspace);
  AttentionArguments a = dense_arguments(p, AttentionLayout::bshd);
  a.q = tensors[0] + 2, a.k = tensors[1], a.v = tensors[2], a.o = tensors[3];
  ASSERT_TRUE(plan.run(a, {.workspace = workspace}));
  EXPECT_EQ(before_, 1) << "copies before";
  EXPECT_EQ(fake.launches, 2) << "and behind";
  EXPECT_EQ(options_.workspace, workspace);
  EXPECT_EQ(seen.scale, a.scale);
  std::vector<const std::byte*> places;
  for (const auto& [data, s] : {std::pair<const void*, AttentionStrides>{seen.q, seen.q_strides},
                                {seen.k, seen.k_strides},
                                {seen.v, seen.v_strides},
                                {seen.o, seen.o_strides}}) {
    expect_whole(data, s);
    places.push_back(static_cast<const std::byte*>(data));
  }
  EXPECT_EQ(places.front(), workspace + region.offset);
  EXPECT_TRUE(std::ranges::is_sorted(places));
  EXPECT_EQ(places[1] - places[0], 2 * 4 * 5 * 96);
  EXPECT_EQ(places[3] + std::size_t{2} * 4 * 5 * 128, workspace + plan.workspace_bytes());
  EXPECT_EQ(seen.q_strides.row, 48);
  EXPECT_EQ(seen.o_strides.head, 5 * 64);
  EXPECT_FALSE(plan.run(a, {.workspace = workspace + 4}));
}

TEST_F(CudaWholeRows, WhatIsWholeStaysWhereItIs) {
  spec_.reference.sms = 4;
  AttentionProblem p = odd_heads(64, 61);
  AttentionArguments seen;
  const auto plan =
      cuda_whole_rows_plan(p, std::make_unique<BetweenForward>(with_whole_rows(p), fake, seen, options_, before_),
                           copier())
          .value();
  alignas(16) static std::byte tensors[4][1 << 14];
  AttentionArguments a = dense_arguments(p, AttentionLayout::bhsd);
  a.q = tensors[0], a.k = tensors[1] + 2, a.v = tensors[2], a.o = tensors[3];
  ASSERT_TRUE(plan->run(a, {}));
  EXPECT_EQ(seen.q, a.q);
  EXPECT_EQ(seen.q_strides.row, a.q_strides.row);
  EXPECT_NE(seen.k, a.k) << "its rows are whole, and begin elsewhere";
  EXPECT_NE(seen.v, a.v);
  EXPECT_NE(seen.o, a.o);

  // Nothing to copy, nothing launched.
  p = odd_heads(64, 64);
  p.unaligned = true;
  const auto whole =
      cuda_whole_rows_plan(p, std::make_unique<BetweenForward>(with_whole_rows(p), fake, seen, options_, before_),
                           copier())
          .value();
  a = dense_arguments(p, AttentionLayout::bhsd);
  a.q = tensors[0], a.k = tensors[1], a.v = tensors[2], a.o = tensors[3];
  const int launches = fake.launches;
  ASSERT_TRUE(whole->run(a, {}));
  EXPECT_EQ(fake.launches, launches);
  EXPECT_EQ(seen.o, a.o);

  // A single row has a stride as well, which the plan between refuses.
  p.seqlen_k = 1;
  const auto single =
      cuda_whole_rows_plan(p, std::make_unique<BetweenForward>(with_whole_rows(p), fake, seen, options_, before_),
                           copier())
          .value();
  a.k_strides.row = a.k_strides.batch + 1;
  ASSERT_TRUE(single->run(a, {}));
  EXPECT_NE(seen.k, a.k);
  expect_whole(seen.k, seen.k_strides);
  EXPECT_EQ(seen.q, a.q);
}

TEST_F(CudaWholeRows, ABackwardReadsFiveCopiesAndWritesThree) {
  spec_.reference.sms = 4;
  AttentionBackwardProblem p{.batch = 2, .heads_q = 4, .heads_kv = 2, .seqlen_q = 5, .seqlen_k = 7};
  p.head_dim_qk = 57, p.head_dim_v = 20;
  AttentionBackwardArguments seen;
  const auto plan =
      cuda_whole_rows_plan(p, std::make_unique<BetweenBackward>(with_whole_rows(p), fake, seen, options_, before_),
                           copier())
          .value();
  EXPECT_EQ(plan->workspace()[1].bytes, static_cast<std::size_t>(2 * rows_of(forward_of(p)).bytes()));
  alignas(16) static std::byte tensors[8][1 << 14];
  static float lse[64];
  AttentionBackwardArguments a = dense_arguments(p, AttentionLayout::bshd);
  a.forward.q = tensors[0], a.forward.k = tensors[1], a.forward.v = tensors[2], a.forward.o = tensors[3];
  a.dout = tensors[4], a.dq = tensors[5], a.dk = tensors[6], a.dv = tensors[7];
  a.forward.lse = lse;
  const Status ran = plan->run(a, {});
  ASSERT_TRUE(ran) << ran.error().text();
  EXPECT_EQ(before_, 1);
  EXPECT_EQ(fake.launches, 2);
  const std::vector<const void*> given{a.forward.q, a.forward.k, a.forward.v, a.forward.o, a.dout, a.dq, a.dk, a.dv};
  const std::vector<std::pair<const void*, AttentionStrides>> taken{{seen.forward.q, seen.forward.q_strides},
                                                                    {seen.forward.k, seen.forward.k_strides},
                                                                    {seen.forward.v, seen.forward.v_strides},
                                                                    {seen.forward.o, seen.forward.o_strides},
                                                                    {seen.dout, seen.dout_strides},
                                                                    {seen.dq, seen.dq_strides},
                                                                    {seen.dk, seen.dk_strides},
                                                                    {seen.dv, seen.dv_strides}};
  for (std::size_t i = 0; i < given.size(); ++i) {
    EXPECT_NE(taken[i].first, given[i]) << i;
    expect_whole(taken[i].first, taken[i].second);
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(taken[i].first, taken[j].first);
  }
}

}  // namespace
}  // namespace tilesmith
