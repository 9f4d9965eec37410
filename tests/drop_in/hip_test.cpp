// The drop-in functions on an AMD GPU: tensors travel to the device and back, against a fake HIP runtime whose memory
// is the host's and whose kernel is a function of this file or, of attention, the own kernels' text, emulated.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/float_types.hpp"
#include "dispatch/emulated_hip.hpp"
#include "dispatch/test_store.hpp"
#include "drop_in/abi.h"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {
namespace {

using testing::fake;

int calls = 0;

/// A stored along k, B along k, D by rows: fp16.
void product(const void* bytes, int) {
  TsHipGemmArgs args;
  std::memcpy(&args, bytes, sizeof args);
  ++calls;
  const auto* a = static_cast<const std::uint16_t*>(args.a.data);
  const auto* b = static_cast<const std::uint16_t*>(args.b.data);
  auto* d = static_cast<std::uint16_t*>(args.d);
  for (int i = 0; i < args.m; ++i)
    for (int j = 0; j < args.n; ++j) {
      float sum = 0;
      for (int k = 0; k < args.k; ++k) sum += from_fp16(a[i * args.k + k]) * from_fp16(b[j * args.k + k]);
      d[i * args.n + j] = to_fp16(sum);
    }
}

TEST(DropInHip, AProductTravelsToTheDeviceAndBack) {
  if (const auto clang = AmdgcnToolchain::find(); !clang) GTEST_SKIP() << clang.error().text();
  const testing::ScopedVariable library("TILESMITH_LIBAMDHIP64", TILESMITH_FAKE_LIBAMDHIP64);
  constexpr int kM = 16, kN = 32, kK = 64;
  {
    Dispatcher dispatcher({.device = {DeviceKind::hip, 0}});
    const GemmProblem problem = gemm_problem(DataType::fp16, kM, kN, kK);
    const auto choice = dispatcher.candidates(problem, dispatcher.options());
    ASSERT_TRUE(choice) << choice.error().text();
    fake().kernels[choice->candidates.front().recipe] = {product, sizeof(TsHipGemmArgs)};
  }
  ASSERT_EQ(dispatcher_initialize(), 0);  // an AMD GPU goes first where nothing else is chosen
  char name[512];
  ASSERT_EQ(dispatcher_select_kernel(kM, kN, kK, name, sizeof name), 0);
  EXPECT_NE(std::string(name).find("gfx942"), std::string::npos) << name;

  std::vector<std::uint16_t> a, b, c(kM * kN, to_fp16(77));
  for (int i = 0; i < kM * kK; ++i) a.push_back(to_fp16(i % 5 - 2));
  for (int i = 0; i < kN * kK; ++i) b.push_back(to_fp16(i % 3 - 1));
  const std::size_t before = fake().allocations.size();
  float milliseconds = -5;
  ASSERT_EQ(dispatcher_run_gemm(a.data(), b.data(), c.data(), kM, kN, kK, &milliseconds), 0);
  EXPECT_FLOAT_EQ(milliseconds, 2.5F / 10) << "the fake's 2.5 ms over ten calls";
  EXPECT_EQ(calls, 13);
  EXPECT_EQ(fake().allocations.size(), before);
  for (int i = 0; i < kM; ++i)
    for (int j = 0; j < kN; ++j) {
      float sum = 0;
      for (int k = 0; k < kK; ++k)
        sum += static_cast<float>((i * kK + k) % 5 - 2) * static_cast<float>((j * kK + k) % 3 - 1);
      ASSERT_EQ(from_fp16(c[static_cast<std::size_t>(i * kN + j)]), sum);
    }

  fake().malloc = hip::Code::out_of_memory;
  EXPECT_EQ(dispatcher_run_gemm(a.data(), b.data(), c.data(), kM, kN, kK, &milliseconds), TILESMITH_CK_FAILED);
  fake().malloc = hip::Code::success;
  fake().copy = hip::Code::invalid_value;
  EXPECT_EQ(dispatcher_run_gemm(a.data(), b.data(), c.data(), kM, kN, kK, &milliseconds), TILESMITH_CK_FAILED);
  fake().copy = hip::Code::success;
  dispatcher_cleanup();
}

/// Attention of one batch in float32, keys up to the diagonal: q and o (head, token, dim), of one key head.
std::vector<float> attention_of(const std::vector<std::uint16_t>& q, const std::vector<std::uint16_t>& k,
                                const std::vector<std::uint16_t>& v, int heads, int seqlen_q, int seqlen_k, int dim,
                                float scale) {
  std::vector<float> o;
  for (int row = 0; row < heads * seqlen_q; ++row) {
    std::vector<double> weights;
    double sum = 0;
    for (int key = 0; key < std::min(seqlen_k, row % seqlen_q + 1); ++key) {
      double score = 0;
      for (int d = 0; d < dim; ++d)
        score += from_fp16(q[static_cast<std::size_t>(row * dim + d)]) *
                 from_fp16(k[static_cast<std::size_t>(key * dim + d)]);
      sum += weights.emplace_back(std::exp(score * scale));
    }
    for (int d = 0; d < dim; ++d) {
      double value = 0;
      for (std::size_t key = 0; key < weights.size(); ++key)
        value += weights[key] * from_fp16(v[key * static_cast<std::size_t>(dim) + static_cast<std::size_t>(d)]);
      o.push_back(static_cast<float>(value / sum));
    }
  }
  return o;
}

TEST(DropInHip, AttentionRunsOnOwnKernels) {
  if (const auto clang = AmdgcnToolchain::find(); !clang) GTEST_SKIP() << clang.error().text();
  const testing::ScopedVariable library("TILESMITH_LIBAMDHIP64", TILESMITH_FAKE_LIBAMDHIP64);
  constexpr int kHeads = 2, kRows = 5, kKeys = 160, kDim = 32, kPage = 16;
  AttentionProblem p;
  p.data_type = DataType::fp16;
  p.mask = MaskKind::top_left;
  p.batch = p.heads_kv = 1;
  p.heads_q = kHeads;
  p.seqlen_q = kRows;
  p.seqlen_k = kKeys;
  p.head_dim_qk = p.head_dim_v = kDim;
  testing::EmulatedDevice device(0);
  ASSERT_TRUE(device.plan(p));
  p.page_size = kPage;
  p.splits = 2;
  ASSERT_TRUE(device.plan(p));

  std::vector<std::uint16_t> q, k, v;
  for (int i = 0; i < kHeads * kRows * kDim; ++i) q.push_back(to_fp16(static_cast<float>(i * 7 % 13 - 6) / 8));
  for (int i = 0; i < kKeys * kDim; ++i) k.push_back(to_fp16(static_cast<float>(i * 5 % 11 - 5) / 4));
  for (int i = 0; i < kKeys * kDim; ++i) v.push_back(to_fp16(static_cast<float>(i * 3 % 17 - 8) / 4));
  const float scale = 0.25F;
  const std::vector<float> wanted = attention_of(q, k, v, kHeads, kRows, kKeys, kDim, scale);
  const auto expect_right = [&](const std::vector<std::uint16_t>& o) {
    for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(from_fp16(o[i]), wanted[i], 4e-3) << i;
  };
  ASSERT_EQ(fmha_dispatcher_initialize("hip:0"), 0);
  const std::size_t before = fake().launches.size();
  float milliseconds = -5;
  std::vector<std::uint16_t> o(q.size(), to_fp16(77));
  ASSERT_EQ(fmha_dispatcher_run_fwd(q.data(), k.data(), v.data(), o.data(), 1, kHeads, 1, kRows, kKeys, kDim, kDim,
                                    scale, 1, 0, 0, 0, kDim, kDim, 1, 1, "fp16", 0, -1, -1, 0, 0, 0, &milliseconds),
            0);
  EXPECT_GT(milliseconds, 0);
  EXPECT_GT(fake().launches.size(), before);
  expect_right(o);
  std::ranges::fill(o, to_fp16(77));
  ASSERT_EQ(fmha_dispatcher_run_splitkv(q.data(), k.data(), v.data(), o.data(), 1, kHeads, 1, kRows, kKeys, kDim, kDim,
                                        scale, 1, 2, 1, "fp16", 0, 0, 1, 0, 0, 0, 1, kPage, -1, -1, &milliseconds),
            0);
  EXPECT_EQ(fake().launches.back().threads, 64u) << "the last launch joins what the pieces left";
  expect_right(o);
  // No kernel of the chip appends, and it says so.
  EXPECT_EQ(fmha_dispatcher_run_appendkv(q.data(), k.data(), v.data(), 1, kHeads, 1, kRows, 1, kDim, kDim, 1, 0, 0, 0,
                                         "fp16", &milliseconds),
            TILESMITH_CK_NO_KERNEL);
  fmha_dispatcher_cleanup();
}

}  // namespace
}  // namespace tilesmith
