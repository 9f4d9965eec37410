#include "problem/attention/problem.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "base/random.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kHuge = std::int64_t{1} << 40;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Refusal {
  const char* what;
  std::function<void(AttentionProblem&)> change;
  const char* message;  ///< part of it, with the offending value
  const char* hint;
  ErrorCode code = ErrorCode::invalid_argument;
};

TEST(AttentionProblem, TheDefaultIsValid) {
  EXPECT_TRUE(validate(AttentionProblem{}));
}

TEST(AttentionArguments, AnEmptyListOfPagesMayBeNull) {
  const AttentionProblem problem{.batch = 2, .seqlen_q = 1, .seqlen_k = 40, .page_size = 16};
  float memory[1];
  const std::int32_t lengths[2] = {}, offsets[3] = {};
  AttentionArguments call;
  call.q = call.k = call.v = call.o = memory;
  call.q_strides = call.o_strides = {.batch = 64 * 128, .head = 128, .row = 128};
  call.k_strides = call.v_strides = {.batch = 16 * 128, .head = 128, .row = 128};
  call.pages = {.lengths = lengths, .offsets = offsets, .num_pages = 3};
  for (const DeviceKind device : {DeviceKind::cpu, DeviceKind::cuda, DeviceKind::hip}) {
    const Status status = validate(problem, call, device);
    EXPECT_TRUE(status) << status.error().text();
  }
  call.pages.num_pages = 0;
  call.k = call.v = nullptr;
  EXPECT_TRUE(validate(problem, call, DeviceKind::cuda));
}

TEST(AttentionProblem, EveryRefusalNamesTheValueAndWhatWouldBeRight) {
  const Refusal refusals[] = {
      {"block scales", [](auto& p) { p.block_scale = true; }, "block scales with bf16", "fp8bf16 and fp8fp16",
       ErrorCode::invalid_argument},
      {"pages", [](auto& p) { p.page_size = -16; }, "page_size is -16", "0 to"},
      {"a cache beside fp8", [](auto& p) { p.data_type = DataType::fp8bf16, p.cache = KvElements::int8; },
       "a cache of int8 beside queries of fp8bf16", "fp32, tf32, fp16 or bf16"},
      {"page scales without pages", [](auto& p) { p.cache = KvElements::fp8, p.page_scale = true; },
       "page scales of a cache of fp8 in pages of 0 keys", "a page_size"},
      {"page scales without a narrow cache", [](auto& p) { p.page_size = 16, p.page_scale = true; },
       "page scales of a cache of as_queries", "fp8 or int8"},
      {"latent values", [](auto& p) { p.latent = true, p.head_dim_qk = 64, p.head_dim_v = 72; },
       "values of 72 elements in latent keys of 64", "at most the keys' head dim"},
      {"vectorized pages without pages", [](auto& p) { p.vectorized_pages = true; },
       "vectorized pages of 0 keys, of 128 elements", "multiples of 8"},
      {"vectorized pages of few rows", [](auto& p) { p.vectorized_pages = true, p.page_size = 12; },
       "vectorized pages of 12 keys", "multiples of 8"},
      {"vectorized pages of 8 bits",
       [](auto& p) { p.vectorized_pages = true, p.page_size = 24, p.cache = KvElements::fp8; },
       "vectorized pages of 24 keys", "multiples of 16"},
      {"vectorized pages of odd heads",
       [](auto& p) { p.vectorized_pages = true, p.page_size = 16, p.head_dim_qk = 100; }, "of 100 elements",
       "multiples of 8"},
      {"vectorized latent pages", [](auto& p) { p.vectorized_pages = p.latent = true, p.page_size = 16; },
       "16 latent keys", "no latent keys"},
      {"new keys without pages", [](auto& p) { p.append = true; }, "new keys for pages of 0 keys", "a page_size"},
      {"new latent keys", [](auto& p) { p.append = p.latent = true, p.page_size = 16; }, "new keys for latent pages",
       "values of their own"},
      {"new keys of fp8", [](auto& p) { p.append = true, p.page_size = 16, p.data_type = DataType::fp8bf16; },
       "beside queries of fp8bf16", "fp32, tf32, fp16 or bf16"},
      {"block scales of pages",
       [](auto& p) { p.data_type = DataType::fp8bf16, p.block_scale = true, p.page_size = 16; },
       "block scales with pages of 16 keys", "keys that are not paged", ErrorCode::unsupported},
      {"data type", [](auto& p) { p.data_type = DataType::fp8; }, "does not run on fp8",
       "fp32, tf32, fp16, bf16, fp8bf16 or fp8fp16", ErrorCode::unsupported},
      {"batch", [](auto& p) { p.batch = -1; }, "batch is -1", "0 to"},
      {"large batch", [](auto& p) { p.batch = kHuge + 1; }, "batch is 1099511627777", "1099511627776"},
      {"heads_q", [](auto& p) { p.heads_q = 0; }, "heads_q is 0", "1 to"},
      {"heads_kv", [](auto& p) { p.heads_kv = 0; }, "heads_kv is 0", "1 to"},
      {"negative heads", [](auto& p) { p.heads_kv = -4; }, "heads_kv is -4", "1 to"},
      {"seqlen_q", [](auto& p) { p.seqlen_q = -5; }, "seqlen_q is -5", "0 to"},
      {"seqlen_k", [](auto& p) { p.seqlen_k = INT64_MIN; }, "seqlen_k is -9223372036854775808", "0 to"},
      {"head_dim_qk", [](auto& p) { p.head_dim_qk = 0; }, "head_dim_qk is 0", "1 to 65535"},
      {"head_dim_v", [](auto& p) { p.head_dim_v = 65536; }, "head_dim_v is 65536", "1 to 65535"},
      {"heads do not divide", [](auto& p) { p.heads_q = 6, p.heads_kv = 4; },
       "heads_q 6 is not a multiple of heads_kv 4", "every key head"},
      {"fewer query heads", [](auto& p) { p.heads_q = 2, p.heads_kv = 4; }, "heads_q 2 is not a multiple of heads_kv 4",
       "every key head"},
      {"product", [](auto& p) { p.batch = kHuge, p.seqlen_k = kHuge; },
       "batch 1099511627776 x heads 1 x length 1099511627776 x head dim 128 overflows", "2^62"},
      {"product without a batch", [](auto& p) { p.batch = 0, p.heads_q = kHuge, p.seqlen_q = kHuge; }, "overflows",
       "2^62"},
      {"product without rows", [](auto& p) { p.batch = kHuge, p.heads_q = kHuge, p.seqlen_q = p.seqlen_k = 0; },
       "overflows", "2^62"},
      {"bias", [](auto& p) { p.bias = BiasKind::elementwise, p.heads_q = 4, p.seqlen_q = p.seqlen_k = 1 << 30; },
       "a bias of batch 1 x heads 4 x 1073741824 queries x 1073741824 keys overflows", "2^62"},
      {"generic mask", [](auto& p) { p.mask = MaskKind::generic; }, "mask is generic", "top_left or bottom_right"},
      {"causal mask", [](auto& p) { p.mask = MaskKind::causal; }, "mask is causal", "top_left or bottom_right"},
      {"window", [](auto& p) { p.window_left = -2; }, "the window is (-2, -1)", "-1 for none"},
      {"window right", [](auto& p) { p.window_right = -100; }, "the window is (-1, -100)", "-1 for none"},
      {"overlapping masks", [](auto& p) { p.mask = MaskKind::top_left, p.window_left = 4, p.window_right = 1; },
       "overlapping masks", "-1 or 0 with a causal mask"},
      {"a window beyond a causal mask",
       [](auto& p) { p.mask = MaskKind::top_left, p.window_left = 4, p.window_right = 3; }, "overlapping masks",
       "those of diagonal 3 with a left bound of 7"},
      {"a diagonal of no mask", [](auto& p) { p.diagonal = -1; }, "without a mask or window", "or a window"},
      {"a far diagonal", [](auto& p) { p.mask = MaskKind::top_left, p.diagonal = INT64_MIN; }, "diagonal is -9",
       " to "},
  };
  for (const Refusal& refusal : refusals) {
    SCOPED_TRACE(refusal.what);
    AttentionProblem problem;
    refusal.change(problem);
    const Status status = validate(problem);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, refusal.code);
    EXPECT_NE(status.error().message.find(refusal.message), std::string::npos) << status.error().message;
    EXPECT_NE(status.error().hint.find(refusal.hint), std::string::npos) << status.error().hint;
  }
}

TEST(AttentionProblem, NothingToDoIsValid) {
  for (const auto change : {+[](AttentionProblem& p) { p.batch = 0; }, +[](AttentionProblem& p) { p.seqlen_q = 0; },
                            +[](AttentionProblem& p) { p.seqlen_k = 0; }}) {
    AttentionProblem problem;
    change(problem);
    EXPECT_TRUE(validate(problem));
    EXPECT_EQ(visible_pairs(problem), 0);
  }
}

TEST(AttentionProblem, WindowsMeanWhatTheMaskSays) {
  const auto window = [](MaskKind mask, std::int64_t left, std::int64_t right) {
    AttentionProblem p;
    p.mask = mask;
    p.window_left = left;
    p.window_right = right;
    const MaskWindow w = window_of(p);
    return std::tuple(w.left, w.right, w.bottom_right, signature_of(p).mask);
  };
  EXPECT_EQ(window(MaskKind::none, -1, -1), std::tuple(-1, -1, false, MaskKind::none));
  EXPECT_EQ(window(MaskKind::none, 3, -1), std::tuple(3, -1, true, MaskKind::generic));
  EXPECT_EQ(window(MaskKind::none, -1, 0), std::tuple(-1, 0, true, MaskKind::generic));
  EXPECT_EQ(window(MaskKind::top_left, -1, -1), std::tuple(-1, 0, false, MaskKind::generic));
  EXPECT_EQ(window(MaskKind::top_left, 7, 0), std::tuple(7, 0, false, MaskKind::generic));
  EXPECT_EQ(window(MaskKind::bottom_right, 0, -1), std::tuple(0, 0, true, MaskKind::generic));
  // A bound at the end of the number range must not overflow when lengths are added to it.
  EXPECT_EQ(window(MaskKind::none, INT64_MAX, INT64_MAX), std::tuple(kHuge, kHuge, true, MaskKind::generic));
}

/// Counts pair by pair.
double counted_pairs(const AttentionProblem& p) {
  const bool bottom_right = p.mask == MaskKind::bottom_right || p.mask == MaskKind::none;
  const std::int64_t o = (bottom_right ? p.seqlen_k - p.seqlen_q : 0) + p.diagonal;
  double pairs = 0;
  for (std::int64_t i = 0; i < p.seqlen_q; ++i)
    for (std::int64_t j = 0; j < p.seqlen_k; ++j)
      pairs += (p.window_left < 0 || j >= i + o - p.window_left) &&
               (p.window_right < 0 || j <= i + o + p.window_right) && (p.mask == MaskKind::none || j <= i + o);
  return pairs * static_cast<double>(p.batch * p.heads_q);
}

TEST(AttentionProblem, VisiblePairsAreThoseCountedOneByOne) {
  const RandomStream random{5, 0};
  std::uint64_t draw = 0;
  const auto below = [&](std::uint64_t bound) { return static_cast<std::int64_t>(random.below(draw++, bound)); };
  for (int i = 0; i < 400; ++i) {
    AttentionProblem p{.batch = below(3), .heads_q = 1 + below(3), .seqlen_q = below(20), .seqlen_k = below(20)};
    p.mask = std::array{MaskKind::none, MaskKind::top_left, MaskKind::bottom_right}[static_cast<std::size_t>(below(3))];
    p.window_left = below(25) - 1;
    p.window_right = p.mask == MaskKind::none ? below(25) - 1 : -1;
    if (below(2) == 0 && (p.mask != MaskKind::none || p.window_left >= 0 || p.window_right >= 0))
      p.diagonal = below(61) - 30;
    ASSERT_EQ(visible_pairs(p), counted_pairs(p))
        << p.seqlen_q << " " << p.seqlen_k << " mask " << static_cast<int>(p.mask) << " " << p.window_left << " "
        << p.window_right;
  }
}

TEST(AttentionProblem, PairsOfLongSequencesNeedNoLoop) {
  AttentionProblem p{.heads_q = 1,
                     .heads_kv = 1,
                     .seqlen_q = kHuge,
                     .seqlen_k = kHuge,
                     .head_dim_qk = 1,
                     .head_dim_v = 1,
                     .mask = MaskKind::top_left};
  const auto n = static_cast<double>(kHuge);
  EXPECT_DOUBLE_EQ(visible_pairs(p), n * (n + 1) / 2);
}

TEST(AttentionProblem, WorkAndTrafficFollowTheShape) {
  AttentionProblem p{
      .batch = 2, .heads_q = 6, .heads_kv = 3, .seqlen_q = 10, .seqlen_k = 20, .head_dim_qk = 8, .head_dim_v = 4};
  EXPECT_EQ(flops_of(p), 2.0 * (8 + 4) * 2 * 6 * 10 * 20);
  EXPECT_EQ(bytes_of(p), 2.0 * 2 * (6 * 10 + 3 * 20) * (8 + 4));
  p.data_type = DataType::fp32;
  EXPECT_EQ(bytes_of(p), 4.0 * 2 * (6 * 10 + 3 * 20) * (8 + 4));
}

TEST(AttentionProblem, DenseStridesAreThoseOfTheLayout) {
  AttentionProblem p{.batch = 3,
                     .heads_q = 4,
                     .heads_kv = 2,
                     .seqlen_q = 5,
                     .seqlen_k = 7,
                     .head_dim_qk = 16,
                     .head_dim_v = 8,
                     .bias = BiasKind::elementwise};
  const AttentionArguments bhsd = dense_arguments(p, AttentionLayout::bhsd);
  EXPECT_EQ(std::tuple(bhsd.q_strides.batch, bhsd.q_strides.head, bhsd.q_strides.row),
            std::tuple(4 * 5 * 16, 5 * 16, 16));
  EXPECT_EQ(std::tuple(bhsd.v_strides.batch, bhsd.v_strides.head, bhsd.v_strides.row), std::tuple(2 * 7 * 8, 7 * 8, 8));
  EXPECT_EQ(std::tuple(bhsd.lse_strides.batch, bhsd.lse_strides.head, bhsd.lse_strides.row), std::tuple(4 * 5, 5, 1));
  EXPECT_EQ(
      std::tuple(bhsd.bias_strides.batch, bhsd.bias_strides.head, bhsd.bias_strides.row, bhsd.bias_strides.column),
      std::tuple(4 * 5 * 7, 5 * 7, 7, 1));
  EXPECT_FLOAT_EQ(bhsd.scale, 0.25f);
  const AttentionArguments bshd = dense_arguments(p, AttentionLayout::bshd);
  EXPECT_EQ(std::tuple(bshd.k_strides.batch, bshd.k_strides.head, bshd.k_strides.row),
            std::tuple(7 * 2 * 16, 16, 2 * 16));
  p.page_size = 64;
  const AttentionArguments pages = dense_arguments(p, AttentionLayout::bshd);
  EXPECT_EQ(std::tuple(pages.k_strides.batch, pages.k_strides.head, pages.k_strides.row),
            std::tuple(64 * 2 * 16, 16, 2 * 16));
  EXPECT_EQ(pages.q_strides.batch, bshd.q_strides.batch);
  p.page_size = 0;
  p.mode = SequenceMode::group;
  const AttentionArguments packed = dense_arguments(p, AttentionLayout::bhsd, 11, 13);
  EXPECT_EQ(std::tuple(packed.q_strides.head, packed.q_strides.row), std::tuple(11 * 16, 16));
  EXPECT_EQ(std::tuple(packed.k_strides.head, packed.k_strides.row), std::tuple(13 * 16, 16));
  EXPECT_EQ(packed.lse_strides.head, 11);
}

/// A problem with every pointer it can need, in small arrays, and one change that makes its call wrong.
struct Call {
  AttentionProblem problem{.batch = 2,
                           .heads_q = 4,
                           .heads_kv = 2,
                           .seqlen_q = 3,
                           .seqlen_k = 5,
                           .head_dim_qk = 8,
                           .head_dim_v = 8,
                           .soft_cap = true,
                           .sink = true,
                           .dropout = true,
                           .lse = true};
  AttentionArguments arguments;
  float numbers[8] = {};
  std::int32_t offsets_q[3] = {0, 3, 5}, offsets_k[3] = {0, 0, 5};

  void complete(SequenceMode mode, BiasKind bias) {
    problem.mode = mode;
    problem.bias = bias;
    arguments = dense_arguments(problem, AttentionLayout::bhsd, offsets_q[2], offsets_k[2]);
    arguments.q = arguments.k = arguments.v = numbers;
    arguments.o = numbers;
    arguments.lse = numbers;
    arguments.bias = arguments.alibi = arguments.sink = numbers;
    arguments.cu_seqlens_q = offsets_q;
    arguments.cu_seqlens_k = offsets_k;
    arguments.soft_cap = 30;
    arguments.dropout_probability = 0.5;
  }
};

TEST(AttentionArguments, PackedTensorsWithoutRowsMayBeNull) {
  Call call;
  call.complete(SequenceMode::group, BiasKind::elementwise);
  for (std::int32_t& offset : call.offsets_q) offset = 0;
  for (std::int32_t& offset : call.offsets_k) offset = 0;
  AttentionArguments& a = call.arguments;
  a.q = a.k = a.v = nullptr;
  a.o = nullptr;
  a.lse = nullptr;
  a.bias = nullptr;
  EXPECT_TRUE(validate(call.problem, a, DeviceKind::cpu));
  // A GPU's offsets lie on the device: the call's totals tell.
  a.total_q = a.total_k = 1;
  const Status on_gpu = validate(call.problem, a, DeviceKind::cuda);
  ASSERT_FALSE(on_gpu);
  EXPECT_EQ(on_gpu.error().message, "q is null");
  a.total_q = 0;
  const Status with_keys = validate(call.problem, a, DeviceKind::hip);
  ASSERT_FALSE(with_keys);
  EXPECT_EQ(with_keys.error().message, "k is null");
  a.total_k = 0;
  EXPECT_TRUE(validate(call.problem, a, DeviceKind::cuda));
  EXPECT_TRUE(validate(call.problem, a, DeviceKind::hip));
}

struct WrongCall {
  const char* what;
  SequenceMode mode;
  BiasKind bias;
  std::function<void(Call&)> change;
  const char* message;
  const char* hint;
};

TEST(AttentionArguments, EveryRefusalNamesTheValueAndWhatWouldBeRight) {
  constexpr auto kBatch = SequenceMode::batch;
  constexpr auto kGroup = SequenceMode::group;
  constexpr auto kNone = BiasKind::none;
  const WrongCall calls[] = {
      {"q", kBatch, kNone, [](Call& c) { c.arguments.q = nullptr; }, "q is null", "queries"},
      {"k", kBatch, kNone, [](Call& c) { c.arguments.k = nullptr; }, "k is null", "keys"},
      {"v", kBatch, kNone, [](Call& c) { c.arguments.v = nullptr; }, "v is null", "values"},
      {"o", kBatch, kNone, [](Call& c) { c.arguments.o = nullptr; }, "o is null", "output"},
      {"lse", kBatch, kNone, [](Call& c) { c.arguments.lse = nullptr; }, "lse is null", "log-sum-exp"},
      {"bias", kBatch, BiasKind::elementwise, [](Call& c) { c.arguments.bias = nullptr; }, "bias is null",
       "elementwise"},
      {"alibi", kBatch, BiasKind::alibi, [](Call& c) { c.arguments.alibi = nullptr; }, "alibi is null", "ALiBi"},
      {"sink", kBatch, kNone, [](Call& c) { c.arguments.sink = nullptr; }, "sink is null", "sink logits"},
      {"offsets q", kGroup, kNone, [](Call& c) { c.arguments.cu_seqlens_q = nullptr; }, "cu_seqlens_q is null",
       "batch + 1"},
      {"offsets k", kGroup, kNone, [](Call& c) { c.arguments.cu_seqlens_k = nullptr; }, "cu_seqlens_k is null",
       "batch + 1"},
      {"first offset", kGroup, kNone, [](Call& c) { c.offsets_q[0] = 1; }, "cu_seqlens_q[0] is 1", "0"},
      {"decreasing offsets", kGroup, kNone, [](Call& c) { c.offsets_k[1] = 5, c.offsets_k[2] = 2; },
       "cu_seqlens_k[2] - cu_seqlens_k[1] is -3", "0 to 5"},
      {"too long a sequence", kGroup, kNone, [](Call& c) { c.offsets_q[1] = 4; },
       "cu_seqlens_q[1] - cu_seqlens_q[0] is 4", "0 to 3"},
      {"extreme offsets", kGroup, kNone, [](Call& c) { c.offsets_q[1] = INT32_MAX, c.offsets_q[2] = INT32_MIN; },
       "cu_seqlens_q[1]", "0 to 3"},
      {"negative stride", kBatch, kNone, [](Call& c) { c.arguments.k_strides.head = -8; }, "k has the stride -8",
       "0 (broadcast) or more"},
      {"stride overflows", kBatch, kNone, [](Call& c) { c.arguments.q_strides.row = INT64_MAX; },
       "q: a dimension of 3 with stride 9223372036854775807 overflows", "2^62"},
      {"strides overflow together", kBatch, kNone,
       [](Call& c) { c.arguments.v_strides.batch = INT64_MAX, c.arguments.v_strides.head = INT64_MAX; },
       "v: a dimension of 2", "2^62"},
      {"bytes overflow", kBatch, kNone, [](Call& c) { c.arguments.q_strides.batch = std::int64_t{1} << 62; },
       "q: its furthest element", "2^62"},
      {"bias overflows", kBatch, BiasKind::elementwise,
       [](Call& c) { c.arguments.bias_strides.column = INT64_MAX / 2; }, "bias: a dimension of 5", "2^62"},
      {"bias backwards", kBatch, BiasKind::elementwise, [](Call& c) { c.arguments.bias_strides.column = -1; },
       "bias has the stride -1", "0 (broadcast)"},
      {"alibi backwards", kBatch, BiasKind::alibi, [](Call& c) { c.arguments.alibi_batch_stride = -4; },
       "alibi has the stride -4", "0 (broadcast)"},
      {"rows of o", kBatch, kNone, [](Call& c) { c.arguments.o_strides.row = 7; },
       "elements of o overlap: a dimension of 3 has stride 7", "at least 8"},
      {"heads of o", kBatch, kNone, [](Call& c) { c.arguments.o_strides.head = 0; },
       "elements of o overlap: a dimension of 4 has stride 0", "at least 1"},
      {"batches of o", kBatch, kNone, [](Call& c) { c.arguments.o_strides.batch = 95; },
       "elements of o overlap: a dimension of 2 has stride 95", "at least 96"},
      {"rows of lse", kBatch, kNone, [](Call& c) { c.arguments.lse_strides.row = 0; }, "elements of lse overlap",
       "at least 1"},
      {"scale", kBatch, kNone, [](Call& c) { c.arguments.scale = NAN; }, "scale is nan", "finite"},
      {"infinite scale", kBatch, kNone, [](Call& c) { c.arguments.scale = kInfinity; }, "scale is inf", "finite"},
      {"softcap", kBatch, kNone, [](Call& c) { c.arguments.soft_cap = 0; }, "soft_cap is 0", "positive"},
      {"infinite softcap", kBatch, kNone, [](Call& c) { c.arguments.soft_cap = kInfinity; }, "soft_cap is inf",
       "positive"},
      {"dropout of 1", kBatch, kNone, [](Call& c) { c.arguments.dropout_probability = 1; }, "dropout_probability is 1",
       "below 1"},
      {"negative dropout", kBatch, kNone, [](Call& c) { c.arguments.dropout_probability = -0.5f; },
       "dropout_probability is -0.5", "0 or more"},
      {"no dropout number", kBatch, kNone, [](Call& c) { c.arguments.dropout_probability = NAN; },
       "dropout_probability is nan", "0 or more"},
  };
  for (const WrongCall& wrong : calls) {
    SCOPED_TRACE(wrong.what);
    Call call;
    call.complete(wrong.mode, wrong.bias);
    const Status right = validate(call.problem, call.arguments);
    ASSERT_TRUE(right) << right.error().text();
    wrong.change(call);
    const Status status = validate(call.problem, call.arguments);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(status.error().message.find(wrong.message), std::string::npos) << status.error().message;
    EXPECT_NE(status.error().hint.find(wrong.hint), std::string::npos) << status.error().hint;
  }
}

TEST(AttentionArguments, WhatTheProblemDoesNotUseIsNotAskedFor) {
  AttentionProblem problem{.seqlen_q = 0, .seqlen_k = 4};
  AttentionArguments arguments = dense_arguments(problem, AttentionLayout::bhsd);
  EXPECT_FALSE(validate(problem, arguments)) << "there are keys";
  problem.seqlen_k = 0;
  EXPECT_TRUE(validate(problem, arguments));
  problem = {.heads_q = 2, .heads_kv = 2, .seqlen_q = 4, .seqlen_k = 4};
  arguments = dense_arguments(problem, AttentionLayout::bshd);
  float memory = 0;
  arguments.q = arguments.k = arguments.v = arguments.o = &memory;
  arguments.soft_cap = -1;
  arguments.dropout_probability = -2e10f;
  EXPECT_TRUE(validate(problem, arguments));
  EXPECT_EQ(cpu_arguments(problem, arguments, 1, nullptr).drop_threshold, 0u);
}

TEST(AttentionArguments, PagesAreCheckedAsFarAsTheyAreRead) {
  Call call;
  call.problem.page_size = 4;
  call.problem.seqlen_k = 16;
  call.complete(SequenceMode::batch, BiasKind::none);
  std::int32_t lengths[2] = {9, 16};
  std::int32_t numbers[] = {2, 0, 1, -1, 3, 2, 1, 0};
  AttentionPages& pages = call.arguments.pages;
  pages = {.lengths = lengths, .numbers = numbers, .stride = 4, .num_pages = 4};
  const auto message = [&] {
    const Status status = validate(call.problem, call.arguments);
    return status ? std::string() : status.error().message;
  };
  EXPECT_EQ(message(), "");  // the entry behind the first sequence's last page is not read
  lengths[0] = 13;
  EXPECT_EQ(message(), "page 3 of sequence 0, which has 13 keys, is number -1");
  lengths[0] = 17;
  EXPECT_EQ(message(), "pages.lengths[0] is 17");
  lengths[0] = 9;
  numbers[4] = 4;
  EXPECT_EQ(message(), "page 0 of sequence 1, which has 16 keys, is number 4");
  call.problem.window_left = 9;  // 3 queries: the first sees keys 4 to 13
  EXPECT_EQ(message(), "");
  call.problem.window_left = 10;
  EXPECT_NE(message(), "");
  numbers[4] = 3;
  const std::int32_t offsets[2] = {4, -1};
  pages.offsets = offsets;
  EXPECT_EQ(message(), "pages.offsets[1] is -1");
  pages.offsets = nullptr;
  pages.numbers = nullptr;  // a dense cache
  EXPECT_EQ(message(), "no page numbers, for 2 sequences of up to 16 keys in 4 pages of 4");
  call.problem.page_size = 16;
  EXPECT_EQ(message(), "");
  pages.lengths = nullptr;
  EXPECT_NE(message(), "");
}

TEST(AttentionArguments, InterleavedOutputsAreApart) {
  AttentionProblem problem{
      .batch = 2, .heads_q = 3, .heads_kv = 3, .seqlen_q = 4, .seqlen_k = 4, .head_dim_qk = 8, .head_dim_v = 8};
  AttentionArguments arguments = dense_arguments(problem, AttentionLayout::bhsd);
  float memory = 0;
  arguments.q = arguments.k = arguments.v = arguments.o = &memory;
  for (const AttentionStrides strides : {AttentionStrides{96, 8, 24}, {8, 16, 48}, {1000, 100, 10}, {200, 8, 50}}) {
    arguments.o_strides = strides;
    EXPECT_TRUE(validate(problem, arguments)) << strides.batch << " " << strides.head << " " << strides.row;
  }
  arguments.q_strides = {0, 0, 0};
  EXPECT_TRUE(validate(problem, arguments)) << "inputs may be broadcast";
}

TEST(AttentionArguments, DropoutActsInStepsOf65536ths) {
  AttentionProblem problem{.dropout = true};
  AttentionArguments arguments;
  for (const auto& [probability, threshold] :
       {std::pair{0.0f, 0u}, {0.5f, 32768u}, {0.1f, 6554u}, {0.999999f, 65535u}}) {
    arguments.dropout_probability = probability;
    EXPECT_EQ(cpu_arguments(problem, arguments, 1, nullptr).drop_threshold, threshold) << probability;
  }
}

}  // namespace
}  // namespace tilesmith
