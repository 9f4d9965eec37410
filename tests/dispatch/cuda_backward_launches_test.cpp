// The launches of attention backward against a fake driver: which steps a call needs.
#include <algorithm>

#include "choose/attention_backward/cuda.hpp"
#include "dispatch/attention_backward/cuda_plan.hpp"
#include "problem/attention_backward/problem.hpp"
#include "runtime/cuda_cubin.hpp"
#include "runtime/cuda_fake.hpp"

namespace tilesmith {
namespace {

class CudaBackwardLaunches : public CudaFake {
 protected:
  CudaBackwardLaunches() {
    std::vector<CudaSpec> all = load_cuda_specs().value();
    spec_ = *std::ranges::find(all, ArchName::parse("sm_90a").value(), &CudaSpec::arch);
  }
  void TearDown() override {
    memory_.reset();
    CudaFake::TearDown();
  }
  /// Of the kernel that goes first.
  std::unique_ptr<AttentionBackwardPlan> plan(const AttentionBackwardProblem& p) {
    if (memory_ == nullptr) memory_ = std::make_unique<CudaSplitMemory>(*context_);
    const Candidate first = rank(spec_, p).value().candidates.front();
    CudaSteps steps = CudaSteps::load(first.recipe, [&](const KernelConfig&, std::size_t) -> Result<CudaKernel> {
                        return CudaModule::load(*context_, testing::cubin_of_sm_90()).value().kernel("k", 0).value();
                      }).value();
    return CudaBackwardPlan::make(p, {}, first.recipe, spec_, std::move(steps), *memory_).value();
  }
  int launches(const AttentionBackwardProblem& p) {
    alignas(16) static std::byte tensors[8][1 << 16];
    alignas(16) static float floats[4][1 << 12];
    AttentionBackwardArguments a = dense_arguments(p, AttentionLayout::bhsd);
    a.forward.q = tensors[0], a.forward.k = tensors[1], a.forward.v = tensors[2], a.forward.o = tensors[3];
    a.dout = tensors[4], a.dq = tensors[5], a.dk = tensors[6], a.dv = tensors[7];
    a.forward.lse = floats[0], a.forward.sink = floats[1], a.dsink = floats[2];
    const auto made = plan(p);
    const int before = fake.launches;
    const Status ran = made->run(a, {});
    EXPECT_TRUE(ran) << ran.error().text();
    return fake.launches - before;
  }

  CudaSpec spec_;
  std::unique_ptr<CudaSplitMemory> memory_;
};

AttentionBackwardProblem heads_of(std::int64_t seqlen_q, std::int64_t seqlen_k) {
  return {.batch = 1,
          .heads_q = 4,
          .heads_kv = 4,
          .seqlen_q = seqlen_q,
          .seqlen_k = seqlen_k,
          .head_dim_qk = 64,
          .head_dim_v = 64};
}

TEST_F(CudaBackwardLaunches, OfOneBlockOfKeysNothingIsRoundedBehindTheProducts) {
  AttentionBackwardProblem p = heads_of(64, 100);
  EXPECT_EQ(launches(p), 2);
  EXPECT_EQ(launches(heads_of(64, 129)), 3);
  p.sink = p.dsink = true;
  EXPECT_EQ(launches(p), 3) << "the last step adds up what the first has of the sinks' gradient";
  p = heads_of(100, 64);
  p.mask = MaskKind::bottom_right;
  EXPECT_EQ(launches(p), 3) << "queries that see nothing have dq from the last step";
}

TEST_F(CudaBackwardLaunches, OfOneBlockOfKeysNoSumsLieInTheWorkspace) {
  const auto sums = [&](const AttentionBackwardProblem& p) {
    const auto made = plan(p);
    const auto found = std::ranges::find(made->workspace(), "dq in fp32", &WorkspaceRegion::name);
    return found == made->workspace().end() ? 0 : found->bytes;
  };
  EXPECT_EQ(sums(heads_of(64, 100)), 0u);
  EXPECT_EQ(sums(heads_of(64, 129)), std::size_t{4} * 128 * 64 * 4);
}

TEST_F(CudaBackwardLaunches, PartsOfAWalkAreAddedUpBehindTheProducts) {
  AttentionBackwardProblem p = heads_of(250, 100);
  p.heads_q = 6, p.heads_kv = 1;
  p.head_dim_qk = p.head_dim_v = 16;  // the fake device has little memory
  const CudaWalkParts parts = cuda_walk_parts(p, rank(spec_, p).value().candidates.front().recipe.main(), spec_);
  EXPECT_EQ(launches(p), parts.all() > 1 ? 3 : 2);
  p.seqlen_q = 500;
  EXPECT_GT(cuda_walk_parts(p, rank(spec_, p).value().candidates.front().recipe.main(), spec_).all(), 1);
  EXPECT_EQ(launches(p), 3);
}

TEST_F(CudaBackwardLaunches, OfWideHeadsOnlyPartsAreAddedUp) {
  AttentionBackwardProblem p = heads_of(64, 64);
  p.head_dim_qk = p.head_dim_v = 136;
  EXPECT_EQ(launches(p), 2);
  p = heads_of(200, 64);
  p.heads_q = 3, p.heads_kv = 1;
  p.head_dim_qk = p.head_dim_v = 136;  // the fake device has little memory
  EXPECT_GT(cuda_walk_parts(p, rank(spec_, p).value().candidates.front().recipe.main(), spec_).all(), 1);
  EXPECT_EQ(launches(p), 3);
}

}  // namespace
}  // namespace tilesmith
