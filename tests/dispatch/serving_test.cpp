// Merging partial results and appending to caches, against float64; and pages' invariance.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "dispatch/attention/append_plan.hpp"
#include "dispatch/choice.hpp"
#include "dispatch/test_store.hpp"
#include "problem/attention/append.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

std::vector<float> normal(std::size_t count, std::uint64_t stream) {
  std::vector<float> values(count);
  fill_normal(values, {7, stream}, 1.0F, 1);
  return values;
}

TEST(MergeStates, AgreesWithFloat64) {
  constexpr std::int64_t kStates = 4, kRows = 37, kDim = 300;
  std::vector<std::vector<float>> outputs, lses;
  std::vector<const void*> output_pointers;
  std::vector<const float*> lse_pointers;
  for (std::uint64_t s = 0; s < kStates; ++s) {
    outputs.push_back(normal(kRows * kDim, s));
    lses.push_back(normal(kRows, 10 + s));
    for (float& lse : lses.back()) lse *= 30;
    if (s == 2) std::ranges::fill(outputs.back(), std::numeric_limits<float>::quiet_NaN());
    if (s == 2) std::ranges::fill(lses.back(), kNothing);
    lses.back().front() = kNothing;
    output_pointers.push_back(outputs.back().data());
    lse_pointers.push_back(lses.back().data());
  }
  std::vector<float> o(kRows * kDim, 5), lse(kRows, 5);
  Dispatcher dispatcher({.threads = 2});
  MergeStates call;
  call.data_type = DataType::fp32;
  call.states = kStates;
  call.seqlen = kRows;
  call.head_dim = kDim;
  call.outputs = output_pointers.data();
  call.lses = lse_pointers.data();
  call.output_strides = call.o_strides = {0, 0, kDim};
  call.input_lse_strides = call.lse_strides = {0, 0, 1};
  call.o = o.data();
  call.lse = lse.data();
  const Status merged = dispatcher.merge_states(call);
  ASSERT_TRUE(merged) << merged.error().text();
  EXPECT_EQ(lse[0], kNothing);
  for (std::size_t c = 0; c < kDim; ++c) EXPECT_EQ(o[c], 0);
  for (std::size_t row = 1; row < kRows; ++row) {
    double top = static_cast<double>(kNothing), sum = 0;
    for (const auto& each : lses) top = std::max(top, static_cast<double>(each[row]));
    for (const auto& each : lses) sum += std::exp(static_cast<double>(each[row]) - top);
    EXPECT_NEAR(static_cast<double>(lse[row]), top + std::log(sum), 1e-6 * std::abs(top) + 1e-6);
    for (std::size_t c = 0; c < kDim; ++c) {
      double want = 0;
      for (std::size_t s = 0; s < kStates; ++s)
        if (s != 2)
          want +=
              std::exp(static_cast<double>(lses[s][row]) - top) / sum * static_cast<double>(outputs[s][row * kDim + c]);
      ASSERT_NEAR(static_cast<double>(o[row * kDim + c]), want, 1e-6);
    }
  }
}

TEST(MergeStates, SaysWhatIsWrong) {
  Dispatcher dispatcher({.threads = 1});
  MergeStates call;
  const auto message = [&] {
    const Status status = dispatcher.merge_states(call);
    return status ? std::string("accepted") : status.error().text();
  };
  EXPECT_NE(message().find("states is 0"), std::string::npos);
  call.states = 1;
  EXPECT_NE(message().find("outputs"), std::string::npos);
  call.data_type = DataType::int8;
  EXPECT_NE(message().find("merge_states of int8"), std::string::npos);
}

TEST(AppendKv, SaysWhatIsWrong) {
  Dispatcher dispatcher({.threads = 1});
  AppendKv call;
  call.data_type = DataType::fp32;
  call.head_dim_qk = call.head_dim_v = 8;
  call.page_size = 4;
  const auto message = [&] {
    const Status status = dispatcher.append_kv(call);
    return status ? std::string("accepted") : status.error().text();
  };
  EXPECT_NE(message().find("pages.lengths"), std::string::npos);
  const std::int32_t length = 4;
  call.pages.lengths = &length;
  call.pages.num_pages = 1;
  EXPECT_NE(message().find("goes to row 4"), std::string::npos);
  call.rotary.dim = 3;
  EXPECT_NE(message().find("rotary.dim is 3"), std::string::npos);
}

TEST(AppendKv, ReadsNoEntryBeforeTheList) {
  Dispatcher dispatcher({.threads = 1});
  const std::int32_t length = 0, offset = -3, number = 0;
  AppendKv call;
  call.data_type = DataType::fp32;
  call.pages = {.lengths = &length, .numbers = &number, .offsets = &offset, .num_pages = 1};
  const Status status = dispatcher.append_kv(call);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().text().find("pages.offsets[0] is -3"), std::string::npos) << status.error().text();
}

/// A decode step of one sequence that appends its token to a dense cache of four rows.
struct AppendStep {
  static constexpr std::int64_t kDim = 8, kRows = 4;
  AttentionProblem problem{.data_type = DataType::fp32,
                           .seqlen_k = kRows,
                           .head_dim_qk = kDim,
                           .head_dim_v = kDim,
                           .page_size = kRows,
                           .append = true};
  std::vector<float> k = normal(kRows * kDim, 1), v = normal(kRows * kDim, 2), o = std::vector<float>(kDim);
  std::vector<float> new_k = normal(kDim, 3), new_v = normal(kDim, 4), q = normal(kDim, 5);
  std::int32_t length = 3;

  AttentionArguments arguments() {
    AttentionArguments a = dense_arguments(problem, AttentionLayout::bhsd);
    a.q = q.data();
    a.k = k.data();
    a.v = v.data();
    a.o = o.data();
    a.pages = {.lengths = &length, .num_pages = 1};
    a.append.k = new_k.data();
    a.append.v = new_v.data();
    a.append.k_strides = a.append.v_strides = a.append.q_out_strides = {kDim, kDim, kDim};
    return a;
  }
  /// One query that sees every key.
  std::vector<double> expected() const {
    std::vector<double> weights, out(kDim);
    double sum = 0;
    for (std::size_t j = 0; j < static_cast<std::size_t>(length); ++j) {
      double dot = 0;
      for (std::size_t c = 0; c < kDim; ++c) dot += static_cast<double>(q[c]) * static_cast<double>(k[j * kDim + c]);
      weights.push_back(std::exp(dot / std::sqrt(static_cast<double>(kDim))));
      sum += weights.back();
    }
    for (std::size_t j = 0; j < weights.size(); ++j)
      for (std::size_t c = 0; c < kDim; ++c) out[c] += weights[j] / sum * static_cast<double>(v[j * kDim + c]);
    return out;
  }
};

TEST(AppendAttention, WritesWhereItThenReads) {
  AppendStep step;
  Dispatcher dispatcher({.threads = 2});
  const auto plan = dispatcher.plan(step.problem);
  ASSERT_TRUE(plan) << plan.error().text();
  EXPECT_EQ((*plan)->steps().front().role, "append");
  EXPECT_EQ((*plan)->steps().back().role, "compute");
  const std::vector<float> before = step.k;
  const Status ran = (*plan)->run(step.arguments());
  ASSERT_TRUE(ran) << ran.error().text();
  for (std::size_t i = 0; i < step.k.size(); ++i) {
    const std::size_t row = i / AppendStep::kDim, column = i % AppendStep::kDim;
    EXPECT_EQ(step.k[i], row == 2 ? step.new_k[column] : before[i]) << i;
  }
  const std::vector<double> expected = step.expected();
  for (std::size_t c = 0; c < expected.size(); ++c) EXPECT_NEAR(static_cast<double>(step.o[c]), expected[c], 1e-6);
}

TEST(AppendAttention, SaysWhatIsWrongAndWritesNothing) {
  AppendStep step;
  Dispatcher dispatcher({.threads = 1});
  const auto plan = dispatcher.plan(step.problem);
  ASSERT_TRUE(plan) << plan.error().text();
  const std::vector<float> before = step.k;
  const auto expect = [&](const char* said, auto change) {
    AttentionArguments a = step.arguments();
    change(a);
    const Status status = (*plan)->run(a);
    ASSERT_FALSE(status) << said;
    EXPECT_NE(status.error().text().find(said), std::string::npos) << status.error().text();
    EXPECT_EQ(step.k, before);
  };
  const std::int32_t wrong = 3, five = 5;
  const std::int64_t far = 4;
  expect("lengths_before[0] is 3, and the sequence has 3 keys, 1 new ones included",
         [&](auto& a) { a.append.lengths_before = &wrong; });
  expect("pages.lengths[0] is 5", [&](auto& a) { a.pages.lengths = &five; });
  expect("goes to page 1", [&](auto& a) { a.append.slots = &far; });
  expect("k is null", [](auto& a) { a.append.k = nullptr; });
  expect("rotary.cos", [](auto& a) { a.append.rotary = {.dim = 8, .positions = 4}; });
  expect("k_scale is to be chosen for new rows, and the problem has no page_scale",
         [](auto& a) { a.append.chooses_k_scale = true; });
}

TEST(AppendAttention, AnyNumberOfThreadsAtOnce) {
  Dispatcher dispatcher({.threads = 2});
  const auto plan = dispatcher.plan(AppendStep{}.problem);
  ASSERT_TRUE(plan) << plan.error().text();
  std::vector<std::thread> callers;
  std::vector<int> right(4);
  for (int& count : right)
    callers.emplace_back([&] {
      AppendStep step;
      for (int call = 0; call < 200; ++call) {
        std::ranges::fill(step.o, 0.0F);
        const bool ran = (*plan)->run(step.arguments()).has_value();
        const std::vector<double> expected = step.expected();
        count += ran && std::abs(static_cast<double>(step.o.back()) - expected.back()) < 1e-6 ? 1 : 0;
      }
    });
  for (std::thread& caller : callers) caller.join();
  for (const int count : right) EXPECT_EQ(count, 200);
}

/// Two calls, as devices without a kernel for both have it.
TEST(AppendAttention, AppendsThenAttends) {
  struct Fake final : DirectBackend<AppendKvCall> {
    explicit Fake(AppendStep& of) : step(of) {}
    Status run(const AppendKv& call, const RunOptions&) override {
      ++calls;
      EXPECT_EQ(call.k_cache, step.k.data());
      EXPECT_EQ(call.seqlen, 1);
      std::ranges::copy(step.new_k, step.k.begin() + 2 * AppendStep::kDim);
      std::ranges::copy(step.new_v, step.v.begin() + 2 * AppendStep::kDim);
      return {};
    }
    AppendStep& step;
    int calls = 0;
  };
  AppendStep step;
  Fake append(step);
  const auto backend = open_backend({}, 1);
  ASSERT_TRUE(backend) << backend.error().text();
  const auto kernels = (*backend)->find<AttentionFwd>();
  ASSERT_TRUE(kernels) << kernels.error().text();
  auto attend = choose_plan<AttentionFwd>(**kernels, attended(step.problem), {});
  ASSERT_TRUE(attend) << attend.error().text();
  const auto plan = append_plan(step.problem, std::move(*attend), append);
  EXPECT_EQ(plan->steps().front().role, "append");
  step.length = 5;
  EXPECT_FALSE(plan->run(step.arguments()));
  EXPECT_EQ(append.calls, 0);
  step.length = 3;
  const Status ran = plan->run(step.arguments());
  ASSERT_TRUE(ran) << ran.error().text();
  EXPECT_EQ(append.calls, 1);
  const std::vector<double> expected = step.expected();
  for (std::size_t c = 0; c < expected.size(); ++c) EXPECT_NEAR(static_cast<double>(step.o[c]), expected[c], 1e-6);
}

/// Attention of one query on keys in pages, (pages, heads, page, dim), of sequences in a table.
struct Cache {
  static constexpr std::int64_t kHeads = 2, kPage = 16, kDim = 64, kQueries = 8;
  std::vector<float> k, v;
  std::int64_t pages = 0;

  std::vector<float> attend(std::span<const std::int32_t> lengths, std::span<const std::int32_t> table,
                            std::int64_t width, std::span<const float> q, int threads) const {
    const AttentionProblem problem{.data_type = DataType::fp32,
                                   .batch = static_cast<std::int64_t>(lengths.size()),
                                   .heads_q = kQueries,
                                   .heads_kv = kHeads,
                                   .seqlen_q = 1,
                                   .seqlen_k = width * kPage,
                                   .head_dim_qk = kDim,
                                   .head_dim_v = kDim,
                                   .page_size = kPage};
    Dispatcher dispatcher({.threads = threads});
    const auto plan = dispatcher.plan(problem);
    EXPECT_TRUE(plan) << plan.error().text();
    AttentionArguments call = dense_arguments(problem, AttentionLayout::bhsd);
    std::vector<float> o(q.size());
    call.q = q.data();
    call.k = k.data();
    call.v = v.data();
    call.o = o.data();
    call.pages = {.lengths = lengths.data(), .numbers = table.data(), .stride = width, .num_pages = pages};
    const Status ran = (*plan)->run(call);
    EXPECT_TRUE(ran) << ran.error().text();
    return o;
  }
};

TEST(Pages, ASequencesBitsDependOnNothingBesideIt) {
  constexpr std::int64_t kWidth = 70;
  constexpr std::size_t kRow = Cache::kQueries * Cache::kDim;
  const std::vector<std::int32_t> lengths{1111, 3, 0, 640};
  Cache cache;
  cache.pages = 4 * kWidth;
  const auto elements = static_cast<std::size_t>(cache.pages * Cache::kHeads * Cache::kPage * Cache::kDim);
  cache.k = normal(elements, 1);
  cache.v = normal(elements, 2);
  std::vector<std::int32_t> table(4 * kWidth);
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<std::int32_t>(i);
  const std::vector<float> q = normal(4 * kRow, 3);
  for (const int threads : {1, 3}) {
    const std::vector<float> all = cache.attend(lengths, table, kWidth, q, threads);
    for (std::size_t b = 0; b < 4; ++b)  // alone
      EXPECT_EQ(cache.attend({&lengths[b], 1}, std::span(table).subspan(b * kWidth, kWidth), kWidth,
                             std::span(q).subspan(b * kRow, kRow), threads),
                std::vector<float>(all.begin() + static_cast<std::ptrdiff_t>(b * kRow),
                                   all.begin() + static_cast<std::ptrdiff_t>((b + 1) * kRow)));
    Cache renamed = cache;  // the pages in another order
    std::vector<std::int32_t> other = table;
    const std::size_t page = elements / static_cast<std::size_t>(cache.pages);
    for (std::size_t i = 0; i < table.size(); ++i) {
      other[i] = static_cast<std::int32_t>(i * 131 % table.size());
      std::copy_n(cache.k.begin() + static_cast<std::ptrdiff_t>(i * page), page,
                  renamed.k.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(other[i]) * page));
      std::copy_n(cache.v.begin() + static_cast<std::ptrdiff_t>(i * page), page,
                  renamed.v.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(other[i]) * page));
    }
    EXPECT_EQ(renamed.attend(lengths, other, kWidth, q, threads), all);
  }
}

}  // namespace
}  // namespace tilesmith
